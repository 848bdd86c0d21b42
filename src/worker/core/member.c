#include "worker/core/member.h"
#include "core/assert.h"
#include "worker/core/member_plan.h"
#include <string.h>

const struct member_peer *member_peer_of(const struct member *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->peer_count; i++)
        if (m->peer_id[i] == id) return &m->peer[i];
    return NULL;
}

struct member_peer *member_find(struct member *m, uint64_t id)
{
    const struct member_peer *peer = member_peer_of(m, id);
    return peer == NULL ? NULL : &m->peer[peer - m->peer];
}

void member_data_is_due(struct member *m, const struct member_peer *peer)
{
    uint32_t index = (uint32_t)(peer - m->peer);
    m->data_due[index / 64] |= UINT64_C(1) << index % 64;
}

void member_void_sums(struct member *m)
{
    m->done = (struct slot_set){0};
    m->slot_is_partial = false;
    m->sums_epoch++;
}

void member_init(struct member *m, const struct member_config *config)
{
    ASSERT(config->id > 0);
    ASSERT(config->slot_count > 0);
    ASSERT(config->slot_count <= GROUP_SLOTS_MAX);
    ASSERT(config->gang > 0);
    ASSERT(config->log.step_max > 0);
    ASSERT(config->log.turn_max > 0);
    memset(m, 0, sizeof *m);
    m->config = *config;
    m->me = GROUP_NOBODY;
    m->self.weights_hash = config->weights_hash;
    m->self.zone = config->zone;
    struct exchange_setup setup = {.layout = config->layout,
                                   .scale = config->scale,
                                   .mean = config->mean,
                                   .slot_count = config->slot_count,
                                   .norm_end = config->norm_end,
                                   .isa = config->isa,
                                   .memory = config->exchange_memory};
    exchange_init(&m->exchange, &setup);
    m->in.shadow = config->shadow;
    ASSERT(config->moment_count <= HANDOVER_ARRAYS_MAX);
    m->self.memory = config->memory;
    m->self.host = config->host;
}

void member_check(const struct member *m)
{
    ASSERT(m->peer_count <= GROUP_PEERS_MAX);
    ASSERT(m->self.position <= m->config.steps);
    ASSERT(m->me == GROUP_NOBODY || m->turn.member[m->me] == m->config.id);
    ASSERT(wire_tag_compare(&m->self.turn, &m->turn.tag) == 0);
    if (m->exchange.ready) ASSERT(m->parked || m->committing || m->exchange.begun);
    if (m->committing) ASSERT(m->commit.step == m->self.position);
}

bool member_is_there(const struct member *m, uint32_t index)
{
    const struct wire_status *status = member_status_of(m, m->turn.member[index]);
    return status != NULL && status->has_state && status->era == m->turn.era &&
           status->position >= m->turn.position;
}

bool member_waits_for_watchers(const struct member *m)
{
    for (uint32_t i = 0; i < m->turn.member_count; i++)
        if (wire_turn_watches(&m->turn, i) && !member_is_there(m, i)) return true;
    return false;
}

/* All means are here: the step counts, once it is applied. */
static void conclude(struct member *m)
{
    if (member_is_sharded(m)) {
        member_shard_ready(m);
        return;
    }
    m->committing = true;
    m->commit.step = m->self.position;
    m->commit.turn = m->last_compute;
    m->commit.loss = m->config.mean[m->config.layout->element_count - 1];
}

static bool computes_now(const struct member *m)
{
    bool ready = m->turn.tag.turn != 0 && wire_tag_compare(&m->self.ready, &m->turn.tag) == 0;
    return m->exchange.begun && !m->committing && !ready && m->turn.kind == TURN_COMPUTE &&
           !m->watching && m->self.position == m->turn.position;
}

static void advance(struct member *m)
{
    if (m->exit != 0) return;
    bool cannot = m->self.position != m->saves.turn.position ||
                  (member_is_sharded(m) && m->saves.map.unit_count == 0);
    if (m->saves.wanted && cannot) member_save_refuse(m);
    if (m->parked && computes_now(m) && !m->saves.wanted) {
        if (!m->sums_told && slot_set_is_within(&m->mine, &m->done)) {
            m->sums_told = true;
            exchange_ready(&m->exchange, &m->done); /* what the sums hold, not what was asked */
        }
        bool done = exchange_is_done(&m->exchange) && !m->exchange.broken;
        if (done && (member_is_sharded(m) || !member_waits_for_watchers(m))) conclude(m);
        if (m->exchange.broken && wire_tag_compare(&m->self.broken, &m->turn.tag) != 0) {
            m->self.broken = m->turn.tag;
            member_tell_all(m);
        }
    }
    member_shard_advance(m);
    member_vote_advance(m);
    member_load_advance(m);
    if (m->fetch_wanted && member_may_receive(m)) member_ask_for_state(m);
}

static void speak(struct member *m)
{
    uint64_t speaker = member_speaker(m);
    if (speaker == m->speaker) return;
    bool lost = m->speaker != 0 && member_status_of(m, m->speaker) == NULL;
    m->speaker = speaker;
    if (speaker == m->config.id)
        member_repeat_log(m, m->config.log.step_max);
    else if (lost) /* the new one may have come too late to know them */
        member_repeat_log(m, MEMBER_REPEAT_MAX);
}

/* From who is seen to lead; or taken by it: a sync may make another lead before all have taken it. */
static bool offer_is_good(const struct member *m)
{
    uint64_t leader = member_leader(m);
    if (leader == m->offered.tag.leader) return true;
    const struct wire_status *status = leader == 0 ? NULL : member_status_of(m, leader);
    return status != NULL && wire_tag_compare(&status->turn, &m->offered.tag) == 0;
}

/* A watcher takes its turn when means may come: nobody sends to one that has not taken it. Nor does one
 * that is to load the state over its own. */
static bool may_take_offer(const struct member *m)
{
    uint32_t index = wire_turn_index(&m->offered, m->config.id);
    bool receives = index != GROUP_NOBODY &&
                    (m->offered.kind == TURN_LOAD || wire_turn_watches(&m->offered, index));
    return !receives || member_may_receive(m);
}

/* After every event: take what became possible, then lead if it is ours to lead. */
void member_settle(struct member *m)
{
    if (!m->started || m->exit != 0) return;
    if (wire_tag_compare(&m->offered.tag, &m->turn.tag) > 0 && offer_is_good(m) &&
        may_take_offer(m))
        member_accept(m, &m->offered);
    advance(m);
    speak(m);
    member_save_watch(m);
    struct wire_turn turn;
    struct wire_cut cut;
    /* One turn may be over at once: a cut that moves nothing, say. */
    for (int turns = 0; turns < 3 && m->exit == 0 && member_plan(m, &turn, &cut); turns++) {
        if (wire_turn_cuts(&turn) || wire_turn_has_base(&turn)) m->shards.offered = cut;
        member_accept(m, &turn);
        for (uint32_t i = 0; i < m->peer_count; i++) m->peer[i].turn_due = true;
        advance(m);
    }
    if (member_is_sharded(m)) member_shard_watch_loss(m, member_moments_are_lost(m));
    if (!m->founding && member_may_found(m) && !member_load_waits(m)) m->founding = true;
    if (m->self.leaving && !m->self.has_state && !m->founding) m->exit = MEMBER_WANT_EXIT_LEFT;
    member_check(m);
}

void member_start(struct member *m, int64_t now_us)
{
    m->started = true;
    ASSERT(now_us >= 0);
    m->now_us = m->woke_us = m->self.beat_us = now_us;
    member_settle(m);
}

/* The beat says when it was due, not when it was sent: the difference is lateness as well. */
static void beat(struct member *m)
{
    int64_t late_us = m->now_us - m->self.beat_us;
    if (late_us < LIVENESS_BEAT_US) return;
    m->self.beat_us += late_us / LIVENESS_BEAT_US * LIVENESS_BEAT_US;
    m->self.changes++;
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        m->board_due = m->board_due || peer->has_board;
        peer->status_due = peer->status_due || !peer->has_board;
        peer->summary_due = !peer->has_board && m->config.recorder != NULL;
    }
    for (uint32_t i = 0; i < m->peer_count; i++)
        if (m->turn.tag.leader == m->config.id && !member_hears_later(m) &&
            wire_tag_compare(&m->peer[i].status.turn, &m->turn.tag) < 0)
            m->peer[i].turn_due = true;
}

void member_tick(struct member *m, int64_t now_us)
{
    if (now_us - m->now_us > MEMBER_PAUSE_US) { /* the machine may have slept, its peers' too */
        m->woke_us = now_us;
        for (uint32_t i = 0; i < m->peer_count; i++) liveness_heard(&m->peer[i].live, now_us);
    }
    m->now_us = now_us;
    beat(m);
    member_watch(m);
    member_watch_orphan(m);
    member_look(m);
    member_fill_gap(m);
    member_settle(m);
}

void member_peers_settled(struct member *m, bool settled)
{
    m->peers_settled = settled;
    member_settle(m);
}

/* One lost in the turn in force may come back, and what was lost with it must be known then. */
static struct member_peer *free_peer(struct member *m)
{
    struct member_peer *any = NULL;
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        if (peer->connected) continue;
        if (wire_tag_compare(&peer->lost_in, &m->turn.tag) != 0) return peer;
        any = peer;
    }
    return m->peer_count < GROUP_PEERS_MAX ? &m->peer[m->peer_count++] : any;
}

/* Messages of the turn in force may have been lost with the old connection: the leader is to give
 * another. A source that was not connected when the sync began is asked now. */
static void meet_again(struct member *m, struct member_peer *peer, const struct wire_tag *lost_in)
{
    uint32_t index = wire_turn_index(&m->turn, peer->id);
    if (index == GROUP_NOBODY || m->me == GROUP_NOBODY) return;
    bool lost = wire_tag_compare(lost_in, &m->turn.tag) == 0;
    bool source = m->in.active && m->turn.source[index] == GROUP_NOBODY;
    if (source && (m->turn.kind == TURN_SYNC || !lost)) {
        peer->fetch_due = member_ask_again(m, index);
    } else if (lost) {
        m->self.broken = m->turn.tag;
        member_tell_all(m);
    }
}

bool member_peer_up(struct member *m, uint64_t id, int64_t now_us)
{
    ASSERT(id > 0);
    ASSERT(id != m->config.id);
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL) peer = free_peer(m);
    if (peer == NULL) return false;
    struct liveness live = peer->id == id ? peer->live : (struct liveness){0};
    struct wire_tag lost_in = peer->id == id ? peer->lost_in : (struct wire_tag){0};
    memset(peer, 0, sizeof *peer);
    peer->id = m->peer_id[peer - m->peer] = id;
    peer->connected = peer->status_due = true;
    peer->digests_due = member_mirror_owes(m, id); /* it was not there when the vote began */
    meet_again(m, peer, &lost_in);
    peer->turn_due = m->turn.tag.leader == m->config.id;
    peer->live = live;
    peer->lost_in = lost_in;
    liveness_start(&peer->live, now_us);
    member_settle(m);
    return true;
}

void member_peer_down(struct member *m, uint64_t id)
{
    struct member_peer *peer = member_find(m, id);
    if (peer == NULL || !peer->connected) return;
    struct liveness live = peer->live;
    live.called_silent = member_peer_is_silent(m, id);
    bool given_up = peer->given_up;
    memset(peer, 0, sizeof *peer);
    peer->id = id;
    peer->live = live;
    peer->lost_in = m->turn.tag;
    if (live.called_silent && !given_up) member_tell_lost(m, peer);
    member_note_orphan(m);
    member_settle(m);
}

void member_heard(struct member *m, uint64_t id, int64_t now_us)
{
    struct member_peer *peer = member_find(m, id);
    if (peer != NULL && peer->connected) liveness_heard(&peer->live, now_us);
}
