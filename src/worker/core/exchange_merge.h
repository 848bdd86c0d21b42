/* Where parts become sums and sums become means: for exchange.c and exchange_message.c alone.
 *
 * Role       Pure. Every block of a chunk that this member merges (its own, or as relay) goes
 *            through the same states, whatever order own block and children's parts come in.
 */
#ifndef SHOAL_WORKER_CORE_EXCHANGE_MERGE_H
#define SHOAL_WORKER_CORE_EXCHANGE_MERGE_H

#include "worker/core/exchange.h"

/* How many members are in a set of them. */
static inline uint32_t members_in(uint64_t set)
{
    uint32_t count = 0;
    for (; set != 0; set &= set - 1) count++;
    return count;
}

/* Own slots are known now: what they mean for a chunk. */
void merge_own_known(struct exchange *x, uint32_t chunk);
/* Own block is final. Twice does no harm. */
void merge_own_block(struct exchange *x, uint32_t block);
/* A child's slots for a chunk. False: it said something else before. */
bool merge_slots(struct exchange *x, uint32_t chunk, uint32_t child, const struct slot_set *slots);
/* A child's part of a block. Returns the sum of its words, as found. */
uint32_t merge_part(struct exchange *x, uint32_t chunk, uint32_t block,
                    const struct quant_part *part);
/* The block as it goes to the parent. */
struct quant_part merge_outgoing(const struct exchange *x, uint32_t block, uint32_t *ret_check);
/* The piece's means, scales and squares are here, all of them. */
void merge_out_done(struct exchange *x, uint32_t chunk, uint32_t piece);

#endif
