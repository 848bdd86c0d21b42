/* One all-reduce over the group: partial integer sums to the chunk's owner, float means back.
 *
 * Role       Pure. Counts what has come and gone and lays out PART and MEAN frames; whoever owns
 *            the sockets pulls frames for a member when there is room, so nothing is queued and an
 *            abort is one call.
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
 * Wire       PART: tag, first block, block count, empty flag, 0, slots[16 words], then sums, peaks,
 *            odd flags, specials of odd blocks. An empty part (no slots) stands for the whole
 *            chunk. MEAN: tag, first block, block count, then means and peaks. Payloads must lie at
 *            8-byte boundaries.
 */
#ifndef SHOAL_WORKER_CORE_EXCHANGE_H
#define SHOAL_WORKER_CORE_EXCHANGE_H

#include "worker/core/wire.h"

struct exchange_link { /* one other member; own entry: only slots are used */
    uint32_t part_sent, part_got, mean_sent, mean_got; /* next block */
    bool told_slots, knows_slots;
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

/* A payload from member `from`. False: it breaks the rules, drop the peer. Old turns are fine. */
bool exchange_part(struct exchange *x, uint32_t from, const uint8_t *bytes, size_t count);
bool exchange_mean(struct exchange *x, uint32_t from, const uint8_t *bytes, size_t count);

/* Next payload for member `to` into bytes[WIRE_PAYLOAD_MAX]; 0: nothing now. */
size_t exchange_fill(struct exchange *x, uint32_t to, uint8_t *bytes, enum wire_kind *ret_kind);

bool exchange_is_done(const struct exchange *x);

#endif
