#include "worker/core/exchange.h"
#include "core/assert.h"
#include <string.h>

/* Chunks: the k-th near equal part of all blocks, or the runs that the map gives. Cursors are block
 * numbers; those over the chunk of a member step from its one run to its next. */
static uint32_t chunk_next(const struct exchange *x, uint32_t member, uint32_t block)
{
    if (x->map == NULL) return block;
    return shard_next_owned(x->map, x->layout->block_count, member, block);
}

static uint32_t chunk_first(const struct exchange *x, uint32_t member)
{
    if (x->map == NULL) return layout_part(x->layout, member, x->member_count);
    return chunk_next(x, member, 0);
}

static uint32_t chunk_end(const struct exchange *x, uint32_t member)
{
    if (x->map == NULL) return layout_part(x->layout, member + 1, x->member_count);
    return x->layout->block_count;
}

/* End of the run that holds `block` of the chunk of a member. */
static uint32_t run_end(const struct exchange *x, uint32_t member, uint32_t block)
{
    if (x->map == NULL) return chunk_end(x, member);
    return shard_run_end(x->map, x->layout->block_count, block);
}

/* Does member `to` get the means of this block, or only what the next scales follow from? With a
 * map, its mirror alone; the loss, the last block, all. */
static bool gets_means(const struct exchange *x, uint32_t to, uint32_t block)
{
    if (x->map == NULL || block == x->layout->block_count - 1) return true;
    uint32_t unit = shard_unit_of(x->map->unit_count, x->layout->block_count, block);
    return x->map->mirror[unit] == to;
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
    for (uint32_t b = chunk_first(x, me), end; b < chunk_end(x, me); b = chunk_next(x, me, end)) {
        end = run_end(x, me, b);
        uint64_t at = x->layout->start[b];
        struct quant_sum run = {x->sum.sum + at, x->sum.peak + b, x->sum.odd + b,
                                x->sum.special + at};
        quant_clear(&run, end - b, elements_between(x, b, end));
    }
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
    uint32_t end = chunk_end(x, x->me);
    for (uint32_t i = 0; i < x->member_count; i++)
        if (i != x->me && x->link[i].part_got < end) end = x->link[i].part_got;
    const struct quant_sum *sum = x->member_count == 1 ? &x->own : &x->sum;
    while (x->finalised < end) {
        finalise_block(x, sum, x->finalised);
        x->finalised = chunk_next(x, x->me, x->finalised + 1);
    }
}

static void merge_side(struct exchange *x, uint32_t block, uint32_t peak, const uint8_t *special)
{
    uint64_t at = x->layout->start[block];
    quant_merge_block(&x->sum.peak[block], &x->sum.odd[block], x->sum.special + at, peak, special,
                      elements_between(x, block, block + 1));
}

static void add_own(struct exchange *x)
{
    uint32_t me = x->me;
    for (uint32_t b = chunk_first(x, me), end; b < chunk_end(x, me); b = chunk_next(x, me, end)) {
        end = run_end(x, me, b);
        uint64_t at = x->layout->start[b];
        quant_add_words(x->sum.sum + at, x->own.sum + at, elements_between(x, b, end));
        for (uint32_t i = b; i < end; i++)
            merge_side(x, i, x->own.peak[i],
                       x->own.odd[i] != 0 ? x->own.special + x->layout->start[i] : NULL);
    }
}

void exchange_ready(struct exchange *x, const struct slot_set *own_slots)
{
    ASSERT(x->begun);
    ASSERT(!x->ready);
    x->ready = true;
    x->link[x->me].slots = *own_slots;
    x->link[x->me].knows_slots = true;
    if (x->member_count > 1 && !slot_set_is_empty(own_slots)) add_own(x);
    finalise(x);
}

struct header {
    struct wire_tag tag;
    uint32_t kind, first, count, empty;
    struct slot_set slots;
};

enum message_kind { MESSAGE_PART = 1, MESSAGE_MEAN };

static_assert(16 + 4 * 4 + sizeof(struct slot_set) <= EXCHANGE_HEADER_BYTES, "the header fits");

static void write_header(uint8_t *bytes, const struct header *header)
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + EXCHANGE_HEADER_BYTES};
    memset(bytes, 0, EXCHANGE_HEADER_BYTES);
    wire_write_tag(&cursor, &header->tag);
    wire_write_u32(&cursor, header->kind);
    wire_write_u32(&cursor, header->first);
    wire_write_u32(&cursor, header->count);
    wire_write_u32(&cursor, header->empty);
    wire_write(&cursor, &header->slots, sizeof header->slots);
}

static bool read_header(const uint8_t *bytes, struct header *ret_header)
{
    struct wire_cursor cursor = wire_reader(bytes, EXCHANGE_HEADER_BYTES);
    ret_header->tag = wire_read_tag(&cursor);
    ret_header->kind = wire_read_u32(&cursor);
    ret_header->first = wire_read_u32(&cursor);
    ret_header->count = wire_read_u32(&cursor);
    ret_header->empty = wire_read_u32(&cursor);
    const uint8_t *slots = wire_read(&cursor, sizeof ret_header->slots);
    if (cursor.failed) return false;
    memcpy(&ret_header->slots, slots, sizeof ret_header->slots);
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
static bool odds_are_sound(const struct exchange *x, const struct header *header,
                           const uint8_t *odd, size_t special_bytes)
{
    uint64_t expected = 0;
    for (uint32_t i = 0; i < header->count; i++) {
        if (odd[i] > 1) return false;
        if (odd[i] == 1) expected += elements_between(x, header->first + i, header->first + i + 1);
    }
    return expected == special_bytes;
}

static bool add_part(struct exchange *x, const struct header *header, const uint8_t *payload,
                     size_t bytes)
{
    struct wire_cursor cursor = wire_reader(payload, bytes);
    uint64_t elements = elements_between(x, header->first, header->first + header->count);
    const uint8_t *sums = wire_read(&cursor, elements * sizeof(int64_t));
    const uint8_t *peaks = wire_read(&cursor, header->count * sizeof(uint32_t));
    const uint8_t *odd = wire_read(&cursor, header->count);
    if (cursor.failed || !peaks_are_sound(peaks, header->count)) return false;
    if (!odds_are_sound(x, header, odd, (size_t)(cursor.end - cursor.at))) return false;
    const uint8_t *special = cursor.at;
    quant_add_words(x->sum.sum + x->layout->start[header->first],
                    (const int64_t *)(const void *)sums, elements);
    for (uint32_t i = 0; i < header->count; i++) {
        uint32_t peak, block = header->first + i;
        memcpy(&peak, peaks + i * sizeof peak, sizeof peak);
        merge_side(x, block, peak, odd[i] == 1 ? special : NULL);
        if (odd[i] == 1) special += elements_between(x, block, block + 1);
    }
    return true;
}

/* Do these blocks lie in one run of the chunk of `member`, of which `first` is known to be? */
static bool is_in_run(const struct exchange *x, uint32_t member, const struct header *header)
{
    if (header->first >= chunk_end(x, member)) return header->count == 0;
    return header->count <= run_end(x, member, header->first) - header->first;
}

static bool take_part(struct exchange *x, struct exchange_link *link, const struct header *header,
                      const uint8_t *payload, size_t bytes)
{
    if (header->first != link->part_got || !is_in_run(x, x->me, header)) return false;
    if (link->knows_slots && memcmp(&header->slots, &link->slots, sizeof link->slots) != 0)
        return false;
    if ((header->empty == 1) != slot_set_is_empty(&header->slots)) return false;
    if (header->empty == 1 && bytes != 0) return false;
    if (header->empty == 0 && !add_part(x, header, payload, bytes)) return false;
    link->slots = header->slots;
    link->knows_slots = true;
    link->part_got = header->empty == 1 ? chunk_end(x, x->me)
                                        : chunk_next(x, x->me, header->first + header->count);
    finalise(x);
    return true;
}

static bool take_mean(struct exchange *x, uint32_t from, const struct header *header,
                      const uint8_t *payload, size_t bytes)
{
    struct exchange_link *link = &x->link[from];
    if (header->first != link->mean_got || !is_in_run(x, from, header)) return false;
    if (header->count == 0 || (header->empty == 0) != gets_means(x, x->me, header->first))
        return false;
    struct wire_cursor cursor = wire_reader(payload, bytes);
    uint64_t elements =
        header->empty == 1 ? 0 : elements_between(x, header->first, header->first + header->count);
    const uint8_t *means = wire_read(&cursor, elements * sizeof(float));
    const uint8_t *peaks = wire_read(&cursor, header->count * sizeof(uint32_t));
    /* Means need my part, so none can come before it has left. */
    if (cursor.failed || cursor.at != cursor.end || !x->ready) return false;
    if (!peaks_are_sound(peaks, header->count)) return false;
    if (elements > 0)
        memcpy(x->mean + x->layout->start[header->first], means, elements * sizeof(float));
    memcpy(x->peak + header->first, peaks, header->count * sizeof(uint32_t));
    link->mean_got = chunk_next(x, from, header->first + header->count);
    return true;
}

bool exchange_take(struct exchange *x, uint32_t from, const uint8_t *header_bytes,
                   const uint8_t *payload, size_t count)
{
    struct header header;
    ASSERT(((uintptr_t)payload & 7) == 0);
    if (!read_header(header_bytes, &header) || count > EXCHANGE_PAYLOAD_MAX) return false;
    if (header.empty > 1 || header.kind < MESSAGE_PART || header.kind > MESSAGE_MEAN) return false;
    if (!x->begun || wire_tag_compare(&header.tag, &x->tag) != 0) return true; /* another turn's */
    if (from == x->me || from >= x->member_count) return false;
    if (header.kind == MESSAGE_PART) return take_part(x, &x->link[from], &header, payload, count);
    return take_mean(x, from, &header, payload, count);
}

static uint32_t piece_end(uint32_t first, uint32_t end)
{
    return end - first > WIRE_PIECE_BLOCKS ? first + WIRE_PIECE_BLOCKS : end;
}

static void add_span(struct exchange_message *message, const void *bytes, size_t count)
{
    if (count == 0) return;
    ASSERT(message->span_count < EXCHANGE_SPANS_MAX);
    message->span[message->span_count++] = (struct span){bytes, count};
    message->payload_bytes += count;
    ASSERT(message->payload_bytes <= EXCHANGE_PAYLOAD_MAX);
}

static void next_part(struct exchange *x, uint32_t to, struct exchange_message *message)
{
    struct exchange_link *link = &x->link[to];
    const struct slot_set *slots = &x->link[x->me].slots;
    uint32_t first = link->part_sent, end = first;
    bool empty = slot_set_is_empty(slots);
    if (!empty && first < chunk_end(x, to)) end = piece_end(first, run_end(x, to, first));
    struct header header = {.tag = x->tag,
                            .kind = MESSAGE_PART,
                            .first = first,
                            .count = end - first,
                            .empty = empty,
                            .slots = *slots};
    write_header(message->header, &header);
    link->part_sent = empty ? chunk_end(x, to) : chunk_next(x, to, end);
    uint64_t at = x->layout->start[first], special_count = 0;
    add_span(message, x->own.sum + at, elements_between(x, first, end) * sizeof(int64_t));
    add_span(message, x->own.peak + first, (end - first) * sizeof(uint32_t));
    add_span(message, x->own.odd + first, end - first);
    for (uint32_t b = first; b < end; b++) {
        if (x->own.odd[b] == 0) continue;
        uint64_t count = elements_between(x, b, b + 1);
        memcpy(message->extra + special_count, x->own.special + x->layout->start[b], count);
        special_count += count;
    }
    add_span(message, message->extra, special_count);
}

static void next_mean(struct exchange *x, uint32_t to, struct exchange_message *message)
{
    struct exchange_link *link = &x->link[to];
    uint32_t first = link->mean_sent, end = run_end(x, x->me, first);
    bool means = gets_means(x, to, first);
    if (end == x->layout->block_count && x->map != NULL && first < end - 1) end--; /* the loss */
    end = piece_end(first, end < x->finalised ? end : x->finalised);
    struct header header = {
        .tag = x->tag, .kind = MESSAGE_MEAN, .first = first, .count = end - first, .empty = !means};
    write_header(message->header, &header);
    if (means)
        add_span(message, x->mean + x->layout->start[first],
                 elements_between(x, first, end) * sizeof(float));
    add_span(message, x->peak + first, (end - first) * sizeof(uint32_t));
    link->mean_sent = chunk_next(x, x->me, end);
}

static_assert(WIRE_PIECE_BLOCKS * LAYOUT_BLOCK_ELEMENTS <= EXCHANGE_EXTRA_BYTES, "all special");

bool exchange_next(struct exchange *x, uint32_t to, struct exchange_message *ret_message)
{
    ASSERT(to != x->me);
    if (!x->ready || x->broken) return false;
    const struct exchange_link *link = &x->link[to];
    bool part = link->part_sent < chunk_end(x, to); /* nothing for an empty chunk */
    if (!part && link->mean_sent >= x->finalised) return false;
    ret_message->tag = x->tag;
    ret_message->span_count = 0;
    ret_message->payload_bytes = 0;
    if (part)
        next_part(x, to, ret_message);
    else
        next_mean(x, to, ret_message);
    return true;
}

size_t exchange_copy(const struct exchange_message *message, uint8_t *bytes)
{
    memcpy(bytes, message->header, EXCHANGE_HEADER_BYTES);
    size_t at = EXCHANGE_HEADER_BYTES;
    for (uint32_t i = 0; i < message->span_count; i++) {
        memcpy(bytes + at, message->span[i].bytes, message->span[i].count);
        at += message->span[i].count;
    }
    ASSERT(at == EXCHANGE_HEADER_BYTES + message->payload_bytes);
    return at;
}

bool exchange_holds(const struct exchange *x, const struct exchange_message *message)
{
    return x->begun && wire_tag_compare(&x->tag, &message->tag) == 0;
}

bool exchange_owns(const struct exchange *x, uint32_t member)
{
    return chunk_first(x, member) < chunk_end(x, member);
}

bool exchange_is_done(const struct exchange *x)
{
    if (!x->ready || x->finalised < chunk_end(x, x->me)) return false;
    for (uint32_t i = 0; i < x->member_count; i++)
        if (i != x->me && x->link[i].mean_got < chunk_end(x, i)) return false;
    return x->checked || !exchange_owns(x, x->me); /* those who own a chunk have checked theirs */
}

void exchange_missing(const struct exchange *x, uint64_t *ret_parts, uint64_t *ret_means)
{
    *ret_parts = *ret_means = 0;
    for (uint32_t i = 0; x->begun && i < x->member_count; i++) {
        const struct exchange_link *link = &x->link[i];
        if (i == x->me) continue;
        bool part = !link->knows_slots || link->part_got < chunk_end(x, x->me);
        if (part && exchange_owns(x, x->me)) *ret_parts |= UINT64_C(1) << i;
        if (link->mean_got < chunk_end(x, i)) *ret_means |= UINT64_C(1) << i;
    }
}
