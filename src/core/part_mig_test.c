/* Instances of partitioned devices in the pool, as stories. */
#include "core/testing.h"

static const struct pool_limits limits = {.nodes_max = 16,
                                          .jobs_max = 128,
                                          .offers_max = 4,
                                          .models_max = 3,
                                          .pools_max = 1,
                                          .leases_max = 256,
                                          .terms_max = 16};

static void settle(struct bench *b)
{
    for (uint32_t i = 0; i < 200 && pool_next_wake_us(b->p) <= b->now_us; i++) bench_tick(b);
}

static void model(struct bench *b, uint32_t number, uint32_t vram_gib, uint32_t mig_slices)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                      .u.model_defined = {.model = number,
                                                          .ncu_milli = 1000 * (number + 1),
                                                          .vram_mib = vram_gib * 1024,
                                                          .capability_mask = 1,
                                                          .mig_slices = mig_slices}});
}

static void offer(struct bench *b, uint64_t id, uint32_t number, uint32_t capacity)
{
    bench_offer(b, (struct test_offer){.id = id,
                                       .region = 1,
                                       .model = number,
                                       .capacity = capacity,
                                       .devices = 1,
                                       .stock = 1,
                                       .price = 8 * USD,
                                       .on_demand = 8 * USD});
}

static void submit(struct bench *b, uint64_t id, uint32_t compute, uint32_t memory_gib)
{
    uint64_t terms_id = compute * 1000 + memory_gib;
    bench_terms(b, terms_id,
                (struct job_terms){.mig_profile = compute, .device_memory_mib = memory_gib * 1024});
    bench_submit(b, (struct test_job){.id = id,
                                      .min = 1,
                                      .max = 1,
                                      .job_class = JOB_CLASS_P2,
                                      .kind = JOB_KIND_BATCH,
                                      .terms_id = terms_id});
    settle(b);
    bench_raise(b);
    settle(b);
}

static struct lease_view lease_of(const struct bench *b, uint64_t job_id)
{
    struct lease_view lease;
    assert_true(bench_lease(b, job_id, 0, &lease));
    return lease;
}

static void finish(struct bench *b, uint64_t job_id)
{
    struct lease_view lease = lease_of(b, job_id);
    bench_worker(b, lease.node_key, job_id, lease.worker_id, WORKER_PHASE_FINISHED, 1);
    settle(b);
}

/* Seven 1g on one GPU, each pays an eighth; two that are left in the way keep out a 3g, although six
 * slices are free: said as a conflict. Full is said otherwise. */
static void conflict_is_not_full(struct bench *b, uint32_t capacity)
{
    bench_open(b, &limits);
    model(b, 0, 80, 8);
    offer(b, 1, 0, capacity);
    for (uint64_t id = 1; id <= 7; id++) submit(b, id, 1, 10);
    uint32_t starts = 0;
    for (uint64_t id = 1; id <= 7; id++) starts |= 1u << lease_of(b, id).mig_start;
    assert_int_equal(starts, 0x7f);
    int64_t paid = b->entered_usd_micros[ENTRY_JOB];
    bench_live(b, 60 * SECOND_US);
    assert_in_range(b->entered_usd_micros[ENTRY_JOB] - paid, 7 * USD / 60, 7 * USD / 60 + 1);
    submit(b, 10, 3, 40);
    assert_int_equal(b->said[DECISION_WAIT][REASON_WAIT_MIG], 1);
    assert_int_equal(b->said[DECISION_WAIT][REASON_WAIT_MIG_CONFLICT], 0);
    for (uint64_t id = 1; id <= 7; id++)
        if (lease_of(b, id).mig_start != 1 && lease_of(b, id).mig_start != 5) finish(b, id);
    assert_int_equal(bench_job_state(b, 10), JOB_QUEUED);
    assert_int_equal(b->said[DECISION_WAIT][REASON_WAIT_MIG_CONFLICT], 1);
    for (uint64_t id = 1; id <= 7; id++) {
        if (bench_job_state(b, id) != JOB_RUNNING || lease_of(b, id).mig_start != 5) continue;
        finish(b, id);
        break;
    }
    assert_int_equal(bench_job_state(b, 10), JOB_RUNNING);
    assert_int_equal(lease_of(b, 10).mig_start, 4);
    assert_int_equal(lease_of(b, 10).device_milli, 500);
    bench_close(b);
}

static void d13(void **state)
{
    struct bench b;
    (void)state;
    conflict_is_not_full(&b, CAPACITY_OWNED); /* packed */
    conflict_is_not_full(&b, CAPACITY_ON_DEMAND);
}

/* Placed in order, small ones keep to one side: a 3g still fits beside three 1g. */
static void small_instances_keep_to_one_side(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, &limits);
    model(&b, 0, 80, 8);
    offer(&b, 1, 0, CAPACITY_OWNED);
    for (uint64_t id = 1; id <= 3; id++) submit(&b, id, 1, 10);
    submit(&b, 4, 3, 0);
    assert_int_equal(bench_job_state(&b, 4), JOB_RUNNING);
    bench_close(&b);
}

/* The smallest profile that does, model by model: 10 GB are one slice of an A100-80GB, two of an
 * A100-40GB (1g with twice the memory). Models that cannot be partitioned take no part. */
static void the_smallest_profile_does(void **state)
{
    struct bench b;
    (void)state;
    for (uint32_t vram_gib = 40; vram_gib <= 80; vram_gib += 40) {
        bench_open(&b, &limits);
        model(&b, 0, vram_gib, 8);
        model(&b, 1, 96, 0);
        offer(&b, 1, 0, CAPACITY_OWNED);
        offer(&b, 2, 1, CAPACITY_OWNED);
        submit(&b, 1, 1, 10);
        assert_int_equal(lease_of(&b, 1).device_milli, vram_gib == 40 ? 250 : 125);
        assert_int_equal(lease_of(&b, 1).mig_compute, 1);
        submit(&b, 2, 7, 96);
        assert_int_equal(bench_job_state(&b, 2), JOB_REFUSED);
        bench_close(&b);
    }
}

/* A device holds instances or other shares, never both; a 7g is all of it. */
static void instances_and_shares_keep_apart(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, &limits);
    model(&b, 0, 80, 8);
    offer(&b, 1, 0, CAPACITY_OWNED);
    submit(&b, 1, 1, 0);
    bench_terms(&b, 7, (struct job_terms){.device_milli = 100});
    bench_submit(
        &b, (struct test_job){.id = 2, .min = 1, .max = 1, .kind = JOB_KIND_BATCH, .terms_id = 7});
    settle(&b);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    finish(&b, 1);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    submit(&b, 3, 7, 0);
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    finish(&b, 2);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    assert_int_equal(lease_of(&b, 3).device_milli, 1000);
    bench_close(&b);
}

static uint32_t waits(const struct bench *b, uint64_t job_id)
{
    return bench_job_state(b, job_id) == JOB_QUEUED;
}

/* 1g at 1 and 5 keep out a 3g; the one that has worked long enough moves, and the 3g has its place. */
static void an_instance_moves_so_that_another_fits(void **state)
{
    struct bench b;
    (void)state;
    for (uint32_t capacity = CAPACITY_OWNED; capacity <= CAPACITY_RESERVED; capacity++) {
        bench_open(&b, &limits);
        model(&b, 0, 80, 8);
        offer(&b, 1, 0, capacity);
        for (uint64_t id = 1; id <= 7; id++) submit(&b, id, 1, 10);
        for (uint64_t id = 1; id <= 7; id++)
            if (lease_of(&b, id).mig_start != 1 && lease_of(&b, id).mig_start != 5) finish(&b, id);
        submit(&b, 10, 3, 40);
        assert_true(waits(&b, 10));
        assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_MIG_CONFLICT],
                         1); /* too young to move */
        submit(&b, 11, 3, 40);
        for (uint32_t i = 0; i < 130 && b.said[DECISION_PREEMPT][REASON_MIG_REPACKS] == 0; i++)
            bench_live(&b, 5 * SECOND_US);
        assert_int_equal(b.said[DECISION_PREEMPT][REASON_MIG_REPACKS], 1);
        assert_int_equal(b.said[DECISION_PREEMPT][REASON_MIG_MOVED], 1);
        submit(&b, 12, 1, 10); /* whoever comes does not take what is kept */
        for (uint64_t id = 1; id <= 7; id++) {
            struct lease_view lease;
            if (bench_job_state(&b, id) > JOB_RUNNING || !bench_lease(&b, id, 0, &lease)) continue;
            if (lease.stop_reason == REASON_MIG_MOVED)
                bench_worker(&b, lease.node_key, id, lease.worker_id, WORKER_PHASE_STOPPED, 1);
        }
        settle(&b);
        assert_int_equal(bench_job_state(&b, 10), JOB_RUNNING);
        for (uint64_t id = 1; id <= 7; id++) assert_false(waits(&b, id));
        assert_true(waits(&b, 11));
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d13),
        cmocka_unit_test(small_instances_keep_to_one_side),
        cmocka_unit_test(the_smallest_profile_does),
        cmocka_unit_test(instances_and_shares_keep_apart),
        cmocka_unit_test(an_instance_moves_so_that_another_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
