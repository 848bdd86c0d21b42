/* One job from submission to release, in the order of the design's "walk of a job". */
#include "core/testing.h"

enum { H100, A10 };

static void open_market(struct bench *b)
{
    bench_open(b, NULL);
    bench_model(b, H100, /* ncu_milli */ 2500, /* vram_gib */ 80, /* capability_mask */ 3);
    bench_model(b, A10, 400, 24, 1);
    bench_offer(b, (struct test_offer){.id = 11,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 4,
                                       .price = 2 * USD,
                                       .on_demand = 4 * USD});
    bench_offer(b, (struct test_offer){.id = 12,
                                       .region = 1,
                                       .model = A10,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 4,
                                       .price = USD / 2,
                                       .on_demand = USD});
}

static void job_runs_from_submit_to_release(void **state)
{
    struct bench b;
    uint64_t keys[2];
    (void)state;
    open_market(&b);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2});
    assert_non_null(bench_decision(&b, DECISION_ADMIT, REASON_FITS));
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct pool_command *command = bench_command(&b, POOL_COMMAND_ENSURE_NODE, i);
        assert_int_equal(command->offer_id, 11); /* $0.80 per NCU against $1.25 */
        keys[i] = command->node_key;
    }
    bench_node(&b, keys[0], NODE_PHASE_UP);
    bench_node(&b, keys[1], NODE_PHASE_UP);
    bench_agent(&b, keys[0]);
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_WORKER), 0); /* the gang is not complete */
    bench_agent(&b, keys[1]);
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_WORKER), 2);
    uint64_t workers[2] = {bench_command(&b, POOL_COMMAND_ENSURE_WORKER, 0)->worker_id,
                           bench_command(&b, POOL_COMMAND_ENSURE_WORKER, 1)->worker_id};
    for (uint32_t i = 0; i < 2; i++)
        bench_worker(&b, keys[i], 1, workers[i], WORKER_PHASE_RUNNING, 1);
    b.now_us += 10 * SECOND_US;
    bench_worker(&b, keys[0], 1, workers[0], WORKER_PHASE_FINISHED, 200);
    assert_int_equal(bench_job_state(&b, 1), JOB_DONE);
    assert_int_equal(bench_count(&b, POOL_COMMAND_STOP_WORKER), 1);
    bench_worker(&b, keys[1], 1, workers[1], WORKER_PHASE_STOPPED, 200);
    /* 10 s of two nodes at $2/h, to the micro-dollar. */
    assert_int_equal(b.entered_usd_micros[ENTRY_JOB], 2 * (2 * USD * 10 / 3600));
    for (uint32_t i = 0; i < 60; i++) {
        b.now_us += SECOND_US;
        bench_agent(&b, keys[0]);
        bench_agent(&b, keys[1]);
        if (b.asked[POOL_COMMAND_RELEASE_NODE] > 0) break;
    }
    assert_int_equal(b.asked[POOL_COMMAND_RELEASE_NODE], 2);
    bench_node_full(&b, keys[0], NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 50000);
    bench_node_full(&b, keys[1], NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 50001);
    int64_t sum = 0;
    for (uint32_t kind = ENTRY_JOB; kind < ENTRY_KIND_END; kind++)
        sum += b.entered_usd_micros[kind];
    assert_int_equal(sum, 100001); /* the entries add up to the provider's bill */
    assert_int_equal(pool_next_wake_us(b.p), INT64_MAX);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(job_runs_from_submit_to_release)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
