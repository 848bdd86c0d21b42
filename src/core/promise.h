/* Promises: devices of a node that are kept for a job, until it takes them.
 *
 * Why        Devices freed for a job (plan_preempt.c) or collected for it (plan_reserve.c) come one by
 *            one; without a promise whoever is planned first would take them, and victims would have
 *            been sent away for nothing.
 * Rule       A promise is a number of a node's devices, free or to come. A node may keep devices for
 *            several jobs; together they are never more than it has. Jobs before the owner in order (class,
 *            age) may take them all the same; jobs behind it only what is not promised, or what they
 *            give back in time: when their run time is known and ends before promise_until_us (backfill).
 *            An owner takes its devices of a node together: it gets one lease there.
 * Covered    After somebody took devices, the promises of the node are kept in the order of their jobs as
 *            long as what is free or on its way out covers them (for a reservation also what is expected
 *            to end in time); one that is not covered any more is broken, and its owner looks again.
 * Ends       When the owner takes the devices, has its gang, ends or is queued again without them; when
 *            the node is not usable any more. Never by a timer: what was promised comes free or its
 *            node goes.
 * Bound      As many promises as leases; when they are used up nothing more is promised.
 * Invariants promised_count of a node = sum over its promises <= device_count; of a job alike.
 */
#ifndef SHOAL_CORE_PROMISE_H
#define SHOAL_CORE_PROMISE_H

#include "core/state.h"

struct demand;

/* More devices of this node, of those not promised to anybody who comes first, at the cost of those
 * who come later. Returns how many. */
uint32_t promise_make(pool *p, uint32_t job, uint32_t node, uint32_t device_count);
/* The job has taken devices of the node. */
void promise_taken(pool *p, uint32_t job, uint32_t node, uint32_t device_count);
/* Those behind the job that its promises leave without cover are broken: after its victims were told. */
void promise_uphold(pool *p, uint32_t job);
void promise_break_all(pool *p, uint32_t node); /* the node is lost to its owners */
void promise_drop(pool *p, uint32_t job);       /* all promises of a job */
/* The promises of the job are a reservation until then: backfill may use what is back in time. */
void promise_until(pool *p, uint32_t job, int64_t until_us);
/* Free devices of the node that the demand may take now. */
uint32_t promise_free(const pool *p, const struct demand *demand, const struct node *n);
/* Devices of the node, free or held, that are not promised to somebody else who comes first. */
uint32_t promise_room(const pool *p, const struct demand *demand, const struct node *n);
/* Something that was promised to it is not there yet. */
bool promise_is_coming(const pool *p, const struct demand *demand);
/* Whose promise comes first. What is given back of borrowed quota is kept from all of its class, also from
 * older jobs: they are who gave it. Between the classes, where no other order is. */
static inline uint64_t promise_order(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    return j->reclaims && j->job_class > 0 ? j->order - SEQ_MAX : j->order;
}
/* A job of this order works on devices that somebody who comes first waits for. */
bool promise_is_ahead(const pool *p, const struct node *n, uint64_t order);

#endif
