#include "worker/core/transfer.h"
#include "core/assert.h"
#include "worker/core/exchange.h"
#include <string.h>

/* In place of a turn's number, which is never so large (WIRE_TURN_MAX). */
#define STATE_MARK UINT64_C(0xfe5a7e57a7e57a7e)

enum { STRIPE_ALIGN = 64 };

static uint64_t stir(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return lane << 29 | lane >> 35;
}

static void hash_init(struct transfer_hash *hash)
{
    *hash = (struct transfer_hash){.lane = {1, 2, 3, 4}};
}

/* Whole rounds of all lanes. Returns the bytes done. */
static uint64_t hash_rounds(struct transfer_hash *hash, const uint8_t *bytes, uint64_t count)
{
    uint64_t lane[4], word[4], i = 0;
    if (hash->count_bytes % sizeof word != 0) return 0;
    memcpy(lane, hash->lane, sizeof lane);
    for (; count - i >= sizeof word; i += sizeof word) {
        memcpy(word, bytes + i, sizeof word);
        for (int k = 0; k < 4; k++) lane[k] = stir(lane[k], word[k]);
    }
    memcpy(hash->lane, lane, sizeof lane);
    hash->count_bytes += i;
    return i;
}

static void hash_add(struct transfer_hash *hash, const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = hash_rounds(hash, bytes, count); i < count;) {
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

uint64_t transfer_digest_range(const struct transfer_state *state, uint64_t first, uint64_t end)
{
    struct transfer_hash hash;
    hash_init(&hash);
    for (uint32_t i = 0; i < state->segment_count && first < end; i++) {
        uint64_t count = state->segment[i].count, from = first < count ? first : count;
        uint64_t to = end < count ? end : count;
        hash_add(&hash, state->segment[i].bytes + from, to - from);
        first -= from;
        end -= to;
    }
    return hash_end(&hash);
}

uint64_t transfer_digest(const struct transfer_state *state)
{
    return transfer_digest_range(state, 0, state->total_bytes);
}

/* First byte of a stripe; of stripe_count: the end. At boundaries of the hash's rounds. */
static uint64_t stripe_at(const struct transfer_state *state, uint32_t stripe,
                          uint32_t stripe_count)
{
    if (stripe == stripe_count) return state->total_bytes;
    uint64_t rounds = state->total_bytes / STRIPE_ALIGN;
    uint64_t whole = rounds / stripe_count, rest = rounds % stripe_count;
    return (whole * stripe + (stripe < rest ? stripe : rest)) * STRIPE_ALIGN;
}

void transfer_stripe(const struct transfer_state *state, uint32_t stripe, uint32_t stripe_count,
                     uint64_t *ret_first, uint64_t *ret_end)
{
    ASSERT(stripe < stripe_count);
    *ret_first = stripe_at(state, stripe, stripe_count);
    *ret_end = stripe_at(state, stripe + 1, stripe_count);
}

void transfer_send(struct transfer_out *out, const struct transfer_state *state, uint32_t stripe,
                   uint32_t stripe_count)
{
    uint64_t first, end;
    transfer_stripe(state, stripe, stripe_count, &first, &end);
    *out = (struct transfer_out){.active = first < end, .offset = first, .end = end};
    hash_init(&out->hash);
}

void transfer_receive(struct transfer_in *in, const struct transfer_state *state,
                      uint32_t stripe_count)
{
    ASSERT(stripe_count > 0);
    ASSERT(stripe_count <= GROUP_MEMBERS_MAX);
    ASSERT(state->total_bytes > 0);
    in->active = true;
    in->stripes_left = 0;
    for (uint32_t i = 0; i < stripe_count; i++) {
        transfer_send(&in->stripe[i], state, i, stripe_count);
        in->stripes_left += in->stripe[i].active;
    }
}

bool transfer_repeat(struct transfer_in *in, const struct transfer_state *state, uint32_t stripe,
                     uint32_t stripe_count)
{
    if (!in->active || !in->stripe[stripe].active) return false;
    transfer_send(&in->stripe[stripe], state, stripe, stripe_count);
    return true;
}

/* Spans over bytes [offset, offset + count) of the state. Returns how many bytes they hold: fewer
 * where the segments are too many for one message. */
static uint64_t find_spans(const struct transfer_state *state, uint64_t offset, uint64_t count,
                           struct exchange_message *message)
{
    uint64_t first = 0, found = 0;
    message->span_count = 0;
    for (uint32_t i = 0; i < state->segment_count && found < count; i++) {
        const struct transfer_segment *segment = &state->segment[i];
        uint64_t inside = offset + found - first; /* meaningful once it lies in this segment */
        first += segment->count;
        if (offset + found >= first) continue;
        if (message->span_count == EXCHANGE_SPANS_MAX) break;
        uint64_t left = segment->count - inside, part = left < count - found ? left : count - found;
        message->span[message->span_count++] = (struct span){segment->bytes + inside, part};
        found += part;
    }
    return found;
}

bool transfer_next(struct transfer_out *out, const struct transfer_state *state,
                   const struct wire_tag *tag, struct exchange_message *message)
{
    if (!out->active) return false;
    uint64_t left = out->end - out->offset;
    uint64_t count = left < WIRE_STATE_PIECE_BYTES ? left : WIRE_STATE_PIECE_BYTES;
    count = find_spans(state, out->offset, count, message);
    for (uint32_t i = 0; i < message->span_count; i++)
        hash_add(&out->hash, message->span[i].bytes, message->span[i].count);
    struct wire_cursor cursor = {.at = message->header,
                                 .end = message->header + sizeof message->header};
    memset(message->header, 0, sizeof message->header);
    wire_write_u64(&cursor, STATE_MARK);
    wire_write_tag(&cursor, tag);
    wire_write_u64(&cursor, out->offset);
    wire_write_u64(&cursor, state->total_bytes);
    wire_write_u64(&cursor, count == left ? hash_end(&out->hash) : 0);
    exchange_seal(message->header);
    message->tag = *tag;
    message->payload_bytes = count;
    out->offset += count;
    out->active = count < left;
    return true;
}

bool transfer_is_state(const uint8_t *header, struct wire_tag *ret_tag)
{
    struct wire_cursor cursor = wire_reader(header, EXCHANGE_HEADER_BYTES);
    if (wire_read_u64(&cursor) != STATE_MARK) return false;
    *ret_tag = wire_read_tag(&cursor);
    return true;
}

static void place(const struct transfer_state *state, const uint8_t *from)
{
    for (uint32_t i = 0; i < state->segment_count; i++) {
        const struct transfer_segment *segment = &state->segment[i];
        if (segment->count > 0) memcpy(segment->bytes, from, segment->count);
        from += segment->count;
    }
}

static enum transfer_result stripe_came(struct transfer_in *in, struct transfer_out *stripe,
                                        const struct transfer_state *state)
{
    stripe->active = false;
    if (--in->stripes_left > 0) return TRANSFER_MORE;
    in->active = false;
    place(state, in->shadow);
    return TRANSFER_DONE;
}

enum transfer_result transfer_own(struct transfer_in *in, uint32_t stripe,
                                  const struct transfer_state *state)
{
    if (!in->active || !in->stripe[stripe].active) return TRANSFER_MORE; /* of no bytes */
    return stripe_came(in, &in->stripe[stripe], state);
}

enum transfer_result transfer_take(struct transfer_in *in, uint32_t stripe,
                                   const struct transfer_state *state, const uint8_t *header,
                                   const uint8_t *payload, size_t count)
{
    struct wire_cursor cursor = wire_reader(header, EXCHANGE_HEADER_BYTES);
    (void)wire_read_u64(&cursor); /* the mark, and */
    (void)wire_read_tag(&cursor); /* the tag: the caller has compared both */
    uint64_t offset = wire_read_u64(&cursor), total = wire_read_u64(&cursor);
    uint64_t hash = wire_read_u64(&cursor);
    struct transfer_out *of = &in->stripe[stripe];
    if (!in->active || !of->active || offset != of->offset || total != state->total_bytes ||
        count > of->end - offset || count == 0)
        return TRANSFER_BAD;
    memcpy(in->shadow + offset, payload, count);
    hash_add(&of->hash, payload, count);
    of->offset += count;
    if (of->offset < of->end) return TRANSFER_MORE;
    if (hash_end(&of->hash) != hash) return TRANSFER_BAD;
    return stripe_came(in, of, state);
}
