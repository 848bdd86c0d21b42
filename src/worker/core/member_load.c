/* A group that begins at a checkpoint reads it together.
 *
 * Founder    Nobody has state: of a gang large enough, of those who see the newest checkpoint
 *            (status.seen), the lowest id. After a loss of moments: whoever found it out. It names
 *            the checkpoint (status.founds) and is followed without having state.
 * LOAD       Every member that sees the store reads a stripe of weights and scales into its shadow,
 *            and the moments that `held` gives it: those it is to own, or to mirror where the owner
 *            sees no store, or (the founder) those of which neither does. Each sends its stripe to
 *            all others, and moments to whoever is to have them and did not read them, so that every
 *            byte is read once and no worker sends more than its part of it.
 * Whole      A member with all stripes and all moments that are its own says so (status.ready); when
 *            all are, all have the state. Nothing is in force before: a LOAD that breaks is given again.
 * Fails      Who cannot read its part says so, and sees no checkpoint any more; the next LOAD goes
 *            without it. If the founder cannot, or LOAD_TRIES broke, it reads everything alone, goes
 *            to older checkpoints where that fails, and the others are synced.
 */
#include "core/assert.h"
#include "worker/core/member_plan.h"
#include <string.h>

enum { LOAD_TRIES = 3 };
#define LOAD_WAIT_US INT64_C(2000000) /* for programs of the gang that still load their data */

static bool same_tag(const struct wire_tag *a, const struct wire_tag *b)
{
    return wire_tag_compare(a, b) == 0;
}

static bool reads(const struct wire_turn *turn, uint32_t index)
{
    return turn->source[index] == GROUP_NOBODY;
}

/* ---- a member ---- */

void member_sees(struct member *m, uint64_t position)
{
    if (m->self.seen > position) return;
    m->self.seen = position + 1;
    member_tell_all(m);
}

bool member_may_load_together(const struct member *m)
{
    bool others = false;
    for (uint32_t i = 0; i < m->peer_count; i++) {
        const struct member_peer *peer = &m->peer[i];
        others = others || (peer->connected && peer->knows_status && peer->status.here &&
                            !peer->status.leaving);
    }
    return others && !m->load.alone;
}

bool member_load_waits(struct member *m)
{
    bool all_here = true;
    for (uint32_t i = 0; i < m->peer_count; i++) {
        const struct member_peer *peer = &m->peer[i];
        if (peer->connected && !peer->status.leaving) all_here = all_here && peer->status.here;
    }
    if (all_here || m->self.seen == 0) return false;
    if (m->load.waits_us == 0) m->load.waits_us = m->now_us + 1;
    return m->now_us - m->load.waits_us < LOAD_WAIT_US;
}

void member_found_together(struct member *m, uint64_t position)
{
    ASSERT(m->founding);
    ASSERT(position <= m->config.steps);
    m->founding = false;
    m->self.founds = position + 1;
    member_sees(m, position);
    member_tell_all(m);
    member_settle(m);
}

void member_load_begin(struct member *m)
{
    if (m->me == GROUP_NOBODY) return;
    if (m->saves.wanted) member_save_refuse(m);
    member_drop_state(m);
    m->load.wanted = reads(&m->turn, m->me);
    m->load.read = false;
    m->self.ready = (struct wire_tag){0};
    member_ask_for_state(m);
    if (wire_turn_cuts(&m->turn)) member_shard_begin_load(m);
    member_load_advance(m);
}

void member_load_part(const struct member *m, uint64_t *ret_first, uint64_t *ret_end)
{
    uint32_t count, stripe = member_stripe(&m->turn, m->me, &count);
    transfer_stripe(&m->config.state, stripe, count, ret_first, ret_end);
}

void member_loaded(struct member *m, bool read)
{
    ASSERT(!m->parked);
    bool ours = m->turn.kind == TURN_LOAD && same_tag(&m->turn.tag, &m->load.tag);
    if (!read) {
        m->load.alone = m->self.founds != 0; /* then also what is older */
        m->self.seen = 0;
        if (ours) m->self.broken = m->turn.tag;
        member_tell_all(m);
    } else if (ours) {
        uint32_t count;
        m->load.read = true;
        (void)transfer_own(&m->in, member_stripe(&m->turn, m->me, &count), &m->config.state);
        if (wire_turn_cuts(&m->turn)) handover_may_leave(&m->shards.handover);
        for (uint32_t i = 0; i < m->peer_count; i++) member_data_is_due(m, &m->peer[i]);
    }
    member_settle(m);
}

/* All stripes, and all moments that are to be its own, are here. */
static bool is_whole(const struct member *m)
{
    bool read = !reads(&m->turn, m->me) || m->load.read;
    return read && !m->in.active && member_shard_is_loaded(m) &&
           !same_tag(&m->self.broken, &m->turn.tag);
}

/* All are whole; also if some of them have gone since, but somebody saw it. */
static bool all_are_whole(const struct member *m)
{
    bool all = true;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (member_is_there(m, i)) return true;
        all = all && status != NULL && same_tag(&status->ready, &m->turn.tag);
    }
    return all;
}

/* The first to have the state would lead, and break the LOAD for the others: all get it at once. */
void member_load_advance(struct member *m)
{
    if (m->turn.kind != TURN_LOAD || m->me == GROUP_NOBODY || m->self.has_state) return;
    if (!is_whole(m)) return;
    if (!same_tag(&m->self.ready, &m->turn.tag)) {
        quant_check_scales(m->config.scale, m->config.layout->block_count);
        m->self.ready = m->turn.tag;
        if (wire_turn_cuts(&m->turn)) m->self.held = m->turn.tag;
        member_tell_all(m);
    }
    if (!all_are_whole(m)) return;
    m->self.ready = (struct wire_tag){0};
    m->self.has_state = m->self.unsure = 1;
    m->self.position = m->turn.position;
    m->self.era = m->turn.era;
    m->self.fell_at = m->turn.fell_at;
    m->self.fell_base = m->turn.fell_base;
    m->self.moved_by = m->turn.tag;
    m->self.founds = 0;
    m->shards.fell_back = false;
    m->load.tries = 0;
    m->saves.position = m->turn.position;
    m->saves.first_done = true;
    m->saves.ordered_us = m->now_us;
    member_tell_all(m);
}

/* ---- the leader ---- */

bool member_load_is_over(const struct member *m)
{
    uint32_t whole = 0;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || same_tag(&status->broken, &m->turn.tag)) return true;
        bool there =
            status->has_state && status->era == m->turn.era && status->position >= m->turn.position;
        if (!there && member_is_left_out(m, m->turn.member[i])) return true;
        whole += there;
    }
    return whole == m->turn.member_count;
}

static void choose_loaders(const struct member *m, const struct seen *seen, struct wire_turn *turn)
{
    for (uint32_t i = 0; i < seen->count && turn->member_count < GROUP_MEMBERS_MAX; i++) {
        const struct wire_status *status = seen->status[i];
        bool here = seen->id[i] == m->config.id ||
                    (status->here && !status->leaving && !member_is_left_out(m, seen->id[i]));
        if (here) turn->member[turn->member_count++] = seen->id[i];
    }
    uint32_t founder = wire_turn_index(turn, m->config.id);
    for (uint32_t i = 0; i < turn->member_count && founder != GROUP_NOBODY; i++) {
        bool sees = member_status_of(m, turn->member[i])->seen > 0;
        turn->source[i] = (uint8_t)(sees || i == founder ? GROUP_NOBODY : founder);
    }
}

static void choose_readers(const struct wire_turn *turn, uint32_t founder, struct wire_cut *cut)
{
    memset(cut->held.mirror, SHARD_NONE, sizeof cut->held.mirror);
    for (uint32_t u = 0; u < cut->held.unit_count; u++) {
        uint8_t owner = cut->map.owner[u], mirror = cut->map.mirror[u];
        if (!reads(turn, owner)) owner = mirror;
        cut->held.owner[u] = owner != SHARD_NONE && reads(turn, owner) ? owner : (uint8_t)founder;
    }
}

/* Nothing is held by anybody yet, so a cut costs no moves but those of who sees no store. */
static void plan_cut(const struct member *m, const struct wire_turn *turn, struct wire_cut *cut)
{
    struct shard_member member[GROUP_MEMBERS_MAX];
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        uint64_t memory = status->memory == 0 ? 1 : status->memory;
        member[i] = (struct shard_member){status->zone, status->host, memory};
    }
    cut->held.unit_count = shard_unit_count(m->config.layout->block_count);
    memset(cut->held.owner, SHARD_NONE, sizeof cut->held.owner);
    memset(cut->held.mirror, SHARD_NONE, sizeof cut->held.mirror);
    shard_plan(member, turn->member_count, &cut->held, &cut->map);
    choose_readers(turn, wire_turn_index(turn, m->config.id), cut);
}

/* Alone: everything from the newest checkpoint that is whole, as if nobody else were there. */
static void found_alone(struct member *m)
{
    m->self.founds = 0;
    m->load.tries = 0;
    m->load.alone = m->founding = true;
    member_tell_all(m);
}

bool member_plan_load(struct member *m, struct wire_turn *turn, struct wire_cut *ret_cut)
{
    struct seen seen;
    if (m->self.has_state || member_leader(m) != m->config.id) return false;
    bool given = m->turn.kind == TURN_LOAD && m->turn.tag.leader == m->config.id;
    if (given && !member_turn_is_over(m)) return false;
    if (!member_may_receive(m)) return false;
    member_see(m, &seen);
    member_begin_turn(m, &seen, turn);
    turn->kind = TURN_LOAD;
    turn->position = m->self.founds - 1;
    turn->era = m->self.era;
    turn->fell_at = m->self.fell_at;
    turn->fell_base = m->self.fell_base;
    choose_loaders(m, &seen, turn);
    bool fits = wire_turn_index(turn, m->config.id) != GROUP_NOBODY && turn->member_count > 1;
    if (m->load.alone || m->load.tries >= LOAD_TRIES || !fits) {
        found_alone(m);
        return false;
    }
    m->load.tries++;
    if (!member_is_sharded(m)) return true;
    turn->base = turn->tag;
    plan_cut(m, turn, ret_cut);
    return true;
}
