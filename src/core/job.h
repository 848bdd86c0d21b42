/* Jobs: from the submission to the end, and after it, so that a repeated submit changes nothing.
 *
 * States     QUEUED (in its shape's queue) → STARTING (bound to a region, nodes are coming) →
 *            RUNNING (workers are wanted) → DONE, FAILED, CANCELLED; or REFUSED at once. A gang
 *            that cannot be completed goes back to QUEUED with its age.
 * Memory     Ended jobs keep their slot until jobs_max is reached; then the one that ended longest
 *            ago makes room.
 */
#ifndef SHOAL_CORE_JOB_H
#define SHOAL_CORE_JOB_H

#include "core/node.h"
#include "core/state.h"

/* What a job holds and what it costs, counted over its leases. */
struct holding {
    uint32_t device_count;  /* on nodes that are coming or ready */
    uint32_t up_count;      /* of those: on ready nodes */
    uint32_t booting_count; /* of those: on nodes that are up, their agent not yet */
    uint32_t fallback_count;
    int64_t usd_micros_per_hour;      /* of all nodes it pays for until they are gone: committed */
    int64_t kept_usd_micros_per_hour; /* of those that are not on their way out */
};

uint32_t job_make(pool *p, const struct pool_event *event, struct pool_output *out);
void job_touch(pool *p, uint32_t slot); /* something it waits for may have changed: plan it again */
void job_end(pool *p, uint32_t slot, uint32_t state, uint32_t kind, uint32_t reason,
             struct numbers numbers, struct pool_output *out);
bool job_has_budget(const pool *p, const struct job *j); /* in all or per hour; live jobs only */
struct holding job_holding(const pool *p, uint32_t slot);
int64_t job_spent_usd_micros(const pool *p, uint32_t slot); /* up to now */
void job_interest(pool *p, uint32_t slot, bool wanted);     /* woken by new supply in its region */
int64_t job_due_us(const struct job *j);
void job_retime(pool *p, uint32_t slot);
void job_rearm_budget(pool *p, uint32_t slot); /* after its rate changed */
void job_run(pool *p, uint32_t slot, struct pool_output *out);

#endif
