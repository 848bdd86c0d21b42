/* The inner loops of the exact sum, for each kind of vector unit, all with the same bits.
 *
 * Role       Pure. Loops over one block of `count` elements (any count; the rest behind the last
 *            whole vector goes one by one). quant.c decides which loop a block needs.
 * Units      Which vectors this machine has is found out by the caller (quant_isa_best() of
 *            quant_isa.h) and given along: a core without state cannot keep it. Every unit gives
 *            the same bits; quant_test.c compares them all.
 * Check      `check` is the sum of all words written, modulo 2^32. It is linear: the check of a sum
 *            is the sum of the checks, so a word that changed on its way shows.
 * Floats     Needs the mode that quant_mode_enter() sets.
 */
#ifndef SHOAL_WORKER_CORE_QUANT_KERNEL_H
#define SHOAL_WORKER_CORE_QUANT_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* ORDER: quant_isa. Higher ones include the lower ones. */
enum quant_isa { QUANT_ISA_PORTABLE, QUANT_ISA_SSE2, QUANT_ISA_AVX2, QUANT_ISA_AVX512 };

struct quant_sum;

struct quant_flow {
    uint32_t check; /* of what was written */
    uint32_t peak;  /* set, add: largest |x| as float32 bits; NaN and Inf are above all others */
    bool overflow;  /* some sum left int32 and lost 2^32 */
};

struct quant_finish {
    struct quant_flow flow; /* of the integer sums */
    uint32_t size;          /* bits of |sum|, all sums or-ed together */
    uint32_t mean_check;    /* of the floats written, as words */
};

/* Rounds to nearest even, |value| < 2^31. Adding 1.5 * 2^52 leaves the integer in the low bits. */
static inline int32_t quant_round(float value)
{
    double shifted = (double)value + 6755399441055744.0;
    int64_t bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    return (int32_t)(uint32_t)(uint64_t)bits;
}

/* Largest |x| as float32 bits; NaN and Inf are above all others. */
uint32_t quant_kernel_peak(enum quant_isa isa, const float *x, uint64_t count);

/* word = round(x * inverse), or word += it. Needs |x * inverse| < 2^31 for all x. */
struct quant_flow quant_kernel_set(enum quant_isa isa, int32_t *word, const float *x, float inverse,
                                   uint64_t count);
struct quant_flow quant_kernel_add(enum quant_isa isa, int32_t *word, const float *x, float inverse,
                                   uint64_t count);

/* Adds blocks [first, end) of x in one pass each, as long as they are usual: without pages, at a
 * usual level or zero before, at a usual level or zero after. Returns the first block that is not
 * (end: all were). That one is as it was (an empty one may hold any words), or if
 * *ret_overflow it is added and only lacks the carries. */
uint32_t quant_kernel_run(struct quant_sum *sum, const int16_t *scale, const float *x,
                          uint32_t first, uint32_t end, bool *ret_overflow);

/* low += round((x * inverse - round(x * inverse)) * 2^22). */
void quant_kernel_low(enum quant_isa isa, int32_t *low, const float *x, float inverse,
                      uint64_t count);

/* ret = a + b modulo 2^32; ret may be a. copy: ret = a. */
struct quant_flow quant_kernel_join(enum quant_isa isa, int32_t *ret, const int32_t *a,
                                    const int32_t *b, uint64_t count);
uint32_t quant_kernel_copy(enum quant_isa isa, int32_t *ret, const int32_t *a, uint64_t count);

/* mean = float(a + b) * unit, a power of two that makes no result subnormal. */
struct quant_finish quant_kernel_finish(enum quant_isa isa, float *ret_mean, const int32_t *a,
                                        const int32_t *b, float unit, uint64_t count);

/* The same for any divisor and any result: mean = float((a + b) / V * 2^e), rounded once.
 * Why that is right without a division: |a + b| < 2^32 and V <= 2^10, so the quotient either has at
 * most 25 bits or is 2^-37 and more (relative) away from any number of 25 bits, where float32 has
 * its middles. The product with 1 / V is off by 2^-52; rounding it to 45 bits restores the former
 * and cannot carry the latter across a middle. */
struct quant_unit {
    double reciprocal, power; /* 1 / V, 2^e */
};
struct quant_finish quant_kernel_divide(enum quant_isa isa, float *ret_mean, const int32_t *a,
                                        const int32_t *b, struct quant_unit unit, uint64_t count);

/* The plain form: float sums, in the order they come. */
void quant_kernel_plain_join(enum quant_isa isa, float *ret, const float *a, const float *b,
                             uint64_t count);
void quant_kernel_plain_scale(enum quant_isa isa, float *ret, const float *a, float unit,
                              uint64_t count);

/* Sum of x^2 in double: 8 lanes by index mod 8, then a fixed tree. A product of two floats is exact
 * in double, so a fused multiply-add gives the same. */
double quant_kernel_squares(enum quant_isa isa, const float *x, uint64_t count);

/* Nearest even, no flush of denormals, nothing trapped; returns what to give back to leave. A
 * program may have set another mode in its thread (-ffast-math start code, flush-denormal). */
uint32_t quant_mode_enter(void);
void quant_mode_leave(uint32_t mode);

#endif
