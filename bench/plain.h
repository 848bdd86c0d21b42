/* A plain float32 all-reduce over the product's links and driver: what the exact one is measured
 * against, and what is measured against OpenMPI and Gloo.
 *
 * Small      (PLAIN_SMALL_BYTES in all) every rank sends everything to all others and adds in the
 *            order of ranks: one trip, no owners.
 * Large      rank j owns chunk j: parts to the owner, sums back, in pieces, as exchange.h does it.
 */
#ifndef SHOAL_BENCH_PLAIN_H
#define SHOAL_BENCH_PLAIN_H

#include "worker/flow.h"

enum { PLAIN_RANKS_MAX = 8, PLAIN_SMALL_BYTES = 16 * 1024, PLAIN_PIECE_BYTES = 64 * 1024 };

struct plain {
    uint32_t ranks, me;
    uint64_t count; /* floats */
    const float *own;
    float *sum;
    float *heard; /* small: [ranks][PLAIN_SMALL_BYTES] */
    uint64_t iteration;
    bool is_small;
    uint64_t part_sent[PLAIN_RANKS_MAX], part_got[PLAIN_RANKS_MAX]; /* next float */
    uint64_t sum_sent[PLAIN_RANKS_MAX], sum_got[PLAIN_RANKS_MAX];
    uint64_t final; /* floats of the own chunk that are whole */
};

void plain_begin(struct plain *p);
bool plain_next(struct plain *p, uint32_t to, struct exchange_message *ret_message);
bool plain_take(struct plain *p, uint32_t from, const struct link_message *message);
bool plain_is_done(
    const struct plain *p); /* all sums are here, and all that others need was taken */

#endif
