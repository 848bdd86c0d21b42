#include "worker/core/exchange.h"
#include "core/assert.h"
#include "worker/core/exchange_merge.h"
#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Runs of a map end at its units, and the loss is a piece of its own. */
static uint32_t pieces_max(const struct layout *layout)
{
    return layout->block_count / EXCHANGE_PIECE_BLOCKS + GROUP_MEMBERS_MAX + SHARD_UNITS_MAX + 1;
}

/* No more pieces than blocks, whatever their runs. */
static uint32_t piece_room(const struct layout *layout)
{
    uint32_t most = pieces_max(layout);
    return layout->block_count < most ? layout->block_count : most;
}

size_t exchange_size(const struct layout *layout)
{
    size_t pieces = piece_room(layout), blocks = layout->block_count;
    return 2 * aligned(quant_size(layout)) + aligned(blocks * 2) + aligned(blocks * 8) +
           2 * aligned(pieces * 4) + aligned(blocks * 4) + 4 * aligned(pieces * 2) +
           2 * aligned(pieces * 2 * GROUP_MEMBERS_MAX) + aligned(blocks * 2);
}

static void *cut(uint8_t **memory, size_t bytes)
{
    uint8_t *at = *memory;
    *memory += aligned(bytes);
    return at;
}

void exchange_init(struct exchange *x, const struct exchange_setup *setup)
{
    uint8_t *at = setup->memory;
    const struct layout *layout = setup->layout;
    size_t pieces = piece_room(layout), blocks = layout->block_count;
    ASSERT(setup->norm_end <= blocks);
    memset(x, 0, sizeof *x);
    x->layout = layout;
    x->scale = setup->scale;
    x->mean = setup->mean;
    x->slot_count = setup->slot_count;
    x->norm_end = setup->norm_end;
    quant_init(&x->own, layout, setup->slot_count, setup->isa, cut(&at, quant_size(layout)));
    quant_init(&x->sum, layout, setup->slot_count, setup->isa, cut(&at, quant_size(layout)));
    x->own.is_plain = x->sum.is_plain = setup->is_plain;
    x->next_scale = cut(&at, blocks * 2);
    x->square = cut(&at, blocks * 8);
    x->piece_max = (uint32_t)pieces;
    x->piece_first = cut(&at, pieces * 4);
    x->out_check = cut(&at, pieces * 4);
    x->piece_of = cut(&at, blocks * 4);
    x->piece_blocks = cut(&at, pieces * 2);
    x->merged = cut(&at, pieces * 2);
    x->out_done = cut(&at, pieces * 2);
    x->part_sent = cut(&at, pieces * 2);
    x->part_got = cut(&at, pieces * 2 * GROUP_MEMBERS_MAX);
    x->out_sent = cut(&at, pieces * 2 * GROUP_MEMBERS_MAX);
    x->block = cut(&at, blocks * 2);
    x->corrupt = GROUP_NOBODY;
}

static void add_pieces(struct exchange *x, uint32_t first, uint32_t end)
{
    while (first < end) {
        uint32_t count = end - first, piece = x->piece_count++;
        if (count > EXCHANGE_PIECE_BLOCKS) count = EXCHANGE_PIECE_BLOCKS;
        ASSERT(piece < x->piece_max);
        x->piece_first[piece] = first;
        x->piece_blocks[piece] = (uint16_t)count;
        for (uint32_t b = first; b < first + count; b++) x->piece_of[b] = piece;
        first += count;
    }
}

bool exchange_watches(const struct exchange *x, uint32_t member)
{
    return (x->watchers >> member & 1) != 0;
}

/* Equal chunks for all but the watchers. */
static void cut_equally(struct exchange *x, uint32_t member)
{
    uint32_t before = 0, workers = 0;
    for (uint32_t i = 0; i < x->member_count; i++) {
        workers += !exchange_watches(x, i);
        before += i < member && !exchange_watches(x, i);
    }
    if (exchange_watches(x, member)) return;
    add_pieces(x, layout_part(x->layout, before, workers),
               layout_part(x->layout, before + 1, workers));
}

static void cut_chunk(struct exchange *x, uint32_t member)
{
    uint32_t blocks = x->layout->block_count;
    x->chunk[member].piece = x->piece_count;
    if (x->map == NULL) {
        cut_equally(x, member);
    } else {
        uint32_t first = shard_next_owned(x->map, blocks, member, 0);
        while (first < blocks) {
            uint32_t end = shard_run_end(x->map, blocks, first);
            bool has_loss = end == blocks && first < end - 1;
            add_pieces(x, first, has_loss ? end - 1 : end);
            if (has_loss) add_pieces(x, end - 1, end);
            first = shard_next_owned(x->map, blocks, member, end);
        }
    }
    x->chunk[member].piece_end = x->piece_count;
}

/* Who merges for the zone of `member`, in the tree of this chunk: each member of the zone for some
 * chunks. */
static uint32_t relay_of(const struct exchange *x, uint32_t chunk, uint32_t member)
{
    uint32_t size = 0, relay = member;
    for (uint32_t i = 0; i < x->member_count; i++)
        size += x->zone[i] == x->zone[member] && !exchange_watches(x, i);
    uint32_t wanted = chunk % size;
    for (uint32_t i = 0; i < x->member_count; i++)
        if (x->zone[i] == x->zone[member] && !exchange_watches(x, i) && wanted-- == 0) relay = i;
    return relay;
}

static void plant_tree(struct exchange *x, uint32_t chunk)
{
    uint64_t one = 1;
    for (uint32_t i = 0; i < x->member_count; i++) {
        uint32_t parent = chunk;
        if (i == chunk || exchange_watches(x, i))
            parent = GROUP_NOBODY;
        else if (x->zone != NULL && x->zone[i] != x->zone[chunk] && relay_of(x, chunk, i) != i)
            parent = relay_of(x, chunk, i);
        x->parent[chunk][i] = (uint8_t)parent;
        if (parent == x->me) x->chunk[chunk].children++;
        if (x->chunk[chunk].piece == x->chunk[chunk].piece_end) continue;
        if (parent == x->me) x->senders |= one << i;
        if (parent == x->me) x->partners |= one << i;
        if (i == x->me && parent != GROUP_NOBODY) x->partners |= one << parent;
        /* With a map the owner tells everybody itself, and watchers in any case. */
        bool direct = i != chunk && (x->map != NULL || exchange_watches(x, i));
        if (direct && x->me == chunk) x->partners |= one << i;
        if (direct && x->me == i) x->partners |= one << chunk;
    }
}

void exchange_begin(struct exchange *x, const struct wire_tag *tag, uint32_t member_count,
                    uint32_t me)
{
    ASSERT(member_count > 0);
    ASSERT(member_count <= GROUP_MEMBERS_MAX);
    ASSERT(me < member_count);
    ASSERT(members_in(x->watchers) < member_count);
    x->tag = *tag;
    x->member_count = member_count;
    x->me = me;
    x->begun = true;
    x->ready = x->broken = false;
    x->corrupt = GROUP_NOBODY;
    x->partners = x->senders = 0;
    x->own_slots = (struct slot_set){0};
    memset(x->chunk, 0, sizeof x->chunk);
    memset(x->outs_sent, 0, sizeof x->outs_sent);
    x->piece_count = 0;
    for (uint32_t i = 0; i < member_count; i++) cut_chunk(x, i);
    for (uint32_t i = 0; i < member_count; i++) {
        plant_tree(x, i);
        x->chunk[i].next_part = x->chunk[i].piece;
        for (uint32_t k = 0; k < member_count; k++) x->next_out[i][k] = x->chunk[i].piece;
    }
    x->pieces_left = x->piece_count;
    size_t bytes = x->piece_count * sizeof *x->merged;
    memset(x->merged, 0, bytes);
    memset(x->out_done, 0, bytes);
    memset(x->part_sent, 0, bytes);
    memset(x->out_check, 0, x->piece_count * sizeof *x->out_check);
    for (uint32_t i = 0; i < member_count; i++) {
        memset(x->part_got + (size_t)i * x->piece_max, 0, bytes);
        memset(x->out_sent + (size_t)i * x->piece_max, 0, bytes);
    }
    memset(x->block, 0, x->layout->block_count * sizeof *x->block);
    quant_clear(&x->sum);
}

void exchange_abort(struct exchange *x)
{
    x->begun = x->ready = false;
}

void exchange_own(struct exchange *x, const struct slot_set *own_slots)
{
    ASSERT(x->begun);
    ASSERT(!x->ready);
    x->ready = true;
    x->own_slots = *own_slots;
    for (uint32_t i = 0; i < x->member_count; i++) merge_own_known(x, i);
}

void exchange_blocks_ready(struct exchange *x, uint32_t first, uint32_t end)
{
    ASSERT(x->ready);
    ASSERT(end <= x->layout->block_count);
    if (slot_set_is_empty(&x->own_slots)) return;
    for (uint32_t b = first; b < end && !x->broken; b++) merge_own_block(x, b);
}

void exchange_ready(struct exchange *x, const struct slot_set *own_slots)
{
    if (!x->ready) exchange_own(x, own_slots);
    exchange_blocks_ready(x, 0, x->layout->block_count);
}

bool exchange_owns(const struct exchange *x, uint32_t member)
{
    return x->chunk[member].piece < x->chunk[member].piece_end;
}

bool exchange_takes_from(const struct exchange *x, uint32_t member)
{
    return (x->senders >> member & 1) != 0;
}

bool exchange_meets(const struct exchange *x, uint32_t member)
{
    return (x->partners >> member & 1) != 0;
}

bool exchange_covers(const struct exchange *x)
{
    const struct exchange_chunk *chunk = &x->chunk[x->me];
    return !exchange_owns(x, x->me) ||
           (chunk->checked && slot_set_is_full(&chunk->slots, x->slot_count));
}

static bool has_all_parts(const struct exchange *x, const struct exchange_chunk *chunk,
                          uint32_t child)
{
    if ((chunk->empty >> child & 1) != 0) return true;
    const uint16_t *got = x->part_got + (size_t)child * x->piece_max;
    for (uint32_t p = chunk->piece; p < chunk->piece_end; p++)
        if (got[p] < x->piece_blocks[p]) return false;
    return true;
}

void exchange_missing(const struct exchange *x, uint64_t *ret_parts, uint64_t *ret_means)
{
    *ret_parts = *ret_means = 0;
    for (uint32_t i = 0; x->begun && i < x->member_count; i++) {
        const struct exchange_chunk *chunk = &x->chunk[i];
        for (uint32_t k = 0; k < x->member_count; k++)
            if (x->parent[i][k] == x->me && !has_all_parts(x, chunk, k))
                *ret_parts |= UINT64_C(1) << k;
        bool means = chunk->outs_ready == chunk->piece_end - chunk->piece;
        if (i != x->me && !means) *ret_means |= UINT64_C(1) << i;
    }
}

bool exchange_awaits_part(const struct exchange *x, uint32_t from)
{
    for (uint32_t i = 0; x->begun && i < x->member_count; i++)
        if (x->parent[i][from] == x->me && !has_all_parts(x, &x->chunk[i], from)) return true;
    return false;
}

bool exchange_is_done(const struct exchange *x)
{
    return x->ready && !x->broken && x->pieces_left == 0;
}
