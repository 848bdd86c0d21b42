/* Streaming the whole training state from members that have it to one that has not, verified by
 * hashes.
 *
 * Role       Pure. State is a list of memory segments seen as one run of bytes: weights, then
 *            scales. It is cut into as many near equal stripes as there are sources, and each source
 *            sends another one: so a join takes the size over the sum of their bandwidths. The
 *            receiver fills a shadow first and copies it over only when the hashes at the ends of all
 *            stripes agree, so a source that dies half way costs nothing.
 * Messages   As those of the exchange (span.h), over the same links: a header with a mark of its
 *            own, tag, offset, total and hash (of the stripe's bytes, in its last piece, else 0),
 *            sealed as theirs are; the bytes leave from where they lie, and must stay as they are
 *            until the receiver has said that it has them all. An empty stripe has no message.
 */
#ifndef SHOAL_WORKER_CORE_TRANSFER_H
#define SHOAL_WORKER_CORE_TRANSFER_H

#include "worker/core/span.h"

struct transfer_segment {
    uint8_t *bytes;
    uint64_t count;
};

struct transfer_state {
    const struct transfer_segment *segment;
    uint32_t segment_count;
    uint64_t total_bytes;
};

/* Four lanes of multiply and rotate over 8-byte words; fed in pieces, any split, same value. */
struct transfer_hash {
    uint64_t lane[4], count_bytes;
    uint8_t tail[8];
};

struct transfer_out { /* a stripe on its way, at one end or the other */
    bool active;
    uint64_t offset, end;
    struct transfer_hash hash;
};

struct transfer_in {
    bool active;
    uint32_t stripes_left;
    struct transfer_out stripe[GROUP_MEMBERS_MAX]; /* one a source */
    uint8_t *shadow;                               /* total_bytes, the caller's */
};

/* Bytes [first, end) of the state are stripe `stripe` of `stripe_count`. */
void transfer_stripe(const struct transfer_state *state, uint32_t stripe, uint32_t stripe_count,
                     uint64_t *ret_first, uint64_t *ret_end);
void transfer_send(struct transfer_out *out, const struct transfer_state *state, uint32_t stripe,
                   uint32_t stripe_count);
void transfer_receive(struct transfer_in *in, const struct transfer_state *state,
                      uint32_t stripe_count);
/* Its source begins this stripe anew, unless it is here already (false). */
bool transfer_repeat(struct transfer_in *in, const struct transfer_state *state, uint32_t stripe,
                     uint32_t stripe_count);

/* Next message; false: all were given. */
bool transfer_next(struct transfer_out *out, const struct transfer_state *state,
                   const struct wire_tag *tag, struct exchange_message *ret_message);
/* Is this a header of state? Then it is for this tag. */
bool transfer_is_state(const uint8_t *header, struct wire_tag *ret_tag);

uint64_t transfer_digest(const struct transfer_state *state); /* of all its bytes */
uint64_t transfer_digest_range(const struct transfer_state *state, uint64_t first, uint64_t end);

enum transfer_result { TRANSFER_BAD = 1, TRANSFER_MORE, TRANSFER_DONE };
/* This stripe is in the shadow already, read from elsewhere. */
enum transfer_result transfer_own(struct transfer_in *in, uint32_t stripe,
                                  const struct transfer_state *state);
/* A message of the right tag, of this stripe. DONE: the state is in place. BAD: drop the peer. */
enum transfer_result transfer_take(struct transfer_in *in, uint32_t stripe,
                                   const struct transfer_state *state, const uint8_t *header,
                                   const uint8_t *payload, size_t count);

#endif
