/* Matching inside the plan, as stories: who gets which type of device. */
#include "core/rate.h"
#include "core/testing.h"

static const struct pool_limits limits = {.nodes_max = 32,
                                          .jobs_max = 64,
                                          .offers_max = 8,
                                          .models_max = 3,
                                          .pools_max = 1,
                                          .leases_max = 64,
                                          .terms_max = 16,
                                          .matched_max = 32};
enum { FAST, SLOW, THIRD }; /* models: 4 NCU, 1 NCU, 1 NCU */
enum { REGION = 1 };

#define MINUTE_US (60 * SECOND_US)

static void owned(struct bench *b, uint32_t model, uint32_t stock)
{
    bench_offer(b, (struct test_offer){.id = 1 + model,
                                       .region = REGION,
                                       .model = model,
                                       .capacity = CAPACITY_OWNED,
                                       .devices = 1,
                                       .stock = stock,
                                       .price = USD,
                                       .on_demand = USD});
}

static void open_pool(struct bench *b, uint32_t fast, uint32_t slow)
{
    bench_open(b, &limits);
    bench_model(b, FAST, 4000, 40, 1);
    bench_model(b, SLOW, 1000, 40, 1);
    owned(b, FAST, 4); /* so many were there once: jobs for them are admitted */
    owned(b, SLOW, 4);
    owned(b, FAST, fast);
    owned(b, SLOW, slow);
}

static void tell_rate(struct bench *b, uint64_t work_id, uint32_t model, uint64_t rate_micro)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_RATE_TOLD,
                                      .u.rate_told = {.work_id = work_id,
                                                      .model = model,
                                                      .source = RATE_DECLARED,
                                                      .rate_micro = rate_micro}});
}

static void define_rounds(struct bench *b, int64_t round_us, int64_t restart_us)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_MATCHING_DEFINED,
                      .u.matching_defined = {.round_us = round_us, .restart_us = restart_us}});
}

/* Works 1 and 2: as fast everywhere; four times as fast on FAST. */
static void two_works(struct bench *b)
{
    tell_rate(b, 1, FAST, 1000000);
    tell_rate(b, 1, SLOW, 1000000);
    tell_rate(b, 2, FAST, 4000000);
    tell_rate(b, 2, SLOW, 1000000);
    bench_terms(b, 11, (struct job_terms){.work_id = 1, .run_us = 60 * MINUTE_US});
    bench_terms(b, 12, (struct job_terms){.work_id = 2, .run_us = 60 * MINUTE_US});
}

static void submit(struct bench *b, uint64_t id, uint64_t terms_id, uint32_t count,
                   uint32_t job_class)
{
    bench_submit(b, (struct test_job){.id = id,
                                      .min = count,
                                      .max = count,
                                      .kind = JOB_KIND_ELASTIC,
                                      .job_class = job_class,
                                      .terms_id = terms_id});
    bench_raise(b);
}

/* The model the job's first lease that is not being given up is on; 9 = none. */
static uint32_t model_of(const struct bench *b, uint64_t job_id)
{
    struct lease_view lease;
    struct node_view node;
    for (uint32_t i = 0; bench_lease(b, job_id, i, &lease); i++)
        if (lease.stop_reason == 0 && pool_node_find(b->p, lease.node_key, &node))
            return node.model;
    return 9;
}

/* Workers that are told to stop do. */
static void hand_over(struct bench *b)
{
    struct lease_view lease;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, &lease) && lease.stop_reason != 0)
            bench_worker(b, lease.node_key, lease.job_id, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    bench_raise(b);
}

static void finish(struct bench *b, uint64_t job_id)
{
    struct lease_view lease;
    while (bench_lease(b, job_id, 0, &lease))
        bench_worker(b, lease.node_key, job_id, lease.worker_id, WORKER_PHASE_FINISHED, 1);
    bench_raise(b);
}

static void each_type_goes_to_whom_it_helps_most(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 0, 0);
    two_works(&b);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    owned(&b, SLOW, 1);
    assert_int_equal(model_of(&b, 2), 9);
    owned(&b, FAST, 1);
    bench_raise(&b);
    bench_tick(&b);
    assert_int_equal(model_of(&b, 1), SLOW);
    assert_int_equal(model_of(&b, 2), FAST);
    bench_close(&b);
}

/* The older job would take the fast device if its own speed were all that counted. */
static void those_that_wait_together_are_matched_together(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    two_works(&b);
    submit(&b, 1, 12, 1, JOB_CLASS_P2); /* on the fast one */
    submit(&b, 2, 12, 1, JOB_CLASS_P2); /* on the slow one */
    submit(&b, 3, 11, 1, JOB_CLASS_P2);
    submit(&b, 4, 12, 1, JOB_CLASS_P2);
    assert_int_equal(model_of(&b, 1), FAST);
    assert_int_equal(model_of(&b, 2), SLOW);
    finish(&b, 1);
    assert_int_equal(model_of(&b, 3), 9);
    assert_int_equal(model_of(&b, 4), FAST);
    finish(&b, 2);
    assert_int_equal(model_of(&b, 3), SLOW);
    assert_true(b.said[DECISION_PLACE][REASON_MATCHED] == 4);
    bench_close(&b);
}

static void without_rounds_nobody_is_moved(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    two_works(&b);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    bench_live(&b, 30 * MINUTE_US);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_REMATCHED], 0);
    bench_close(&b);
}

/* 1 sits on the fast device, which 2 would use four times as well: they trade places. */
static void rounds_trade_places(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 0);
    two_works(&b);
    define_rounds(&b, 6 * MINUTE_US, 0);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    bench_live(&b, 2 * SECOND_US);
    assert_int_equal(model_of(&b, 1), FAST);
    owned(&b, SLOW, 1);
    bench_live(&b, MINUTE_US); /* the last round is less than six minutes ago */
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    assert_int_equal(model_of(&b, 2), SLOW);
    bench_live(&b, 4 * MINUTE_US);
    assert_int_equal(model_of(&b, 1), FAST);
    for (uint32_t i = 0; i < 12; i++) {
        bench_live(&b, 10 * SECOND_US);
        hand_over(&b);
    }
    assert_int_equal(model_of(&b, 1), SLOW);
    assert_int_equal(model_of(&b, 2), FAST);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_REMATCHED], 2);
    bench_live(&b, 30 * MINUTE_US); /* and that is that */
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_REMATCHED], 2);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* As above, but what 1 was to get is gone with 2: it goes back to what it left, which nobody has. */
static void who_was_sent_to_what_is_gone_goes_on(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_pool(&b, 1, 0);
    two_works(&b);
    define_rounds(&b, 6 * MINUTE_US, 0);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    bench_live(&b, 2 * SECOND_US);
    owned(&b, SLOW, 1);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    while (b.said[DECISION_PREEMPT][REASON_REMATCHED] < 2) bench_live(&b, SECOND_US);
    assert_true(bench_lease(&b, 2, 0, &lease));
    owned(&b, SLOW, 0);
    bench_node(&b, lease.node_key, NODE_PHASE_GONE);
    bench_cancel(&b, 2);
    hand_over(&b);
    assert_int_equal(b.p->jobs[0].wait_reason, REASON_WAIT_PREEMPTED);
    bench_live(&b, b.config.drain_us + SECOND_US);
    assert_int_equal(model_of(&b, 1), FAST);
    bench_close(&b);
}

/* 1 is older and may use what 2 was given: it has to wait all the same. */
static void who_is_sent_away_does_not_come_first(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 0);
    two_works(&b);
    define_rounds(&b, MINUTE_US, 0);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    bench_live(&b, 2 * SECOND_US);
    assert_int_equal(model_of(&b, 1), FAST);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    for (uint32_t i = 0; i < 20; i++) {
        bench_live(&b, 10 * SECOND_US);
        hand_over(&b);
    }
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_OUTMATCHED], 1);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    assert_int_equal(model_of(&b, 2), FAST);
    finish(&b, 2);
    bench_live(&b, 10 * SECOND_US);
    assert_int_equal(model_of(&b, 1), FAST);
    bench_close(&b);
}

/* A move gains a quarter of an hour's work at most, and costs more than the job has left. */
static void a_dear_restart_keeps_jobs_where_they_are(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    two_works(&b);
    define_rounds(&b, 6 * MINUTE_US, 600 * MINUTE_US);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    bench_live(&b, 30 * MINUTE_US);
    hand_over(&b);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_REMATCHED], 0);
    bench_close(&b);
}

/* What gains most across classes does not count: the higher class takes its best first. */
static void classes_stay_strict(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 0, 0);
    two_works(&b);
    tell_rate(&b, 1, FAST, 1100000); /* hardly faster */
    submit(&b, 1, 12, 1, JOB_CLASS_P3);
    submit(&b, 2, 11, 1, JOB_CLASS_P2);
    owned(&b, FAST, 1);
    bench_raise(&b);
    assert_int_equal(model_of(&b, 2), FAST);
    owned(&b, SLOW, 1);
    bench_raise(&b);
    assert_int_equal(model_of(&b, 1), SLOW);
    bench_close(&b);
}

/* P1 is not preemptible: a round leaves it alone. */
static void rounds_move_only_preemptible_classes(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    two_works(&b);
    define_rounds(&b, MINUTE_US, 0);
    submit(&b, 1, 11, 1, JOB_CLASS_P1);
    submit(&b, 2, 12, 1, JOB_CLASS_P1);
    uint32_t before = model_of(&b, 1);
    bench_live(&b, 10 * MINUTE_US);
    assert_int_equal(model_of(&b, 1), before);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_REMATCHED], 0);
    bench_close(&b);
}

static void a_gang_is_matched_whole(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 2, 2);
    two_works(&b);
    submit(&b, 1, 12, 2, JOB_CLASS_P2);
    submit(&b, 2, 11, 2, JOB_CLASS_P2);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    assert_int_equal(model_of(&b, 1), FAST);
    assert_int_equal(model_of(&b, 2), SLOW);
    submit(&b, 3, 12, 2, JOB_CLASS_P2);
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    bench_close(&b);
}

/* One device of each model is free: before a gang takes the third from somebody, it starts on both. */
static void a_gang_takes_several_models_before_victims(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 2, 1);
    two_works(&b);
    submit(&b, 1, 12, 1, JOB_CLASS_P3);
    submit(&b, 2, 12, 2, JOB_CLASS_P1);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTS], 0);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* They hand over one after the other: what the first leaves is not for 3, which is older than 4. */
static void a_gang_gets_the_devices_that_come_free_for_it(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 2, 0);
    two_works(&b);
    define_rounds(&b, MINUTE_US, 0);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 11, 1, JOB_CLASS_P2);
    bench_live(&b, 2 * SECOND_US);
    submit(&b, 3, 11, 1, JOB_CLASS_P2);
    submit(&b, 4, 12, 2, JOB_CLASS_P2);
    for (uint32_t i = 0; i < 20; i++) {
        bench_live(&b, 10 * SECOND_US);
        hand_over(&b);
        assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    }
    assert_int_equal(bench_job_state(&b, 4), JOB_RUNNING);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_OUTMATCHED], 2);
    bench_close(&b);
}

/* Two devices are free, but not of one model. */
static void owned_elsewhere(struct bench *b, uint32_t stock)
{
    bench_offer(b, (struct test_offer){.id = 7,
                                       .region = REGION + 1,
                                       .model = SLOW,
                                       .capacity = CAPACITY_OWNED,
                                       .devices = 1,
                                       .stock = stock,
                                       .price = USD,
                                       .on_demand = USD});
}

/* One node is refused, so the other goes: it is not known to be gone, but nobody ever worked there. */
static void a_gang_that_never_worked_is_not_bound_to_its_region(void **state)
{
    struct bench b;
    struct node_view node;
    (void)state;
    open_pool(&b, 0, 2);
    owned_elsewhere(&b, 2); /* so many were there once */
    owned_elsewhere(&b, 0);
    two_works(&b);
    for (uint64_t id = 1; id <= 2; id++)
        bench_submit(&b, (struct test_job){.id = id,
                                           .min = 2,
                                           .max = 2,
                                           .kind = JOB_KIND_ELASTIC,
                                           .job_class = JOB_CLASS_P2,
                                           .terms_id = 11});
    assert_true(pool_node_at(b.p, 0, &node));
    bench_node_full(&b, node.node_key, NODE_PHASE_REFUSED, NODE_REASON_QUOTA, 0, -1);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    assert_int_not_equal(b.p->jobs[0].leases.count, 0);
    owned_elsewhere(&b, 2);
    assert_int_not_equal(bench_job_state(&b, 1), JOB_QUEUED);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED); /* it came later */
    bench_close(&b);
}

static void owned_nodes(struct bench *b, uint32_t model, uint32_t devices, uint32_t stock)
{
    bench_offer(b, (struct test_offer){.id = 1 + model,
                                       .region = REGION,
                                       .model = model,
                                       .capacity = CAPACITY_OWNED,
                                       .devices = devices,
                                       .stock = stock,
                                       .price = USD,
                                       .on_demand = USD});
}

/* Room for one node only: two devices of one model are on one, those of the other on two. */
static void of_equal_ones_the_first_starts(uint32_t on_one, uint32_t on_two)
{
    struct bench b;
    struct pool_limits one_node = limits;
    one_node.nodes_max = 1;
    bench_open(&b, &one_node);
    bench_model(&b, FAST, 1000, 40, 1);
    bench_model(&b, SLOW, 1000, 40, 1);
    owned_nodes(&b, on_one, 2, 1);
    owned_nodes(&b, on_one, 2, 0);
    two_works(&b);
    for (uint64_t id = 1; id <= 2; id++)
        bench_submit(&b, (struct test_job){.id = id,
                                           .min = 2,
                                           .max = 2,
                                           .kind = JOB_KIND_ELASTIC,
                                           .job_class = JOB_CLASS_P2,
                                           .terms_id = 11});
    owned_nodes(&b, on_two, 1, 2);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    owned_nodes(&b, on_one, 2, 1);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    bench_close(&b);
}

static void who_cannot_start_where_it_was_matched_is_not_overtaken(void **state)
{
    (void)state;
    of_equal_ones_the_first_starts(FAST, SLOW);
    of_equal_ones_the_first_starts(SLOW, FAST);
}

static void a_gang_takes_devices_of_one_model(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    two_works(&b);
    submit(&b, 1, 12, 2, JOB_CLASS_P2);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    owned(&b, SLOW, 2);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(model_of(&b, 1), SLOW);
    bench_close(&b);
}

static void a_rate_of_zero_keeps_off(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    tell_rate(&b, 1, FAST, 0);
    tell_rate(&b, 1, SLOW, 1000000);
    bench_terms(&b, 11, (struct job_terms){.work_id = 1});
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 11, 1, JOB_CLASS_P2);
    assert_int_equal(model_of(&b, 1), SLOW);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    bench_close(&b);
}

/* It would wait for ever, while there is plenty. */
static void a_work_that_runs_nowhere_is_refused(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    tell_rate(&b, 1, FAST, 0);
    tell_rate(&b, 1, SLOW, 0);
    tell_rate(&b, 1, THIRD, 1000000); /* of which the pool has none */
    bench_terms(&b, 11, (struct job_terms){.work_id = 1});
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    assert_int_equal(b.said[DECISION_REFUSE][REASON_RATES_ZERO], 1);
    bench_close(&b);
}

/* Per NCU FAST is cheaper, per step of this work SLOW is. */
static void bought(struct bench *b, uint64_t id, uint32_t model, uint32_t capacity, uint32_t stock,
                   int64_t price)
{
    bench_offer(b, (struct test_offer){.id = id,
                                       .region = REGION,
                                       .model = model,
                                       .capacity = capacity,
                                       .devices = 1,
                                       .stock = stock,
                                       .price = price,
                                       .on_demand = 3 * USD});
}

/* Spot comes back beside a gang on on-demand nodes of the fast model. */
static uint32_t left_for_spot(uint32_t spot_model)
{
    struct bench b;
    open_pool(&b, 0, 0);
    two_works(&b);
    bought(&b, 5, FAST, CAPACITY_ON_DEMAND, 4, 3 * USD);
    bought(&b, 6, spot_model, CAPACITY_SPOT, 0, USD / 10);
    submit(&b, 1, 12, 2, JOB_CLASS_P2);
    assert_int_equal(b.said[DECISION_BUY][REASON_FALLBACK], 2);
    bench_live(&b, MINUTE_US);
    bought(&b, 6, spot_model, CAPACITY_SPOT, 4, USD / 10);
    for (uint32_t i = 0; i < 60; i++) {
        bench_live(&b, 30 * SECOND_US);
        hand_over(&b);
    }
    uint32_t count = b.said[DECISION_DRAIN][REASON_CHEAPER_SPOT];
    bench_close(&b);
    return count;
}

static void a_gang_of_one_model_is_not_swapped_for_another(void **state)
{
    (void)state;
    assert_int_equal(left_for_spot(FAST), 2);
    assert_int_equal(left_for_spot(SLOW), 0);
}

static void bought_is_what_the_work_gains_most_from(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 0, 0);
    two_works(&b);
    for (uint32_t model = FAST; model <= SLOW; model++)
        bought(&b, 5 + model, model, CAPACITY_ON_DEMAND, 4, model == FAST ? 3 * USD : USD);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    assert_int_equal(model_of(&b, 1), SLOW);
    assert_int_equal(model_of(&b, 2), FAST);
    bench_close(&b);
}

/* Declared as four times as fast on FAST; in truth half as fast as on SLOW. */
static void measured_rates_overrule_declared_ones(void **state)
{
    struct bench b;
    uint64_t step = 0;
    (void)state;
    open_pool(&b, 1, 1);
    two_works(&b);
    submit(&b, 1, 12, 1, JOB_CLASS_P2);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    for (uint32_t i = 0; i < 20; i++) {
        bench_live(&b, 10 * SECOND_US);
        step += 10;
        for (uint64_t job = 1; job <= 2; job++) {
            struct lease_view lease;
            assert_true(bench_lease(&b, job, 0, &lease));
            uint64_t done = model_of(&b, job) == FAST ? step : 2 * step;
            bench_worker(&b, lease.node_key, job, lease.worker_id, WORKER_PHASE_RUNNING, done);
        }
    }
    struct rate_view rates[4];
    assert_int_equal(pool_rates_of(b.p, 2, rates, 4), 2);
    assert_int_equal(rates[FAST].measured_milli, 1000);
    assert_int_equal(rates[SLOW].measured_milli, 2000);
    assert_int_equal(rates[SLOW].speed_ppm / 10000, 2 * rates[FAST].speed_ppm / 10000);
    finish(&b, 1);
    finish(&b, 2);
    submit(&b, 3, 12, 1, JOB_CLASS_P2);
    assert_int_equal(model_of(&b, 3), SLOW);
    bench_close(&b);
}

/* The oldest kind of work makes room for another. */
static void rates_are_bounded(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 1, 1);
    for (uint64_t work = 1; work <= limits.terms_max + 2; work++) {
        tell_rate(&b, work, FAST, 1000000);
        tell_rate(&b, work, SLOW, 3000000);
    }
    bench_terms(&b, 11, (struct job_terms){.work_id = 1});
    bench_terms(&b, 12, (struct job_terms){.work_id = 2});
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    submit(&b, 2, 12, 1, JOB_CLASS_P2);
    struct rate_view rates[4];
    assert_int_equal(pool_rates_of(b.p, 1, rates, 4), 2);
    assert_int_equal(rates[SLOW].told, 0); /* forgotten: NCU count */
    assert_true(rates[FAST].speed_ppm > rates[SLOW].speed_ppm);
    assert_int_equal(pool_rates_of(b.p, 2, rates, 4), 2);
    assert_int_equal(rates[SLOW].told, 1U << RATE_DECLARED);
    assert_true(rates[FAST].speed_ppm < rates[SLOW].speed_ppm);
    tell_rate(&b, 1, THIRD + 5, 1); /* a model beyond the limit */
    bench_close(&b);
}

static void hostile_rates_are_refused(void **state)
{
    struct pool_event event = {.seq = 1,
                               .version = POOL_CORE_VERSION,
                               .kind = POOL_EVENT_RATE_TOLD,
                               .u.rate_told = {.work_id = 1, .source = RATE_DECLARED}};
    (void)state;
    assert_null(pool_event_check(&event));
    event.u.rate_told.source = RATE_MEASURED;
    assert_string_equal(pool_event_check(&event), "rate: measured as 0, which is no measurement");
    event.u.rate_told.source = RATE_SOURCE_END;
    assert_string_equal(pool_event_check(&event), "rate: unknown source");
    event.u.rate_told.source = RATE_DECLARED;
    event.u.rate_told.rate_micro = UINT64_MAX;
    assert_string_equal(pool_event_check(&event), "rate: above a million a second");
    event.u.rate_told.work_id = 0;
    assert_string_equal(pool_event_check(&event), "rate: work 0 means none, use another");
    event.kind = POOL_EVENT_MATCHING_DEFINED;
    event.u.matching_defined.round_us = -1;
    assert_string_equal(pool_event_check(&event), "matching: a time below 0 or above ten years");
}

/* Bytes that a checksum vouches for may still be wrong: a market that is none is not counted in. */
static void a_snapshot_that_assigns_to_nowhere_is_refused(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b, 0, 0);
    two_works(&b);
    submit(&b, 1, 11, 1, JOB_CLASS_P2);
    assert_int_equal(b.p->jobs[0].match_listed, MATCH_WAITING);
    b.p->jobs[0].match_listed = MATCH_ASSIGNED;
    size_t bytes = pool_snapshot_write(b.p, NULL, 0);
    uint8_t *snapshot = malloc(bytes);
    assert_int_equal(pool_snapshot_write(b.p, snapshot, bytes), bytes);
    assert_false(pool_snapshot_read(b.p, snapshot, bytes));
    free(snapshot);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_goes_to_whom_it_helps_most),
        cmocka_unit_test(those_that_wait_together_are_matched_together),
        cmocka_unit_test(without_rounds_nobody_is_moved),
        cmocka_unit_test(rounds_trade_places),
        cmocka_unit_test(who_was_sent_to_what_is_gone_goes_on),
        cmocka_unit_test(who_is_sent_away_does_not_come_first),
        cmocka_unit_test(a_dear_restart_keeps_jobs_where_they_are),
        cmocka_unit_test(classes_stay_strict),
        cmocka_unit_test(rounds_move_only_preemptible_classes),
        cmocka_unit_test(a_gang_is_matched_whole),
        cmocka_unit_test(a_gang_takes_several_models_before_victims),
        cmocka_unit_test(a_gang_gets_the_devices_that_come_free_for_it),
        cmocka_unit_test(a_gang_that_never_worked_is_not_bound_to_its_region),
        cmocka_unit_test(who_cannot_start_where_it_was_matched_is_not_overtaken),
        cmocka_unit_test(a_gang_takes_devices_of_one_model),
        cmocka_unit_test(a_rate_of_zero_keeps_off),
        cmocka_unit_test(a_snapshot_that_assigns_to_nowhere_is_refused),
        cmocka_unit_test(a_work_that_runs_nowhere_is_refused),
        cmocka_unit_test(a_gang_of_one_model_is_not_swapped_for_another),
        cmocka_unit_test(bought_is_what_the_work_gains_most_from),
        cmocka_unit_test(measured_rates_overrule_declared_ones),
        cmocka_unit_test(rates_are_bounded),
        cmocka_unit_test(hostile_rates_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
