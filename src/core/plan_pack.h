/* Packing in the pool: which of its own nodes takes a worker, by what keeps most of the rest useful.
 *
 * Role       Nodes of owned capacity that are up are nodes of the packing (pack.h); what is free on them
 *            follows from their leases. Every job that is admitted arrives there, and leaves when it
 *            ends, so what is usual is learnt from the pool's own jobs. The supply of a demand
 *            (plan_buy.h) asks here first; nodes that are paid by the hour come after, cheapest first.
 * Types      A type of packing is a model in a region (a market); the first PACK_MODELS_MAX markets with
 *            owned offers are packed, nodes of more than PACK_DEVICES_MAX devices never: those are taken
 *            in the order of their offers.
 * Asks       A share is one form. Whole devices are asked for as the most that one node could give, then
 *            one less, and so on: a gang spreads over the fewest nodes.
 * State      What is learnt is part of the state (pack_walk()). Nodes, types and what is remembered of
 *            scores follow from the rest: packing_rebuild() after a snapshot was read.
 */
#ifndef SHOAL_CORE_PLAN_PACK_H
#define SHOAL_CORE_PLAN_PACK_H

#include "core/pack.h"
#include "core/state.h"

#define PACKING_WINDOW_US INT64_C(86400000000) /* planned ahead: a day */

struct pack_limits packing_limits(const struct pool_limits *limits, uint32_t markets);
void packing_offer(pool *p, uint32_t offer); /* a new one: gives it a type, if it is packed */
static inline bool
packing_holds(const struct offer *o) /* its nodes are packed, while they are up */
{
    return o->pack_type != SLOT_NONE;
}
void packing_node(pool *p, uint32_t node); /* after its state or its leases changed */
void packing_arrived(pool *p, uint32_t job);
void packing_left(pool *p, uint32_t job);
void packing_rebuild(pool *p);
void packing_check(const pool *p);

struct packing_ask {
    const struct job_terms *terms;
    uint64_t compat_mask;
    uint32_t region;       /* the only one that its job allows; 0 = any */
    uint32_t region_index; /* where it is asked for now */
    uint32_t count;        /* devices of one node */
};
/* The best node that the caller allows; false: there is none. */
bool packing_best(const pool *p, const struct packing_ask *ask,
                  bool (*allows)(void *context, uint32_t node), void *context, uint32_t *ret_node);
/* The most devices that a node of the region could give; 0: nothing is packed there, or all is full. */
uint32_t packing_most(const pool *p, const struct packing_ask *ask);
/* The device of a packed node that a share should take; SLOT_NONE: as it comes. */
uint32_t packing_device(const pool *p, uint32_t node, const struct job_terms *terms);

#endif
