/* A block's digits: sums that float32 values of any size go into without any rounding.
 *
 * Role       Pure. The slow part of quant.h, for what does not fit a block's words.
 * Digits     Digit k of an element is an int64 of weight 2^(32 k - 160), k = 0 .. QUANT_DIGITS - 1:
 *            from below the smallest denormal to 2^10 times the largest float32. An addition puts
 *            less than 2^32 into each digit, so 2^31 of them fit; nothing is carried before the
 *            end. Each digit of a block is a page of its own, there only if something went into it.
 */
#ifndef SHOAL_WORKER_CORE_QUANT_EXACT_H
#define SHOAL_WORKER_CORE_QUANT_EXACT_H

#include "worker/core/quant.h"

/* Page `index` of a block, made (zero) when it is not there. */
uint8_t *quant_page(struct quant_sum *sum, uint32_t block, uint32_t index);

/* Adds value, a multiple of 2^-149 with at most 32 significant bits. */
void quant_exact_add(struct quant_sum *sum, uint32_t block, uint64_t element, double value);
/* Adds sign * 2^exponent. */
void quant_exact_carry(struct quant_sum *sum, uint32_t block, uint64_t element, int sign,
                       int exponent);

/* mean = (word * 2^exponent + digits) / slots, rounded once; pages as in part. Returns the smallest
 * c with -2^c <= sum < 2^c over all elements. */
int quant_exact_finish(const struct quant_part *part, uint64_t count, int exponent, uint32_t slots,
                       float *ret_mean);

/* value * 2^exponent / slots, rounded once. |value| < 2^62. */
float quant_exact_mean(int64_t value, int exponent, uint32_t slots);

double quant_power_of_two(int exponent); /* -1022 < exponent < 1023 */

#endif
