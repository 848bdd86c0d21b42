/* From sums to means and the next scale; see quant.h. */
#include "core/assert.h"
#include "worker/core/quant_block.h"
#include "worker/core/quant_exact.h"
#include <assert.h>

static int16_t next_scale(int16_t scale, int c, bool jump)
{
    int next = c + 2;
    if (scale != QUANT_SCALE_UNSET && !jump && next < scale) next = scale - 1;
    if (next < QUANT_SCALE_MIN) next = QUANT_SCALE_MIN;
    if (next > QUANT_SCALE_MAX) next = QUANT_SCALE_MAX;
    return (int16_t)next;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Smallest c with x ^ sign(x) < 2^c. */
static int bits_in(uint64_t size)
{
    return size == 0 ? 0 : 64 - __builtin_clzll(size);
}

static int finish_low(const struct quant_part *part, const struct block *of, uint32_t slots,
                      float *ret_mean)
{
    uint64_t size = 0;
    const uint8_t *lows = (part->pages & LOW) != 0 ? quant_part_page(part, QUANT_PAGE_LOW) : NULL;
    for (uint64_t i = 0; i < of->count; i++) {
        int32_t low = 0;
        if (lows != NULL) memcpy(&low, lows + 4 * i, sizeof low);
        int64_t total = (int64_t)part->word[i] * (1 << LOW_BITS) + low;
        size |= (uint64_t)(total ^ -(int64_t)(total < 0));
        ret_mean[i] = quant_exact_mean(total, of->exponent - LOW_BITS, slots);
    }
    return bits_in(size) + of->exponent - LOW_BITS;
}

static void put_specials(const struct quant_part *part, uint64_t count, float *mean)
{
    const uint8_t *special = quant_part_page(part, QUANT_PAGE_SPECIAL);
    for (uint64_t i = 0; i < count; i++) {
        if ((special[i] & 7) == 0) continue;
        if (special[i] == QUANT_POSITIVE_INF)
            mean[i] = float_of(INFINITE);
        else
            mean[i] = float_of(special[i] == QUANT_NEGATIVE_INF ? INFINITE | ~SIGNLESS
                                                                : UINT32_C(0x7fc00000));
    }
}

static uint32_t check_of(const int32_t *word, uint64_t count)
{
    uint32_t check = 0;
    for (uint64_t i = 0; i < count; i++) check += (uint32_t)word[i];
    return check;
}

static uint32_t check_of_floats(const float *x, uint64_t count)
{
    uint32_t check = 0;
    for (uint64_t i = 0; i < count; i++) check += bits_of(x[i]);
    return check;
}

/* The sums lie in one part. */
static struct quant_result finish_slowly(const struct quant_sum *sum, const struct block *of,
                                         int16_t scale, const struct quant_part *part,
                                         float *ret_mean)
{
    int level = level_of(of, part->peak), c;
    if (part->peak == 0) {
        memset(ret_mean, 0, of->count * sizeof *ret_mean);
        c = 0;
    } else if (level <= of->fine && level > of->deep) {
        c = finish_low(part, of, sum->slots, ret_mean);
    } else {
        c = quant_exact_finish(part, of->count, of->exponent, sum->slots, ret_mean);
    }
    struct quant_result result = {.scale = scale, .check = check_of(part->word, of->count)};
    bool special = (part->pages & SPECIAL) != 0;
    if (special) put_specials(part, of->count, ret_mean);
    if (!special && part->peak != 0)
        result.scale = next_scale(scale, larger(c, (int)part->peak - 126), level <= of->deep);
    result.mean_check = check_of_floats(ret_mean, of->count);
    return result;
}

static const int32_t zeros[LAYOUT_BLOCK_ELEMENTS];

static struct quant_finish finish_words(const struct quant_sum *sum, const struct block *of,
                                        const int32_t *a, const int32_t *b, float *ret_mean)
{
    uint32_t slots = sum->slots;
    int power = of->exponent - (int)bits_in(slots) + 1; /* of 2^e / V, if V is a power of two */
    if ((slots & (slots - 1)) == 0 && power >= -126)
        return quant_kernel_finish(sum->isa, ret_mean, a, b, (float)quant_power_of_two(power),
                                   of->count);
    struct quant_unit unit = {1.0 / (double)slots, quant_power_of_two(of->exponent)};
    return quant_kernel_divide(sum->isa, ret_mean, a, b, unit, of->count);
}

static struct quant_result finish_plainly(const struct quant_sum *sum, const struct block *of,
                                          int16_t scale, const struct quant_part *a,
                                          const struct quant_part *b, float *ret_mean)
{
    const float *from = (const float *)(const void *)a->word;
    if (b != NULL) {
        quant_kernel_plain_join(sum->isa, ret_mean, from, (const float *)(const void *)b->word,
                                of->count);
        from = ret_mean;
    }
    quant_kernel_plain_scale(sum->isa, ret_mean, from, 1.0f / (float)sum->slots, of->count);
    return (struct quant_result){.scale = scale};
}

static struct quant_result finish_block(struct quant_sum *sum, uint32_t block, int16_t scale,
                                        const struct quant_part *a, const struct quant_part *b,
                                        float *ret_mean)
{
    struct block of = block_of(sum, block, scale);
    if (sum->is_plain) return finish_plainly(sum, &of, scale, a, b, ret_mean);
    uint8_t peak = joined_peak(a, b);
    bool usual = level_of(&of, peak) > of.fine && a->pages == 0 && (b == NULL || b->pages == 0);
    if (usual) {
        struct quant_finish done =
            finish_words(sum, &of, a->word, b == NULL ? zeros : b->word, ret_mean);
        int c = larger(bits_in(done.size) + of.exponent, (int)peak - 126);
        if (!done.flow.overflow)
            return (struct quant_result){.scale = next_scale(scale, c, false),
                                         .check = done.flow.check,
                                         .mean_check = done.mean_check};
    }
    if (b == NULL) return finish_slowly(sum, &of, scale, a, ret_mean);
    (void)quant_join(sum, block, scale, a, b); /* its check comes again below */
    struct quant_part whole = quant_part_of(sum, block);
    return finish_slowly(sum, &of, scale, &whole, ret_mean);
}

struct quant_result quant_finish(struct quant_sum *sum, uint32_t block, int16_t scale,
                                 const struct quant_part *a, const struct quant_part *b,
                                 float *ret_mean)
{
    uint32_t mode = quant_mode_enter();
    struct quant_result result = finish_block(sum, block, scale, a, b, ret_mean);
    quant_mode_leave(mode);
    return result;
}

void quant_check_scales(int16_t *scale, uint32_t block_count)
{
    for (uint32_t b = 0; b < block_count; b++)
        if (scale[b] < QUANT_SCALE_MIN || scale[b] > QUANT_SCALE_MAX) scale[b] = QUANT_SCALE_UNSET;
}

static_assert(QUANT_SCALE_MAX - QUANT_SCALE_MIN + 1 <= UINT8_MAX, "a scale is a byte, 0 is unset");

uint8_t quant_scale_byte(int16_t scale)
{
    return scale == QUANT_SCALE_UNSET ? 0 : (uint8_t)(scale - QUANT_SCALE_MIN + 1);
}

int16_t quant_scale_of_byte(uint8_t byte)
{
    int16_t scale = (int16_t)((int)byte + QUANT_SCALE_MIN - 1);
    return byte == 0 || scale > QUANT_SCALE_MAX ? QUANT_SCALE_UNSET : scale;
}
