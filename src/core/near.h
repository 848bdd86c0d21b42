/* How near each other the devices of a job are, and how far apart.
 *
 * Same       `affinity` of its terms: all in one zone, one rack or one node; in one region anyway. What
 *            its workers hold decides which (those on their way out do not count); while nothing is
 *            held, every place of the region is tried and the best is taken.
 * Spread     At most one device of the job in each node, rack or zone.
 * Rack       Of an offer, as its provider or the configuration says. Nodes whose rack is not known may stand
 *            anywhere: for `same` each is a rack of its own, for `spread` all of a zone are one.
 * Liked      A gang that asks for neither is put into one node, else into one rack, where that gives it
 *            as much for no more (supply_mix.c): its devices have most to say to each other.
 * Inside     `same: nvlink|pcie|numa` is one node here; which of its devices: island.h.
 */
#ifndef SHOAL_CORE_NEAR_H
#define SHOAL_CORE_NEAR_H

#include "core/state.h"

#define NEAR_ALONE UINT64_MAX /* the place of a node whose rack is not known */

struct near {
    uint64_t place;        /* near_place() of all that may be taken */
    uint32_t same, spread; /* enum topology; TOPOLOGY_ANY: none */
    uint32_t open;         /* 1: the place is not decided yet */
    uint32_t reserved;
};

struct demand;

struct near near_of(const struct job_terms *terms);
static inline bool near_is_set(const struct near *near)
{
    return near->same != TOPOLOGY_ANY || near->spread != TOPOLOGY_ANY;
}
uint64_t near_place(const struct offer *o, uint32_t level); /* of a zone or rack */

/* What the job holds decides the place, or what others leave to it. */
void near_anchor(const pool *p, uint32_t job, struct demand *demand);
/* The offer's nodes are of the place. */
static inline bool near_allows(const struct near *near, const struct offer *o)
{
    return near->open || near->same < TOPOLOGY_ZONE || near->same > TOPOLOGY_RACK ||
           near_place(o, near->same) == near->place;
}
bool near_counts(const pool *p, const struct lease *l); /* it decides what the rest may be */
/* No device that the job holds is where a device of this node would be too near. */
bool near_is_apart(const pool *p, const struct near *near, uint32_t job, uint32_t node);
bool near_are_apart(const pool *p, uint32_t level, uint32_t node, uint32_t other);

/* The demand in each place of a region, one after the other; itself, if the place is decided. */
struct near_walk {
    const pool *p;
    const struct demand *demand;
    uint64_t next;
    uint32_t region_index, devices_min, done, reserved;
};
struct near_walk near_walk(const pool *p, const struct demand *demand, uint32_t region_index,
                           uint32_t devices_min);
bool near_next(struct near_walk *w, struct demand *ret_demand);
/* The next place after `from` (0: the first) in the region, with offers of these models; false: none. */
bool near_next_place(const pool *p, uint32_t region_index, uint64_t models, uint32_t level,
                     uint64_t from, uint64_t *ret_place);

#endif
