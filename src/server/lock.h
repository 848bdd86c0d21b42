/* One server per data folder, and where it can be reached.
 *
 * Role       lock_take() holds flock(2) on DIR/lock for as long as the process lives: a crash frees
 *            it. server.json {"url","pid"} is written once the server listens and is what
 *            commands and a second server read.
 * Errors     A second server gets a sentence with pid and url of the first.
 */
#ifndef SHOAL_SERVER_LOCK_H
#define SHOAL_SERVER_LOCK_H

#include "base/error.h"

/* The descriptor to keep open, -1 and a sentence otherwise. */
int lock_take(const char *dir, struct error *ret_error) WARN_UNUSED;
void lock_release(int fd);

bool lock_write_server(const char *dir, const char *url, struct error *ret_error) WARN_UNUSED;
void lock_remove_server(const char *dir);

#endif
