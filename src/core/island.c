#include "core/island.h"
#include "core/assert.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/limits.h"
#include "core/part.h"
#include "core/plan_pack.h"

static_assert((int)DEVICE_GROUPS_DEVICES == (int)DEVICES_NAMED_MAX,
              "each named device has its groups");

static const uint32_t levels[] = {TOPOLOGY_NVLINK, TOPOLOGY_PCIE, TOPOLOGY_NUMA};
enum { LEVELS = sizeof levels / sizeof levels[0] };

static const uint8_t *row_of(const struct device_groups *groups, uint32_t level)
{
    if (level == TOPOLOGY_NVLINK) return groups->nvlink;
    return level == TOPOLOGY_PCIE ? groups->pcie : groups->numa;
}

uint32_t island_of(const struct device_groups *groups, uint32_t level, uint32_t device)
{
    return row_of(groups, level)[device / 2] >> (device % 2 * 4) & 0xf;
}

uint32_t island_next(const struct device_groups *groups, uint32_t level, uint32_t *rest)
{
    uint32_t group = island_of(groups, level, (uint32_t)__builtin_ctz(*rest));
    uint32_t found = *rest & -*rest;
    for (uint32_t left = *rest & ~found; left != 0 && group != 0; left &= left - 1)
        if (island_of(groups, level, (uint32_t)__builtin_ctz(left)) == group) found |= left & -left;
    *rest &= ~found;
    return found;
}

static uint32_t largest(const struct device_groups *groups, uint32_t level, uint32_t free)
{
    uint32_t best = 0;
    for (uint32_t rest = free; rest != 0;) {
        uint32_t group = island_next(groups, level, &rest);
        if (island_count(group) > island_count(best)) best = group;
    }
    return best;
}

static uint32_t most_of(const struct device_groups *groups, uint32_t level, uint32_t free)
{
    return island_count(largest(groups, level, free));
}

static uint32_t group_for(const struct device_groups *groups, uint32_t level, uint32_t free,
                          uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t rest = free; rest != 0;) {
        uint32_t group = island_next(groups, level, &rest);
        if (island_count(group) >= count && (best == 0 || island_count(group) < island_count(best)))
            best = group;
    }
    return best;
}

static uint32_t lowest(uint32_t free, uint32_t count)
{
    uint32_t taken = 0;
    for (; count > 0; count--, free &= free - 1) taken |= free & -free;
    return taken;
}

uint32_t island_pick(const struct device_groups *groups, uint32_t free, uint32_t count)
{
    uint32_t taken = 0;
    ASSERT(count <= island_count(free));
    while (count > 0) {
        uint32_t from = free, loose = LEVELS;
        for (uint32_t i = 0; i < LEVELS; i++) {
            uint32_t group = group_for(groups, levels[i], from, count);
            if (group == 0)
                loose = i;
            else
                from = group;
        }
        uint32_t part =
            loose == LEVELS ? lowest(from, count) : largest(groups, levels[loose], from);
        taken |= part;
        free = from & ~part;
        count -= island_count(part);
    }
    return taken;
}

/* ---- nodes and offers ---- */

static uint32_t all_of(const struct node *n)
{
    return (uint32_t)((UINT64_C(1) << n->device_count) - 1);
}

uint32_t island_gives(const struct node *n, uint32_t same, uint32_t free)
{
    if (!island_is_asked(same)) return UINT32_MAX;
    if (n->groups.form != 0) return most_of(&n->groups, same, free);
    return n->agent_joined ? 1 : UINT32_MAX;
}

uint32_t island_offer_gives(const struct offer *o, uint32_t same)
{
    if (!island_is_asked(same) || !o->island_told) return UINT32_MAX;
    return o->island_most[same - TOPOLOGY_NVLINK];
}

uint32_t island_node_gives(const pool *p, const struct node *n, uint32_t same)
{
    if (!island_is_asked(same) || n->devices_free == 0) return UINT32_MAX;
    return n->agent_joined ? island_gives(n, same, part_free_mask(p, n))
                           : island_offer_gives(&p->offers[n->offer], same);
}

static const struct job_terms *terms_of_job(const pool *p, uint32_t job)
{
    return terms_of(p, &p->shapes[p->jobs[job].shape]);
}

/* Devices in the groups that are promised to other jobs, as far as they have come free or will. */
static uint32_t promised_to_others(const pool *p, const struct lease *l)
{
    const struct node *n = &p->nodes[l->node];
    uint32_t promised = 0, held = 0;
    if (n->promised_count == 0) return 0;
    for (uint32_t i = n->leases.head; i != SLOT_NONE; i = p->leases[i].node_link.next)
        if (lease_holds(&p->leases[i])) held |= p->leases[i].device_mask;
    for (uint32_t at = n->promises.head; at != SLOT_NONE; at = p->promises[at].node_link.next) {
        const struct promise *promise = &p->promises[at];
        uint32_t same = terms_of_job(p, promise->job)->affinity;
        if (promise->job == l->job || !island_is_asked(same)) continue;
        promised |=
            group_for(&n->groups, same, all_of(n) & ~held & ~promised, promise->device_count);
    }
    return promised;
}

uint32_t island_take(const pool *p, const struct lease *l, uint32_t free,
                     const struct job_terms *terms)
{
    const struct node *n = &p->nodes[l->node];
    uint32_t left = free & ~promised_to_others(p, l);
    if (island_is_asked(terms->affinity)) {
        uint32_t group = group_for(&n->groups, terms->affinity, left, l->device_count);
        if (group == 0) group = group_for(&n->groups, terms->affinity, free, l->device_count);
        if (group != 0) left = group;
    }
    return island_pick(&n->groups, island_count(left) >= l->device_count ? left : free,
                       l->device_count);
}

/* It has the devices and no worker yet. */
static bool is_unstarted(const struct lease *l)
{
    return l->state == LEASE_RESERVED && l->worker_id == 0 && l->device_index == SLOT_NONE &&
           l->device_milli != 0;
}

static void name_anew(pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (is_unstarted(&p->leases[l])) p->leases[l].device_mask = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        struct lease *lease = &p->leases[l];
        if (!is_unstarted(lease)) continue;
        const struct job_terms *terms = terms_of_job(p, lease->job);
        bool fits = island_gives(n, terms->affinity, part_free_mask(p, n)) >= lease->device_count;
        lease->device_mask = part_free_devices(p, lease, terms);
        if (!fits) lease_stop(p, l, REASON_PLACE_TOO_SMALL, p->now_us);
    }
}

void island_told(pool *p, uint32_t node, const struct device_groups *groups)
{
    struct node *n = &p->nodes[node];
    struct offer *o = &p->offers[n->offer];
    bool known = n->device_count <= DEVICES_NAMED_MAX && groups->form != 0;
    if (n->groups.form != 0) return;
    if (known) n->groups = *groups;
    for (uint32_t i = 0; i < LEVELS; i++)
        o->island_most[i] = (uint8_t)(known ? most_of(groups, levels[i], all_of(n)) : 1);
    o->island_told = 1;
    name_anew(p, node);
    if (n->groups.form != 0) packing_node(p, node);
}

const char *island_problem(const struct device_groups *groups)
{
    if (groups->form > DEVICE_GROUPS_FORM) return "agent: unknown form of its devices' groups";
    if (groups->form == DEVICE_GROUPS_FORM) return NULL;
    for (uint32_t i = 0; i < LEVELS; i++)
        for (uint32_t device = 0; device < DEVICE_GROUPS_DEVICES; device++)
            if (island_of(groups, levels[i], device) != 0)
                return "agent: groups of devices without their form";
    return NULL;
}
