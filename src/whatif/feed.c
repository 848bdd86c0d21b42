/* Between the world and the pool: what it hears, and who does what it commands. */
#include "base/mem.h"
#include "core/assert.h"
#include "whatif/world.h"
#include <string.h>

#define LEASE_US   INT64_C(315360000000000) /* agents are never silent here: ten years */
#define ASK_US     INT64_C(600000000)
#define BACKOFF_US INT64_C(60000000)
#define ENTRY_US   INT64_C(3600000000)

enum { INBOX_ROOM = 256, TERMS_ROOM = 64, POOL_OF_MODEL = 0 };

/* Jobs with a deadline have terms of their own, alive at most all at once. */
static uint32_t terms_of(const struct scene *s)
{
    uint32_t count = SCENE_JOBS_MAX + TERMS_ROOM;
    for (uint32_t i = 0; i < s->job_count; i++)
        if (s->jobs[i].deadline_us > 0) count += s->jobs[i].count;
    return count;
}


static struct pool_limits limits_of(const struct world *w)
{
    uint64_t nodes = 16, devices = 64, jobs = 16;
    for (uint32_t i = 0; i < w->scene->offer_count; i++) {
        nodes += w->scene->offers[i].stock;
        devices += (uint64_t)w->scene->offers[i].stock * w->scene->offers[i].device_count;
    }
    for (uint32_t i = 0; i < w->scene->job_count; i++) jobs += w->scene->jobs[i].count;
    return (struct pool_limits){.nodes_max = (uint32_t)nodes,
                                .jobs_max = (uint32_t)jobs,
                                .offers_max = w->scene->offer_count,
                                .models_max = CATALOG_MODELS_MAX,
                                .pools_max = CATALOG_MODELS_MAX,
                                .leases_max = (uint32_t)devices,
                                .terms_max = terms_of(w->scene),
                                .matched_max = w->scene->rematch_us > 0 ? 1024 : 0};
}

static struct pool_config config_of(const struct world *w)
{
    struct pool_config config;
    pool_config_default(&config);
    config.limits = limits_of(w);
    config.agent_lease_us = LEASE_US;
    config.ask_again_us = ASK_US;
    config.boot_timeout_us = w->scene->boot_timeout_us;
    config.refused_backoff_us = BACKOFF_US;
    config.drain_us = w->scene->drain_us;
    config.idle_release_us = w->c->policy == POLICY_FAILOVER ? 0 : w->scene->idle_release_us;
    config.replace_stalled_us = config.replace_slow_us = 0;
    config.worker_failures_max = UINT32_MAX;
    config.entry_us = ENTRY_US;
    return config;
}

bool feed_open(struct world *w)
{
    struct pool_config config = config_of(w);
    w->memory_bytes = pool_size(&config.limits);
    w->memory = mem_alloc(w->memory_bytes);
    w->out = mem_zalloc(1, sizeof *w->out);
    w->inbox_room = INBOX_ROOM;
    w->inbox = mem_zalloc(w->inbox_room, sizeof *w->inbox);
    if (w->memory == NULL || w->out == NULL || w->inbox == NULL) return false;
    w->pool = pool_init(w->memory, w->memory_bytes, &config);
    return true;
}

void feed_close(struct world *w)
{
    mem_free(w->memory);
    mem_free(w->out);
    mem_free(w->inbox);
}

struct pool_event feed_event(enum pool_event_kind kind)
{
    return (struct pool_event){.kind = kind, .version = POOL_CORE_VERSION};
}

/* A ring; a full one is unrolled into a larger one. */
void feed_tell(struct world *w, const struct pool_event *event)
{
    if (w->inbox_count == w->inbox_room) {
        struct pool_event *more = mem_zalloc(w->inbox_room * 2, sizeof *more);
        if (more == NULL) {
            w->failed = true;
            return;
        }
        for (uint32_t i = 0; i < w->inbox_count; i++)
            more[i] = w->inbox[(w->inbox_first + i) % w->inbox_room];
        mem_free(w->inbox);
        w->inbox = more;
        w->inbox_first = 0;
        w->inbox_room *= 2;
    }
    w->inbox[(w->inbox_first + w->inbox_count++) % w->inbox_room] = *event;
}

static void tell_model(struct world *w, uint32_t model)
{
    struct pool_event event = feed_event(POOL_EVENT_MODEL_DEFINED);
    const struct catalog_model *m = &w->scene->catalog.models[model];
    event.u.model_defined.model = model;
    event.u.model_defined.ncu_milli = m->ncu_milli;
    event.u.model_defined.vram_mib = m->vram_mib == 0 ? 1024 : m->vram_mib;
    event.u.model_defined.capability_mask = 1;
    feed_tell(w, &event);
    event = feed_event(POOL_EVENT_POOL_DEFINED); /* a pool of its own: how a job names models */
    event.u.pool_defined.pool = POOL_OF_MODEL + model;
    event.u.pool_defined.capability_mask = 1;
    event.u.pool_defined.hardware_mask = UINT64_C(1) << model;
    event.u.pool_defined.price_threshold_ppm = (uint32_t)w->scene->threshold_ppm;
    feed_tell(w, &event);
}

/* Speeds of the jobs' work, where a job says more than NCU. */
static void tell_rates(struct world *w, uint32_t entry)
{
    const struct scene_job *job = &w->scene->jobs[entry];
    bool says = false;
    for (uint32_t m = 0; m < CATALOG_MODELS_MAX; m++) says |= job->speed_milli[m] > 0;
    for (uint32_t m = 0; m < w->scene->catalog.model_count && says; m++) {
        struct pool_event event = feed_event(POOL_EVENT_RATE_TOLD);
        event.u.rate_told.work_id = entry + 1;
        event.u.rate_told.rate_micro = scene_speed_milli(w->scene, job, m) * UINT64_C(1000);
        event.u.rate_told.model = m;
        event.u.rate_told.source = RATE_DECLARED;
        feed_tell(w, &event);
    }
}

struct pool_event feed_buying(const struct world *w)
{
    struct pool_event event = w->c->buying;
    const struct pool_event *all = &w->scene->buying;
    if (event.kind == 0) return *all; /* a policy by name */
#define ELSE_ALL(field)                                                                            \
    if (event.u.buying_defined.field == 0)                                                         \
    event.u.buying_defined.field = all->u.buying_defined.field
    ELSE_ALL(policy);
    ELSE_ALL(price_threshold_ppm);
    ELSE_ALL(device_usd_micros_max);
    ELSE_ALL(bid_usd_micros);
#undef ELSE_ALL
    return event;
}

static void tell_buying(struct world *w)
{
    struct pool_event event = feed_buying(w);
    if (w->c->policy == POLICY_ON_DEMAND) /* nothing waits for spot that is not there */
        event.u.buying_defined.policy = BUYING_ON_DEMAND;
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        event.u.buying_defined.index = i;
        feed_tell(w, &event);
    }
}

void feed_configure(struct world *w)
{
    for (uint32_t m = 0; m < w->scene->catalog.model_count; m++)
        if (w->scene->catalog.models[m].ncu_milli > 0) tell_model(w, m);
    if (w->scene->rematch_us > 0) {
        struct pool_event event = feed_event(POOL_EVENT_MATCHING_DEFINED);
        event.u.matching_defined.round_us = w->scene->rematch_us;
        event.u.matching_defined.restart_us = BACKOFF_US;
        feed_tell(w, &event);
    }
    tell_buying(w);
    for (uint32_t i = 0; i < w->scene->job_count; i++) tell_rates(w, i);
}

static void obey(struct world *w, const struct pool_command *command)
{
    switch ((enum pool_command_kind)command->kind) {
    case POOL_COMMAND_ENSURE_NODE: site_ensure(w, command); return;
    case POOL_COMMAND_RELEASE_NODE: site_release(w, command->node_key); return;
    case POOL_COMMAND_OBSERVE_NODE: site_observe(w, command->node_key); return;
    case POOL_COMMAND_ENSURE_WORKER: crew_ensure(w, command); return;
    case POOL_COMMAND_STOP_WORKER: crew_stop(w, command); return;
    case POOL_COMMAND_KIND_END: break;
    }
    UNREACHABLE();
}

static void note(struct world *w, uint64_t value)
{
    w->digest = (w->digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    w->digest ^= w->digest >> 29;
}

static void hear(struct world *w, const struct pool_decision *d)
{
    if (d->kind != DECISION_REFUSE && d->kind != DECISION_WAIT) return;
    struct live_job *job = work_job_of_id(w, d->job_id);
    if (job == NULL || job->stage == JOB_ENDED) return;
    job->wait_reason = d->reason;
    job->wait_a = d->a;
    job->wait_b = d->b;
    job->wait_c = d->c;
    if (d->kind == DECISION_REFUSE) drive_refused(w, (uint32_t)(job - w->jobs));
}

static void step(struct world *w, struct pool_event event)
{
    event.seq = ++w->seq;
    event.now_us = w->now_us;
    event.version = POOL_CORE_VERSION;
    ASSERT(pool_event_check(&event) == NULL);
    pool_step(w->pool, &event, w->out);
    if (event.kind == POOL_EVENT_NODE_OBSERVED) w->rank_due = true; /* a loss, or one more held */
    w->events++;
    for (uint32_t i = 0; i < w->out->decision_count; i++) hear(w, &w->out->decisions[i]);
    for (uint32_t i = 0; i < w->out->command_count; i++) {
        note(w, w->out->commands[i].kind ^ w->out->commands[i].node_key << 3 ^
                    w->out->commands[i].worker_id);
        obey(w, &w->out->commands[i]);
    }
}

void feed_settle(struct world *w)
{
    for (;;) {
        while (w->inbox_count > 0 && !w->failed) {
            struct pool_event event = w->inbox[w->inbox_first];
            w->inbox_first = (w->inbox_first + 1) % w->inbox_room;
            w->inbox_count--;
            step(w, event);
        }
        if (w->failed || pool_next_wake_us(w->pool) > w->now_us) break;
        step(w, feed_event(POOL_EVENT_TICK));
    }
    int64_t wake_us = pool_next_wake_us(w->pool);
    if (wake_us >= w->tick_us) return; /* one is planned already */
    w->tick_us = wake_us;
    world_later(w, wake_us, ON_TICK, 0, 0);
}

/* A tick that an earlier one has replaced since means nothing. feed_settle() plans the next. */
void feed_tick(struct world *w)
{
    if (w->now_us != w->tick_us) return;
    w->tick_us = NEVER_US;
    if (pool_next_wake_us(w->pool) <= w->now_us) step(w, feed_event(POOL_EVENT_TICK));
}
