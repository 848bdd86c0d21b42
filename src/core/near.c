#include "core/near.h"
#include "core/lease.h"
#include "core/plan_buy.h"

struct near near_of(const struct job_terms *terms)
{
    struct near near = {.same = terms->affinity, .spread = terms->spread};
    near.open = near.same == TOPOLOGY_ZONE || near.same == TOPOLOGY_RACK;
    return near;
}

uint64_t near_place(const struct offer *o, uint32_t level)
{
    if (level == TOPOLOGY_ZONE) return (uint64_t)o->zone + 1;
    return o->rack == 0 ? NEAR_ALONE : ((uint64_t)o->zone + 1) << 32 | o->rack;
}

bool near_counts(const pool *p, const struct lease *l)
{
    return lease_holds(l) && node_is_usable(&p->nodes[l->node]);
}

static void stay_alone(struct demand *demand, uint32_t devices_min)
{
    demand->single_node = 1;
    if (demand->node_devices_min < devices_min) demand->node_devices_min = devices_min;
}

static void decide(const pool *p, uint32_t node, struct demand *demand)
{
    demand->near.open = 0;
    demand->near.place = near_place(&p->offers[p->nodes[node].offer], demand->near.same);
    if (demand->near.place == NEAR_ALONE) stay_alone(demand, 1);
}

void near_anchor(const pool *p, uint32_t job, struct demand *demand)
{
    const struct job *j = &p->jobs[job];
    if (!demand->near.open) return;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (!near_counts(p, &p->leases[l])) continue;
        decide(p, p->leases[l].node, demand);
        return;
    }
    /* Its victims leave there. What is reserved for one that waits only says where it is soonest. */
    if (job_is_bound(j) && j->promises.head != SLOT_NONE)
        decide(p, p->promises[j->promises.head].node, demand);
}

bool near_are_apart(const pool *p, uint32_t level, uint32_t node, uint32_t other)
{
    const struct offer *a = &p->offers[p->nodes[node].offer];
    const struct offer *b = &p->offers[p->nodes[other].offer];
    if (level > TOPOLOGY_RACK) return node != other;
    return a->zone != b->zone || near_place(a, level) != near_place(b, level);
}

bool near_is_apart(const pool *p, const struct near *near, uint32_t job, uint32_t node)
{
    if (near->spread == TOPOLOGY_ANY || job == SLOT_NONE) return true;
    for (uint32_t l = p->jobs[job].leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (near_counts(p, &p->leases[l]) &&
            !near_are_apart(p, near->spread, node, p->leases[l].node))
            return false;
    return true;
}

bool near_next_place(const pool *p, uint32_t region_index, uint64_t models, uint32_t level,
                     uint64_t from, uint64_t *ret_place)
{
    uint64_t best = NEAR_ALONE;
    for (models &= p->regions[region_index].model_mask; models != 0; models &= models - 1) {
        const struct market *market = market_of(p, region_index, (uint32_t)__builtin_ctzll(models));
        for (uint32_t i = 0; i < market->count; i++) {
            uint64_t place = near_place(&p->offers[p->prices[market->first + i].offer], level);
            if (place > from && place < best) best = place;
        }
    }
    *ret_place = best;
    return best != NEAR_ALONE;
}

struct near_walk near_walk(const pool *p, const struct demand *demand, uint32_t region_index,
                           uint32_t devices_min)
{
    return (struct near_walk){
        .p = p, .demand = demand, .region_index = region_index, .devices_min = devices_min};
}

bool near_next(struct near_walk *w, struct demand *ret_demand)
{
    if (w->done) return false;
    *ret_demand = *w->demand;
    struct near *near = &ret_demand->near;
    if (!near->open) {
        w->done = 1;
        return true;
    }
    near->open = 0;
    if (near_next_place(w->p, w->region_index, ret_demand->compat_mask, near->same, w->next,
                        &near->place)) {
        w->next = near->place;
        return true;
    }
    w->done = 1; /* nodes whose rack is not known: one of them */
    if (near->same == TOPOLOGY_RACK) stay_alone(ret_demand, w->devices_min);
    return near->same == TOPOLOGY_RACK;
}
