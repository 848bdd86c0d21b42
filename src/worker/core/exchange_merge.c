#include "worker/core/exchange_merge.h"
#include "core/assert.h"
#include <string.h>

/* A block's state: how many children's parts are merged, and these bits. OWN_IN: so is the own
 * block. THROUGH: that was all; the block is finalised or may leave. */
enum { COUNT = 0x7f, OWN_READY = 0x100, OWN_IN = 0x200, THROUGH = 0x400 };

static uint32_t parts_expected(const struct exchange_chunk *chunk)
{
    return chunk->children - members_in(chunk->empty);
}

static bool has_own(const struct exchange *x)
{
    return x->ready && !slot_set_is_empty(&x->own_slots);
}

/* Disjoint and complete, once everybody's slots are known. */
static bool check_slots(struct exchange *x, struct exchange_chunk *chunk)
{
    if (chunk->checked) return true;
    ASSERT(chunk->own_counted);
    if (!slot_set_is_full(&chunk->slots, x->slot_count)) x->broken = true;
    chunk->checked = !x->broken;
    return chunk->checked;
}

void merge_out_done(struct exchange *x, uint32_t chunk, uint32_t piece)
{
    ASSERT(x->out_done[piece] == x->piece_blocks[piece]);
    ASSERT(x->pieces_left > 0);
    x->chunk[chunk].outs_ready++;
    x->pieces_left--;
}

/* Means of block = a + b, or a. */
static uint32_t finish(struct exchange *x, uint32_t chunk, uint32_t block,
                       const struct quant_part *a, const struct quant_part *b)
{
    uint32_t piece = x->piece_of[block];
    uint64_t at = x->layout->start[block], count = x->layout->start[block + 1] - at;
    struct quant_result result = quant_finish(&x->sum, block, x->scale[block], a, b, x->mean + at);
    x->next_scale[block] = result.scale;
    x->square[block] =
        block < x->norm_end ? quant_kernel_squares(x->sum.isa, x->mean + at, count) : 0;
    x->out_check[piece] += result.mean_check;
    if (++x->out_done[piece] == x->piece_blocks[piece]) merge_out_done(x, chunk, piece);
    return result.check;
}

/* Nothing more is to come for this block. */
static bool is_complete(const struct exchange *x, uint32_t chunk, uint32_t state)
{
    if (!x->ready || (state & COUNT) < parts_expected(&x->chunk[chunk])) return false;
    return (state & OWN_IN) != 0 || !has_own(x);
}

/* The block is a + b (b NULL: a; a is the merged sum itself where it may be). Returns the check of
 * its words. */
static uint32_t settle(struct exchange *x, uint32_t chunk, uint32_t block,
                       const struct quant_part *a, const struct quant_part *b)
{
    bool complete = is_complete(x, chunk, x->block[block]);
    if (complete && chunk == x->me) {
        if (!check_slots(x, &x->chunk[chunk])) return 0;
        x->block[block] |= THROUGH;
        return finish(x, chunk, block, a, b);
    }
    bool in_place = b == NULL && a->word == x->sum.word + x->layout->start[block];
    uint32_t check =
        in_place ? x->sum.check[block] : quant_join(&x->sum, block, x->scale[block], a, b);
    if (!complete) return check;
    uint32_t piece = x->piece_of[block];
    x->block[block] |= THROUGH;
    if (++x->merged[piece] == x->piece_blocks[piece]) x->chunk[chunk].parts_ready++;
    return check;
}

static uint32_t chunk_of(const struct exchange *x, uint32_t block)
{
    uint32_t piece = x->piece_of[block], chunk = 0;
    while (piece >= x->chunk[chunk].piece_end) chunk++;
    return chunk;
}

/* Nobody's part but the own one: it goes as it lies. */
static void pass_own(struct exchange *x, uint32_t chunk, uint32_t block)
{
    struct quant_part own = quant_part_of(&x->own, block);
    uint32_t piece = x->piece_of[block];
    if (chunk == x->me) {
        x->block[block] |= OWN_IN;
        (void)settle(x, chunk, block, &own, NULL); /* nothing came in that a check could be of */
        return;
    }
    x->block[block] |= THROUGH;
    if (++x->merged[piece] == x->piece_blocks[piece]) x->chunk[chunk].parts_ready++;
}

/* Own slots or a child without slots have become known: that may have been all. */
static void try_block(struct exchange *x, uint32_t chunk, uint32_t block)
{
    uint32_t state = x->block[block];
    if ((state & THROUGH) != 0 || x->broken) return;
    if ((state & (COUNT | OWN_IN)) != 0) {
        if (!is_complete(x, chunk, state)) return;
        struct quant_part merged = quant_part_of(&x->sum, block);
        (void)settle(x, chunk, block, &merged, NULL); /* as above */
    } else if (has_own(x) && (state & OWN_READY) != 0 && parts_expected(&x->chunk[chunk]) == 0) {
        pass_own(x, chunk, block);
    }
}

static void try_chunk(struct exchange *x, uint32_t chunk)
{
    const struct exchange_chunk *of = &x->chunk[chunk];
    for (uint32_t p = of->piece; p < of->piece_end; p++)
        for (uint32_t b = 0; b < x->piece_blocks[p]; b++)
            try_block(x, chunk, x->piece_first[p] + b);
    bool silent = of->own_counted && parts_expected(of) == 0 && !has_own(x);
    if (chunk == x->me && silent && exchange_owns(x, chunk)) x->broken = true; /* no slot at all */
}

static void count_slots(struct exchange *x, struct exchange_chunk *chunk,
                        const struct slot_set *slots)
{
    if (slot_set_meets(&chunk->slots, slots)) x->broken = true;
    slot_set_join(&chunk->slots, slots);
}

void merge_own_known(struct exchange *x, uint32_t chunk)
{
    struct exchange_chunk *of = &x->chunk[chunk];
    count_slots(x, of, &x->own_slots);
    of->own_counted = true;
    if (!has_own(x)) try_chunk(x, chunk);
}

void merge_own_block(struct exchange *x, uint32_t block)
{
    if ((x->block[block] & OWN_READY) != 0) return;
    uint32_t chunk = chunk_of(x, block);
    x->block[block] |= OWN_READY;
    if ((x->block[block] & COUNT) == 0) {
        if (parts_expected(&x->chunk[chunk]) == 0) pass_own(x, chunk, block);
        return; /* else the first part to come takes it along */
    }
    struct quant_part merged = quant_part_of(&x->sum, block), own = quant_part_of(&x->own, block);
    x->block[block] |= OWN_IN;
    (void)settle(x, chunk, block, &merged, &own); /* no message whose check could be looked at */
}

static uint32_t mark_of(const struct slot_set *slots)
{
    uint64_t mark = 1;
    for (uint32_t i = 0; i < GROUP_SLOT_WORDS; i++)
        mark = (mark ^ slots->word[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ mark >> 29;
    return (uint32_t)(mark >> 32);
}

bool merge_slots(struct exchange *x, uint32_t chunk, uint32_t child, const struct slot_set *slots)
{
    struct exchange_chunk *of = &x->chunk[chunk];
    uint64_t bit = UINT64_C(1) << child;
    if ((of->heard & bit) != 0) return of->slots_mark[child] == mark_of(slots);
    of->heard |= bit;
    of->slots_mark[child] = mark_of(slots);
    count_slots(x, of, slots);
    if (!slot_set_is_empty(slots)) return true;
    of->empty |= bit;
    try_chunk(x, chunk);
    return true;
}

/* The own block goes along with the first part that finds it ready; the last part of all becomes
 * means: each part is one pass over the block, no more. */
uint32_t merge_part(struct exchange *x, uint32_t chunk, uint32_t block,
                    const struct quant_part *part)
{
    uint32_t state = x->block[block], before = 0;
    ASSERT((state & THROUGH) == 0);
    ASSERT((state & COUNT) < parts_expected(&x->chunk[chunk]));
    struct quant_part base;
    bool has_base = true;
    if ((state & (COUNT | OWN_IN)) != 0) {
        base = quant_part_of(&x->sum, block);
        before = x->sum.check[block];
    } else if (has_own(x) && (state & OWN_READY) != 0) {
        base = quant_part_of(&x->own, block);
        before = x->own.check[block];
        x->block[block] |= OWN_IN;
    } else {
        has_base = false;
    }
    x->block[block]++;
    return settle(x, chunk, block, has_base ? &base : part, has_base ? part : NULL) - before;
}

struct quant_part merge_outgoing(const struct exchange *x, uint32_t block, uint32_t *ret_check)
{
    const struct quant_sum *from = (x->block[block] & (COUNT | OWN_IN)) == 0 ? &x->own : &x->sum;
    ASSERT((x->block[block] & THROUGH) != 0);
    *ret_check = from->check[block];
    return quant_part_of(from, block);
}
