/* shoal_pool: the pool of 36 + 36 + 36 owned nodes of one device, with `matching: {round: 5m}`.
 *
 * Jobs are submitted with their kind of work, whose rates are declared, and their run time at their usual
 * speed. Nodes come up and workers stop the moment they are told to, as Gavel's switches cost nothing. Jobs
 * that came or ended at a round's start are told one by one; a second later the pool has matched anew, and
 * where each job's worker then is is where it runs in the round. */
#include "gavel_pool.h"
#include "base/mem.h"
#include "core/pool.h"
#include "core/view.h"
#include "published.h"
#include <math.h>
#include <string.h>

enum {
    TENANTS = 4,
    NCU_MILLI = 1000, /* of each type: rates tell them apart */
    JOBS_MAX = ACTIVE_MAX + 1024,
    ENDED_MAX = TYPES_MAX * DEVICES_PER_TYPE,
    ANSWERS_MAX = 4096,
};
#define START_US  INT64_C(1000000000000)
#define SECOND_US INT64_C(1000000)
#define YEARS_US  INT64_C(500000000000000)

struct state {
    struct gavel_pool_options options;
    pool *p;
    void *memory;
    struct pool_output out;
    uint64_t seq, next_job; /* jobs before it are known to the pool */
    int64_t now_us;
    uint64_t ended[ENDED_MAX];
    uint32_t ended_count, answer_count;
    struct pool_event answers[ANSWERS_MAX];
};

static void answer(struct state *s, struct pool_event event)
{
    if (s->answer_count == ANSWERS_MAX) published_fail("gavel: too many answers at once");
    s->answers[s->answer_count++] = event;
}

static void obey(struct state *s, const struct pool_command *c)
{
    switch ((enum pool_command_kind)c->kind) {
    case POOL_COMMAND_ENSURE_NODE:
    case POOL_COMMAND_OBSERVE_NODE:
        answer(s, (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED,
                                      .u.node_observed = {.node_key = c->node_key,
                                                          .phase = NODE_PHASE_UP,
                                                          .billed_usd_micros = -1}});
        answer(s, (struct pool_event){
                      .kind = POOL_EVENT_AGENT_REPORTED,
                      .u.agent_reported = {.node_key = c->node_key, .phase = AGENT_PHASE_JOINED}});
        return;
    case POOL_COMMAND_STOP_WORKER:
        answer(s, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                      .u.worker_reported = {.node_key = c->node_key,
                                                            .job_id = c->job_id,
                                                            .worker_id = c->worker_id,
                                                            .phase = WORKER_PHASE_STOPPED}});
        return;
    case POOL_COMMAND_ENSURE_WORKER:
    case POOL_COMMAND_RELEASE_NODE:
    case POOL_COMMAND_KIND_END: return;
    }
}

static void step(struct state *s, struct pool_event event)
{
    event.seq = ++s->seq;
    event.now_us = s->now_us;
    event.version = POOL_CORE_VERSION;
    const char *trouble = pool_event_check(&event);
    if (trouble != NULL) published_fail("gavel: %s", trouble);
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

static void define_types(struct state *s, const struct gavel_world *world)
{
    for (uint32_t type = 0; type < world->types; type++) {
        step(s, (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                    .u.model_defined = {.model = type,
                                                        .ncu_milli = NCU_MILLI,
                                                        .vram_mib = 16384,
                                                        .capability_mask = 1}});
        step(s, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                                    .u.offer_changed = {.offer_id = 1 + type,
                                                        .usd_micros_per_hour = SECOND_US,
                                                        .on_demand_usd_micros_per_hour = SECOND_US,
                                                        .provider = 1,
                                                        .region = 1,
                                                        .zone = 1,
                                                        .model = type,
                                                        .capacity = CAPACITY_OWNED,
                                                        .device_count = 1,
                                                        .stock_count = DEVICES_PER_TYPE}});
    }
}

static void declare_rates(struct state *s, const struct gavel_world *world)
{
    for (uint32_t i = 0; i < world->profiles; i++)
        for (uint32_t type = 0; type < world->types; type++)
            step(s, (struct pool_event){.kind = POOL_EVENT_RATE_TOLD,
                                        .u.rate_told = {.work_id = 1 + i,
                                                        .model = type,
                                                        .source = RATE_DECLARED,
                                                        .rate_micro = (uint64_t)llround(
                                                            world->profile[i].rate[type] * 1e6)}});
}

static void define_tenants(struct state *s, uint32_t devices)
{
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        step(s, (struct pool_event){
                    .kind = POOL_EVENT_ACCOUNT_DEFINED,
                    .u.account_defined = {.names = {1 + tenant},
                                          .quota_milli = {(int64_t)devices * NCU_MILLI / 2, -1},
                                          .borrow_milli = {0, -1},
                                          .lend_milli = {-1, -1}}});
}

void *gavel_pool_open(struct gavel_sim *sim, struct gavel_pool_options options)
{
    struct state *s = published_alloc(1, sizeof *s);
    struct pool_config config;
    uint32_t devices = sim->world->types * DEVICES_PER_TYPE;
    pool_config_default(&config);
    config.limits = (struct pool_limits){.nodes_max = devices,
                                         .jobs_max = JOBS_MAX,
                                         .offers_max = TYPES_MAX,
                                         .models_max = TYPES_MAX,
                                         .pools_max = 1,
                                         .leases_max = devices * 8,
                                         .terms_max = JOBS_MAX,
                                         .matched_max = ACTIVE_MAX};
    config.agent_lease_us = YEARS_US; /* agents are not heard: nobody is lost here */
    config.ask_again_us = YEARS_US;
    s->options = options;
    s->memory = published_alloc(1, pool_size(&config.limits));
    s->p = pool_init(s->memory, pool_size(&config.limits), &config);
    s->now_us = START_US;
    define_types(s, sim->world);
    declare_rates(s, sim->world);
    if (options.tenants) define_tenants(s, devices);
    step(s, (struct pool_event){.kind = POOL_EVENT_MATCHING_DEFINED,
                                .u.matching_defined = {.round_us = 300 * SECOND_US}});
    settle(s);
    return s;
}

void gavel_pool_close(struct gavel_sim *sim)
{
    struct state *s = sim->state;
    mem_free(s->memory);
    mem_free(s);
}

void gavel_pool_ended(struct gavel_sim *sim, const struct gavel_job *job)
{
    struct state *s = sim->state;
    if (s->ended_count == ENDED_MAX) published_fail("gavel: more jobs ended than devices");
    s->ended[s->ended_count++] = job->number + 1;
}

static void submit(struct state *s, const struct gavel_sim *sim, const struct gavel_job *job)
{
    double run_us = job->steps / sim->world->profile[job->profile].norm * 1e6;
    struct job_terms terms = {.work_id = 1 + job->profile};
    if (!s->options.unknown) terms.run_us = 1 + (int64_t)run_us;
    uint64_t terms_id = s->options.unknown ? 1 + job->profile : 1 + job->number;
    step(s, (struct pool_event){.kind = POOL_EVENT_TERMS_DEFINED,
                                .u.terms_defined = {.terms_id = terms_id, .terms = terms}});
    step(s, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                .u.job_submitted = {.job_id = 1 + job->number,
                                                    .spec_hash = 1,
                                                    .capability_mask = 1,
                                                    .devices_min = job->width,
                                                    .devices_max = job->width,
                                                    .tenant = 1 + (uint32_t)(job->number % TENANTS),
                                                    .job_class = JOB_CLASS_P2,
                                                    .kind = JOB_KIND_ELASTIC,
                                                    .terms_id = terms_id}});
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

/* Who has all its workers runs on their type. */
static void read_places(const struct state *s, struct gavel_sim *sim)
{
    static uint32_t held[ACTIVE_MAX], type_of[ACTIVE_MAX];
    struct lease_view lease;
    struct node_view node;
    memset(held, 0, sim->active_count * sizeof *held);
    for (uint32_t i = 0; i < pool_leases_end(s->p); i++) {
        if (!pool_lease_at(s->p, i, &lease) || lease.stop_reason != 0) continue;
        if (!pool_node_find(s->p, lease.node_key, &node)) continue;
        uint32_t low = 0, high = sim->active_count; /* active[] is by number */
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (sim->active[middle].number + 1 < lease.job_id)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == sim->active_count || sim->active[low].number + 1 != lease.job_id)
            published_fail("gavel: the pool runs a job that ended");
        if (held[low]++ > 0 && type_of[low] != node.model)
            published_fail("gavel: a job on two types");
        type_of[low] = node.model;
    }
    for (uint32_t i = 0; i < sim->active_count; i++) {
        sim->active[i].partner = NOWHERE;
        sim->active[i].type = held[i] == sim->active[i].width ? type_of[i] : NOWHERE;
    }
}

void gavel_pool_decide(struct gavel_sim *sim)
{
    struct state *s = sim->state;
    s->now_us = START_US + (int64_t)(sim->now_s * 1e6);
    for (uint32_t i = 0; i < s->ended_count; i++) end(s, s->ended[i]);
    s->ended_count = 0;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        if (sim->active[i].number < s->next_job) continue;
        submit(s, sim, &sim->active[i]);
        s->next_job = sim->active[i].number + 1;
    }
    settle(s);
    s->now_us += SECOND_US;
    settle(s);
    read_places(s, sim);
}
