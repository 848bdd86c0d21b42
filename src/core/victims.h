/* Nodes with something that could be preempted, by market: a search for victims meets no others.
 *
 * Role       An index that follows from the rest (not in snapshots): a node with leases that hold
 *            devices for a class below P0, or that are on their way out, is in one of its market's two
 *            lists: those with devices that nobody was promised, and those promised altogether
 *            (promise.h). Which of them a demand may use is for preempt_place.c to say.
 * Order      Of a list: none that may decide anything.
 */
#ifndef SHOAL_CORE_VICTIMS_H
#define SHOAL_CORE_VICTIMS_H

#include "core/state.h"

void victims_clear(struct market *market);
/* Holds devices for a class below P0, or is on its way out. */
bool victims_counts(const pool *p, const struct lease *l);
/* The lease begins or ends to count. */
void victims_count(pool *p, uint32_t lease, bool counts);
/* The node was promised to somebody, or is not any more. */
void victims_promised(pool *p, uint32_t node);

struct victim_walk {
    const pool *p;
    uint64_t models;
    uint32_t region_index, node;
    bool skips, promised; /* skips: promised nodes are for others, so they are not walked */
};

/* All nodes with victims that the demand of the job could meet, among those of the models. */
struct victim_walk victims_walk(const pool *p, uint32_t region_index, uint64_t models,
                                uint64_t order, uint32_t job);
bool victims_next(struct victim_walk *w, uint32_t *ret_node);

#endif
