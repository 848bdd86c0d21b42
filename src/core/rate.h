/* Rates: how fast a kind of work runs on a device of each model.
 *
 * Role       Jobs of the same kind (job_terms.work_id) share them. Told by job.yaml (declared), by
 *            whoever measured it, and learnt from the steps that workers report while a job holds
 *            devices of one model only.
 * Worth      What planning uses: millionths of an NCU that a device of the model is to this work.
 *            Without any rate the model's NCU. Declared rates are scaled so that over their models
 *            they come to the NCU of these; measured ones so that they come to what was believed
 *            before; so rates of a source need no unit, and a model that no source names is
 *            compared by its NCU.
 * Service    A job's usual speed is sqrt(best * mean) of the worths of the models it may use.
 *            attained_us is the time it has run, weighed with its speed: what it has done of its
 *            declared run time, wherever it ran.
 * Bounds     WORKS_MAX kinds; when another is told the one told of longest ago is forgotten. A rate
 *            of 0, declared: such jobs are never put on the model.
 * Invariants worth_micro follows from the rest; speed is 0 unless the job runs.
 */
#ifndef SHOAL_CORE_RATE_H
#define SHOAL_CORE_RATE_H

#include "core/state.h"

enum { RATE_ONE = 1 << 12 };            /* a speed of 1: MATCH_RATE_ONE */
#define RATE_SPAN_US INT64_C(120000000) /* a measurement takes at least so long, */
enum { RATE_STEPS_MIN = 10 };           /* and so many steps */

void rate_told(pool *p, const struct pool_event *event, struct pool_output *out);
/* [models_max]; NULL: nothing is known of this work, NCU count. */
const struct rate *rate_row(const pool *p, uint64_t work_id);
/* What declared rates come to before the pool is told of them: RATE_TOLD events into the caller's
 * row [models_max]. Models the pool does not know are passed over. */
void rate_declared(const pool *p, const struct pool_event *told, uint32_t count, struct rate *row);
uint64_t rate_worth_micro(const pool *p, const struct rate *row, uint32_t model);
/* Models of the mask on which the work never runs. */
uint64_t rate_never(const pool *p, const struct rate *row, uint64_t models);
/* worth[i] of count models, normalised by the usual speed of a job that may use `models`. */
int64_t rate_speed(const pool *p, const struct rate *row, uint64_t models, uint32_t model);
/* Its speed changed, or will change next: what it has attained so far is counted. */
void rate_settle(pool *p, uint32_t job);
int64_t rate_attained_us(const pool *p, const struct job *j); /* up to now */
void rate_observe(pool *p, uint32_t job);                     /* its workers reported a step */
/* The market all its devices are of; SLOT_NONE: it has none, or of several, or on its way out. */
uint32_t rate_market_of(const pool *p, uint32_t job);
void rate_rebuild(pool *p); /* worths: a model changed, or a snapshot was read */

#endif
