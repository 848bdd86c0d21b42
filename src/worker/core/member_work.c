/* The sides of member.c that face the computing thread, the writer of files and the sockets. */
#include "core/assert.h"
#include "worker/core/member.h"
#include <string.h>

static bool computes(const struct member *m)
{
    return m->exchange.begun && !m->committing && m->turn.kind == TURN_COMPUTE &&
           m->self.position == m->turn.position;
}

enum member_want member_want(const struct member *m)
{
    if (m->exit != 0) return m->exit;
    if (m->founding) return MEMBER_WANT_FOUND;
    if (m->load.wanted) return MEMBER_WANT_LOAD;
    if (m->saves.wanted && member_save_fits(m)) return MEMBER_WANT_SAVE;
    if (m->committing) return member_is_sharded(m) ? MEMBER_WANT_PLACE : MEMBER_WANT_APPLY;
    if (m->shards.applying && m->shards.range_first < m->shards.range_end) return MEMBER_WANT_APPLY;
    if (computes(m) && !slot_set_is_within(&m->mine, &m->done)) return MEMBER_WANT_COMPUTE;
    return MEMBER_WANT_WAIT;
}

enum member_want member_park(struct member *m)
{
    m->parked = true;
    if (!m->self.here) {
        m->self.here = 1;
        member_tell_all(m);
    }
    member_settle(m);
    return member_want(m);
}

void member_unpark(struct member *m)
{
    ASSERT(m->parked);
    enum member_want want = member_want(m);
    ASSERT(want != MEMBER_WANT_WAIT);
    m->parked = false;
    m->work = want;
    m->waits_for_data = false;
    m->work_step = member_step(m);
    m->work_attempt = m->last_compute.attempt;
    if (want == MEMBER_WANT_LOAD) {
        m->load.wanted = false;
        m->load.tag = m->turn.tag;
    }
    m->shards.range_is_out = want == MEMBER_WANT_APPLY && member_is_sharded(m);
    if (want != MEMBER_WANT_COMPUTE) return;
    for (m->slot = 0; !slot_set_has(&m->mine, m->slot) || slot_set_has(&m->done, m->slot);)
        m->slot++;
    ASSERT(m->slot < m->config.slot_count);
    m->slot_is_out = true;
}

void member_founded(struct member *m, uint64_t position)
{
    ASSERT(m->founding);
    ASSERT(position <= m->config.steps);
    m->founding = m->load.alone = false;
    m->saves.position = position;
    m->saves.first_done = position > 0 || m->self.era > 0;
    m->saves.ordered_us = m->now_us;
    m->self.has_state = 1;
    m->self.position = position;
    m->self.moved_by = (struct wire_tag){0};
    member_void_sums(m);
    member_shard_found(m);
    member_tell_all(m);
    member_settle(m);
}

bool member_slot_is_void(const struct member *m)
{
    return !m->slot_is_out || !computes(m) || !slot_set_has(&m->mine, m->slot) || m->exit != 0;
}

bool member_slot_begin(const struct member *m, bool *ret_first, uint32_t *ret_epoch)
{
    if (member_slot_is_void(m)) return false;
    *ret_first = slot_set_is_empty(&m->done) && !m->slot_is_partial;
    *ret_epoch = m->sums_epoch;
    return true;
}

/* Is the slot that is out all that own sums still lack? Then what it adds is final. */
static bool is_last_slot(const struct member *m)
{
    struct slot_set with = m->done;
    slot_set_add(&with, m->slot);
    return slot_set_is_within(&m->mine, &with);
}

bool member_blocks_done(struct member *m, uint32_t epoch, uint32_t first, uint32_t end)
{
    if (member_slot_is_void(m) || epoch != m->sums_epoch) return false;
    m->slot_is_partial = true;
    if (!is_last_slot(m) || m->saves.wanted) return true;
    if (!m->exchange.ready) {
        struct slot_set with = m->done;
        slot_set_add(&with, m->slot);
        exchange_own(&m->exchange, &with);
    }
    exchange_blocks_ready(&m->exchange, first, end);
    return true;
}

void member_slot_done(struct member *m, bool added, uint32_t epoch, uint64_t took_us)
{
    ASSERT(m->slot_is_out);
    m->slot_is_out = false;
    bool counts = added && epoch == m->sums_epoch;
    if (counts) {
        slot_set_add(&m->done, m->slot);
        slot_speed_add(&m->speed, took_us); /* one that became void may have ended early */
    }
    /* The owner changed meanwhile, or only a part of the slot was added: it cannot come out again. */
    bool stained = counts ? !slot_set_is_within(&m->done, &m->mine) : m->slot_is_partial;
    if (stained) member_void_sums(m);
    m->slot_is_partial = false;
    member_settle(m);
}

void member_applied(struct member *m)
{
    ASSERT(m->committing);
    ASSERT(!m->parked);
    memcpy(m->config.scale, m->exchange.next_scale,
           m->config.layout->block_count * sizeof *m->config.scale);
    m->committing = false;
    m->self.slot_us = slot_speed_end_step(&m->speed);
    m->self.position = m->commit.step + 1;
    member_shard_moved(m);
    m->self.moved_by = m->commit.turn.tag;
    member_void_sums(m);
    member_log_append(m);
    member_tell_moved(m);
    member_settle(m);
}

void member_leave(struct member *m)
{
    if (m->self.leaving) return;
    m->self.leaving = 1;
    member_tell_all(m);
    member_settle(m);
}

static size_t fill_fetch(const struct member *m, uint8_t *bytes)
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + WIRE_PAYLOAD_MAX};
    wire_write_tag(&cursor, &m->turn.tag);
    return (size_t)(cursor.at - bytes);
}

#define SUMMARY_US INT64_C(5000) /* one is made for all peers: it looks at all of them */

static size_t put_summary(struct member *m, uint8_t *bytes)
{
    if (m->now_us - m->summary_us >= SUMMARY_US || m->summary_us == 0) {
        m->summary = member_summary(m);
        m->summary_us = m->now_us;
    }
    return wire_put_summary(bytes, &m->summary);
}

/* Small frames: levels, so several changes travel as one frame. */
static size_t fill_order(struct member *m, struct member_peer *peer, uint8_t *bytes,
                         enum wire_kind *ret_kind)
{
    if (peer->status_due) {
        peer->status_due = false;
        peer->told_self = m->self.changes;
        *ret_kind = WIRE_STATUS;
        return wire_put_status(bytes, &m->self);
    }
    bool ours = m->turn.tag.leader == m->config.id; /* or superseded since it became due */
    if (peer->turn_due && ours) {
        peer->turn_due = false;
        *ret_kind = WIRE_TURN;
        return wire_put_turn(bytes, &m->turn, &m->shards.cut);
    }
    if (peer->shard_count > 0) {
        size_t count = wire_put_shard(bytes, &peer->shard[0]);
        peer->shard_count--;
        memmove(peer->shard, peer->shard + 1, peer->shard_count * sizeof peer->shard[0]);
        *ret_kind = WIRE_SHARD;
        return count;
    }
    if (peer->summary_due) {
        peer->summary_due = false;
        *ret_kind = WIRE_SUMMARY;
        return put_summary(m, bytes);
    }
    struct wire_vouch vouch;
    if (!member_fill_vouch(m, peer, &vouch)) return 0;
    *ret_kind = WIRE_VOUCH;
    return wire_put_vouch(bytes, &vouch);
}

/* Data of a turn goes only to those who have taken that turn: it could not be placed otherwise. */
static size_t fill_data(struct member *m, struct member_peer *peer, uint8_t *bytes,
                        enum wire_kind *ret_kind)
{
    bool same_turn = wire_tag_compare(&peer->status.turn, &m->turn.tag) == 0;
    if (!same_turn || m->turn.tag.turn == 0) return 0;
    if (peer->fetch_due) {
        peer->fetch_due = false;
        *ret_kind = WIRE_FETCH;
        return fill_fetch(m, bytes);
    }
    if (peer->digests_due) {
        *ret_kind = WIRE_DIGESTS;
        return member_mirror_fill(m, peer, bytes);
    }
    return 0;
}

/* Nothing changes weights but the program, and that only when it applies. */
static bool state_rests(const struct member *m)
{
    return m->parked || m->work == MEMBER_WANT_COMPUTE || m->work == MEMBER_WANT_SAVE;
}

bool member_next(struct member *m, uint64_t id, struct exchange_message *ret_message)
{
    if (m->turn.tag.turn == 0) return false;
    bool reduces = wire_tag_compare(&m->exchange.tag, &m->turn.tag) == 0;
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL || !peer->connected || !peer->knows_status) return false;
    if (wire_tag_compare(&peer->status.turn, &m->turn.tag) != 0) return false;
    if (peer->out.active && m->turn.kind == TURN_LOAD && m->load.read) { /* read into the shadow */
        struct transfer_segment shadow = {m->config.shadow, m->config.state.total_bytes};
        struct transfer_state state = {&shadow, 1, shadow.count};
        return transfer_next(&peer->out, &state, &m->turn.tag, ret_message);
    }
    if (peer->out.active && m->self.has_state && state_rests(m) &&
        m->self.position == m->turn.position)
        return transfer_next(&peer->out, &m->config.state, &m->turn.tag, ret_message);
    if (m->me == GROUP_NOBODY) return false;
    /* The turn is broken, and what was lost is not sent again. */
    if (wire_tag_compare(&peer->lost_in, &m->turn.tag) == 0) return false;
    for (uint32_t k = 0; k < m->turn.member_count; k++)
        if (m->turn.member[k] == id)
            return (reduces && exchange_next(&m->exchange, k, ret_message)) ||
                   member_shard_next(m, k, ret_message);
    return false;
}

bool member_take_data_due(struct member *m, uint64_t *ret_id)
{
    for (uint32_t word = 0; word < GROUP_PEERS_MAX / 64; word++) {
        if (m->data_due[word] == 0) continue;
        *ret_id = m->peer[64 * word + (uint32_t)__builtin_ctzll(m->data_due[word])].id;
        m->data_due[word] &= m->data_due[word] - 1;
        return true;
    }
    return false;
}

size_t member_fill(struct member *m, uint64_t id, uint8_t *bytes, enum wire_kind *ret_kind)
{
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL || !peer->connected) return 0;
    size_t count = fill_order(m, peer, bytes, ret_kind);
    if (count == 0 && peer->knows_status) count = fill_data(m, peer, bytes, ret_kind);
    return count;
}

void member_peer_board(struct member *m, uint64_t id)
{
    struct member_peer *peer = member_find(m, id);
    if (peer != NULL && peer->connected) peer->has_board = true;
}

size_t member_fill_board(struct member *m, uint8_t *bytes)
{
    enum { HEAD_BYTES = 12 };
    if (!m->board_due) return 0;
    m->board_due = false;
    size_t status = wire_put_status(bytes + HEAD_BYTES, &m->self), summary = 0;
    if (m->config.recorder != NULL) summary = put_summary(m, bytes + HEAD_BYTES + status);
    struct wire_cursor cursor = {.at = bytes, .end = bytes + HEAD_BYTES};
    wire_write_u32(&cursor, (uint32_t)status);
    wire_write_u32(&cursor, (uint32_t)summary);
    wire_write_u32(&cursor, wire_check(1, bytes + HEAD_BYTES, status + summary));
    ASSERT(HEAD_BYTES + status + summary <= WIRE_BOARD_BYTES);
    return HEAD_BYTES + status + summary;
}
