/* Promises: devices of a node that are kept for one job, until it takes them.
 *
 * Why        Devices freed for a job (plan_preempt.c) or collected for it (plan_reserve.c) come one by
 *            one; without a promise whoever is planned first would take them, and victims would have
 *            been sent away for nothing.
 * Rule       A node is promised to one job at most; promise_count of its devices, those that are free
 *            and those that will be. Jobs before the owner in order (class, age) may take them all the
 *            same; jobs behind it only what is not promised, or what they give back in time: when
 *            their run time is known and ends before promise_until_us (backfill).
 * Ends       When the owner takes the devices, has its gang, ends or is queued again without them; when
 *            the node is not usable any more. Never by a timer: what was promised comes free or its
 *            node goes.
 * Invariants promise_count of a node <= device_count; job.promised_count = sum over its promises.
 */
#ifndef SHOAL_CORE_PROMISE_H
#define SHOAL_CORE_PROMISE_H

#include "core/state.h"

struct demand;

/* More devices of this node; false: it is promised to somebody else who comes first. */
bool promise_make(pool *p, uint32_t job, uint32_t node, uint32_t device_count);
void promise_taken(pool *p, uint32_t job, uint32_t node, uint32_t device_count);
void promise_break(pool *p, uint32_t node); /* the node is lost to its owner */
void promise_drop(pool *p, uint32_t job);   /* all promises of a job */
/* The promises of the job are a reservation until then: backfill may use what is back in time. */
void promise_until(pool *p, uint32_t job, int64_t until_us);
/* Devices of the node that the demand may take now. */
uint32_t promise_free(const pool *p, const struct demand *demand, const struct node *n);
/* Somebody else who comes first has a promise on it. */
bool promise_blocks(const pool *p, const struct demand *demand, const struct node *n);

#endif
