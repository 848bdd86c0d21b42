/* HTTP to the server, for the commands and for programs that drive a pool (examples/demo).
 *
 * Finding    --server URL, else $SHOAL_SERVER, else the url in DATA/server.json, else
 *            http://127.0.0.1:7070. The token: the file $SHOAL_TOKEN_FILE, else DATA/token. DATA is
 *            --data, else "shoal-data". server.json is read again by every client_open(), so a
 *            restarted server is found.
 * Errors     Sentences. The server's own ("error" of its answer) come through as they are.
 * Ownership  Answers are the caller's: json_decref(), client_reply_free().
 * Threads    One client per thread; it keeps its connection between calls.
 */
#ifndef SHOAL_CLI_CLIENT_H
#define SHOAL_CLI_CLIENT_H

#include "base/error.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct client;

struct client_options {
    const char *server, *data; /* NULL: not given */
};

struct client_request {
    const char *method, *path; /* "GET", "/v1/jobs" */
    const char *body, *type;   /* NULL: no body */
    const char *idempotency_key;
};

struct client_reply {
    long status; /* HTTP */
    char *text;  /* never NULL after success */
    size_t bytes;
};

/* Does not connect yet. */
struct client *client_open(const struct client_options *options, struct error *ret_error);
void client_close(struct client *client);
const char *client_url(const struct client *client);

/* true: the server answered with a status below 400. */
bool client_call(struct client *client, const struct client_request *request,
                 struct client_reply *ret_reply, struct error *ret_error) WARN_UNUSED;
void client_reply_free(struct client_reply *reply);

/* The same, answer parsed. NULL: the sentence tells. */
json_t *client_get(struct client *client, const char *path, struct error *ret_error);
json_t *client_post(struct client *client, const char *path, const char *type, const char *body,
                    struct error *ret_error);
/* Is a healthy server there? Quiet: false for any reason. */
bool client_is_up(struct client *client);

/* Members of a row, with "" and 0 for what is absent. */
const char *row_text(const json_t *row, const char *key);
json_int_t row_int(const json_t *row, const char *key);
double row_real(const json_t *row, const char *key);
const json_t *row_list(const json_t *row, const char *key); /* NULL: none; json_array_foreach is
                                                               fine with that */

/* The counting part of a node key or worker id, for people: 2196824232296449 -> 1. Their upper bits
 * are the same for all of one journal (core/limits.h, KEY_SHIFT). */
int64_t key_short(int64_t key);
json_int_t row_short(const json_t *row, const char *key);

#endif
