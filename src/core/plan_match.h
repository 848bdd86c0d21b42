/* Matching inside the plan: which job gets which type of device, when jobs differ in how fast they
 * run on them.
 *
 * Who        Jobs of a kind of work (rate.h) that want whole devices and a fixed number of them. All
 *            others are planned as ever, by order and price.
 * Types      Markets, a model in a region, with devices that cost nothing more: idle ones, and stock
 *            of owned and reserved nodes. What has to be bought is never matched: a job that is left
 *            out buys where its work is cheapest (plan_buy.h).
 * When       Devices came free or jobs came: those that wait are matched to what is free, class by
 *            class, in the turn of the oldest of them. Nobody who runs is touched.
 * Rounds     With round_us > 0, besides, at most so often and only if something changed: the jobs of
 *            a preemptible class that run on owned or reserved nodes are matched together with those
 *            that wait, and who is to be elsewhere hands over and goes there. A second is waited for
 *            changes that come together, once; what comes free in it is left for the round.
 * Value      match_weight.h: speed on the type times a weight, nearly flat in what is left of the
 *            declared run time (expected by match_size.h where none is declared), growing for those
 *            that are there for longer than three times their size. For a job that runs, another
 *            type counts less by what the restart costs of the time it has left.
 * Steps      MATCH_WAITING: not matched. MATCH_ASSIGNED: matched, planned next in its own turn with
 *            that market alone, under its quota and budget like any other. MATCH_RUNNING: bound.
 *            What cannot start there after all is not matched again before supply changes.
 * Bounds     matched_max jobs at once, MATCH_TYPES_MAX types; without a round MATCH_WINDOW jobs, the
 *            oldest: the cost of a device that comes free does not grow with the queue.
 */
#ifndef SHOAL_CORE_PLAN_MATCH_H
#define SHOAL_CORE_PLAN_MATCH_H

#include "core/match.h"
#include "core/match_size.h"
#include "core/state.h"

enum { MATCH_WINDOW = 512 };
#define MATCH_SETTLE_US INT64_C(1000000)

struct match_candidate {
    int64_t weight;
    uint32_t job, market; /* where it runs; SLOT_NONE = waits */
};

struct demand;
struct mix;

size_t plan_match_bytes(const struct pool_limits *limits);
void plan_match_init(pool *p);
void match_define(pool *p, const struct pool_event *event);
void plan_match_due(pool *p); /* its timer */

void plan_match_rebuild(pool *p); /* what follows from the rest, after a snapshot was read */

bool plan_match_owns(const pool *p,
                     const struct shape *s);        /* its jobs start through the matching */
void plan_match_touch(pool *p, uint32_t job_class); /* jobs came, or devices for them */
/* The job is in the list its state asks for; what was matched is dropped when `drop`. */
void plan_match_list(pool *p, uint32_t job);
void plan_match_drop(pool *p, uint32_t job); /* it is assigned nowhere */
void plan_match_ended(pool *p, uint32_t job);

void plan_match_class(pool *p, uint32_t job_class); /* a piece of planning: match */
/* An assigned job in its turn. */
void plan_match_start(pool *p, uint32_t job, struct pool_output *out);
bool plan_match_leaves(pool *p, uint32_t job, struct pool_output *out); /* true: queued again */
/* plan_best_region() for a job that was left out: a gang runs at the speed of its slowest device, so all
 * are of one model. True: it is matched to that market. */
bool plan_match_whole(pool *p, uint32_t job, const struct demand *demand, bool stays,
                      struct mix *ret_best);
bool plan_match_pending(const pool *p); /* who was sent away by a round may still hand over */
void plan_match_next(pool *p, uint32_t shape); /* one of its jobs that were left out has started */
/* The oldest queued job that is not assigned; SLOT_NONE = none. */
uint32_t plan_match_first(const pool *p, const struct shape *s);

#endif
