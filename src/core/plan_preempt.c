#include "core/plan_preempt.h"
#include "core/class.h"
#include "core/data.h"
#include "core/lease.h"
#include "core/preempt.h"
#include "core/promise.h"
#include "core/quota.h"

/* For one node that is named, whatever the class may hold. */
static struct search search_one(const pool *p, const struct demand *demand, uint32_t region_index,
                                uint32_t need)
{
    return (struct search){.p = p,
                           .demand = demand,
                           .region_index = region_index,
                           .need = need,
                           .bears = need,
                           .ncu_left = UINT64_MAX};
}

bool preempt_is_place(const pool *p, const struct demand *demand, uint32_t region_index,
                      uint32_t need, uint32_t node)
{
    struct search s = search_one(p, demand, region_index, need);
    return search_is_place(&s, node);
}

uint32_t preempt_coming(const pool *p, const struct demand *demand, uint32_t region_index,
                        uint32_t need, uint32_t node)
{
    struct search s = search_one(p, demand, region_index, need);
    return search_is_place(&s, node) ? search_coming(&s, node) : 0;
}

static uint64_t ncu_at(const pool *p, uint32_t node)
{
    return p->models[p->offers[p->nodes[node].offer].model].ncu_milli;
}

/* What is promised to the job itself gives way to what it gets. */
static void share_of(const pool *p, const struct shape *s, uint32_t job, uint64_t more_ncu_milli,
                     struct class_share *ret_share)
{
    class_share_of(p, s, more_ncu_milli, ret_share);
    for (uint32_t at = p->jobs[job].promises.head; at != SLOT_NONE;
         at = p->promises[at].job_link.next)
        ret_share->held_ncu_milli -= ncu_at(p, p->promises[at].node) * p->promises[at].device_count;
}

/* What its class may hold more by right, not only by luck. */
static uint64_t ncu_left(const pool *p, const struct shape *s, uint32_t job,
                         uint64_t more_ncu_milli)
{
    struct class_share share;
    share_of(p, s, job, more_ncu_milli, &share);
    return share.reserved_ncu_milli > share.held_ncu_milli
               ? share.reserved_ncu_milli - share.held_ncu_milli
               : 0;
}

static bool is_region(const pool *p, const struct shape *s, uint32_t index)
{
    return (s->region == 0 || s->region == p->regions[index].region) &&
           (s->compat_mask & p->regions[index].model_mask) != 0;
}

static uint64_t ncu_of_victims(const pool *p, const struct search *s, const struct preemption *plan)
{
    uint64_t sum = 0, most = 0, devices = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        const struct victim *v = &plan->victims[i];
        for (uint32_t l = p->jobs[v->job].leases.head; l != SLOT_NONE;
             l = p->leases[l].job_link.next) {
            const struct lease *lease = &p->leases[l];
            if (v->lease == SLOT_NONE ? !search_is_victim(s, l) : l != v->lease) continue;
            if (!search_is_place(s, lease->node)) continue;
            sum += ncu_at(p, lease->node) * lease->device_count;
            devices += lease->device_count;
            if (ncu_at(p, lease->node) > most) most = ncu_at(p, lease->node);
        }
    }
    /* A victim may free more than is needed; and what comes free anyway counts like the largest. */
    if (devices >= plan->need) return sum < most * plan->need ? sum : most * plan->need;
    uint64_t any = s->p->models[supply_largest(p, s->demand->compat_mask)].ncu_milli;
    return sum + any * (plan->need - devices);
}

/* At most so many nodes: each of a victim's leases may be on one of its own. */
static uint32_t nodes_of(const pool *p, const struct preemption *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++)
        count +=
            plan->victims[i].lease != SLOT_NONE ? 1 : p->jobs[plan->victims[i].job].leases.count;
    return count < plan->need ? count + (plan->gain < plan->need) * (plan->need - plan->gain)
                              : plan->need;
}

/* What supply gives counts in quotas, too. */
static void take_quota(const pool *p, const struct mix *mix, struct demand *rest)
{
    for (uint32_t i = 0; i < mix->line_count; i++) {
        uint32_t model = p->offers[mix->lines[i].offer].model;
        int64_t *left = &rest->quota_left_milli[p->quota_kind[model]];
        if (*left == INT64_MAX) continue;
        int64_t takes = demand_quota_of(p, rest, model, mix->lines[i].device_count);
        *left = *left > takes ? *left - takes : 0;
    }
}

/* Of one kind, at most what it would take: of supply, of what victims free (of more than it needs the models
 * that count most), of what comes free anyway. */
static int64_t quota_taken(const struct search *s, const struct mix *mix,
                           const struct preemption *plan, uint32_t kind)
{
    const pool *p = s->p;
    int64_t sum = 0, freed = 0, most = 0;
    uint32_t devices = 0;
    for (uint32_t i = 0; s->supplied > 0 && i < mix->line_count; i++) {
        uint32_t model = p->offers[mix->lines[i].offer].model;
        if (p->quota_kind[model] == kind)
            sum += demand_quota_of(p, s->demand, model, mix->lines[i].device_count);
    }
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        const struct victim *v = &plan->victims[i];
        for (uint32_t l = p->jobs[v->job].leases.head; l != SLOT_NONE;
             l = p->leases[l].job_link.next) {
            if (v->lease == SLOT_NONE ? !search_is_victim(s, l) : l != v->lease) continue;
            if (!search_is_place(s, p->leases[l].node)) continue;
            uint32_t model = p->offers[p->nodes[p->leases[l].node].offer].model;
            devices += p->leases[l].device_count;
            if (p->quota_kind[model] != kind) continue;
            int64_t each = demand_quota_milli(p, s->demand, model);
            freed += each * p->leases[l].device_count;
            if (each > most) most = each;
        }
    }
    uint32_t any = supply_largest(p, s->demand->compat_mask);
    if (devices < plan->need && p->quota_kind[any] == kind)
        freed += demand_quota_milli(p, s->demand, any) * (plan->need - devices);
    else if (devices >= plan->need && freed > most * plan->need)
        freed = most * plan->need;
    return sum + freed;
}

/* Once the victims are gone: who keeps some of its quota to itself gives back less than they held. */
static bool quota_suffices(const struct search *s, const struct mix *mix,
                           const struct preemption *plan)
{
    const pool *p = s->p;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        struct quota_freed freed = {.kind = kind};
        if (!p->accounts[ACCOUNT_POOL].has_quota[kind]) continue;
        for (uint32_t i = 0; i < plan->victim_count; i++) {
            const struct victim *v = &plan->victims[i];
            for (uint32_t l = p->jobs[v->job].leases.head; l != SLOT_NONE;
                 l = p->leases[l].job_link.next)
                if (v->lease == SLOT_NONE ? lease_holds(&p->leases[l]) : l == v->lease)
                    quota_free(p, &freed, l);
        }
        if (quota_taken(s, mix, plan, kind) >
            quota_available_then(p, &freed, p->jobs[s->demand->job].account))
            return false;
    }
    return true;
}

/* Beyond what supply gives in that region, victims; all within the models of the demand, and within the
 * share of the class of `s` (NULL: no matter). */
static bool find_in(const struct search *from, const struct shape *s, const struct demand *asked,
                    uint32_t missing, struct preemption *plan)
{
    const pool *p = from->p;
    const struct demand *demand = from->demand;
    struct mix mix;
    struct demand rest = *demand, supplied = *asked;
    if (asked->gated) supplied.capacity_mask = asked->supply_mask;
    supply_best(p, &supplied, from->region_index, missing, &mix);
    uint32_t had = demand->single_node ? 0 : mix.device_count;
    if (had >= missing) return false;
    if (rest.budget_left_usd_micros != INT64_MAX && had > 0)
        rest.budget_left_usd_micros =
            budget_left(rest.budget_left_usd_micros, mix.usd_micros_per_hour);
    if (had > 0) take_quota(p, &mix, &rest);
    struct search search = *from;
    search.demand = &rest;
    search.need = missing - had;
    search.bears = missing;
    search.supplied = had;
    if (s != NULL) search.ncu_left = ncu_left(p, s, demand->job, mix.new_ncu_milli);
    bool found = demand->near.spread != TOPOLOGY_ANY
                     ? search_apart(&search, &supplied, (enum supply_order)mix.order, plan)
                 : demand->single_node ? search_node(&search, plan)
                                       : search_gang(&search, plan);
    if (!found) return false;
    if (demand->workers_left < missing && !demand->single_node &&
        demand->workers_left < mix.node_count + nodes_of(p, plan))
        return false; /* more workers than its account may have */
    if (search.reclaims && plan->victim_count > 0 && !quota_suffices(&search, &mix, plan))
        return false;
    uint64_t ncu = demand->single_node ? ncu_at(p, plan->node) * missing
                                       : mix.ncu_milli + ncu_of_victims(p, &search, plan);
    return ncu <= search.ncu_left;
}

/* Within the share of its class, reckoned with the devices that it would get: without the largest models
 * where they would be too much. */
static bool find_within(const pool *p, const struct shape *s, const struct demand *demand,
                        uint32_t region_index, uint32_t missing, struct preemption *plan)
{
    struct demand within = *demand;
    bool lifted = (demand->lifted & OBSTACLE_CLASS) != 0;
    uint64_t left = lifted ? UINT64_MAX : ncu_left(p, s, demand->job, /* more */ 0);
    struct search search = {
        .p = p, .demand = &within, .region_index = region_index, .ncu_left = left};
    within.compat_mask &= p->regions[region_index].model_mask;
    while (within.compat_mask != 0) {
        if (find_in(&search, lifted ? NULL : s, &within, missing, plan)) return true;
        uint32_t model = supply_largest(p, within.compat_mask);
        if ((uint64_t)p->models[model].ncu_milli * missing <= left) return false;
        within.compat_mask &= ~(UINT64_C(1) << model);
    }
    return false;
}

/* Nobody loses anything, so the first place where it works does. */
static bool find_moves(const pool *p, const struct shape *s, const struct demand *demand,
                       uint32_t missing, uint32_t only, struct preemption *ret_plan)
{
    for (uint32_t i = 0; i < p->regions_end; i++) {
        struct demand one;
        if (!is_region(p, s, i) || (only != SLOT_NONE && i != only)) continue;
        if (!data_affords(p, demand, i)) continue;
        struct near_walk walk = near_walk(p, demand, i, missing);
        while (near_next(&walk, &one)) {
            struct search moves = {.p = p,
                                   .demand = &one,
                                   .region_index = i,
                                   .need = missing,
                                   .bears = missing,
                                   .ncu_left = UINT64_MAX};
            if (one.single_node && search_moves(&moves, ret_plan)) return true;
        }
    }
    return false;
}

void preempt_widen(const pool *p, uint32_t missing, struct demand *demand)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        demand->quota_left_milli[kind] = quota_own_left(p, p->jobs[demand->job].account, kind);
    demand->devices_left = missing;
}

/* What others have borrowed of its quota. Devices that come free anyway do for it, not if their quota was
 * not borrowed: without a victim none of it is known to come back. */
static bool find_lent(const pool *p, const struct shape *s, const struct demand *demand,
                      uint32_t region_index, uint32_t missing, struct preemption *plan)
{
    (void)s;
    struct demand own = *demand;
    struct search search = {.p = p,
                            .demand = &own,
                            .region_index = region_index,
                            .ncu_left = UINT64_MAX,
                            .reclaims = true};
    if (!quota_may_reclaim(p, p->jobs[demand->job].account)) return false;
    preempt_widen(p, missing, &own);
    if (!find_in(&search, /* s */ NULL, demand, missing, plan)) return false;
    plan->reclaims = 1;
    return !demand->quota_short || plan->victim_count > 0;
}

typedef bool find_fn(const pool *p, const struct shape *s, const struct demand *demand,
                     uint32_t region_index, uint32_t missing, struct preemption *plan);

static bool find_best(find_fn *find, const pool *p, const struct shape *s,
                      const struct demand *demand, uint32_t missing, uint32_t only,
                      struct preemption *ret_plan)
{
    bool found = false;
    struct preemption plan;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        struct demand one;
        if (!is_region(p, s, i) || (only != SLOT_NONE && i != only)) continue;
        if (!data_affords(p, demand, i)) continue;
        struct near_walk walk = near_walk(p, demand, i, missing);
        while (near_next(&walk, &one)) {
            if (!find(p, s, &one, i, missing, &plan)) continue;
            if (found && plan.cost >= ret_plan->cost) continue;
            *ret_plan = plan;
            found = true;
        }
    }
    return found;
}

/* All of its least on the largest models, and nothing but its share is in the way. */
bool preempt_is_above_share(const pool *p, const struct shape *s, const struct demand *demand,
                            uint32_t held_count, uint32_t home, bool stays,
                            struct class_share *ret_share)
{
    struct demand lifted = *demand;
    struct preemption plan;
    if (p->classes[s->job_class].may_preempt_mask == 0 || held_count >= s->devices_min)
        return false;
    if (demand->ncu_left_milli != 0) return false;
    share_of(p, s, demand->job, /* more */ 0, ret_share);
    uint64_t most = (uint64_t)p->models[supply_largest(p, s->compat_mask)].ncu_milli *
                    (s->devices_min - held_count);
    if (ret_share->held_ncu_milli + most <= ret_share->reserved_ncu_milli) return false;
    lifted.lifted |= OBSTACLE_CLASS;
    return preempt_best(p, s, &lifted, held_count, home, stays, &plan) && plan.reclaims == 0;
}

bool preempt_best(const pool *p, const struct shape *s, const struct demand *demand,
                  uint32_t held_count, uint32_t home, bool stays, struct preemption *ret_plan)
{
    if (held_count >= s->devices_min) return false;
    if (demand->part_milli < 1000) return false;   /* shares wait for shares */
    if (demand->ncu_left_milli != 0) return false; /* plan_ncu.c */
    if (stays && home == SLOT_NONE) return false;
    uint32_t missing = s->devices_min - held_count, only = stays ? home : SLOT_NONE;
    if ((demand->single_node || demand->near.open) && !demand->quota_short &&
        find_moves(p, s, demand, missing, only, ret_plan))
        return true;
    bool by_class = p->classes[s->job_class].may_preempt_mask != 0 && !demand->quota_short;
    if (by_class && find_best(find_within, p, s, demand, missing, only, ret_plan)) return true;
    if (demand->lifted & OBSTACLE_QUOTA)
        return false; /* nothing to get back where it does not count */
    return find_best(find_lent, p, s, demand, missing, only, ret_plan);
}
