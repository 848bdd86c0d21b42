#include "worker/core/member_plan.h"
#include "core/assert.h"
#include <string.h>

bool member_may_found(const struct member *m)
{
    if (m->self.has_state || !m->peers_settled || m->self.leaving) return false;
    struct seen seen;
    member_see(m, &seen);
    if (seen.any_state || seen.best->era > m->self.era) return false;
    uint32_t connected = 1, willing = 0;
    for (uint32_t i = 0; i < m->peer_count; i++) connected += m->peer[i].connected;
    if (connected != seen.count) return false; /* somebody has not said yet what it has */
    uint64_t first = 0, newest = 0; /* of those who see the newest checkpoint the first */
    for (uint32_t i = 0; i < seen.count; i++) {
        const struct wire_status *status = seen.status[i];
        if (status->founds > 0) return false;
        if (status->leaving) continue;
        if (willing++ == 0 || status->seen > newest) first = seen.id[i], newest = status->seen;
    }
    return willing >= m->config.gang && first == m->config.id;
}

/* Left out of turns because it is stuck; nobody is when all were. */
static bool is_out(const struct member *m, uint64_t id)
{
    if (!member_is_left_out(m, id)) return false;
    struct seen seen;
    member_see(m, &seen);
    for (uint32_t i = 0; i < seen.count; i++)
        if (member_is_level(&seen, i) && !member_is_left_out(m, seen.id[i])) return true;
    return false;
}

static bool same_tag(const struct wire_tag *a, const struct wire_tag *b)
{
    return wire_tag_compare(a, b) == 0;
}

static bool compute_is_over(const struct member *m)
{
    const struct wire_turn *turn = &m->turn;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        if (status == NULL || same_tag(&status->broken, &turn->tag)) return true;
        if (is_out(m, turn->member[i])) return true;
        if (wire_turn_watches(turn, i) && !member_is_there(m, i)) continue;
        if (!status->has_state || status->position < turn->position) return true;
        bool taken = same_tag(&status->turn, &turn->tag);
        if (taken && !same_tag(&status->base, &turn->base)) return true;
        if (status->position == turn->position) continue;
        if (!same_tag(&status->moved_by, &turn->tag)) return true;
        moved++;
    }
    return moved == turn->member_count;
}

static bool sync_is_over(const struct member *m)
{
    const struct wire_turn *turn = &m->turn;
    bool pending = false;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        if (status == NULL) return true;
        bool there =
            status->has_state && status->era == turn->era && status->position >= turn->position;
        if (!there && is_out(m, turn->member[i])) return true;      /* it would never come */
        if (turn->source[i] == GROUP_NOBODY && !there) return true; /* a source lost its state */
        pending = pending || !there;
    }
    return !pending;
}

/* Some member has taken a newer turn, from one who led for a moment in its own eyes. Or has not
 * taken this one, and never will: another gave it, and turns are taken only from the leader. */
static bool turn_is_superseded(const struct member *m)
{
    bool ours = m->turn.tag.leader == m->config.id;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL) continue;
        int order = wire_tag_compare(&status->turn, &m->turn.tag);
        if (order > 0 || (order < 0 && !ours && !member_hears_later(m))) return true;
    }
    return false;
}

bool member_turn_is_over(const struct member *m)
{
    if (m->turn.tag.turn == 0 || turn_is_superseded(m)) return true;
    switch ((enum turn_kind)m->turn.kind) {
    case TURN_COMPUTE: return compute_is_over(m);
    case TURN_SYNC: return sync_is_over(m);
    case TURN_SAVE:
        return m->turn.tag.leader != m->config.id || !member_save_is_active(m, &m->turn.tag);
    case TURN_RECUT: return member_recut_is_over(m);
    case TURN_SEAL: return member_seal_is_over(m);
    case TURN_VOTE: return member_vote_is_over(m);
    case TURN_LOAD: return member_load_is_over(m);
    case TURN_FINISH: return true; /* who is still here was not meant, and goes on */
    }
    return true;
}

static void add_member(struct wire_turn *turn, uint64_t id)
{
    if (turn->member_count == GROUP_MEMBERS_MAX) return; /* the rest waits, see limits.h */
    turn->source[turn->member_count] = GROUP_NOBODY;
    turn->member[turn->member_count++] = id;
}

static bool is_behind(const struct seen *seen, uint32_t i)
{
    const struct wire_status *status = seen->status[i];
    return !member_is_level(seen, i) && !status->leaving && !seen->out[i] && status->here;
}

/* Those ahead, and with `behind` those behind. Leavers only when nobody else is ahead. */
static void choose_members(const struct seen *seen, bool behind, struct wire_turn *turn)
{
    bool stayer_ahead = false;
    for (uint32_t i = 0; i < seen->count; i++)
        stayer_ahead = stayer_ahead ||
                       (member_is_level(seen, i) && !seen->out[i] && !seen->status[i]->leaving);
    for (uint32_t i = 0; i < seen->count; i++) {
        bool source = member_is_level(seen, i) && !seen->out[i] &&
                      (!seen->status[i]->leaving || !stayer_ahead);
        if (source || (behind && is_behind(seen, i))) add_member(turn, seen->id[i]);
    }
}

/* Sources take turns, so that several joiners load several peers. */
static bool is_source(const struct wire_turn *turn, const struct wire_status *status)
{
    return status->has_state && status->era == turn->era && status->position == turn->position;
}

static void choose_sources(const struct member *m, struct wire_turn *turn)
{
    uint32_t source[GROUP_MEMBERS_MAX], source_count = 0, next = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        if (is_source(turn, status)) source[source_count++] = i;
    }
    ASSERT(source_count > 0);
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct wire_status *status = member_status_of(m, turn->member[i]);
        if (is_source(turn, status)) continue;
        bool keeps =
            turn->position == 0 && turn->era == 0 && status->weights_hash == m->config.weights_hash;
        turn->source[i] = (uint8_t)(keeps ? i : source[next++ % source_count]);
    }
}

static bool same_members(const struct wire_turn *a, const struct wire_turn *b)
{
    return a->member_count == b->member_count &&
           memcmp(a->member, b->member, a->member_count * sizeof a->member[0]) == 0;
}

/* Those who get slots, and their speeds. Returns how many. */
static uint32_t choose_workers(const struct member *m, const struct wire_turn *turn,
                               uint8_t *ret_worker, uint32_t *ret_slot_us)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        if (wire_turn_watches(turn, i)) continue;
        ret_worker[count] = (uint8_t)i;
        ret_slot_us[count++] = member_status_of(m, turn->member[i])->slot_us;
    }
    return count;
}

/* From indexes into the workers to those into the members, and back; what is not there: nobody. */
static void name_members(uint8_t *owner, uint32_t slots, const uint8_t *worker)
{
    for (uint32_t slot = 0; slot < slots; slot++) owner[slot] = worker[owner[slot]];
}

static uint8_t worker_of(const uint8_t *worker, uint32_t count, uint8_t member)
{
    for (uint32_t i = 0; i < count; i++)
        if (worker[i] == member) return (uint8_t)i;
    return GROUP_NOBODY;
}

static void choose_owners(struct member *m, struct wire_turn *turn)
{
    const struct wire_turn *last = &m->last_compute;
    uint8_t worker[GROUP_MEMBERS_MAX];
    uint32_t slot_us[GROUP_MEMBERS_MAX], slots = m->config.slot_count;
    uint32_t workers = choose_workers(m, turn, worker, slot_us);
    turn->slot_count = slots;
    if (last->tag.turn != 0 && last->position == turn->position) { /* redo: keep what is done */
        for (uint32_t slot = 0; slot < slots; slot++)
            turn->owner[slot] = worker_of(
                worker, workers, (uint8_t)wire_turn_index(turn, last->member[last->owner[slot]]));
        turn->redone_slots =
            last->redone_slots + slots_reassign(turn->owner, slots, slot_us, workers);
        name_members(turn->owner, slots, worker);
        return;
    }
    slots_assign(turn->owner, slots, slot_us, workers);
    name_members(turn->owner, slots, worker);
    if (last->tag.turn == 0 || !same_members(turn, last) || workers < turn->member_count) {
        m->gain_steps = 0;
        return;
    }
    int64_t gain_ppm = slots_gain_ppm(turn->owner, last->owner, slots, slot_us, turn->member_count);
    if (!slots_should_move(gain_ppm, &m->gain_steps)) memcpy(turn->owner, last->owner, slots);
}

/* The exchange keeps within zones what it can. */
static void note_zones(const struct member *m, struct wire_turn *turn)
{
    for (uint32_t i = 0; i < turn->member_count; i++) {
        uint64_t zone = member_status_of(m, turn->member[i])->zone;
        turn->zone[i] = (uint8_t)i;
        for (uint32_t k = i; k-- > 0;)
            if (member_status_of(m, turn->member[k])->zone == zone) turn->zone[i] = (uint8_t)k;
    }
}

static void plan_compute(struct member *m, struct wire_turn *turn)
{
    const struct wire_turn *last = &m->last_compute;
    bool same_step = last->tag.turn != 0 && last->position == turn->position;
    turn->kind = TURN_COMPUTE;
    turn->attempt = same_step ? last->attempt + 1 : 1;
    turn->generation =
        last->tag.turn != 0 && same_members(turn, last) ? last->generation : m->generation_max + 1;
    turn->save = member_save_is_due(m, turn->position);
    note_zones(m, turn);
    choose_owners(m, turn);
}

/* With sharded moments the first step waits until there is something to fall back to. */
static bool wants_first_save(const struct member *m, uint64_t position)
{
    return member_is_sharded(m) && position == 0 && m->config.has_store &&
           m->config.save_every != 0 && !m->saves.first_done;
}

static bool wants_last_save(const struct member *m, uint64_t position)
{
    return m->config.has_store && position > 0 && m->saves.position != position;
}

/* Nothing more to compute, for good or because all are leaving: save once, then go. */
static bool plan_end(const struct member *m, struct wire_turn *turn)
{
    if (member_saves_any(m)) return false; /* an earlier checkpoint must end first */
    bool wants_save = wants_last_save(m, turn->position) || wants_first_save(m, turn->position);
    turn->kind = wants_save ? TURN_SAVE : TURN_FINISH;
    turn->save = wants_save;
    turn->generation = m->generation_max;
    return true;
}

/* True, and *ret_seen: it is for this member to give the next turn. */
static bool leads_now(const struct member *m, struct seen *ret_seen)
{
    if (member_leader(m) != m->config.id || !m->self.has_state || !member_turn_is_over(m))
        return false;
    if (member_waits_for_word(m)) return false;
    member_see(m, ret_seen);
    for (uint32_t i = 0; i < ret_seen->count; i++) ret_seen->out[i] = is_out(m, ret_seen->id[i]);
    return true;
}

static bool any_behind(const struct seen *seen)
{
    for (uint32_t i = 0; i < seen->count; i++)
        if (is_behind(seen, i)) return true;
    return false;
}

void member_begin_turn(const struct member *m, const struct seen *seen, struct wire_turn *turn)
{
    memset(turn, 0, sizeof *turn);
    turn->tag = (struct wire_tag){m->turn_max + 1, m->config.id};
    turn->position = seen->best->position;
    turn->era = seen->best->era;
    turn->fell_at = seen->best->fell_at;
    turn->fell_base = seen->best->fell_base;
    turn->generation = m->generation_max;
}

/* All that is to be done with these weights is done: no more steps, or nobody stays to do them. */
static bool is_at_end(const struct member *m, const struct seen *seen, uint64_t position)
{
    bool stayers = false;
    for (uint32_t i = 0; i < seen->count; i++)
        stayers = stayers || (seen->status[i]->here && !seen->status[i]->leaving);
    return position == m->config.steps || !stayers;
}

/* Most were one step short when somebody was lost: few would compute the step of all meanwhile. */
static bool most_fell_short(const struct seen *seen)
{
    uint32_t level = 0, short_of = 0;
    for (uint32_t i = 0; i < seen->count; i++) {
        level += member_is_level(seen, i) && !seen->out[i];
        short_of += is_behind(seen, i) && seen->status[i]->has_state;
    }
    return short_of > level;
}

/* A step in which those behind watch. Not where the first weights are dealt out, nor at a checkpoint,
 * of which all that are in the turn write a part, nor before the moments are where they belong. */
static bool plan_watched(struct member *m, const struct seen *seen, struct wire_turn *turn,
                         struct wire_cut *ret_cut)
{
    struct wire_turn crew = *turn;
    if (turn->position == 0 || is_at_end(m, seen, turn->position)) return false;
    if (most_fell_short(seen)) return false;
    if (wants_first_save(m, turn->position) || member_save_is_due(m, turn->position)) return false;
    crew.member_count = 0;
    choose_members(seen, false, &crew);
    if (member_is_sharded(m) && member_plan_recut(m, seen, &crew, ret_cut) != SHARD_FINE)
        return false;
    turn->base = crew.base;
    turn->kind = TURN_COMPUTE;
    choose_sources(m, turn);
    uint32_t workers = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) workers += !wire_turn_watches(turn, i);
    if (workers != crew.member_count) return false; /* more than a turn holds */
    if (member_is_sharded(m) && !member_plan_tell_base(m, turn, ret_cut)) return false;
    plan_compute(m, turn);
    ASSERT(turn->save == 0);
    return true;
}

bool member_plan(struct member *m, struct wire_turn *turn, struct wire_cut *ret_cut)
{
    struct seen seen;
    if (m->self.founds > 0) return member_plan_load(m, turn, ret_cut);
    if (!leads_now(m, &seen)) return false;
    member_begin_turn(m, &seen, turn);
    if (member_is_sharded(m) && member_plan_seal(m, &seen, turn)) return true;
    if (member_is_sharded(m) && member_seal_waits(m, &seen)) return false;
    if (member_mirror_falls_back(m)) return false;
    bool state;
    if (member_vote_is_due(m, &seen, &state)) {
        choose_members(&seen, false, turn);
        turn->attempt = state;
        turn->kind = TURN_VOTE;
        if (member_is_sharded(m)) turn->base = *member_plan_base(m);
        return true;
    }
    bool behind = any_behind(&seen);
    choose_members(&seen, behind, turn);
    ASSERT(turn->member_count > 0);
    if (behind && plan_watched(m, &seen, turn, ret_cut)) return true;
    if (behind) {
        turn->kind = TURN_SYNC;
        turn->base = (struct wire_tag){0};
        choose_sources(m, turn);
        return true;
    }
    bool ends = is_at_end(m, &seen, turn->position);
    bool needs_moments =
        !ends || wants_last_save(m, turn->position) || wants_first_save(m, turn->position);
    if (member_is_sharded(m) && needs_moments) {
        enum shard_need need = member_plan_recut(m, &seen, turn, ret_cut);
        if (need == SHARD_RECUT) return true;
        if (need == SHARD_LOST && turn->position < m->config.steps) return false;
        if (need == SHARD_LOST) { /* the weights are final: nobody needs them any more */
            turn->kind = TURN_FINISH;
            return true;
        }
    }
    if (ends || wants_first_save(m, turn->position)) return plan_end(m, turn);
    plan_compute(m, turn);
    return true;
}

bool member_moments_are_lost(const struct member *m)
{
    struct seen seen;
    struct wire_turn turn;
    struct wire_cut cut;
    if (!leads_now(m, &seen)) return false;
    member_begin_turn(m, &seen, &turn);
    if (member_plan_seal(m, &seen, &turn)) return false;
    if (m->self.sealed.turn != 0) return true;
    if (member_seal_waits(m, &seen) || any_behind(&seen)) return false;
    choose_members(&seen, false, &turn);
    return turn.position < m->config.steps &&
           member_plan_recut(m, &seen, &turn, &cut) == SHARD_LOST;
}
