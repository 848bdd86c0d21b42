/* Ranges of arrays from those who have them to those who need them: the new weights after a step,
 * the moments at a re-cut.
 *
 * Role       Pure, and like exchange.h: what is to be sent to whom follows from the map alone, both
 *            sides know it, a message lies in place as header and spans, nothing is queued.
 * WEIGHTS    The owner of a unit sends what it applied to everybody but the mirror, which has
 *            applied the same. Only blocks below `applied` may leave.
 * MOMENTS    The moves of a cut (shard_moves): old holders send to new ones, all arrays of a range
 *            in one message. Once handover_may_leave() is called: what is held may have to be read first.
 * Place      A range is written where it belongs, as it comes: the receiver does not hold these
 *            blocks before it holds all of them, and whoever sends twice sends the same bytes.
 * Messages   As in exchange.h, told apart by handover_is_ours(). A message covers blocks of one run
 *            of consecutive units for the same receiver, at most EXCHANGE_PAYLOAD_MAX bytes. Its header
 *            is sealed and holds the sum of the payload's words.
 */
#ifndef SHOAL_WORKER_CORE_HANDOVER_H
#define SHOAL_WORKER_CORE_HANDOVER_H

#include "worker/core/exchange.h"

enum { HANDOVER_ARRAYS_MAX = EXCHANGE_SPANS_MAX };

enum handover_kind { HANDOVER_WEIGHTS = 1, HANDOVER_MOMENTS };

struct handover_link { /* next block of what goes to, comes from this member */
    uint32_t sent, got;
};

struct handover {
    bool begun;
    enum handover_kind kind;
    struct wire_tag tag;
    const struct layout *layout;
    const struct shard_map *map;     /* of the turn; for MOMENTS the new one */
    const struct shard_moves *moves; /* MOMENTS */
    uint32_t member_count, me;
    uint32_t block_end; /* blocks that have such an array: all but the loss */
    uint32_t applied;   /* blocks of mine below this may leave; for MOMENTS none or all */
    uint32_t array_count;
    float *array[HANDOVER_ARRAYS_MAX]; /* [elements] each */
    enum quant_isa isa;
    uint64_t sent_bytes; /* payload, since the beginning of time */
    struct handover_link link[GROUP_MEMBERS_MAX];
};

/* kind, tag, map, moves, arrays, isa, member_count and me must be set; the rest is worked out. */
void handover_begin(struct handover *h);
void handover_abort(struct handover *h);
void handover_may_leave(struct handover *h);

bool handover_is_ours(const uint8_t *header);
bool handover_next(struct handover *h, uint32_t to, struct exchange_message *ret_message);
/* False: it breaks the rules, drop the peer. Old turns are fine. */
bool handover_take(struct handover *h, uint32_t from, const uint8_t *header, const uint8_t *payload,
                   size_t count);

bool handover_is_done(const struct handover *h); /* all that I need is here */

#endif
