/* Which devices of a node lie together, and which of them a job gets.
 *
 * Facts      Of each device the group it is in at three levels, from tight to loose: NVLink, PCIe switch,
 *            NUMA node, as the node's agent read them; group 0 = not known, and such a device is a group
 *            of its own. Told once in the life of a node (form != 0) and kept: machines do not change.
 * Choice     island_pick(): a group of the tightest level that has enough free devices; of several the
 *            one with the fewest free, so that large ones stay whole; among its devices the next level
 *            decides likewise. Where no group is enough, the largest are taken whole, so that few are
 *            needed.
 * Hard       `same: nvlink|pcie|numa` (near.h): nothing but devices of one group. Of an offer whose nodes
 *            nobody has seen yet it counts as possible, of one that was seen what its last node had.
 */
#ifndef SHOAL_CORE_ISLAND_H
#define SHOAL_CORE_ISLAND_H

#include "core/state.h"

/* It asks for devices of one group inside a node. */
static inline bool island_is_asked(uint32_t same)
{
    return same > TOPOLOGY_NODE;
}
/* How many bits; the compiler's own calls a library. */
static inline uint32_t island_count(uint32_t devices)
{
    uint32_t count = 0;
    for (; devices != 0; devices &= devices - 1) count++;
    return count;
}
/* Of the devices in `free`, a bit each, `count` that lie together best; count <= the bits of free. */
uint32_t island_pick(const struct device_groups *groups, uint32_t free, uint32_t count);
/* `same` is what is asked for, enum topology; UINT32_MAX: no group inside a node, or it is not known yet. */
/* The most whole devices of one group that a job can have of the node, of an empty node of the offer, */
uint32_t island_node_gives(const pool *p, const struct node *n, uint32_t same);
uint32_t island_offer_gives(const struct offer *o, uint32_t same);
/* of the node if these were free. */
uint32_t island_gives(const struct node *n, uint32_t same, uint32_t free);
/* What the lease gets of these: of one group if its terms ask for it; if it can be, not what others were
 * promised who ask for a group. */
uint32_t island_take(const pool *p, const struct lease *l, uint32_t free,
                     const struct job_terms *terms);
/* The devices of `rest` that lie with the first of them; they leave it. */
uint32_t island_next(const struct device_groups *groups, uint32_t level, uint32_t *rest);
/* The agent told where its devices are: who has not started yet gets its devices anew, and who asked for
 * more than there is leaves. */
void island_told(pool *p, uint32_t node, const struct device_groups *groups);
const char *island_problem(const struct device_groups *groups); /* NULL: could be a machine */
uint32_t island_of(const struct device_groups *groups, uint32_t level, uint32_t device);

#endif
