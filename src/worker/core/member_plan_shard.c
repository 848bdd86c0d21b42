/* The leader's side of member_shard.c: finishing a sealed step, cutting anew. */
#include "core/assert.h"
#include "worker/core/member_plan.h"
#include <string.h>

static bool same_tag(const struct wire_tag *a, const struct wire_tag *b)
{
    return wire_tag_compare(a, b) == 0;
}

/* The newest cut, if it is whole: all its members are there and hold what it gives them. */
static const struct member_base *plan_base(const struct member *m)
{
    const struct member_shards *s = &m->shards;
    if (s->next.tag.turn == 0 || !same_tag(&m->self.held, &s->next.tag)) return &s->base;
    for (uint32_t i = 0; i < s->next.member_count; i++) {
        const struct wire_status *status = member_status_of(m, s->next.member[i]);
        if (status == NULL || !same_tag(&status->held, &s->next.tag)) return &s->base;
    }
    return &s->next;
}

const struct wire_tag *member_plan_base(const struct member *m)
{
    return &plan_base(m)->tag;
}

static bool stands_on(const struct wire_status *status, const struct wire_tag *base)
{
    return same_tag(&status->base, base) || same_tag(&status->held, base);
}

static void forget_holder(struct shard_map *held, uint32_t member)
{
    for (uint32_t u = 0; u < held->unit_count; u++) {
        if (held->owner[u] == member) held->owner[u] = SHARD_NONE;
        if (held->mirror[u] == member) held->mirror[u] = SHARD_NONE;
    }
}

/* Who of the turn's members holds what. */
static void find_held(const struct member *m, const struct member_base *base,
                      const struct wire_turn *turn, struct shard_map *ret_held)
{
    if (base->tag.turn == 0) {
        ret_held->unit_count = shard_unit_count(m->config.layout->block_count);
        memset(ret_held->owner, SHARD_NONE, sizeof ret_held->owner);
        memset(ret_held->mirror, SHARD_NONE, sizeof ret_held->mirror);
        return;
    }
    shard_translate(&base->map, base->member, base->member_count, turn->member, turn->member_count,
                    ret_held);
    for (uint32_t i = 0; i < turn->member_count; i++)
        if (!stands_on(member_status_of(m, turn->member[i]), &base->tag))
            forget_holder(ret_held, i);
}

static void add_member(struct wire_turn *turn, uint64_t id)
{
    if (turn->member_count == GROUP_MEMBERS_MAX) return;
    turn->source[turn->member_count] = GROUP_NOBODY;
    turn->member[turn->member_count++] = id;
}

/* Has its means for the step at this position, and has not placed it. */
static bool waits_for(const struct member *m, const struct wire_status *status, uint64_t position)
{
    return status->has_state && status->era == m->self.era && status->position == position &&
           status->ready.turn != 0 && same_tag(&status->base, &m->shards.base.tag);
}

static bool has_placed(const struct member *m, const struct wire_status *status, uint64_t position)
{
    return status->has_state && status->era == m->self.era && status->position == position + 1 &&
           same_tag(&status->base, &m->shards.base.tag);
}

bool member_plan_seal(const struct member *m, const struct seen *seen, struct wire_turn *turn)
{
    bool sealed = m->self.sealed.turn != 0;
    if (!sealed && (m->self.position == 0 || m->shards.shadow_position != m->self.position))
        return false;
    struct wire_turn plan = *turn;
    plan.kind = TURN_SEAL;
    plan.position = sealed ? m->self.position : m->self.position - 1;
    plan.base = m->shards.base.tag;
    bool any = false;
    for (uint32_t i = 0; i < seen->count; i++) {
        if (seen->out[i]) continue;
        bool waits = waits_for(m, seen->status[i], plan.position);
        any = any || waits;
        if (waits || has_placed(m, seen->status[i], plan.position)) add_member(&plan, seen->id[i]);
    }
    if (!any) return false;
    struct shard_map held;
    find_held(m, &m->shards.base, &plan, &held);
    if (shard_lost_units(&held) > 0) return false;
    *turn = plan;
    return true;
}

/* Was ready for the step that this member has sealed or placed, since all were; but what was heard
 * of it last is older. To sync it, or to cut without it, would throw its moments away. */
static bool is_news_of_it_old(const struct member *m, uint64_t id, const struct wire_status *status)
{
    const struct wire_turn *turn = &m->commit.turn;
    uint32_t i = 0;
    while (i < turn->member_count && turn->member[i] != id) i++;
    return i < turn->member_count && wire_tag_compare(&status->turn, &turn->tag) <= 0 &&
           !waits_for(m, status, turn->position) && !has_placed(m, status, turn->position);
}

static bool has_member(const struct wire_turn *turn, uint64_t id)
{
    for (uint32_t i = 0; i < turn->member_count; i++)
        if (turn->member[i] == id) return true;
    return false;
}

static bool is_level_in(const struct wire_turn *turn, uint64_t id)
{
    for (uint32_t i = 0; i < turn->member_count; i++)
        if (turn->member[i] == id) return !wire_turn_watches(turn, i);
    return false;
}

/* The turn in force names it, so whoever gave that turn knew it to be level; what was heard of it
 * here is older and says that it is behind. To sync it would throw its moments away, too. */
static bool was_level(const struct member *m, uint64_t id, const struct wire_status *status)
{
    const struct wire_turn *turn = &m->turn;
    bool of_levels = turn->kind == TURN_COMPUTE || turn->kind == TURN_SAVE ||
                     turn->kind == TURN_RECUT || turn->kind == TURN_VOTE;
    return of_levels && turn->position == m->self.position && turn->era == m->self.era &&
           status->position < turn->position && is_level_in(turn, id) &&
           wire_tag_compare(&status->turn, &turn->tag) < 0;
}

bool member_seal_waits(const struct member *m, const struct seen *seen)
{
    if (m->self.sealed.turn != 0) return true; /* what was begun can only be finished, or is lost */
    bool placed = m->self.position > 0 && m->shards.shadow_position == m->self.position &&
                  m->commit.turn.position + 1 == m->self.position;
    for (uint32_t i = 0; i < seen->count; i++) {
        if (seen->out[i]) continue;
        if (placed && is_news_of_it_old(m, seen->id[i], seen->status[i])) return true;
        if (was_level(m, seen->id[i], seen->status[i])) return true;
    }
    return false;
}

bool member_seal_is_over(const struct member *m)
{
    uint32_t placed = 0;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || same_tag(&status->broken, &m->turn.tag)) return true;
        if (has_placed(m, status, m->turn.position))
            placed++;
        else if (!waits_for(m, status, m->turn.position))
            return true;
    }
    return placed == m->turn.member_count;
}

bool member_recut_is_over(const struct member *m)
{
    const struct wire_turn *turn = &m->turn;
    uint32_t whole = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        if (status == NULL || same_tag(&status->broken, &turn->tag)) return true;
        if (same_tag(&status->held, &turn->tag)) {
            whole++;
            continue;
        }
        if (!same_tag(&status->turn, &turn->tag)) continue;
        bool is_there =
            status->has_state && status->era == turn->era && status->position == turn->position;
        bool gives = false;
        for (uint32_t u = 0; u < m->shards.cut.held.unit_count && !gives; u++)
            gives = m->shards.cut.held.owner[u] == i || m->shards.cut.held.mirror[u] == i;
        if (!is_there || (gives && !same_tag(&status->base, &turn->base))) return true;
    }
    return whole == turn->member_count;
}

/* Do the turn's members hold everything twice (once, if there is but one), and none else is needed? */
static bool is_covered(const struct member *m, const struct member_base *base,
                       const struct wire_turn *turn)
{
    struct shard_map held;
    if (base->tag.turn == 0) return false;
    find_held(m, base, turn, &held);
    for (uint32_t i = 0; i < turn->member_count; i++) {
        if (!stands_on(member_status_of(m, turn->member[i]), &base->tag)) return false;
        bool in_base = false;
        for (uint32_t k = 0; k < base->member_count; k++)
            in_base = in_base || base->member[k] == turn->member[i];
        if (!in_base) return false;
    }
    for (uint32_t u = 0; u < held.unit_count; u++)
        if (held.owner[u] == SHARD_NONE || (turn->member_count > 1 && held.mirror[u] == SHARD_NONE))
            return false;
    return true;
}

/* Those who go on, and those who leave but hold something, by id. */
static void choose_cutters(const struct seen *seen, const struct wire_tag *base,
                           struct wire_turn *turn)
{
    struct wire_turn crew = *turn;
    turn->member_count = 0;
    for (uint32_t i = 0; i < seen->count; i++) {
        bool source = member_is_level(seen, i) && !seen->out[i] && base->turn != 0 &&
                      stands_on(seen->status[i], base);
        if (source || has_member(&crew, seen->id[i])) add_member(turn, seen->id[i]);
    }
}

/* Turn's members and base, and who holds what; how many units nobody does. */
static uint32_t look_for_holders(const struct member *m, const struct seen *seen,
                                 const struct member_base *base, struct wire_turn *turn,
                                 struct shard_map *ret_held)
{
    choose_cutters(seen, &base->tag, turn);
    find_held(m, base, turn, ret_held);
    turn->base = base->tag;
    return shard_lost_units(ret_held);
}

bool member_plan_tell_base(const struct member *m, const struct wire_turn *turn,
                           struct wire_cut *ret_cut)
{
    const struct member_base *base = plan_base(m);
    ASSERT(same_tag(&base->tag, &turn->base));
    ret_cut->base_count = base->member_count;
    memcpy(ret_cut->base_member, base->member, sizeof ret_cut->base_member);
    ret_cut->map = base->map;
    for (uint32_t i = 0; i < turn->member_count; i++)
        for (uint32_t k = 0; k < base->member_count && wire_turn_watches(turn, i); k++)
            if (base->member[k] == turn->member[i]) return false;
    return true;
}

enum shard_need member_plan_recut(const struct member *m, const struct seen *seen,
                                  struct wire_turn *turn, struct wire_cut *ret_cut)
{
    const struct member_base *base = plan_base(m), *next = &m->shards.next;
    if (is_covered(m, base, turn)) {
        turn->base = base->tag;
        return SHARD_FINE;
    }
    const struct wire_turn crew = *turn;
    uint32_t lost = look_for_holders(m, seen, base, turn, &ret_cut->held);
    if (lost > 0 && base != next && next->tag.turn != 0 && same_tag(&m->self.held, &next->tag)) {
        *turn = crew; /* those of that cut who are gone may have gone because it was whole */
        lost = look_for_holders(m, seen, next, turn, &ret_cut->held);
    }
    if (lost > 0) {
        if (turn->position > 0 || turn->era > 0) return SHARD_LOST;
        turn->base = (struct wire_tag){0}; /* all moments are zero */
        find_held(m, &(struct member_base){0}, turn, &ret_cut->held);
    }
    struct shard_member member[GROUP_MEMBERS_MAX];
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        uint64_t memory = status->memory == 0 ? 1 : status->memory;
        member[i] = (struct shard_member){status->zone, status->host,
                                          has_member(&crew, turn->member[i]) ? memory : 0};
    }
    shard_plan(member, turn->member_count, &ret_cut->held, &ret_cut->map);
    turn->kind = TURN_RECUT;
    return SHARD_RECUT;
}
