/* The two tokens of a data folder, and who may call what.
 *
 * Role       `token` is for people, `agent-token` for agents; neither may do the other's calls, so
 *            a token read off a rented machine cannot submit, cancel or look around.
 * Files      DIR/token and DIR/agent-token: 64 hex digits and a newline, mode 0600, made at the
 *            first start. A file that others may read, or that holds something else, is refused.
 * Compare    In constant time: how long it takes does not tell how much of a guess was right.
 */
#ifndef SHOAL_SERVER_AUTH_H
#define SHOAL_SERVER_AUTH_H

#include "base/error.h"

enum { AUTH_TOKEN_DIGITS = 64 };

struct auth {
    char person[AUTH_TOKEN_DIGITS + 1], agent[AUTH_TOKEN_DIGITS + 1];
};

enum auth_role { AUTH_NOBODY = 1, AUTH_PERSON, AUTH_AGENT };

bool auth_load(const char *dir, struct auth *ret_auth, struct error *ret_error) WARN_UNUSED;

/* `header` is the value of Authorization, NULL if there is none. */
enum auth_role auth_role_of(const struct auth *auth, const char *header);

/* Fresh random hex digits, for tokens and the secrets of jobs. */
bool auth_make_token(char ret_token[AUTH_TOKEN_DIGITS + 1], struct error *ret_error) WARN_UNUSED;

#endif
