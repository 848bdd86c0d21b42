/* shoal_pool: the pool itself, of 11 owned nodes, given elastic jobs of 1 to 16 devices.
 *
 * Told       Each application's speed on one device of each type, as declared rates. Jobs come and end at a
 *            round's start, are told one by one, and a second later where their workers are is where they
 *            run. Nodes come up and workers stop at once: what a change costs is the simulator's restart.
 * Runs on    A job that holds devices of several types runs on those it has most of; of these on the
 *            largest configuration (sia_world.configs) that they make. The others stay idle in its hands.
 */
#include "base/mem.h"
#include "core/pool.h"
#include "core/view.h"
#include "published.h"
#include "sia_policies.h"
#include <string.h>

enum { NCU_MILLI = 1000, DEVICES_MOST = 16, ANSWERS_MAX = 4096, JOBS_SPARE = 1024 };
#define START_US  INT64_C(1000000000000)
#define SECOND_US INT64_C(1000000)
#define YEARS_US  INT64_C(500000000000000)

struct state {
    pool *p;
    void *memory;
    struct pool_output out;
    uint64_t seq;
    int64_t now_us;
    uint32_t told, answer_count; /* jobs before `told` are known to the pool */
    bool *has_ended;             /* [job_count]: the pool knows that it is done */
    uint32_t (*held)[SIA_TYPES]; /* [job_count] */
    struct pool_event answers[ANSWERS_MAX];
};

static void answer(struct state *s, struct pool_event event)
{
    if (s->answer_count == ANSWERS_MAX) published_fail("sia: too many answers at once");
    s->answers[s->answer_count++] = event;
}

static void obey(struct state *s, const struct pool_command *c)
{
    if (c->kind == POOL_COMMAND_ENSURE_NODE || c->kind == POOL_COMMAND_OBSERVE_NODE) {
        answer(s, (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED,
                                      .u.node_observed = {.node_key = c->node_key,
                                                          .phase = NODE_PHASE_UP,
                                                          .billed_usd_micros = -1}});
        answer(s, (struct pool_event){
                      .kind = POOL_EVENT_AGENT_REPORTED,
                      .u.agent_reported = {.node_key = c->node_key, .phase = AGENT_PHASE_JOINED}});
    } else if (c->kind == POOL_COMMAND_STOP_WORKER) {
        answer(s, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                      .u.worker_reported = {.node_key = c->node_key,
                                                            .job_id = c->job_id,
                                                            .worker_id = c->worker_id,
                                                            .phase = WORKER_PHASE_STOPPED}});
    }
}

static void step(struct state *s, struct pool_event event)
{
    event.seq = ++s->seq;
    event.now_us = s->now_us;
    event.version = POOL_CORE_VERSION;
    const char *trouble = pool_event_check(&event);
    if (trouble != NULL) published_fail("sia: %s", trouble);
    pool_step(s->p, &event, &s->out);
    for (uint32_t i = 0; i < s->out.command_count; i++) obey(s, &s->out.commands[i]);
}

/* Until the pool has nothing more to do now. */
static void settle(struct state *s)
{
    while (s->answer_count > 0 || pool_next_wake_us(s->p) <= s->now_us) {
        struct pool_event event = {.kind = POOL_EVENT_TICK};
        if (s->answer_count > 0) {
            event = s->answers[0];
            memmove(s->answers, s->answers + 1, --s->answer_count * sizeof event);
        }
        step(s, event);
    }
}

static void define_type(struct state *s, uint32_t type, uint32_t copies)
{
    step(s, (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                .u.model_defined = {.model = type,
                                                    .ncu_milli = NCU_MILLI,
                                                    .vram_mib = 16384,
                                                    .capability_mask = 1}});
    step(s,
         (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                             .u.offer_changed = {.offer_id = 1 + type,
                                                 .usd_micros_per_hour = SECOND_US,
                                                 .on_demand_usd_micros_per_hour = SECOND_US,
                                                 .provider = 1,
                                                 .region = 1,
                                                 .zone = 1,
                                                 .model = type,
                                                 .capacity = CAPACITY_OWNED,
                                                 .device_count = sia_types[type].per_node,
                                                 .stock_count = sia_types[type].nodes * copies}});
}

static void declare_rates(struct state *s, const struct sia_world *world)
{
    for (uint32_t app = 0; app < SIA_APPS; app++) {
        for (uint32_t c = 0; c < world->config_count; c++) {
            const struct sia_app *of = &world->apps[app];
            if (world->configs[c].count != 1 || of->epochs == 0) continue;
            struct sia_noise noise = sia_noise(of, of->base_batch, 0);
            double rate = sia_rate(of, noise, sia_best(of, c, noise));
            step(s, (struct pool_event){.kind = POOL_EVENT_RATE_TOLD,
                                        .u.rate_told = {.work_id = 1 + app,
                                                        .model = world->configs[c].type,
                                                        .source = RATE_DECLARED,
                                                        .rate_micro = 1 + (uint64_t)(rate * 1e6)}});
        }
    }
}

static void *open_pool(struct sia_sim *sim)
{
    struct state *s = published_alloc(1, sizeof *s);
    struct pool_config config;
    uint32_t devices = 0;
    for (uint32_t type = 0; type < SIA_TYPES; type++) devices += sim->capacity[type];
    pool_config_default(&config);
    config.limits = (struct pool_limits){.nodes_max = devices,
                                         .jobs_max = sim->job_count + JOBS_SPARE,
                                         .offers_max = SIA_TYPES,
                                         .models_max = SIA_TYPES,
                                         .pools_max = 1,
                                         .leases_max = devices * 8,
                                         .terms_max = sim->job_count + JOBS_SPARE,
                                         .matched_max = sim->job_count + JOBS_SPARE};
    config.agent_lease_us = YEARS_US; /* agents are not heard: nobody is lost here */
    config.ask_again_us = YEARS_US;
    s->memory = published_alloc(1, pool_size(&config.limits));
    s->p = pool_init(s->memory, pool_size(&config.limits), &config);
    s->has_ended = published_alloc(sim->job_count, sizeof *s->has_ended);
    s->held = published_alloc(sim->job_count, sizeof *s->held);
    s->now_us = START_US;
    for (uint32_t type = 0; type < SIA_TYPES; type++) define_type(s, type, sim->copies);
    declare_rates(s, sim->world);
    settle(s);
    return s;
}

static void close_pool(void *self)
{
    struct state *s = self;
    mem_free(s->held);
    mem_free(s->has_ended);
    mem_free(s->memory);
    mem_free(s);
}

static void submit(struct state *s, const struct sia_sim *sim, uint32_t job)
{
    uint64_t work_id = 1 + sim->jobs[job].submission->app;
    step(s, (struct pool_event){
                .kind = POOL_EVENT_TERMS_DEFINED,
                .u.terms_defined = {.terms_id = work_id, .terms = {.work_id = work_id}}});
    step(s, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                .u.job_submitted = {.job_id = 1 + job,
                                                    .spec_hash = 1,
                                                    .capability_mask = 1,
                                                    .devices_min = 1,
                                                    .devices_max = DEVICES_MOST,
                                                    .tenant = 1,
                                                    .job_class = JOB_CLASS_P2,
                                                    .kind = JOB_KIND_ELASTIC,
                                                    .terms_id = work_id}});
}

static void end(struct state *s, uint64_t job_id)
{
    struct lease_view lease;
    for (uint32_t i = 0; i < pool_leases_end(s->p); i++) {
        if (!pool_lease_at(s->p, i, &lease) || lease.job_id != job_id) continue;
        step(s, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                    .u.worker_reported = {.node_key = lease.node_key,
                                                          .job_id = job_id,
                                                          .worker_id = lease.worker_id,
                                                          .phase = WORKER_PHASE_FINISHED}});
    }
}

static void read_held(struct state *s, const struct sia_sim *sim)
{
    struct lease_view lease;
    struct node_view node;
    memset(s->held, 0, sim->job_count * sizeof *s->held);
    for (uint32_t i = 0; i < pool_leases_end(s->p); i++) {
        if (!pool_lease_at(s->p, i, &lease) || lease.stop_reason != 0) continue;
        if (!pool_node_find(s->p, lease.node_key, &node)) continue;
        if (sim->jobs[lease.job_id - 1].is_done)
            published_fail("sia: the pool runs a job that ended");
        s->held[lease.job_id - 1][node.model] += lease.device_count;
    }
}

static uint32_t config_of(const struct sia_world *world, const uint32_t *held)
{
    uint32_t most = 0, found = SIA_NONE;
    for (uint32_t type = 1; type < SIA_TYPES; type++) {
        if (held[type] > held[most]) most = type;
    }
    for (uint32_t c = 0; c < world->config_count; c++) {
        const struct sia_config *config = &world->configs[c];
        if (config->type != most || config->count > held[most]) continue;
        if (found == SIA_NONE || config->count > world->configs[found].count) found = c;
    }
    return found;
}

static void decide(struct sia_sim *sim, void *self)
{
    struct state *s = self;
    s->now_us = START_US + (int64_t)(sim->now_s * 1e6);
    for (uint32_t job = 0; job < s->told; job++) {
        if (!sim->jobs[job].is_done || s->has_ended[job]) continue;
        end(s, 1 + job);
        s->has_ended[job] = true;
    }
    for (; s->told < sim->job_count && sim->jobs[s->told].submit_s <= sim->now_s; s->told++) {
        submit(s, sim, s->told);
    }
    settle(s);
    s->now_us += SECOND_US;
    settle(s);
    read_held(s, sim);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        uint32_t job = sim->active[i];
        sia_configure(sim, &sim->jobs[job], config_of(sim->world, s->held[job]));
    }
}

const struct sia_policy sia_shoal_pool = {
    .name = "shoal_pool", .round_s = 60, .open = open_pool, .decide = decide, .close = close_pool};
