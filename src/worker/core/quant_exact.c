#include "worker/core/quant_exact.h"
#include "core/assert.h"
#include <string.h>

#define LOWEST (-160) /* exponent of digit 0 */

double quant_power_of_two(int exponent)
{
    ASSERT(exponent > -1022);
    ASSERT(exponent < 1023);
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint8_t *quant_page(struct quant_sum *sum, uint32_t block, uint32_t index)
{
    ASSERT(index < QUANT_PAGES);
    uint64_t at = (uint64_t)block * QUANT_PAGES + index;
    if ((sum->pages[block] >> index & 1) == 0) {
        ASSERT(sum->pool_used < (uint64_t)sum->layout->block_count * QUANT_PAGES);
        sum->page[at] = (uint32_t)sum->pool_used++;
        sum->pages[block] |= (uint16_t)(1u << index);
        memset(sum->pool + (uint64_t)sum->page[at] * QUANT_PAGE_BYTES, 0, QUANT_PAGE_BYTES);
    }
    return sum->pool + (uint64_t)sum->page[at] * QUANT_PAGE_BYTES;
}

static void add_digits(struct quant_sum *sum, uint32_t block, uint64_t element, bool negative,
                       uint64_t value, int position)
{
    ASSERT(position >= 0);
    ASSERT(value < UINT64_C(1) << 32);
    uint32_t digit = (uint32_t)position / 32;
    uint64_t shifted = value << position % 32;
    for (uint64_t rest = shifted; rest != 0; rest >>= 32, digit++) {
        ASSERT(digit < QUANT_DIGITS);
        int64_t *page = (int64_t *)(void *)quant_page(sum, block, digit);
        int64_t word = (int64_t)(rest & UINT32_MAX);
        page[element] += negative ? -word : word;
    }
}

void quant_exact_add(struct quant_sum *sum, uint32_t block, uint64_t element, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int field = (int)(bits >> 52 & 2047);
    if (field == 0) return; /* zero: all we are given are normal doubles */
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int zeros = __builtin_ctzll(mantissa);
    add_digits(sum, block, element, bits >> 63 != 0, mantissa >> zeros,
               field - 1075 + zeros - LOWEST);
}

void quant_exact_carry(struct quant_sum *sum, uint32_t block, uint64_t element, int sign,
                       int exponent)
{
    ASSERT(sign == 1 || sign == -1);
    add_digits(sum, block, element, sign < 0, 1, exponent - LOWEST);
}

enum { WIDE_DIGITS = QUANT_DIGITS + 1 };

/* A number without sign, digits of 32 bits, weight of digit k as above. */
struct wide {
    uint32_t digit[WIDE_DIGITS];
    bool negative;
};

static void put_word(int64_t *digit, int32_t word, int position)
{
    int64_t shifted = (int64_t)word * (INT64_C(1) << position % 32);
    int64_t low = shifted & UINT32_MAX;
    digit[position / 32] += low;
    digit[position / 32 + 1] += (shifted - low) / (INT64_C(1) << 32);
}

/* Digits come from peers too: they may be anything, so the carries wrap instead of overflowing. */
static struct wide carried(const int64_t *digit)
{
    struct wide wide = {.negative = false};
    uint64_t carry = 0;
    for (int k = 0; k < WIDE_DIGITS; k++) {
        uint64_t sum = (uint64_t)digit[k] + carry;
        wide.digit[k] = (uint32_t)sum;
        carry = (uint64_t)((int64_t)sum >> 32);
    }
    wide.negative = carry >> 63 != 0;
    if (!wide.negative) return wide;
    uint64_t borrow = 1;
    for (int k = 0; k < WIDE_DIGITS; k++) { /* two's complement */
        borrow += ~wide.digit[k];
        wide.digit[k] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return wide;
}

/* Bits of the size, of size - 1 where negative: then -2^c counts as below 2^c, as a word's does. */
static int bits_of_wide(const struct wide *wide)
{
    int top = WIDE_DIGITS - 1;
    while (top >= 0 && wide->digit[top] == 0) top--;
    if (top < 0) return 0;
    bool is_power = (wide->digit[top] & (wide->digit[top] - 1)) == 0;
    for (int k = 0; k < top; k++) is_power = is_power && wide->digit[k] == 0;
    int bits = 32 * top + 32 - __builtin_clz(wide->digit[top]);
    return wide->negative && is_power ? bits - 1 : bits;
}

/* Quotient by slots; whether something is left over. */
static bool divide(struct wide *wide, uint32_t slots)
{
    uint64_t rest = 0;
    for (int k = WIDE_DIGITS - 1; k >= 0; k--) {
        rest = rest << 32 | wide->digit[k];
        wide->digit[k] = (uint32_t)(rest / slots);
        rest %= slots;
    }
    return rest != 0;
}

/* Rounds to odd at 53 bits: the rounding to float32 that follows then acts as the only one. */
static float round_wide(const struct wide *wide, bool rest)
{
    int top = WIDE_DIGITS - 1;
    while (top >= 0 && wide->digit[top] == 0) top--;
    if (top < 0) return 0; /* less than 2^-160, if anything */
    uint64_t high = (uint64_t)wide->digit[top] << 32 | (top > 0 ? wide->digit[top - 1] : 0);
    uint64_t next = top > 1 ? wide->digit[top - 2] : 0;
    int shift = __builtin_clzll(high);
    uint64_t window = shift == 0 ? high : high << shift | next >> (32 - shift);
    rest = rest || (shift == 0 ? next : next << shift & UINT32_MAX) != 0;
    for (int k = 0; k < top - 2; k++) rest = rest || wide->digit[k] != 0;
    uint64_t odd = window >> 11 | ((window & 2047) != 0 || rest);
    double value = (double)odd * quant_power_of_two(32 * (top - 1) + LOWEST - shift + 11);
    return (float)(wide->negative ? -value : value);
}

int quant_exact_finish(const struct quant_part *part, uint64_t count, int exponent, uint32_t slots,
                       float *ret_mean)
{
    int bits = 0;
    const uint8_t *page[QUANT_DIGITS];
    for (uint32_t k = 0; k < QUANT_DIGITS; k++)
        if ((part->pages >> k & 1) != 0) page[k] = quant_part_page(part, k);
    for (uint64_t i = 0; i < count; i++) {
        int64_t digit[WIDE_DIGITS] = {0};
        for (uint32_t k = 0; k < QUANT_DIGITS; k++)
            if ((part->pages >> k & 1) != 0)
                memcpy(&digit[k], page[k] + i * sizeof digit[k], sizeof digit[k]);
        struct wide wide;
        put_word(digit, part->word[i], exponent - LOWEST);
        wide = carried(digit);
        int size = bits_of_wide(&wide);
        if (size > bits) bits = size;
        bool rest = divide(&wide, slots);
        ret_mean[i] = round_wide(&wide, rest);
    }
    return bits + LOWEST;
}

float quant_exact_mean(int64_t value, int exponent, uint32_t slots)
{
    if (value == 0) return 0;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    int shift = __builtin_clzll(size) - 1;
    uint64_t scaled = size << shift, quotient = scaled / slots;
    bool rest = quotient * slots != scaled;
    /* 2^52 <= quotient < 2^63: 42 to 53 bits, rounded to odd. */
    uint64_t odd = quotient >> 10 | ((quotient & 1023) != 0 || rest);
    double mean = (double)odd * quant_power_of_two(exponent - shift + 10);
    return (float)(value < 0 ? -mean : mean);
}
