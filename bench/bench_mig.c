/* Instances of partitioned devices that come and go: how many more start when those in the way move.
 *
 * A drawn stream on 32 A100-80GB in 8 owned nodes, through pool_step(): exponential arrivals and lifetimes
 * (two hours on average), most of them small profiles; the slices asked for come to LOAD_PERCENT of all. A
 * job that has not started PATIENCE_S after it came leaves. A job that is moved begins anew: all its work is
 * done again. The peer is the same pool with the same stream, whose class may not be preempted: nothing moves.
 */
#include "base/mem.h"
#include "core/pool.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 5,
    JOBS = 3000,
    NODES = 8,
    DEVICES = 4,
    SLICES = 8,
    LIFE_S = 7200,
    LIFE_LEAST_S = 600,
    PATIENCE_S = 900,
    LOAD_PERCENT = 90,
    ANSWERS_MAX = 4096
};
#define SECOND_US INT64_C(1000000)
#define START_US  INT64_C(1000000000000)
#define LONG_US   (INT64_C(10000) * 86400 * SECOND_US)

struct profile {
    uint32_t compute, slices, percent;
};
static const struct profile profiles[] = {
    {1, 1, 45}, {2, 2, 25}, {3, 4, 15}, {4, 4, 10}, {7, 8, 5}};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

struct job {
    int64_t come_us, life_us, end_us; /* end_us 0: it does not run */
    uint64_t node_key, worker_id;
    uint32_t profile;
    bool started, over;
};

struct world {
    pool *p;
    struct pool_output out;
    uint64_t seq, random;
    int64_t now_us;
    struct job jobs[JOBS];
    uint32_t came, first_open, answer_count;
    struct pool_event answers[ANSWERS_MAX];
    uint64_t moves;
    int64_t worked_us, redone_us; /* slices times time; of that, done again */
};

static double draw(struct world *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(w->random >> 11) + 0.5) / 9007199254740992.0;
}

static void answer(struct world *w, struct pool_event event)
{
    if (w->answer_count == ANSWERS_MAX) abort();
    w->answers[w->answer_count++] = event;
}

static void report(struct world *w, const struct pool_command *c, uint32_t phase)
{
    answer(w, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                  .u.worker_reported = {.node_key = c->node_key,
                                                        .job_id = c->job_id,
                                                        .worker_id = c->worker_id,
                                                        .phase = phase}});
}

static void raise_node(struct world *w, uint64_t node_key)
{
    answer(w, (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED,
                                  .u.node_observed = {.node_key = node_key,
                                                      .phase = NODE_PHASE_UP,
                                                      .billed_usd_micros = -1}});
    answer(w, (struct pool_event){
                  .kind = POOL_EVENT_AGENT_REPORTED,
                  .u.agent_reported = {.node_key = node_key, .phase = AGENT_PHASE_JOINED}});
}

static void start_worker(struct world *w, const struct pool_command *c)
{
    struct job *job = &w->jobs[c->job_id - 1];
    if (job->worker_id == c->worker_id || job->over) return;
    job->started = true;
    job->node_key = c->node_key;
    job->worker_id = c->worker_id;
    job->end_us = w->now_us + job->life_us;
    report(w, c, WORKER_PHASE_RUNNING);
}

static void stop_worker(struct world *w, const struct pool_command *c)
{
    struct job *job = &w->jobs[c->job_id - 1];
    if (job->worker_id == c->worker_id && job->end_us != 0 && !job->over) {
        int64_t lost_us =
            (w->now_us - (job->end_us - job->life_us)) * (int64_t)profiles[job->profile].slices;
        w->redone_us += lost_us;
        w->worked_us += lost_us;
        w->moves++;
        job->end_us = 0;
    }
    report(w, c, WORKER_PHASE_STOPPED);
}

static void step(struct world *w, struct pool_event event)
{
    event.seq = ++w->seq;
    event.version = POOL_CORE_VERSION;
    event.now_us = w->now_us;
    if (pool_event_check(&event) != NULL) abort();
    pool_step(w->p, &event, &w->out);
    for (uint32_t i = 0; i < w->out.command_count; i++) {
        const struct pool_command *c = &w->out.commands[i];
        if (c->kind == POOL_COMMAND_ENSURE_NODE || c->kind == POOL_COMMAND_OBSERVE_NODE)
            raise_node(w, c->node_key);
        if (c->kind == POOL_COMMAND_ENSURE_WORKER) start_worker(w, c);
        if (c->kind == POOL_COMMAND_STOP_WORKER) stop_worker(w, c);
    }
}

static void settle(struct world *w)
{
    while (w->answer_count > 0 || pool_next_wake_us(w->p) <= w->now_us) {
        struct pool_event next = {.kind = POOL_EVENT_TICK};
        if (w->answer_count > 0) {
            next = w->answers[0];
            memmove(w->answers, w->answers + 1, --w->answer_count * sizeof w->answers[0]);
        }
        step(w, next);
    }
}

static void draw_jobs(struct world *w)
{
    double slices = 0, at_s = 0;
    for (uint32_t i = 0; i < PROFILES; i++)
        slices += profiles[i].percent * profiles[i].slices / 100.0;
    double every_s =
        (LIFE_LEAST_S + LIFE_S) * slices * 100.0 / LOAD_PERCENT / (NODES * DEVICES * SLICES);
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job *job = &w->jobs[i];
        double pick = draw(w) * 100;
        at_s -= log(draw(w)) * every_s;
        *job = (struct job){.come_us = START_US + (int64_t)(at_s * 1e6),
                            .life_us = (int64_t)((LIFE_LEAST_S - log(draw(w)) * LIFE_S) * 1e6)};
        while (job->profile + 1 < PROFILES && pick >= profiles[job->profile].percent)
            pick -= profiles[job->profile++].percent;
    }
}

static void open_pool(struct world *w, bool moves)
{
    struct pool_config config;
    pool_config_default(&config);
    config.limits.nodes_max = NODES;
    config.limits.jobs_max = 1024;
    config.limits.leases_max = 1024;
    config.agent_lease_us = config.idle_release_us = config.boot_timeout_us = LONG_US / 100;
    size_t bytes = pool_size(&config.limits);
    void *memory = mem_alloc(bytes);
    if (memory == NULL) abort();
    w->p = pool_init(memory, bytes, &config);
    step(w, (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                .u.model_defined = {.ncu_milli = 1600,
                                                    .vram_mib = 81920,
                                                    .capability_mask = 1,
                                                    .mig_slices = SLICES}});
    step(w, (struct pool_event){.kind = POOL_EVENT_CLASS_DEFINED,
                                .u.class_defined = {.job_class = JOB_CLASS_P2,
                                                    .burst_ppm = 1000000,
                                                    .preemptible = moves,
                                                    .queues = 1}});
    step(w, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                                .u.offer_changed = {.offer_id = 1,
                                                    .provider = 1,
                                                    .region = 1,
                                                    .zone = 1,
                                                    .capacity = CAPACITY_OWNED,
                                                    .device_count = DEVICES,
                                                    .stock_count = NODES}});
}

static void come(struct world *w)
{
    const struct job *job = &w->jobs[w->came++];
    struct pool_event terms = {.kind = POOL_EVENT_TERMS_DEFINED};
    terms.u.terms_defined.terms_id = 1 + job->profile;
    terms.u.terms_defined.terms.mig_profile = profiles[job->profile].compute;
    step(w, terms);
    step(w, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                .u.job_submitted = {.job_id = w->came,
                                                    .spec_hash = w->came,
                                                    .capability_mask = 1,
                                                    .devices_min = 1,
                                                    .devices_max = 1,
                                                    .tenant = 1,
                                                    .terms_id = 1 + job->profile,
                                                    .job_class = JOB_CLASS_P2,
                                                    .kind = JOB_KIND_BATCH}});
}

/* When it ends, or leaves because it has waited too long. */
static int64_t due_us(const struct job *job)
{
    if (job->over) return INT64_MAX;
    if (job->end_us != 0) return job->end_us;
    return job->started ? INT64_MAX : job->come_us + PATIENCE_S * SECOND_US;
}

static void end(struct world *w, uint32_t at)
{
    struct job *job = &w->jobs[at];
    job->over = true;
    if (job->end_us == 0) {
        step(w, (struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED,
                                    .u.job_cancelled = {.job_id = at + 1}});
        return;
    }
    w->worked_us += job->life_us * (int64_t)profiles[job->profile].slices;
    step(w, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                .u.worker_reported = {.node_key = job->node_key,
                                                      .job_id = at + 1,
                                                      .worker_id = job->worker_id,
                                                      .phase = WORKER_PHASE_FINISHED,
                                                      .step = 1}});
}

static void run(struct world *w, uint64_t seed, bool moves)
{
    memset(w, 0, sizeof *w);
    w->random = seed;
    w->now_us = START_US;
    draw_jobs(w);
    open_pool(w, moves);
    for (;;) {
        while (w->first_open < w->came && w->jobs[w->first_open].over) w->first_open++;
        int64_t next_us = w->came < JOBS ? w->jobs[w->came].come_us : INT64_MAX;
        uint32_t due = JOBS;
        for (uint32_t i = w->first_open; i < w->came; i++) {
            if (due_us(&w->jobs[i]) >= next_us) continue;
            next_us = due_us(&w->jobs[i]);
            due = i;
        }
        if (next_us == INT64_MAX) return;
        int64_t wake_us = pool_next_wake_us(w->p);
        if (wake_us < next_us) {
            w->now_us = wake_us > w->now_us ? wake_us : w->now_us;
        } else {
            w->now_us = next_us;
            if (due < JOBS)
                end(w, due);
            else
                come(w);
        }
        settle(w);
    }
}

int main(void)
{
    static struct world w;
    uint64_t admitted[2] = {0}, large[2] = {0}, moves = 0;
    int64_t worked_us = 0, redone_us = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (uint32_t movable = 0; movable < 2; movable++) {
            run(&w, seed, movable);
            for (uint32_t i = 0; i < JOBS; i++) {
                admitted[movable] += w.jobs[i].started;
                large[movable] += w.jobs[i].started && profiles[w.jobs[i].profile].slices == 4;
            }
            mem_free(w.p);
            if (!movable) continue;
            moves += w.moves;
            worked_us += w.worked_us;
            redone_us += w.redone_us;
        }
    const char *names[] = {"mig_admitted", "mig_admitted_3g_4g"};
    const uint64_t *counts[] = {admitted, large};
    for (uint32_t i = 0; i < 2; i++)
        (void)printf("{\"name\": \"%s\", \"value\": %llu, \"unit\": \"jobs of %d\", \"peer\": "
                     "\"nothing moves\", \"peer_value\": %llu, \"ratio\": %.3f, \"better\": "
                     "\"higher\", \"moves\": %llu, \"redone_pct\": %.2f}\n",
                     names[i], (unsigned long long)counts[i][1], SEEDS * JOBS,
                     (unsigned long long)counts[i][0], (double)counts[i][1] / (double)counts[i][0],
                     (unsigned long long)moves, 100.0 * (double)redone_us / (double)worked_us);
    return 0;
}
