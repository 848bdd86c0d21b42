#include "worker/core/quant.h"
#include "core/assert.h"
#include "worker/core/quant_exact.h"
#include <assert.h>
#include <string.h>

#define SIGNLESS UINT32_C(0x7fffffff)
#define INFINITE UINT32_C(0x7f800000)
#define DIGITS   ((uint16_t)((1u << QUANT_DIGITS) - 1))
#define LOW      ((uint16_t)(1u << QUANT_PAGE_LOW))
#define SPECIAL  ((uint16_t)(1u << QUANT_PAGE_SPECIAL))

enum { LEVEL_ZERO = INT32_MIN, LEVEL_WORD = 31, LOW_BITS = 22 };

static_assert(QUANT_SCALE_MIN - 31 - LOW_BITS >= -149, "the low word reaches every denormal");
static_assert(128 - (QUANT_SCALE_MAX - 31) <= LEVEL_WORD, "at the largest scale all fits words");

/* What adding up blocks needs to know of one of them. */
struct block {
    uint64_t at, count;
    int exponent; /* e */
    int fine, deep;
};

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* See "Error" in quant.h: 2^-(fine + 1) <= log2(V) 2^-24. */
static int fine_level(uint32_t slots)
{
    if (slots < 2) return 24;
    if (slots < 4) return 23;
    if (slots < 16) return 22;
    return slots < 256 ? 21 : 20;
}

static int scale_in_use(int16_t scale)
{
    return scale == QUANT_SCALE_UNSET ? QUANT_SCALE_FIRST : scale;
}

static struct block block_of(const struct quant_sum *sum, uint32_t block, int16_t scale)
{
    const uint64_t *start = &sum->layout->start[block];
    return (struct block){.at = start[0],
                          .count = start[1] - start[0],
                          .exponent = scale_in_use(scale) - 31,
                          .fine = sum->fine,
                          .deep = QUANT_LEVEL_DEEP};
}

static int level_of(const struct block *block, uint8_t peak)
{
    return peak == 0 ? LEVEL_ZERO : (int)peak - 126 - block->exponent;
}

/* 2^-e: -127 <= e <= 97. */
static float inverse_of(const struct block *of)
{
    return float_of((uint32_t)(127 - of->exponent) << 23);
}

static uint8_t peak_byte(uint32_t bits)
{
    if (bits == 0) return 0;
    return (uint8_t)(bits >> 23 == 0 ? 1 : bits >> 23);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t quant_size(const struct layout *layout)
{
    size_t blocks = layout->block_count;
    return aligned(layout->element_count * 4) + 2 * aligned(blocks * 4) + aligned(blocks * 2) +
           2 * aligned(blocks) + aligned(blocks * QUANT_PAGES * 4) +
           blocks * QUANT_PAGES * QUANT_PAGE_BYTES;
}

void quant_init(struct quant_sum *sum, const struct layout *layout, uint32_t slots,
                enum quant_isa isa, void *memory)
{
    size_t blocks = layout->block_count;
    uint8_t *at = memory;
    ASSERT(((uintptr_t)memory & 63) == 0);
    ASSERT(slots > 0);
    ASSERT(slots <= QUANT_SLOTS_MAX);
    ASSERT(blocks < UINT32_MAX / QUANT_PAGES); /* pages are numbered in 32 bits */
    *sum =
        (struct quant_sum){.layout = layout, .isa = isa, .slots = slots, .fine = fine_level(slots)};
    sum->word = (int32_t *)(void *)at;
    at += aligned(layout->element_count * 4);
    sum->check = (uint32_t *)(void *)at;
    at += aligned(blocks * 4);
    sum->pages = (uint16_t *)(void *)at;
    at += aligned(blocks * 2);
    sum->peak = at;
    at += aligned(blocks);
    sum->filled = at;
    at += aligned(blocks);
    sum->page = (uint32_t *)(void *)at;
    at += aligned(blocks * QUANT_PAGES * 4);
    sum->pool = at;
    quant_clear(sum);
}

void quant_clear(struct quant_sum *sum)
{
    memset(sum->filled, 0, sum->layout->block_count);
    memset(sum->pages, 0, sum->layout->block_count * sizeof *sum->pages);
    sum->pool_used = 0;
}

void quant_drop_pages(struct quant_sum *sum, uint32_t block, uint16_t pages)
{
    sum->pages[block] &= (uint16_t)~pages;
}

/* Which pages of a block at level `from` still count once its level is `to`. */
static uint16_t pages_kept(const struct block *block, uint16_t pages, int from, int to)
{
    if (to > block->fine) pages &= (uint16_t)~LOW;
    if (from <= block->deep && to > block->deep) pages &= (uint16_t)~DIGITS;
    return pages;
}

/* Copies x with NaN and Inf replaced by 0 and noted. Returns the largest finite |x|. */
static uint32_t note_specials(struct quant_sum *sum, uint32_t block, const float *x, uint64_t count,
                              float *ret_finite)
{
    uint8_t *special = quant_page(sum, block, QUANT_PAGE_SPECIAL);
    uint32_t peak = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(x[i]), size = bits & SIGNLESS;
        ret_finite[i] = size < INFINITE ? x[i] : 0;
        if (size < INFINITE) {
            peak = size > peak ? size : peak;
            continue;
        }
        special[i] |= size > INFINITE ? QUANT_NAN
                      : bits == size  ? QUANT_POSITIVE_INF
                                      : QUANT_NEGATIVE_INF;
    }
    return peak;
}

/* The words have wrapped: puts what that lost into the digits. terms are what was added. */
static void carry(struct quant_sum *sum, uint32_t block, const struct block *of,
                  const int32_t *terms)
{
    const int32_t *word = sum->word + of->at;
    for (uint64_t i = 0; i < of->count; i++) {
        uint32_t new = (uint32_t)word[i], term = (uint32_t)terms[i], old = new - term;
        if (((old ^ new) & (term ^ new)) >> 31 == 0) continue;
        quant_exact_carry(sum, block, i, terms[i] < 0 ? -1 : 1, of->exponent + 32);
    }
}

static uint32_t check_of(const int32_t *word, uint64_t count)
{
    uint32_t check = 0;
    for (uint64_t i = 0; i < count; i++) check += (uint32_t)word[i];
    return check;
}

/* Words of x, those too large for one as 0 and in the digits. */
static void make_terms(struct quant_sum *sum, uint32_t block, const struct block *of,
                       const float *x, float inverse, int32_t *ret_terms)
{
    for (uint64_t i = 0; i < of->count; i++) {
        float scaled = x[i] * inverse;
        ret_terms[i] = 0;
        if (scaled < 2147483648.0f && scaled > -2147483648.0f)
            ret_terms[i] = quant_round(scaled);
        else /* 2^24 steps and more: a whole number of them as it is */
            quant_exact_add(sum, block, i, (double)x[i]);
    }
}

/* The remainders that rounding to words leaves, all of them. */
static void add_remainders(struct quant_sum *sum, uint32_t block, const struct block *of,
                           const float *x)
{
    double inverse = quant_power_of_two(-of->exponent), step = quant_power_of_two(of->exponent);
    for (uint64_t i = 0; i < of->count; i++) {
        if (x[i] == 0) continue;
        double scaled = (double)x[i] * inverse;
        quant_exact_add(sum, block, i, (scaled - (double)quant_round((float)scaled)) * step);
    }
}

/* The general way: any level, any overflow. */
static void add_slowly(struct quant_sum *sum, uint32_t block, const struct block *of,
                       const float *x)
{
    int32_t terms[LAYOUT_BLOCK_ELEMENTS], *word = sum->word + of->at;
    struct quant_flow flow;
    float inverse = inverse_of(of);
    make_terms(sum, block, of, x, inverse, terms);
    if (sum->filled[block] == 0) memset(word, 0, of->count * sizeof *word);
    flow = quant_kernel_join(sum->isa, word, word, terms, of->count);
    if (flow.overflow) carry(sum, block, of, terms);
    sum->check[block] = flow.check;
}

/* The usual case in one pass: a block that is at a usual level already. False: nothing is changed. */
static bool add_quickly(struct quant_sum *sum, uint32_t block, const struct block *of,
                        const float *x)
{
    uint8_t old = sum->peak[block];
    if (sum->filled[block] == 0 || sum->pages[block] != 0 || level_of(of, old) <= of->fine)
        return false;
    float inverse = inverse_of(of);
    int32_t *word = sum->word + of->at;
    struct quant_flow flow = quant_kernel_add(sum->isa, word, x, inverse, of->count);
    uint8_t peak = peak_byte(flow.peak);
    if (flow.peak >= INFINITE || level_of(of, peak) > LEVEL_WORD) {
        quant_kernel_undo(sum->isa, word, x, inverse, of->count);
        return false;
    }
    sum->check[block] = flow.check;
    if (peak > old) sum->peak[block] = peak;
    if (!flow.overflow) return true;
    int32_t terms[LAYOUT_BLOCK_ELEMENTS];
    make_terms(sum, block, of, x, inverse, terms);
    carry(sum, block, of, terms);
    return true;
}

static void add_block(struct quant_sum *sum, uint32_t block, const struct block *of, const float *x)
{
    float finite[LAYOUT_BLOCK_ELEMENTS];
    if (add_quickly(sum, block, of, x)) return;
    uint32_t bits = quant_kernel_peak(sum->isa, x, of->count);
    if (sum->filled[block] == 0) sum->peak[block] = 0;
    if (bits >= INFINITE) {
        bits = note_specials(sum, block, x, of->count, finite);
        x = finite;
    }
    uint8_t peak = peak_byte(bits), old = sum->peak[block], new = peak > old ? peak : old;
    int level = level_of(of, peak), level_new = level_of(of, new);
    sum->pages[block] = pages_kept(of, sum->pages[block], level_of(of, old), level_new);
    sum->peak[block] = new;
    float inverse = inverse_of(of);
    int32_t *word = sum->word + of->at;
    if (level > LEVEL_WORD) {
        add_slowly(sum, block, of, x);
    } else if (sum->filled[block] == 0) {
        sum->check[block] = quant_kernel_set(sum->isa, word, x, inverse, of->count).check;
    } else if (level != LEVEL_ZERO) {
        struct quant_flow flow = quant_kernel_add(sum->isa, word, x, inverse, of->count);
        sum->check[block] = flow.check;
        if (flow.overflow) {
            int32_t terms[LAYOUT_BLOCK_ELEMENTS];
            make_terms(sum, block, of, x, inverse, terms);
            carry(sum, block, of, terms);
        }
    }
    sum->filled[block] = 1;
    if (level == LEVEL_ZERO || level_new > of->fine) return;
    int32_t *low = (int32_t *)(void *)quant_page(sum, block, QUANT_PAGE_LOW);
    quant_kernel_low(sum->isa, low, x, inverse, of->count);
    if (level_new <= of->deep) add_remainders(sum, block, of, x);
}

static void add_plainly(struct quant_sum *sum, uint32_t block, const struct block *of,
                        const float *x)
{
    float *word = (float *)(void *)(sum->word + of->at);
    if (sum->filled[block] == 0)
        memcpy(word, x, of->count * sizeof *word);
    else
        quant_kernel_plain_join(sum->isa, word, word, x, of->count);
    sum->filled[block] = 1;
    sum->peak[block] = 0;
    sum->check[block] = 0;
}

void quant_add(struct quant_sum *sum, const int16_t *scale, const float *x, uint32_t first,
               uint32_t end)
{
    ASSERT(end <= sum->layout->block_count);
    uint32_t mode = quant_mode_enter();
    for (uint32_t b = first; b < end; b++) {
        struct block of = block_of(sum, b, scale[b]);
        if (sum->is_plain)
            add_plainly(sum, b, &of, x + of.at);
        else
            add_block(sum, b, &of, x + of.at);
    }
    quant_mode_leave(mode);
}

struct quant_part quant_part_of(const struct quant_sum *sum, uint32_t block)
{
    ASSERT(sum->filled[block] != 0);
    return (struct quant_part){.word = sum->word + sum->layout->start[block],
                               .pages = sum->pages[block],
                               .peak = sum->peak[block],
                               .block = block,
                               .sum = sum};
}

static size_t word_bytes(uint32_t page)
{
    return page < QUANT_DIGITS ? 8 : page == QUANT_PAGE_LOW ? 4 : 1;
}

size_t quant_pages_bytes(uint16_t pages, uint64_t count)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < QUANT_PAGES; k++)
        if ((pages >> k & 1) != 0) bytes += word_bytes(k) * count;
    return bytes;
}

size_t quant_write_pages(const struct quant_part *part, uint64_t count, uint8_t *bytes)
{
    size_t at = 0;
    for (uint32_t k = 0; k < QUANT_PAGES; k++) {
        if ((part->pages >> k & 1) == 0) continue;
        memcpy(bytes + at, quant_part_page(part, k), word_bytes(k) * count);
        at += word_bytes(k) * count;
    }
    return at;
}

const uint8_t *quant_part_page(const struct quant_part *part, uint32_t page)
{
    ASSERT((part->pages >> page & 1) != 0);
    if (part->sum == NULL)
        return part->packed +
               quant_pages_bytes((uint16_t)(part->pages & ((1u << page) - 1)), part->count);
    uint64_t at = (uint64_t)part->block * QUANT_PAGES + page;
    return part->sum->pool + (uint64_t)part->sum->page[at] * QUANT_PAGE_BYTES;
}

/* Unsigned everywhere: words from outside may be anything, and signed overflow is undefined. */
static void add_page(uint8_t *into, const uint8_t *from, uint32_t page, uint64_t count)
{
    if (page == QUANT_PAGE_SPECIAL) {
        for (uint64_t i = 0; i < count; i++) into[i] |= from[i];
    } else if (page == QUANT_PAGE_LOW) {
        for (uint64_t i = 0; i < count; i++) {
            uint32_t a, b;
            memcpy(&a, into + 4 * i, sizeof a);
            memcpy(&b, from + 4 * i, sizeof b);
            a += b;
            memcpy(into + 4 * i, &a, sizeof a);
        }
    } else {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t a, b;
            memcpy(&a, into + 8 * i, sizeof a);
            memcpy(&b, from + 8 * i, sizeof b);
            a += b;
            memcpy(into + 8 * i, &a, sizeof a);
        }
    }
}

static void add_pages(struct quant_sum *sum, uint32_t block, uint64_t count,
                      const struct quant_part *part, uint16_t pages)
{
    for (uint32_t k = 0; k < QUANT_PAGES; k++)
        if ((pages >> k & 1) != 0)
            add_page(quant_page(sum, block, k), quant_part_page(part, k), k, count);
}

static uint8_t joined_peak(const struct quant_part *a, const struct quant_part *b)
{
    return b != NULL && b->peak > a->peak ? b->peak : a->peak;
}

static uint32_t join_plainly(struct quant_sum *sum, const struct block *of,
                             const struct quant_part *a, const struct quant_part *b)
{
    float *ret = (float *)(void *)(sum->word + of->at);
    if (b != NULL)
        quant_kernel_plain_join(sum->isa, ret, (const float *)(const void *)a->word,
                                (const float *)(const void *)b->word, of->count);
    else
        memmove(ret, a->word, of->count * sizeof *ret);
    return 0;
}

uint32_t quant_join(struct quant_sum *sum, uint32_t block, int16_t scale,
                    const struct quant_part *a, const struct quant_part *b)
{
    struct block of = block_of(sum, block, scale);
    uint8_t peak = joined_peak(a, b);
    int level = level_of(&of, peak);
    int32_t *word = sum->word + of.at;
    bool in_place = a->word == word;
    struct quant_flow flow = {0};
    if (!in_place) sum->pages[block] = 0;
    uint16_t kept = pages_kept(&of, a->pages, level_of(&of, a->peak), level);
    if (sum->is_plain)
        flow.check = join_plainly(sum, &of, a, b);
    else if (b == NULL)
        flow.check = quant_kernel_copy(sum->isa, word, a->word, of.count);
    else
        flow = quant_kernel_join(sum->isa, word, a->word, b->word, of.count);
    if (in_place)
        sum->pages[block] = kept;
    else
        add_pages(sum, block, of.count, a, kept);
    if (b != NULL) {
        add_pages(sum, block, of.count, b,
                  pages_kept(&of, b->pages, level_of(&of, b->peak), level));
        if (flow.overflow && level > of.fine) carry(sum, block, &of, b->word);
    }
    sum->filled[block] = 1;
    sum->peak[block] = peak;
    sum->check[block] = flow.check;
    return flow.check;
}

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
