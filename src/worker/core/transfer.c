#include "worker/core/transfer.h"
#include "core/assert.h"
#include <string.h>

enum { STATE_HEADER_BYTES = 16 + 8 + 8 + 8 };

static uint64_t stir(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return lane << 29 | lane >> 35;
}

static void hash_init(struct transfer_hash *hash)
{
    *hash = (struct transfer_hash){.lane = {1, 2, 3, 4}};
}

static void hash_add(struct transfer_hash *hash, const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count;) {
        uint64_t at = hash->count_bytes % 8, lane = hash->count_bytes / 8 % 4, word;
        if (at == 0 && count - i >= 8) {
            memcpy(&word, bytes + i, 8);
            hash->lane[lane] = stir(hash->lane[lane], word);
            hash->count_bytes += 8;
            i += 8;
            continue;
        }
        hash->tail[at] = bytes[i++];
        hash->count_bytes++;
        if (at != 7) continue;
        memcpy(&word, hash->tail, 8);
        hash->lane[lane] = stir(hash->lane[lane], word);
    }
}

static uint64_t hash_end(const struct transfer_hash *hash)
{
    uint64_t tail = 0, all = hash->count_bytes;
    memcpy(&tail, hash->tail, hash->count_bytes % 8);
    for (int i = 0; i < 4; i++) all = stir(all, hash->lane[i]);
    return stir(stir(all, tail), tail >> 7);
}

void transfer_send(struct transfer_out *out)
{
    *out = (struct transfer_out){.active = true};
    hash_init(&out->hash);
}

void transfer_receive(struct transfer_in *in)
{
    in->active = true;
    in->offset = 0;
    hash_init(&in->hash);
}

/* Copies bytes [offset, offset + count) of the state out of or into its segments. */
static void copy_range(const struct transfer_state *state, uint64_t offset, uint64_t count,
                       uint8_t *bytes, bool into_state)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < state->segment_count && count > 0; i++) {
        const struct transfer_segment *segment = &state->segment[i];
        uint64_t inside = offset - first; /* meaningful once offset lies in this segment */
        first += segment->count;
        if (offset >= first) continue;
        uint64_t part = segment->count - inside < count ? segment->count - inside : count;
        if (into_state)
            memcpy(segment->bytes + inside, bytes, part);
        else
            memcpy(bytes, segment->bytes + inside, part);
        offset += part;
        bytes += part;
        count -= part;
    }
    ASSERT(count == 0);
}

size_t transfer_fill(struct transfer_out *out, const struct transfer_state *state,
                     const struct wire_tag *tag, uint8_t *bytes)
{
    if (!out->active) return 0;
    uint64_t left = state->total_bytes - out->offset;
    uint64_t count = left < WIRE_STATE_PIECE_BYTES ? left : WIRE_STATE_PIECE_BYTES;
    uint8_t *data = bytes + STATE_HEADER_BYTES;
    copy_range(state, out->offset, count, data, false);
    hash_add(&out->hash, data, count);
    struct wire_cursor cursor = {.at = bytes, .end = bytes + WIRE_PAYLOAD_MAX};
    wire_write_tag(&cursor, tag);
    wire_write_u64(&cursor, out->offset);
    wire_write_u64(&cursor, state->total_bytes);
    wire_write_u64(&cursor, count == left ? hash_end(&out->hash) : 0);
    out->offset += count;
    out->active = count < left;
    return STATE_HEADER_BYTES + count;
}

enum transfer_result transfer_take(struct transfer_in *in, const struct transfer_state *state,
                                   const uint8_t *bytes, size_t count)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    (void)wire_read_tag(&cursor); /* the caller has compared it */
    uint64_t offset = wire_read_u64(&cursor), total = wire_read_u64(&cursor);
    uint64_t hash = wire_read_u64(&cursor);
    uint64_t data_count = (uint64_t)(cursor.end - cursor.at);
    if (cursor.failed || !in->active || offset != in->offset || total != state->total_bytes ||
        data_count > total - offset || (data_count == 0 && total > 0))
        return TRANSFER_BAD;
    if (data_count > 0) memcpy(in->shadow + offset, cursor.at, data_count);
    hash_add(&in->hash, cursor.at, data_count);
    in->offset += data_count;
    if (in->offset < total) return TRANSFER_MORE;
    in->active = false;
    if (hash_end(&in->hash) != hash) return TRANSFER_BAD;
    copy_range(state, 0, total, in->shadow, true);
    return TRANSFER_DONE;
}
