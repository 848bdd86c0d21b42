/* Shares of devices and limits of hosts, as stories. */
#include "core/testing.h"

static const struct pool_limits limits = {.nodes_max = 64,
                                          .jobs_max = 512,
                                          .offers_max = 8,
                                          .models_max = 2,
                                          .pools_max = 1,
                                          .leases_max = 1024,
                                          .terms_max = 8};

static void offer(struct bench *b, uint64_t id, uint32_t devices, uint32_t stock,
                  uint32_t cpu_milli, uint32_t memory_mib)
{
    bench_step(
        b, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                               .u.offer_changed = {.offer_id = id,
                                                   .usd_micros_per_hour = devices * USD,
                                                   .on_demand_usd_micros_per_hour = devices * USD,
                                                   .provider = 1,
                                                   .region = 1,
                                                   .zone = 1,
                                                   .capacity = CAPACITY_OWNED,
                                                   .device_count = devices,
                                                   .stock_count = stock,
                                                   .host_cpu_milli = cpu_milli,
                                                   .host_memory_mib = memory_mib}});
}

static void submit(struct bench *b, uint64_t id, uint64_t terms_id, struct job_terms terms)
{
    bench_terms(b, terms_id, terms);
    bench_submit(b,
                 (struct test_job){
                     .id = id, .min = 1, .max = 1, .kind = JOB_KIND_BATCH, .terms_id = terms_id});
}

/* The fullest device of the pool, in thousandths, and how many have anything on them. */
static uint32_t fullest(const struct bench *b, uint32_t *ret_opened)
{
    uint32_t most = 0;
    *ret_opened = 0;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++) {
        struct lease_view one, other;
        uint32_t milli = 0;
        bool first = true;
        if (!pool_lease_at(b->p, i, &one)) continue;
        for (uint32_t k = 0; k < pool_leases_end(b->p); k++) {
            if (!pool_lease_at(b->p, k, &other)) continue;
            if (other.node_key != one.node_key || other.device_index != one.device_index) continue;
            milli += other.device_milli;
            first = first && k >= i;
        }
        *ret_opened += first;
        if (milli > most) most = milli;
    }
    return most;
}

static uint32_t count_jobs(const struct bench *b, uint32_t state)
{
    uint32_t count = 0;
    struct job_view view;
    for (uint32_t i = 0; i < pool_jobs_end(b->p); i++)
        count += pool_job_at(b->p, i, &view) && view.state == state;
    return count;
}

static void settle(struct bench *b)
{
    for (uint32_t i = 0; i < 200 && pool_next_wake_us(b->p) <= b->now_us; i++) bench_tick(b);
}

/* 200 requests of 0.4 on 50 devices: 100 run, two on each; the rest waits, says why, and is quiet.
 */
static void two_shares_of_two_fifths_on_every_device(struct bench *b, uint32_t node_devices)
{
    uint32_t opened;
    bench_open(b, &limits);
    bench_model(b, 0, 1000, 40, 1);
    offer(b, 1, node_devices, 50 / node_devices, 0, 0);
    for (uint64_t id = 1; id <= 200; id++)
        submit(b, id, 7, (struct job_terms){.device_milli = 400});
    settle(b);
    for (uint32_t round = 0; round < 4; round++) {
        bench_raise(b);
        settle(b);
    }
    assert_int_equal(count_jobs(b, JOB_RUNNING), 100);
    assert_int_equal(count_jobs(b, JOB_QUEUED), 100);
    assert_int_equal(fullest(b, &opened), 800);
    assert_int_equal(opened, 50);
    assert_true(b->said[DECISION_WAIT][REASON_WAIT_SHARE] >= 1);
    assert_int_equal(b->asked[POOL_COMMAND_ENSURE_NODE] > 50 / node_devices, 0);
    uint64_t before = b->seq;
    uint32_t waits = b->said[DECISION_WAIT][REASON_WAIT_SHARE];
    bench_advance(b, 4 * SECOND_US);
    assert_true(b->seq - before < 400); /* asks of nodes and workers, no storm of retries */
    assert_int_equal(b->said[DECISION_WAIT][REASON_WAIT_SHARE], waits);
}

static void d12(void **state)
{
    struct bench b;
    (void)state;
    two_shares_of_two_fifths_on_every_device(&b, 1);
    bench_close(&b);
    two_shares_of_two_fifths_on_every_device(&b, 5);
    /* One that ends makes room for exactly one. */
    struct lease_view lease;
    uint64_t job_id = 0;
    for (uint32_t i = 0; job_id == 0; i++)
        if (pool_lease_at(b.p, i, &lease)) job_id = lease.job_id;
    bench_worker(&b, lease.node_key, job_id, lease.worker_id, WORKER_PHASE_FINISHED, 1);
    settle(&b);
    assert_int_equal(count_jobs(&b, JOB_RUNNING), 100);
    assert_int_equal(count_jobs(&b, JOB_QUEUED), 99);
    bench_close(&b);
}

static void memory_of_a_device_bounds_its_shares(void **state)
{
    struct bench b;
    uint32_t opened;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 1, 3, 0, 0);
    for (uint64_t id = 1; id <= 8; id++) /* a tenth of the device, but 12 GiB of its 40 */
        submit(&b, id, 7, (struct job_terms){.device_milli = 100, .device_memory_mib = 12 * 1024});
    for (uint32_t round = 0; round < 4; round++) {
        settle(&b);
        bench_raise(&b);
    }
    settle(&b);
    assert_int_equal(count_jobs(&b, JOB_RUNNING), 8);
    assert_int_equal(fullest(&b, &opened), 300);
    assert_int_equal(opened, 3);
    submit(&b, 9, 8, (struct job_terms){.device_milli = 100, .device_memory_mib = 41 * 1024});
    assert_int_equal(bench_job_state(&b, 9), JOB_REFUSED);
    bench_close(&b);
}

/* Whole devices stay whole: shares crowd on what is opened. */
static void shares_leave_whole_devices_to_whole_jobs(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 4, 1, 0, 0);
    for (uint64_t id = 1; id <= 4; id++) submit(&b, id, 7, (struct job_terms){.device_milli = 250});
    bench_submit(&b, (struct test_job){.id = 10, .min = 3, .max = 3});
    for (uint32_t round = 0; round < 4; round++) {
        settle(&b);
        bench_raise(&b);
    }
    settle(&b);
    assert_int_equal(bench_job_state(&b, 10), JOB_RUNNING);
    assert_int_equal(count_jobs(&b, JOB_RUNNING), 5);
    bench_close(&b);
}

static void a_host_gives_no_more_than_it_has(void **state)
{
    struct bench b;
    uint64_t key = 0;
    struct node_view node;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 8, 2, 16000, 64 * 1024);
    struct job_terms terms = {.host_cpu_milli = 6000, .host_memory_mib = 8 * 1024};
    bench_terms(&b, 7, terms);
    bench_submit(&b, (struct test_job){.id = 1, .min = 4, .max = 4, .terms_id = 7});
    settle(&b);
    bench_raise(&b);
    settle(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_nodes(&b, NODE_READY, &key), 2); /* two devices on each: 12 of 16 */
    assert_true(pool_node_find(b.p, key, &node));
    assert_int_equal(node.devices_free, 6);
    bench_submit(&b, (struct test_job){.id = 2, .min = 5, .max = 5, .terms_id = 7});
    assert_int_equal(bench_job_state(&b, 2), JOB_REFUSED); /* never more than two on each */
    bench_submit(&b, (struct test_job){.id = 3, .min = 12, .max = 12}); /* needs nothing of it */
    settle(&b);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    bench_close(&b);
}

/* Jobs share a node by devices: each is told which are its own, and who comes after takes what was given
 * back, not what others still have. */
static void jobs_share_a_node_by_devices(void **state)
{
    struct bench b;
    struct lease_view first, second, third, share;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 8, 1, 0, 0);
    bench_submit(&b, (struct test_job){.id = 1, .min = 3, .max = 3});
    bench_submit(&b, (struct test_job){.id = 2, .min = 2, .max = 2});
    settle(&b);
    bench_raise(&b);
    settle(&b);
    submit(&b, 3, 7, (struct job_terms){.device_milli = 300});
    settle(&b);
    assert_true(bench_lease(&b, 1, 0, &first));
    assert_true(bench_lease(&b, 2, 0, &second));
    assert_true(bench_lease(&b, 3, 0, &share));
    assert_int_equal(first.node_key, second.node_key);
    assert_int_equal(first.device_mask, 0x07);
    assert_int_equal(second.device_mask, 0x18);
    assert_int_equal(share.device_mask, 0x20);
    bench_worker(&b, first.node_key, 1, first.worker_id, WORKER_PHASE_FINISHED, 1);
    settle(&b);
    bench_submit(&b, (struct test_job){.id = 4, .min = 5, .max = 5});
    const struct pool_command *command = bench_command(&b, POOL_COMMAND_ENSURE_WORKER, 0);
    assert_non_null(command);
    assert_int_equal(command->device_mask, 0xc7);
    assert_true(bench_lease(&b, 4, 0, &third));
    assert_int_equal(third.device_mask, 0xc7);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d12),
        cmocka_unit_test(memory_of_a_device_bounds_its_shares),
        cmocka_unit_test(shares_leave_whole_devices_to_whole_jobs),
        cmocka_unit_test(a_host_gives_no_more_than_it_has),
        cmocka_unit_test(jobs_share_a_node_by_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
