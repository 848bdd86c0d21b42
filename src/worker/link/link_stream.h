/* What tcp and tls links share: messages over one or more byte streams.
 *
 * Wire       A message is a front of whole lines of 64 bytes (magic, lengths, check word, header,
 *            zeros), then the payload, then a mark of 8 bytes: good, or void. Message k of a
 *            direction travels on stream k mod count, so order needs no numbers.
 * Copies     None when sending: front and spans leave by one vectored write. Receiving reads the
 *            payload into one buffer per stream, where the receiver adds from it.
 */
#ifndef SHOAL_WORKER_LINK_LINK_STREAM_H
#define SHOAL_WORKER_LINK_LINK_STREAM_H

#include "worker/link/link.h"
#include <sys/types.h>
#include <sys/uio.h>

/* How bytes move on one stream. Both return the count moved, 0: not now, -1: lost. */
struct stream_io {
    ssize_t (*write)(int fd, void *ssl, const struct iovec *piece, int piece_count);
    ssize_t (*read)(int fd, void *ssl, void *bytes, size_t count);
    void (*close)(int fd, void *ssl);
};

/* Takes over the descriptors (connected, non-blocking) and the ssl objects (NULL for tcp).
 * NULL: out of memory; everything is left open. */
struct link *link_stream_open(enum link_kind kind, const struct stream_io *io, const int *fd,
                              void *const *ssl, uint32_t count);

#endif
