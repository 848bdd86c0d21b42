/* Packing inside the pool, as stories: which of its own nodes takes whom. */
#include "core/testing.h"

static const struct pool_limits limits = {.nodes_max = 128,
                                          .jobs_max = 1024,
                                          .offers_max = 8,
                                          .models_max = 2,
                                          .pools_max = 1,
                                          .leases_max = 2048,
                                          .terms_max = 16};

static void offer(struct bench *b, uint64_t id, uint32_t model, uint32_t devices, uint32_t stock,
                  uint32_t cpu_milli, int64_t price)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                                      .u.offer_changed = {.offer_id = id,
                                                          .usd_micros_per_hour = price,
                                                          .on_demand_usd_micros_per_hour = price,
                                                          .provider = 1,
                                                          .region = 1,
                                                          .zone = 1,
                                                          .model = model,
                                                          .capacity = CAPACITY_OWNED,
                                                          .device_count = devices,
                                                          .stock_count = stock,
                                                          .host_cpu_milli = cpu_milli,
                                                          .host_memory_mib = 1 << 20}});
}

static void settle(struct bench *b)
{
    for (uint32_t i = 0; i < 200 && pool_next_wake_us(b->p) <= b->now_us; i++) bench_tick(b);
}

/* Everything that is on sale comes up and is idle. */
static void raise_all(struct bench *b, uint32_t devices)
{
    struct lease_view lease;
    bench_submit(b, (struct test_job){.id = 1000, .min = devices, .max = devices});
    settle(b);
    bench_raise(b);
    settle(b);
    assert_int_equal(bench_job_state(b, 1000), JOB_RUNNING);
    bench_cancel(b, 1000);
    settle(b);
    while (bench_lease(b, 1000, 0, &lease))
        bench_worker(b, lease.node_key, 1000, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    settle(b);
}

static void submit(struct bench *b, uint64_t id, uint32_t devices, uint64_t terms_id)
{
    bench_submit(b, (struct test_job){.id = id,
                                      .min = devices,
                                      .max = devices,
                                      .kind = JOB_KIND_BATCH,
                                      .terms_id = terms_id});
    settle(b);
}

static uint64_t offer_of(const struct bench *b, uint64_t job_id)
{
    struct lease_view lease;
    struct node_view node;
    assert_true(bench_lease(b, job_id, 0, &lease));
    assert_true(pool_node_find(b->p, lease.node_key, &node));
    return node.offer_id;
}

/* Whoever asks for no processors goes where few are left for the devices, although another node is
 * cheaper: the price of what is owned is paid anyway. */
static void devices_without_processors_go_to_who_needs_none(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 0, 8, 1, 96000, 8 * USD);
    offer(&b, 2, 0, 8, 1, 16000, 9 * USD);
    raise_all(&b, 16);
    bench_terms(&b, 7, (struct job_terms){.host_cpu_milli = 12000, .host_memory_mib = 1024});
    for (uint64_t id = 1; id <= 6; id++) {
        submit(&b, id, 1, 0);
        assert_int_equal(offer_of(&b, id), 2);
    }
    for (uint64_t id = 7; id <= 13; id++) submit(&b, id, 1, 7);
    for (uint64_t id = 7; id <= 13; id++) assert_int_equal(bench_job_state(&b, id), JOB_RUNNING);
    bench_close(&b);
}

/* Small jobs leave whole nodes to those that are known to come for them. */
static void small_jobs_gather(void **state)
{
    struct bench b;
    struct node_view node;
    uint32_t whole = 0;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 0, 4, 8, 64000, 4 * USD);
    raise_all(&b, 32);
    for (uint64_t id = 1; id <= 20; id++) { /* what is usual: whole nodes and single devices */
        submit(&b, id, id % 2 == 0 ? 4 : 1, 0);
        bench_cancel(&b, id);
        settle(&b);
        struct lease_view lease;
        while (bench_lease(&b, id, 0, &lease))
            bench_worker(&b, lease.node_key, id, lease.worker_id, WORKER_PHASE_STOPPED, 0);
        settle(&b);
    }
    for (uint64_t id = 101; id <= 112; id++) submit(&b, id, 1, 0);
    for (uint32_t i = 0; i < pool_nodes_end(b.p); i++)
        whole += pool_node_at(b.p, i, &node) && node.devices_free == 4;
    assert_int_equal(whole, 5);
    for (uint64_t id = 201; id <= 205; id++) submit(&b, id, 4, 0);
    for (uint64_t id = 201; id <= 205; id++) assert_int_equal(bench_job_state(&b, id), JOB_RUNNING);
    bench_close(&b);
}

/* A job without a device runs where all devices are taken, pays for none, and is bound by the host. */
static void a_part_of_a_host_needs_no_device(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 0, 4, 1, 16000, 4 * USD);
    raise_all(&b, 4);
    submit(&b, 1, 4, 0);
    bench_terms(&b, 7, (struct job_terms){.host_only = 1, .host_cpu_milli = 6000});
    for (uint64_t id = 2; id <= 4; id++) submit(&b, id, 1, 7);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 4), JOB_QUEUED);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_HOST], 1);
    assert_true(bench_lease(&b, 2, 0, &lease));
    assert_int_equal(lease.device_mask, 0);
    int64_t paid = b.entered_usd_micros[ENTRY_JOB];
    bench_live(&b, 60 * SECOND_US);
    assert_int_equal(b.entered_usd_micros[ENTRY_JOB] - paid, 4 * USD / 60); /* all by job 1 */
    bench_worker(&b, lease.node_key, 2, lease.worker_id, WORKER_PHASE_FINISHED, 1);
    settle(&b);
    assert_int_equal(bench_job_state(&b, 4), JOB_RUNNING);
    bench_close(&b);
}

/* Two halves of one node for two jobs, and a gang over what is left of three. */
static void a_gang_takes_what_is_left_of_nodes(void **state)
{
    struct bench b;
    uint32_t devices = 0;
    struct lease_view lease;
    (void)state;
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 40, 1);
    offer(&b, 1, 0, 8, 3, 64000, 8 * USD);
    raise_all(&b, 24);
    submit(&b, 1, 5, 0);
    submit(&b, 2, 5, 0);
    submit(&b, 3, 5, 0);
    bench_submit(&b, (struct test_job){.id = 4, .min = 9, .max = 9});
    settle(&b);
    assert_int_equal(bench_job_state(&b, 4), JOB_RUNNING);
    for (uint32_t i = 0; bench_lease(&b, 4, i, &lease); i++) devices += lease.device_count;
    assert_int_equal(devices, 9);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_without_processors_go_to_who_needs_none),
        cmocka_unit_test(small_jobs_gather),
        cmocka_unit_test(a_part_of_a_host_needs_no_device),
        cmocka_unit_test(a_gang_takes_what_is_left_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
