/* Cost gates: what is bought under a class, a pool and an account, and what is said above them. */
#include "core/gate.h"
#include "core/job.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/quota.h"
#include "core/testing.h"

enum { H100, T4, POOL_A = 0, POOL_B = 1 };
#define HOUR INT64_C(3600000000)

static void define_gate(struct bench *b, uint32_t scope, uint32_t index, int64_t per_hour,
                        int64_t per_job, int64_t per_month, bool refuses)
{
    struct pool_event event = {.kind = POOL_EVENT_GATE_DEFINED,
                               .u.gate_defined = {.scope = scope,
                                                  .index = scope == GATE_OF_ACCOUNT ? 0 : index,
                                                  .usd_micros_per_hour_max = per_hour,
                                                  .usd_micros_per_job_max = per_job,
                                                  .usd_micros_per_month_max = per_month,
                                                  .refuses = refuses}};
    if (scope == GATE_OF_ACCOUNT) event.u.gate_defined.names[0] = index;
    bench_step(b, event);
}

static void sell(struct bench *b, uint64_t id, uint32_t model, uint32_t capacity, uint32_t stock,
                 int64_t price)
{
    bench_offer(b, (struct test_offer){.id = id,
                                       .region = 1,
                                       .model = model,
                                       .capacity = capacity,
                                       .devices = 1,
                                       .stock = stock,
                                       .price = price,
                                       .on_demand = price});
}

static void open_pool(struct bench *b)
{
    const struct pool_limits limits = {.nodes_max = 256,
                                       .jobs_max = 128,
                                       .offers_max = 4,
                                       .models_max = 2,
                                       .pools_max = 2,
                                       .leases_max = 256,
                                       .terms_max = 64,
                                       .matched_max = 16};
    bench_open(b, &limits);
    bench_model(b, H100, 2500, 80, 1);
    bench_model(b, T4, 200, 16, 1);
    for (uint32_t i = POOL_A; i <= POOL_B; i++)
        bench_step(
            b, (struct pool_event){
                   .kind = POOL_EVENT_POOL_DEFINED,
                   .u.pool_defined = {.pool = i, .capability_mask = 1, .hardware_mask = 1U << i}});
    sell(b, 1, H100, CAPACITY_ON_DEMAND, 100, 6 * USD);
}

/* hours 0: none declared. Of tenant 1 (testing.c). */
static void submit(struct bench *b, uint64_t id, uint32_t job_class, int64_t hours, uint8_t gate,
                   uint64_t pools)
{
    struct job_terms terms = {.run_us = hours * HOUR, .gate = gate};
    uint64_t terms_id = hours == 0 && gate == 0 ? 0 : (uint64_t)hours * 4 + gate + 1;
    if (terms_id != 0) bench_terms(b, terms_id, terms);
    bench_submit(b, (struct test_job){.id = id,
                                      .min = 1,
                                      .max = 1,
                                      .capability_mask = 1,
                                      .job_class = job_class,
                                      .pool_mask = pools,
                                      .terms_id = terms_id});
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static const struct job *job_of(const struct bench *b, uint64_t id)
{
    return &b->p->jobs[table_find(&b->p->job_table, id)];
}

static void expect_said(const struct bench *b, uint64_t id, uint32_t kind, uint32_t reason,
                        int64_t needed, int64_t left, uint32_t scope)
{
    const struct job *j = job_of(b, id);
    assert_int_equal(j->last_kind, kind);
    assert_int_equal(j->last_reason, reason);
    assert_int_equal(j->last_a, needed);
    assert_int_equal(j->last_b, left);
    assert_int_equal(j->last_c, scope);
}

static void a_class_waits_at_its_gate_and_goes_on_when_others_end(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    define_gate(&b, GATE_OF_CLASS, JOB_CLASS_P2, 10 * USD, GATE_NONE, GATE_NONE, false);
    submit(&b, 1, JOB_CLASS_P2, 0, 0, 0);
    submit(&b, 2, JOB_CLASS_P2, 0, 0, 0);
    submit(&b, 3, JOB_CLASS_P3, 0, 0, 0); /* another class: no gate */
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    assert_int_equal(bench_job_state(&b, 3), JOB_STARTING);
    expect_said(&b, 2, DECISION_WAIT, REASON_GATE_HOUR, 6 * USD, 4 * USD, GATE_LEVEL_CLASS);
    bench_cancel(&b, 1);
    bench_advance(&b, SECOND_US);
    assert_int_equal(bench_job_state(&b, 2), JOB_STARTING);
    bench_close(&b);
}

/* Of two devices that it lacks its gate lets it buy one: only one is taken from somebody. */
static void what_a_gate_leaves_is_bought_before_victims(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    sell(&b, 2, H100, CAPACITY_OWNED, 2, 0);
    define_gate(&b, GATE_OF_CLASS, JOB_CLASS_P1, 6 * USD, GATE_NONE, GATE_NONE, false);
    submit(&b, 1, JOB_CLASS_P3, 0, 0, 0);
    submit(&b, 2, JOB_CLASS_P3, 0, 0, 0);
    bench_raise(&b);
    bench_submit(&b,
                 (struct test_job){
                     .id = 3, .min = 2, .max = 2, .capability_mask = 1, .job_class = JOB_CLASS_P1});
    while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1);
    assert_int_equal(job_of(&b, 3)->leases.count, 1); /* bought, and not up yet */
    bench_close(&b);
}

/* P0 may use nothing that is bought: owned devices first, then it is refused with the figures. */
static void owned_devices_pass_a_gate_of_nothing(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    bench_strict_classes(&b);
    sell(&b, 2, H100, CAPACITY_OWNED, 1, 7 * USD);
    define_gate(&b, GATE_OF_CLASS, JOB_CLASS_P0, 0, GATE_NONE, GATE_NONE, false);
    submit(&b, 1, JOB_CLASS_P0, 0, 0, 0);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    submit(&b, 2, JOB_CLASS_P0, 0, 0, 0);
    assert_int_equal(bench_job_state(&b, 2), JOB_REFUSED);
    expect_said(&b, 2, DECISION_REFUSE, REASON_GATE_HOUR, 6 * USD, 0, GATE_LEVEL_CLASS);
    bench_close(&b);
}

static void above_the_gate_a_job_is_refused_or_waits_as_declared(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    define_gate(&b, GATE_OF_ACCOUNT, 1, GATE_NONE, 20 * USD, GATE_NONE, true);
    submit(&b, 1, JOB_CLASS_P2, 10, GATE_AS_DEFINED, 0);
    assert_int_equal(bench_job_state(&b, 1), JOB_REFUSED);
    expect_said(&b, 1, DECISION_REFUSE, REASON_GATE_JOB, 60 * USD, 20 * USD, 1);
    submit(&b, 2, JOB_CLASS_P2, 10, GATE_WAITS, 0);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    submit(&b, 3, JOB_CLASS_P2, 3, GATE_AS_DEFINED, 0);
    assert_int_equal(bench_job_state(&b, 3), JOB_STARTING);
    define_gate(&b, GATE_OF_ACCOUNT, 1, GATE_NONE, 20 * USD, GATE_NONE, false);
    submit(&b, 4, JOB_CLASS_P2, 10, GATE_REFUSES, 0);
    assert_int_equal(bench_job_state(&b, 4), JOB_REFUSED);
    sell(&b, 2, H100, CAPACITY_OWNED, 1, 6 * USD); /* what is owned passes */
    bench_advance(&b, SECOND_US);
    assert_int_equal(bench_job_state(&b, 2), JOB_STARTING);
    bench_close(&b);
}

static void a_month_is_set_aside_before_a_start(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    define_gate(&b, GATE_OF_POOL, POOL_A, GATE_NONE, GATE_NONE, 20 * USD, false);
    submit(&b, 1, JOB_CLASS_P2, 2, 0, 1U << POOL_A);
    submit(&b, 2, JOB_CLASS_P2, 2, 0, 1U << POOL_A);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    expect_said(&b, 2, DECISION_WAIT, REASON_GATE_MONTH, 12 * USD, 8 * USD, GATE_LEVEL_POOL);
    bench_cancel(&b, 1); /* what it did not spend is free again */
    bench_advance(&b, SECOND_US);
    assert_int_equal(bench_job_state(&b, 2), JOB_STARTING);
    bench_close(&b);
}

/* Two pools, one of them closed: the other is used. */
static void a_closed_pool_leaves_the_other_open(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    sell(&b, 2, T4, CAPACITY_SPOT, 10, USD);
    define_gate(&b, GATE_OF_POOL, POOL_B, 0, GATE_NONE, GATE_NONE, false); /* T4, the cheaper */
    submit(&b, 1, JOB_CLASS_P2, 0, 0, 3);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    assert_int_equal(b.p->pool_gates[POOL_A].usd_micros_per_hour, 6 * USD);
    assert_int_equal(b.p->pool_gates[POOL_B].usd_micros_per_hour, 0);
    bench_close(&b);
}

/* No run time declared: an hour is set aside, and no more is there. */
static void who_runs_on_beyond_it_is_stopped(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    define_gate(&b, GATE_OF_CLASS, JOB_CLASS_P2, GATE_NONE, GATE_NONE, 6 * USD, false);
    submit(&b, 1, JOB_CLASS_P2, 0, 0, 0);
    bench_raise(&b);
    bench_live(&b, HOUR - 10 * SECOND_US);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    bench_live(&b, 120 * SECOND_US);
    assert_int_equal(bench_job_state(&b, 1), JOB_FAILED);
    assert_true(b.said[DECISION_STOP][REASON_GATE_SPENT] > 0);
    const struct gate *gate = &b.p->class_gates[JOB_CLASS_P2];
    assert_in_range(gate_spent_usd_micros(b.p, gate), 6 * USD, 6 * USD + 6 * USD / 30);
    bench_close(&b);
}

static void cancel_and_leave(struct bench *b, uint64_t id)
{
    struct lease_view lease;
    assert_true(bench_lease(b, id, 0, &lease));
    bench_cancel(b, id);
    bench_worker(b, lease.node_key, id, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    bench_live(b, 2 * SECOND_US);
}

/* P2 may hold half of four owned H100: the third waits with idle devices beside it, P1 takes them; what
 * is bought is no matter of the share. */
static void a_class_holds_no_more_than_its_reserved_and_burst_share(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    sell(&b, 1, H100, CAPACITY_ON_DEMAND, 0, 6 * USD);
    sell(&b, 2, H100, CAPACITY_OWNED, 4, USD);
    bench_class(&b, JOB_CLASS_P2, 100000, 400000, 0, true, true);
    for (uint64_t id = 1; id <= 3; id++) submit(&b, id, JOB_CLASS_P2, 0, 0, 0);
    assert_int_equal(bench_job_state(&b, 2), JOB_STARTING);
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    expect_said(&b, 3, DECISION_WAIT, REASON_WAIT_CLASS_SHARE, 5000, 5000, 1);
    for (uint64_t id = 4; id <= 5; id++) submit(&b, id, JOB_CLASS_P1, 0, 0, 0);
    assert_int_equal(bench_job_state(&b, 5), JOB_STARTING);
    bench_raise(&b);
    cancel_and_leave(&b, 4);
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    cancel_and_leave(&b, 1);
    assert_true(bench_job_state(&b, 3) == JOB_STARTING || bench_job_state(&b, 3) == JOB_RUNNING);
    submit(&b, 6, JOB_CLASS_P2, 0, 0, 0);
    assert_int_equal(bench_job_state(&b, 6), JOB_QUEUED);
    sell(&b, 1, H100, CAPACITY_ON_DEMAND, 1, 6 * USD);
    bench_advance(&b, SECOND_US);
    assert_int_equal(bench_job_state(&b, 6), JOB_STARTING);
    bench_close(&b);
}

static uint32_t draw(uint64_t *random, uint32_t end)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % end);
}

/* What was set aside for a job is free when its lease is over; its node costs until it is let go: two
 * minutes of the dearer model at most. */
static void expect_within(const struct bench *b, const struct gate *gate, uint32_t ended)
{
    if (gate->usd_micros_per_hour_max != GATE_NONE)
        assert_true(gate->usd_micros_per_hour <= gate->usd_micros_per_hour_max);
    if (gate->usd_micros_per_month_max != GATE_NONE)
        assert_true(gate_spent_usd_micros(b->p, gate) + gate->reserved_usd_micros <=
                    gate->usd_micros_per_month_max + ended * (USD / 5));
}

/* Submissions and ends at random, none beyond its declared time: nothing is ever above a gate, in the
 * moment of a start or later, and who waits at a gate starts when the gates are opened. */
static void nothing_is_ever_above_a_gate(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bench b;
        uint64_t random = seed, next = 1;
        uint32_t gated = 0, ended = 0;
        open_pool(&b);
        sell(&b, 2, T4, CAPACITY_SPOT, 100, USD);
        define_gate(&b, GATE_OF_CLASS, JOB_CLASS_P2, (5 + draw(&random, 30)) * USD, GATE_NONE,
                    GATE_NONE, false);
        define_gate(&b, GATE_OF_POOL, POOL_A, GATE_NONE, GATE_NONE, (20 + draw(&random, 200)) * USD,
                    false);
        define_gate(&b, GATE_OF_ACCOUNT, 1, GATE_NONE, (1 + draw(&random, 40)) * USD,
                    (50 + draw(&random, 300)) * USD, false);
        for (uint32_t round = 0; round < 60; round++) {
            if (draw(&random, 3) > 0)
                submit(&b, next++, JOB_CLASS_P2 + draw(&random, 2), 1 + draw(&random, 9), 0,
                       draw(&random, 4));
            else if (next > 1)
                bench_cancel(&b, 1 + draw(&random, (uint32_t)next - 1)), ended++;
            bench_raise(&b);
            bench_live(&b, draw(&random, 60) * SECOND_US);
            expect_within(&b, &b.p->class_gates[JOB_CLASS_P2], ended);
            expect_within(&b, &b.p->pool_gates[POOL_A], ended);
            expect_within(&b,
                          &b.p->accounts[quota_find(b.p, (const uint32_t[ACCOUNT_LEVELS]){1})].gate,
                          ended);
        }
        for (uint64_t id = 1; id < next; id++) gated += bench_job_state(&b, id) == JOB_QUEUED;
        define_gate(&b, GATE_OF_CLASS, JOB_CLASS_P2, GATE_NONE, GATE_NONE, GATE_NONE, false);
        define_gate(&b, GATE_OF_POOL, POOL_A, GATE_NONE, GATE_NONE, GATE_NONE, false);
        define_gate(&b, GATE_OF_ACCOUNT, 1, GATE_NONE, GATE_NONE, GATE_NONE, false);
        bench_advance(&b, SECOND_US);
        for (uint64_t id = 1; id < next; id++)
            assert_int_not_equal(bench_job_state(&b, id), JOB_QUEUED);
        assert_true(gated > 0);
        bench_close(&b);
    }
}

/* Two jobs of a kind of work: the older is matched and waits for its device, the younger could buy. What
 * the gate says is said of the younger. */
static void a_gate_says_nothing_of_a_matched_job(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    sell(&b, 1, H100, CAPACITY_ON_DEMAND, 0, 6 * USD);
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_RATE_TOLD,
                                       .u.rate_told = {.work_id = 1,
                                                       .model = H100,
                                                       .source = RATE_DECLARED,
                                                       .rate_micro = 1000000}});
    bench_terms(&b, 50, (struct job_terms){.work_id = 1});
    for (uint64_t id = 1; id <= 2; id++)
        bench_submit(&b, (struct test_job){.id = id,
                                           .min = 1,
                                           .max = 1,
                                           .job_class = JOB_CLASS_P2,
                                           .kind = JOB_KIND_ELASTIC,
                                           .terms_id = 50});
    while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
    uint32_t matched = table_find(&b.p->job_table, 1);
    b.p->jobs[matched].match_market = H100; /* of the first region */
    plan_match_list(b.p, matched);
    assert_int_equal(b.p->jobs[matched].match_listed, MATCH_ASSIGNED);
    b.p->offers[0].stock_count = 1;
    b.p->class_gates[JOB_CLASS_P2].usd_micros_per_hour_max = 0;
    b.p->class_gates[JOB_CLASS_P2].refuses = 1;
    plan_queued(b.p, b.p->jobs[matched].shape, &b.out);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    assert_int_equal(bench_job_state(&b, 2), JOB_REFUSED);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_gate_leaves_is_bought_before_victims),
        cmocka_unit_test(a_class_waits_at_its_gate_and_goes_on_when_others_end),
        cmocka_unit_test(owned_devices_pass_a_gate_of_nothing),
        cmocka_unit_test(above_the_gate_a_job_is_refused_or_waits_as_declared),
        cmocka_unit_test(a_month_is_set_aside_before_a_start),
        cmocka_unit_test(a_closed_pool_leaves_the_other_open),
        cmocka_unit_test(who_runs_on_beyond_it_is_stopped),
        cmocka_unit_test(a_class_holds_no_more_than_its_reserved_and_burst_share),
        cmocka_unit_test(a_gate_says_nothing_of_a_matched_job),
        cmocka_unit_test(nothing_is_ever_above_a_gate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
