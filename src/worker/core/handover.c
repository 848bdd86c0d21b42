#include "worker/core/handover.h"
#include "core/assert.h"
#include <string.h>

#define HANDOVER_MARK                                                                              \
    UINT64_C(0xfe5a7e5700a2d0e2) /* no turn has such a number, see WIRE_TURN_MAX */

/* Elements of a message, over all arrays. */
enum { PIECE_BLOCKS = EXCHANGE_PAYLOAD_MAX / (4 * LAYOUT_BLOCK_ELEMENTS) };

static uint32_t unit_first(const struct handover *h, uint32_t unit)
{
    uint32_t block = shard_first_block(h->map->unit_count, h->layout->block_count, unit);
    return block < h->block_end ? block : h->block_end;
}

static bool goes(const struct handover *h, uint32_t unit, uint32_t from, uint32_t to)
{
    const struct shard_map *map = h->map;
    if (h->kind == HANDOVER_WEIGHTS) return map->owner[unit] == from && map->mirror[unit] != to;
    return (map->owner[unit] == to && h->moves->to_owner[unit] == from) ||
           (map->mirror[unit] == to && h->moves->to_mirror[unit] == from);
}

/* First block at or after `block` that goes from one to the other, block_end if none. */
static uint32_t next_block(const struct handover *h, uint32_t from, uint32_t to, uint32_t block)
{
    if (block >= h->block_end) return h->block_end;
    uint32_t unit = shard_unit_of(h->map->unit_count, h->layout->block_count, block);
    if (goes(h, unit, from, to)) return block;
    while (++unit < h->map->unit_count)
        if (goes(h, unit, from, to)) return unit_first(h, unit);
    return h->block_end;
}

/* End of the run that `block`, which goes, begins; not longer than a message may be. */
static uint32_t piece_end(const struct handover *h, uint32_t from, uint32_t to, uint32_t block)
{
    uint32_t unit = shard_unit_of(h->map->unit_count, h->layout->block_count, block);
    uint32_t limit = block + PIECE_BLOCKS / h->array_count;
    while (unit < h->map->unit_count && goes(h, unit, from, to) && unit_first(h, unit) < limit)
        unit++;
    uint32_t end = unit_first(h, unit);
    return end < limit ? end : limit;
}

void handover_begin(struct handover *h)
{
    ASSERT(h->array_count > 0);
    ASSERT(h->array_count <= HANDOVER_ARRAYS_MAX);
    ASSERT(h->me < h->member_count);
    h->begun = true;
    h->applied = 0;
    h->block_end = h->layout->block_count - 1;
    for (uint32_t i = 0; i < h->member_count; i++) {
        h->link[i].sent = i == h->me ? h->block_end : next_block(h, h->me, i, 0);
        h->link[i].got = i == h->me ? h->block_end : next_block(h, i, h->me, 0);
    }
}

void handover_abort(struct handover *h)
{
    h->begun = false;
}

void handover_may_leave(struct handover *h)
{
    h->applied = h->block_end;
}

struct header {
    struct wire_tag tag;
    uint32_t kind, first, count;
    uint32_t check; /* sum of the payload's words */
};

static void write_header(uint8_t *bytes, const struct header *header)
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + EXCHANGE_HEADER_BYTES};
    memset(bytes, 0, EXCHANGE_HEADER_BYTES);
    wire_write_u64(&cursor, HANDOVER_MARK);
    wire_write_tag(&cursor, &header->tag);
    wire_write_u32(&cursor, header->kind);
    wire_write_u32(&cursor, header->first);
    wire_write_u32(&cursor, header->count);
    wire_write_u32(&cursor, header->check);
    exchange_seal(bytes);
}

static bool read_header(const uint8_t *bytes, struct header *ret_header)
{
    struct wire_cursor cursor = wire_reader(bytes, EXCHANGE_HEADER_BYTES);
    if (!exchange_is_sealed(bytes)) return false;
    (void)wire_read_u64(&cursor); /* the mark: handover_is_ours() */
    ret_header->tag = wire_read_tag(&cursor);
    ret_header->kind = wire_read_u32(&cursor);
    ret_header->first = wire_read_u32(&cursor);
    ret_header->count = wire_read_u32(&cursor);
    ret_header->check = wire_read_u32(&cursor);
    return !cursor.failed;
}

bool handover_is_ours(const uint8_t *bytes)
{
    struct wire_cursor cursor = wire_reader(bytes, EXCHANGE_HEADER_BYTES);
    return wire_read_u64(&cursor) == HANDOVER_MARK;
}

static uint32_t sum_of_words(const float *x, uint64_t count)
{
    uint32_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, x + i, sizeof word);
        sum += word;
    }
    return sum;
}

bool handover_next(struct handover *h, uint32_t to, struct exchange_message *ret_message)
{
    if (!h->begun || to == h->me) return false;
    struct handover_link *link = &h->link[to];
    uint32_t first = link->sent;
    if (first >= h->block_end || first >= h->applied) return false;
    uint32_t end = piece_end(h, h->me, to, first);
    if (end > h->applied) end = h->applied;
    struct header header = {.tag = h->tag, .kind = h->kind, .first = first, .count = end - first};
    ret_message->tag = h->tag;
    ret_message->span_count = h->array_count;
    uint64_t at = h->layout->start[first], elements = h->layout->start[end] - at;
    for (uint32_t i = 0; i < h->array_count; i++) {
        ret_message->span[i] = (struct span){h->array[i] + at, elements * sizeof(float)};
        header.check += sum_of_words(h->array[i] + at, elements);
    }
    write_header(ret_message->header, &header);
    ret_message->payload_bytes = h->array_count * elements * sizeof(float);
    ASSERT(ret_message->payload_bytes <= EXCHANGE_PAYLOAD_MAX);
    h->sent_bytes += ret_message->payload_bytes;
    link->sent = next_block(h, h->me, to, end);
    return true;
}

bool handover_take(struct handover *h, uint32_t from, const uint8_t *header_bytes,
                   const uint8_t *payload, size_t count)
{
    struct header header;
    if (!read_header(header_bytes, &header)) return false;
    if (!h->begun || wire_tag_compare(&header.tag, &h->tag) != 0) return true; /* another turn's */
    if (header.kind != h->kind || from >= h->member_count || from == h->me) return false;
    struct handover_link *link = &h->link[from];
    if (header.first != link->got || link->got >= h->block_end || header.count == 0) return false;
    if (header.count > piece_end(h, from, h->me, header.first) - header.first) return false;
    uint64_t at = h->layout->start[header.first];
    uint64_t elements = h->layout->start[header.first + header.count] - at;
    if (count != h->array_count * elements * sizeof(float)) return false;
    uint32_t check = 0;
    for (uint32_t i = 0; i < h->array_count; i++)
        check += quant_kernel_copy(
            h->isa, (int32_t *)(void *)(h->array[i] + at),
            (const int32_t *)(const void *)(payload + i * elements * sizeof(float)), elements);
    if (check != header.check) return false;
    link->got = next_block(h, from, h->me, header.first + header.count);
    return true;
}

bool handover_is_done(const struct handover *h)
{
    if (!h->begun) return false;
    for (uint32_t i = 0; i < h->member_count; i++)
        if (h->link[i].got < h->block_end) return false;
    return true;
}
