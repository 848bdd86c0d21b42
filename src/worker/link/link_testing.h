/* Pairs of links inside one process, for tests and fuzzers. */
#ifndef SHOAL_WORKER_LINK_LINK_TESTING_H
#define SHOAL_WORKER_LINK_LINK_TESTING_H

#include "worker/link/link.h"

/* Both ends of one link of this kind over `streams` streams (tcp, tls); end[0] dialled. False: the
 * machine refused. */
bool link_pair(enum link_kind kind, uint32_t streams, struct link *end[2]);
/* The same over TLS, each side with its own token. */
bool link_tls_pair(const char *token[2], uint32_t streams, struct link *end[2]);

/* Connected, non-blocking TCP sockets on loopback. */
bool link_socket_pair(int fd[2]);

#endif
