/* What goes over the links: laying messages out, and taking them apart. */
#include "core/assert.h"
#include "worker/core/exchange.h"
#include "worker/core/exchange_merge.h"
#include <string.h>

enum message_kind { MESSAGE_PART = 1, MESSAGE_MEAN };

/* PART: words of `count` blocks from `first`, their peaks, and with HAS_PAGES their page masks and
 * pages. EMPTY stands for a whole chunk, from one who has nothing for it.
 * MEAN: means (HAS_MEANS), a byte per block with the next scale, nodes of the sums of squares. */
enum message_flag { FLAG_EMPTY = 1, FLAG_PAGES = 2, FLAG_MEANS = 4 };

struct header {
    struct wire_tag tag;
    uint32_t kind, chunk, first, count, flags;
    uint32_t check;      /* sum of the payload's words or means as 32-bit words */
    uint32_t side_check; /* of the bytes behind them */
    struct slot_set slots;
};

enum { SEALED_BYTES = EXCHANGE_HEADER_BYTES - 4 };
static_assert(16 + 7 * 4 + sizeof(struct slot_set) <= SEALED_BYTES, "the header fits");

void exchange_seal(uint8_t header[EXCHANGE_HEADER_BYTES])
{
    uint32_t check = wire_check(1, header, SEALED_BYTES);
    memcpy(header + SEALED_BYTES, &check, sizeof check);
}

bool exchange_is_sealed(const uint8_t header[EXCHANGE_HEADER_BYTES])
{
    uint32_t check = wire_check(1, header, SEALED_BYTES);
    return memcmp(header + SEALED_BYTES, &check, sizeof check) == 0;
}

static void write_header(uint8_t *bytes, const struct header *header)
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + EXCHANGE_HEADER_BYTES};
    memset(bytes, 0, EXCHANGE_HEADER_BYTES);
    wire_write_tag(&cursor, &header->tag);
    wire_write_u32(&cursor, header->kind);
    wire_write_u32(&cursor, header->chunk);
    wire_write_u32(&cursor, header->first);
    wire_write_u32(&cursor, header->count);
    wire_write_u32(&cursor, header->flags);
    wire_write_u32(&cursor, header->check);
    wire_write_u32(&cursor, header->side_check);
    wire_write(&cursor, &header->slots, sizeof header->slots);
    exchange_seal(bytes);
}

static bool read_header(const uint8_t *bytes, struct header *ret_header)
{
    struct wire_cursor cursor = wire_reader(bytes, EXCHANGE_HEADER_BYTES);
    if (!exchange_is_sealed(bytes)) return false;
    ret_header->tag = wire_read_tag(&cursor);
    ret_header->kind = wire_read_u32(&cursor);
    ret_header->chunk = wire_read_u32(&cursor);
    ret_header->first = wire_read_u32(&cursor);
    ret_header->count = wire_read_u32(&cursor);
    ret_header->flags = wire_read_u32(&cursor);
    ret_header->check = wire_read_u32(&cursor);
    ret_header->side_check = wire_read_u32(&cursor);
    const uint8_t *slots = wire_read(&cursor, sizeof ret_header->slots);
    if (cursor.failed) return false;
    memcpy(&ret_header->slots, slots, sizeof ret_header->slots);
    return true;
}

static uint64_t elements_of(const struct exchange *x, const struct header *header)
{
    return x->layout->start[header->first + header->count] - x->layout->start[header->first];
}

/* The piece that these blocks are the next ones of; cursor: how many of it have come. False: they
 * are not. */
static bool find_piece(const struct exchange *x, const struct header *header,
                       const uint16_t *cursor, uint32_t *ret_piece)
{
    if (header->first >= x->layout->block_count || header->count == 0) return false;
    uint32_t piece = x->piece_of[header->first];
    const struct exchange_chunk *chunk = &x->chunk[header->chunk];
    if (piece < chunk->piece || piece >= chunk->piece_end) return false;
    if (header->first != x->piece_first[piece] + cursor[piece]) return false;
    *ret_piece = piece;
    return header->count <= (uint32_t)x->piece_blocks[piece] - cursor[piece];
}

/* The pages of a part's blocks: masks, then all pages in order. False: lengths do not fit. */
static bool pages_are_sound(const struct exchange *x, const struct header *header,
                            struct wire_cursor *cursor, const uint8_t **ret_masks)
{
    *ret_masks = NULL;
    if ((header->flags & FLAG_PAGES) == 0) return cursor->at == cursor->end;
    size_t bytes = 0;
    *ret_masks = wire_read(cursor, header->count * sizeof(uint16_t));
    if (cursor->failed) return false;
    for (uint32_t i = 0; i < header->count; i++) {
        uint16_t pages;
        uint32_t block = header->first + i;
        memcpy(&pages, *ret_masks + i * sizeof pages, sizeof pages);
        if (pages >> QUANT_PAGES != 0) return false;
        bytes += quant_pages_bytes(pages, x->layout->start[block + 1] - x->layout->start[block]);
    }
    return bytes == (size_t)(cursor->end - cursor->at);
}

/* The sender's words are not what it made a sum of, or ours have changed in memory. */
static bool refuse(struct exchange *x, uint32_t from)
{
    x->corrupt = from;
    x->broken = true;
    return false;
}

static bool merge_blocks(struct exchange *x, uint32_t from, const struct header *header,
                         const uint8_t *payload, size_t bytes)
{
    struct wire_cursor cursor = wire_reader(payload, bytes);
    const uint8_t *words = wire_read(&cursor, elements_of(x, header) * sizeof(int32_t)), *masks;
    const uint8_t *peaks = wire_read(&cursor, header->count);
    if (cursor.failed || !pages_are_sound(x, header, &cursor, &masks)) return false;
    const uint8_t *extra = peaks + header->count;
    uint32_t side = wire_check(0, peaks, header->count);
    if (wire_check(side, extra, (size_t)(payload + bytes - extra)) != header->side_check)
        return refuse(x, from);
    const uint8_t *pages = cursor.at;
    uint32_t check = 0;
    for (uint32_t i = 0; i < header->count && !x->broken; i++) {
        uint32_t block = header->first + i;
        uint64_t count = x->layout->start[block + 1] - x->layout->start[block];
        struct quant_part part = {.word = (const int32_t *)(const void *)words,
                                  .peak = peaks[i],
                                  .packed = pages,
                                  .count = count};
        if (part.peak == UINT8_MAX) return false; /* peaks are finite by definition */
        if (masks != NULL) memcpy(&part.pages, masks + i * sizeof part.pages, sizeof part.pages);
        pages += quant_pages_bytes(part.pages, count);
        words += count * sizeof(int32_t);
        check += merge_part(x, header->chunk, block, &part);
    }
    return x->broken || check == header->check || refuse(x, from);
}

static bool take_part(struct exchange *x, uint32_t from, const struct header *header,
                      const uint8_t *payload, size_t bytes)
{
    uint16_t *got = x->part_got + (size_t)from * x->piece_max;
    bool empty = (header->flags & FLAG_EMPTY) != 0;
    uint32_t piece = 0;
    if (x->parent[header->chunk][from] != x->me || !exchange_owns(x, header->chunk)) return false;
    if (empty != slot_set_is_empty(&header->slots) || (empty && bytes != 0)) return false;
    if (!empty && !find_piece(x, header, got, &piece)) return false;
    if (!merge_slots(x, header->chunk, from, &header->slots)) return false;
    if (empty || x->broken) return true;
    got[piece] = (uint16_t)(got[piece] + header->count);
    return merge_blocks(x, from, header, payload, bytes);
}

/* Does the chunk's owner, or a relay, send the means of this block to `to`? */
static bool gets_means(const struct exchange *x, uint32_t to, uint32_t block)
{
    if (x->map == NULL || block == x->layout->block_count - 1) return true;
    uint32_t unit = shard_unit_of(x->map->unit_count, x->layout->block_count, block);
    return x->map->mirror[unit] == to;
}

static uint32_t out_parent(const struct exchange *x, uint32_t chunk, uint32_t member)
{
    if (member == chunk) return GROUP_NOBODY;
    return x->map != NULL || exchange_watches(x, member) ? chunk : x->parent[chunk][member];
}

static bool take_mean(struct exchange *x, uint32_t from, const struct header *header,
                      const uint8_t *payload, size_t bytes)
{
    uint32_t piece = 0;
    /* Means need my part, so none can come before it has left. */
    if (!x->ready || out_parent(x, header->chunk, x->me) != from) return false;
    if (!find_piece(x, header, x->out_done, &piece)) return false;
    bool means = (header->flags & FLAG_MEANS) != 0;
    if (means != gets_means(x, x->me, header->first)) return false;
    struct wire_cursor cursor = wire_reader(payload, bytes);
    uint64_t elements = means ? elements_of(x, header) : 0;
    uint32_t first = header->first, end = first + header->count;
    const uint8_t *mean = wire_read(&cursor, elements * sizeof(float));
    const uint8_t *scales = wire_read(&cursor, header->count);
    const uint8_t *nodes = wire_read(&cursor, exchange_norm_nodes(first, end) * sizeof(double));
    if (cursor.failed || cursor.at != cursor.end) return false;
    if (wire_check(0, scales, (size_t)(cursor.end - scales)) != header->side_check)
        return refuse(x, from);
    if (means) {
        uint32_t check =
            quant_kernel_copy(x->sum.isa, (int32_t *)(void *)(x->mean + x->layout->start[first]),
                              (const int32_t *)(const void *)mean, elements);
        if (check != header->check && !x->sum.is_plain) return refuse(x, from);
        x->out_check[piece] += check;
    }
    for (uint32_t i = 0; i < header->count; i++)
        x->next_scale[first + i] = quant_scale_of_byte(scales[i]);
    exchange_norm_read(x->square, first, end, nodes);
    x->out_done[piece] = (uint16_t)(x->out_done[piece] + header->count);
    if (x->out_done[piece] == x->piece_blocks[piece]) merge_out_done(x, header->chunk, piece);
    return true;
}

bool exchange_take(struct exchange *x, uint32_t from, const uint8_t *header_bytes,
                   const uint8_t *payload, size_t count)
{
    struct header header;
    ASSERT(((uintptr_t)payload & 15) == 0);
    if (!read_header(header_bytes, &header) || count > EXCHANGE_PAYLOAD_MAX) return false;
    if (!x->begun || wire_tag_compare(&header.tag, &x->tag) != 0) return true; /* another turn's */
    if (from == x->me || from >= x->member_count || header.chunk >= x->member_count) return false;
    if (x->broken) return true; /* it will be begun again */
    if (header.kind == MESSAGE_PART) return take_part(x, from, &header, payload, count);
    return header.kind == MESSAGE_MEAN && take_mean(x, from, &header, payload, count);
}

static void add_span(struct exchange_message *message, const void *bytes, size_t count)
{
    if (count == 0) return;
    ASSERT(message->span_count < EXCHANGE_SPANS_MAX);
    message->span[message->span_count++] = (struct span){bytes, count};
    message->payload_bytes += count;
    ASSERT(message->payload_bytes <= EXCHANGE_PAYLOAD_MAX);
}

static_assert(EXCHANGE_PIECE_BLOCKS * 2 + QUANT_PAGES_BYTES_MAX <= EXCHANGE_EXTRA_BYTES,
              "at least one block fits with all its pages");
static_assert(EXCHANGE_PIECE_BLOCKS * (LAYOUT_BLOCK_ELEMENTS * 4 + 1) + EXCHANGE_EXTRA_BYTES <=
                  EXCHANGE_PAYLOAD_MAX,
              "a piece fits");

/* Blocks of the piece from `first` on whose pages fit into `extra`: masks, then pages. */
static uint32_t write_parts(const struct exchange *x, uint32_t first, uint32_t end,
                            struct exchange_message *message, struct header *header,
                            size_t *ret_extra)
{
    size_t masks = (end - first) * sizeof(uint16_t), at = masks;
    uint32_t block = first;
    for (; block < end; block++) {
        uint32_t check;
        struct quant_part part = merge_outgoing(x, block, &check);
        uint64_t count = x->layout->start[block + 1] - x->layout->start[block];
        if (part.pages != 0) {
            if (at + quant_pages_bytes(part.pages, count) > EXCHANGE_EXTRA_BYTES) break;
            header->flags |= FLAG_PAGES;
            at += quant_write_pages(&part, count, message->extra + at);
        }
        memcpy(message->extra + (block - first) * sizeof part.pages, &part.pages,
               sizeof part.pages);
        header->check += check;
    }
    size_t used = (block - first) * sizeof(uint16_t);
    if (used < masks) memmove(message->extra + used, message->extra + masks, at - masks);
    *ret_extra = (header->flags & FLAG_PAGES) != 0 ? used + at - masks : 0;
    return block;
}

static void lay_part(struct exchange *x, uint32_t piece, struct exchange_message *message,
                     struct header *header)
{
    uint32_t first = x->piece_first[piece] + x->part_sent[piece], check;
    uint32_t end = x->piece_first[piece] + x->piece_blocks[piece];
    size_t extra;
    struct quant_part part = merge_outgoing(x, first, &check);
    const uint8_t *peaks =
        (part.word == x->own.word + x->layout->start[first] ? x->own.peak : x->sum.peak) + first;
    end = write_parts(x, first, end, message, header, &extra);
    header->first = first;
    header->count = end - first;
    header->side_check = wire_check(wire_check(0, peaks, header->count), message->extra, extra);
    add_span(message, part.word, elements_of(x, header) * sizeof(int32_t));
    add_span(message, peaks, header->count);
    add_span(message, message->extra, extra);
    x->part_sent[piece] = (uint16_t)(x->part_sent[piece] + header->count);
    if (x->part_sent[piece] == x->piece_blocks[piece]) x->chunk[header->chunk].parts_sent++;
}

/* The next piece from *at on, round the chunk, for which done < of and ready; piece_end: none. */
static uint32_t next_piece(const struct exchange *x, const struct exchange_chunk *chunk,
                           uint32_t at, const uint16_t *done, const uint16_t *ready)
{
    uint32_t count = chunk->piece_end - chunk->piece;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t piece = at + i < chunk->piece_end ? at + i : at + i - count;
        if (done[piece] < x->piece_blocks[piece] && ready[piece] == x->piece_blocks[piece])
            return piece;
    }
    return chunk->piece_end;
}

static bool next_part(struct exchange *x, uint32_t index, struct exchange_message *message)
{
    struct exchange_chunk *chunk = &x->chunk[index];
    struct header header = {.tag = x->tag, .kind = MESSAGE_PART, .chunk = index};
    bool all_heard = members_in(chunk->heard) == chunk->children;
    if (chunk->own_counted && all_heard && !chunk->empty_told && exchange_owns(x, index) &&
        slot_set_is_empty(&chunk->slots)) {
        chunk->empty_told = true;
        header.flags = FLAG_EMPTY;
        write_header(message->header, &header);
        return true;
    }
    if (chunk->parts_ready == chunk->parts_sent) return false;
    uint32_t piece = next_piece(x, chunk, chunk->next_part, x->part_sent, x->merged);
    ASSERT(piece < chunk->piece_end);
    chunk->next_part = piece;
    header.slots = chunk->slots;
    lay_part(x, piece, message, &header);
    write_header(message->header, &header);
    return true;
}

static bool next_mean(struct exchange *x, uint32_t index, uint32_t to,
                      struct exchange_message *message)
{
    const struct exchange_chunk *chunk = &x->chunk[index];
    if (x->outs_sent[index][to] == chunk->outs_ready) return false;
    uint16_t *sent = x->out_sent + (size_t)to * x->piece_max;
    uint32_t piece = next_piece(x, chunk, x->next_out[index][to], sent, x->out_done);
    ASSERT(piece < chunk->piece_end);
    uint32_t first = x->piece_first[piece], end = first + x->piece_blocks[piece];
    struct header header = {.tag = x->tag, .kind = MESSAGE_MEAN, .chunk = index, .first = first};
    header.count = end - first;
    if (gets_means(x, to, first)) {
        header.flags = FLAG_MEANS;
        header.check = x->out_check[piece];
        add_span(message, x->mean + x->layout->start[first],
                 elements_of(x, &header) * sizeof(float));
    }
    double node[EXCHANGE_NODES_MAX];
    uint8_t *side = message->extra;
    for (uint32_t b = first; b < end; b++) *side++ = quant_scale_byte(x->next_scale[b]);
    size_t nodes = exchange_norm_write(x->square, first, end, node) * sizeof node[0];
    memcpy(side, node, nodes);
    header.side_check = wire_check(0, message->extra, header.count + nodes);
    add_span(message, message->extra, header.count + nodes);
    write_header(message->header, &header);
    sent[piece] = x->piece_blocks[piece];
    x->next_out[index][to] = piece;
    x->outs_sent[index][to]++;
    return true;
}

bool exchange_next(struct exchange *x, uint32_t to, struct exchange_message *ret_message)
{
    ASSERT(to != x->me);
    ASSERT(to < x->member_count);
    if (!x->begun || !x->ready || x->broken || !exchange_meets(x, to)) return false;
    ret_message->tag = x->tag;
    ret_message->span_count = 0;
    ret_message->payload_bytes = 0;
    for (uint32_t i = 0; i < x->member_count; i++)
        if (x->parent[i][x->me] == to && next_part(x, i, ret_message)) return true;
    for (uint32_t i = 0; i < x->member_count; i++)
        if (out_parent(x, i, to) == x->me && next_mean(x, i, to, ret_message)) return true;
    return false;
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
