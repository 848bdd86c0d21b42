/* Victims for a job that is spread: one device of each node, rack or zone where it has none yet.
 *
 * Choice     The cheapest victim first, each in a place of its own; then whoever is not needed is spared,
 *            dearest first. A job that goes as a whole may leave devices in several places. */
#include "core/job.h"
#include "core/lease.h"
#include "core/preempt.h"
#include "core/supply.h"
#include "core/victims.h"

enum { APART_MAX = 64 }; /* places in all: a job that needs more waits */

/* Nodes, or racks or zones (supply_apart_place()). */
struct places {
    uint32_t count;
    uint64_t items[APART_MAX];
};

static uint64_t place_of(const struct search *s, uint32_t node)
{
    uint32_t level = s->demand->near.spread;
    if (level >= TOPOLOGY_NODE) return node;
    return supply_apart_place(&s->p->offers[s->p->nodes[node].offer], level);
}

static bool add(struct places *taken, uint64_t place)
{
    for (uint32_t i = 0; i < taken->count; i++)
        if (taken->items[i] == place) return false;
    if (taken->count == APART_MAX) return false;
    taken->items[taken->count++] = place;
    return true;
}

static bool add_place(const struct search *s, struct places *taken, uint32_t node)
{
    return add(taken, place_of(s, node));
}

static bool is_new(const struct search *s, const struct places *taken, uint32_t node)
{
    for (uint32_t i = 0; i < taken->count; i++)
        if (taken->items[i] == place_of(s, node)) return false;
    return taken->count < APART_MAX;
}

/* Where it has a device without victims. A node that it buys is near no other. */
static void places_had(const struct search *s, const struct demand *all, enum supply_order order,
                       struct places *taken)
{
    struct supply supply;
    struct pick pick;
    uint32_t level = s->demand->near.spread;
    supply_begin(&supply, s->p, all, s->region_index, order);
    taken->count = 0;
    while (supply_next(&supply, &pick)) {
        if (pick.node != SLOT_NONE)
            (void)add_place(s, taken, pick.node);
        else if (level < TOPOLOGY_NODE)
            (void)add(taken, supply_apart_place(&s->p->offers[pick.offer], level));
    }
}

/* Places that the victim would leave a device in, taken or not; at most one for a single worker. */
static uint32_t count_places(const struct search *s, const struct victim *v, struct places *taken)
{
    uint32_t count = 0;
    if (v->lease != SLOT_NONE) return add_place(s, taken, s->p->leases[v->lease].node);
    for (uint32_t l = s->p->jobs[v->job].leases.head; l != SLOT_NONE;
         l = s->p->leases[l].job_link.next)
        if (lease_holds(&s->p->leases[l]) && search_is_place(s, s->p->leases[l].node))
            count += add_place(s, taken, s->p->leases[l].node);
    return count;
}

/* Devices of its job that the plan has taken already, as single workers. */
static uint32_t taken_of(const struct search *s, const struct preemption *plan, uint32_t job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++)
        if (plan->victims[i].job == job && plan->victims[i].lease != SLOT_NONE)
            count += s->p->leases[plan->victims[i].lease].device_count;
    return count;
}

static bool is_cheaper(const struct victim *a, const struct victim *b)
{
    if (a->cost != b->cost) return a->cost < b->cost;
    return a->job != b->job ? a->job < b->job : a->lease < b->lease;
}

/* The cheapest that leaves a device where there is none yet. */
static bool find_next(const struct search *s, const struct places *taken,
                      const struct preemption *plan, struct victim *ret_victim)
{
    struct victim_walk walk = search_walk(s);
    uint32_t node;
    bool found = false;
    while (victims_next(&walk, &node)) {
        if (!search_is_place(s, node) || !is_new(s, taken, node)) continue;
        for (uint32_t l = s->p->nodes[node].leases.head; l != SLOT_NONE;
             l = s->p->leases[l].node_link.next) {
            struct victim v;
            if (!search_is_victim(s, l)) continue;
            uint32_t gone = taken_of(s, plan, s->p->leases[l].job);
            if (!victim_worker(s, l, gone, &v)) {
                if (gone > 0) continue; /* some of it are to go alone: the rest works on */
                v = victim_job(s, s->p->leases[l].job);
            }
            if (found && !is_cheaper(&v, ret_victim)) continue;
            *ret_victim = v;
            found = true;
        }
    }
    return found;
}

static uint32_t places_of(const struct search *s, const struct preemption *plan,
                          struct places taken)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++)
        count += count_places(s, &plan->victims[i], &taken);
    return count;
}

/* Whoever is not needed, the last ones first: they are the dearest. */
static void spare(const struct search *s, const struct places *had, uint32_t need,
                  struct preemption *plan)
{
    for (uint32_t at = plan->victim_count; at-- > 0;) {
        struct victim kept = plan->victims[at];
        plan_leave_out(plan, at);
        if (places_of(s, plan, *had) >= need) continue;
        plan_add(plan, &kept); /* at the end: those before are still to be looked at */
    }
}

/* What comes free by itself. */
static uint32_t wait_for(const struct search *s, struct places *taken)
{
    struct victim_walk walk = search_walk(s);
    uint32_t node, count = 0;
    while (victims_next(&walk, &node) && count < s->need)
        if (search_is_place(s, node) && search_coming(s, node) > 0)
            count += add_place(s, taken, node);
    return count;
}

bool search_apart(const struct search *s, const struct demand *all, enum supply_order order,
                  struct preemption *plan)
{
    struct places had, taken;
    struct victim victim;
    plan_clear(plan, s, SLOT_NONE);
    places_had(s, all, order, &had);
    uint32_t coming = wait_for(s, &had), found = 0, need = s->need - coming;
    taken = had;
    while (found < need) {
        if (plan->victim_count == VICTIMS_MAX || !find_next(s, &taken, plan, &victim)) return false;
        uint32_t more = count_places(s, &victim, &taken);
        if (more == 0) return false;
        found += more;
        plan_add(plan, &victim);
    }
    spare(s, &had, need, plan);
    return coming > 0 || plan->victim_count > 0;
}
