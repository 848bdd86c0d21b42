#include "core/plan_preempt.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/promise.h"
#include "core/victims.h"
#include <string.h>

struct search {
    const pool *p;
    const struct demand *demand;
    uint32_t region_index, need;
};

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- what a victim costs ---- */

static uint64_t ncu_of(const pool *p, const struct lease *l)
{
    return (uint64_t)p->models[p->offers[p->nodes[l->node].offer].model].ncu_milli *
           l->device_count;
}

static uint64_t lost_s(const pool *p, const struct lease *l)
{
    const struct job *j = &p->jobs[l->job];
    int64_t since_us = j->ckpt_us > l->since_us ? j->ckpt_us : l->since_us;
    if (l->state != LEASE_ACTIVE || p->now_us <= since_us) return 0;
    uint64_t seconds = (uint64_t)(p->now_us - since_us) / 1000000;
    return seconds < LOST_S_MAX ? seconds : LOST_S_MAX;
}

static uint64_t cost_of_end(const pool *p, uint32_t job)
{
    uint64_t cost = 0;
    for (uint32_t at = p->jobs[job].leases.head; at != SLOT_NONE;
         at = p->leases[at].job_link.next) {
        const struct lease *l = &p->leases[at];
        if (lease_holds(l)) cost = add_capped(cost, ncu_of(p, l) * (lost_s(p, l) + RESTART_S));
    }
    return cost;
}

static uint32_t held_by(const pool *p, uint32_t job)
{
    uint32_t count = 0;
    for (uint32_t at = p->jobs[job].leases.head; at != SLOT_NONE; at = p->leases[at].job_link.next)
        if (lease_holds(&p->leases[at]) && node_is_usable(&p->nodes[p->leases[at].node]))
            count += p->leases[at].device_count;
    return count;
}

static bool can_shrink(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    return j->state == JOB_RUNNING && p->shapes[j->shape].kind == JOB_KIND_ELASTIC;
}

/* ---- where the demand could work ---- */

static bool is_place(const struct search *s, uint32_t node)
{
    const pool *p = s->p;
    const struct node *n = &p->nodes[node];
    if (n->state != NODE_READY || n->offer == SLOT_NONE || n->devices_shared > 0) return false;
    const struct offer *o = &p->offers[n->offer];
    const struct demand *d = s->demand;
    if (o->region_index != s->region_index || (d->compat_mask >> o->model & 1) == 0) return false;
    if (d->capacity_mask != 0 && (d->capacity_mask >> o->capacity & 1) == 0) return false;
    if (offer_is_above(o, d->threshold_ppm) || promise_blocks(p, d, n)) return false;
    if (d->budget_left_usd_micros != INT64_MAX &&
        money_share_ceil(o->usd_micros_per_hour, 1, n->device_count) * (int64_t)s->need >
            d->budget_left_usd_micros)
        return false;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->leases[l].job == d->job) return false; /* no second lease on a node */
    return true;
}

static bool is_victim(const struct search *s, uint32_t lease)
{
    const struct lease *l = &s->p->leases[lease];
    const struct job *j = &s->p->jobs[l->job];
    return lease_holds(l) && l->device_milli > 0 && job_is_bound(j) && j->preempted_by == 0 &&
           l->job != s->demand->job && class_may_preempt(s->p, s->demand->job_class, j->job_class);
}

/* Of all that it holds: what the demand could take. */
static uint32_t gain_of_end(const struct search *s, uint32_t job)
{
    uint32_t gain = 0;
    for (uint32_t l = s->p->jobs[job].leases.head; l != SLOT_NONE;
         l = s->p->leases[l].job_link.next)
        if (lease_holds(&s->p->leases[l]) && is_place(s, s->p->leases[l].node))
            gain += s->p->leases[l].device_count;
    return gain;
}

static struct victim_walk walk_of(const struct search *s)
{
    return victims_walk(s->p, s->region_index, s->demand->compat_mask, s->demand->order,
                        s->demand->job);
}

bool preempt_is_place(const pool *p, const struct demand *demand, uint32_t region_index,
                      uint32_t need, uint32_t node)
{
    struct search s = {.p = p, .demand = demand, .region_index = region_index, .need = need};
    return is_place(&s, node);
}

/* ---- nobody too many ---- */

static void leave_out(struct preemption *plan, uint32_t at)
{
    plan->gain -= plan->victims[at].device_count;
    plan->cost -= plan->victims[at].cost;
    memmove(&plan->victims[at], &plan->victims[at + 1],
            (plan->victim_count - at - 1) * sizeof plan->victims[0]);
    plan->victim_count--;
}

static void prune(struct preemption *plan)
{
    for (;;) {
        uint32_t worst = SLOT_NONE;
        for (uint32_t i = 0; i < plan->victim_count; i++)
            if (plan->gain - plan->victims[i].device_count >= plan->need &&
                (worst == SLOT_NONE || plan->victims[i].cost > plan->victims[worst].cost))
                worst = i;
        if (worst == SLOT_NONE) return;
        leave_out(plan, worst);
    }
}

/* ---- one node ---- */

struct choice { /* the cheapest way to free so many devices of a node */
    uint64_t cost;
    uint64_t picked; /* bit = n-th candidate */
};

static_assert(NODE_LEASES_MAX <= 64, "candidates of a node are bits of choice.picked");

struct bag {
    uint32_t count, free_count;
    struct victim items[NODE_LEASES_MAX];
};

static struct victim victim_on_node(const struct search *s, uint32_t lease)
{
    const pool *p = s->p;
    const struct lease *l = &p->leases[lease];
    struct victim v = {
        .job = l->job, .lease = SLOT_NONE, .target = SLOT_NONE, .device_count = l->device_count};
    if (can_shrink(p, l->job) &&
        held_by(p, l->job) >= l->device_count + p->jobs[l->job].devices_min) {
        v.lease = lease;
        v.cost = ncu_of(p, l) * HANDOVER_S;
    } else
        v.cost = cost_of_end(p, l->job);
    return v;
}

static bool fill_bag(const struct search *s, uint32_t node, struct bag *bag)
{
    const struct node *n = &s->p->nodes[node];
    bag->count = 0;
    bag->free_count = promise_free(s->p, s->demand, n);
    uint32_t reach = bag->free_count;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = s->p->leases[l].node_link.next) {
        if (!is_victim(s, l)) continue;
        bag->items[bag->count++] = victim_on_node(s, l);
        reach += s->p->leases[l].device_count;
    }
    return bag->count > 0 && reach >= s->need && bag->free_count < s->need;
}

/* Least cost to free `missing` devices, by dynamic programming over devices: exact. A set of least
 * cost has nobody too many, because everybody costs something. */
static bool choose(const struct bag *bag, uint32_t missing, struct choice *best)
{
    struct choice at[65]; /* most nodes have 8 or 16 devices; beyond 64 in coarser steps */
    uint32_t step = (missing + 63) / 64, end = (missing + step - 1) / step;
    for (uint32_t i = 0; i <= end; i++) at[i] = (struct choice){.cost = i == 0 ? 0 : UINT64_MAX};
    for (uint32_t item = 0; item < bag->count; item++) {
        uint32_t gain = bag->items[item].device_count / step;
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

static void take_choice(const struct bag *bag, const struct choice *choice, uint32_t node,
                        struct preemption *plan)
{
    plan->node = node;
    plan->cost = choice->cost;
    plan->victim_count = 0;
    plan->gain = bag->free_count;
    for (uint32_t i = 0; i < bag->count; i++) {
        if ((choice->picked >> i & 1) == 0) continue;
        plan->victims[plan->victim_count++] = bag->items[i];
        plan->gain += bag->items[i].device_count;
    }
}

static bool find_node(const struct search *s, struct preemption *plan)
{
    bool found = false;
    struct bag bag, best_bag;
    struct choice choice, best = {.cost = UINT64_MAX};
    uint32_t node;
    struct victim_walk walk = walk_of(s);
    while (victims_next(&walk, &node)) {
        if (s->p->nodes[node].device_count < s->need || !is_place(s, node)) continue;
        if (!fill_bag(s, node, &bag) || !choose(&bag, s->need - bag.free_count, &choice)) continue;
        if (found && (choice.cost > best.cost || (choice.cost == best.cost && node > plan->node)))
            continue;
        best_bag = bag;
        best = choice;
        plan->node = node;
        found = true;
    }
    if (!found) return false;
    take_choice(&best_bag, &best, plan->node, plan);
    prune(plan); /* only where devices were counted in coarser steps */
    return true;
}

/* ---- a gang ---- */

struct unit {
    uint64_t price; /* per device */
    struct victim victim;
};

struct units { /* a heap with the dearest per device on top, so that it can make room */
    uint32_t count, most;
    bool cut;          /* there are dearer ones */
    struct unit alone; /* the cheapest that would do by itself; its device_count 0: none would */
    struct unit items[UNITS_MAX];
};

/* Dearer per device; of equals the higher class, then the later slot: a total order. */
static bool is_dearer(const pool *p, const struct unit *a, const struct unit *b)
{
    const struct victim *mine = &a->victim, *other = &b->victim;
    if (a->price != b->price) return a->price > b->price;
    uint32_t my_class = p->jobs[mine->job].job_class, other_class = p->jobs[other->job].job_class;
    if (my_class != other_class) return my_class < other_class;
    return mine->job != other->job ? mine->job > other->job : mine->lease > other->lease;
}

static void swap(struct unit *a, struct unit *b)
{
    struct unit kept = *a;
    *a = *b;
    *b = kept;
}

static void sink(const pool *p, struct unit *items, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t top = at, left = 2 * at + 1, right = 2 * at + 2;
        if (left < count && is_dearer(p, &items[left], &items[top])) top = left;
        if (right < count && is_dearer(p, &items[right], &items[top])) top = right;
        if (top == at) return;
        swap(&items[at], &items[top]);
        at = top;
    }
}

static void note_alone(const struct search *s, struct units *units, const struct unit *unit)
{
    const struct victim *best = &units->alone.victim;
    if (unit->victim.device_count < s->need) return;
    if (best->device_count > 0 &&
        (unit->victim.cost > best->cost ||
         (unit->victim.cost == best->cost && is_dearer(s->p, unit, &units->alone))))
        return;
    units->alone = *unit;
}

static void add_unit(const struct search *s, struct units *units, struct victim victim)
{
    if (victim.device_count == 0) return;
    struct unit unit = {.price = victim.cost / victim.device_count, .victim = victim};
    note_alone(s, units, &unit);
    if (units->count == units->most) {
        units->cut = true;
        if (!is_dearer(s->p, &units->items[0], &unit)) return;
        units->items[0] = unit;
        sink(s->p, units->items, units->count, 0);
        return;
    }
    uint32_t at = units->count++;
    units->items[at] = unit;
    while (at > 0 && is_dearer(s->p, &units->items[at], &units->items[(at - 1) / 2])) {
        swap(&units->items[at], &units->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

/* The first of its leases at a place for the demand: a job is offered as a whole there, once. */
static bool is_first(const struct search *s, uint32_t lease)
{
    if (s->p->jobs[s->p->leases[lease].job].leases.count == 1) return true;
    for (uint32_t l = s->p->jobs[s->p->leases[lease].job].leases.head; l != SLOT_NONE;
         l = s->p->leases[l].job_link.next)
        if (lease_holds(&s->p->leases[l]) && is_place(s, s->p->leases[l].node)) return l == lease;
    return false;
}

/* A lease at a place: its worker alone, and its job as a whole. */
static void add_lease(const struct search *s, struct units *units, uint32_t lease)
{
    const pool *p = s->p;
    const struct lease *l = &p->leases[lease];
    struct victim unit = {.job = l->job,
                          .lease = lease,
                          .target = SLOT_NONE,
                          .device_count = l->device_count,
                          .cost = ncu_of(p, l) * HANDOVER_S};
    if (can_shrink(p, l->job) &&
        held_by(p, l->job) >= l->device_count + p->jobs[l->job].devices_min)
        add_unit(s, units, unit);
    if (!is_first(s, lease)) return;
    if (p->jobs[l->job].leases.count > 1) unit.device_count = gain_of_end(s, l->job);
    unit.lease = SLOT_NONE;
    unit.cost = cost_of_end(p, l->job);
    add_unit(s, units, unit);
}

static void collect(const struct search *s, struct units *units, uint32_t most)
{
    const pool *p = s->p;
    uint32_t node;
    units->count = 0;
    units->most = most;
    units->cut = false;
    units->alone.victim.device_count = 0;
    struct victim_walk walk = walk_of(s);
    while (victims_next(&walk, &node)) {
        if (!is_place(s, node)) continue;
        for (uint32_t l = p->nodes[node].leases.head; l != SLOT_NONE;
             l = p->leases[l].node_link.next)
            if (is_victim(s, l)) add_lease(s, units, l);
    }
    for (uint32_t end = units->count; end > 1; end--) { /* heap sort: cheapest first */
        swap(&units->items[0], &units->items[end - 1]);
        sink(p, units->items, end - 1, 0);
    }
}

/* A job that is ended as a whole loses its single workers with it. */
static bool make_room_for(const struct search *s, struct preemption *plan,
                          const struct victim *unit)
{
    uint32_t shrunk = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        if (plan->victims[i].job != unit->job) continue;
        if (plan->victims[i].lease == SLOT_NONE) return false;
        shrunk += plan->victims[i].device_count;
    }
    if (unit->lease != SLOT_NONE)
        return held_by(s->p, unit->job) - shrunk >=
               unit->device_count + s->p->jobs[unit->job].devices_min;
    for (uint32_t i = plan->victim_count; i-- > 0;)
        if (plan->victims[i].job == unit->job) leave_out(plan, i);
    return plan->victim_count < VICTIMS_MAX;
}

static void add_victim(struct preemption *plan, const struct victim *unit)
{
    plan->victims[plan->victim_count++] = *unit;
    plan->gain += unit->device_count;
    plan->cost = add_capped(plan->cost, unit->cost);
}

static bool add_cheapest(const struct search *s, const struct units *units, struct preemption *plan)
{
    plan->gain = plan->victim_count = 0;
    plan->cost = 0;
    for (uint32_t i = 0; i < units->count && plan->gain < s->need; i++) {
        const struct victim *unit = &units->items[i].victim;
        if (plan->victim_count == VICTIMS_MAX) return false;
        if (make_room_for(s, plan, unit)) add_victim(plan, unit);
    }
    return plan->gain >= s->need;
}

/* Few devices need few units: the longer list is only made when the short one did not do. */
static bool find_gang(const struct search *s, struct preemption *plan)
{
    struct units units;
    collect(s, &units, s->need <= UNITS_FEW / 2 ? UNITS_FEW : UNITS_MAX);
    bool found = add_cheapest(s, &units, plan);
    if (!found && units.cut && units.most < UNITS_MAX) {
        collect(s, &units, UNITS_MAX);
        found = add_cheapest(s, &units, plan);
    }
    if (found) prune(plan);
    const struct victim *alone = &units.alone.victim;
    if (alone->device_count == 0 || (found && plan->cost <= alone->cost)) return found;
    plan->victim_count = plan->gain = 0;
    plan->cost = 0;
    add_victim(plan, alone);
    return true;
}

/* What would be done for this demand in this region. `need` devices beyond what supply gives. False:
 * nothing would do. */
static bool preempt_find(const pool *p, const struct demand *demand, uint32_t region_index,
                         uint32_t need, struct preemption *ret_plan)
{
    struct search s = {.p = p, .demand = demand, .region_index = region_index, .need = need};
    ASSERT(need > 0);
    ret_plan->region_index = region_index;
    ret_plan->node = SLOT_NONE;
    ret_plan->need = need;
    ret_plan->gain = ret_plan->victim_count = 0;
    ret_plan->cost = 0;
    uint64_t models = demand->compat_mask & p->regions[region_index].model_mask;
    if (class_preemptible_devices(p, demand->job_class, models) == 0) return false;
    return demand->single_node ? find_node(&s, ret_plan) : find_gang(&s, ret_plan);
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
    struct search own = {
        .p = p, .demand = &demand, .region_index = s->region_index, .need = l->device_count};
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        const struct node *n = &p->nodes[node];
        if (node == from || !n->idle_listed || !is_place(&own, node)) continue;
        if (p->offers[n->offer].usd_micros_per_hour * (int64_t)p->nodes[from].device_count >
            p->offers[p->nodes[from].offer].usd_micros_per_hour * (int64_t)n->device_count)
            continue; /* never to where it is dearer: its budget is its own */
        uint32_t free_count = promise_free(p, &demand, n), leases = n->leases.count;
        for (uint32_t i = 0; i < plan->victim_count; i++) {
            if (plan->victims[i].target != node) continue;
            free_count -= plan->victims[i].device_count;
            leases++;
        }
        if (free_count >= l->device_count && leases < NODE_LEASES_MAX) return node;
    }
    return SLOT_NONE;
}

static bool can_move(const struct search *s, uint32_t lease)
{
    const struct lease *l = &s->p->leases[lease];
    return l->state == LEASE_ACTIVE && l->device_milli > 0 && can_shrink(s->p, l->job) &&
           s->p->jobs[l->job].preempted_by == 0 && l->job != s->demand->job &&
           s->p->jobs[l->job].job_class >= s->demand->job_class;
}

/* Smallest cost first is not tried: any set of moves loses no work, so the fewest are best. */
static bool empty_node(const struct search *s, uint32_t node, struct preemption *plan)
{
    const struct node *n = &s->p->nodes[node];
    plan->victim_count = 0;
    plan->cost = 0;
    plan->gain = promise_free(s->p, s->demand, n);
    if (plan->gain == 0 || plan->gain >= s->need) return false; /* an empty one gains nothing */
    for (uint32_t l = n->leases.head; l != SLOT_NONE && plan->gain < s->need;
         l = s->p->leases[l].node_link.next) {
        if (!can_move(s, l)) continue;
        uint32_t target = target_of(s, l, node, plan);
        if (target == SLOT_NONE) continue;
        add_victim(plan, &(struct victim){.job = s->p->leases[l].job,
                                          .lease = l,
                                          .target = target,
                                          .device_count = s->p->leases[l].device_count,
                                          .cost = ncu_of(s->p, &s->p->leases[l]) * HANDOVER_S});
    }
    if (plan->gain < s->need) return false;
    prune(plan);
    return true;
}

enum { MOVE_NODES_MAX = 16 }; /* nodes tried: those with most free devices that it could use */

static bool preempt_consolidate(const pool *p, const struct demand *demand, uint32_t region_index,
                                uint32_t need, struct preemption *ret_plan)
{
    struct search s = {.p = p, .demand = demand, .region_index = region_index, .need = need};
    uint32_t best[MOVE_NODES_MAX], count = 0;
    uint64_t idle = 0;
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        const struct node *n = &p->nodes[node];
        if (!n->idle_listed || !is_place(&s, node)) continue;
        idle += n->devices_free;
        if (n->device_count < need) continue;
        uint32_t at = count < MOVE_NODES_MAX ? count++ : MOVE_NODES_MAX;
        while (at > 0 && n->devices_free > p->nodes[best[at - 1]].devices_free) {
            if (at < MOVE_NODES_MAX) best[at] = best[at - 1];
            at--;
        }
        if (at < MOVE_NODES_MAX) best[at] = node;
    }
    if (idle < need || lease_room(p) < NODE_LEASES_MAX) return false;
    for (uint32_t i = 0; i < count; i++) {
        ret_plan->region_index = region_index;
        ret_plan->node = best[i];
        ret_plan->need = need;
        if (empty_node(&s, best[i], ret_plan)) return true;
    }
    return false;
}

/* ---- the whole of it ---- */

/* Its class may hold that much NCU more by right, not only by luck. */
static bool preempt_has_share(const pool *p, const struct shape *s, uint64_t more_ncu_milli)
{
    struct class_share share;
    class_share_of(p, s, &share);
    return share.held_ncu_milli + more_ncu_milli <= share.reserved_ncu_milli;
}

static bool is_region(const pool *p, const struct shape *s, uint32_t index)
{
    return (s->region == 0 || s->region == p->regions[index].region) &&
           (s->compat_mask & p->regions[index].model_mask) != 0;
}

static uint64_t least_ncu(const pool *p, const struct shape *s, uint32_t device_count)
{
    uint64_t least = UINT64_MAX;
    for (uint64_t rest = s->compat_mask; rest != 0; rest &= rest - 1) {
        uint64_t ncu = p->models[__builtin_ctzll(rest)].ncu_milli;
        if (ncu < least) least = ncu;
    }
    return least == UINT64_MAX ? 0 : least * device_count;
}

bool preempt_best(const pool *p, const struct shape *s, const struct demand *demand,
                  uint32_t held_count, uint32_t home, bool stays, struct preemption *ret_plan)
{
    if (held_count >= s->devices_min) return false;
    if (demand->part_milli < 1000) return false; /* shares wait for shares */
    uint32_t missing = s->devices_min - held_count;
    for (uint32_t i = 0; i < p->regions_end && demand->single_node; i++) {
        if (!is_region(p, s, i) || (stays && i != home)) continue;
        if (preempt_consolidate(p, demand, i, missing, ret_plan)) return true;
    }
    if (!preempt_has_share(p, s, least_ncu(p, s, missing))) return false;
    bool found = false;
    struct preemption plan;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (!is_region(p, s, i) || (stays && i != home)) continue;
        struct mix mix;
        struct demand rest = *demand;
        supply_best(p, demand, i, missing, &mix);
        uint32_t had = demand->single_node ? 0 : mix.device_count;
        if (had >= missing) continue;
        if (rest.budget_left_usd_micros != INT64_MAX && had > 0)
            rest.budget_left_usd_micros =
                budget_left(rest.budget_left_usd_micros, mix.usd_micros_per_hour);
        if (!preempt_find(p, &rest, i, missing - had, &plan)) continue;
        if (found && plan.cost >= ret_plan->cost) continue;
        *ret_plan = plan;
        found = true;
    }
    return found;
}
