/* A peer program that is measured in turn with ours: it waits on its standard input for work.
 *
 * Protocol   Lines. The peer first prints who it is, then answers each line with a number. Its
 *            standard error is ours.
 * Ownership  The environment is a list of "NAME=value" (set) and "NAME" (removed), NULL at the end,
 *            applied to the child alone.
 */
#ifndef SHOAL_BENCH_PEER_H
#define SHOAL_BENCH_PEER_H

#include "base/error.h"
#include <stdio.h>
#include <sys/types.h>

struct peer {
    FILE *to, *from;
    pid_t process;
    char name[128]; /* its first line */
};

bool peer_start(struct peer *ret_peer, const char *const *argv, const char *const *environment,
                struct error *ret_error) WARN_UNUSED;
bool peer_ask(struct peer *peer, const char *question, double *ret_answer,
              struct error *ret_error) WARN_UNUSED;
void peer_stop(struct peer *peer); /* closes its input and waits for its end; {0} is fine */

#endif
