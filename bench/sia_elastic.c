/* Policies for elastic jobs: Shoal's (values of core/goodput.h, choice of core/allot.h) in three
 * states of knowledge, and Sia's objective with the same solver and the same knowledge. */
#include "base/mem.h"
#include "core/allot.h"
#include "core/goodput.h"
#include "published.h"
#include "sia_policies.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNFINISHED_S 14400.0 /* an application no job of which is done is taken for a long one */

static const struct goodput_rule rule = {
    .weight_s = 7200, .horizon_s = 600, .unknown_s = 7200, .move_ppm = 1000000};

enum knowledge { KNOWN, PREDICTED, SHARED, SIA };

struct elastic {
    enum knowledge kind;
    struct allot problem;
    struct allot_job *jobs;
    struct allot_choice *choices;
    uint32_t *configs, *answer, *members; /* of each choice; of each job in the problem */
    uint64_t prices[ALLOT_TYPES_MAX];
    void *memory;
    size_t memory_bytes;
    uint32_t window_states;
    uint32_t devices_most[SIA_APPS]; /* SHARED: of all jobs of the application */
    struct sia_noise first_noise[SIA_APPS];
    bool has_noise[SIA_APPS];
};

static struct elastic *open_kind(struct sia_sim *sim, enum knowledge kind)
{
    struct elastic *self = published_alloc(1, sizeof *self);
    self->window_states = sia_window_states(sim);
    self->kind = kind;
    self->jobs = published_alloc(sim->job_count, sizeof *self->jobs);
    self->answer = published_alloc(sim->job_count, sizeof *self->answer);
    self->members = published_alloc(sim->job_count, sizeof *self->members);
    size_t choices = (size_t)sim->job_count * sim->world->config_count;
    self->choices = published_alloc(choices, sizeof *self->choices);
    self->configs = published_alloc(choices, sizeof *self->configs);
    return self;
}

static void *open_known(struct sia_sim *sim)
{
    return open_kind(sim, KNOWN);
}
static void *open_predicted(struct sia_sim *sim)
{
    return open_kind(sim, PREDICTED);
}
static void *open_shared(struct sia_sim *sim)
{
    return open_kind(sim, SHARED);
}
static void *open_sia(struct sia_sim *sim)
{
    return open_kind(sim, SIA);
}

static void close_elastic(void *memory)
{
    struct elastic *self = memory;
    mem_free(self->jobs);
    mem_free(self->answer);
    mem_free(self->members);
    mem_free(self->choices);
    mem_free(self->configs);
    mem_free(self->memory);
    mem_free(self);
}

/* ---- what is known ---- */

static uint32_t devices_limit(const struct elastic *self, const struct sia_job *job)
{
    uint32_t most = job->devices_most;
    if (self->kind == SHARED && self->devices_most[job->submission->app] > most) {
        most = self->devices_most[job->submission->app];
    }
    return 2 * most;
}

static void refresh_rates(const struct sia_sim *sim, struct sia_job *job, struct sia_noise noise)
{
    for (uint32_t c = 0; c < sim->world->config_count; c++) {
        struct sia_candidate run = sia_best(job->app, c, noise);
        job->rates[c] = (uint64_t)(sia_rate(job->app, noise, run) * SIA_RATE_ONE);
    }
    job->is_stale = false;
    job->rooted_least = 0;
}

static void share_profiles(struct sia_sim *sim, struct elastic *self)
{
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct sia_job *job = &sim->jobs[sim->active[i]];
        uint32_t app = job->submission->app;
        if (!job->has_run) continue;
        if (job->devices_most > self->devices_most[app])
            self->devices_most[app] = job->devices_most;
        if (job->epoch > 0 && self->has_noise[app]) continue;
        self->first_noise[app] = job->noise;
        self->has_noise[app] = true;
    }
}

/* True when the job's rates are known; job->rates[] are up to date then. */
static bool know_rates(const struct sia_sim *sim, const struct elastic *self, struct sia_job *job)
{
    uint32_t app = job->submission->app;
    if (job->has_run) {
        if (job->is_stale) refresh_rates(sim, job, job->noise);
        return true;
    }
    if (self->kind != SHARED || !self->has_noise[app]) return false;
    refresh_rates(sim, job, self->first_noise[app]);
    return true;
}

/* Predicted: as much as finished jobs of the application did on average, and a tenth of itself for
 * a job beyond that; before one has finished, as much again as the job has done, four hours at
 * least. */
static double work_left(const struct sia_sim *sim, const struct elastic *self,
                        const struct sia_job *job, uint64_t rate_best)
{
    if (self->kind != PREDICTED) return sia_work_left(job);
    uint32_t app = job->submission->app;
    if (sim->finished[app] > 0) {
        double mean = sim->finished_work[app] / sim->finished[app];
        if (mean > job->progress) return mean - job->progress;
        return job->progress / 10;
    }
    return fmax(job->progress, UNFINISHED_S * (double)rate_best / SIA_RATE_ONE);
}

/* ---- values ---- */

static void add_choice(struct elastic *self, const struct sia_sim *sim, uint32_t config,
                       uint32_t value)
{
    struct allot_job *job = &self->jobs[self->problem.job_count];
    uint32_t at = job->first + job->count++;
    self->choices[at] = (struct allot_choice){.type = sim->world->configs[config].type,
                                              .count = sim->world->configs[config].count,
                                              .value = value};
    self->configs[at] = config;
}

static void add_unknown(struct elastic *self, const struct sia_sim *sim)
{
    uint32_t value = self->kind == SIA ? 100 : goodput_value_unknown(&rule);
    for (uint32_t c = 0; c < sim->world->config_count; c++) {
        if (sim->world->configs[c].count == 1) add_choice(self, sim, c, value);
    }
}

/* 1.1 - (g * r)^-0.5 to two decimals, in thousandths; r prices a change by the age of the job. */
static uint32_t sia_value(const struct sia_sim *sim, const struct sia_job *job, uint32_t config,
                          uint64_t least)
{
    double g = (double)job->rates[config] / (double)least, r = 1;
    if (config != job->config) {
        double age = sim->now_s - job->submit_s, restart = job->app->sia_restart_s;
        uint32_t restarts = job->restarts > 0 ? job->restarts - 1 : 0;
        r = (age - restarts * restart) / (age + restart);
    }
    if (g * r <= 0) return 0;
    double value = 1100 - 10 * round(100 / sqrt(g * r));
    return value > 0 ? (uint32_t)value : 0;
}

/* Only when the noise or what is permitted has changed. */
static void refresh_roots(const struct sia_sim *sim, struct sia_job *job, uint64_t least)
{
    if (job->rooted_least == least) return;
    for (uint32_t c = 0; c < sim->world->config_count; c++) {
        job->roots[c] = goodput_root(job->rates[c], least);
    }
    job->rooted_least = least;
}

static void add_known(struct elastic *self, const struct sia_sim *sim, struct sia_job *job)
{
    uint32_t limit = devices_limit(self, job);
    uint64_t least = UINT64_MAX, best = 0;
    for (uint32_t c = 0; c < sim->world->config_count; c++) {
        if (sim->world->configs[c].count > limit) continue;
        if (job->rates[c] < least) least = job->rates[c];
        if (job->rates[c] > best) best = job->rates[c];
    }
    struct goodput_job known = {.rate_best = best,
                                .restart_s = job->app->restart_s,
                                .since_change_s = (int64_t)(sim->now_s - job->changed_s)};
    refresh_roots(sim, job, least);
    known.work = (uint64_t)(work_left(sim, self, job, best) * SIA_RATE_ONE);
    for (uint32_t c = 0; c < sim->world->config_count; c++) {
        if (sim->world->configs[c].count > limit) continue;
        uint32_t value =
            self->kind == SIA
                ? sia_value(sim, job, c, least)
                : goodput_value(&rule, &known, job->rates[c], job->roots[c],
                                c == job->config || (!job->has_run && job->config == SIA_NONE));
        add_choice(self, sim, c, value);
    }
}

/* ---- a round ---- */

static void solve(struct elastic *self)
{
    size_t bytes = allot_price_size(&self->problem, self->window_states);
    if (bytes == 0) published_fail("too many jobs for prices");
    if (bytes > self->memory_bytes) {
        mem_free(self->memory);
        self->memory = published_alloc(bytes, 1);
        self->memory_bytes = bytes;
    }
    struct allot_answer answer;
    if (!allot_price(&self->problem, self->window_states, self->prices, self->memory,
                     self->memory_bytes, self->answer, &answer)) {
        published_fail("the choice of configurations does not fit its memory");
    }
}

static void decide(struct sia_sim *sim, void *memory)
{
    struct elastic *self = memory;
    self->problem =
        (struct allot){.type_count = SIA_TYPES, .jobs = self->jobs, .choices = self->choices};
    memcpy(self->problem.capacity, sim->capacity, sizeof sim->capacity);
    if (self->kind == SHARED) share_profiles(sim, self);
    uint32_t first = 0;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct sia_job *job = &sim->jobs[sim->active[i]];
        if (job->type != SIA_NONE && job->restart_left_s > 0) {
            self->problem.capacity[job->type] -= job->placement.replicas;
            continue;
        }
        uint32_t j = self->problem.job_count;
        self->jobs[j] = (struct allot_job){.first = first};
        if (know_rates(sim, self, job)) {
            add_known(self, sim, job);
        } else {
            add_unknown(self, sim);
        }
        first += self->jobs[j].count;
        self->members[self->problem.job_count++] = sim->active[i];
    }
    solve(self);
    for (uint32_t j = 0; j < self->problem.job_count; j++) {
        uint32_t c = self->answer[j];
        sia_configure(sim, &sim->jobs[self->members[j]],
                      c == ALLOT_NONE ? SIA_NONE : self->configs[self->jobs[j].first + c]);
    }
}

const struct sia_policy sia_shoal = {
    .name = "shoal", .round_s = 60, .open = open_known, .decide = decide, .close = close_elastic};
const struct sia_policy sia_shoal_predicted = {.name = "shoal_predicted",
                                               .round_s = 60,
                                               .open = open_predicted,
                                               .decide = decide,
                                               .close = close_elastic};
const struct sia_policy sia_shoal_shared = {.name = "shoal_shared",
                                            .round_s = 60,
                                            .open = open_shared,
                                            .decide = decide,
                                            .close = close_elastic};
const struct sia_policy sia_sia = {
    .name = "sia", .round_s = 60, .open = open_sia, .decide = decide, .close = close_elastic};
