/* Resting in asks decides nothing: a pool in which no shape ever rests, so that each is woken and asked
 * by itself, says the same, event by event, over random loads of many accounts. */
#include "core/state.h"
#include "core/testing.h"
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 20, STEPS = 500, OFFERS = 3, TENANTS = 4, PROJECTS = 6, RUNNING = 64 };

struct worlds {
    struct bench fast, slow;
    uint64_t random, rested;
    bool binds; /* quotas: so that some borrow */
    uint64_t node[RUNNING], job[RUNNING], worker[RUNNING];
    uint32_t running;
};

static uint32_t draw(struct worlds *w, uint32_t end)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((w->random >> 33) % end);
}

static void note_workers(struct worlds *w, const struct pool_output *out)
{
    for (uint32_t i = 0; i < out->command_count; i++) {
        const struct pool_command *c = &out->commands[i];
        if (c->kind != POOL_COMMAND_ENSURE_WORKER || w->running == RUNNING) continue;
        w->node[w->running] = c->node_key;
        w->job[w->running] = c->job_id;
        w->worker[w->running++] = c->worker_id;
    }
}

static void happen(struct worlds *w, struct pool_event event)
{
    bench_step(&w->fast, event);
    bench_step(&w->slow, event);
    const struct pool_output *a = &w->fast.out, *b = &w->slow.out;
    assert_int_equal(a->decision_count, b->decision_count);
    assert_memory_equal(a->decisions, b->decisions, a->decision_count * sizeof a->decisions[0]);
    assert_int_equal(a->command_count, b->command_count);
    assert_memory_equal(a->commands, b->commands, a->command_count * sizeof a->commands[0]);
    assert_int_equal(a->entry_count, b->entry_count);
    assert_memory_equal(a->entries, b->entries, a->entry_count * sizeof a->entries[0]);
    assert_int_equal(pool_next_wake_us(w->fast.p), pool_next_wake_us(w->slow.p));
    assert_int_equal(w->slow.p->shapes_resting.count, 0);
    w->rested += w->fast.p->shapes_resting.count > 1;
    note_workers(w, a);
}

static void pass_time(struct worlds *w, int64_t duration_us)
{
    w->fast.now_us = w->slow.now_us += duration_us;
    for (uint32_t i = 0; pool_next_wake_us(w->fast.p) <= w->fast.now_us; i++) {
        assert_true(i < 200);
        happen(w, (struct pool_event){.kind = POOL_EVENT_TICK});
    }
}

static void define_account(struct worlds *w, uint32_t tenant, uint32_t project)
{
    happen(w, (struct pool_event){
                  .kind = POOL_EVENT_ACCOUNT_DEFINED,
                  .u.account_defined = {
                      .names = {tenant, project},
                      .quota_milli = {w->binds && draw(w, 10) == 0 ? 4000 : 1000000, -1},
                      .borrow_milli = {w->binds && draw(w, 10) == 0 ? 5000 : -1, -1},
                      .lend_milli = {-1, -1},
                      .workers_max = draw(w, 16) == 0 ? 3 : 0,
                      .weight_milli = 500 + 500 * draw(w, 4)}});
}

static void offer(struct worlds *w, uint32_t i)
{
    happen(w, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                                  .u.offer_changed = {.offer_id = 1 + i,
                                                      .region = 1 + i % 2,
                                                      .zone = 1 + i,
                                                      .model = i % 2,
                                                      .capacity = CAPACITY_OWNED,
                                                      .device_count = 4,
                                                      .stock_count = draw(w, 2),
                                                      .usd_micros_per_hour = USD + i,
                                                      .on_demand_usd_micros_per_hour = 3 * USD}});
}

static void submit(struct worlds *w, uint64_t id)
{
    uint32_t min = draw(w, 10) == 0 ? 2 : 1;
    happen(w, (struct pool_event){
                  .kind = POOL_EVENT_JOB_SUBMITTED,
                  .u.job_submitted = {.job_id = id,
                                      .capability_mask = draw(w, 4) == 0 ? 2 : 1,
                                      .devices_min = min,
                                      .devices_max = min,
                                      .tenant = draw(w, TENANTS + 1),
                                      .project = draw(w, PROJECTS + 1),
                                      .region = draw(w, 16) == 0 ? 1 : 0,
                                      .job_class = draw(w, 12) == 0
                                                       ? JOB_CLASS_P1
                                                       : JOB_CLASS_P2 + (uint8_t)(draw(w, 4) == 0),
                                      .kind = JOB_KIND_ELASTIC}});
}

static void observe_all(struct worlds *w)
{
    struct node_view n;
    for (uint32_t i = 0; i < pool_nodes_end(w->fast.p); i++) {
        if (!pool_node_at(w->fast.p, i, &n) || n.state == 0) continue;
        happen(w, (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED,
                                      .u.node_observed = {.node_key = n.node_key,
                                                          .phase = n.state == NODE_RELEASING
                                                                       ? NODE_PHASE_GONE
                                                                       : NODE_PHASE_UP,
                                                          .billed_usd_micros = TEST_NEVER_BILLED}});
        happen(w, (struct pool_event){
                      .kind = POOL_EVENT_AGENT_REPORTED,
                      .u.agent_reported = {.node_key = n.node_key, .phase = AGENT_PHASE_JOINED}});
    }
}

static void end_worker(struct worlds *w)
{
    if (w->running == 0) return;
    uint32_t at = draw(w, w->running);
    struct pool_event event = {.kind = POOL_EVENT_WORKER_REPORTED,
                               .u.worker_reported = {.node_key = w->node[at],
                                                     .job_id = w->job[at],
                                                     .worker_id = w->worker[at],
                                                     .step = 1,
                                                     .phase = draw(w, 3) == 0
                                                                  ? WORKER_PHASE_STOPPED
                                                                  : WORKER_PHASE_FINISHED}};
    w->running--;
    w->node[at] = w->node[w->running];
    w->job[at] = w->job[w->running];
    w->worker[at] = w->worker[w->running];
    happen(w, event);
}

static void something(struct worlds *w, uint64_t step)
{
    switch (draw(w, 12)) {
    case 0: offer(w, draw(w, OFFERS)); break;
    case 1: observe_all(w); break;
    case 2: pass_time(w, (int64_t)draw(w, 40) * SECOND_US); break;
    case 3:
        if (draw(w, 8) == 0) pass_time(w, (int64_t)draw(w, 20) * HOUR_US);
        break;
    case 4:
        happen(w, (struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED,
                                      .u.job_cancelled = {.job_id = 1 + draw(w, STEPS)}});
        break;
    case 5:
        if (draw(w, 20) == 0) define_account(w, 0, 0); /* all definitions begin anew */
        if (draw(w, 6) == 0) define_account(w, 1 + draw(w, TENANTS), draw(w, PROJECTS + 1));
        break;
    case 6:
    case 7: end_worker(w); break;
    default: submit(w, step); break;
    }
}

static void open_world(struct bench *b, bool rests)
{
    struct pool_limits limits = {.nodes_max = 8,
                                 .jobs_max = 1000,
                                 .offers_max = OFFERS,
                                 .models_max = 2,
                                 .pools_max = 1,
                                 .leases_max = 64};
    bench_open(b, &limits);
    if (!rests) b->p->asks_max = 0;
    bench_model(b, 0, 1000, 24, 1);
    bench_model(b, 1, 1500, 40, 3);
}

static uint64_t run_seed(uint64_t seed)
{
    struct worlds *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->random = seed;
    w->binds = seed % 2 == 0;
    open_world(&w->fast, true);
    open_world(&w->slow, false);
    for (uint32_t i = 0; i < OFFERS; i++) offer(w, i);
    for (uint32_t t = 1; t <= TENANTS; t++) define_account(w, t, 0);
    for (uint64_t i = 1; i <= STEPS; i++) something(w, i);
    uint64_t rested = w->rested;
    bench_close(&w->fast);
    bench_close(&w->slow);
    free(w);
    return rested;
}

static void who_rests_is_asked_in_the_same_order(void **state)
{
    uint64_t rested = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        printf("seed %llu\n", (unsigned long long)seed);
        rested += run_seed(seed);
    }
    printf("rested %llu\n", (unsigned long long)rested);
    assert_true(rested > (uint64_t)SEEDS * STEPS / 8); /* else it says nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_rests_is_asked_in_the_same_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
