/* Jobs that must end in time: on spot while there is time for a loss, else on capacity that is always
 * to be had.
 *
 * Role       Decides, at least once a tick (spot_watch.h), where a job with a deadline may run:
 *            on spot (and which offer, for a job of one size), on guaranteed capacity (owned, reserved,
 *            on demand), or not at all for now. deadline_limit() makes a demand follow; owned capacity
 *            is always allowed. What else planning does (order, quotas, gates) is as for any job.
 * Clock      Work left: its run time less what it has attained (rate.h) and not lost; with steps
 *            known, the steps left at the pace so far. After a loss of all its nodes it begins again at
 *            its newest checkpoint. Changeover: the slowest start of late among the offers it may use,
 *            and what a loss costs, the longest stretch between its checkpoints.
 * Guarantee  That of spot_policy.h, under every policy, as long as guaranteed capacity is on sale to it
 *            (stock, budget, gates, quota) and starts as fast as measured. And a job on spot that has
 *            saved nothing for so long that a loss now would leave too little time moves while it can.
 * Policies   enum buying_policy: of its pool, else of its class, else the table.
 */
#ifndef SHOAL_CORE_DEADLINE_H
#define SHOAL_CORE_DEADLINE_H

#include "core/job.h"
#include "core/plan.h"
#include "core/plan_buy.h"

enum deadline_choice {
    DEADLINE_ANY, /* no deadline, or nothing guaranteed is on sale to it: as any job */
    DEADLINE_WAIT,
    DEADLINE_SPOT,
    DEADLINE_GUARANTEED,
    DEADLINE_FORCED, /* guaranteed, and for good: no time is left for a loss */
    DEADLINE_CHOICE_END,
};

/* When a job submitted then has to end; 0 = it has no deadline. */
int64_t deadline_of(const struct job_terms *terms, int64_t submitted_us);
/* REASON_FITS if a job submitted now could end in time, else why not. */
struct verdict deadline_judge(const pool *p, const struct shape *s, const struct job_terms *terms);
void deadline_decide(pool *p, uint32_t job, struct pool_output *out);
void deadline_limit(const pool *p, struct demand *demand, uint32_t job);
/* How a purchase is said. */
struct pool_decision deadline_purchase(const pool *p, uint32_t job, uint32_t offer);
/* It waits by choice, which is said; false: not so. */
bool deadline_waits(pool *p, uint32_t job, struct pool_output *out);
/* Where it is, is not where it should be: nodes are drained. Returns when to decide anew. */
int64_t deadline_review(pool *p, uint32_t job, struct holding held, struct pool_output *out);
void deadline_stepped(pool *p, uint32_t job); /* its workers have reported steps */
void deadline_saved(pool *p, uint32_t job);   /* a checkpoint is durable */
void deadline_lost(pool *p, uint32_t job);    /* nothing of it is up any more */
void deadline_begun(pool *p, uint32_t job);   /* its gang is up (again) */
int64_t deadline_work_left_us(const pool *p, uint32_t job);

#endif
