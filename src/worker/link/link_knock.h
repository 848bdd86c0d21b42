/* One connection of a link being made, from connect or accept to proven: used by link_door.c.
 *
 * Dialling side: connect, (tls: handshake,) say who and for what, hear the answer. Other side: see
 * by the first byte whether it is TLS, hear, be told by knock_answer() whether that is welcome, say
 * the answer. Both messages are DOOR_KNOCK_BYTES long and carry an HMAC under the job's token.
 */
#ifndef SHOAL_WORKER_LINK_LINK_KNOCK_H
#define SHOAL_WORKER_LINK_LINK_KNOCK_H

#include "worker/link/link_door.h"
#include "worker/link/link_tls.h"

struct knock_words { /* what is said, and answered in the same words */
    uint64_t from, to, key;
    uint32_t kind, stream, streams;
};

enum knock_state {
    KNOCK_CONNECTING = 1,
    KNOCK_UNKNOWN, /* accepted; TLS or not is not seen yet */
    KNOCK_SHAKING,
    KNOCK_SAYING,
    KNOCK_HEARING,
    KNOCK_WAITING, /* heard and proven; knock_answer() is due */
    KNOCK_MADE,
    KNOCK_FAILED,
};

struct knock {
    int fd, memory; /* memory: of an shm link, passed or received; -1: none */
    void *ssl;
    bool dials, is_local;
    enum knock_state state;
    struct knock_words words;
    int64_t since_us;
    size_t said, heard;
    uint8_t out[DOOR_KNOCK_BYTES], in[DOOR_KNOCK_BYTES];
};

/* `fd` non-blocking, dialled or accepted; is_local: a Unix socket. keys may be NULL: no TLS. */
void knock_begin(struct knock *knock, int fd, bool dials, bool is_local, int64_t now_us);
/* Goes as far as it can. */
void knock_step(struct knock *knock, struct tls_keys *keys, const char *token);
/* The other side's decision in KNOCK_WAITING. */
void knock_answer(struct knock *knock, const char *token, bool welcome);
void knock_end(struct knock *knock); /* closes what it still has */

/* The message, and back. False: not of this job, or for the other role. */
void knock_write(const struct knock_words *words, bool answer, const char *token,
                 uint8_t bytes[DOOR_KNOCK_BYTES]);
bool knock_read(const uint8_t bytes[DOOR_KNOCK_BYTES], bool answer, const char *token,
                struct knock_words *ret_words);

#endif
