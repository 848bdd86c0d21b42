/* Pairs of links inside one process, for tests and fuzzers. */
#ifndef SHOAL_WORKER_LINK_TESTING_H
#define SHOAL_WORKER_LINK_TESTING_H

#include "worker/link.h"

/* Both ends of one link of this kind over `streams` streams (tcp, tls); end[0] dialled. False: the
 * machine refused. raw_fd: end[1]'s first descriptor, to send bytes of one's own, or -1: not kept.
 */
bool link_pair(enum link_kind kind, uint32_t streams, struct link *end[2]);

/* Connected, non-blocking TCP sockets on loopback. */
bool link_socket_pair(int fd[2]);

#endif
