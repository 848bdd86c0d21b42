/* The block of memory, and the step: apply, then work in pieces until nothing is due or a list is
 * full. */
#include "core/pool.h"
#include "core/act.h"
#include "core/apply.h"
#include "core/ask.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/gate.h"
#include "core/lease.h"
#include "core/node.h"
#include "core/offer.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/plan_pack.h"
#include "core/prices.h"
#include "core/quota.h"
#include "core/spot_watch.h"
#include <string.h>

void pool_config_default(struct pool_config *ret_config)
{
    *ret_config = (struct pool_config){.limits = {.nodes_max = 1024,
                                                  .jobs_max = 100000,
                                                  .offers_max = 4096,
                                                  .models_max = 64,
                                                  .pools_max = 64,
                                                  .leases_max = 4096,
                                                  .terms_max = 16384,
                                                  .matched_max = 4096},
                                       .incarnation = 1,
                                       .ask_again_us = 5000000,
                                       .agent_lease_us = 15000000,
                                       .boot_timeout_us = 600000000,
                                       .refused_backoff_us = 30000000,
                                       .drain_us = 30000000,
                                       .idle_release_us = 60000000,
                                       .replace_stalled_us = 60000000,
                                       .replace_slow_us = 600000000,
                                       .worker_failures_max = 3};
}

/* Nodes that ended are remembered: a quarter more slots than nodes. */
static uint32_t node_slots_of(const struct pool_limits *limits)
{
    return limits->nodes_max + limits->nodes_max / 4 + NODES_REMEMBERED_MIN;
}

static uint32_t regions_of(const struct pool_limits *limits)
{
    return limits->offers_max < REGIONS_MAX ? limits->offers_max : REGIONS_MAX;
}

/* Parts of the block, in order; each starts at a multiple of 16. */
struct carve {
    uint8_t *base; /* NULL: only counts */
    size_t bytes;
};

static void *carve(struct carve *c, size_t count, size_t bytes)
{
    void *part = c->base == NULL ? NULL : c->base + c->bytes;
    c->bytes += (count * bytes + 15) / 16 * 16;
    return part;
}

/* Each begins a line of the cache, wherever the memory does. */
static void *carve_lines(struct carve *c, size_t count, size_t bytes)
{
    uint8_t *part = carve(c, 1, LINE_BYTES + count * bytes);
    return part == NULL ? NULL : part + (LINE_BYTES - (uintptr_t)part % LINE_BYTES);
}

static void carve_heap(struct carve *c, struct heap *heap, uint32_t id_end)
{
    heap->id_end = id_end;
    heap->ids = carve(c, id_end, sizeof heap->ids[0]);
    heap->positions = carve(c, id_end, sizeof heap->positions[0]);
    heap->keys = carve(c, id_end, sizeof heap->keys[0]);
}

static void carve_table(struct carve *c, struct table *table, uint32_t max)
{
    table->capacity = table_capacity(max);
    table->cells = carve(c, table->capacity, sizeof table->cells[0]);
}

static size_t carve_pool(struct carve *c, pool *p, const struct pool_limits *limits)
{
    uint32_t nodes = node_slots_of(limits), regions = regions_of(limits);
    (void)carve(c, 1, sizeof *p);
    p->models = carve(c, limits->models_max, sizeof p->models[0]);
    p->rules = carve(c, limits->pools_max, sizeof p->rules[0]);
    p->uses = carve(c, limits->models_max, sizeof p->uses[0]);
    p->histories = carve(c, HISTORY_MAX, sizeof p->histories[0]);
    p->regions = carve(c, regions, sizeof p->regions[0]);
    p->markets = carve(c, (size_t)regions * limits->models_max, sizeof p->markets[0]);
    p->prices = carve(c, (size_t)limits->offers_max * PRICES_PER_OFFER, sizeof p->prices[0]);
    p->offers = carve_lines(c, limits->offers_max, sizeof p->offers[0]);
    p->nodes = carve(c, nodes, sizeof p->nodes[0]);
    p->leases = carve(c, limits->leases_max, sizeof p->leases[0]);
    p->promises = carve(c, limits->leases_max, sizeof p->promises[0]);
    p->shapes = carve(c, limits->jobs_max, sizeof p->shapes[0]);
    p->jobs = carve(c, limits->jobs_max, sizeof p->jobs[0]);
    p->accounts_max = limits->jobs_max < ACCOUNTS_MAX ? limits->jobs_max + 64 : ACCOUNTS_MAX;
    p->accounts = carve(c, p->accounts_max, sizeof p->accounts[0]);
    carve_table(c, &p->account_table, p->accounts_max);
    p->terms = carve(c, (size_t)limits->terms_max + 1, sizeof p->terms[0]);
    carve_heap(c, &p->timers,
               nodes + limits->leases_max + limits->offers_max + limits->jobs_max + 2);
    p->asks_max = limits->jobs_max < ASKS_MAX ? limits->jobs_max : ASKS_MAX;
    p->ask_tenants_max = limits->jobs_max < ASK_TENANTS_MAX ? limits->jobs_max : ASK_TENANTS_MAX;
    p->asks = carve(c, p->asks_max, sizeof p->asks[0]);
    p->ask_tenants = carve(c, p->ask_tenants_max, sizeof p->ask_tenants[0]);
    carve_table(c, &p->ask_table, p->asks_max);
    carve_table(c, &p->ask_tenant_table, p->ask_tenants_max);
    carve_heap(c, &p->ask_shares, p->accounts_max);
    carve_heap(c, &p->plans, limits->jobs_max * 2 + JOB_CLASS_END + p->asks_max);
    p->works_max = limits->terms_max < WORKS_MAX ? limits->terms_max + 1 : WORKS_MAX;
    p->works = carve(c, p->works_max, sizeof p->works[0]);
    p->links = carve(c, LINKS_MAX, sizeof p->links[0]);
    p->rates = carve(c, (size_t)p->works_max * limits->models_max, sizeof p->rates[0]);
    carve_table(c, &p->work_table, p->works_max);
    carve_heap(c, &p->match_order, limits->matched_max);
    p->match_candidates = carve(c, limits->matched_max, sizeof p->match_candidates[0]);
    p->match_memory = carve(c, 1, plan_match_bytes(limits));
    carve_table(c, &p->node_table, nodes);
    carve_table(c, &p->job_table, limits->jobs_max);
    carve_table(c, &p->offer_table, limits->offers_max);
    carve_table(c, &p->shape_table, limits->jobs_max);
    carve_table(c, &p->terms_table, limits->terms_max);
    p->node_slots = nodes;
    p->markets_end = regions * limits->models_max;
    p->watch = carve(c, 1, sizeof *p->watch);
    p->watch_tables = carve(c, spot_watch_plans(limits), spot_watch_table_bytes(limits));
    struct pack_limits packing = packing_limits(limits, p->markets_end);
    p->pack = carve(c, 1, pack_bytes(&packing));
    return c->bytes;
}

static void check_limits(const struct pool_limits *limits)
{
    ASSERT(limits->models_max <= MODELS_MAX);
    ASSERT(limits->pools_max <= POOLS_MAX);
    ASSERT(limits->nodes_max <= UINT32_C(1) << 26);
    ASSERT(limits->leases_max <= UINT32_C(1) << 26);
    ASSERT(limits->offers_max <= UINT32_C(1) << 26);
    ASSERT(limits->jobs_max <= UINT32_C(1) << 26);
    ASSERT(limits->terms_max <= UINT32_C(1) << 26);
    ASSERT(limits->matched_max <= MATCH_JOBS_MAX);
}

size_t pool_size(const struct pool_limits *limits)
{
    struct carve c = {0};
    pool p;
    check_limits(limits);
    return carve_pool(&c, &p, limits);
}

static void clear_lists(pool *p)
{
    list_clear(&p->nodes_free);
    list_clear(&p->leases_free);
    list_clear(&p->promises_free);
    list_clear(&p->shapes_free);
    list_clear(&p->shapes_idle);
    list_clear(&p->shapes_used);
    list_clear(&p->shapes_resting);
    list_clear(&p->ended);
    list_clear(&p->terms_unused);
    list_clear(&p->works_told);
}

pool *pool_init(void *memory, size_t memory_bytes, const struct pool_config *config)
{
    pool *p = memory;
    struct carve c = {.base = memory};
    check_limits(&config->limits);
    ASSERT(memory_bytes >= pool_size(&config->limits));
    ASSERT(((uintptr_t)memory & 15) == 0);
    ASSERT(config->incarnation <= INCARNATION_MAX);
    memset(p, 0, sizeof *p);
    (void)carve_pool(&c, p, &config->limits);
    p->config = *config;
    p->next_key = p->next_worker = 1; /* 0 is no node and no worker */
    p->least_threshold_ppm = UINT32_MAX;
    p->reach_changes = 1; /* fits_at 0 = not found out */
    p->offer_priced = SLOT_NONE;
    clear_lists(p);
    heap_clear(&p->timers);
    heap_clear(&p->plans);
    table_clear(&p->node_table);
    table_clear(&p->job_table);
    quota_init(p);
    ask_init(p);
    gate_init(p);
    table_clear(&p->offer_table);
    table_clear(&p->shape_table);
    table_clear(&p->terms_table);
    table_clear(&p->work_table);
    plan_match_init(p);
    memset(p->models, 0, config->limits.models_max * sizeof p->models[0]);
    p->terms[TERMS_NONE] = (struct terms){0};
    p->terms_end = TERMS_NONE + 1;
    memset(p->rules, 0, config->limits.pools_max * sizeof p->rules[0]);
    memset(p->uses, 0, config->limits.models_max * sizeof p->uses[0]);
    memset(p->histories, 0, HISTORY_MAX * sizeof p->histories[0]);
    class_defaults(p);
    struct pack_limits packing = packing_limits(&config->limits, p->markets_end);
    p->pack = pack_init(p->pack, &packing);
    spot_watch_init(p);
    return p;
}

static void run_timer(pool *p, struct pool_output *out)
{
    const struct pool_limits *limits = &p->config.limits;
    uint32_t id = heap_first(&p->timers);
    if (id < p->node_slots)
        node_run(p, id, out);
    else if ((id -= p->node_slots) < limits->leases_max)
        lease_run(p, id, out);
    else if ((id -= limits->leases_max) < limits->offers_max)
        offer_run(p, id, out);
    else if ((id -= limits->offers_max) < limits->jobs_max)
        job_run(p, id, out);
    else if (id == limits->jobs_max)
        quota_run(p);
    else
        plan_match_due(p);
}

static bool is_due(const pool *p)
{
    return heap_first_key(&p->timers) <= p->now_us || plan_is_pending(p);
}

static void work(pool *p, struct pool_output *out)
{
    for (uint32_t unit = 0; unit < STEP_UNITS_MAX && act_has_room(out) && is_due(p); unit++) {
        if (heap_first_key(&p->timers) <= p->now_us)
            run_timer(p, out);
        else
            plan_run(p, out);
    }
    if (is_due(p)) MARK(out, STEP_CARRIED_OVER);
}

void pool_step(pool *p, const struct pool_event *event, struct pool_output *out)
{
    ASSERT(event->seq > p->last_seq);
    ASSERT(event->kind > 0);
    ASSERT(event->kind < POOL_EVENT_KIND_END);
    act_clear(out);
    p->last_seq = event->seq;
    if (event->now_us > p->now_us)
        p->now_us = event->now_us;
    else if (event->now_us < p->now_us)
        MARK(out, CLOCK_WENT_BACK);
    quota_tick(p);
    spot_watch_tick(p);
    apply_event(p, event, out);
    if (event->kind == POOL_EVENT_OFFERS_PRICED && event->u.offers_priced.more != 0) return;
    work(p, out);
}

uint64_t pool_last_seq(const pool *p)
{
    return p->last_seq;
}

int64_t pool_now_us(const pool *p)
{
    return p->now_us;
}

int64_t pool_next_wake_us(const pool *p)
{
    if (is_due(p)) return p->now_us;
    return heap_first_key(&p->timers);
}
