/* What a ranking program says, one line of JSON for each that it was asked:
 *
 *     {"round": 7, "counts": {"12": 1500000, "13": 900000}}
 *
 * `counts`: by the number of an offer, what a node of it counts as, in micro-dollars per hour, above 0. An
 * offer that is left out counts as the built-in ranking has it. Anything else is nonsense, and said.
 */
#ifndef SHOAL_CODEC_RANK_ANSWER_H
#define SHOAL_CODEC_RANK_ANSWER_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { RANK_ANSWER_BYTES_MAX = 4 << 20 };

typedef void rank_count_fn(void *self, uint64_t offer_id, int64_t usd_micros_per_hour);

/* `count` is called for each offer, and for none unless all of the answer is good. */
bool rank_answer_read(const char *text, size_t bytes, uint64_t round, rank_count_fn *count,
                      void *self, struct error *ret_error) WARN_UNUSED;

#endif
