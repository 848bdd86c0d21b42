/* What quant.c (adding up), quant_kernel.c (its loops) and quant_mean.c (finishing) share. */
#ifndef SHOAL_WORKER_CORE_QUANT_BLOCK_H
#define SHOAL_WORKER_CORE_QUANT_BLOCK_H

#include "worker/core/quant.h"
#include <string.h>

#define SIGNLESS UINT32_C(0x7fffffff)
#define INFINITE UINT32_C(0x7f800000)
#define DIGITS   ((uint16_t)((1u << QUANT_DIGITS) - 1))
#define LOW      ((uint16_t)(1u << QUANT_PAGE_LOW))
#define SPECIAL  ((uint16_t)(1u << QUANT_PAGE_SPECIAL))

enum { LEVEL_ZERO = INT32_MIN, LEVEL_WORD = 31, LOW_BITS = 22 };

/* What adding up blocks needs to know of one of them. */
struct block {
    uint64_t at, count;
    int exponent; /* e */
    int fine, deep;
};

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int scale_in_use(int16_t scale)
{
    return scale == QUANT_SCALE_UNSET ? QUANT_SCALE_FIRST : scale;
}

static inline struct block block_of(const struct quant_sum *sum, uint32_t block, int16_t scale)
{
    const uint64_t *start = &sum->layout->start[block];
    return (struct block){.at = start[0],
                          .count = start[1] - start[0],
                          .exponent = scale_in_use(scale) - 31,
                          .fine = sum->fine,
                          .deep = QUANT_LEVEL_DEEP};
}

/* 2^-e: -127 <= e <= 97. */
static inline float inverse_of(const struct block *of)
{
    return float_of((uint32_t)(127 - of->exponent) << 23);
}

static inline uint8_t peak_byte(uint32_t bits)
{
    if (bits == 0) return 0;
    return (uint8_t)(bits >> 23 == 0 ? 1 : bits >> 23);
}

static inline int level_of(const struct block *block, uint8_t peak)
{
    return peak == 0 ? LEVEL_ZERO : (int)peak - 126 - block->exponent;
}

static inline uint8_t joined_peak(const struct quant_part *a, const struct quant_part *b)
{
    return b != NULL && b->peak > a->peak ? b->peak : a->peak;
}

#endif
