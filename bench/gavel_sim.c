#include "gavel_sim.h"
#include "base/clock.h"
#include "base/mem.h"
#include "published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct gavel_sim sim;
    const struct gavel_stream *stream;
    double gap_s;  /* mean gap; 0: all at once */
    uint64_t next; /* job to arrive */
    double next_s;
    uint64_t first, end; /* measured */
    uint64_t to_finish;
    double *jct_h, *ftf; /* [end - first] */
    int64_t decide_us;
    bool changed;
};

static void arrive(struct run *run)
{
    struct gavel_sim *sim = &run->sim;
    while (run->next_s <= sim->now_s && sim->active_count < ACTIVE_MAX) {
        const struct stream_row *row = &run->stream->rows[run->next % run->stream->count];
        struct gavel_job *job = &sim->active[sim->active_count++];
        *job = (struct gavel_job){
            .profile = row->profile,
            .width = sim->world->profile[row->profile].width,
            .number = run->next,
            .steps = row->steps,
            .left = row->steps,
            .arrival_s = run->next_s,
            .started_s = -1,
            .type = NOWHERE,
            .partner = NOWHERE,
        };
        run->changed = true;
        run->next++;
        run->next_s += row->gap * run->gap_s;
        if (run->gap_s == 0 && run->next == run->end) run->next_s = INFINITY;
    }
}

static double rate_of(const struct gavel_sim *sim, const struct gavel_job *job)
{
    const struct gavel_world *world = sim->world;
    if (job->partner == NOWHERE) return world->profile[job->profile].rate[job->type];
    size_t row = (size_t)job->type * world->profiles + job->profile;
    return world->beside[row * world->profiles + sim->active[job->partner].profile];
}

/* Runs one job for the round; returns how long it ran. */
static double run_job(struct gavel_sim *sim, struct gavel_job *job)
{
    double rate = rate_of(sim, job);
    double steps = floor(rate * ROUND_S);
    if (job->started_s < 0) job->started_s = sim->now_s;
    if (steps > job->left) steps = job->left;
    job->left -= steps;
    job->attained_s += steps / sim->world->profile[job->profile].norm;
    double took_s = rate > 0 ? steps / rate : 0;
    if (job->left <= 0) job->finish_s = sim->now_s + took_s;
    return took_s;
}

static void count_shares(struct gavel_sim *sim, double took_s)
{
    double wanted = 0;
    double devices = 0;
    for (uint32_t i = 0; i < sim->active_count; i++) wanted += sim->active[i].width;
    for (uint32_t type = 0; type < sim->world->types; type++) devices += sim->capacity[type];
    double share = wanted > devices ? devices / wanted : 1;
    for (uint32_t i = 0; i < sim->active_count; i++) sim->active[i].share_s += share * took_s;
}

static void finish(struct run *run, const struct gavel_job *job)
{
    if (run->sim.policy->ended != NULL) run->sim.policy->ended(&run->sim, job);
    if (job->number < run->first || job->number >= run->end) return;
    uint64_t place = job->number - run->first;
    double jct_s = job->finish_s - job->arrival_s;
    double share = jct_s > 0 ? job->share_s / (run->sim.now_s - job->arrival_s) : 1;
    run->jct_h[place] = jct_s / 3600;
    run->ftf[place] = jct_s / (job->steps / (run->sim.world->profile[job->profile].mean * share));
    run->to_finish--;
}

/* Those that ended go; the order of arrival stays, partners are renamed. */
static void collect(struct run *run)
{
    struct gavel_sim *sim = &run->sim;
    uint32_t kept = 0;
    static uint32_t place[ACTIVE_MAX];
    for (uint32_t i = 0; i < sim->active_count; i++) {
        bool ended = sim->active[i].left <= 0;
        if (ended) finish(run, &sim->active[i]);
        run->changed = run->changed || ended;
        place[i] = ended ? NOWHERE : kept;
        if (!ended) sim->active[kept++] = sim->active[i];
    }
    sim->active_count = kept;
    for (uint32_t i = 0; i < kept; i++)
        if (sim->active[i].partner != NOWHERE)
            sim->active[i].partner = place[sim->active[i].partner];
}

static void decide(struct run *run)
{
    struct gavel_sim *sim = &run->sim;
    bool due = run->changed || sim->policy->every_round;
    if (!due || sim->now_s - sim->decided_s < sim->policy->refresh_s) return;
    int64_t started_us = clock_monotonic_us();
    sim->policy->decide(sim);
    run->decide_us += clock_monotonic_us() - started_us;
    sim->decided_s = sim->now_s;
    sim->decisions++;
    run->changed = false;
}

static void check_room(const struct gavel_sim *sim)
{
    uint32_t used[TYPES_MAX] = {0};
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct gavel_job *job = &sim->active[i];
        if (job->type == NOWHERE || (job->partner != NOWHERE && job->partner < i)) continue;
        used[job->type] += job->width;
    }
    for (uint32_t type = 0; type < sim->world->types; type++)
        if (used[type] > sim->capacity[type])
            published_fail("gavel: %s: more devices used than there are", sim->policy->name);
}

static void run_round(struct run *run)
{
    struct gavel_sim *sim = &run->sim;
    double took_s = 0;
    decide(run);
    check_room(sim);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        if (sim->active[i].type == NOWHERE) continue;
        double job_s = run_job(sim, &sim->active[i]);
        if (job_s > took_s) took_s = job_s;
    }
    if (took_s <= 0) took_s = ROUND_S;
    sim->now_s += took_s;
    count_shares(sim, took_s);
    collect(run);
    sim->rounds++;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(struct run *run, struct gavel_result *result)
{
    uint64_t count = run->end - run->first;
    for (uint64_t i = 0; i < count; i++) {
        result->jct_mean_h += run->jct_h[i] / (double)count;
        result->ftf_mean += run->ftf[i] / (double)count;
    }
    qsort(run->jct_h, count, sizeof *run->jct_h, by_value);
    result->jct_p99_h = run->jct_h[(size_t)floor(0.99 * (double)count)];
    result->jct_max_h = run->jct_h[count - 1];
    result->makespan_h = run->sim.now_s / 3600;
    result->decide_us =
        run->sim.decisions > 0 ? (double)run->decide_us / (double)run->sim.decisions : 0;
}

void gavel_run(const struct gavel_world *world, const struct gavel_stream *stream,
               const struct gavel_policy *policy, double jobs_per_hour, uint32_t count,
               struct gavel_result *ret_result)
{
    struct run run = {.stream = stream, .gap_s = jobs_per_hour > 0 ? 3600 / jobs_per_hour : 0};
    struct gavel_sim *sim = &run.sim;
    int64_t started_us = clock_monotonic_us();
    memset(ret_result, 0, sizeof *ret_result);
    run.first = jobs_per_hour > 0 ? WINDOW_FIRST : 0;
    run.end = jobs_per_hour > 0 ? WINDOW_END : count;
    run.to_finish = run.end - run.first;
    run.jct_h = published_alloc(run.to_finish, sizeof *run.jct_h);
    run.ftf = published_alloc(run.to_finish, sizeof *run.ftf);
    *sim = (struct gavel_sim){.world = world, .policy = policy, .decided_s = -INFINITY};
    for (uint32_t type = 0; type < world->types; type++) sim->capacity[type] = DEVICES_PER_TYPE;
    sim->active = published_alloc(ACTIVE_MAX, sizeof *sim->active);
    sim->state = policy->open(sim);
    while (run.to_finish > 0 && sim->active_count < ACTIVE_MAX && run.next < ARRIVALS_MAX) {
        arrive(&run);
        if (sim->active_count == 0) {
            sim->now_s = run.next_s;
            continue;
        }
        run_round(&run);
    }
    ret_result->gave_up = run.to_finish > 0;
    if (!ret_result->gave_up) sum_up(&run, ret_result);
    policy->close(sim);
    mem_free(sim->active);
    mem_free(run.jct_h);
    mem_free(run.ftf);
    ret_result->wall_s = (double)(clock_monotonic_us() - started_us) / 1e6;
}
