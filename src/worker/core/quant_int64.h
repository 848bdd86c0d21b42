/* The sum in 64-bit words: the simple design that quant.h replaced, kept as a second opinion.
 *
 * Role       For tests alone. A block's scale 2^e comes from the largest |x| of the same gradients,
 *            which fills 38 bits; each x becomes round(x * 2^-e) in int64, V of them add up
 *            without overflow, and one division gives the mean: |mean - exact| <= M 2^-38 + 2^-24
 *            |mean|. Finite gradients only.
 */
#ifndef SHOAL_WORKER_CORE_QUANT_INT64_H
#define SHOAL_WORKER_CORE_QUANT_INT64_H

#include <math.h>
#include <stdint.h>

/* Mean over `slots` of element i of x[slot], whose block's peak is `peak`. */
static inline double quant_int64_mean(const float *const *x, uint32_t slots, uint64_t i,
                                      double peak)
{
    int exponent = 0;
    if (peak == 0) return 0;
    (void)frexp(peak, &exponent);
    exponent -= 38;
    int64_t sum = 0;
    for (uint32_t s = 0; s < slots; s++) sum += llrint(ldexp((double)x[s][i], -exponent));
    return ldexp((double)sum / (double)slots, exponent);
}

#endif
