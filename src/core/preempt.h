/* The parts of a search for victims (plan_preempt.h); used by plan_preempt.c and its preempt_*.c only.
 *
 * Files      preempt_place.c  where the demand could work, who could go, what that costs
 *            preempt_node.c   all on one node; moves to other nodes
 *            preempt_gang.c   on as many nodes as it takes
 *            preempt_apart.c  one device of each node, rack or zone
 * Coming     Devices on their way out count as there: nobody is sent away for what comes free anyway.
 */
#ifndef SHOAL_CORE_PREEMPT_H
#define SHOAL_CORE_PREEMPT_H

#include "core/plan_preempt.h"

struct search {
    const pool *p;
    const struct demand *demand;
    uint32_t region_index, need; /* need: devices beyond what supply gives */
    uint32_t bears;              /* devices for which quota must be left: with those from supply, */
    uint32_t supplied;           /* which are taken off the demand's quota already */
    uint64_t ncu_left;           /* milli-NCU that its class may still recall */
    bool
        reclaims; /* what others have borrowed of its account's quota, whatever their class is due */
};

bool search_is_place(const struct search *s, uint32_t node);
bool search_is_victim(const struct search *s, uint32_t lease);
/* Devices of a place that the demand could take once those on their way out and the victims of the plan
 * (NULL = none) are gone. */
uint32_t search_gives(const struct search *s, uint32_t node, const struct preemption *plan);
/* Of these: not to be had now, and for nothing. */
uint32_t search_coming(const struct search *s, uint32_t node);
/* Nodes with victims or with devices on their way out. */
struct victim_walk search_walk(const struct search *s);

/* A job as a whole, with the devices that the demand could take of it; and one worker, if its job goes on
 * without it and `more` others. False: it does not. */
struct victim victim_job(const struct search *s, uint32_t job);
bool victim_worker(const struct search *s, uint32_t lease, uint32_t more,
                   struct victim *ret_victim);
bool victim_can_shrink(const pool *p, uint32_t job);
uint32_t victim_spare(const pool *p, uint32_t job); /* devices beyond its minimum */
uint64_t victim_move_cost(const pool *p, uint32_t lease);
uint64_t victim_lost_s(const pool *p, const struct lease *l); /* of work, were it ended now */
uint64_t victim_worker_cost(const struct search *s, uint32_t lease);

void plan_clear(struct preemption *plan, const struct search *s, uint32_t node);
void plan_add(struct preemption *plan, const struct victim *victim);
void plan_leave_out(struct preemption *plan, uint32_t at);
bool plan_suffices(const struct search *s, const struct preemption *plan);
/* Whoever is not needed is taken out, dearest first. */
void plan_prune(const struct search *s, struct preemption *plan);

bool search_node(const struct search *s, struct preemption *plan);
bool search_moves(const struct search *s, struct preemption *plan);
bool search_gang(const struct search *s, struct preemption *plan);
/* Where the demand is spread; `all`: with what is left of it before supply gave what there is without
 * victims, in that order. */
bool search_apart(const struct search *s, const struct demand *all, enum supply_order order,
                  struct preemption *plan);

static inline uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
