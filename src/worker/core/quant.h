/* The sum of V gradients that has the same bits whoever adds what, in any order.
 *
 * Role       Pure arithmetic, the only file of worker/core with floating point.
 * Idea       A block has a scale e (a power of two), known before the step starts. Each slot's
 *            element becomes the integer Q = round_to_nearest_even(x * 2^-e); integers add up
 *            exactly in any order; one final rounding gives float32(sum(Q) * 2^e / V).
 * Scale      Follows the largest |x| of the block over all slots of the last step, its peak M:
 *            e is such that M fills QUANT_AIM_BITS bits. Peaks merge by max, so every member
 *            derives the same next scale from final data. Scales are training state: they are
 *            streamed to joiners and saved in checkpoints.
 * Window     A block fits when it is all zero or 2^QUANT_LOW_BITS <= M * 2^-e < 2^QUANT_HIGH_BITS.
 *            Otherwise the whole step is redone with the scale of the peaks just seen, which then
 *            fits by construction (same gradients, same peaks). Rare: the first step, or a block
 *            that grows 2^13 or shrinks 2^14 within one step. A block that is zero keeps its
 *            scale; one that never had a gradient borrows the largest of its tensor.
 * Limits     |Q| < 2^51 and V <= 1024, so |sum| < 2^61: int64 never overflows.
 * Error      Of the mean y: |y - exact| <= 2^(e-1) + 2^-24 |y| <= M 2^-25 + 2^-24 |y|; usually (M
 *            just filling QUANT_AIM_BITS) M 2^-38 + 2^-24 |y|, where an fp32 tree over V slots has
 *            log2(V) 2^-24 mean|x|. M is the peak of the block, not of the element: elements far
 *            below their block's peak are exact to M 2^-25, not to their own size.
 * IEEE       NaN in any slot, or +Inf with -Inf, gives NaN; else one Inf gives it. Zero sums are
 *            +0. A finite mean is finite even where the plain sum would overflow.
 * Rounding   Needs the default mode (nearest even, no flush of denormals) and no -ffast-math.
 */
#ifndef SHOAL_WORKER_CORE_QUANT_H
#define SHOAL_WORKER_CORE_QUANT_H

#include "worker/core/layout.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    QUANT_AIM_BITS = 38,
    QUANT_LOW_BITS = 24,
    QUANT_HIGH_BITS = 51,
    QUANT_SLOTS_MAX = 1024,
    QUANT_SCALE_UNSET = INT16_MIN, /* no gradient seen yet */
    QUANT_SCALE_MIN = -190,        /* smallest denormal: exponent -149, minus 37, with room */
    QUANT_SCALE_MAX = 95,
    QUANT_NAN = 1, /* bits of special[] */
    QUANT_POSITIVE_INF = 2,
    QUANT_NEGATIVE_INF = 4,
};

/* One accumulator over a layout, or over a run of its blocks. Arrays are the caller's. */
struct quant_sum {
    int64_t *sum;     /* [elements] */
    uint32_t *peak;   /* [blocks] bits of the largest finite |x| as float32 */
    uint8_t *odd;     /* [blocks] 1: special[] of this block holds something */
    uint8_t *special; /* [elements] QUANT_* bits, valid where odd is 1 */
};

/* Adds one slot's gradient x[element_count]. `first` stores instead, so nothing needs zeroing. */
void quant_add(const struct layout *layout, const int16_t *scale, const float *x, bool first,
               struct quant_sum *into);

/* Clears blocks [0, block_count) that hold element_count elements. */
void quant_clear(struct quant_sum *sum, uint32_t block_count, uint64_t element_count);

/* Adds sum[count] of another accumulator; the other side bytes merge through quant_merge(). */
void quant_add_words(int64_t *into, const int64_t *words, uint64_t count);

/* Merges block `block` (elements [0, count) at special): peak by max, odd and special by or. */
void quant_merge_block(uint32_t *into_peak, uint8_t *into_odd, uint8_t *into_special, uint32_t peak,
                       const uint8_t *special, uint64_t count);

/* Means over `slots` of one block of `count` elements. special may be NULL when not odd. */
void quant_mean(const int64_t *sum, const uint8_t *special, uint64_t count, int16_t scale,
                uint32_t slots, float *ret_mean);

/* Does a block with this peak fit the window of this scale? */
bool quant_fits(uint32_t peak, int16_t scale);

/* Next scales from merged peaks. Returns whether every block fitted the old ones (then the step is
 * good); if not, the step must be redone with the new ones. */
bool quant_rescale(const struct layout *layout, const uint32_t *peak, int16_t *scale);

/* Scales from outside (a peer, a file): what quant_rescale() cannot have made becomes unset. */
void quant_check_scales(int16_t *scale, uint32_t block_count);

/* Elementwise float sum, for the plain reduction that the benchmark compares with. */
void quant_add_floats(float *into, const float *words, uint64_t count);

#endif
