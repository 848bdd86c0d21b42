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

static uint32_t index_of(const struct wire_turn *turn, uint64_t id)
{
    for (uint32_t i = 0; i < turn->member_count; i++)
        if (turn->member[i] == id) return i;
    return GROUP_NOBODY;
}

static void tell_stale(struct member *m)
{
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        peer->status_due = peer->status_due || peer->told_self != m->self_changes;
    }
}

void member_tell_all(struct member *m)
{
    m->self_changes++;
    for (uint32_t i = 0; i < m->peer_count; i++) m->peer[i].status_due = true;
}

static void data_is_due(struct member *m, const struct member_peer *peer)
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
    ASSERT(config->log_max > 0);
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

static bool has_state_of(const struct wire_status *status, const struct wire_turn *turn)
{
    return status->has_state && status->era == turn->era && status->position >= turn->position;
}

bool member_is_there(const struct member *m, uint32_t index)
{
    const struct wire_status *status = member_status_of(m, m->turn.member[index]);
    return status != NULL && has_state_of(status, &m->turn);
}

bool member_waits_for_watchers(const struct member *m)
{
    for (uint32_t i = 0; i < m->turn.member_count; i++)
        if (wire_turn_watches(&m->turn, i) && !member_is_there(m, i)) return true;
    return false;
}

/* The state is cut into a stripe for each source: its number and how many there are. */
static uint32_t stripe_of(const struct wire_turn *turn, uint32_t index, uint32_t *ret_count)
{
    uint32_t stripe = 0;
    *ret_count = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        if (turn->source[i] != GROUP_NOBODY) continue;
        stripe += i < index;
        ++*ret_count;
    }
    return stripe;
}

static void begin_exchange(struct member *m)
{
    m->exchange.zone = m->turn.zone;
    m->exchange.watchers = 0;
    for (uint32_t i = 0; i < m->turn.member_count; i++)
        if (wire_turn_watches(&m->turn, i)) m->exchange.watchers |= UINT64_C(1) << i;
    m->sums_told = false;
    exchange_begin(&m->exchange, &m->turn.tag, m->turn.member_count, m->me);
}

/* Means may come from now on: nothing of this member is waited for. */
static void begin_watch(struct member *m)
{
    uint32_t speaker = index_of(&m->turn, m->speaker);
    if (speaker != GROUP_NOBODY && wire_turn_watches(&m->turn, speaker)) member_repeat_log(m, 1);
    m->watching = !has_state_of(&m->self, &m->turn) || !member_shard_stands(m);
    if (member_is_sharded(m) && !member_shard_begin_watch(m)) {
        m->self.broken = m->turn.tag;
        return;
    }
    member_void_sums(m);
    begin_exchange(m);
    m->sums_told = true;
    exchange_ready(&m->exchange, &m->done);
    m->fetch_wanted = m->watching;
}

static void begin_compute(struct member *m)
{
    member_save_count_losses(m, &m->turn);
    m->last_compute = m->turn;
    if (m->turn.generation > m->generation_max) m->generation_max = m->turn.generation;
    m->self.generation = m->generation_max;
    if (wire_turn_has_base(&m->turn)) m->shards.cut = m->shards.offered;
    if (m->me != GROUP_NOBODY && wire_turn_watches(&m->turn, m->me)) {
        begin_watch(m);
        return;
    }
    bool here = m->me != GROUP_NOBODY && m->self.has_state && !m->committing &&
                m->self.position == m->turn.position;
    if (!here) return; /* the leader learns it from our status */
    if (m->exchange.broken) member_void_sums(m);
    if (member_is_sharded(m) && !member_shard_begin_compute(m)) return;
    m->mine = slots_owned(m->turn.owner, m->turn.slot_count, m->me);
    bool partial_is_ours = !m->slot_is_partial || slot_set_has(&m->mine, m->slot);
    if (!slot_set_is_within(&m->done, &m->mine) || !partial_is_ours) member_void_sums(m);
    if (!slot_set_is_within(&m->mine, &m->done)) m->self.ready = (struct wire_tag){0};
    begin_exchange(m);
}

static void begin_sync(struct member *m)
{
    uint32_t speaker = index_of(&m->turn, m->speaker);
    if (speaker != GROUP_NOBODY && m->turn.source[speaker] != GROUP_NOBODY)
        member_repeat_log(m, 1); /* it did not see the step end that it would have told of */
    if (m->me == GROUP_NOBODY || m->turn.source[m->me] == GROUP_NOBODY) return;
    if (m->turn.source[m->me] != m->me) {
        m->fetch_wanted = true;
        return;
    }
    if (m->turn.position != 0 || m->self.has_state) return; /* only initial weights are kept */
    m->self.has_state = 1;
    m->self.era = m->turn.era;
    m->self.fell_at = m->turn.fell_at;
    m->self.fell_base = m->turn.fell_base;
    m->self.moved_by = m->turn.tag;
}

static void accept_turn(struct member *m, const struct wire_turn *turn)
{
    ASSERT(wire_tag_compare(&turn->tag, &m->turn.tag) > 0);
    m->turn = *turn;
    m->self.turn = turn->tag;
    if (turn->tag.turn > m->turn_max) m->turn_max = turn->tag.turn;
    m->me = index_of(turn, m->config.id);
    m->mine = (struct slot_set){0};
    m->fetch_wanted = m->in.active = m->watching = false;
    m->outvoted = 0;
    member_shard_accept(m);
    for (uint32_t i = 0; i < m->peer_count; i++) {
        m->peer[i].out.active = false;
        m->peer[i].fetch_due = false;
    }
    if (!m->committing) exchange_abort(&m->exchange);
    if (m->self.leaving && m->me == GROUP_NOBODY && member_shard_may_go(m))
        m->exit = MEMBER_WANT_EXIT_LEFT;
    switch ((enum turn_kind)turn->kind) {
    case TURN_COMPUTE: begin_compute(m); break;
    case TURN_SYNC: begin_sync(m); break;
    case TURN_SAVE: member_shard_begin_save(m); break;
    case TURN_RECUT: member_shard_begin_recut(m); break;
    case TURN_SEAL: member_shard_begin_seal(m); break;
    case TURN_VOTE: member_vote_begin(m); break;
    case TURN_FINISH: /* late comers of a finished job have nothing to do either */
        if (m->me != GROUP_NOBODY || turn->position == m->config.steps)
            m->exit = m->self.has_state && m->self.position == m->config.steps
                          ? MEMBER_WANT_EXIT_DONE
                          : MEMBER_WANT_EXIT_LEFT;
        if (m->exit == MEMBER_WANT_EXIT_DONE) member_repeat_log(m, MEMBER_REPEAT_MAX);
        break; /* nobody is left to fill a gap later: all tell what is not stored */
    }
    if (turn->save != 0) member_save_order(m, turn);
    member_tell_all(m); /* data comes only from and to those known to have taken it */
    for (uint32_t i = 0; i < m->peer_count; i++)
        if (wire_tag_compare(&m->peer[i].status.turn, &turn->tag) == 0) data_is_due(m, &m->peer[i]);
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

/* Its memory is free to be written over: by the state, and by means before that. */
static bool may_receive(const struct member *m)
{
    return m->parked && !m->committing && m->saves.copying == 0;
}

static void ask_for_state(struct member *m)
{
    uint32_t count;
    m->fetch_wanted = false;
    (void)stripe_of(&m->turn, 0, &count);
    transfer_receive(&m->in, &m->config.state, count);
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        struct member_peer *source = member_find(m, m->turn.member[i]);
        /* Who is not there is asked when it comes; if it is gone the leader sees it too. */
        if (m->turn.source[i] == GROUP_NOBODY && source != NULL) source->fetch_due = true;
    }
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
    if (m->fetch_wanted && may_receive(m)) ask_for_state(m);
}

static void speak(struct member *m)
{
    uint64_t speaker = member_speaker(m);
    if (speaker == m->speaker) return;
    bool lost = m->speaker != 0 && member_status_of(m, m->speaker) == NULL;
    m->speaker = speaker;
    if (speaker == m->config.id)
        member_repeat_log(m, m->config.log_max);
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

/* A watcher takes its turn when means may come: nobody sends to one that has not taken it. */
static bool may_take_offer(const struct member *m)
{
    uint32_t index = index_of(&m->offered, m->config.id);
    return index == GROUP_NOBODY || !wire_turn_watches(&m->offered, index) || may_receive(m);
}

/* After every event: take what became possible, then lead if it is ours to lead. */
void member_settle(struct member *m)
{
    if (!m->started || m->exit != 0) return;
    if (wire_tag_compare(&m->offered.tag, &m->turn.tag) > 0 && offer_is_good(m) &&
        may_take_offer(m))
        accept_turn(m, &m->offered);
    advance(m);
    speak(m);
    member_save_watch(m);
    struct wire_turn turn;
    struct wire_cut cut;
    /* One turn may be over at once: a cut that moves nothing, say. */
    for (int turns = 0; turns < 3 && m->exit == 0 && member_plan(m, &turn, &cut); turns++) {
        if (turn.kind == TURN_RECUT || wire_turn_has_base(&turn)) m->shards.offered = cut;
        accept_turn(m, &turn);
        for (uint32_t i = 0; i < m->peer_count; i++) m->peer[i].turn_due = true;
        advance(m);
    }
    if (member_is_sharded(m)) member_shard_watch_loss(m, member_moments_are_lost(m));
    if (!m->founding && member_may_found(m)) m->founding = true;
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
    member_tell_all(m);
    for (uint32_t i = 0; i < m->peer_count; i++)
        m->peer[i].summary_due = m->config.recorder != NULL;
    for (uint32_t i = 0; i < m->peer_count; i++)
        if (m->turn.tag.leader == m->config.id &&
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
    uint32_t index = index_of(&m->turn, peer->id);
    if (index == GROUP_NOBODY || m->me == GROUP_NOBODY) return;
    bool lost = wire_tag_compare(lost_in, &m->turn.tag) == 0;
    bool source = m->in.active && m->turn.source[index] == GROUP_NOBODY;
    if (source && (m->turn.kind == TURN_SYNC || !lost)) {
        uint32_t count, stripe = stripe_of(&m->turn, index, &count);
        peer->fetch_due = transfer_repeat(&m->in, &m->config.state, stripe, count);
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
    meet_again(m, peer, &lost_in);
    peer->turn_due = m->turn.tag.leader == m->config.id;
    peer->live = live;
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
    bool led =
        m->turn.tag.leader != m->config.id && member_status_of(m, m->turn.tag.leader) == NULL;
    if (led) tell_stale(m); /* whoever leads next must know where all stand */
    member_settle(m);
}

void member_heard(struct member *m, uint64_t id, int64_t now_us)
{
    struct member_peer *peer = member_find(m, id);
    if (peer != NULL && peer->connected) liveness_heard(&peer->live, now_us);
}

static bool take_status(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                        size_t count)
{
    struct wire_status status;
    if (!wire_get_status(bytes, count, &status)) return false;
    if (status.position > m->config.steps) return false;
    if (wire_tag_compare(&peer->status.turn, &status.turn) != 0) data_is_due(m, peer);
    peer->status = status;
    peer->knows_status = true;
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
        if (turn.kind == TURN_RECUT || wire_turn_has_base(&turn)) m->shards.offered = cut;
    }
    return true;
}

static bool take_fetch(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                       size_t count)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_tag tag = wire_read_tag(&cursor);
    if (cursor.failed || cursor.at != cursor.end) return false;
    if (wire_tag_compare(&tag, &m->turn.tag) != 0) return true;
    uint32_t index = index_of(&m->turn, peer->id), stripes;
    if (index == GROUP_NOBODY || m->turn.source[index] == GROUP_NOBODY) return false;
    if (m->me == GROUP_NOBODY || m->turn.source[m->me] != GROUP_NOBODY) return false;
    uint32_t stripe = stripe_of(&m->turn, m->me, &stripes);
    transfer_send(&peer->out, &m->config.state, stripe, stripes);
    data_is_due(m, peer);
    member_repeat_log(m, 1); /* perhaps only we saw this step end, and the target outlives us */
    return true;
}

static bool take_state(struct member *m, const struct member_peer *peer, const struct wire_tag *tag,
                       const uint8_t *header, const uint8_t *payload, size_t count)
{
    if (wire_tag_compare(tag, &m->turn.tag) != 0 || !m->in.active) return true;
    uint32_t from = index_of(&m->turn, peer->id), stripes;
    if (from == GROUP_NOBODY || m->turn.source[from] != GROUP_NOBODY) return false;
    uint32_t stripe = stripe_of(&m->turn, from, &stripes);
    switch (transfer_take(&m->in, stripe, &m->config.state, header, payload, count)) {
    case TRANSFER_BAD: return false;
    case TRANSFER_MORE: return true;
    case TRANSFER_DONE: break;
    }
    quant_check_scales(m->config.scale, m->config.layout->block_count);
    member_shard_forget(m);
    m->self.has_state = m->self.unsure = 1;
    m->self.era = m->turn.era;
    m->self.fell_at = m->turn.fell_at;
    m->self.fell_base = m->turn.fell_base;
    m->self.position = m->turn.position;
    m->self.moved_by = m->watching ? (struct wire_tag){0} : m->turn.tag; /* its step is to come */
    member_void_sums(m);
    if (m->watching) member_shard_adopt(m);
    m->watching = false;
    member_tell_all(m);
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

static bool take_data(struct member *m, const struct member_peer *peer, const uint8_t *header,
                      const uint8_t *payload, size_t count)
{
    struct wire_tag tag;
    if (transfer_is_state(header, &tag)) return take_state(m, peer, &tag, header, payload, count);
    uint32_t from = index_of(&m->turn, peer->id);
    bool member = from != GROUP_NOBODY && m->me != GROUP_NOBODY &&
                  wire_tag_compare(&m->exchange.tag, &m->turn.tag) == 0;
    if (member_is_sharded(m) && handover_is_ours(header))
        return from == GROUP_NOBODY || m->me == GROUP_NOBODY ||
               handover_take(&m->shards.handover, from, header, payload, count);
    if (!member) return true;
    bool awaited = m->config.recorder != NULL && exchange_awaits_part(&m->exchange, from);
    if (!exchange_take(&m->exchange, from, header, payload, count)) return false;
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
    case WIRE_FETCH: sound = take_fetch(m, peer, bytes, count); break;
    case WIRE_SHARD: sound = take_shard(m, peer, bytes, count); break;
    case WIRE_VOUCH: sound = take_vouch(m, peer, bytes, count); break;
    case WIRE_SUMMARY: sound = member_take_summary(m, peer, bytes, count); break;
    case WIRE_HELLO:
    case WIRE_PROOF:
    case WIRE_KIND_END: break;
    }
    if (sound) member_settle(m);
    return sound;
}
