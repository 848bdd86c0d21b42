/* A link over TLS 1.3: for members of different zones, whose bytes cross networks of others.
 *
 * Trust      Both sides prove that they know the job's token: the pre-shared key of the handshake
 *            is derived from it, so there are no certificates to make, spread or renew. A peer
 *            with another token, or without one, fails in the handshake; so does a man in the
 *            middle who offers a certificate instead.
 * Protects   What travels on the link (gradients, weights, optimizer state) against reading and
 *            changing, also later, should the token leak then (ECDHE beside the key). Not: that two
 *            workers talk, when and how much; nor against a member, who knows the token.
 * Token      Must be hard to guess (the server makes 256 random bits): whoever sees a handshake can
 *            try guesses offline. An empty token is refused.
 * Needs      AES-128-GCM with SHA-256, one cipher suite, so there is nothing to negotiate down.
 */
#ifndef SHOAL_WORKER_LINK_LINK_TLS_H
#define SHOAL_WORKER_LINK_LINK_TLS_H

#include "worker/link/link.h"

struct tls_keys;

struct tls_keys *tls_keys_open(const char *token); /* NULL: no token, or out of memory */
void tls_keys_close(struct tls_keys *keys);

/* One connection's state over a connected, non-blocking socket, which stays the caller's until
 * link_tls_open(). NULL: out of memory. `keys` must outlive the handshake. */
void *tls_start(struct tls_keys *keys, int fd, bool dials);
void tls_end(void *ssl);
enum link_result tls_handshake(void *ssl); /* DONE: the peer knows the token */
/* Bytes after the handshake; as in struct stream_io: 0: not now, -1: lost. */
int tls_write(void *ssl, const void *bytes, int count);
int tls_read(void *ssl, void *bytes, int count);

/* Takes over sockets and finished handshakes. NULL: out of memory, they are left open. */
struct link *link_tls_open(const int *fd, void *const *ssl, uint32_t count);

#endif
