/* Workers and the work of jobs, which goes on in proportion to the NCU that run. */
#include "server/keyed.h"
#include "server/world_parts.h"
#include <math.h>

#define SECOND_US        INT64_C(1000000)
#define START_DEFAULT_US (10 * SECOND_US)
#define STOP_DEFAULT_US  SECOND_US
#define CKPT_DEFAULT_US  (600 * SECOND_US)

static void say(world *w, const struct world_worker *worker, uint32_t phase, double step,
                int64_t now_us)
{
    struct pool_event *event = world_say(w, POOL_EVENT_WORKER_REPORTED, now_us);
    if (event == NULL) return;
    event->u.worker_reported.node_key = worker->node_key;
    event->u.worker_reported.job_id = worker->job_id;
    event->u.worker_reported.worker_id = worker->worker_id;
    event->u.worker_reported.phase = phase;
    event->u.worker_reported.step = step > 0 ? (uint64_t)step : 0;
}

static struct world_job *job_of(const world *w, uint64_t job_id)
{
    return keyed_find(&w->jobs, job_id);
}

/* What a report calls its step: jobs without steps have none. */
static double step_of(const struct world_job *job)
{
    return job != NULL && job->has_steps ? job->done : 0;
}

/* ---- progress ---- */

static void advance(struct world_job *job, int64_t now_us)
{
    job->done += job->per_ncu_us * job->ncu * (double)(now_us - job->at_us);
    if (job->done > job->total) job->done = job->total;
    job->at_us = now_us;
}

/* Its end or its next checkpoint, whichever is sooner. */
static void plan(world *w, struct world_job *job, int64_t now_us)
{
    double speed = job->per_ncu_us * job->ncu, left_us = (job->total - job->done) / speed;
    job->stamp++;
    if (job->is_over || !(speed > 0)) return;
    int64_t at_us = left_us < 9e15 ? now_us + (int64_t)ceil(left_us) : INT64_MAX;
    if (job->ckpt_us > 0 && job->ckpt_at_us < at_us) at_us = job->ckpt_at_us;
    if (at_us == INT64_MAX) return;
    world_plan(w, at_us > now_us ? at_us : now_us + 1, DUE_JOB, job->job_id, job->stamp);
}

static void change_ncu(world *w, struct world_job *job, double by, int64_t now_us)
{
    advance(job, now_us);
    job->ncu += by;
    if (job->running == 0) job->ncu = 0; /* what rounding left */
    plan(w, job, now_us);
}

static struct world_job *make_job(world *w, const pool *p, uint64_t job_id, int64_t now_us)
{
    struct world_job *job = job_of(w, job_id);
    if (job != NULL) return job;
    const struct fact_job *fact = facts_job(w->facts, job_id);
    struct job_view view = {0};
    job = keyed_get(&w->jobs, job_id);
    if (job == NULL) {
        w->failed = true;
        return NULL;
    }
    (void)pool_job_find(p, job_id, &view);
    job->at_us = now_us;
    job->per_ncu_us = 1;
    job->total = fact == NULL ? INFINITY : fact->ncu_us;
    if (fact != NULL && fact->steps > 0 && fact->steps_per_ncu_us > 0) {
        job->has_steps = 1;
        job->total = (double)fact->steps;
        job->per_ncu_us = fact->steps_per_ncu_us;
        job->done = (double)view.step;
        job->kept = (double)view.ckpt_step;
    }
    job->is_elastic = fact != NULL && fact->is_elastic;
    if (fact != NULL && fact->ckpt_us > 0)
        job->ckpt_us = fact->ckpt_us;
    else if (fact != NULL && fact->checkpoint_every > 0)
        job->ckpt_us = CKPT_DEFAULT_US;
    job->ckpt_at_us = now_us + job->ckpt_us;
    return job;
}

/* Everybody who still works on it reports the end. */
static void finish(world *w, struct world_job *job, int64_t now_us)
{
    job->is_over = 1;
    for (uint32_t at = w->workers.count; at-- > 0;) {
        const struct world_worker worker = *(struct world_worker *)array_at(&w->workers, at);
        if (worker.job_id != job->job_id) continue;
        keyed_drop(&w->workers, at);
        say(w, &worker, WORKER_PHASE_FINISHED, step_of(job), now_us);
    }
    job->running = 0;
    job->ncu = 0;
}

static void job_due(world *w, const struct due *due)
{
    struct world_job *job = job_of(w, due->key);
    if (job == NULL || job->stamp != due->stamp || job->is_over) return;
    advance(job, due->at_us);
    if (job->done >= job->total) {
        finish(w, job, due->at_us);
        return;
    }
    if (job->ckpt_us > 0 && job->ckpt_at_us <= due->at_us) {
        job->kept = job->done;
        job->ckpt_at_us = due->at_us + job->ckpt_us;
        struct pool_event *event = world_say(w, POOL_EVENT_CKPT_DURABLE, due->at_us);
        if (event == NULL) return;
        event->u.ckpt_durable.job_id = job->job_id;
        event->u.ckpt_durable.step = (uint64_t)step_of(job);
    }
    plan(w, job, due->at_us);
}

/* ---- workers ---- */

static double ncu_of(const world *w, const pool *p, uint64_t node_key, uint32_t devices,
                     uint32_t milli)
{
    const struct world_node *node = keyed_find(&w->nodes, node_key);
    const struct fact_offer *offer = node == NULL ? NULL : facts_offer(w->facts, node->offer_id);
    if (offer == NULL) return 0;
    return pool_model_ncu_milli(p, offer->model) / 1000.0 * devices *
           (milli == 0 ? 1 : milli / 1000.0);
}

/* One of the recorded delays, always the same for the same worker or node. */
int64_t world_delay(const world *w, const struct array *delays, uint64_t key, int64_t absent_us)
{
    struct survival_random random = {w->seed * 31 + key};
    if (delays->count == 0) return absent_us;
    return *(const int64_t *)array_at(delays,
                                      (uint32_t)(survival_uniform(&random) * delays->count));
}

void world_ensure_worker(world *w, const pool *p, const struct pool_command *c, int64_t now_us)
{
    struct world_worker *worker = keyed_find(&w->workers, c->worker_id);
    struct world_job *job = make_job(w, p, c->job_id, now_us);
    if (job == NULL || keyed_find(&w->nodes, c->node_key) == NULL) return;
    if (worker == NULL && job->is_over) {
        say(w, &(struct world_worker){c->worker_id, c->job_id, c->node_key, 0, 0, 0},
            WORKER_PHASE_FINISHED, step_of(job), now_us);
        return;
    }
    if (worker == NULL) {
        worker = keyed_get(&w->workers, c->worker_id);
        if (worker == NULL) {
            w->failed = true;
            return;
        }
        worker->job_id = c->job_id;
        worker->node_key = c->node_key;
        worker->ncu = ncu_of(w, p, c->node_key, c->device_count, c->device_milli);
        world_plan(w, now_us + world_delay(w, &w->facts->starts, c->worker_id, START_DEFAULT_US),
                   DUE_WORKER_RUNS, c->worker_id, 0);
    }
    say(w, worker, worker->runs ? WORKER_PHASE_RUNNING : WORKER_PHASE_STARTING, step_of(job),
        now_us);
}

void world_stop_worker(world *w, const struct pool_command *c, int64_t now_us)
{
    struct world_worker *worker = keyed_find(&w->workers, c->worker_id);
    if (worker == NULL) {
        say(w, &(struct world_worker){c->worker_id, c->job_id, c->node_key, 0, 0, 0},
            WORKER_PHASE_STOPPED, 0, now_us);
        return;
    }
    if (worker->stops) return;
    worker->stops = 1;
    int64_t at_us = now_us + world_delay(w, &w->facts->stops, c->worker_id, STOP_DEFAULT_US);
    if (at_us > c->deadline_us) at_us = c->deadline_us > now_us ? c->deadline_us : now_us;
    world_plan(w, at_us, DUE_WORKER_STOPPED, c->worker_id, 0);
}

void world_take_over_worker(world *w, const pool *p, const struct lease_view *view, int64_t now_us)
{
    const struct pool_command c = {.job_id = view->job_id,
                                   .node_key = view->node_key,
                                   .worker_id = view->worker_id,
                                   .device_count = view->device_count,
                                   .device_milli = view->device_milli,
                                   .deadline_us = view->deadline_us};
    world_ensure_worker(w, p, &c, now_us);
    if (view->phase == WORKER_PHASE_RUNNING)
        world_work_due(
            w, &(struct due){.at_us = now_us, .kind = DUE_WORKER_RUNS, .key = view->worker_id});
    if (view->stop_reason != 0) world_stop_worker(w, &c, now_us);
}

static void start(world *w, struct world_worker *worker, int64_t now_us)
{
    struct world_job *job = job_of(w, worker->job_id);
    if (worker->runs || job == NULL) return;
    worker->runs = 1;
    job->running++;
    change_ncu(w, job, worker->ncu, now_us);
    say(w, worker, WORKER_PHASE_RUNNING, step_of(job), now_us);
}

/* is_kept: it handed over. Without anybody left a job goes back to what is kept. */
static void leave(world *w, uint32_t at, bool is_kept, int64_t now_us)
{
    const struct world_worker worker = *(struct world_worker *)array_at(&w->workers, at);
    struct world_job *job = job_of(w, worker.job_id);
    keyed_drop(&w->workers, at);
    if (job == NULL || !worker.runs || job->running == 0) return;
    job->running--;
    change_ncu(w, job, -worker.ncu, now_us);
    if (job->running == 0 && is_kept && job->is_elastic) job->kept = job->done;
    if (job->running == 0 || !job->is_elastic) job->done = job->kept;
    plan(w, job, now_us);
}

static void stopped(world *w, uint64_t worker_id, int64_t now_us)
{
    struct world_worker *found = keyed_find(&w->workers, worker_id);
    if (found == NULL) return;
    const struct world_worker worker = *found;
    leave(w, (uint32_t)(found - (struct world_worker *)w->workers.items), true, now_us);
    say(w, &worker, WORKER_PHASE_STOPPED, step_of(job_of(w, worker.job_id)), now_us);
}

void world_work_due(world *w, const struct due *due)
{
    if (due->kind == DUE_JOB) {
        job_due(w, due);
        return;
    }
    struct world_worker *worker = keyed_find(&w->workers, due->key);
    if (worker == NULL) return;
    if (due->kind == DUE_WORKER_RUNS)
        start(w, worker, due->at_us);
    else
        stopped(w, due->key, due->at_us);
}

void world_lose_workers(world *w, uint64_t node_key, int64_t now_us)
{
    for (uint32_t at = w->workers.count; at-- > 0;)
        if (((struct world_worker *)array_at(&w->workers, at))->node_key == node_key)
            leave(w, at, false, now_us);
}

void world_beat_workers(world *w, uint64_t node_key, int64_t now_us)
{
    for (uint32_t i = 0; i < w->workers.count; i++) {
        const struct world_worker *worker = array_at(&w->workers, i);
        struct world_job *job = job_of(w, worker->job_id);
        if (worker->node_key != node_key || job == NULL) continue;
        advance(job, now_us);
        say(w, worker, worker->runs ? WORKER_PHASE_RUNNING : WORKER_PHASE_STARTING, step_of(job),
            now_us);
    }
}
