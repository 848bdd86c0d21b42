#include "sia_sim.h"
#include "base/mem.h"
#include "published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HORIZON_S (3600.0 * 24 * 365) /* a job that is not done by then never will be */

double sia_work_left(const struct sia_job *job)
{
    double left = job->app->work - job->progress;
    return left > 0 ? left : 0;
}

/* ---- one job ---- */

static void see(struct sia_job *job, struct sia_noise noise)
{
    if (job->has_run && noise.var == job->noise.var && noise.sqr == job->noise.sqr) return;
    job->noise = noise;
    job->has_run = true;
    job->is_stale = true;
}

static void choose_batch(struct sia_job *job)
{
    if (job->config == SIA_NONE) return;
    job->run = job->has_run ? sia_best(job->app, job->config, job->noise)
                            : job->app->candidates[job->config][0];
}

/* Runs until the time is over or an epoch ends; returns the seconds used. */
static double run_epoch(struct sia_sim *sim, struct sia_job *job, double seconds, double at_s)
{
    struct sia_noise noise = sia_noise(job->app, job->run.batch, job->epoch);
    double rate = sia_rate(job->app, noise, job->run), end = job->app->border[job->epoch + 1];
    see(job, noise);
    if (job->placement.replicas > job->devices_most) {
        job->devices_most = job->placement.replicas;
        job->is_stale = true;
    }
    if (job->progress + rate * seconds < end) {
        job->progress += rate * seconds;
        return seconds;
    }
    double used = fmax(0, (end - job->progress) / rate);
    job->progress = end;
    job->epoch++;
    if (job->epoch == job->app->epochs) {
        job->is_done = true;
        job->finish_s = at_s + used;
        uint32_t app = job->submission->app;
        sim->finished[app]++;
        sim->finished_work[app] += job->progress;
    }
    return used;
}

static void step(struct sia_sim *sim, struct sia_job *job)
{
    if (job->type == SIA_NONE) return;
    double left_s = sim->round_s, delay = fmin(job->restart_left_s, left_s);
    job->restart_left_s -= delay;
    left_s -= delay;
    while (left_s > 0 && !job->is_done) {
        left_s -= run_epoch(sim, job, left_s, sim->now_s + sim->round_s - left_s);
        choose_batch(job);
    }
    job->gpu_s += (sim->round_s - left_s) * job->placement.replicas;
}

/* ---- what policies do to jobs ---- */

static bool has_same_shape(const struct sia_placement *a, const struct sia_placement *b)
{
    return a->node_count == b->node_count && memcmp(a->on_node, b->on_node, a->node_count) == 0;
}

static void change(struct sia_sim *sim, struct sia_job *job, uint32_t type,
                   const struct sia_placement *placement)
{
    if (job->type == type && (type == SIA_NONE || has_same_shape(&job->placement, placement))) {
        return;
    }
    job->changed_s = sim->now_s;
    job->type = type;
    if (type == SIA_NONE) return;
    job->placement = *placement;
    job->restart_left_s = job->app->restart_s;
    job->restarts++;
}

void sia_configure(struct sia_sim *sim, struct sia_job *job, uint32_t config)
{
    const struct sia_config *next = config != SIA_NONE ? &sim->world->configs[config] : NULL;
    job->config = config;
    change(sim, job, next != NULL ? next->type : SIA_NONE, next != NULL ? &next->placement : NULL);
    choose_batch(job);
}

void sia_place(struct sia_sim *sim, struct sia_job *job, uint32_t type,
               const struct sia_placement *placement, const uint32_t *nodes)
{
    change(sim, job, type, placement);
    if (type == SIA_NONE) return;
    memcpy(job->nodes, nodes, placement->node_count * sizeof *nodes);
    job->run = sia_run(job->app, type, placement, job->submission->batch);
}

/* ---- the run ---- */

static int by_submit(const void *a, const void *b)
{
    const struct sia_job *x = a, *y = b;
    if (x->submit_s != y->submit_s) return x->submit_s < y->submit_s ? -1 : 1;
    return x->submission < y->submission ? -1 : x->submission > y->submission;
}

/* Copies arrive shifted over the time between two submissions, so they do not all come at once. */
static void open_jobs(struct sia_sim *sim, const char *set, const char *workload)
{
    const struct sia_world *world = sim->world;
    sim->jobs = published_alloc((size_t)world->submission_count * sim->copies, sizeof *sim->jobs);
    for (uint32_t i = 0; i < world->submission_count; i++) {
        const struct sia_submission *s = &world->submissions[i];
        if (strcmp(s->set, set) != 0 || strcmp(s->workload, workload) != 0) continue;
        for (uint32_t copy = 0; copy < sim->copies; copy++) {
            struct sia_job *job = &sim->jobs[sim->job_count++];
            *job = (struct sia_job){.submission = s,
                                    .app = &world->apps[s->app],
                                    .submit_s = s->submit_s + copy * 900.0 / sim->copies,
                                    .config = SIA_NONE,
                                    .type = SIA_NONE};
            job->changed_s = job->submit_s;
        }
    }
    qsort(sim->jobs, sim->job_count, sizeof *sim->jobs, by_submit);
    sim->active = published_alloc(sim->job_count, sizeof *sim->active);
}

/* Of this thread: what others do on the machine is no part of a decision. */
static uint64_t cpu_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static void decide(struct sia_sim *sim, const struct sia_policy *policy, void *self)
{
    uint64_t began_us = cpu_us();
    policy->decide(sim, self);
    uint64_t took_us = cpu_us() - began_us;
    sim->rounds++;
    sim->round_us += (double)took_us;
    if (took_us > sim->round_us_max) sim->round_us_max = (uint32_t)took_us;
    sim->active_sum += sim->active_count;
    if (sim->active_count > sim->active_max) sim->active_max = sim->active_count;
    uint64_t used[SIA_TYPES] = {0};
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct sia_job *job = &sim->jobs[sim->active[i]];
        if (job->type != SIA_NONE) used[job->type] += job->placement.replicas;
    }
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        if (used[type] > sim->capacity[type]) {
            published_fail("%s gave away %u of %u %s", policy->name, (unsigned)used[type],
                           sim->capacity[type], sia_types[type].name);
        }
    }
}

static void collect(const struct sia_sim *sim, struct sia_result *result)
{
    *result = (struct sia_result){.jobs = sim->job_count,
                                  .rounds = sim->rounds,
                                  .round_us = sim->round_us,
                                  .round_us_max = sim->round_us_max,
                                  .active_sum = sim->active_sum,
                                  .active_max = sim->active_max,
                                  .jct_h = result->jct_h};
    double last_s = 0;
    for (uint32_t j = 0; j < sim->job_count; j++) {
        const struct sia_job *job = &sim->jobs[j];
        result->jct_h[j] = (job->finish_s - job->submit_s) / 3600;
        result->gpu_h += job->gpu_s / 3600;
        result->restarts += job->restarts - 1; /* the first start is none */
        last_s = fmax(last_s, job->finish_s);
    }
    result->makespan_h = (last_s - sim->jobs[0].submit_s) / 3600;
}

void sia_simulate(const struct sia_world *world, const struct sia_policy *policy, const char *set,
                  const char *workload, uint32_t copies, struct sia_result *ret_result)
{
    struct sia_sim sim = {.world = world, .round_s = policy->round_s, .copies = copies};
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        sim.capacity[type] = sia_types[type].nodes * sia_types[type].per_node * copies;
    }
    open_jobs(&sim, set, workload);
    void *self = policy->open(&sim);
    for (uint32_t next = 0; next < sim.job_count || sim.active_count > 0;) {
        for (uint32_t i = 0; i < sim.active_count; i++) step(&sim, &sim.jobs[sim.active[i]]);
        sim.now_s += sim.round_s;
        uint32_t kept = 0;
        for (uint32_t i = 0; i < sim.active_count; i++) {
            if (!sim.jobs[sim.active[i]].is_done) sim.active[kept++] = sim.active[i];
        }
        while (next < sim.job_count && sim.jobs[next].submit_s <= sim.now_s) {
            sim.active[kept++] = next++;
        }
        sim.active_count = kept;
        if (kept > 0) decide(&sim, policy, self);
        if (sim.now_s > HORIZON_S)
            published_fail("%s: %s %s does not end", policy->name, set, workload);
    }
    policy->close(self);
    collect(&sim, ret_result);
    mem_free(sim.active);
    mem_free(sim.jobs);
}
