#include "worker/core/wire.h"
#include "core/assert.h"
#include "worker/core/liveness.h"
#include <string.h>

#define MAGIC     UINT32_C(0x314c4853) /* "SHL1" */
#define KIND_MASK UINT32_C(0xff)

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are copied as they lie");

int wire_tag_compare(const struct wire_tag *a, const struct wire_tag *b)
{
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    if (a->leader != b->leader) return a->leader < b->leader ? -1 : 1;
    return 0;
}

void wire_write(struct wire_cursor *cursor, const void *bytes, size_t count)
{
    ASSERT((size_t)(cursor->end - cursor->at) >= count);
    if (count > 0) memcpy(cursor->at, bytes, count);
    cursor->at += count;
}

const uint8_t *wire_read(struct wire_cursor *cursor, size_t count)
{
    if (cursor->failed || (size_t)(cursor->end - cursor->at) < count) {
        cursor->failed = true;
        return NULL;
    }
    const uint8_t *bytes = cursor->at;
    cursor->at += count;
    return bytes;
}

void wire_write_u32(struct wire_cursor *cursor, uint32_t value)
{
    wire_write(cursor, &value, sizeof value);
}

void wire_write_u64(struct wire_cursor *cursor, uint64_t value)
{
    wire_write(cursor, &value, sizeof value);
}

uint32_t wire_read_u32(struct wire_cursor *cursor)
{
    uint32_t value = 0;
    const uint8_t *bytes = wire_read(cursor, sizeof value);
    if (bytes != NULL) memcpy(&value, bytes, sizeof value);
    return value;
}

uint64_t wire_read_u64(struct wire_cursor *cursor)
{
    uint64_t value = 0;
    const uint8_t *bytes = wire_read(cursor, sizeof value);
    if (bytes != NULL) memcpy(&value, bytes, sizeof value);
    return value;
}

void wire_write_tag(struct wire_cursor *cursor, const struct wire_tag *tag)
{
    wire_write_u64(cursor, tag->turn);
    wire_write_u64(cursor, tag->leader);
}

struct wire_tag wire_read_tag(struct wire_cursor *cursor)
{
    uint64_t turn = wire_read_u64(cursor), leader = wire_read_u64(cursor);
    if (turn > WIRE_TURN_MAX) cursor->failed = true; /* the next one must have a number too */
    return (struct wire_tag){turn, leader};
}

struct wire_cursor wire_reader(const uint8_t *bytes, size_t count)
{
    uint8_t *at = (uint8_t *)(uintptr_t)bytes; /* read only through this cursor */
    return (struct wire_cursor){.at = at, .end = at + count};
}

static struct wire_cursor writer(uint8_t *bytes)
{
    return (struct wire_cursor){.at = bytes, .end = bytes + WIRE_PAYLOAD_MAX};
}

static bool ended_well(const struct wire_cursor *cursor)
{
    return !cursor->failed && cursor->at == cursor->end;
}

uint32_t wire_check(uint32_t check, const uint8_t *bytes, size_t count)
{
    uint64_t sum = check;
    for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        if (i + sizeof word <= count)
            memcpy(&word, bytes + i, sizeof word);
        else
            memcpy(&word, bytes + i, count - i);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32;
    }
    return (uint32_t)sum;
}

static uint32_t header_check(uint32_t kind, uint32_t payload_bytes)
{
    return (kind * UINT32_C(0x9e3779b1) ^ payload_bytes) * UINT32_C(0x85ebca6b) ^ MAGIC;
}

/* In the upper bits of the word of the kind. */
static uint32_t payload_check(uint32_t kind, const uint8_t *payload, uint32_t payload_bytes)
{
    return kind == WIRE_HELLO ? 0 : wire_check(kind, payload, payload_bytes) & ~KIND_MASK;
}

void wire_put_header(uint8_t *bytes, enum wire_kind kind, uint32_t payload_bytes)
{
    ASSERT(payload_bytes <= WIRE_PAYLOAD_MAX);
    uint32_t kinds = kind | payload_check(kind, bytes + WIRE_HEADER_BYTES, payload_bytes);
    uint32_t words[4] = {MAGIC, kinds, payload_bytes, header_check(kinds, payload_bytes)};
    memcpy(bytes, words, sizeof words);
}

bool wire_payload_is_sound(const uint8_t *bytes)
{
    uint32_t words[4];
    memcpy(words, bytes, sizeof words);
    uint32_t check = payload_check(words[1] & KIND_MASK, bytes + WIRE_HEADER_BYTES, words[2]);
    return check == (words[1] & ~KIND_MASK);
}

bool wire_get_header(const uint8_t *bytes, enum wire_kind *ret_kind, uint32_t *ret_payload_bytes)
{
    uint32_t words[4];
    memcpy(words, bytes, sizeof words);
    if (words[0] != MAGIC || words[3] != header_check(words[1], words[2])) return false;
    uint32_t kind = words[1] & KIND_MASK;
    if (kind == 0 || kind >= WIRE_KIND_END || words[2] > WIRE_PAYLOAD_MAX) return false;
    *ret_kind = (enum wire_kind)kind;
    *ret_payload_bytes = words[2];
    return true;
}

static void write_place(struct wire_cursor *cursor, const struct wire_place *place)
{
    wire_write(cursor, place->host, sizeof place->host);
    wire_write(cursor, place->door, sizeof place->door);
    wire_write(cursor, place->zone, sizeof place->zone);
    wire_write_u32(cursor, place->port);
    wire_write_u32(cursor, place->forced);
}

/* Zones are printed and compared: nothing but what can be printed, then zeros to the end. */
static bool zone_is_sound(const char zone[WIRE_ZONE_BYTES])
{
    uint32_t i = 0;
    while (i < WIRE_ZONE_BYTES && zone[i] > 0x20 && zone[i] < 0x7f) i++;
    if (i == WIRE_ZONE_BYTES) return false;
    while (i < WIRE_ZONE_BYTES && zone[i] == '\0') i++;
    return i == WIRE_ZONE_BYTES;
}

static bool read_place(struct wire_cursor *cursor, struct wire_place *ret_place)
{
    const uint8_t *host = wire_read(cursor, sizeof ret_place->host);
    const uint8_t *door = wire_read(cursor, sizeof ret_place->door);
    const uint8_t *zone = wire_read(cursor, sizeof ret_place->zone);
    ret_place->port = wire_read_u32(cursor);
    ret_place->forced = wire_read_u32(cursor);
    if (cursor->failed || ret_place->port == 0 || ret_place->port > 65535 || ret_place->forced > 3)
        return false;
    memcpy(ret_place->host, host, sizeof ret_place->host);
    memcpy(ret_place->door, door, sizeof ret_place->door);
    memcpy(ret_place->zone, zone, sizeof ret_place->zone);
    return zone_is_sound(ret_place->zone);
}

size_t wire_put_hello(uint8_t *bytes, const struct wire_hello *hello)
{
    struct wire_cursor cursor = writer(bytes);
    wire_write_u32(&cursor, hello->version);
    wire_write_u64(&cursor, hello->job);
    wire_write_u64(&cursor, hello->worker);
    wire_write_u64(&cursor, hello->plan);
    wire_write_u64(&cursor, hello->identity);
    wire_write_u64(&cursor, hello->key);
    write_place(&cursor, &hello->place);
    wire_write_u64(&cursor, hello->steps);
    wire_write_u32(&cursor, hello->slots);
    wire_write_u32(&cursor, hello->samples_per_slot);
    wire_write_u32(&cursor, hello->tensor_count);
    wire_write(&cursor, hello->tensor_marks, (size_t)hello->tensor_count * 4);
    return (size_t)(cursor.at - bytes);
}

bool wire_get_hello(const uint8_t *bytes, size_t count, struct wire_hello *ret_hello)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_hello hello = {.version = wire_read_u32(&cursor)};
    hello.job = wire_read_u64(&cursor);
    hello.worker = wire_read_u64(&cursor);
    hello.plan = wire_read_u64(&cursor);
    hello.identity = wire_read_u64(&cursor);
    hello.key = wire_read_u64(&cursor);
    if (!read_place(&cursor, &hello.place)) return false;
    hello.steps = wire_read_u64(&cursor);
    hello.slots = wire_read_u32(&cursor);
    hello.samples_per_slot = wire_read_u32(&cursor);
    hello.tensor_count = wire_read_u32(&cursor);
    hello.tensor_marks = wire_read(&cursor, (size_t)hello.tensor_count * 4);
    if (!ended_well(&cursor)) return false;
    *ret_hello = hello;
    return true;
}

size_t wire_put_status(uint8_t *bytes, const struct wire_status *status)
{
    struct wire_cursor cursor = writer(bytes);
    wire_write_u32(&cursor, (uint32_t)status->has_state | (uint32_t)status->leaving << 1 |
                                (uint32_t)status->unsure << 2 | (uint32_t)status->here << 3 |
                                (uint32_t)status->orphan << 4);
    wire_write_u32(&cursor, status->slot_us);
    wire_write_u64(&cursor, status->changes);
    wire_write_u64(&cursor, status->position);
    wire_write_u64(&cursor, status->generation);
    wire_write_u64(&cursor, status->weights_hash);
    wire_write_u64(&cursor, status->zone);
    wire_write_tag(&cursor, &status->turn);
    wire_write_tag(&cursor, &status->moved_by);
    wire_write_tag(&cursor, &status->broken);
    wire_write_tag(&cursor, &status->save[0]);
    wire_write_tag(&cursor, &status->save[1]);
    wire_write_tag(&cursor, &status->ready);
    wire_write_tag(&cursor, &status->sealed);
    wire_write_tag(&cursor, &status->base);
    wire_write_tag(&cursor, &status->held);
    wire_write_u64(&cursor, status->era);
    wire_write_u64(&cursor, status->fell_at);
    wire_write_tag(&cursor, &status->fell_base);
    wire_write_u64(&cursor, status->memory);
    wire_write_u64(&cursor, status->host);
    wire_write_u64(&cursor, status->seen);
    wire_write_u64(&cursor, status->founds);
    wire_write_tag(&cursor, &status->checked);
    wire_write_u32(&cursor, status->disputed);
    wire_write_tag(&cursor, &status->voted);
    wire_write_u64(&cursor, status->digest);
    wire_write_u64(&cursor, (uint64_t)status->beat_us);
    return (size_t)(cursor.at - bytes);
}

bool wire_get_status(const uint8_t *bytes, size_t count, struct wire_status *ret_status)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    uint32_t flags = wire_read_u32(&cursor);
    struct wire_status status = {.has_state = flags & 1,
                                 .leaving = flags >> 1 & 1,
                                 .unsure = flags >> 2 & 1,
                                 .here = flags >> 3 & 1,
                                 .orphan = flags >> 4 & 1};
    status.slot_us = wire_read_u32(&cursor);
    status.changes = wire_read_u64(&cursor);
    status.position = wire_read_u64(&cursor);
    status.generation = wire_read_u64(&cursor);
    status.weights_hash = wire_read_u64(&cursor);
    status.zone = wire_read_u64(&cursor);
    status.turn = wire_read_tag(&cursor);
    status.moved_by = wire_read_tag(&cursor);
    status.broken = wire_read_tag(&cursor);
    status.save[0] = wire_read_tag(&cursor);
    status.save[1] = wire_read_tag(&cursor);
    status.ready = wire_read_tag(&cursor);
    status.sealed = wire_read_tag(&cursor);
    status.base = wire_read_tag(&cursor);
    status.held = wire_read_tag(&cursor);
    status.era = wire_read_u64(&cursor);
    status.fell_at = wire_read_u64(&cursor);
    status.fell_base = wire_read_tag(&cursor);
    status.memory = wire_read_u64(&cursor);
    status.host = wire_read_u64(&cursor);
    status.seen = wire_read_u64(&cursor);
    status.founds = wire_read_u64(&cursor);
    status.checked = wire_read_tag(&cursor);
    status.disputed = wire_read_u32(&cursor);
    status.voted = wire_read_tag(&cursor);
    status.digest = wire_read_u64(&cursor);
    uint64_t beat_us = wire_read_u64(&cursor);
    if (!ended_well(&cursor) || flags > 31 || beat_us > LIVENESS_DUE_US_MAX ||
        status.disputed > SHARD_UNITS_MAX)
        return false;
    status.beat_us = (int64_t)beat_us;
    *ret_status = status;
    return true;
}

static void write_map(struct wire_cursor *cursor, const struct shard_map *map)
{
    wire_write_u32(cursor, map->unit_count);
    wire_write(cursor, map->owner, map->unit_count);
    wire_write(cursor, map->mirror, map->unit_count);
}

/* Indexes below member_count or SHARD_NONE; with `whole` as shard_map_is_sound() wants it. */
static bool read_map(struct wire_cursor *cursor, uint32_t member_count, bool whole,
                     struct shard_map *ret_map)
{
    uint32_t count = wire_read_u32(cursor);
    if (cursor->failed || count == 0 || count > SHARD_UNITS_MAX) return false;
    const uint8_t *owner = wire_read(cursor, count), *mirror = wire_read(cursor, count);
    if (cursor->failed) return false;
    ret_map->unit_count = count;
    memcpy(ret_map->owner, owner, count);
    memcpy(ret_map->mirror, mirror, count);
    if (whole) return shard_map_is_sound(ret_map, member_count);
    for (uint32_t u = 0; u < count; u++) {
        if (owner[u] >= member_count && owner[u] != SHARD_NONE) return false;
        if (mirror[u] >= member_count && mirror[u] != SHARD_NONE) return false;
    }
    return true;
}

bool wire_turn_has_base(const struct wire_turn *turn)
{
    bool watched = false;
    for (uint32_t i = 0; i < turn->member_count; i++)
        watched = watched || wire_turn_watches(turn, i);
    return watched && turn->base.turn != 0;
}

size_t wire_put_turn(uint8_t *bytes, const struct wire_turn *turn, const struct wire_cut *cut)
{
    struct wire_cursor cursor = writer(bytes);
    wire_write_tag(&cursor, &turn->tag);
    wire_write_u64(&cursor, turn->generation);
    wire_write_u64(&cursor, turn->position);
    wire_write_u32(&cursor, turn->attempt);
    wire_write_u32(&cursor, turn->redone_slots);
    wire_write_u32(&cursor, turn->member_count);
    wire_write_u32(&cursor, turn->slot_count);
    wire_write_u32(&cursor, (uint32_t)turn->kind | (uint32_t)turn->save << 8);
    wire_write_u64(&cursor, turn->era);
    wire_write_u64(&cursor, turn->fell_at);
    wire_write_tag(&cursor, &turn->fell_base);
    wire_write_tag(&cursor, &turn->base);
    wire_write(&cursor, turn->member, turn->member_count * sizeof turn->member[0]);
    wire_write(&cursor, turn->source, turn->member_count);
    wire_write(&cursor, turn->zone, turn->member_count);
    wire_write(&cursor, turn->owner, turn->slot_count);
    if (wire_turn_cuts(turn)) {
        write_map(&cursor, &cut->held);
        write_map(&cursor, &cut->map);
    } else if (wire_turn_has_base(turn)) {
        wire_write_u32(&cursor, cut->base_count);
        wire_write(&cursor, cut->base_member, cut->base_count * sizeof cut->base_member[0]);
        write_map(&cursor, &cut->map);
    }
    ASSERT(!cursor.failed);
    return (size_t)(cursor.at - bytes);
}

/* Some work, and own all slots. */
static bool compute_is_sound(const struct wire_turn *turn)
{
    uint32_t workers = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        workers += !wire_turn_watches(turn, i);
        if (turn->source[i] == i) return false;
    }
    for (uint32_t slot = 0; slot < turn->slot_count; slot++)
        if (wire_turn_watches(turn, turn->owner[slot])) return false;
    return workers > 0;
}

/* Whoever gets the state gets it from one that has it. */
static bool source_is_sound(const struct wire_turn *turn, uint32_t index)
{
    uint8_t source = turn->source[index];
    if (source == GROUP_NOBODY || source == index) return true;
    return source < turn->member_count && turn->source[source] == GROUP_NOBODY;
}

static bool turn_is_sound(const struct wire_turn *turn)
{
    for (uint32_t i = 0; i < turn->member_count; i++) {
        if (i > 0 && turn->member[i] <= turn->member[i - 1]) return false;
        if (!source_is_sound(turn, i)) return false;
        if (turn->zone[i] > i || turn->zone[turn->zone[i]] != turn->zone[i]) return false;
    }
    for (uint32_t slot = 0; slot < turn->slot_count; slot++)
        if (turn->owner[slot] >= turn->member_count) return false;
    if (turn->kind == TURN_COMPUTE && !compute_is_sound(turn)) return false;
    return turn->kind >= TURN_COMPUTE && turn->kind <= TURN_LOAD && turn->save <= 1;
}

static bool read_cut(struct wire_cursor *cursor, uint32_t member_count, struct wire_cut *ret_cut)
{
    return read_map(cursor, member_count, false, &ret_cut->held) &&
           read_map(cursor, member_count, true, &ret_cut->map) &&
           ret_cut->held.unit_count == ret_cut->map.unit_count;
}

static bool read_base(struct wire_cursor *cursor, struct wire_cut *ret_cut)
{
    uint32_t count = wire_read_u32(cursor);
    if (cursor->failed || count == 0 || count > GROUP_MEMBERS_MAX) return false;
    const uint8_t *member = wire_read(cursor, count * sizeof ret_cut->base_member[0]);
    if (cursor->failed) return false;
    ret_cut->base_count = count;
    memcpy(ret_cut->base_member, member, count * sizeof ret_cut->base_member[0]);
    for (uint32_t i = 1; i < count; i++)
        if (ret_cut->base_member[i] <= ret_cut->base_member[i - 1]) return false;
    return read_map(cursor, count, true, &ret_cut->map);
}

bool wire_get_turn(const uint8_t *bytes, size_t count, struct wire_turn *ret_turn,
                   struct wire_cut *ret_cut)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_turn turn = {.tag = wire_read_tag(&cursor)};
    turn.generation = wire_read_u64(&cursor);
    turn.position = wire_read_u64(&cursor);
    turn.attempt = wire_read_u32(&cursor);
    turn.redone_slots = wire_read_u32(&cursor);
    turn.member_count = wire_read_u32(&cursor);
    turn.slot_count = wire_read_u32(&cursor);
    uint32_t kind = wire_read_u32(&cursor);
    if (cursor.failed || turn.member_count == 0 || turn.member_count > GROUP_MEMBERS_MAX ||
        turn.slot_count > GROUP_SLOTS_MAX || kind > UINT16_MAX)
        return false;
    turn.kind = (uint8_t)kind;
    turn.save = (uint8_t)(kind >> 8);
    turn.era = wire_read_u64(&cursor);
    turn.fell_at = wire_read_u64(&cursor);
    turn.fell_base = wire_read_tag(&cursor);
    turn.base = wire_read_tag(&cursor);
    const uint8_t *member = wire_read(&cursor, turn.member_count * sizeof turn.member[0]);
    const uint8_t *source = wire_read(&cursor, turn.member_count);
    const uint8_t *zone = wire_read(&cursor, turn.member_count);
    const uint8_t *owner = wire_read(&cursor, turn.slot_count);
    if (cursor.failed) return false;
    memcpy(turn.member, member, turn.member_count * sizeof turn.member[0]);
    memcpy(turn.source, source, turn.member_count);
    memcpy(turn.zone, zone, turn.member_count);
    memcpy(turn.owner, owner, turn.slot_count);
    if (!turn_is_sound(&turn)) return false;
    if (wire_turn_cuts(&turn) && !read_cut(&cursor, turn.member_count, ret_cut)) return false;
    if (wire_turn_has_base(&turn) && !read_base(&cursor, ret_cut)) return false;
    if (!ended_well(&cursor)) return false;
    *ret_turn = turn;
    return true;
}

size_t wire_put_shard(uint8_t *bytes, const struct wire_shard *shard)
{
    struct wire_cursor cursor = writer(bytes);
    wire_write_tag(&cursor, &shard->tag);
    wire_write_u64(&cursor, shard->step);
    wire_write_u64(&cursor, shard->bytes);
    wire_write_u64(&cursor, shard->checksum);
    wire_write_u32(&cursor, shard->index);
    wire_write_u32(&cursor, shard->ok);
    return (size_t)(cursor.at - bytes);
}

bool wire_get_shard(const uint8_t *bytes, size_t count, struct wire_shard *ret_shard)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_shard shard = {.tag = wire_read_tag(&cursor)};
    shard.step = wire_read_u64(&cursor);
    shard.bytes = wire_read_u64(&cursor);
    shard.checksum = wire_read_u64(&cursor);
    shard.index = wire_read_u32(&cursor);
    uint32_t ok = wire_read_u32(&cursor);
    if (!ended_well(&cursor) || ok > 1 || shard.index >= GROUP_MEMBERS_MAX) return false;
    shard.ok = (uint8_t)ok;
    *ret_shard = shard;
    return true;
}

size_t wire_put_vouch(uint8_t *bytes, const struct wire_vouch *vouch)
{
    struct wire_cursor cursor = writer(bytes);
    wire_write_u64(&cursor, vouch->worker);
    wire_write_u32(&cursor, vouch->kind);
    wire_write_u32(&cursor, vouch->age_us);
    return (size_t)(cursor.at - bytes);
}

bool wire_get_vouch(const uint8_t *bytes, size_t count, struct wire_vouch *ret_vouch)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_vouch vouch = {.worker = wire_read_u64(&cursor)};
    vouch.kind = wire_read_u32(&cursor);
    vouch.age_us = wire_read_u32(&cursor);
    if (!ended_well(&cursor) || vouch.kind < VOUCH_ASK || vouch.kind > VOUCH_LOST) return false;
    *ret_vouch = vouch;
    return true;
}
