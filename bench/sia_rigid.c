/* Rigid jobs: device count and batch are given, the type is chosen. Values of core/goodput.h with
 * the plain ratio to the best type; workers are kept while the type is kept. */
#include "base/mem.h"
#include "core/allot.h"
#include "core/goodput.h"
#include "published.h"
#include "sia_policies.h"
#include <stdlib.h>
#include <string.h>

/* Five minutes: short jobs pass. A move costs 30 % besides its restart, for
 * whoever waits meanwhile. */
static const struct goodput_rule rule = {
    .weight_s = 300, .horizon_s = 3600, .unknown_s = 300, .move_ppm = 700000};

struct rigid {
    struct allot problem;
    struct allot_job *jobs;
    struct allot_choice *choices;
    uint32_t *answer, *members, *arrivals;
    uint32_t *free_on[SIA_TYPES]; /* devices of each node */
    uint64_t prices[ALLOT_TYPES_MAX];
    void *memory;
    size_t memory_bytes;
    uint32_t window_states;
};

static void *open_rigid(struct sia_sim *sim)
{
    struct rigid *self = published_alloc(1, sizeof *self);
    self->window_states = sia_window_states(sim);
    self->jobs = published_alloc(sim->job_count, sizeof *self->jobs);
    self->answer = published_alloc(sim->job_count, sizeof *self->answer);
    self->members = published_alloc(sim->job_count, sizeof *self->members);
    self->arrivals = published_alloc(sim->job_count, sizeof *self->arrivals);
    self->choices = published_alloc((size_t)sim->job_count * SIA_TYPES, sizeof *self->choices);
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        size_t nodes = (size_t)sia_types[type].nodes * sim->copies;
        self->free_on[type] = published_alloc(nodes, sizeof *self->free_on[type]);
    }
    return self;
}

static void close_rigid(void *memory)
{
    struct rigid *self = memory;
    for (uint32_t type = 0; type < SIA_TYPES; type++) mem_free(self->free_on[type]);
    mem_free(self->jobs);
    mem_free(self->answer);
    mem_free(self->members);
    mem_free(self->arrivals);
    mem_free(self->choices);
    mem_free(self->memory);
    mem_free(self);
}

/* ---- values ---- */

static double iterations_left(const struct sia_job *job)
{
    double left = 0, done = job->progress;
    for (uint32_t e = job->epoch; e < job->app->epochs; e++) {
        struct sia_noise noise = sia_noise(job->app, job->submission->batch, e);
        left +=
            (job->app->border[e + 1] - done) / sia_gain(job->app, noise, job->submission->batch);
        done = job->app->border[e + 1];
    }
    return left;
}

void sia_rigid_rates(struct sia_job *job)
{
    if (job->best_rigid[0] > 0) return; /* once */
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        uint32_t left = job->submission->replicas;
        struct sia_placement tight = {.replicas = (uint8_t)left};
        if (left > sia_types[type].nodes * sia_types[type].per_node) continue;
        for (; left > 0; left -= tight.on_node[tight.node_count++]) {
            uint32_t most = sia_types[type].per_node;
            tight.on_node[tight.node_count] = (uint8_t)(left < most ? left : most);
        }
        struct sia_candidate run = sia_run(job->app, type, &tight, job->submission->batch);
        job->best_rigid[type] = 1 / run.iteration_s / job->app->slowdown;
    }
}

static void add_job(struct rigid *self, struct sia_job *job)
{
    uint64_t rates[SIA_TYPES];
    struct goodput_job known = {.work = (uint64_t)(iterations_left(job) * SIA_RATE_ONE),
                                .restart_s = job->app->restart_s};
    sia_rigid_rates(job);
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        rates[type] = (uint64_t)(job->best_rigid[type] * SIA_RATE_ONE);
        if (rates[type] > known.rate_best) known.rate_best = rates[type];
    }
    struct allot_job *entry = &self->jobs[self->problem.job_count];
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        uint32_t ratio = (uint32_t)(rates[type] * GOODPUT_ROOT_ONE / known.rate_best);
        self->choices[entry->first + entry->count++] = (struct allot_choice){
            .type = type,
            .count = job->submission->replicas,
            .value = goodput_value(&rule, &known, rates[type], ratio, type == job->type)};
    }
}

/* ---- nodes ---- */

static void take(struct rigid *self, const struct sia_job *job)
{
    for (uint32_t i = 0; i < job->placement.node_count; i++) {
        uint32_t *left = &self->free_on[job->type][job->nodes[i]];
        if (*left < job->placement.on_node[i]) published_fail("a node is used twice");
        *left -= job->placement.on_node[i];
    }
}

/* The tightest node that holds all; else the emptiest, and again for the rest. */
static void place(struct sia_sim *sim, struct rigid *self, struct sia_job *job, uint32_t type)
{
    struct sia_placement placement = {.replicas = (uint8_t)job->submission->replicas};
    uint32_t nodes[SIA_NODES_MAX], left = job->submission->replicas;
    uint32_t node_count = sia_types[type].nodes * sim->copies;
    while (left > 0) {
        uint32_t best = 0;
        for (uint32_t n = 1; n < node_count; n++) {
            uint32_t room = self->free_on[type][n], held = self->free_on[type][best];
            bool better = held >= left ? room >= left && room < held : room > held;
            if (better) best = n;
        }
        uint32_t room = self->free_on[type][best], here = room < left ? room : left;
        if (here == 0) published_fail("no room on nodes that were counted free");
        self->free_on[type][best] -= here;
        nodes[placement.node_count] = best;
        placement.on_node[placement.node_count++] = (uint8_t)here;
        left -= here;
    }
    sia_place(sim, job, type, &placement, nodes);
}

/* Largest first, then oldest first. */
static void place_all(struct sia_sim *sim, struct rigid *self, uint32_t count)
{
    for (uint32_t size = SIA_NODES_MAX; size > 0; size--) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t j = self->arrivals[i];
            struct sia_job *job = &sim->jobs[self->members[j]];
            if (job->submission->replicas == size) place(sim, self, job, self->answer[j]);
        }
    }
}

static void apply(struct sia_sim *sim, struct rigid *self)
{
    uint32_t arrivals = 0;
    for (uint32_t j = 0; j < self->problem.job_count; j++) {
        struct sia_job *job = &sim->jobs[self->members[j]];
        if (self->answer[j] == ALLOT_NONE) {
            sia_place(sim, job, SIA_NONE, NULL, NULL);
        } else if (self->answer[j] == job->type) {
            take(self, job);
        } else {
            self->arrivals[arrivals++] = j;
        }
    }
    place_all(sim, self, arrivals);
}

static void decide(struct sia_sim *sim, void *memory)
{
    struct rigid *self = memory;
    self->problem =
        (struct allot){.type_count = SIA_TYPES, .jobs = self->jobs, .choices = self->choices};
    memcpy(self->problem.capacity, sim->capacity, sizeof sim->capacity);
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        for (uint32_t n = 0; n < sia_types[type].nodes * sim->copies; n++) {
            self->free_on[type][n] = sia_types[type].per_node;
        }
    }
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct sia_job *job = &sim->jobs[sim->active[i]];
        if (job->type != SIA_NONE && job->restart_left_s > 0) {
            self->problem.capacity[job->type] -= job->placement.replicas;
            take(self, job);
            continue;
        }
        self->jobs[self->problem.job_count] =
            (struct allot_job){.first = self->problem.job_count * SIA_TYPES};
        add_job(self, job);
        self->members[self->problem.job_count++] = sim->active[i];
    }
    size_t bytes = allot_price_size(&self->problem, self->window_states);
    if (bytes > self->memory_bytes) {
        mem_free(self->memory);
        self->memory = published_alloc(bytes, 1);
        self->memory_bytes = bytes;
    }
    struct allot_answer answer;
    if (!allot_price(&self->problem, self->window_states, self->prices, self->memory,
                     self->memory_bytes, self->answer, &answer)) {
        published_fail("the choice of types does not fit its memory");
    }
    apply(sim, self);
}

const struct sia_policy sia_shoal_rigid = {.name = "shoal_rigid",
                                           .is_rigid = true,
                                           .round_s = 60,
                                           .open = open_rigid,
                                           .decide = decide,
                                           .close = close_rigid};
