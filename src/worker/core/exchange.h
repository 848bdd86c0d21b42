/* One all-reduce over the group: partial sums to the chunk's owner, float32 results back.
 *
 * Role       Pure. Counts what has come and gone and lays out messages that lie in place: a header
 *            and a few spans that point straight into the arrays. Whoever owns the links pulls
 *            messages for a member when there is room, so nothing is queued and an abort is one
 *            call.
 * Steps      1. exchange_begin(): new turn, all cursors back, own chunk cleared. Parts of faster
 *               members may arrive from now on.
 *            2. exchange_ready(): own slots are summed; parts may leave.
 *            3. own chunk: each block is finalised once everybody's part of it is in, and may leave
 *               as means.
 *            4. exchange_is_done(): all means are here: peaks[] and mean[] are whole.
 * Rule       Each member sends the set of slots its sums hold. Nothing is finalised before the sets
 *            of all members are known to be disjoint and to cover every slot: a slot cannot be
 *            missing from or twice in a mean. If they do not, exchange_is_broken().
 * Keeps      Own sums are only read, so a broken exchange is begun again from them.
 *
 * Shards     With a map (shard.h) the chunk of a member is all blocks it owns, run after run, and
 *            means go only to the mirror of their block; the others get what the next scales follow
 *            from, and the loss. exchange_is_done() then says: all means of blocks that I own or
 *            mirror are here. What becomes of them is up to member_shard.h.
 *
 * Messages   For those who move them (links). exchange_next() gives one message for one member:
 *                header[EXCHANGE_HEADER_BYTES]   opaque, always sent whole
 *                span[0 .. span_count-1]         the payload, payload_bytes in all
 *            The receiver hands the same header and the payload, contiguous and at a 16-byte
 *            boundary, to exchange_take(), which adds from it in place; afterwards the memory is
 *            the link's again. A payload is never longer than EXCHANGE_PAYLOAD_MAX; it may be
 *            empty.
 *            Messages of one pair must arrive in the order given, each once. None is given again:
 *            a link that loses one must report the member as down.
 *            The spans point into live arrays (and into `extra` of the message itself): copy or
 *            send them, then ask exchange_holds() under the machine's lock. While it holds, what
 *            was sent is consistent. If it does not, the turn has changed meanwhile, own sums may
 *            have been written to, and the message must not reach exchange_take(): a ring does not
 *            publish it, a stream sends a mark behind the payload (valid or not) and the receiver
 *            drops it. This is the price of not copying.
 *            Several messages to one member may be under way; each needs its own struct.
 */
#ifndef SHOAL_WORKER_CORE_EXCHANGE_H
#define SHOAL_WORKER_CORE_EXCHANGE_H

#include "worker/core/shard.h"
#include "worker/core/span.h"

struct exchange_link { /* one other member; own entry: only slots are used */
    uint32_t part_sent, part_got, mean_sent, mean_got; /* next block */
    bool knows_slots;
    struct slot_set slots;
};

struct exchange {
    const struct layout *layout;
    const int16_t *scale; /* of the step in work */
    struct quant_sum own; /* [elements], this member's slots */
    struct quant_sum sum; /* [elements], used in the own chunk only */
    float *mean;          /* [elements] */
    uint32_t *peak;       /* [blocks], merged */
    uint32_t slot_count;
    const struct shard_map *map; /* see Shards; NULL: equal chunks. Set before exchange_begin() */

    struct wire_tag tag;
    uint32_t member_count, me;
    uint32_t finalised; /* next block of the own chunk */
    bool begun, ready, checked, broken;
    struct exchange_link link[GROUP_MEMBERS_MAX];
};

/* The arrays stay the caller's. layout, scale, own, sum, mean, peak and slot_count must be set. */
void exchange_begin(struct exchange *x, const struct wire_tag *tag, uint32_t member_count,
                    uint32_t me);
void exchange_ready(struct exchange *x, const struct slot_set *own_slots);
void exchange_abort(struct exchange *x);

/* Next message for member `to`; false: nothing now. It counts as sent from here on. */
bool exchange_next(struct exchange *x, uint32_t to, struct exchange_message *ret_message);
/* Header and payload in one piece, for those who cannot send spans. Returns the length, at most
 * EXCHANGE_HEADER_BYTES + EXCHANGE_PAYLOAD_MAX. */
size_t exchange_copy(const struct exchange_message *message, uint8_t *bytes);
/* Are the bytes that the spans gave still what the message said? */
bool exchange_holds(const struct exchange *x, const struct exchange_message *message);
/* A message from member `from`. False: it breaks the rules, drop the peer. Old turns are fine. */
bool exchange_take(struct exchange *x, uint32_t from, const uint8_t *header, const uint8_t *payload,
                   size_t count);

bool exchange_is_done(const struct exchange *x);
/* Does this member of the turn begun own blocks? Few do when there are few blocks. */
bool exchange_owns(const struct exchange *x, uint32_t member);
/* Whose parts, and whose means, are not all here yet; bit = member. Nothing before exchange_begin().
 */
void exchange_missing(const struct exchange *x, uint64_t *ret_parts, uint64_t *ret_means);

#endif
