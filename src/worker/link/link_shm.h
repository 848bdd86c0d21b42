/* A link through shared memory: a ring of bytes per direction, and a socket as doorbell.
 *
 * Memory     A memfd, made by the side that dials and passed over the socket: no name in /dev/shm
 *            that could be guessed, left behind, or be too small (containers give 64 MB there; a
 *            memfd counts against the memory of the group). Sealed, so that nobody can shrink it
 *            under the other's feet.
 * Rings      Lock-free, one writer and one reader each. A message lies in one piece: what does not
 *            fit before the end of the ring starts at its beginning.
 * Sleep      Whoever is about to sleep sets its flag (link_arm); the other side takes it away and
 *            rings, by one byte on the socket, when it has written a message, or has made room for
 *            one that is waiting. Spinning costs no system call, nor does a link that is still.
 * Size       LINK_SHM_BYTES per link; pages are taken only when touched.
 */
#ifndef SHOAL_WORKER_LINK_LINK_SHM_H
#define SHOAL_WORKER_LINK_LINK_SHM_H

#include "worker/link/link.h"

enum {
    LINK_RING_BYTES = 1 << 20,
    LINK_SHM_BYTES = 4096 + 2 * LINK_RING_BYTES,
    /* Where the side that dialled finds what the other one writes: how far it has written, how far
     * it has read; its ring is the last one. */
    LINK_SHM_HEAD_OFFSET = 128,
    LINK_SHM_TAIL_OFFSET = 64,
};

/* A board: one page of words that a side overwrites as it likes and the other one looks at when it
 * likes. No bell rings for it. */
enum { LINK_BOARD_BYTES = 1024 };
void link_shm_post(struct link *link, const uint8_t *bytes, size_t count);
/* What the peer has posted since the last call; 0: nothing, or it is writing just now. bytes holds
 * LINK_BOARD_BYTES. */
size_t link_shm_look(struct link *link, uint8_t *bytes);

/* A sealed file of LINK_SHM_BYTES zero bytes; -1: errno tells. */
int link_shm_make(void);
/* Maps `memory`, checked to be such a file, and takes over `socket` (a connected, non-blocking
 * stream socket, owned by the link from now on); `memory` may be closed. The two sides differ in
 * `dials`. NULL: errno tells, socket is left open. */
struct link *link_shm_open(int socket, int memory, bool dials);

#endif
