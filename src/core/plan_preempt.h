/* Preemption: devices taken from jobs of lower classes, with notice, so that the least work is lost.
 *
 * When       A job of a class that may preempt is short of its minimum, and what is idle or can be
 *            bought within its budget does not reach it; while its class stays within its reserved
 *            share (class.h). Never for devices that would not fit: other models, kinds, prices above
 *            the threshold, another region than the job's.
 * Victims    Workers of preemptible lower classes. An elastic job above its minimum loses single
 *            workers and goes on (their slots move at a step boundary); below it the whole job goes
 *            back to the queue with its age. Cost in milli-NCU-seconds: time since the last checkpoint
 *            (of the job) or start (of the worker), plus RESTART_S, times NCU of all its devices, when
 *            it is ended; HANDOVER_S times NCU of one worker, when it only shrinks.
 * Choice     For a job of one node: the cheapest set on any one node, exact. For a gang: of few jobs the
 *            cheapest set, exact; of many, cheapest per device first, then whatever is not needed is
 *            taken out (preempt_gang.c). Always: without any one of the victims it does not fit.
 *            Devices that come free anyway are waited for, and nobody is sent away for them.
 * Quota      Where there are quotas, those whose account has borrowed most for its weight go first, whatever
 *            work they lose; whoever is within its quota goes only for somebody within his own.
 * Reclaim    What others have borrowed of its quota, a job gets back within it: of preemptible jobs of its
 *            own class and lower ones, no share of its class needed. No cycle: nobody who borrows reclaims,
 *            and nobody within his quota is reclaimed from.
 * Share      Reckoned with the NCU of the devices that it would hold: where larger models would be more than
 *            its class may recall, smaller ones are recalled.
 * Before     A job that needs one node, where enough devices are idle on several: workers of elastic
 *            jobs, not of higher classes, move to the other idle devices (consolidation). Nobody loses
 *            anything, so no class is protected from it.
 * Place      same, spread: each place is tried, the least loss is taken; a job that is spread is given one
 *            device of each node, rack or zone (preempt_apart.c).
 * Bounds     VICTIMS_MAX victims at once, of UNITS_MAX looked at: a job that needs more waits.
 */
#ifndef SHOAL_CORE_PLAN_PREEMPT_H
#define SHOAL_CORE_PLAN_PREEMPT_H

#include "core/plan_buy.h"

enum { VICTIMS_MAX = 256, UNITS_MAX = 512, UNITS_FEW = 16 };
enum {
    RESTART_S = 60, /* what a job that was ended spends to come back: boot of workers, checkpoint */
    HANDOVER_S = 5, /* what a worker that hands over costs: at most a step is done again */
    LOST_S_MAX = 1000000
};

struct victim {
    uint32_t job, lease;   /* lease SLOT_NONE: the whole job */
    uint32_t device_count; /* that the demand could take */
    uint32_t target;       /* node it moves to; SLOT_NONE: it leaves */
    uint64_t loss;         /* milli-NCU-seconds */
    uint64_t cost; /* by which they are chosen: above the loss, what its account has not borrowed */
};

struct preemption {
    uint32_t region_index, node; /* node: the one it frees; SLOT_NONE = any */
    uint32_t need, gain, victim_count, reclaims;
    uint32_t single_node, reserved;
    uint64_t cost;
    struct near near; /* the place that was decided upon */
    struct victim victims[VICTIMS_MAX];
};

/* The demand could use devices of this node, were they free. */
bool preempt_is_place(const pool *p, const struct demand *demand, uint32_t region_index,
                      uint32_t need, uint32_t node);
/* Devices of this node that are on their way out, and not promised to anybody who comes first. */
uint32_t preempt_coming(const pool *p, const struct demand *demand, uint32_t region_index,
                        uint32_t need, uint32_t node);
/* As if what others have borrowed of the quota of its job's account were there, for so many devices. */
void preempt_widen(const pool *p, uint32_t missing, struct demand *demand);
/* For a job that holds `held_count` devices, the best of all regions it may use: moves first. Pure. */
bool preempt_best(const pool *p, const struct shape *s, const struct demand *demand,
                  uint32_t held_count, uint32_t home, bool stays, struct preemption *ret_plan);
/* Within the share of its class there is nothing for it, and beyond it there is. Pure. */
struct class_share;
bool preempt_is_above_share(const pool *p, const struct shape *s, const struct demand *demand,
                            uint32_t held_count, uint32_t home, bool stays,
                            struct class_share *ret_share);

#endif
