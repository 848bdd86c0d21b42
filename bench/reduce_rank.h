/* One rank of bench_reduce: the product's exchange over the product's links and driver, with exact
 * sums or with plain float32 ones. */
#ifndef SHOAL_BENCH_REDUCE_RANK_H
#define SHOAL_BENCH_REDUCE_RANK_H

#include "worker/link/flow.h"

enum reduce_form { REDUCE_PLAIN, REDUCE_EXACT, REDUCE_FORMS };

struct reduce_rank;

/* `bytes_max`: of float32, the largest size to come. Dies with a sentence on any failure. */
struct reduce_rank *reduce_open(uint32_t me, uint32_t ranks, uint64_t bytes_max);
/* Takes over the link to another rank. */
void reduce_link(struct reduce_rank *rank, uint32_t other, struct link *link);

/* One all-reduce: lay it out, begin, then (once all ranks have) run it. */
void reduce_set(struct reduce_rank *rank, enum reduce_form form, uint64_t bytes);
void reduce_begin(struct reduce_rank *rank);
void reduce_run(struct reduce_rank *rank);
/* Dies if the result is wrong. */
void reduce_check(const struct reduce_rank *rank);

#endif
