/* Victims are taken where they help and nowhere else, what they free is had once, and who waits is told
 * what is in the way. */
#include "core/quota.h"
#include "core/testing.h"

enum { H100, CPU, H100_NCU = 2500, CPU_NCU = 50, TERMS = 7, PLENTY = 1000 * H100_NCU };

static const struct pool_limits limits = {.nodes_max = 16,
                                          .jobs_max = 32,
                                          .offers_max = 4,
                                          .models_max = 2,
                                          .pools_max = 1,
                                          .terms_max = 16,
                                          .leases_max = 64};

static void open_owned(struct bench *b, uint32_t nodes, uint32_t devices)
{
    bench_open(b, &limits);
    bench_model(b, H100, H100_NCU, 80, 1);
    bench_model(b, CPU, CPU_NCU, 0, 1);
    bench_class(b, JOB_CLASS_P1, 1000000, 0, 1U << JOB_CLASS_P3, false, true);
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                                      .u.offer_changed = {.offer_id = 1,
                                                          .provider = 1,
                                                          .region = 1,
                                                          .model = H100,
                                                          .capacity = CAPACITY_OWNED,
                                                          .device_count = devices,
                                                          .host_cpu_milli = 8000,
                                                          .stock_count = nodes}});
}

static void submit(struct bench *b, uint64_t id, uint32_t job_class, uint32_t min, uint32_t max,
                   uint32_t kind, struct job_terms terms)
{
    bench_terms(b, TERMS + id, terms);
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                      .u.job_submitted = {.job_id = id,
                                                          .spec_hash = id,
                                                          .capability_mask = 1,
                                                          .devices_min = min,
                                                          .devices_max = max,
                                                          .tenant = job_class,
                                                          .job_class = (uint8_t)job_class,
                                                          .kind = (uint8_t)kind,
                                                          .terms_id = TERMS + id}});
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
    bench_raise(b);
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static void submit_batch(struct bench *b, uint64_t id, uint32_t job_class, uint32_t devices)
{
    submit(b, id, job_class, devices, devices, JOB_KIND_BATCH, (struct job_terms){0});
}

static void define_tenant(struct bench *b, uint32_t job_class, int64_t ncu_milli,
                          int64_t cpu_ncu_milli, uint32_t workers)
{
    bench_step(b,
               (struct pool_event){.kind = POOL_EVENT_ACCOUNT_DEFINED,
                                   .u.account_defined = {.names = {job_class},
                                                         .quota_milli = {ncu_milli, cpu_ncu_milli},
                                                         .borrow_milli = {0, 0},
                                                         .lend_milli = {0, 0},
                                                         .workers_max = workers}});
}

/* Each class is a tenant of its own: this is what that of P1 may have. */
static void limit_tenant(struct bench *b, int64_t ncu_milli, int64_t cpu_ncu_milli,
                         uint32_t workers)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_QUOTA_MODEL_DEFINED,
                      .u.quota_model_defined = {.model = CPU, .kind = 1, .weight_milli = 1000}});
    define_tenant(b, JOB_CLASS_P3, PLENTY, PLENTY, 0);
    define_tenant(b, JOB_CLASS_P1, ncu_milli, cpu_ncu_milli, workers);
}

static void stop(struct bench *b, uint64_t job_id)
{
    struct lease_view l;
    assert_true(bench_lease(b, job_id, 0, &l));
    assert_int_not_equal(l.stop_reason, 0);
    bench_worker(b, l.node_key, job_id, l.worker_id, WORKER_PHASE_STOPPED, 0);
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static void a_share_does_not_shield_the_other_devices(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 1, 4);
    submit(&b, 1, JOB_CLASS_P3, 1, 1, JOB_KIND_BATCH, (struct job_terms){.device_milli = 400});
    submit_batch(&b, 2, JOB_CLASS_P3, 3);
    submit_batch(&b, 3, JOB_CLASS_P1, 3);
    stop(&b, 2);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    bench_close(&b);
}

static void no_victims_where_the_host_would_not_feed_the_job(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 1, 2);
    submit(&b, 1, JOB_CLASS_P1, 1, 1, JOB_KIND_BATCH, (struct job_terms){.host_cpu_milli = 5000});
    submit(&b, 2, JOB_CLASS_P3, 1, 1, JOB_KIND_BATCH, (struct job_terms){.host_cpu_milli = 2000});
    submit(&b, 3, JOB_CLASS_P1, 1, 1, JOB_KIND_BATCH, (struct job_terms){.host_cpu_milli = 4000});
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 0);
    submit(&b, 4, JOB_CLASS_P1, 1, 1, JOB_KIND_BATCH, (struct job_terms){.host_cpu_milli = 3000});
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 1); /* for this one it is enough */
    bench_close(&b);
}

static void no_victims_for_quota_of_another_kind(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 1, 2);
    limit_tenant(&b, 0, PLENTY, 0);
    submit_batch(&b, 1, JOB_CLASS_P3, 2);
    submit_batch(&b, 2, JOB_CLASS_P1, 2);
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 0);
    limit_tenant(&b, 2 * H100_NCU, PLENTY, 0);
    submit_batch(&b, 3, JOB_CLASS_P1, 2);
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 1);
    bench_close(&b);
}

static void no_victims_for_workers_that_are_not_allowed(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 2, 1);
    limit_tenant(&b, PLENTY, PLENTY, 1);
    submit_batch(&b, 1, JOB_CLASS_P3, 1);
    submit_batch(&b, 2, JOB_CLASS_P3, 1);
    submit(&b, 3, JOB_CLASS_P1, 2, 2, JOB_KIND_ELASTIC, (struct job_terms){0});
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 0);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_WORKERS], 1);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_CAPACITY], 0);
    bench_close(&b);
}

/* Quota for its least only: it keeps what is promised to it, and takes nothing twice. */
static void a_batch_job_within_its_quota_preempts_once(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 2, 4);
    limit_tenant(&b, 2 * H100_NCU, PLENTY, 0);
    submit_batch(&b, 1, JOB_CLASS_P3, 4);
    submit_batch(&b, 2, JOB_CLASS_P3, 4);
    submit(&b, 3, JOB_CLASS_P1, 2, 4, JOB_KIND_BATCH, (struct job_terms){0});
    bench_tick(&b);
    assert_int_equal(b.p->jobs[table_find(&b.p->job_table, 3)].promised_count, 2);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTS], 1);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1);
    bench_close(&b);
}

/* One lease a node: with the first two it could never have had the others. */
static void a_gang_takes_what_is_promised_on_a_node_at_once(void **state)
{
    (void)state;
    struct bench b;
    struct lease_view l;
    open_owned(&b, 1, 4);
    submit_batch(&b, 1, JOB_CLASS_P3, 2);
    submit_batch(&b, 2, JOB_CLASS_P3, 2);
    submit(&b, 3, JOB_CLASS_P1, 4, 4, JOB_KIND_ELASTIC, (struct job_terms){0});
    stop(&b, 1);
    assert_false(bench_lease(&b, 3, 0, &l));
    stop(&b, 2);
    assert_true(bench_lease(&b, 3, 0, &l));
    assert_int_equal(l.device_count, 4);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    bench_close(&b);
}

static void spot_above_the_threshold_is_no_lack_of_capacity(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, &limits);
    bench_model(&b, H100, H100_NCU, 80, 1);
    bench_offer(&b, (struct test_offer){.id = 1,
                                        .region = 1,
                                        .model = H100,
                                        .capacity = CAPACITY_SPOT,
                                        .devices = 1,
                                        .stock = 4,
                                        .price = 9 * USD,
                                        .on_demand = 10 * USD});
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .threshold_ppm = 500000});
    const struct pool_decision *said = bench_decision(&b, DECISION_WAIT, REASON_WAIT_PRICE);
    assert_non_null(said);
    assert_int_equal(said->a, 900000);
    assert_int_equal(said->b, 500000);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_CAPACITY], 0);
    bench_close(&b);
}

/* Owned nodes that are let go while idle come up for the gang: they count into the share that it recalls
 * from, as they do once they are up. */
static void what_a_gang_starts_itself_counts_into_the_share_of_its_class(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 2, 4);
    submit_batch(&b, 1, JOB_CLASS_P3, 4);
    submit(&b, 2, JOB_CLASS_P1, 8, 8, JOB_KIND_ELASTIC, (struct job_terms){0});
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1);
    stop(&b, 1);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* The same with a node on demand, which is none of the owned ones. */
static void what_a_gang_buys_counts_into_the_share_of_its_class(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 1, 4);
    submit_batch(&b, 1, JOB_CLASS_P3, 4);
    bench_offer(&b, (struct test_offer){.id = 2,
                                        .region = 1,
                                        .model = H100,
                                        .capacity = CAPACITY_ON_DEMAND,
                                        .devices = 4,
                                        .stock = 1,
                                        .price = USD});
    submit(&b, 2, JOB_CLASS_P1, 8, 8, JOB_KIND_ELASTIC, (struct job_terms){0});
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1);
    stop(&b, 1);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* All of the pool is more than 70 % of it: such a gang waits until others end, and is told why. */
static void a_gang_above_the_reserved_share_of_its_class_is_told_so(void **state)
{
    (void)state;
    struct bench b;
    open_owned(&b, 2, 4);
    bench_class(&b, JOB_CLASS_P1, 700000, 300000, 1U << JOB_CLASS_P3, false, true);
    submit_batch(&b, 1, JOB_CLASS_P3, 4);
    submit_batch(&b, 2, JOB_CLASS_P3, 4);
    submit(&b, 3, JOB_CLASS_P1, 6, 8, JOB_KIND_ELASTIC, (struct job_terms){0});
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 0);
    const struct pool_decision *said = bench_decision(&b, DECISION_WAIT, REASON_WAIT_RECALL);
    assert_non_null(said);
    assert_int_equal(said->a, 6);
    assert_int_equal(said->b, 8 * H100_NCU * 7 / 10);
    assert_int_equal(said->c, 0);
    submit(&b, 4, JOB_CLASS_P1, 5, 5, JOB_KIND_ELASTIC, (struct job_terms){0});
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 2); /* within it: at once */
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_does_not_shield_the_other_devices),
        cmocka_unit_test(no_victims_where_the_host_would_not_feed_the_job),
        cmocka_unit_test(no_victims_for_quota_of_another_kind),
        cmocka_unit_test(no_victims_for_workers_that_are_not_allowed),
        cmocka_unit_test(a_batch_job_within_its_quota_preempts_once),
        cmocka_unit_test(a_gang_takes_what_is_promised_on_a_node_at_once),
        cmocka_unit_test(what_a_gang_starts_itself_counts_into_the_share_of_its_class),
        cmocka_unit_test(what_a_gang_buys_counts_into_the_share_of_its_class),
        cmocka_unit_test(a_gang_above_the_reserved_share_of_its_class_is_told_so),
        cmocka_unit_test(spot_above_the_threshold_is_no_lack_of_capacity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
