/* Room in the limit of nodes: the pool's own nodes that nobody uses go, if a job needs their places.
 *
 * Why        Owned nodes cost nothing more and are kept while they idle. Each takes a place of nodes_max, so
 *            idle ones could keep a job out for good that they do not fit.
 * Rule       Only if the limit alone keeps the job from its minimum, and only as many as make it possible,
 *            idle the longest first; never one that the job would use, or that is promised. */
#include "core/act.h"
#include "core/lease.h"
#include "core/node.h"
#include "core/plan.h"
#include "core/supply_ncu.h"

enum { KEPT_MAX = 64 };

/* What the job's minimum takes: nodes to be bought, and idle ones. */
struct room_need {
    uint32_t bought, leases, devices, kept_count, kept[KEPT_MAX];
};

static void add_need(const struct pick *pick, struct room_need *need)
{
    need->leases += pick->node_count;
    need->devices += pick->node_count * pick->device_count;
    if (pick->node == SLOT_NONE)
        need->bought += pick->node_count;
    else if (need->kept_count < KEPT_MAX)
        need->kept[need->kept_count++] = pick->node;
}

static void need_of(const pool *p, const struct demand *taking, uint32_t region_index,
                    enum supply_order order, struct room_need *ret_need)
{
    struct supply supply;
    struct pick pick;
    *ret_need = (struct room_need){0};
    supply_begin(&supply, p, taking, region_index, order);
    while (supply_next(&supply, &pick)) add_need(&pick, ret_need);
}

/* The same of NCU, within the places there are and could be. */
static void need_of_ncu(const pool *p, struct demand taking, uint32_t region_index,
                        uint32_t nodes_room, struct room_need *ret_need)
{
    struct ncu_supply n;
    struct pick pick;
    *ret_need = (struct room_need){0};
    taking.lifted &= ~(uint32_t)OBSTACLE_LIMIT;
    taking.nodes_room = nodes_room;
    if (nodes_room == 0 || !ncu_supply_begin(&n, p, &taking, region_index)) return;
    while (ncu_supply_next(&n, &pick)) add_need(&pick, ret_need);
}

static bool may_go(const pool *p, const struct room_need *need, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    if (n->state != NODE_READY || n->leases.count > 0 || n->promised_count > 0) return false;
    if (p->offers[n->offer].capacity != CAPACITY_OWNED) return false; /* it goes by itself */
    for (uint32_t i = 0; i < need->kept_count; i++)
        if (need->kept[i] == node) return false;
    return need->kept_count < KEPT_MAX;
}

static uint32_t longest_idle(const pool *p, const struct room_need *need)
{
    uint32_t best = SLOT_NONE;
    for (uint32_t i = 0; i < p->nodes_end; i++)
        if (may_go(p, need, i) &&
            (best == SLOT_NONE || p->nodes[i].idle_since_us < p->nodes[best].idle_since_us))
            best = i;
    return best;
}

/* Places for nodes that are there or will be, and could be if idle ones went. */
static void count_room(const pool *p, const struct room_need *need, uint32_t *ret_room,
                       uint32_t *ret_idle)
{
    *ret_room = p->config.limits.nodes_max - p->node_count;
    *ret_idle = 0;
    for (uint32_t i = 0; i < p->nodes_end; i++) {
        *ret_idle += may_go(p, need, i);
        *ret_room += p->nodes[i].state == NODE_RELEASING && p->nodes[i].leases.count == 0;
    }
}

static bool fits(const pool *p, const struct room_need *need, uint32_t missing)
{
    uint32_t room, idle;
    if (need->devices < missing || need->leases > lease_room(p)) return false;
    count_room(p, need, &room, &idle);
    return need->kept_count < KEPT_MAX && need->bought <= room + idle;
}

/* As the mix has it; or, if small ones take too many places, only large ones, which may be in another rack
 * than the small ones would. */
static bool find_need(const pool *p, const struct demand *demand, const struct mix *mix,
                      uint32_t missing, struct room_need *ret_need)
{
    struct demand taking = *demand, one;
    uint32_t room, idle;
    *ret_need = (struct room_need){0};
    count_room(p, ret_need, &room, &idle);
    if (demand->ncu_left_milli != 0) {
        need_of_ncu(p, taking, mix->region_index, room + idle, ret_need);
        return fits(p, ret_need, missing);
    }
    taking.node_devices_min = mix->node_devices_min;
    taking.only_offer = mix->only_offer;
    taking.near = mix->near;
    taking.single_node = mix->single_node;
    taking.devices_left = missing;
    need_of(p, &taking, mix->region_index, (enum supply_order)mix->order, ret_need);
    if (fits(p, ret_need, missing)) return true;
    *ret_need = (struct room_need){0};
    count_room(p, ret_need, &room, &idle);
    uint32_t places = room + idle < lease_room(p) ? room + idle : lease_room(p);
    if (places == 0) return false;
    taking = *demand;
    taking.devices_left = missing;
    uint32_t size = (missing + places - 1) / places;
    struct near_walk walk = near_walk(p, &taking, mix->region_index, missing);
    while (near_next(&walk, &one)) {
        if (one.node_devices_min < size) one.node_devices_min = size;
        need_of(p, &one, mix->region_index, SUPPLY_CHEAPEST, ret_need);
        if (fits(p, ret_need, missing)) return true;
    }
    return false;
}

bool plan_make_room(pool *p, uint32_t job, const struct demand *demand, const struct mix *mix,
                    uint32_t missing, struct pool_output *out)
{
    struct room_need need;
    uint32_t room, idle;
    if (!find_need(p, demand, mix, missing, &need)) return false;
    count_room(p, &need, &room, &idle);
    for (uint32_t left = need.bought > room ? need.bought - room : 0; left > 0 && act_has_room(out);
         left--)
        node_release(p, longest_idle(p, &need), REASON_ROOM_WANTED, (int64_t)p->jobs[job].job_id,
                     out);
    return true;
}
