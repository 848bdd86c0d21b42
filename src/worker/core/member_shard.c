#include "worker/core/member_shard.h"
#include "core/assert.h"
#include "worker/core/member.h"
#include "worker/core/member_plan.h"
#include <string.h>

static bool same_tag(const struct wire_tag *a, const struct wire_tag *b)
{
    return wire_tag_compare(a, b) == 0;
}

static bool is_set(const struct wire_tag *tag)
{
    return tag->turn != 0;
}

bool member_is_sharded(const struct member *m)
{
    return m->config.moment_count > 0;
}

static uint32_t moment_blocks(const struct member *m)
{
    return m->config.layout->block_count - 1; /* the loss has none */
}

static bool holds(const struct shard_map *map, uint32_t unit, uint32_t member)
{
    return member != SHARD_NONE && (map->owner[unit] == member || map->mirror[unit] == member);
}

static uint32_t base_index(const struct member_base *base, uint64_t id)
{
    for (uint32_t i = 0; i < base->member_count; i++)
        if (base->member[i] == id) return i;
    return SHARD_NONE;
}

static bool base_gives(const struct member_base *base, uint64_t id, uint32_t unit)
{
    uint32_t me = base_index(base, id);
    return is_set(&base->tag) && me != SHARD_NONE && holds(&base->map, unit, me);
}

bool member_needs_block(const struct member *m, uint32_t block)
{
    const struct member_shards *s = &m->shards;
    uint32_t blocks = m->config.layout->block_count;
    uint32_t unit = shard_unit_of(shard_unit_count(blocks), blocks, block);
    return base_gives(&s->base, m->config.id, unit) || base_gives(&s->next, m->config.id, unit);
}

void member_shard_forget(struct member *m)
{
    if (!member_is_sharded(m)) return;
    struct member_shards *s = &m->shards;
    s->base.tag = s->next.tag = (struct wire_tag){0};
    m->self.base = m->self.held = m->self.ready = m->self.sealed = (struct wire_tag){0};
    s->applying = false;
    s->release_due = true;
}

void member_shard_found(struct member *m)
{
    if (!member_is_sharded(m)) return;
    struct member_shards *s = &m->shards;
    member_shard_forget(m);
    s->fell_back = false;
    if (m->self.position == 0 && m->self.era == 0) return; /* moments are zero everywhere */
    s->base = (struct member_base){.tag = {++m->turn_max, m->config.id}, .member_count = 1};
    s->base.member[0] = m->config.id;
    s->base.map.unit_count = shard_unit_count(m->config.layout->block_count);
    memset(s->base.map.mirror, SHARD_NONE, sizeof s->base.map.mirror);
    m->self.base = s->base.tag;
}

bool member_shard_takes(const struct member *m, const struct wire_turn *turn,
                        const struct wire_cut *cut)
{
    bool has_map = wire_turn_cuts(turn) || wire_turn_has_base(turn);
    if (turn->kind == TURN_LOAD && has_map != member_is_sharded(m)) return false;
    if (!has_map && turn->kind != TURN_SEAL) return true;
    if (!member_is_sharded(m)) return false;
    return !has_map || cut->map.unit_count == shard_unit_count(m->config.layout->block_count);
}

/* The cut received last comes into force with the first turn that builds on it. */
void member_shard_accept(struct member *m)
{
    if (!member_is_sharded(m)) return;
    struct member_shards *s = &m->shards;
    handover_abort(&s->handover);
    s->moves.moved_units = 0;
    s->active.unit_count = 0; /* until it is made for this turn */
    bool builds = !s->applying && is_set(&m->turn.base) && same_tag(&m->turn.base, &s->next.tag) &&
                  same_tag(&m->self.held, &s->next.tag);
    if (!builds) return;
    s->base = s->next;
    m->self.base = s->base.tag;
    m->self.ready = s->next.tag = m->self.held = (struct wire_tag){0};
    s->release_due = true;
}

bool member_shard_may_go(const struct member *m)
{
    if (!member_is_sharded(m) || (!is_set(&m->self.base) && !is_set(&m->self.held))) return true;
    return m->turn.kind == TURN_COMPUTE || m->turn.kind == TURN_SAVE || m->turn.kind == TURN_FINISH;
}

/* The base over the members of the turn; where an owner is gone its mirror takes its place. False:
 * something is held by nobody. */
static bool translate_base(struct member *m, const struct shard_map *map, const uint64_t *member,
                           uint32_t member_count)
{
    struct member_shards *s = &m->shards;
    shard_translate(map, member, member_count, m->turn.member, m->turn.member_count, &s->active);
    for (uint32_t u = 0; u < s->active.unit_count; u++) {
        if (s->active.owner[u] != SHARD_NONE) continue;
        s->active.owner[u] = s->active.mirror[u];
        s->active.mirror[u] = SHARD_NONE;
    }
    return shard_map_is_sound(&s->active, m->turn.member_count);
}

bool member_shard_stands(const struct member *m)
{
    return !member_is_sharded(m) ||
           (is_set(&m->turn.base) && same_tag(&m->turn.base, &m->shards.base.tag));
}

/* False as above, or: this member does not stand on the base of the turn. */
static bool make_active(struct member *m)
{
    const struct member_base *base = &m->shards.base;
    return member_shard_stands(m) &&
           translate_base(m, &base->map, base->member, base->member_count);
}

/* Who writes the moments of what, should the turn in force order a checkpoint. */
void member_shard_save_map(const struct member *m, struct shard_map *ret_map)
{
    ret_map->unit_count = 0;
    if (member_is_sharded(m) && same_tag(&m->turn.base, &m->shards.base.tag))
        *ret_map = m->shards.active;
}

static void begin_gather(struct member *m)
{
    struct member_shards *s = &m->shards;
    s->handover.kind = HANDOVER_WEIGHTS;
    s->handover.tag = m->turn.tag;
    s->handover.layout = m->config.layout;
    s->handover.isa = m->config.isa;
    s->handover.map = &s->active;
    s->handover.member_count = m->turn.member_count;
    s->handover.me = m->me;
    s->handover.array_count = 1;
    s->handover.array[0] = m->config.next_weights;
    handover_begin(&s->handover);
}

bool member_shard_begin_compute(struct member *m)
{
    struct member_shards *s = &m->shards;
    ASSERT(m->me != GROUP_NOBODY);
    if (s->applying && !same_tag(&m->turn.base, &s->base.tag)) member_shard_forget(m);
    if (s->applying || !make_active(m)) return false;
    m->exchange.map = &s->active;
    s->shadow_position = 0;
    begin_gather(m);
    return true;
}

void member_shard_begin_save(struct member *m)
{
    if (m->me == GROUP_NOBODY || !member_is_sharded(m) || !make_active(m))
        m->shards.active.unit_count = 0;
}

bool member_shard_begin_watch(struct member *m)
{
    struct member_shards *s = &m->shards;
    if (!m->watching) return member_shard_begin_compute(m); /* it is level, which was not known */
    if (!is_set(&m->turn.base)) return false;
    if (!translate_base(m, &s->cut.map, s->cut.base_member, s->cut.base_count)) return false;
    m->exchange.map = &s->active;
    s->shadow_position = 0;
    return true;
}

void member_shard_adopt(struct member *m)
{
    if (!member_is_sharded(m)) return;
    struct member_shards *s = &m->shards;
    s->base = (struct member_base){
        .tag = m->turn.base, .member_count = s->cut.base_count, .map = s->cut.map};
    memcpy(s->base.member, s->cut.base_member, sizeof s->base.member);
    m->self.base = s->base.tag;
    begin_gather(m);
}

/* Next range of blocks that this member holds, within a tensor and a run of units. */
static void find_range(struct member *m)
{
    struct member_shards *s = &m->shards;
    const struct layout *layout = m->config.layout;
    uint32_t end = moment_blocks(m), units = s->base.map.unit_count, tensor = 0, at = s->applied;
    uint32_t me = base_index(&s->base, m->config.id);
    while (at < end) {
        uint32_t unit = shard_unit_of(units, layout->block_count, at);
        if (holds(&s->base.map, unit, me)) break;
        at = shard_first_block(units, layout->block_count, unit + 1);
    }
    if (at > end) at = end;
    s->range_first = s->range_end = s->applied = at;
    if (at == end) return;
    while (layout->tensor_block[tensor + 1] <= at) tensor++;
    uint32_t limit = layout->tensor_block[tensor + 1];
    while (s->range_end < limit) {
        uint32_t unit = shard_unit_of(units, layout->block_count, s->range_end);
        if (!holds(&s->base.map, unit, me)) break;
        s->range_end = shard_first_block(units, layout->block_count, unit + 1);
    }
    if (s->range_end > limit) s->range_end = limit;
}

/* All holders have their means: from here on the step is sure. A cut that never came into force is
 * of the position before. */
static void seal(struct member *m)
{
    struct member_shards *s = &m->shards;
    if (is_set(&s->next.tag)) s->release_due = true;
    s->next.tag = m->self.held = (struct wire_tag){0};
    m->self.sealed = m->turn.tag;
    s->applying = true;
    s->applied = 0;
    find_range(m);
    s->handover.applied = s->applied;
    member_tell_all(m);
}

void member_shard_ready(struct member *m)
{
    if (same_tag(&m->self.ready, &m->turn.tag)) return;
    m->self.ready = m->turn.tag;
    m->commit.step = m->self.position;
    m->commit.turn = m->last_compute;
    m->commit.loss = m->config.mean[m->config.layout->element_count - 1];
    member_tell_all(m);
}

static bool all_are_ready(const struct member *m)
{
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL) return false;
        bool moved = same_tag(&status->moved_by, &m->turn.tag);
        if (!moved && !same_tag(&status->ready, &m->turn.tag)) return false;
    }
    return true;
}

void member_shard_begin_seal(struct member *m)
{
    struct member_shards *s = &m->shards;
    bool moved = s->shadow_position == m->self.position && m->self.position == m->turn.position + 1;
    bool ready = m->self.position == m->turn.position && is_set(&m->self.ready);
    if (m->me == GROUP_NOBODY || m->committing || (!moved && !ready) || !make_active(m)) return;
    begin_gather(m);
    if (moved) {
        s->handover.applied = moment_blocks(m); /* the shadow still holds what was placed */
    } else if (!s->applying) {
        seal(m);
    } else {
        if (!s->range_is_out) find_range(m);
        s->handover.applied = s->applied;
    }
}

/* Zero by definition, whatever was there. */
static void clear_moments(struct member *m)
{
    struct member_shards *s = &m->shards;
    const struct layout *layout = m->config.layout;
    for (uint32_t u = 0; u < s->next.map.unit_count; u++) {
        if (!holds(&s->next.map, u, m->me)) continue;
        uint64_t first =
            layout->start[shard_first_block(s->next.map.unit_count, layout->block_count, u)];
        uint64_t end =
            layout->start[shard_first_block(s->next.map.unit_count, layout->block_count, u + 1)];
        for (uint32_t i = 0; i < m->config.moment_count; i++)
            memset(m->config.moment[i] + first, 0, (end - first) * sizeof(float));
    }
}

static bool has_what_is_said(const struct member *m)
{
    const struct member_shards *s = &m->shards;
    for (uint32_t u = 0; u < s->cut.held.unit_count; u++)
        if (holds(&s->cut.held, u, m->me) && !base_gives(&s->base, m->config.id, u)) return false;
    return true;
}

/* Copies on their way to where the cut in force wants them. */
static void begin_moves(struct member *m)
{
    struct member_shards *s = &m->shards;
    shard_moves(&s->cut.held, &s->cut.map, m->turn.member_count, &s->moves);
    s->handover.kind = HANDOVER_MOMENTS;
    s->handover.tag = m->turn.tag;
    s->handover.layout = m->config.layout;
    s->handover.isa = m->config.isa;
    s->handover.map = &s->next.map;
    s->handover.moves = &s->moves;
    s->handover.member_count = m->turn.member_count;
    s->handover.me = m->me;
    s->handover.array_count = m->config.moment_count;
    for (uint32_t i = 0; i < m->config.moment_count; i++)
        s->handover.array[i] = m->config.moment[i];
    handover_begin(&s->handover);
}

void member_shard_begin_recut(struct member *m)
{
    struct member_shards *s = &m->shards;
    s->cut = s->offered;
    if (s->applying && !same_tag(&m->turn.base, &s->base.tag)) member_shard_forget(m);
    bool here = m->me != GROUP_NOBODY && m->self.has_state && !m->committing && !s->applying &&
                m->self.position == m->turn.position;
    if (!here) return; /* the leader learns it from our status */
    if (!same_tag(&m->turn.base, &s->base.tag)) member_shard_forget(m);
    if (!has_what_is_said(m)) return;
    s->next = (struct member_base){.tag = m->turn.tag, .member_count = m->turn.member_count};
    memcpy(s->next.member, m->turn.member, sizeof s->next.member);
    s->next.map = s->cut.map;
    if (!is_set(&m->turn.base)) clear_moments(m);
    begin_moves(m);
    handover_may_leave(&s->handover);
}

/* What `held` gives this member it is to read from the store; then it is as if it had held it. */
void member_shard_begin_load(struct member *m)
{
    struct member_shards *s = &m->shards;
    s->cut = s->offered;
    s->next = (struct member_base){.tag = m->turn.tag, .member_count = m->turn.member_count};
    memcpy(s->next.member, m->turn.member, sizeof s->next.member);
    s->next.map = s->cut.map;
    s->shadow_position = 0;
    s->release_due = false; /* what is read for others is not this member's own */
    begin_moves(m);
}

bool member_shard_is_loaded(const struct member *m)
{
    return !member_is_sharded(m) || handover_is_done(&m->shards.handover);
}
void member_range(const struct member *m, uint64_t *ret_first, uint64_t *ret_count)
{
    const struct member_shards *s = &m->shards;
    ASSERT(s->range_first < s->range_end);
    *ret_first = m->config.layout->start[s->range_first];
    *ret_count = m->config.layout->start[s->range_end] - *ret_first;
}

bool member_range_is_last(const struct member *m)
{
    const struct member_shards *s = &m->shards;
    uint32_t blocks = m->config.layout->block_count, units = s->base.map.unit_count;
    for (uint32_t block = s->range_end; block < moment_blocks(m);) {
        uint32_t unit = shard_unit_of(units, blocks, block);
        if (base_gives(&s->base, m->config.id, unit)) return false;
        block = shard_first_block(units, blocks, unit + 1);
    }
    return true;
}

void member_range_applied(struct member *m)
{
    struct member_shards *s = &m->shards;
    ASSERT(!m->parked);
    s->range_is_out = false;
    if (!s->applying) return; /* all forgotten meanwhile */
    s->applied = s->range_end;
    find_range(m);
    if (s->handover.begun && s->handover.kind == HANDOVER_WEIGHTS) s->handover.applied = s->applied;
    member_settle(m);
}

static bool gathers(const struct member *m)
{
    return m->shards.handover.begun && m->shards.handover.kind == HANDOVER_WEIGHTS &&
           same_tag(&m->shards.handover.tag, &m->turn.tag);
}

void member_shard_advance(struct member *m)
{
    struct member_shards *s = &m->shards;
    if (!member_is_sharded(m)) return;
    bool ready = m->turn.kind == TURN_COMPUTE && same_tag(&m->self.ready, &m->turn.tag);
    if (ready && !is_set(&m->self.sealed) && gathers(m) && all_are_ready(m)) seal(m);
    if (s->applying && m->parked && s->applied == moment_blocks(m) && gathers(m) &&
        handover_is_done(&s->handover)) {
        s->applying = false;
        m->committing = true;
    }
    bool receives = m->turn.kind == TURN_RECUT && s->handover.begun;
    if (receives && handover_is_done(&s->handover) && !same_tag(&m->self.held, &m->turn.tag)) {
        m->self.held = m->turn.tag;
        member_tell_all(m);
    }
}

bool member_shard_next(struct member *m, uint32_t to, struct exchange_message *ret_message)
{
    if (!member_is_sharded(m) || !same_tag(&m->shards.handover.tag, &m->turn.tag)) return false;
    return handover_next(&m->shards.handover, to, ret_message);
}

void member_shard_moved(struct member *m)
{
    if (!member_is_sharded(m)) return;
    m->self.ready = m->self.sealed = (struct wire_tag){0};
    m->shards.shadow_position = m->self.position;
    exchange_abort(&m->exchange); /* all were ready: nobody needs it */
    /* One that came while this member placed the step: it took no part, and others may wait for
     * what it has. The leader gives another. */
    if (m->turn.kind == TURN_SEAL && m->me != GROUP_NOBODY && !gathers(m)) {
        m->self.broken = m->turn.tag;
        member_tell_all(m);
    }
}

void member_shard_fall_back(struct member *m)
{
    struct member_shards *s = &m->shards;
    s->lost_since_us = 0;
    exchange_abort(&m->exchange);
    handover_abort(&s->handover);
    m->self.era++;
    m->self.fell_at = m->self.position;
    m->self.fell_base = m->self.base;
    member_drop_state(m);
    s->fell_back = true;
    s->disputed = false;
    m->founding = true;
    member_tell_all(m);
}

/* The leader alone, while it finds that what is held by nobody stays so. */
void member_shard_watch_loss(struct member *m, bool lost)
{
    struct member_shards *s = &m->shards;
    if (!lost) {
        s->lost_since_us = 0;
        return;
    }
    if (s->lost_since_us == 0) s->lost_since_us = m->now_us + 1;
    int64_t lost_us = m->now_us - s->lost_since_us;
    if (lost_us < MEMBER_LOST_US || m->committing || s->range_is_out) return;
    if (m->self.leaving) { /* what it holds may be the only copy: the others get another moment */
        if (lost_us >= 2 * MEMBER_LOST_US) m->exit = MEMBER_WANT_EXIT_LEFT;
        return;
    }
    member_shard_fall_back(m);
}
