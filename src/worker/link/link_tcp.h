/* A link over one or more TCP connections, in the clear: for members of one zone.
 *
 * Buffers    The kernel's own tuning is kept: setting SO_RCVBUF would cap it at net.core.rmem_max,
 *            which is far below what tuning reaches. Nagle is off.
 * Zero copy  MSG_ZEROCOPY is not used: on loopback the kernel copies all the same, and on a network
 *            it pays only where the sender's core is the limit.
 */
#ifndef SHOAL_WORKER_LINK_LINK_TCP_H
#define SHOAL_WORKER_LINK_LINK_TCP_H

#include "worker/link/link.h"

/* Takes over connected, non-blocking sockets; both sides list them in the same order. NULL: out of
 * memory, they are left open. */
struct link *link_tcp_open(const int *fd, uint32_t count);

#endif
