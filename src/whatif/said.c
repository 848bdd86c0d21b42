/* What the pool is told of a job's work: rates and, of a job with a deadline, until when, how long it
 * will run, and then its steps and checkpoints as they come. Policies that are not the pool's know
 * nothing of deadlines.
 */
#include "core/limits.h"
#include "core/spot_watch.h"
#include "whatif/world.h"

static const struct scene_job *entry_of(const struct world *w, const struct live_job *job)
{
    return &w->scene->jobs[job->entry];
}

static bool hurries(const struct world *w, const struct live_job *job)
{
    return entry_of(w, job)->deadline_us > 0 && !drive_is_fixed(w);
}

static bool has_rates(const struct scene_job *e)
{
    for (uint32_t m = 0; m < CATALOG_MODELS_MAX; m++)
        if (e->speed_milli[m] > 0) return true;
    return false;
}

/* NCU of a device at the job's usual speed (core/rate.h): over the models on sale that it may use. */
static double usual_ncu(const struct world *w, const struct scene_job *e)
{
    uint64_t models = 0;
    double best = 0, sum = 0, count = 0;
    for (uint32_t i = 0; i < w->scene->offer_count; i++)
        if (market_told(w, i)) models |= UINT64_C(1) << w->scene->offers[i].model;
    if (e->model_mask != 0) models &= e->model_mask;
    for (; models != 0; models &= models - 1) {
        double ncu = scene_speed_milli(w->scene, e, (uint32_t)__builtin_ctzll(models)) / 1000.0;
        if (ncu > best) best = ncu;
        sum += ncu;
        count++;
    }
    return count > 0 ? __builtin_sqrt(best * sum / count) : 1;
}

/* As its user would say it: on its least devices of that speed, from its first start on; they wait for
 * the slowest, about two deviations late. */
static int64_t run_us(const struct world *w, const struct live_job *job)
{
    const struct scene_job *e = entry_of(w, job);
    double step_us = (double)e->step_ncu_us / (usual_ncu(w, e) * job->devices_min);
    double every = (double)e->checkpoint_every_us;
    if (job->devices_min > 1) step_us *= 1 + 2 * (double)e->jitter_ppm / 1e6;
    step_us += (double)e->orchestration_us;
    if (job->devices_min > 1) step_us += (double)w->scene->near.exchange_us * e->exchanges;
    double us = job->work / (double)e->step_ncu_us * step_us *
                    ((every + (double)e->checkpoint_us) / every) +
                (double)e->restart_us;
    return us < (double)TERMS_US_MAX ? (int64_t)us + 1 : TERMS_US_MAX;
}

uint64_t said_step(const struct world *w, const struct live_job *job, double done)
{
    return (uint64_t)(done / (double)entry_of(w, job)->step_ncu_us);
}

uint64_t said_terms(struct world *w, uint32_t index)
{
    const struct live_job *job = &w->jobs[index];
    const struct scene_job *e = entry_of(w, job);
    struct pool_event event = feed_event(POOL_EVENT_TERMS_DEFINED);
    struct job_terms *terms = &event.u.terms_defined.terms;
    if (!hurries(w, job) && !has_rates(e)) return 0;
    event.u.terms_defined.terms_id = job->entry + 1;
    if (has_rates(e)) terms->work_id = job->entry + 1;
    if (hurries(w, job)) {
        uint64_t steps = said_step(w, job, job->work) + 1;
        event.u.terms_defined.terms_id = SCENE_JOBS_MAX + 1 + index;
        terms->deadline_us = e->deadline_us < TERMS_US_MAX ? e->deadline_us : TERMS_US_MAX;
        terms->run_us = run_us(w, job);
        terms->ckpt_interval_us = e->checkpoint_every_us;
        terms->steps_total = steps < UINT32_MAX ? (uint32_t)steps : 0;
    }
    feed_tell(w, &event);
    return event.u.terms_defined.terms_id;
}

/* After a tick, when the step that it is in then ends: agents report every few seconds, so that the pool
 * knows when a step was done. */
static void plan_report(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    double after_us = (double)SPOT_TICK_US, step = (double)entry_of(w, job)->step_ncu_us;
    if (job->speed > 0) {
        uint64_t steps = said_step(w, job, job->done + job->speed * after_us) + 1;
        double step_us = ((double)steps * step - job->done) / job->speed;
        if (step_us < 1e12) after_us = step_us;
    }
    job->says_us = w->now_us + (int64_t)after_us + 1;
    world_later(w, job->says_us, ON_SAYS, index, 0);
}

void said_begins(struct world *w, uint32_t index)
{
    const struct live_job *job = &w->jobs[index];
    if (hurries(w, job) && job->says_us <= w->now_us) plan_report(w, index);
}

void said_saved(struct world *w, uint32_t index)
{
    const struct live_job *job = &w->jobs[index];
    if (!hurries(w, job)) return;
    struct pool_event event = feed_event(POOL_EVENT_CKPT_DURABLE);
    event.u.ckpt_durable.job_id = job->job_id;
    event.u.ckpt_durable.step = said_step(w, job, job->saved);
    feed_tell(w, &event);
}

/* One worker speaks for all. */
void said_on(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    if (job->says_us != w->now_us || job->stage != JOB_RUNS) return;
    work_advance(w, index);
    for (uint32_t k = job->first_worker; k != NONE; k = w->workers[k].next_of_job) {
        if (w->workers[k].phase != WORKER_PHASE_RUNNING) continue;
        crew_tell(w, k);
        break;
    }
    said_saved(w, index);
    plan_report(w, index);
}
