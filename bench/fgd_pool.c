/* shoal_pool: the same packing, decided by the whole scheduler.
 *
 * The nodes are owned nodes of one region, the pods jobs: terms and a submission for each, through
 * pool_step() with queues, classes, ledger and leases. A pod that does not start in the round of its
 * submission is cancelled, as the protocol drops it. Nodes come up one by one in the order that breaks
 * ties: one job grows onto each as it is told of, and is cancelled before the first pod.
 */
#include "base/mem.h"
#include "core/pool.h"
#include "fgd_world.h"
#include "published.h"
#include <string.h>

enum { FORMS_MAX = 1024, KINDS_MAX = 64, KEY_BITS = 40 };
#define SECOND_US INT64_C(1000000)
#define LONG_US   (INT64_C(40) * 86400 * SECOND_US)

struct kind { /* nodes that are alike: one offer */
    uint32_t model, devices, cpu_milli, memory_mib;
};

struct shoal {
    pool *p;
    struct pool_output out;
    struct pack_forms forms; /* terms seen, by slot */
    uint64_t sets[KINDS_MAX];
    struct kind kinds[KINDS_MAX];
    uint64_t *node_keys; /* of each node of the world */
    uint64_t seq, jobs;
    uint32_t kind_count, set_count, node_count;
    int64_t now_us, start_s;
    uint64_t worker_key, worker_id; /* of the newest job, told in the last steps; key 0 = none */
    uint32_t worker_mask;
    struct pool_command *stops; /* not answered yet */
    uint32_t stop_count, stops_max;
};

static void step(struct shoal *s, struct pool_event event)
{
    event.seq = ++s->seq;
    event.version = POOL_CORE_VERSION;
    event.now_us = s->now_us;
    const char *trouble = pool_event_check(&event);
    if (trouble != NULL) published_fail("shoal_pool: %s", trouble);
    pool_step(s->p, &event, &s->out);
    for (uint32_t i = 0; i < s->out.command_count; i++) {
        const struct pool_command *command = &s->out.commands[i];
        if (command->kind == POOL_COMMAND_ENSURE_NODE && s->node_count > 0 &&
            s->node_keys[s->node_count - 1] == 0)
            s->node_keys[s->node_count - 1] = command->node_key;
        if (command->kind == POOL_COMMAND_STOP_WORKER && s->stop_count < s->stops_max)
            s->stops[s->stop_count++] = *command;
        if (command->kind != POOL_COMMAND_ENSURE_WORKER || command->job_id != s->jobs) continue;
        s->worker_key = command->node_key;
        s->worker_id = command->worker_id;
        s->worker_mask = command->device_mask;
    }
}

static void report_worker(struct shoal *s, uint64_t node_key, uint64_t job_id, uint64_t worker_id,
                          uint32_t phase)
{
    step(s, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                .u.worker_reported = {.node_key = node_key,
                                                      .job_id = job_id,
                                                      .worker_id = worker_id,
                                                      .phase = phase}});
}

static void settle(struct shoal *s)
{
    while (pool_next_wake_us(s->p) <= s->now_us)
        step(s, (struct pool_event){.kind = POOL_EVENT_TICK});
}

/* ---- the cluster ---- */

static uint32_t kind_of(struct shoal *s, const struct fgd_node *node)
{
    struct kind kind = {node->model, node->devices, node->cpu_milli, node->memory_mib};
    uint32_t at = 0;
    while (at < s->kind_count && memcmp(&s->kinds[at], &kind, sizeof kind) != 0) at++;
    if (at == KINDS_MAX) published_fail("more than %d kinds of nodes", KINDS_MAX);
    if (at == s->kind_count) s->kinds[s->kind_count++] = kind;
    return at;
}

static void tell_offer(struct shoal *s, uint32_t kind, uint32_t stock)
{
    const struct kind *k = &s->kinds[kind];
    step(s, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                                .u.offer_changed = {.offer_id = kind + 1,
                                                    .provider = 1,
                                                    .region = 1,
                                                    .zone = 1,
                                                    .model = k->model,
                                                    .capacity = CAPACITY_OWNED,
                                                    .device_count = k->devices,
                                                    .stock_count = stock,
                                                    .host_cpu_milli = k->cpu_milli,
                                                    .host_memory_mib = k->memory_mib}});
    settle(s);
}

static struct pool_event submission(struct shoal *s, uint32_t devices_min, uint32_t devices_max,
                                    uint8_t kind)
{
    return (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                               .u.job_submitted = {.job_id = ++s->jobs,
                                                   .spec_hash = 1,
                                                   .capability_mask = 1,
                                                   .devices_min = devices_min,
                                                   .devices_max = devices_max,
                                                   .tenant = 1,
                                                   .job_class = JOB_CLASS_P2,
                                                   .kind = kind}};
}

static void agent_event(struct shoal *s, uint64_t node_key)
{
    step(s, (struct pool_event){
                .kind = POOL_EVENT_AGENT_REPORTED,
                .u.agent_reported = {.node_key = node_key, .phase = AGENT_PHASE_JOINED}});
}

/* One more node of its kind is told of, ordered by the job that waits for it, and up. */
static void raise_node(struct shoal *s, const struct fgd_node *node)
{
    uint32_t kind = kind_of(s, node);
    s->node_keys[s->node_count++] = 0;
    tell_offer(s, kind, 1);
    if (s->node_keys[s->node_count - 1] == 0)
        published_fail("shoal_pool: a node was not ordered: %s", "stock was told");
    step(s, (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED,
                                .u.node_observed = {.node_key = s->node_keys[s->node_count - 1],
                                                    .phase = NODE_PHASE_UP,
                                                    .billed_usd_micros = -1}});
    tell_offer(s, kind, 0);
}

static void raise_nodes(struct shoal *s, const struct fgd_world *world)
{
    uint32_t devices = (uint32_t)(world->capacity_milli / PACK_MILLI);
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (world->nodes[i].devices == 0) published_fail("node %u has no devices", i);
        tell_offer(s, kind_of(s, &world->nodes[i]), 0);
    }
    tell_offer(s, 0, 1); /* so that a job is not refused for want of any offer */
    tell_offer(s, 0, 0);
    step(s, submission(s, 1, devices, JOB_KIND_ELASTIC));
    settle(s);
    for (uint32_t i = 0; i < world->node_count; i++) raise_node(s, &world->nodes[i]);
    for (uint32_t i = 0; i < world->node_count; i++) agent_event(s, s->node_keys[i]);
    settle(s);
    step(s, (struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED,
                                .u.job_cancelled = {.job_id = s->jobs}});
    settle(s);
    for (uint32_t i = 0; i < s->stop_count; i++)
        report_worker(s, s->stops[i].node_key, s->jobs, s->stops[i].worker_id,
                      WORKER_PHASE_STOPPED);
    settle(s);
    s->stops_max = 0;
}

static void define_models(struct shoal *s, const struct fgd_world *world)
{
    for (uint32_t model = 0; model < world->model_count; model++)
        step(s, (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                    .u.model_defined = {.model = model,
                                                        .ncu_milli = 1000,
                                                        .vram_mib = 16384,
                                                        .capability_mask = 1}});
}

static void *pool_open(const struct fgd_world *world)
{
    struct shoal *s = published_alloc(1, sizeof *s);
    struct pool_config config;
    pool_config_default(&config);
    config.limits = (struct pool_limits){.nodes_max = world->node_count,
                                         .jobs_max = 1 << 18,
                                         .offers_max = KINDS_MAX,
                                         .models_max = world->model_count,
                                         .pools_max = KINDS_MAX,
                                         .leases_max = 1 << 17,
                                         .terms_max = FORMS_MAX};
    config.agent_lease_us = config.ask_again_us = LONG_US; /* nobody falls silent here */
    size_t bytes = pool_size(&config.limits);
    void *memory = mem_alloc(bytes);
    if (memory == NULL) published_fail("no memory for %zu bytes", bytes);
    s->p = pool_init(memory, bytes, &config);
    s->now_us = SECOND_US;
    s->forms.max = FORMS_MAX;
    s->forms.forms = published_alloc(FORMS_MAX, sizeof *s->forms.forms);
    s->forms.cells = published_alloc(pack_cells(FORMS_MAX), sizeof(uint32_t));
    pack_forms_clear(&s->forms);
    s->node_keys = published_alloc(world->node_count, sizeof *s->node_keys);
    s->stops_max = world->node_count;
    s->stops = published_alloc(s->stops_max, sizeof *s->stops);
    define_models(s, world);
    raise_nodes(s, world);
    return s;
}

/* ---- the pods ---- */

/* A pool of just these models; 0 = any. */
static uint64_t pool_of(struct shoal *s, uint64_t models, uint32_t model_count)
{
    uint64_t all = (UINT64_C(1) << model_count) - 1;
    uint32_t at = 0;
    if ((models & all) == all) return 0;
    while (at < s->set_count && s->sets[at] != models) at++;
    if (at == KINDS_MAX) published_fail("more than %d sets of models", KINDS_MAX);
    if (at == s->set_count) {
        s->sets[s->set_count++] = models;
        step(s, (struct pool_event){.kind = POOL_EVENT_POOL_DEFINED,
                                    .u.pool_defined = {.pool = at, .hardware_mask = models}});
        settle(s);
    }
    return UINT64_C(1) << at;
}

static uint64_t terms_of(struct shoal *s, const struct pack_form *form)
{
    struct pack_form alike = *form;
    alike.models = 1;
    uint32_t slot = pack_forms_find(&s->forms, &alike), devices = form->count > 0 ? form->count : 1;
    if (slot == UINT32_MAX) {
        if (s->forms.count == FORMS_MAX) published_fail("more than %d forms", FORMS_MAX);
        slot = pack_forms_add(&s->forms, &alike);
    }
    struct job_terms terms = {.device_milli = form->milli == PACK_MILLI ? 0 : form->milli,
                              .host_cpu_milli = form->cpu_milli / devices,
                              .host_memory_mib = form->memory_mib / devices,
                              .host_only = form->count == 0};
    bool exact = terms.host_cpu_milli * devices == form->cpu_milli &&
                 terms.host_memory_mib * devices == form->memory_mib;
    if (!exact) published_fail("a pod with %u devices does not divide its host evenly", devices);
    step(s, (struct pool_event){.kind = POOL_EVENT_TERMS_DEFINED,
                                .u.terms_defined = {.terms_id = slot + 1, .terms = terms}});
    return slot + 1;
}

static uint32_t node_of(const struct shoal *s, uint64_t node_key)
{
    for (uint32_t i = 0; i < s->node_count; i++)
        if (s->node_keys[i] == node_key) return i;
    published_fail("shoal_pool: a worker on no node: %s", "the key is not known");
}

/* Time is the world's where it has one: what is learnt fades by it. */
static void set_time(struct shoal *s, int64_t at_s)
{
    if (at_s == 0) return;
    if (s->start_s == 0) s->start_s = at_s;
    int64_t now_us = SECOND_US + (at_s - s->start_s) * SECOND_US;
    if (now_us > s->now_us) s->now_us = now_us;
    settle(s);
}

static bool pool_choose(void *context, const struct fgd_world *world, struct fgd_run *run)
{
    struct shoal *s = context;
    const struct pack_form *form = &run->form;
    set_time(s, run->from_s);
    uint64_t pools = pool_of(s, form->models, world->model_count);
    uint64_t terms_id = terms_of(s, form);
    uint32_t devices = form->count > 0 ? form->count : 1;
    struct pool_event event = submission(s, devices, devices, JOB_KIND_BATCH);
    event.u.job_submitted.pool_mask = pools;
    event.u.job_submitted.terms_id = terms_id;
    s->worker_key = 0;
    step(s, event);
    settle(s);
    run->ticket = (uint32_t)s->jobs;
    if (s->worker_key == 0) {
        step(s, (struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED,
                                    .u.job_cancelled = {.job_id = s->jobs}});
        return false;
    }
    run->worker_id = s->worker_id;
    run->place = (struct pack_place){.node = node_of(s, s->worker_key), .devices = s->worker_mask};
    return true;
}

static void pool_placed(void *context, const struct fgd_world *world, const struct fgd_run *run)
{
    (void)context;
    (void)world;
    (void)run;
}

static void pool_left(void *context, const struct fgd_world *world, const struct fgd_run *run)
{
    struct shoal *s = context;
    (void)world;
    set_time(s, run->to_s);
    report_worker(s, s->node_keys[run->place.node], run->ticket, run->worker_id,
                  WORKER_PHASE_FINISHED);
    settle(s);
}

static void pool_close(void *context)
{
    struct shoal *s = context;
    mem_free(s->p);
    mem_free(s->forms.forms);
    mem_free(s->forms.cells);
    mem_free(s->node_keys);
    mem_free(s->stops);
    mem_free(s);
}

const struct fgd_policy fgd_pool = {.name = "shoal_pool",
                                    .open = pool_open,
                                    .choose = pool_choose,
                                    .placed = pool_placed,
                                    .left = pool_left,
                                    .close = pool_close};
