/* What a member sees of the others: who has the newest state, who leads, who speaks. */
#include "worker/core/member.h"
#include "worker/core/member_plan.h"

const struct wire_status *member_status_of(const struct member *m, uint64_t id)
{
    if (id == m->config.id) return &m->self;
    const struct member_peer *peer = member_peer_of(m, id);
    return peer != NULL && peer->connected && peer->knows_status ? &peer->status : NULL;
}

/* All are ready for it here, and it has not yet been placed. */
static bool has_open_seal(const struct wire_status *status)
{
    return status->sealed.turn != 0; /* forgotten once it has */
}

/* Below, at or above 0 as a place is before, at or after the one where somebody fell back. */
static int place_order(uint64_t position, const struct wire_tag *base, const struct fork *fork)
{
    if (position != fork->fell_at) return position < fork->fell_at ? -1 : 1;
    return wire_tag_compare(base, &fork->fell_base);
}

static void note_fork(struct fork *fork, const struct wire_status *status)
{
    if (status->era < fork->era) return;
    if (status->era == fork->era && place_order(status->fell_at, &status->fell_base, fork) <= 0)
        return;
    *fork = (struct fork){status->era, status->fell_at, status->fell_base};
}

static bool is_void(const struct fork *fork, const struct wire_status *status)
{
    return status->era < fork->era && place_order(status->position, &status->base, fork) <= 0;
}

/* Below, at or above 0 as a is behind, level with or ahead of b: void or not, then by position, era
 * (who did not fall back needs no other's moments), the cut in force, and whether the step in work
 * is sealed. Moments apart, position alone counts. */
static int progress(const struct fork *fork, const struct wire_status *a,
                    const struct wire_status *b)
{
    bool void_a = is_void(fork, a), void_b = is_void(fork, b);
    if (void_a != void_b) return void_a ? -1 : 1;
    if (a->has_state != b->has_state) return a->has_state ? 1 : -1;
    if (a->position != b->position) return a->position < b->position ? -1 : 1;
    if (a->era != b->era) return a->era < b->era ? 1 : -1;
    int base = wire_tag_compare(&a->base, &b->base);
    return base != 0 ? base : (int)has_open_seal(a) - (int)has_open_seal(b);
}

static void insert(struct seen *seen, uint64_t id, const struct wire_status *status)
{
    uint32_t at = seen->count++;
    for (; at > 0 && seen->id[at - 1] > id; at--) {
        seen->id[at] = seen->id[at - 1];
        seen->status[at] = seen->status[at - 1];
    }
    seen->id[at] = id;
    seen->status[at] = status;
    seen->any_state = seen->any_state || status->has_state;
    note_fork(&seen->fork, status);
}

void member_see(const struct member *m, struct seen *ret_seen)
{
    ret_seen->count = 0;
    ret_seen->best = NULL;
    ret_seen->any_state = false;
    ret_seen->fork = (struct fork){0};
    insert(ret_seen, m->config.id, &m->self);
    for (uint32_t i = 0; i < m->peer_count; i++)
        if (m->peer[i].connected && m->peer[i].knows_status)
            insert(ret_seen, m->peer[i].id, &m->peer[i].status);
    for (uint32_t i = 0; i < ret_seen->count; i++) {
        const struct wire_status *status = ret_seen->status[i];
        if (ret_seen->best == NULL || progress(&ret_seen->fork, status, ret_seen->best) > 0)
            ret_seen->best = status;
    }
}

bool member_is_level(const struct seen *seen, uint32_t i)
{
    const struct wire_status *status = seen->status[i], *best = seen->best;
    return status->has_state && status->era == best->era && status->position == best->position;
}

/* Nobody leads without state, but for one that founds, or loads a checkpoint after a loss. */
static bool may_lead(const struct wire_status *status)
{
    return status->has_state || status->era > 0 || status->founds > 0;
}

static struct fork find_fork(const struct member *m)
{
    struct fork fork = {0};
    note_fork(&fork, &m->self);
    for (uint32_t i = 0; i < m->peer_count; i++)
        if (m->peer[i].connected && m->peer[i].knows_status) note_fork(&fork, &m->peer[i].status);
    return fork;
}

/* The lowest id of those furthest ahead. This runs for every frame. */
uint64_t member_leader(const struct member *m)
{
    const struct fork fork = find_fork(m);
    const struct wire_status *status = &m->self, *furthest = NULL;
    uint64_t id = m->config.id, best = 0, best_leaving = 0;
    for (uint32_t i = 0; i <= m->peer_count; i++) {
        if (i > 0) {
            const struct member_peer *peer = &m->peer[i - 1];
            if (!peer->connected || !peer->knows_status) continue;
            status = &peer->status;
            id = peer->id;
        }
        if (!may_lead(status)) continue;
        int ahead = furthest == NULL ? 1 : progress(&fork, status, furthest);
        if (ahead < 0) continue;
        if (ahead > 0) best = best_leaving = 0;
        furthest = status;
        uint64_t *first = status->leaving ? &best_leaving : &best;
        if (*first == 0 || id < *first) *first = id;
    }
    return best != 0 ? best : best_leaving;
}

uint64_t member_speaker(const struct member *m)
{
    uint64_t leaving = 0;
    for (uint32_t i = 0; i < m->last_compute.member_count; i++) {
        uint64_t id = m->last_compute.member[i];
        const struct wire_status *status = member_status_of(m, id);
        if (status == NULL) continue;
        if (!status->leaving) return id;
        if (leaving == 0) leaving = id;
    }
    return leaving;
}
