/* Idle owned nodes and the limit of nodes: who goes for a job that needs their places. */
#include "core/testing.h"

/* Two owned nodes in region 1 idle and fill the limit of two; there are larger ones of another model. */
static void open_with_idle_nodes(struct bench *b, uint32_t owned, uint32_t region_of_large,
                                 uint32_t large_ncu_milli)
{
    static const struct pool_limits limits = {
        .nodes_max = 2, .jobs_max = 8, .offers_max = 4, .models_max = 2, .leases_max = 16};
    bench_open(b, &limits);
    bench_model(b, 0, 1000, 16, 1);
    bench_model(b, 1, large_ncu_milli, 80, 3);
    bench_offer(
        b, (struct test_offer){
               .id = 1, .region = 1, .capacity = CAPACITY_OWNED, .devices = 1, .stock = owned});
    bench_offer(b, (struct test_offer){.id = 2,
                                       .region = region_of_large,
                                       .model = 1,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 2,
                                       .stock = 4,
                                       .price = USD,
                                       .on_demand = USD});
    bench_submit(b, (struct test_job){.id = 1,
                                      .min = 2,
                                      .max = 2,
                                      .region = 1,
                                      .capacity_mask = 1U << CAPACITY_OWNED,
                                      .job_class = JOB_CLASS_P2});
    bench_raise(b);
    bench_cancel(b, 1);
    struct lease_view lease;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, &lease))
            bench_worker(b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    assert_int_equal(bench_nodes(b, NODE_READY, NULL), 2); /* idle, kept */
}

static void let_go(struct bench *b)
{
    struct node_view n;
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++)
        if (pool_node_at(b->p, i, &n) && n.state == NODE_RELEASING)
            bench_node(b, n.node_key, NODE_PHASE_GONE);
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
    bench_raise(b);
}

static void idle_owned_nodes_make_room_for_a_job_that_needs_their_places(void **state)
{
    (void)state;
    struct bench b;
    open_with_idle_nodes(&b, /* owned */ 2, /* region_of_large */ 1, 2500);
    const struct test_job too_large = {
        .id = 2, .min = 6, .max = 6, .job_class = JOB_CLASS_P2, .capability_mask = 2};
    bench_submit(&b, too_large); /* three nodes: nobody goes in vain */
    assert_int_equal(b.said[DECISION_RELEASE][REASON_ROOM_WANTED], 0);
    bench_cancel(&b, 2);
    struct test_job job = too_large;
    job.id = 3;
    job.min = job.max = 3;
    bench_submit(&b, job);
    assert_int_equal(b.said[DECISION_RELEASE][REASON_ROOM_WANTED], 2);
    let_go(&b);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    bench_close(&b);
}

/* The best region has only nodes of which it takes three: room is made for those of the other one. */
static void idle_owned_nodes_make_room_in_whichever_region_fits(void **state)
{
    (void)state;
    struct bench b;
    open_with_idle_nodes(&b, /* owned */ 8, /* region_of_large */ 2, 500);
    bench_submit(&b, (struct test_job){.id = 2, .min = 3, .max = 8, .job_class = JOB_CLASS_P2});
    assert_int_equal(b.said[DECISION_RELEASE][REASON_ROOM_WANTED], 2);
    let_go(&b);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* An idle owned node in no rack, small nodes in one rack, large ones in another; places for two. */
static void open_with_racks(struct bench *b)
{
    static const struct pool_limits limits = {.nodes_max = 2,
                                              .jobs_max = 8,
                                              .offers_max = 4,
                                              .models_max = 2,
                                              .leases_max = 16,
                                              .terms_max = 4};
    bench_open(b, &limits);
    bench_model(b, 0, 1000, 16, 1);
    bench_model(b, 1, 1000, 16, 3);
    bench_offer(b, (struct test_offer){
                       .id = 1, .region = 1, .capacity = CAPACITY_OWNED, .devices = 1, .stock = 1});
    struct test_offer small = {.id = 2,
                               .region = 1,
                               .model = 1,
                               .capacity = CAPACITY_ON_DEMAND,
                               .devices = 1,
                               .stock = 8,
                               .price = USD,
                               .on_demand = USD,
                               .rack = 1};
    struct test_offer large = small;
    large.id = 3;
    large.devices = 2;
    large.price = large.on_demand = 3 * USD;
    large.rack = 2;
    bench_offer(b, small);
    bench_offer(b, large);
    bench_submit(b, (struct test_job){.id = 1,
                                      .min = 1,
                                      .max = 1,
                                      .capacity_mask = 1U << CAPACITY_OWNED,
                                      .job_class = JOB_CLASS_P2});
    bench_raise(b);
    bench_cancel(b, 1);
    struct lease_view lease;
    assert_true(bench_lease(b, 1, 0, &lease));
    bench_worker(b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    assert_int_equal(bench_nodes(b, NODE_READY, NULL), 1); /* idle, kept */
}

static void needs_three_in_two_nodes(struct bench *b, uint64_t terms_id)
{
    bench_submit(b, (struct test_job){.id = 2,
                                      .min = 3,
                                      .max = 3,
                                      .job_class = JOB_CLASS_P2,
                                      .capability_mask = 2,
                                      .terms_id = terms_id});
    assert_int_equal(b->said[DECISION_RELEASE][REASON_ROOM_WANTED], 1);
    let_go(b);
    assert_int_equal(bench_job_state(b, 2), JOB_RUNNING);
}

/* Without a limit it would be three small nodes, in one rack because that is as good; the large ones that
 * do with two places are in another. */
static void room_is_made_in_another_rack_than_would_be_liked(void **state)
{
    (void)state;
    struct bench b;
    open_with_racks(&b);
    needs_three_in_two_nodes(&b, /* terms_id */ 0);
    bench_close(&b);
}

static void room_is_made_in_whichever_rack_fits(void **state)
{
    (void)state;
    struct bench b;
    open_with_racks(&b);
    bench_terms(&b, 7, (struct job_terms){.affinity = TOPOLOGY_RACK});
    needs_three_in_two_nodes(&b, /* terms_id */ 7);
    bench_close(&b);
}

/* What it waits for comes free, and others are in the way once more before it has taken anything. */
static void the_limit_is_said_once(void **state)
{
    (void)state;
    static const struct pool_limits limits = {
        .nodes_max = 4, .jobs_max = 8, .offers_max = 4, .models_max = 1, .leases_max = 2};
    struct bench b;
    struct lease_view lease;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 16, 1);
    struct test_offer offer = {.id = 1,
                               .region = 1,
                               .capacity = CAPACITY_ON_DEMAND,
                               .devices = 4,
                               .stock = 4,
                               .price = USD,
                               .on_demand = USD};
    bench_offer(&b, offer);
    for (uint64_t id = 1; id <= 2; id++)
        bench_submit(&b,
                     (struct test_job){.id = id, .min = 2, .max = 2, .job_class = JOB_CLASS_P1});
    bench_raise(&b);
    bench_submit(&b, (struct test_job){.id = 3, .min = 2, .max = 2, .job_class = JOB_CLASS_P1});
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_LIMIT], 1);
    bench_cancel(&b, 2);
    offer.stock = 5;
    bench_offer(&b, offer); /* it looks again: a lease is on its way out */
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_LIMIT], 1);
    assert_true(bench_lease(&b, 2, 0, &lease));
    bench_worker(&b, lease.node_key, 2, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_LIMIT], 1);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_owned_nodes_make_room_for_a_job_that_needs_their_places),
        cmocka_unit_test(idle_owned_nodes_make_room_in_whichever_region_fits),
        cmocka_unit_test(room_is_made_in_another_rack_than_would_be_liked),
        cmocka_unit_test(room_is_made_in_whichever_rack_fits),
        cmocka_unit_test(the_limit_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
