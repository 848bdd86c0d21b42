/* Taking a turn: what each kind of it begins. */
#include "core/assert.h"
#include "worker/core/member.h"

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
    uint32_t speaker = wire_turn_index(&m->turn, m->speaker);
    if (speaker != GROUP_NOBODY && wire_turn_watches(&m->turn, speaker)) member_repeat_log(m, 1);
    m->watching = !member_is_there(m, m->me) || !member_shard_stands(m);
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
    uint32_t speaker = wire_turn_index(&m->turn, m->speaker);
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

void member_accept(struct member *m, const struct wire_turn *turn)
{
    ASSERT(wire_tag_compare(&turn->tag, &m->turn.tag) > 0);
    m->turn = *turn;
    m->self.turn = turn->tag;
    if (turn->tag.turn > m->turn_max) m->turn_max = turn->tag.turn;
    m->me = wire_turn_index(turn, m->config.id);
    m->mine = (struct slot_set){0};
    m->fetch_wanted = m->in.active = m->watching = false;
    m->outvoted = 0;
    if (m->load.read) m->shards.release_due = true; /* what was read for others */
    m->load.wanted = m->load.read = false;
    if (turn->tag.leader != m->config.id)
        m->self.founds = 0; /* another leads, with state or first */
    member_shard_accept(m);
    for (uint32_t i = 0; i < m->peer_count; i++) {
        m->peer[i].out.active = false;
        m->peer[i].fetch_due = m->peer[i].digests_due = false;
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
    case TURN_LOAD: member_load_begin(m); break;
    case TURN_FINISH: /* late comers of a finished job have nothing to do either */
        if (m->me != GROUP_NOBODY || turn->position == m->config.steps)
            m->exit = m->self.has_state && m->self.position == m->config.steps
                          ? MEMBER_WANT_EXIT_DONE
                          : MEMBER_WANT_EXIT_LEFT;
        if (m->exit == MEMBER_WANT_EXIT_DONE) member_repeat_log(m, MEMBER_REPEAT_MAX);
        break; /* nobody is left to fill a gap later: all tell what is not stored */
    }
    if (turn->save != 0) member_save_order(m, turn);
    member_tell_taken(m);
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        member_believe_turn(m, peer);
        if (wire_tag_compare(&peer->status.turn, &turn->tag) == 0) member_data_is_due(m, peer);
    }
}
