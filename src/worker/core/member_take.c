/* What comes from peers: each frame checked, and handed to the part that it is for. */
#include "worker/core/member.h"
#include "worker/core/member_plan.h"

static bool take_status(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                        size_t count)
{
    struct wire_status status;
    if (!wire_get_status(bytes, count, &status)) return false;
    if (status.position > m->config.steps) return false;
    if (peer->knows_status && status.changes < peer->status.changes) return true; /* overtaken */
    /* Nobody goes back to an earlier turn: data has told of this one, and was faster. */
    struct wire_tag turn = status.turn;
    if (peer->knows_status && wire_tag_compare(&turn, &peer->status.turn) < 0)
        turn = peer->status.turn;
    if (wire_tag_compare(&peer->status.turn, &turn) != 0) member_data_is_due(m, peer);
    peer->status = status;
    peer->knows_status = true;
    member_believe_turn(m, peer);
    member_believe_leader(m, &status);
    peer->status.turn = turn;
    bool prompt = m->now_us - m->woke_us > MEMBER_TICK_US;
    liveness_beat(&peer->live, status.beat_us, peer->live.heard_us, prompt);
    if (status.turn.turn > m->turn_max) m->turn_max = status.turn.turn;
    if (status.generation > m->generation_max) m->generation_max = status.generation;
    return true;
}

static bool take_turn(struct member *m, const struct member_peer *peer, const uint8_t *bytes,
                      size_t count)
{
    struct wire_turn turn;
    struct wire_cut cut;
    if (!wire_get_turn(bytes, count, &turn, &cut) || turn.tag.leader != peer->id) return false;
    if (turn.kind == TURN_COMPUTE && turn.slot_count != m->config.slot_count) return false;
    if (turn.position > m->config.steps) return false;
    if (!member_shard_takes(m, &turn, &cut)) return false;
    if (turn.tag.turn > m->turn_max) m->turn_max = turn.tag.turn;
    /* One place is enough: who really leads repeats its turn, and goes before the others. */
    if (peer->id == member_leader(m) || wire_tag_compare(&turn.tag, &m->offered.tag) > 0) {
        m->offered = turn;
        if (wire_turn_cuts(&turn) || wire_turn_has_base(&turn)) m->shards.offered = cut;
    }
    return true;
}

static bool take_shard(struct member *m, const struct member_peer *peer, const uint8_t *bytes,
                       size_t count)
{
    struct wire_shard shard;
    if (!wire_get_shard(bytes, count, &shard)) return false;
    return member_save_take_shard(m, peer->id, &shard);
}

static void hear(struct member *m, struct member_peer *peer, int64_t now_us)
{
    if (now_us > m->now_us) m->now_us = now_us;
    liveness_heard(&peer->live, m->now_us);
    peer->asked = peer->given_up = false;
}

/* What is of another turn is dropped in silence, so a tag is believed only under a seal that holds:
 * nobody would send again what damage has made look old. */
static bool take_data(struct member *m, struct member_peer *peer, const uint8_t *header,
                      const uint8_t *payload, size_t count)
{
    struct wire_tag tag;
    if (transfer_is_state(header, &tag))
        return exchange_is_sealed(header) &&
               member_take_state(m, peer, &tag, header, payload, count);
    uint32_t from = wire_turn_index(&m->turn, peer->id);
    bool member = from != GROUP_NOBODY && m->me != GROUP_NOBODY &&
                  wire_tag_compare(&m->exchange.tag, &m->turn.tag) == 0;
    if (member_is_sharded(m) && handover_is_ours(header)) {
        if (from == GROUP_NOBODY || m->me == GROUP_NOBODY) return exchange_is_sealed(header);
        return handover_take(&m->shards.handover, from, header, payload, count);
    }
    if (!member) return exchange_is_sealed(header);
    bool awaited = m->config.recorder != NULL && exchange_awaits_part(&m->exchange, from);
    if (!exchange_take(&m->exchange, from, header, payload, count)) return false;
    struct wire_cursor cursor = wire_reader(header, EXCHANGE_HEADER_BYTES);
    tag = wire_read_tag(&cursor); /* first, in each message of the exchange */
    member_heard_data(m, peer, &tag);
    if (m->config.recorder == NULL) return true;
    recorder_bytes(m->config.recorder, m->now_us);
    if (awaited) recorder_part(m->config.recorder, from, count, m->now_us);
    return true;
}

bool member_take(struct member *m, uint64_t id, const uint8_t *header, const uint8_t *payload,
                 size_t count, int64_t now_us)
{
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL || !peer->connected) return false;
    hear(m, peer, now_us);
    if (!take_data(m, peer, header, payload, count)) return false;
    member_settle(m);
    return true;
}

static bool take_vouch(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                       size_t count)
{
    struct wire_vouch vouch;
    if (!wire_get_vouch(bytes, count, &vouch)) return false;
    member_take_vouch(m, peer, &vouch);
    return true;
}

bool member_frame(struct member *m, uint64_t id, enum wire_kind kind, const uint8_t *bytes,
                  size_t count, int64_t now_us)
{
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL || !peer->connected) return false;
    hear(m, peer, now_us);
    bool sound = false;
    switch (kind) {
    case WIRE_STATUS: sound = take_status(m, peer, bytes, count); break;
    case WIRE_TURN: sound = take_turn(m, peer, bytes, count); break;
    case WIRE_DATA:
        sound =
            count >= EXCHANGE_HEADER_BYTES &&
            take_data(m, peer, bytes, bytes + EXCHANGE_HEADER_BYTES, count - EXCHANGE_HEADER_BYTES);
        break;
    case WIRE_FETCH: sound = member_take_fetch(m, peer, bytes, count); break;
    case WIRE_SHARD: sound = take_shard(m, peer, bytes, count); break;
    case WIRE_VOUCH: sound = take_vouch(m, peer, bytes, count); break;
    case WIRE_DIGESTS: sound = member_mirror_take(m, peer, bytes, count); break;
    case WIRE_SUMMARY: sound = member_take_summary(m, peer, bytes, count); break;
    case WIRE_HELLO:
    case WIRE_PROOF:
    case WIRE_KIND_END: break;
    }
    if (sound) member_settle(m);
    return sound;
}

bool member_take_board(struct member *m, uint64_t id, const uint8_t *bytes, size_t count,
                       int64_t now_us)
{
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL || !peer->connected) return true;
    struct wire_cursor cursor = wire_reader(bytes, count);
    size_t status_bytes = wire_read_u32(&cursor), summary_bytes = wire_read_u32(&cursor);
    uint32_t check = wire_read_u32(&cursor);
    if (cursor.failed || check != wire_check(1, cursor.at, (size_t)(cursor.end - cursor.at)))
        return false;
    const uint8_t *status = wire_read(&cursor, status_bytes);
    const uint8_t *summary = wire_read(&cursor, summary_bytes);
    if (cursor.failed || cursor.at != cursor.end) return false;
    hear(m, peer, now_us);
    if (!take_status(m, peer, status, status_bytes)) return false;
    if (summary_bytes > 0 && !member_take_summary(m, peer, summary, summary_bytes)) return false;
    member_settle(m);
    return true;
}
