/* Giving back: gangs that cannot be completed, and guaranteed capacity when spot is cheap again. */
#include "core/act.h"
#include "core/assert.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/plan.h"
#include "core/plan_buy.h"

/* Back into the queue with its age; the nodes go to others or home. */
static void requeue(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    MARK(out, JOB_REQUEUED);
    job_interest(p, job, false);
    heap_set(&p->plans, job, HEAP_KEY_NEVER);
    j->state = JOB_QUEUED;
    j->review_us = j->budget_check_us = INT64_MAX;
    job_retime(p, job);
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        lease_stop(p, l, REASON_WAIT_CAPACITY, p->now_us + p->config.drain_us);
    shape_queue_insert(p, job);
}

/* A gang that is short and cannot be completed here: at once if nothing is up here, otherwise after
 * a boot's time, so that two gangs never wait for each other's halves. */
static bool is_hopeless(const pool *p, const struct job *j, struct holding held)
{
    if (j->state != JOB_STARTING || held.device_count >= j->devices_min) return false;
    if (held.up_count + held.booting_count == 0) return true;
    return p->now_us >= j->short_since_us + p->config.boot_timeout_us;
}

/* After growing: what is the job's next concern, and when. */
void plan_review(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    struct holding held = job_holding(p, job);
    if (is_hopeless(p, j, held)) {
        requeue(p, job, out);
        return;
    }
    job_interest(p, job, held.device_count < j->devices_max || held.fallback_count > 0);
    j->review_us = INT64_MAX;
    if (j->state == JOB_STARTING && held.device_count < j->devices_min)
        j->review_us = j->short_since_us + p->config.boot_timeout_us;
    job_rearm_budget(p, job);
    job_retime(p, job);
}
