#include "worker/core/exchange.h"
#include "core/assert.h"
#include <string.h>

static uint32_t chunk_first(const struct exchange *x, uint32_t member)
{
    return layout_part(x->layout, member, x->member_count);
}

static uint64_t elements_between(const struct exchange *x, uint32_t first, uint32_t end)
{
    return x->layout->start[end] - x->layout->start[first];
}

void exchange_begin(struct exchange *x, const struct wire_tag *tag, uint32_t member_count,
                    uint32_t me)
{
    ASSERT(member_count > 0);
    ASSERT(me < member_count);
    x->tag = *tag;
    x->member_count = member_count;
    x->me = me;
    x->begun = true;
    x->ready = x->checked = x->broken = false;
    memset(x->link, 0, sizeof x->link);
    x->finalised = chunk_first(x, me);
    for (uint32_t i = 0; i < member_count; i++) {
        x->link[i].part_sent = x->link[i].mean_got = chunk_first(x, i);
        x->link[i].mean_sent = x->link[i].part_got = chunk_first(x, me);
    }
    if (member_count == 1) return; /* alone: the means come straight from the own sums */
    uint32_t first = chunk_first(x, me), end = chunk_first(x, me + 1);
    uint64_t at = x->layout->start[first];
    struct quant_sum chunk = {x->sum.sum + at, x->sum.peak + first, x->sum.odd + first,
                              x->sum.special + at};
    quant_clear(&chunk, end - first, elements_between(x, first, end));
}

void exchange_abort(struct exchange *x)
{
    x->begun = x->ready = false;
}

/* Disjoint and complete, once everybody's slots are known. */
static void check_slots(struct exchange *x)
{
    struct slot_set all = {0};
    for (uint32_t i = 0; i < x->member_count; i++)
        if (!x->link[i].knows_slots) return;
    for (uint32_t i = 0; i < x->member_count; i++) {
        if (slot_set_meets(&all, &x->link[i].slots)) x->broken = true;
        slot_set_join(&all, &x->link[i].slots);
    }
    if (!slot_set_is_full(&all, x->slot_count)) x->broken = true;
    x->checked = !x->broken;
}

static void finalise_block(struct exchange *x, const struct quant_sum *sum, uint32_t block)
{
    uint64_t at = x->layout->start[block], count = elements_between(x, block, block + 1);
    quant_mean(sum->sum + at, sum->odd[block] != 0 ? sum->special + at : NULL, count,
               x->scale[block], x->slot_count, x->mean + at);
    x->peak[block] = sum->peak[block];
}

static void finalise(struct exchange *x)
{
    if (!x->ready || x->broken) return;
    if (!x->checked) check_slots(x);
    if (!x->checked) return;
    uint32_t end = chunk_first(x, x->me + 1);
    for (uint32_t i = 0; i < x->member_count; i++)
        if (i != x->me && x->link[i].part_got < end) end = x->link[i].part_got;
    const struct quant_sum *sum = x->member_count == 1 ? &x->own : &x->sum;
    while (x->finalised < end) finalise_block(x, sum, x->finalised++);
}

static void merge_side(struct exchange *x, uint32_t block, uint32_t peak, const uint8_t *special)
{
    uint64_t at = x->layout->start[block];
    quant_merge_block(&x->sum.peak[block], &x->sum.odd[block], x->sum.special + at, peak, special,
                      elements_between(x, block, block + 1));
}

void exchange_ready(struct exchange *x, const struct slot_set *own_slots)
{
    ASSERT(x->begun);
    ASSERT(!x->ready);
    x->ready = true;
    x->link[x->me].slots = *own_slots;
    x->link[x->me].knows_slots = true;
    if (x->member_count > 1 && !slot_set_is_empty(own_slots)) {
        uint32_t first = chunk_first(x, x->me), end = chunk_first(x, x->me + 1);
        uint64_t at = x->layout->start[first];
        quant_add_words(x->sum.sum + at, x->own.sum + at, elements_between(x, first, end));
        for (uint32_t b = first; b < end; b++)
            merge_side(x, b, x->own.peak[b],
                       x->own.odd[b] != 0 ? x->own.special + x->layout->start[b] : NULL);
    }
    finalise(x);
}

struct piece {
    uint32_t first, count;
    uint64_t elements;
};

/* Reads tag and block range. False: nonsense. *ret_stale: not for the turn in work. */
static bool read_range(const struct exchange *x, struct wire_cursor *cursor, uint32_t next,
                       uint32_t end, struct piece *ret_piece, bool *ret_stale)
{
    struct wire_tag tag = wire_read_tag(cursor);
    uint32_t first = wire_read_u32(cursor), count = wire_read_u32(cursor);
    *ret_stale = !x->begun || wire_tag_compare(&tag, &x->tag) != 0;
    if (cursor->failed) return false;
    if (*ret_stale) return true;
    if (first != next || count > end - first) return false;
    *ret_piece = (struct piece){first, count, elements_between(x, first, first + count)};
    return true;
}

static bool peaks_are_sound(const uint8_t *peaks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t peak;
        memcpy(&peak, peaks + i * sizeof peak, sizeof peak);
        if (peak >= UINT32_C(0x7f800000)) return false; /* peaks are finite by definition */
    }
    return true;
}

/* Checks the odd flags and that exactly their specials follow. */
static bool odds_are_sound(const struct exchange *x, const struct piece *piece, const uint8_t *odd,
                           size_t special_bytes)
{
    uint64_t expected = 0;
    for (uint32_t i = 0; i < piece->count; i++) {
        if (odd[i] > 1) return false;
        if (odd[i] == 1) expected += elements_between(x, piece->first + i, piece->first + i + 1);
    }
    return expected == special_bytes;
}

static bool add_part(struct exchange *x, const struct piece *piece, struct wire_cursor *cursor)
{
    const uint8_t *sums = wire_read(cursor, piece->elements * sizeof(int64_t));
    const uint8_t *peaks = wire_read(cursor, piece->count * sizeof(uint32_t));
    const uint8_t *odd = wire_read(cursor, piece->count);
    if (cursor->failed || !peaks_are_sound(peaks, piece->count)) return false;
    if (!odds_are_sound(x, piece, odd, (size_t)(cursor->end - cursor->at))) return false;
    const uint8_t *special = cursor->at;
    quant_add_words(x->sum.sum + x->layout->start[piece->first],
                    (const int64_t *)(const void *)sums, piece->elements);
    for (uint32_t i = 0; i < piece->count; i++) {
        uint32_t peak, block = piece->first + i;
        memcpy(&peak, peaks + i * sizeof peak, sizeof peak);
        merge_side(x, block, peak, odd[i] == 1 ? special : NULL);
        if (odd[i] == 1) special += elements_between(x, block, block + 1);
    }
    return true;
}

bool exchange_part(struct exchange *x, uint32_t from, const uint8_t *bytes, size_t count)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct exchange_link *link = &x->link[from];
    struct piece piece;
    bool stale;
    uint32_t end = x->begun ? chunk_first(x, x->me + 1) : 0;
    ASSERT(((uintptr_t)bytes & 7) == 0);
    if (!read_range(x, &cursor, link->part_got, end, &piece, &stale)) return false;
    if (stale) return true;
    uint32_t empty = wire_read_u32(&cursor), zero = wire_read_u32(&cursor);
    const uint8_t *words = wire_read(&cursor, sizeof(struct slot_set));
    if (cursor.failed || empty > 1 || zero != 0 || from == x->me) return false;
    struct slot_set slots;
    memcpy(&slots, words, sizeof slots);
    if (link->knows_slots && memcmp(&slots, &link->slots, sizeof slots) != 0) return false;
    if ((empty == 1) != slot_set_is_empty(&slots)) return false;
    if (empty == 1 && cursor.at != cursor.end) return false;
    if (empty == 0 && !add_part(x, &piece, &cursor)) return false;
    link->slots = slots;
    link->knows_slots = true;
    link->part_got = empty == 1 ? end : piece.first + piece.count;
    finalise(x);
    return true;
}

bool exchange_mean(struct exchange *x, uint32_t from, const uint8_t *bytes, size_t count)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct exchange_link *link = &x->link[from];
    struct piece piece;
    bool stale;
    uint32_t end = x->begun ? chunk_first(x, from + 1) : 0;
    if (!read_range(x, &cursor, link->mean_got, end, &piece, &stale)) return false;
    if (stale) return true;
    const uint8_t *means = wire_read(&cursor, piece.elements * sizeof(float));
    const uint8_t *peaks = wire_read(&cursor, piece.count * sizeof(uint32_t));
    /* Means need my part, so none can come before it has left. */
    if (cursor.failed || cursor.at != cursor.end || from == x->me || !x->ready) return false;
    if (!peaks_are_sound(peaks, piece.count)) return false;
    memcpy(x->mean + x->layout->start[piece.first], means, piece.elements * sizeof(float));
    memcpy(x->peak + piece.first, peaks, piece.count * sizeof(uint32_t));
    link->mean_got = piece.first + piece.count;
    return true;
}

static uint32_t piece_end(uint32_t first, uint32_t end)
{
    return end - first > WIRE_PIECE_BLOCKS ? first + WIRE_PIECE_BLOCKS : end;
}

static void write_range(const struct exchange *x, struct wire_cursor *cursor, uint32_t first,
                        uint32_t count)
{
    wire_write_tag(cursor, &x->tag);
    wire_write_u32(cursor, first);
    wire_write_u32(cursor, count);
}

static void fill_part(struct exchange *x, uint32_t to, struct wire_cursor *cursor)
{
    struct exchange_link *link = &x->link[to];
    const struct slot_set *slots = &x->link[x->me].slots;
    uint32_t first = link->part_sent, chunk_end = chunk_first(x, to + 1);
    bool empty = slot_set_is_empty(slots);
    uint32_t end = empty ? first : piece_end(first, chunk_end);
    write_range(x, cursor, first, end - first);
    wire_write_u32(cursor, empty);
    wire_write_u32(cursor, 0);
    wire_write(cursor, slots, sizeof *slots);
    link->part_sent = empty ? chunk_end : end;
    link->told_slots = true;
    uint64_t at = x->layout->start[first];
    wire_write(cursor, x->own.sum + at, elements_between(x, first, end) * sizeof(int64_t));
    wire_write(cursor, x->own.peak + first, (end - first) * sizeof(uint32_t));
    wire_write(cursor, x->own.odd + first, end - first);
    for (uint32_t b = first; b < end; b++)
        if (x->own.odd[b] != 0)
            wire_write(cursor, x->own.special + x->layout->start[b], elements_between(x, b, b + 1));
}

static void fill_mean(struct exchange *x, uint32_t to, struct wire_cursor *cursor)
{
    struct exchange_link *link = &x->link[to];
    uint32_t first = link->mean_sent, end = piece_end(first, x->finalised);
    write_range(x, cursor, first, end - first);
    wire_write(cursor, x->mean + x->layout->start[first],
               elements_between(x, first, end) * sizeof(float));
    wire_write(cursor, x->peak + first, (end - first) * sizeof(uint32_t));
    link->mean_sent = end;
}

size_t exchange_fill(struct exchange *x, uint32_t to, uint8_t *bytes, enum wire_kind *ret_kind)
{
    ASSERT(to != x->me);
    if (!x->ready || x->broken) return 0;
    struct wire_cursor cursor = {.at = bytes, .end = bytes + WIRE_PAYLOAD_MAX};
    const struct exchange_link *link = &x->link[to];
    if (!link->told_slots || link->part_sent < chunk_first(x, to + 1)) { /* a chunk may be empty */
        *ret_kind = WIRE_PART;
        fill_part(x, to, &cursor);
    } else if (link->mean_sent < x->finalised) {
        *ret_kind = WIRE_MEAN;
        fill_mean(x, to, &cursor);
    }
    return (size_t)(cursor.at - bytes);
}

bool exchange_is_done(const struct exchange *x)
{
    if (!x->ready || x->finalised < chunk_first(x, x->me + 1)) return false;
    for (uint32_t i = 0; i < x->member_count; i++)
        if (i != x->me && x->link[i].mean_got < chunk_first(x, i + 1)) return false;
    return x->checked;
}
