/* Victims, or moves, that free enough devices of one node. */
#include "core/island.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/preempt.h"
#include "core/promise.h"
#include "core/victims.h"

/* ---- victims: least cost, exact ---- */

struct choice { /* the cheapest way to free so many devices of a node */
    uint64_t cost;
    uint64_t picked; /* bit = n-th candidate */
};

static_assert(NODE_LEASES_MAX <= 64, "candidates of a node are bits of choice.picked");

struct bag {
    uint32_t count, free_count;
    struct victim items[NODE_LEASES_MAX];
    uint32_t masks[NODE_LEASES_MAX]; /* the devices that its going frees */
};

static bool fill_bag(const struct search *s, uint32_t node, struct bag *bag)
{
    const struct node *n = &s->p->nodes[node];
    bag->count = 0;
    bag->free_count = search_gives(s, node, NULL);
    uint32_t reach = bag->free_count;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = s->p->leases[l].node_link.next) {
        if (!search_is_victim(s, l)) continue;
        struct victim *v = &bag->items[bag->count++];
        if (!victim_worker(s, l, 0, v)) *v = victim_job(s, s->p->leases[l].job);
        v->device_count = s->p->leases[l].device_count; /* here: it has one lease on a node */
        bag->masks[bag->count - 1] = s->p->leases[l].device_mask;
        reach += v->device_count;
    }
    return reach >= s->need;
}

/* Least cost to free `missing` devices, by dynamic programming over devices: exact. A set of least
 * cost has nobody too many, because everybody costs something. */
static bool choose(const struct bag *bag, uint32_t missing, struct choice *best)
{
    struct choice at[65]; /* most nodes have 8 or 16 devices; beyond 64 in coarser steps */
    uint32_t step = (missing + 63) / 64, end = missing == 0 ? 0 : (missing + step - 1) / step;
    for (uint32_t i = 0; i <= end; i++) at[i] = (struct choice){.cost = i == 0 ? 0 : UINT64_MAX};
    for (uint32_t item = 0; item < bag->count; item++) {
        uint32_t gain = step == 0 ? 0 : bag->items[item].device_count / step;
        for (uint32_t i = end; i > 0; i--) {
            const struct choice *from = &at[i > gain ? i - gain : 0];
            if (from->cost == UINT64_MAX || gain == 0) continue;
            uint64_t cost = add_capped(from->cost, bag->items[item].cost);
            if (cost >= at[i].cost) continue;
            at[i] = (struct choice){.cost = cost, .picked = from->picked | UINT64_C(1) << item};
        }
    }
    *best = at[end];
    return best->cost != UINT64_MAX;
}

/* A host that limits makes devices unequal: all candidates, then the dearest not needed are spared. */
static void choose_by_host(const struct bag *bag, struct choice *choice)
{
    *choice =
        (struct choice){.picked = bag->count < 64 ? (UINT64_C(1) << bag->count) - 1 : UINT64_MAX};
}

static void take(const struct search *s, const struct bag *bag, const struct choice *choice,
                 uint32_t node, struct preemption *plan)
{
    plan_clear(plan, s, node);
    for (uint32_t i = 0; i < bag->count; i++)
        if ((choice->picked >> i & 1) != 0) plan_add(plan, &bag->items[i]);
    if (s->demand->special || s->need > 64) plan_prune(s, plan);
}

/* Devices that nobody keeps: free, or on their way out. */
static uint32_t not_held(const struct search *s, const struct node *n)
{
    uint32_t mask = part_free_mask(s->p, n);
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = s->p->leases[l].node_link.next)
        if (s->p->leases[l].state == LEASE_STOPPING && s->p->leases[l].device_index == SLOT_NONE)
            mask |= s->p->leases[l].device_mask;
    return mask;
}

/* Of all groups of its devices the one that is cheapest to free. */
static bool choose_group(const struct search *s, uint32_t node, const struct bag *bag,
                         struct choice *best)
{
    const struct node *n = &s->p->nodes[node];
    uint32_t level = s->demand->near.same, left = not_held(s, n);
    uint32_t rest = (uint32_t)((UINT64_C(1) << n->device_count) - 1);
    best->cost = UINT64_MAX;
    while (rest != 0) {
        struct bag here = *bag;
        struct choice choice;
        uint32_t group = island_next(&n->groups, level, &rest);
        uint32_t have = island_count(left & group);
        for (uint32_t i = 0; i < bag->count; i++)
            here.items[i].device_count = island_count(bag->masks[i] & group);
        if (!choose(&here, s->need > have ? s->need - have : 0, &choice)) continue;
        if (choice.cost < best->cost) *best = choice;
    }
    return best->cost != UINT64_MAX;
}

static bool try_node(const struct search *s, uint32_t node, struct preemption *plan)
{
    struct bag bag;
    struct choice choice;
    if (!fill_bag(s, node, &bag)) return false;
    uint32_t missing = s->need > bag.free_count ? s->need - bag.free_count : 0;
    if (s->demand->near.same > TOPOLOGY_NODE && s->p->nodes[node].groups.form != 0 &&
        choose_group(s, node, &bag, &choice)) {
        take(s, &bag, &choice, node, plan);
        if (plan_suffices(s, plan)) return plan->victim_count > 0 || search_coming(s, node) > 0;
    }
    if (s->demand->special)
        choose_by_host(&bag, &choice);
    else if (!choose(&bag, missing, &choice))
        return false;
    take(s, &bag, &choice, node, plan);
    if (plan->victim_count == 0 && search_coming(s, node) == 0) return false; /* all is there */
    return plan_suffices(s, plan);
}

bool search_node(const struct search *s, struct preemption *plan)
{
    bool found = false;
    uint32_t node;
    struct preemption here;
    struct victim_walk walk = search_walk(s);
    while (victims_next(&walk, &node)) {
        if (s->p->nodes[node].device_count < s->need || !search_is_place(s, node)) continue;
        if (!try_node(s, node, &here)) continue;
        if (found && (here.cost > plan->cost || (here.cost == plan->cost && node > plan->node)))
            continue;
        *plan = here;
        found = true;
    }
    return found;
}

/* ---- moves ---- */

/* An idle node elsewhere that its job could have taken itself, with room for all of this worker. */
static uint32_t target_of(const struct search *s, uint32_t lease, uint32_t from,
                          const struct preemption *plan)
{
    const pool *p = s->p;
    const struct lease *l = &p->leases[lease];
    const struct shape *shape = &p->shapes[p->jobs[l->job].shape];
    struct demand demand = demand_of(shape, terms_of(p, shape), l->device_count, /* committed */ 0);
    demand.job = l->job;
    demand.order = p->jobs[l->job].order;
    demand.budget_left_usd_micros = INT64_MAX;
    if (near_is_set(&demand.near)) near_anchor(p, l->job, &demand);
    struct search own = {.p = p,
                         .demand = &demand,
                         .region_index = s->region_index,
                         .need = l->device_count,
                         .bears = l->device_count,
                         .ncu_left = UINT64_MAX};
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        const struct node *n = &p->nodes[node];
        if (node == from || !n->idle_listed || !search_is_place(&own, node)) continue;
        if (p->offers[n->offer].usd_micros_per_hour * (int64_t)p->nodes[from].device_count >
            p->offers[p->nodes[from].offer].usd_micros_per_hour * (int64_t)n->device_count)
            continue; /* never to where it is dearer: its budget is its own */
        uint32_t free_count = promise_free(p, &demand, n), leases = n->leases.count;
        if (demand.special) {
            uint32_t gives = search_gives(&own, node, NULL);
            if (gives < free_count) free_count = gives;
        }
        for (uint32_t i = 0; i < plan->victim_count; i++) {
            if (plan->victims[i].target != node) continue;
            uint32_t taken = plan->victims[i].device_count;
            free_count = demand.special || taken > free_count ? 0 : free_count - taken;
            leases++;
        }
        if (free_count >= l->device_count && leases < NODE_LEASES_MAX) return node;
    }
    return SLOT_NONE;
}

static bool can_move(const struct search *s, uint32_t lease)
{
    const struct lease *l = &s->p->leases[lease];
    return l->state == LEASE_ACTIVE && l->device_milli > 0 && l->device_index == SLOT_NONE &&
           victim_can_shrink(s->p, l->job) && s->p->jobs[l->job].preempted_by == 0 &&
           l->job != s->demand->job && s->p->jobs[l->job].job_class >= s->demand->job_class;
}

/* Smallest cost first is not tried: any set of moves loses no work, so the fewest are best. */
static bool empty_node(const struct search *s, uint32_t node, struct preemption *plan)
{
    const struct node *n = &s->p->nodes[node];
    plan_clear(plan, s, node);
    uint32_t had = search_gives(s, node, NULL);
    if (had == 0 || had >= s->need) return false; /* an empty one gains nothing */
    for (uint32_t l = n->leases.head; l != SLOT_NONE && !plan_suffices(s, plan);
         l = s->p->leases[l].node_link.next) {
        if (!can_move(s, l)) continue;
        uint32_t target = target_of(s, l, node, plan);
        if (target == SLOT_NONE) continue;
        plan_add(plan, &(struct victim){.job = s->p->leases[l].job,
                                        .lease = l,
                                        .target = target,
                                        .device_count = s->p->leases[l].device_count,
                                        .loss = victim_move_cost(s->p, l),
                                        .cost = victim_move_cost(s->p, l)});
    }
    if (!plan_suffices(s, plan)) return false;
    plan_prune(s, plan);
    return true;
}

enum { MOVE_NODES_MAX = 16 }; /* nodes tried: those with most free devices that it could use */

bool search_moves(const struct search *s, struct preemption *plan)
{
    const pool *p = s->p;
    uint32_t best[MOVE_NODES_MAX], count = 0;
    uint64_t idle = 0;
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        const struct node *n = &p->nodes[node];
        if (!n->idle_listed || !search_is_place(s, node)) continue;
        idle += n->devices_free;
        if (n->device_count < s->need) continue;
        uint32_t at = count < MOVE_NODES_MAX ? count++ : MOVE_NODES_MAX;
        while (at > 0 && n->devices_free > p->nodes[best[at - 1]].devices_free) {
            if (at < MOVE_NODES_MAX) best[at] = best[at - 1];
            at--;
        }
        if (at < MOVE_NODES_MAX) best[at] = node;
    }
    if (idle < s->need || lease_room(p) < NODE_LEASES_MAX) return false;
    for (uint32_t i = 0; i < count; i++)
        if (empty_node(s, best[i], plan)) return true;
    return false;
}
