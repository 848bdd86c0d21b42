#include "worker/core/quant.h"
#include "core/assert.h"
#include <assert.h>
#include <string.h>

static_assert(QUANT_HIGH_BITS + 10 < 63, "1024 slots of 51 bits fit int64");
static_assert(QUANT_LOW_BITS < QUANT_AIM_BITS, "the aim lies inside the window");
static_assert(QUANT_AIM_BITS < QUANT_HIGH_BITS, "the aim lies inside the window");

#define SIGNLESS UINT32_C(0x7fffffff)
#define INFINITE UINT32_C(0x7f800000)

/* Adding 1.5 * 2^52 to |q| < 2^51 leaves the rounded integer in the low bits of the double. */
static const double magic = 6755399441055744.0;

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int64_t bits_of_double(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double power_of_two(int exponent)
{
    ASSERT(exponent > -1022);
    ASSERT(exponent < 1023);
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* floor(log2(peak)), peak > 0 as float32 bits. */
static int exponent_of(uint32_t peak)
{
    ASSERT(peak > 0);
    ASSERT(peak < INFINITE);
    if (peak >> 23 != 0) return (int)(peak >> 23) - 127;
    return -149 + 31 - __builtin_clz(peak);
}

bool quant_fits(uint32_t peak, int16_t scale)
{
    if (peak == 0) return true;
    if (scale == QUANT_SCALE_UNSET) return false;
    int bits = exponent_of(peak) - scale;
    return bits >= QUANT_LOW_BITS && bits < QUANT_HIGH_BITS;
}

/* Signed compares: without the sign bit the order is the same, and SSE2 has no unsigned ones. */
static uint32_t peak_of(const float *x, uint64_t count)
{
    int32_t peak = 0;
    for (uint64_t i = 0; i < count; i++) {
        int32_t bits = (int32_t)(bits_of(x[i]) & SIGNLESS);
        peak = bits > peak ? bits : peak;
    }
    return (uint32_t)peak;
}

static void add_block(const float *restrict x, uint64_t count, double inverse, bool first,
                      int64_t *restrict sum)
{
    const int64_t zero = bits_of_double(magic);
    if (first) {
        for (uint64_t i = 0; i < count; i++)
            sum[i] = bits_of_double((double)x[i] * inverse + magic) - zero;
    } else {
        for (uint64_t i = 0; i < count; i++)
            sum[i] += bits_of_double((double)x[i] * inverse + magic) - zero;
    }
}

/* Copies x with NaN and Inf replaced by 0 and noted in special. Returns the finite peak. */
static uint32_t note_specials(const float *x, uint64_t count, float *ret_finite, uint8_t *special)
{
    uint32_t peak = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(x[i]), size = bits & SIGNLESS;
        ret_finite[i] = size < INFINITE ? x[i] : 0;
        if (size < INFINITE) {
            peak = size > peak ? size : peak;
            continue;
        }
        uint8_t kind = size > INFINITE ? QUANT_NAN
                       : bits == size  ? QUANT_POSITIVE_INF
                                       : QUANT_NEGATIVE_INF;
        special[i] |= kind;
    }
    return peak;
}

void quant_add(const struct layout *layout, const int16_t *scale, const float *x, bool first,
               struct quant_sum *into)
{
    for (uint32_t block = 0; block < layout->block_count; block++) {
        uint64_t start = layout->start[block], count = layout->start[block + 1] - start;
        float finite[LAYOUT_BLOCK_ELEMENTS];
        const float *from = x + start;
        uint32_t peak = peak_of(from, count);
        if (first) into->peak[block] = into->odd[block] = 0;
        if (peak >= INFINITE) {
            if (into->odd[block] == 0) memset(into->special + start, 0, count);
            into->odd[block] = 1;
            peak = note_specials(from, count, finite, into->special + start);
            from = finite;
        }
        if (peak > into->peak[block]) into->peak[block] = peak;
        /* Too large to quantise: the peak alone asks for a redo, the sum of this step is void. */
        bool usable = peak != 0 && scale[block] != QUANT_SCALE_UNSET &&
                      exponent_of(peak) - scale[block] < QUANT_HIGH_BITS;
        if (usable)
            add_block(from, count, power_of_two(-scale[block]), first, into->sum + start);
        else if (first)
            memset(into->sum + start, 0, count * sizeof *into->sum);
    }
}

void quant_clear(struct quant_sum *sum, uint32_t block_count, uint64_t element_count)
{
    memset(sum->sum, 0, element_count * sizeof *sum->sum);
    memset(sum->peak, 0, block_count * sizeof *sum->peak);
    memset(sum->odd, 0, block_count);
}

void quant_add_words(int64_t *restrict into, const int64_t *restrict words, uint64_t count)
{
    /* Unsigned: words from outside may be anything, and signed overflow is undefined. */
    for (uint64_t i = 0; i < count; i++)
        into[i] = (int64_t)((uint64_t)into[i] + (uint64_t)words[i]);
}

void quant_merge_block(uint32_t *into_peak, uint8_t *into_odd, uint8_t *into_special, uint32_t peak,
                       const uint8_t *special, uint64_t count)
{
    if (peak > *into_peak) *into_peak = peak;
    if (special == NULL) return;
    if (*into_odd == 0) memset(into_special, 0, count);
    *into_odd = 1;
    for (uint64_t i = 0; i < count; i++) into_special[i] |= special[i];
}

/* Rounds to odd where 53 bits do not suffice: a later rounding to 24 bits then sees on which side
 * of the middle the exact value lies, so that the two roundings act as one. */
static double odd_double(int64_t value)
{
    const int64_t exact = INT64_C(1) << 53;
    if (value > -exact && value < exact) return (double)value;
    return (double)((value >> 10) | ((value & 1023) != 0)) * 1024.0;
}

/* value / slots as m * 2^-shift with m rounded to odd to 53 bits. */
static double odd_quotient(int64_t value, uint32_t slots, int *ret_shift)
{
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    int shift = size == 0 ? 0 : __builtin_clzll(size) - 1;
    uint64_t scaled = size << shift, quotient = scaled / slots;
    quotient |= quotient * slots != scaled;
    *ret_shift = shift;
    return odd_double(value < 0 ? -(int64_t)quotient : (int64_t)quotient);
}

static float mean_of(int64_t sum, int scale, uint32_t slots)
{
    int shift;
    double quotient = odd_quotient(sum, slots, &shift);
    return (float)(quotient * power_of_two(scale - shift));
}

/* Are all sums below 2^51 in size? Then adding the magic bits makes each an exact double. */
static bool sums_are_small(const int64_t *sum, uint64_t count)
{
    uint64_t bits = 0;
    for (uint64_t i = 0; i < count; i++) bits |= (uint64_t)(sum[i] ^ -(int64_t)(sum[i] < 0));
    return bits >> 51 == 0;
}

static void scale_sums(const int64_t *restrict sum, uint64_t count, double unit,
                       float *restrict ret_mean)
{
    const int64_t zero = bits_of_double(magic);
    if (!sums_are_small(sum, count)) {
        for (uint64_t i = 0; i < count; i++) ret_mean[i] = (float)(odd_double(sum[i]) * unit);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        int64_t bits = sum[i] + zero;
        double value;
        memcpy(&value, &bits, sizeof value);
        ret_mean[i] = (float)((value - magic) * unit);
    }
}

static float special_of(uint8_t kinds, float finite)
{
    const uint32_t infinite = INFINITE, nan = UINT32_C(0x7fc00000);
    uint32_t bits;
    if (kinds == 0) return finite;
    if (kinds == QUANT_POSITIVE_INF)
        bits = infinite;
    else if (kinds == QUANT_NEGATIVE_INF)
        bits = infinite | ~SIGNLESS;
    else
        bits = nan;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void quant_mean(const int64_t *sum, const uint8_t *special, uint64_t count, int16_t scale,
                uint32_t slots, float *ret_mean)
{
    ASSERT(slots > 0);
    ASSERT(slots <= QUANT_SLOTS_MAX);
    int exponent = scale == QUANT_SCALE_UNSET ? 0 : scale; /* unset: every sum is 0 */
    if ((slots & (slots - 1)) == 0)
        scale_sums(sum, count, power_of_two(exponent - __builtin_ctz(slots)), ret_mean);
    else
        for (uint64_t i = 0; i < count; i++) ret_mean[i] = mean_of(sum[i], exponent, slots);
    if (special == NULL) return;
    for (uint64_t i = 0; i < count; i++) ret_mean[i] = special_of(special[i], ret_mean[i]);
}

static void borrow_scales(const struct layout *layout, uint32_t tensor, int16_t *scale)
{
    int16_t largest = QUANT_SCALE_UNSET;
    for (uint32_t b = layout->tensor_block[tensor]; b < layout->tensor_block[tensor + 1]; b++)
        if (scale[b] > largest) largest = scale[b];
    for (uint32_t b = layout->tensor_block[tensor]; b < layout->tensor_block[tensor + 1]; b++)
        if (scale[b] == QUANT_SCALE_UNSET) scale[b] = largest;
}

bool quant_rescale(const struct layout *layout, const uint32_t *peak, int16_t *scale)
{
    bool fitted = true;
    for (uint32_t block = 0; block < layout->block_count; block++) {
        fitted = fitted && quant_fits(peak[block], scale[block]);
        if (peak[block] == 0) continue;
        scale[block] = (int16_t)(exponent_of(peak[block]) + 1 - QUANT_AIM_BITS);
        ASSERT(scale[block] >= QUANT_SCALE_MIN);
        ASSERT(scale[block] <= QUANT_SCALE_MAX);
    }
    for (uint32_t tensor = 0; tensor < layout->tensor_count; tensor++)
        borrow_scales(layout, tensor, scale);
    return fitted;
}

void quant_check_scales(int16_t *scale, uint32_t block_count)
{
    for (uint32_t b = 0; b < block_count; b++)
        if (scale[b] < QUANT_SCALE_MIN || scale[b] > QUANT_SCALE_MAX) scale[b] = QUANT_SCALE_UNSET;
}

void quant_add_floats(float *restrict into, const float *restrict words, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) into[i] += words[i];
}
