/* Each wish that an explanation names is granted in a pool like it, and the job starts; what is not
 * named does not help. */
#include "core/explain.h"
#include "core/testing.h"

enum { T4, H100, CAP_FP16 = 1, CAP_FP8 = 2 };

static const struct pool_limits wide = {.nodes_max = 64,
                                        .jobs_max = 64,
                                        .offers_max = 8,
                                        .models_max = 4,
                                        .pools_max = 2,
                                        .terms_max = 16,
                                        .leases_max = 256};

/* Region 1: a node of eight H100, five of them held by a P3 job; region 2: four T4 at $0.60 each and
 * one H100 node at $40. */
static void open_world(struct bench *b)
{
    bench_open(b, &wide);
    bench_strict_classes(b);
    bench_model(b, T4, 200, 16, CAP_FP16);
    bench_model(b, H100, 2500, 80, CAP_FP16 | CAP_FP8);
    bench_offer(b, (struct test_offer){.id = 1,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_OWNED,
                                       .devices = 8,
                                       .stock = 1});
    bench_offer(b, (struct test_offer){.id = 2,
                                       .region = 2,
                                       .model = T4,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 4,
                                       .stock = 1,
                                       .price = 2400000,
                                       .on_demand = 2400000});
    bench_offer(b, (struct test_offer){.id = 3,
                                       .region = 2,
                                       .model = H100,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 8,
                                       .stock = 1,
                                       .price = 40 * USD,
                                       .on_demand = 40 * USD});
    bench_submit(
        b, (struct test_job){.id = 1, .min = 5, .max = 5, .job_class = JOB_CLASS_P3, .region = 1});
    bench_raise(b);
    assert_int_equal(bench_job_state(b, 1), JOB_RUNNING);
}

static const struct wish *find(const struct explanation *e, uint32_t kind)
{
    for (uint32_t i = 0; i < e->wish_count; i++)
        if (e->wishes[i].kind == kind) return &e->wishes[i];
    return NULL;
}

static struct test_job grant(struct test_job job, const struct wish *wish)
{
    switch ((enum wish_kind)wish->kind) {
    case WISH_FEWER_DEVICES: job.min = job.max = (uint32_t)wish->value; break;
    case WISH_WITHOUT_CAPABILITY:
        job.capability_mask &= ~(UINT64_C(1) << (uint32_t)wish->value);
        break;
    case WISH_LESS_MEMORY: job.vram_gib = (uint32_t)wish->value / 1024; break;
    case WISH_ANY_POOL: job.pool_mask = 0; break;
    case WISH_ANY_REGION: job.region = 0; break;
    case WISH_ANY_KIND: job.capacity_mask = 0; break;
    case WISH_ANY_PRICE: job.threshold_ppm = 1000000; break;
    case WISH_BUDGET: job.budget_per_hour = wish->value; break;
    case WISH_CLASS: job.job_class = (uint32_t)wish->value; break;
    case WISH_ANY_PLACE: job.terms_id = 0; break;
    case WISH_GATE: fail(); /* there is none in this world */
    case WISH_FEWER_NCU:    /* nobody asks for NCU here: plan_ncu_test.c */
    case WISH_KIND_END: fail();
    }
    return job;
}

/* Explains the job, grants each wish in a world of its own. */
static struct explanation explain(struct test_job job)
{
    struct bench b;
    struct explanation e;
    job.id = 2;
    open_world(&b);
    bench_submit(&b, job);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    assert_true(pool_explain(b.p, 2, &e));
    bench_close(&b);
    int64_t asked = -1; /* what each is said to cost more than */
    for (uint32_t i = 0; i < e.wish_count; i++) {
        const struct wish *wish = &e.wishes[i];
        struct job_view view;
        open_world(&b);
        bench_submit(&b, grant(job, wish));
        assert_true(pool_job_find(b.p, 2, &view));
        assert_true(view.state == JOB_STARTING || view.state == JOB_RUNNING);
        int64_t base = view.usd_micros_per_hour - wish->extra_usd_micros_per_hour;
        if (wish->has_extra) assert_true(asked < 0 || asked == base);
        if (wish->has_extra) asked = base;
        bench_close(&b);
    }
    return e;
}

static void a_full_region(void **state)
{
    (void)state;
    struct explanation e = explain((struct test_job){
        .min = 8, .max = 8, .job_class = JOB_CLASS_P2, .region = 1, .capability_mask = CAP_FP8});
    assert_int_equal(find(&e, WISH_FEWER_DEVICES)->value, 3);
    assert_int_equal(find(&e, WISH_ANY_REGION)->usd_micros_per_hour, 40 * USD);
    assert_int_equal(find(&e, WISH_ANY_REGION)->region, 2);
    assert_true(
        find(&e, WISH_ANY_REGION)->has_extra); /* owned devices, were they free, cost nothing */
    assert_int_equal(find(&e, WISH_ANY_REGION)->extra_usd_micros_per_hour, 40 * USD);
    assert_false(find(&e, WISH_CLASS)->has_extra);
    assert_int_equal(find(&e, WISH_CLASS)->value, JOB_CLASS_P0); /* 70 % are not eight devices */
    assert_int_equal(find(&e, WISH_CLASS)->victim_count, 1);
    assert_null(find(&e, WISH_WITHOUT_CAPABILITY)); /* T4 are not in that region */
    assert_null(find(&e, WISH_BUDGET));
}

static void a_capability_and_a_budget(void **state)
{
    (void)state;
    struct explanation e = explain((struct test_job){.min = 4,
                                                     .max = 4,
                                                     .job_class = JOB_CLASS_P2,
                                                     .capability_mask = CAP_FP16 | CAP_FP8,
                                                     .budget_per_hour = 10 * USD});
    assert_int_equal(find(&e, WISH_FEWER_DEVICES)->value, 3);
    assert_int_equal(find(&e, WISH_WITHOUT_CAPABILITY)->value, 1); /* fp8 */
    assert_int_equal(find(&e, WISH_WITHOUT_CAPABILITY)->usd_micros_per_hour, 2400000);
    assert_int_equal(find(&e, WISH_BUDGET)->value, 40 * USD);
    assert_null(find(&e, WISH_ANY_REGION));
}

static void memory_as_much_as_would_do(void **state)
{
    (void)state;
    struct explanation e = explain((struct test_job){.min = 4,
                                                     .max = 4,
                                                     .job_class = JOB_CLASS_P2,
                                                     .vram_gib = 40,
                                                     .budget_per_hour = 10 * USD});
    assert_int_equal(find(&e, WISH_LESS_MEMORY)->value, 16 * 1024);
}

static void what_does_not_wait_needs_nothing(void **state)
{
    struct bench b;
    struct explanation e;
    (void)state;
    open_world(&b);
    assert_false(pool_explain(b.p, 1, &e));
    assert_false(pool_explain(b.p, 99, &e));
    bench_close(&b);
}

/* Three of eight are free; the five others belong to a job that declared an hour, six minutes ago. */
static void the_next_free_time(void **state)
{
    struct bench b;
    struct explanation e;
    (void)state;
    bench_open(&b, &wide);
    bench_model(&b, H100, 2500, 80, CAP_FP8);
    bench_offer(&b, (struct test_offer){.id = 1,
                                        .region = 1,
                                        .model = H100,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 8,
                                        .stock = 1});
    bench_terms(&b, 1, (struct job_terms){.run_us = 3600 * SECOND_US});
    bench_submit(&b, (struct test_job){.id = 7, .min = 5, .max = 5, .terms_id = 1});
    bench_raise(&b);
    int64_t started_us = b.now_us;
    bench_live(&b, 360 * SECOND_US);
    bench_submit(&b, (struct test_job){.id = 8, .min = 8, .max = 8});
    assert_true(pool_explain(b.p, 8, &e));
    assert_int_equal(e.next.at_us, started_us + 3600 * SECOND_US);
    assert_int_equal(e.next.job_id, 7);
    assert_int_equal(e.next.region, 1);
    assert_int_equal(e.next.device_count, 3);
    assert_int_equal(e.next.devices_min, 8);
    bench_live(&b, 3240 * SECOND_US); /* it overruns: as long again */
    assert_true(pool_explain(b.p, 8, &e));
    assert_int_equal(e.next.at_us, started_us + 7200 * SECOND_US);
    bench_close(&b);
}

/* A gate of $5 an hour, the cheapest node $8: with that much it starts. */
static void a_gate_is_named_with_what_suffices(void **state)
{
    struct bench b;
    struct explanation e;
    (void)state;
    bench_open(&b, &wide);
    bench_model(&b, H100, 2500, 80, CAP_FP8);
    bench_offer(&b, (struct test_offer){.id = 1,
                                        .region = 1,
                                        .model = H100,
                                        .capacity = CAPACITY_ON_DEMAND,
                                        .devices = 1,
                                        .stock = 4,
                                        .price = 8 * USD,
                                        .on_demand = 8 * USD});
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_GATE_DEFINED,
                                       .u.gate_defined = {.scope = GATE_OF_CLASS,
                                                          .index = JOB_CLASS_P2,
                                                          .usd_micros_per_hour_max = 5 * USD,
                                                          .usd_micros_per_job_max = GATE_NONE,
                                                          .usd_micros_per_month_max = GATE_NONE}});
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 3, .job_class = JOB_CLASS_P2});
    assert_true(pool_explain(b.p, 1, &e));
    assert_int_equal(find(&e, WISH_GATE)->value, 8 * USD);
    assert_int_equal(e.next.at_us, 0); /* no device is what it waits for */
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_region),
        cmocka_unit_test(a_capability_and_a_budget),
        cmocka_unit_test(memory_as_much_as_would_do),
        cmocka_unit_test(what_does_not_wait_needs_nothing),
        cmocka_unit_test(the_next_free_time),
        cmocka_unit_test(a_gate_is_named_with_what_suffices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
