/* Planning: moves what is wanted towards what is asked for, highest class first, then age.
 *
 * Files      plan.c        which job is looked at next, and the life of a bound job
 *            plan_order.c  shapes and their queues: jobs that ask for the same are judged once
 *            plan_admit.c  yes or no at the door, with what would make it possible
 *            plan_region.c which region a job starts in, or moves to
 *            plan_place.c  a job starts there, takes devices and grows
 *            plan_ncu.c    jobs that ask for NCU: the cheapest mix
 *            plan_tier.c   from the next tier back to its own
 *            plan_wait.c   why a job waits
 *            plan_buy.c    the supply of a region in the order in which it is taken (parts of it:
 *                          supply.h; what is asked of it: demand.c)
 *            plan_pack.c   which of the pool's own nodes takes a worker
 *            plan_claim.c  stock kept for gangs of higher classes
 *            plan_drain.c  nodes given up: price, notice, operator, hourly budget
 *            plan_replace.c nodes of workers that hold their job up for long
 *            plan_release.c gangs given up, guaranteed capacity given back for spot
 *            plan_preempt.c devices taken from lower classes; plan_evict.c carries it out
 *            plan_room.c   idle nodes of the pool's own go where its limit of nodes binds
 *            plan_reserve.c devices collected for a gang that waits, with backfill
 *            plan_match.c  which waiting job takes which type of device, by rates
 */
#ifndef SHOAL_CORE_PLAN_H
#define SHOAL_CORE_PLAN_H

#include "core/job.h"
#include "core/state.h"

bool plan_is_pending(const pool *p);
void plan_run(pool *p, struct pool_output *out); /* one piece of planning */
void plan_room_made(pool *p);                    /* a node left the table */
void plan_catalog_changed(pool *p);
void plan_class_changed(pool *p); /* who waits may start now */
/* A bound job wants no more, or is bound no more: the next that waits like it may look. */
void plan_wake_next(pool *p, uint32_t region_index, uint32_t shape);

/* plan_order.c */
uint32_t shape_enter(pool *p, const struct pool_event *event); /* counts one user */
void shape_fill(const pool *p, const struct pool_event *event, struct shape *ret_shape);
uint32_t shape_find(const pool *p, struct shape *wanted); /* sets its hash; SLOT_NONE = none */
void shape_leave(pool *p, uint32_t slot);
void shape_judge(const pool *p, struct shape *s); /* its models and threshold, from the catalog */
uint64_t shape_sold(const pool *p,
                    const struct shape *s); /* of its models: ever within its reach */
void plan_note_threshold(pool *p, uint32_t threshold_ppm);
void shape_wake(pool *p, uint32_t slot);
void shape_wait_quota(pool *p, uint32_t slot); /* sleeps until quota is freed */
bool shape_is_ahead(pool *p, uint32_t slot);   /* it still is the first, at today's shares */
void plan_quota_freed(pool *p);
int64_t plan_key(const pool *p, uint32_t job);  /* who is planned first */
void shape_queue_insert(pool *p, uint32_t job); /* by age */
void shape_queue_remove(pool *p, uint32_t job);
uint64_t plan_jobs_before(const pool *p, uint32_t job);

/* plan_admit.c */
struct verdict {
    uint32_t reason;
    struct numbers numbers;
};
void plan_admit(pool *p, const struct pool_event *event, struct pool_output *out);
/* terms: of the shape, or of a request that is only asked about; NULL = not known.
 * rates: of its work, see rate_row(); NULL = none. */
struct verdict plan_judge(const pool *p, const struct shape *shape, const struct job_terms *terms,
                          const struct rate *rates);

/* plan_place.c */
void plan_queued(pool *p, uint32_t shape, struct pool_output *out);
/* One that asks for the same was told that nothing is to be had, and supply is what it was. */
bool plan_has_failed(const pool *p, const struct shape *s);
struct demand;
struct mix;
/* What a queued job asks for now. */
void plan_demand(const pool *p, uint32_t job, struct demand *ret_demand);
/* mix: what it takes there, NULL = devices of lower classes. */
void plan_bind(pool *p, uint32_t job, uint32_t region_index, const struct mix *mix,
               struct pool_output *out);
bool plan_grow(pool *p, uint32_t job, struct holding held, struct pool_output *out);

struct supply;
struct pick;
/* Takes what a pick says, node by node; false: no room, the rest is for the next step. */
bool plan_take(pool *p, uint32_t job, const struct supply *supply, const struct pick *pick,
               struct pool_output *out);

/* plan_region.c */
/* The best region that reaches the gang's minimum, `home` if that does and no other is clearly
 * cheaper. In ret_best: what it could take there; without any, what was too dear. */
bool plan_best_region(const pool *p, const struct shape *s, const struct demand *demand,
                      uint32_t home, bool stays, struct mix *ret_best);
/* Why it leaves the region it was told: `mix` as plan_best_region() found it. */
void plan_say_region_changed(pool *p, const struct job *j, const struct mix *mix,
                             struct pool_output *out);

bool plan_leaves_region(const pool *p, uint32_t job); /* all is lost, and another is better now */

/* plan_ncu.c */
bool plan_is_ncu(const pool *p, const struct job *j); /* live ones only */
void plan_ncu_count(pool *p, uint32_t job);           /* its gang, from what it holds */
bool plan_grow_ncu(pool *p, uint32_t job, struct holding held, struct pool_output *out);

/* plan_tier.c */
bool plan_is_degraded(const pool *p, uint32_t job); /* it holds devices of the next tier */
/* True: it left the next tier and is queued. Else ret_look_us: when to look again; INT64_MAX = never. */
bool plan_climb(pool *p, uint32_t job, struct holding held, int64_t *ret_look_us,
                struct pool_output *out);

/* plan_wait.c */
void plan_wait(pool *p, uint32_t job, uint32_t reason, struct numbers numbers,
               struct pool_output *out);
/* A gang runs at the speed of its slowest device: all are of the model that it was matched to. */
void plan_stay_in_match(const pool *p, const struct job *j, struct demand *demand);
bool plan_works_still(const pool *p, const struct job *j); /* where it is, a worker of it is too */
/* A bound job could use more and gets none: what is in the way. */
void plan_say_short(pool *p, uint32_t job, struct pool_output *out);
/* The same of a queued job, which cannot start: what plan_demand() and plan_best_region() said of it.
 * True: stock alone is missing. */
bool plan_say_waits(pool *p, uint32_t job, const struct demand *demand, const struct mix *mix,
                    struct pool_output *out);
/* Its class starts at once or not at all: true, and refused, if a cost gate alone keeps it from it. */
bool plan_refuse_gated(pool *p, uint32_t job, struct pool_output *out);

/* plan_room.c */
/* The limit of nodes alone keeps a job from `missing` devices: idle nodes of the pool's own go. False: it
 * does not fit in the limit there. */
bool plan_make_room(pool *p, uint32_t job, const struct demand *demand, const struct mix *mix,
                    uint32_t missing, struct pool_output *out);

/* plan_claim.c */
void plan_claim(pool *p, uint32_t job);      /* short of its gang for want of stock */
void plan_claim_drop(pool *p, uint32_t job); /* not so any more */
bool plan_is_kept(const pool *p, uint32_t job_class, const struct offer *o);

/* plan_evict.c */
struct demand;
struct preemption;
void plan_preempt(pool *p, uint32_t job, const struct demand *demand, const struct preemption *plan,
                  struct pool_output *out);
/* One worker, or with SLOT_NONE the whole job, goes for another job. */
void plan_evict(pool *p, uint32_t job, uint32_t lease, uint32_t for_job, uint64_t cost);
bool plan_preempted(pool *p, uint32_t job, struct pool_output *out); /* true: queued again */

/* plan_drain.c */
void plan_drain_for_price(pool *p, uint32_t node, struct pool_output *out);
/* double_us: how long its offer counts double (risk.h). */
void plan_drain_for_notice(pool *p, uint32_t node, int64_t double_us, struct pool_output *out);
void plan_drain_asked(pool *p, uint32_t node, struct pool_output *out);
bool plan_shed(pool *p, uint32_t job, struct holding held, struct pool_output *out);
/* The node goes, unless others work there: then only the job leaves it. */
void plan_leave(pool *p, uint32_t lease, uint32_t reason, struct numbers numbers,
                struct pool_output *out);

/* plan_replace.c */
uint32_t plan_lease_of_worker(const pool *p, const struct job *j, uint64_t worker_id);
/* Its worker is said to hold the job up (enum stall_kind). False: that was known. */
bool plan_name(pool *p, uint32_t lease, uint32_t kind);
/* It moves; 0: all of the job do. Who was slow may be so again in the next step: that name is only
 * believed no longer than any other. */
void plan_unname(pool *p, uint32_t job, uint64_t worker_id);
void plan_replace(pool *p, uint32_t lease, struct pool_output *out); /* if it is due */

/* plan_release.c */
void plan_requeue(pool *p, uint32_t job, struct pool_output *out);
void plan_review(pool *p, uint32_t job, struct pool_output *out);

#endif
