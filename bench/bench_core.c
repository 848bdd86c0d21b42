/* How fast the core decides, alone: no journal, no network, one thread.
 *
 * Prints one JSON object per row of out/bench.json. Budgets (the limits that stand in the peer's
 * place) are those of the design: 200,000 placements/s, 5 ms for a round that changes little, 1 KiB
 * a queued job, 50 ms from a refresh of a million prices to the new plan. Sizes as arguments
 * (`bench_core 1k 10k`); all of them without. */
#include "base/clock.h"
#include "base/mem.h"
#include "core/ncu_mix.h"
#include "core/pool.h"
#include "core/view.h"
#include "median.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 4, REGIONS = 4, NODE_DEVICES = 8, TENANTS = 10, ROUNDS = 200000, RUNS = 3 };

struct drive {
    pool *p;
    void *memory;
    struct pool_output out;
    uint64_t seq, random;
    int64_t now_us;
    uint64_t *keys; /* nodes, in the order they were ordered */
    uint64_t *worker_keys, *worker_ids, *worker_jobs;
    uint32_t key_count, worker_count, worker_max, key_max;
    uint64_t placed, planned; /* workers wanted; devices given to jobs, idle ones or ordered */
    uint32_t projects;        /* of ten tenants; 0 = one of nobody's */
    bool preempts; /* jobs of all classes: P0 and P1 take from P2 and P3. Else P2 and P3 */
};

static uint32_t draw(struct drive *d, uint32_t end)
{
    d->random = d->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((d->random >> 33) % end);
}

static void note_commands(struct drive *d)
{
    for (uint32_t i = 0; i < d->out.command_count; i++) {
        const struct pool_command *c = &d->out.commands[i];
        if (c->kind == POOL_COMMAND_ENSURE_NODE && d->key_count < d->key_max)
            d->keys[d->key_count++] = c->node_key;
        if (c->kind != POOL_COMMAND_ENSURE_WORKER) continue;
        d->placed++;
        if (d->worker_count == d->worker_max) continue;
        d->worker_keys[d->worker_count] = c->node_key;
        d->worker_ids[d->worker_count] = c->worker_id;
        d->worker_jobs[d->worker_count++] = c->job_id;
    }
    for (uint32_t i = 0; i < d->out.decision_count; i++)
        d->planned += d->out.decisions[i].kind == DECISION_BUY ||
                      (d->out.decisions[i].kind == DECISION_PLACE &&
                       d->out.decisions[i].reason == REASON_FITS);
}

static void step(struct drive *d, struct pool_event *event)
{
    event->seq = ++d->seq;
    event->version = POOL_CORE_VERSION;
    event->now_us = d->now_us;
    pool_step(d->p, event, &d->out);
    note_commands(d);
}

static void settle(struct drive *d) /* until the core has nothing more to say now */
{
    while (pool_next_wake_us(d->p) <= d->now_us)
        step(d, &(struct pool_event){.kind = POOL_EVENT_TICK});
}

static void *need(size_t count, size_t bytes)
{
    void *block = mem_zalloc(count, bytes);
    if (block == NULL) {
        fprintf(stderr, "bench_core: out of memory; give smaller sizes\n");
        exit(1);
    }
    return block;
}

static void open_drive(struct drive *d, struct pool_limits limits, uint32_t devices)
{
    struct pool_config config;
    pool_config_default(&config);
    config.limits = limits;
    size_t bytes = pool_size(&limits);
    *d = (struct drive){.random = 1, .now_us = 1000000};
    d->memory = need(bytes, 1);
    memset(d->memory, 1, bytes); /* a server's memory is mapped after its first jobs: not measured */
    d->p = pool_init(d->memory, bytes, &config);
    d->key_max = limits.nodes_max;
    d->worker_max = devices * 2;
    d->keys = need(d->key_max, 8);
    d->worker_keys = need(d->worker_max, 8);
    d->worker_ids = need(d->worker_max, 8);
    d->worker_jobs = need(d->worker_max, 8);
    for (uint32_t model = 0; model < MODELS; model++)
        step(d, &(struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                     .u.model_defined = {.model = model,
                                                         .ncu_milli = 400 * (model + 1),
                                                         .vram_mib = 40960,
                                                         .capability_mask = 1}});
}

static void close_drive(struct drive *d)
{
    mem_free(d->memory);
    mem_free(d->keys);
    mem_free(d->worker_keys);
    mem_free(d->worker_ids);
    mem_free(d->worker_jobs);
}

static struct pool_event offer_event(uint64_t id, uint32_t region, uint32_t model,
                                     uint32_t capacity, int64_t price, uint32_t stock)
{
    return (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                               .u.offer_changed = {.offer_id = id,
                                                   .usd_micros_per_hour = price,
                                                   .on_demand_usd_micros_per_hour = price * 3,
                                                   .provider = 1,
                                                   .region = region,
                                                   .zone = region,
                                                   .model = model,
                                                   .capacity = capacity,
                                                   .device_count = NODE_DEVICES,
                                                   .stock_count = stock}};
}

static struct pool_event job_event(uint64_t id, uint32_t min, uint32_t max)
{
    return (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                               .u.job_submitted = {.job_id = id,
                                                   .capability_mask = 1,
                                                   .devices_min = min,
                                                   .devices_max = max,
                                                   .tenant = 1,
                                                   .job_class = JOB_CLASS_P2 + (uint8_t)(id % 2),
                                                   .kind = JOB_KIND_ELASTIC}};
}

/* Of one of the projects, so many of each tenant. */
static struct pool_event project_event(const struct drive *d, uint64_t id)
{
    struct pool_event job = job_event(id, 1, 1);
    if (d->preempts) job.u.job_submitted.job_class = (uint8_t)(id % JOB_CLASS_END);
    if (d->projects == 0) return job;
    job.u.job_submitted.tenant = 1 + (uint32_t)(id % TENANTS);
    job.u.job_submitted.project = 1 + (uint32_t)(id % d->projects);
    return job;
}

/* Quotas that bind nobody: what is measured is the keeping of accounts and the order by share. */
static void define_tenants(struct drive *d)
{
    for (uint32_t i = 0; i < TENANTS && d->projects > 0; i++)
        step(d, &(struct pool_event){.kind = POOL_EVENT_ACCOUNT_DEFINED,
                                     .u.account_defined = {.names = {1 + i},
                                                           .quota_milli = {1000000000, -1},
                                                           .borrow_milli = {-1, -1},
                                                           .lend_milli = {-1, -1},
                                                           .weight_milli = 1000 + i}});
}

static struct pool_event worker_event(const struct drive *d, uint32_t at, uint32_t phase)
{
    return (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                               .u.worker_reported = {.node_key = d->worker_keys[at],
                                                     .job_id = d->worker_jobs[at],
                                                     .worker_id = d->worker_ids[at],
                                                     .step = d->seq,
                                                     .phase = phase}};
}

static struct pool_event agent_event(uint64_t node_key)
{
    return (struct pool_event){
        .kind = POOL_EVENT_AGENT_REPORTED,
        .u.agent_reported = {.node_key = node_key, .phase = AGENT_PHASE_JOINED}};
}

/* Owned nodes, all up and idle: one job per region takes them all, they join, it ends. */
static void fill_nodes(struct drive *d, uint32_t devices)
{
    uint32_t per_offer = devices / NODE_DEVICES / REGIONS / MODELS + 1;
    for (uint32_t i = 0; i < REGIONS * MODELS; i++) {
        struct pool_event offer =
            offer_event(1 + i, 1 + i / MODELS, i % MODELS, CAPACITY_OWNED, 1000000 + i, per_offer);
        step(d, &offer);
    }
    for (uint32_t region = 1; region <= REGIONS; region++) {
        struct pool_event job = job_event(region, 1, per_offer * MODELS * NODE_DEVICES);
        job.u.job_submitted.region = region;
        step(d, &job);
        settle(d);
    }
    for (uint32_t i = 0; i < d->key_count; i++) {
        struct pool_event up = {.kind = POOL_EVENT_NODE_OBSERVED,
                                .u.node_observed = {.node_key = d->keys[i],
                                                    .phase = NODE_PHASE_UP,
                                                    .billed_usd_micros = -1}};
        step(d, &up);
        struct pool_event agent = agent_event(d->keys[i]);
        step(d, &agent);
    }
    settle(d);
    for (uint32_t region = 1; region <= REGIONS; region++)
        step(d, &(struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED,
                                     .u.job_cancelled = {.job_id = region}});
    settle(d);
    for (uint32_t i = 0; i < d->worker_count; i++) {
        struct pool_event stopped = worker_event(d, i, WORKER_PHASE_STOPPED);
        step(d, &stopped);
    }
    settle(d);
    d->worker_count = 0;
}

static void print_row(const char *name, const char *size, double value, const char *unit,
                      const char *peer, double limit, bool higher)
{
    printf(
        "{\"name\":\"%s%s%s\",\"value\":%.6g,\"unit\":\"%s\",\"peer\":\"%s\",\"peer_value\":%.6g,"
        "\"ratio\":%.6g,\"better\":\"%s\",\"runs\":%d}\n",
        name, *size == '\0' ? "" : ".", size, value, unit, peer, limit, value / limit,
        higher ? "higher" : "lower", RUNS);
    (void)fflush(stdout);
}

/* One-device jobs onto idle devices until the pool is full: events in, workers out. */
static double place_all(struct drive *d, uint32_t devices)
{
    uint64_t before = d->placed, id = 1000;
    int64_t start_us = clock_monotonic_us();
    for (uint32_t i = 0; i < devices; i++) {
        struct pool_event job = project_event(d, id++);
        step(d, &job);
    }
    settle(d);
    int64_t took_us = clock_monotonic_us() - start_us;
    return (double)(d->placed - before) * 1e6 / (double)(took_us > 0 ? took_us : 1);
}

static void queue_jobs(struct drive *d, uint32_t count)
{
    uint64_t id = UINT64_C(1) << 40;
    for (uint32_t i = 0; i < count; i++) {
        struct pool_event job = project_event(d, id++);
        step(d, &job);
    }
    settle(d);
}

/* A full pool with a queue: each job that ends makes room for the next. */
static double replace_some(struct drive *d, uint32_t count)
{
    uint64_t before = d->placed;
    int64_t start_us = clock_monotonic_us();
    for (uint32_t i = 0; i < count; i++) {
        struct pool_event finished = worker_event(d, i, WORKER_PHASE_FINISHED);
        step(d, &finished);
    }
    settle(d);
    int64_t took_us = clock_monotonic_us() - start_us;
    return (double)(d->placed - before) * 1e6 / (double)(took_us > 0 ? took_us : 1);
}

/* Rounds that change little: heartbeats, progress, prices that move a per mille. */
static double round_p99(struct drive *d, double *times_us)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct pool_event event;
        uint32_t kind = draw(d, 10);
        if (kind < 5)
            event = agent_event(d->keys[draw(d, d->key_count)]);
        else if (kind < 9)
            event = worker_event(d, d->worker_count / 2 + draw(d, d->worker_count / 2),
                                 WORKER_PHASE_RUNNING);
        else {
            uint32_t at = draw(d, REGIONS * MODELS);
            event = offer_event(1 + at, 1 + at / MODELS, at % MODELS, CAPACITY_OWNED,
                                1000000 + draw(d, 1000), 0);
        }
        d->now_us += 10;
        int64_t start_us = clock_monotonic_us();
        step(d, &event);
        times_us[i] = (double)(clock_monotonic_us() - start_us);
    }
    qsort(times_us, ROUNDS, sizeof times_us[0], median_compare_doubles);
    return times_us[ROUNDS / 100 * 99];
}

/* With preemption there is one figure: ends that make room, most for those who took by right. */
static void bench_size(const char *size, uint32_t devices, uint32_t projects, bool preempts)
{
    double placements[RUNS], replacements[RUNS], rounds[RUNS];
    double *times_us = need(ROUNDS, sizeof times_us[0]);
    uint32_t nodes = devices / NODE_DEVICES + REGIONS * MODELS;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct drive d;
        open_drive(&d,
                   (struct pool_limits){.nodes_max = nodes,
                                        .jobs_max = devices * 2 + 100,
                                        .offers_max = REGIONS * MODELS,
                                        .models_max = MODELS,
                                        .pools_max = 1,
                                        .leases_max = nodes * NODE_DEVICES + 100},
                   devices);
        fill_nodes(&d, devices);
        d.projects = projects;
        d.preempts = preempts;
        define_tenants(&d);
        placements[run] = place_all(&d, devices);
        rounds[run] = round_p99(&d, times_us);
        queue_jobs(&d, devices / 4);
        replacements[run] = replace_some(&d, devices / 4);
        close_drive(&d);
    }
    if (preempts) {
        print_row("replacements_per_s", size, median_of_doubles(replacements, RUNS), "1/s",
                  "budget", 200000, true);
        mem_free(times_us);
        return;
    }
    print_row("placements_per_s", size, median_of_doubles(placements, RUNS), "1/s", "budget",
              200000, true);
    print_row("replacements_per_s", size, median_of_doubles(replacements, RUNS), "1/s", "budget",
              200000, true);
    print_row("round_p99_us", size, median_of_doubles(rounds, RUNS), "us", "budget", 5000, false);
    mem_free(times_us);
}

/* A full pool and a million jobs behind it, of a thousand projects: what comes free goes to whose turn it is. */
static void bench_million(void)
{
    enum { DEVICES = 100000, QUEUED = 1000000, ENDS = DEVICES };
    double replacements[RUNS], rounds[RUNS], submissions[RUNS];
    double *times_us = need(ROUNDS, sizeof times_us[0]);
    uint32_t nodes = DEVICES / NODE_DEVICES + REGIONS * MODELS;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct drive d;
        open_drive(&d,
                   (struct pool_limits){.nodes_max = nodes,
                                        .jobs_max = DEVICES + QUEUED + 100,
                                        .offers_max = REGIONS * MODELS,
                                        .models_max = MODELS,
                                        .pools_max = 1,
                                        .leases_max = nodes * NODE_DEVICES + 100},
                   DEVICES);
        fill_nodes(&d, DEVICES);
        d.projects = 1000;
        define_tenants(&d);
        (void)place_all(&d, DEVICES);
        int64_t start_us = clock_monotonic_us();
        queue_jobs(&d, QUEUED);
        submissions[run] = QUEUED * 1e6 / (double)(clock_monotonic_us() - start_us);
        rounds[run] = round_p99(&d, times_us);
        replacements[run] = replace_some(&d, ENDS);
        close_drive(&d);
    }
    mem_free(times_us);
    print_row("submissions_per_s", "100k.queued_1m", median_of_doubles(submissions, RUNS), "1/s",
              "budget", 200000, true);
    print_row("replacements_per_s", "100k.queued_1m", median_of_doubles(replacements, RUNS), "1/s",
              "budget", 200000, true);
    print_row("round_p99_us", "100k.queued_1m", median_of_doubles(rounds, RUNS), "us", "budget",
              5000, false);
}

/* Jobs of one kind of work, which runs at different speeds on each model, many more than there are devices. */
static void bench_matching(const char *size, uint32_t jobs)
{
    enum { DEVICES = 10000, MATCHED = 4096, LENGTHS = 1000 };
    double submissions[RUNS];
    uint32_t nodes = DEVICES / NODE_DEVICES + REGIONS * MODELS;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct drive d;
        open_drive(&d,
                   (struct pool_limits){.nodes_max = nodes,
                                        .jobs_max = jobs + 100,
                                        .offers_max = REGIONS * MODELS,
                                        .models_max = MODELS,
                                        .pools_max = 1,
                                        .leases_max = nodes * NODE_DEVICES + 100,
                                        .terms_max = LENGTHS + 1,
                                        .matched_max = MATCHED},
                   DEVICES);
        fill_nodes(&d, DEVICES);
        for (uint32_t model = 0; model < MODELS; model++)
            step(&d, &(struct pool_event){.kind = POOL_EVENT_RATE_TOLD,
                                          .u.rate_told = {.work_id = 1,
                                                          .model = model,
                                                          .source = RATE_DECLARED,
                                                          .rate_micro = 1000000 + model * 500000}});
        int64_t start_us = clock_monotonic_us();
        for (uint32_t i = 0; i < jobs; i++) {
            struct pool_event job = job_event(1000 + i, 1, 1);
            job.u.job_submitted.terms_id = 1 + i % LENGTHS;
            struct pool_event terms = {.kind = POOL_EVENT_TERMS_DEFINED,
                                       .u.terms_defined = {.terms_id = 1 + i % LENGTHS,
                                                           .terms = {.run_us = 60000000 * (1 + i % LENGTHS),
                                                                     .work_id = 1}}};
            step(&d, &terms);
            step(&d, &job);
        }
        settle(&d);
        submissions[run] = jobs * 1e6 / (double)(clock_monotonic_us() - start_us);
        close_drive(&d);
    }
    print_row("matched_submissions_per_s", size, median_of_doubles(submissions, RUNS), "1/s",
              "budget", 200000, true);
}

enum { LOST_JOBS = 1000 };

/* Full nodes all over the pool, until 1,000 jobs of one device each run there. */
static void find_lost(const struct drive *d, uint64_t ret_keys[LOST_JOBS / NODE_DEVICES])
{
    uint32_t found = 0, stride = d->key_count / (2 * LOST_JOBS / NODE_DEVICES);
    for (uint32_t k = 0; k < d->key_count && found < LOST_JOBS / NODE_DEVICES; k += stride) {
        uint32_t jobs = 0;
        for (uint32_t i = 0; i < d->worker_count; i++) jobs += d->worker_keys[i] == d->keys[k];
        if (jobs == NODE_DEVICES) ret_keys[found++] = d->keys[k];
    }
    if (found == LOST_JOBS / NODE_DEVICES) return;
    fprintf(stderr, "bench_core: only %u nodes are full\n", found);
    exit(1);
}

static double lose(struct drive *d)
{
    uint64_t keys[LOST_JOBS / NODE_DEVICES], planned = d->planned;
    find_lost(d, keys);
    int64_t start_us = clock_monotonic_us();
    for (uint32_t i = 0; i < LOST_JOBS / NODE_DEVICES; i++) {
        struct pool_event gone = {.kind = POOL_EVENT_NODE_OBSERVED,
                                  .u.node_observed = {.node_key = keys[i],
                                                      .phase = NODE_PHASE_GONE,
                                                      .reason = NODE_REASON_CRASHED,
                                                      .billed_usd_micros = -1}};
        step(d, &gone);
    }
    settle(d);
    double took_ms = (double)(clock_monotonic_us() - start_us) / 1000;
    if (d->planned - planned >= LOST_JOBS) return took_ms;
    fprintf(stderr, "bench_core: %" PRIu64 " of %d jobs were planned anew\n", d->planned - planned,
            LOST_JOBS);
    exit(1);
}

/* Trouble in all regions: so many nodes go that 1,000 jobs of one device each lose it, all told at once. Each is given
 * another device, idle or ordered: from the first loss to the last of these decisions. */
static void bench_loss(const char *size, uint32_t devices)
{
    double times_ms[RUNS];
    uint32_t nodes = devices / NODE_DEVICES + REGIONS * MODELS;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct drive d;
        open_drive(&d,
                   (struct pool_limits){.nodes_max = nodes + LOST_JOBS,
                                        .jobs_max = devices + 100,
                                        .offers_max = REGIONS * MODELS,
                                        .models_max = MODELS,
                                        .pools_max = 1,
                                        .leases_max = (nodes + LOST_JOBS) * NODE_DEVICES},
                   devices);
        fill_nodes(&d, devices);
        (void)place_all(&d, devices - 2 * LOST_JOBS);
        times_ms[run] = lose(&d);
        close_drive(&d);
    }
    print_row("loss_replan_ms.1000_jobs", size, median_of_doubles(times_ms, RUNS), "ms", "budget",
              50, false);
}

static void bench_memory(void)
{
    struct pool_limits limits = {.nodes_max = 1, .offers_max = 1, .models_max = 1, .leases_max = 1};
    size_t without = pool_size(&limits);
    limits.jobs_max = 1 << 20;
    double bytes = (double)(pool_size(&limits) - without) / (1 << 20);
    print_row("bytes_per_queued_job", "", bytes, "B", "budget", 1024, false);
}

enum { OFFER_REGIONS = 250, OFFER_MODELS = 40 };

/* How the prices come: one event each, or several in one, in the order of the offers or in any. */
enum telling { TELL_SINGLE, TELL_TOGETHER, TELL_SHUFFLED };

static struct pool_event market_offer(struct drive *d, uint32_t i)
{
    return offer_event(1 + i, 1 + i % OFFER_REGIONS, i / OFFER_REGIONS % OFFER_MODELS,
                       CAPACITY_SPOT, 1000000 + (int64_t)(i % 977) * 1000 + draw(d, 20000), 4);
}

static void tell_single(struct drive *d, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct pool_event offer = market_offer(d, i);
        step(d, &offer);
    }
}

/* `order`: of the offers; NULL = as they were told. */
static void tell_together(struct drive *d, uint32_t count, const uint32_t *order)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFERS_PRICED};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = order == NULL ? i : order[i], n = event.u.offers_priced.count;
        event.u.offers_priced.prices[n] = (struct told_price){
            .offer_id = 1 + at,
            .usd_micros_per_hour = 1000000 + (int64_t)(at % 977) * 1000 + draw(d, 20000)};
        event.u.offers_priced.count++;
        event.u.offers_priced.more = i + 1 < count;
        if (event.u.offers_priced.count < PRICED_MAX && i + 1 < count) continue;
        step(d, &event);
        event.u.offers_priced.count = 0;
    }
}

static uint32_t *shuffled(struct drive *d, uint32_t count)
{
    uint32_t *order = need(count, sizeof order[0]);
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = draw(d, i), moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
    return order;
}

static void open_offers(struct drive *d, uint32_t count)
{
    open_drive(d,
               (struct pool_limits){.nodes_max = 1000,
                                    .jobs_max = 1000,
                                    .offers_max = count,
                                    .models_max = OFFER_MODELS,
                                    .pools_max = 1,
                                    .leases_max = 1000},
               1000);
    for (uint32_t i = 0; i < OFFER_MODELS; i++)
        step(d, &(struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                     .u.model_defined = {.model = i,
                                                         .ncu_milli = 400 + i,
                                                         .vram_mib = 40960,
                                                         .capability_mask = 1}});
    tell_single(d, count);
}

/* All prices change, then a job comes and is given devices: from the first price to the new plan. */
static void bench_offers(const char *size, uint32_t count, enum telling telling)
{
    double times_ms[RUNS];
    struct drive d;
    open_offers(&d, count);
    uint32_t *order = telling == TELL_SHUFFLED ? shuffled(&d, count) : NULL;
    for (int run = 0; run < RUNS; run++) {
        int64_t start_us = clock_monotonic_us();
        if (telling == TELL_SINGLE)
            tell_single(&d, count);
        else
            tell_together(&d, count, order);
        struct pool_event job = job_event((uint64_t)(run + 10), 1, 8);
        step(&d, &job);
        settle(&d);
        times_ms[run] = (double)(clock_monotonic_us() - start_us) / 1000;
    }
    print_row("offers_replan_ms", size, median_of_doubles(times_ms, RUNS), "ms", "budget", 50,
              false);
    mem_free(order);
    close_drive(&d);
}

/* The worst of many: 12 types with whole tenths of an NCU and prices in cents, 10,000 NCU. */
static void bench_ncu_mix(void)
{
    enum { TYPES = 12, MIXES = 200 };
    double worst_us = 0;
    uint32_t unproven = 0;
    struct drive d = {.random = 5};
    for (uint32_t round = 0; round < MIXES; round++) {
        struct ncu_type types[TYPES];
        struct ncu_mix mix;
        for (uint32_t i = 0; i < TYPES; i++) {
            uint32_t ncu_milli = 100 * (1 + draw(&d, 30));
            types[i] = (struct ncu_type){
                .ncu_milli = ncu_milli,
                .stock = UINT32_MAX,
                .usd_micros_per_hour =
                    (int64_t)ncu_milli * (150 + draw(&d, 200)) / 1000 * 10000 + 10000};
        }
        int64_t start_us = clock_monotonic_us();
        (void)ncu_mix_cheapest(types, TYPES, 10000000 - draw(&d, 100000), &mix);
        double took_us = (double)(clock_monotonic_us() - start_us);
        if (took_us > worst_us) worst_us = took_us;
        unproven += !mix.is_proven;
    }
    print_row("ncu_mix_us.12x10k", "", worst_us, "us", "budget", 1000, false);
    print_row("ncu_mix_unproven.12x10k", "", unproven, "of 200", "budget", 1, false);
}

static bool wanted(int argc, char **argv, const char *size)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], size) == 0) return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    if (wanted(argc, argv, "1k")) bench_size("1k", 1000, 0, false);
    if (wanted(argc, argv, "10k")) bench_size("10k", 10000, 0, false);
    if (wanted(argc, argv, "100k")) bench_size("100k", 100000, 0, false);
    if (wanted(argc, argv, "projects")) bench_size("10k.projects_1000", 10000, 1000, false);
    if (wanted(argc, argv, "preempting")) bench_size("10k.preempting", 10000, 0, true);
    if (wanted(argc, argv, "million")) bench_million();
    if (wanted(argc, argv, "matching")) bench_matching("10k.queued_300k", 300000);
    if (wanted(argc, argv, "loss")) bench_loss("10k", 10000);
    if (wanted(argc, argv, "loss")) bench_loss("100k", 100000);
    if (wanted(argc, argv, "1m")) {
        bench_offers("1m", 1000000, TELL_TOGETHER);
        bench_offers("1m.shuffled", 1000000, TELL_SHUFFLED);
        bench_offers("1m.single_events", 1000000, TELL_SINGLE);
    }
    bench_memory();
    bench_ncu_mix();
    return 0;
}
