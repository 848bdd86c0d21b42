/* Jobs that may fall back upon the next tier: their own first, one tier at a time, and it is said. */
#include "core/testing.h"

enum { H100, T4, TERMS = 3 };

static const struct pool_limits limits = {.nodes_max = 16,
                                          .jobs_max = 8,
                                          .offers_max = 4,
                                          .models_max = 2,
                                          .pools_max = 2,
                                          .terms_max = 4,
                                          .leases_max = 32};

static void offer(struct bench *b, uint32_t model, uint32_t stock)
{
    bench_offer(b, (struct test_offer){.id = 1 + model,
                                       .region = 1,
                                       .model = model,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 1,
                                       .stock = stock,
                                       .price = (1 + 9 * (model == H100)) * USD,
                                       .on_demand = 10 * USD});
}

/* Pool 0: H100 with bf16; pool 1: T4, without it. The T4 is by far the cheaper one. */
static void open_world(struct bench *b, uint32_t h100, uint32_t t4)
{
    bench_open(b, &limits);
    bench_model(b, H100, 2500, 80, 3);
    bench_model(b, T4, 2000, 16, 1);
    for (uint32_t tier = 0; tier < 2; tier++)
        bench_step(b, (struct pool_event){.kind = POOL_EVENT_POOL_DEFINED,
                                          .u.pool_defined = {.pool = tier,
                                                             .capability_mask = tier == 0 ? 3 : 1,
                                                             .hardware_mask = UINT64_C(1) << tier,
                                                             .price_threshold_ppm = 1000000}});
    offer(b, H100, 8); /* within reach, once: so nobody is refused */
    offer(b, T4, 8);
    offer(b, H100, h100);
    offer(b, T4, t4);
    bench_terms(b, TERMS, (struct job_terms){.degrade = 2});
}

static void submit(struct bench *b, uint64_t id, uint32_t min, uint64_t pools, uint64_t terms_id)
{
    bench_submit(b, (struct test_job){.id = id,
                                      .min = min,
                                      .max = min,
                                      .job_class = JOB_CLASS_P2,
                                      .pool_mask = pools,
                                      .terms_id = terms_id});
}

static void settle(struct bench *b)
{
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static uint32_t nodes_of(const struct bench *b, uint32_t model)
{
    struct node_view n;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++)
        count += pool_node_at(b->p, i, &n) && n.model == model && n.state <= NODE_READY;
    return count;
}

static void its_own_tier_comes_first_however_cheap_the_next_is(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 4, 8);
    submit(&b, 1, 4, 3, TERMS);
    assert_int_equal(nodes_of(&b, H100), 4);
    assert_int_equal(nodes_of(&b, T4), 0);
    assert_int_equal(b.said[DECISION_PLACE][REASON_NEXT_TIER], 0);
    submit(&b, 2, 4, 3, TERMS); /* nothing is left there */
    assert_int_equal(nodes_of(&b, T4), 4);
    const struct pool_decision *d = bench_decision(&b, DECISION_PLACE, REASON_NEXT_TIER);
    assert_non_null(d);
    assert_true(d->job_id == 2 && d->a == 4 && d->b == 4 && d->c == 4 * 2000);
    bench_close(&b);
}

static void tiers_are_not_mixed_in_one_job(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 3, 3);
    submit(&b, 1, 4, 3, TERMS); /* three of each: neither reaches four */
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_CAPACITY], 1);
    offer(&b, T4, 4); /* new supply of the next tier wakes it, too */
    settle(&b);
    assert_int_equal(nodes_of(&b, T4), 4);
    assert_int_equal(nodes_of(&b, H100), 0);
    bench_close(&b);
}

static void a_loss_is_made_up_in_the_tier_where_it_runs(void **state)
{
    (void)state;
    struct bench b;
    struct lease_view lease;
    open_world(&b, 0, 8);
    submit(&b, 1, 4, 3, TERMS);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    offer(&b, H100, 8);
    assert_true(bench_lease(&b, 1, 0, &lease));
    bench_node_full(&b, lease.node_key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, 0);
    settle(&b);
    assert_int_equal(nodes_of(&b, T4), 4);
    assert_int_equal(nodes_of(&b, H100), 0);
    bench_close(&b);
}

static void save(struct bench *b, uint64_t job_id, uint64_t step)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_CKPT_DURABLE,
                                      .u.ckpt_durable = {.job_id = job_id, .step = step}});
    settle(b);
}

/* Every node that is let go is gone at once, and its worker has handed over; the others come up. */
static void obey(struct bench *b)
{
    struct node_view n;
    struct lease_view lease;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, &lease) && lease.stop_reason != 0)
            bench_worker(b, lease.node_key, lease.job_id, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++)
        if (pool_node_at(b->p, i, &n) && n.state == NODE_RELEASING)
            bench_node_full(b, n.node_key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 0);
    bench_raise(b);
    settle(b);
}

static void it_comes_back_to_its_own_tier_at_a_checkpoint(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 0, 8);
    submit(&b, 1, 4, 3, TERMS);
    bench_raise(&b);
    offer(&b, H100, 8);
    bench_live(&b, 600 * SECOND_US);
    save(&b, 1, 1);
    assert_int_equal(nodes_of(&b, T4), 4); /* not before it has been there for a while */
    bench_live(&b, 1500 * SECOND_US);
    assert_int_equal(nodes_of(&b, H100), 0); /* nor long after a checkpoint */
    save(&b, 1, 2);
    const struct pool_decision *d = bench_decision(&b, DECISION_PLACE, REASON_TIER_BACK);
    if (d != NULL) assert_true(d->job_id == 1 && d->b == 4 * 2500 && d->c == 4 * 2000);
    assert_int_equal(b.said[DECISION_PLACE][REASON_TIER_BACK], 1);
    assert_int_equal(nodes_of(&b, H100), 4); /* in the same round */
    obey(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(nodes_of(&b, H100), 4);
    bench_live(&b, 300 * SECOND_US);
    obey(&b);
    assert_int_equal(nodes_of(&b, T4), 0);
    bench_close(&b);
}

static void it_stays_where_its_own_tier_has_less(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 0, 8);
    bench_submit(&b, (struct test_job){.id = 1, /* two at least, eight at most */
                                       .min = 2,
                                       .max = 8,
                                       .job_class = JOB_CLASS_P2,
                                       .pool_mask = 3,
                                       .terms_id = TERMS});
    bench_raise(&b);
    assert_int_equal(nodes_of(&b, T4), 8);
    offer(&b, H100, 2);
    for (uint64_t step = 1; step <= 60; step++) {
        bench_live(&b, 60 * SECOND_US);
        save(&b, 1, step);
    }
    assert_int_equal(nodes_of(&b, T4), 8); /* 16 NCU, and 5 there */
    offer(&b, H100, 7);
    save(&b, 1, 61);
    assert_int_equal(nodes_of(&b, H100), 7);
    bench_close(&b);
}

static void it_stays_when_it_is_about_to_end(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 0, 8);
    bench_terms(&b, TERMS + 1, (struct job_terms){.degrade = 2, .run_us = 3000 * SECOND_US});
    submit(&b, 1, 4, 3, TERMS + 1);
    bench_raise(&b);
    offer(&b, H100, 8);
    for (uint64_t step = 1; step <= 45; step++) {
        bench_live(&b, 60 * SECOND_US);
        save(&b, 1, step);
    }
    assert_int_equal(nodes_of(&b, T4), 4);
    bench_close(&b);
}

/* Its own tier comes for a few minutes and goes again, all day: at most one move in the first half hour, then
 * one an hour, two, four, eight. */
static void a_tier_that_comes_and_goes_moves_it_seldom(void **state)
{
    (void)state;
    struct bench b;
    struct node_view n;
    open_world(&b, 0, 8);
    submit(&b, 1, 4, 3, TERMS);
    bench_raise(&b);
    for (uint64_t step = 1; step <= 24 * 12; step++) {
        offer(&b, H100, step % 2 == 0 ? 4 : 0);
        bench_live(&b, 300 * SECOND_US);
        save(&b, 1, step);
        obey(&b);
        if (step % 2 != 0) continue;
        offer(&b, H100, 0);
        for (uint32_t i = 0; i < pool_nodes_end(b.p); i++) /* taken again */
            if (pool_node_at(b.p, i, &n) && n.model == H100 && n.state <= NODE_READY)
                bench_node_full(&b, n.node_key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, 0);
        obey(&b);
    }
    assert_in_range(b.said[DECISION_PLACE][REASON_TIER_BACK], 2, 6);
    bench_close(&b);
}

static void without_the_wish_it_waits(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 0, 8);
    submit(&b, 1, 1, 1, 0);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_tier_comes_first_however_cheap_the_next_is),
        cmocka_unit_test(tiers_are_not_mixed_in_one_job),
        cmocka_unit_test(a_loss_is_made_up_in_the_tier_where_it_runs),
        cmocka_unit_test(it_comes_back_to_its_own_tier_at_a_checkpoint),
        cmocka_unit_test(it_stays_where_its_own_tier_has_less),
        cmocka_unit_test(it_stays_when_it_is_about_to_end),
        cmocka_unit_test(a_tier_that_comes_and_goes_moves_it_seldom),
        cmocka_unit_test(without_the_wish_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
