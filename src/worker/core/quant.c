#include "worker/core/quant.h"
#include "core/assert.h"
#include "worker/core/quant_block.h"
#include "worker/core/quant_exact.h"
#include <assert.h>
#include <string.h>

static_assert(QUANT_SCALE_MIN - 31 - LOW_BITS >= -149, "the low word reaches every denormal");
static_assert(128 - (QUANT_SCALE_MAX - 31) <= LEVEL_WORD, "at the largest scale all fits words");

/* See "Error" in quant.h: 2^-(fine + 1) <= log2(V) 2^-24. */
static int fine_level(uint32_t slots)
{
    if (slots < 2) return 24;
    if (slots < 4) return 23;
    if (slots < 16) return 22;
    return slots < 256 ? 21 : 20;
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
    sum->adds = at;
    at += aligned(blocks);
    sum->page = (uint32_t *)(void *)at;
    at += aligned(blocks * QUANT_PAGES * 4);
    sum->pool = at;
    quant_clear(sum);
}

void quant_clear(struct quant_sum *sum)
{
    memset(sum->adds, 0, sum->layout->block_count);
    memset(sum->pages, 0, sum->layout->block_count * sizeof *sum->pages);
    sum->pool_used = 0;
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
    if (sum->adds[block] == 0) memset(word, 0, of->count * sizeof *word);
    flow = quant_kernel_join(sum->isa, word, word, terms, of->count);
    if (flow.overflow) carry(sum, block, of, terms);
    sum->check[block] = flow.check;
}

/* Blocks [first, end) in one pass each while they are usual. Returns the first that is not. */
static uint32_t add_usual(struct quant_sum *sum, const int16_t *scale, const float *x,
                          uint32_t first, uint32_t end)
{
    bool overflow = false;
    while (first < end) {
        first = quant_kernel_run(sum, scale, x, first, end, &overflow);
        if (!overflow) break;
        struct block of = block_of(sum, first, scale[first]);
        int32_t terms[LAYOUT_BLOCK_ELEMENTS];
        make_terms(sum, first, &of, x + of.at, inverse_of(&of), terms);
        carry(sum, first, &of, terms);
        first++;
    }
    return first;
}

static void add_block(struct quant_sum *sum, uint32_t block, const struct block *of, const float *x)
{
    float finite[LAYOUT_BLOCK_ELEMENTS];
    uint32_t bits = quant_kernel_peak(sum->isa, x, of->count);
    if (sum->adds[block] == 0) sum->peak[block] = 0;
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
    } else if (sum->adds[block] == 0) {
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
    sum->adds[block] = QUANT_ADDS_MANY;
    if (level == LEVEL_ZERO || level_new > of->fine) return;
    int32_t *low = (int32_t *)(void *)quant_page(sum, block, QUANT_PAGE_LOW);
    quant_kernel_low(sum->isa, low, x, inverse, of->count);
    if (level_new <= of->deep) add_remainders(sum, block, of, x);
}

static void add_plainly(struct quant_sum *sum, uint32_t block, const struct block *of,
                        const float *x)
{
    float *word = (float *)(void *)(sum->word + of->at);
    if (sum->adds[block] == 0)
        memcpy(word, x, of->count * sizeof *word);
    else
        quant_kernel_plain_join(sum->isa, word, word, x, of->count);
    sum->adds[block] = QUANT_ADDS_MANY;
    sum->peak[block] = 0;
    sum->check[block] = 0;
}

void quant_add(struct quant_sum *sum, const int16_t *scale, const float *x, uint32_t first,
               uint32_t end)
{
    ASSERT(end <= sum->layout->block_count);
    uint32_t mode = quant_mode_enter();
    for (uint32_t b = first; b < end; b++) {
        if (!sum->is_plain) b = add_usual(sum, scale, x, b, end);
        if (b == end) break;
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
    ASSERT(sum->adds[block] != 0);
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
    for (uint32_t k = 0; pages >> k != 0; k++)
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

static uint32_t joined(struct quant_sum *sum, uint32_t block, uint8_t peak, uint32_t check)
{
    sum->adds[block] = QUANT_ADDS_MANY;
    sum->peak[block] = peak;
    sum->check[block] = check;
    return check;
}

/* Both parts without pages: one pass, and that is nearly always all. */
static uint32_t join_words(struct quant_sum *sum, uint32_t block, int16_t scale,
                           const struct quant_part *a, const struct quant_part *b)
{
    struct block of = block_of(sum, block, scale);
    uint8_t peak = joined_peak(a, b);
    struct quant_flow flow =
        quant_kernel_join(sum->isa, sum->word + of.at, a->word, b->word, of.count);
    sum->pages[block] = 0;
    if (flow.overflow && level_of(&of, peak) > of.fine) carry(sum, block, &of, b->word);
    return joined(sum, block, peak, flow.check);
}

uint32_t quant_join(struct quant_sum *sum, uint32_t block, int16_t scale,
                    const struct quant_part *a, const struct quant_part *b)
{
    if (b != NULL && !sum->is_plain && (a->pages | b->pages) == 0)
        return join_words(sum, block, scale, a, b);
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
    return joined(sum, block, peak, flow.check);
}
