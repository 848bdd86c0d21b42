/* Stock kept for gangs, one story each. */
#include "core/testing.h"

enum { H100, A10 };

static const struct test_offer spot = {.id = 11,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 8,
                                       .price = 2 * USD,
                                       .on_demand = 4 * USD};

static struct test_offer with_stock(uint32_t stock)
{
    struct test_offer offer = spot;
    offer.stock = stock;
    return offer;
}

/* Eight were seen once, two are left: a gang of four of the class asked for waits. */
static void open_with_gang(struct bench *b, uint32_t job_class)
{
    bench_open(b, NULL);
    bench_model(b, H100, 2500, 80, 1);
    bench_model(b, A10, 400, 24, 1);
    bench_offer(b, spot);
    bench_offer(b, with_stock(2));
    bench_submit(
        b, (struct test_job){.id = 1, .min = 4, .max = 4, .vram_gib = 80, .job_class = job_class});
    assert_int_equal(bench_job_state(b, 1), JOB_QUEUED);
}

static uint32_t bought_by(const struct bench *b, uint64_t job_id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->out.command_count; i++)
        count += b->out.commands[i].kind == POOL_COMMAND_ENSURE_NODE &&
                 b->out.commands[i].job_id == job_id;
    return count;
}

static void lower_classes_leave_stock_to_a_gang_that_waits(void **state)
{
    struct bench b;
    (void)state;
    open_with_gang(&b, JOB_CLASS_P0);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 2, .job_class = JOB_CLASS_P2});
    assert_int_equal(bought_by(&b, 2), 0);
    const struct pool_decision *d = bench_decision(&b, DECISION_WAIT, REASON_KEPT_FOR_GANG);
    assert_non_null(d);
    assert_int_equal(d->job_id, 2);
    bench_offer(&b, with_stock(3)); /* still one short */
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 0);
    bench_offer(&b, with_stock(5)); /* four for the gang, and the rest is free */
    assert_int_equal(bought_by(&b, 1), 4);
    assert_int_equal(bought_by(&b, 2), 1);
    bench_close(&b);
}

static void what_the_gang_cannot_use_is_free(void **state)
{
    struct bench b;
    struct test_offer a10 = spot;
    (void)state;
    open_with_gang(&b, JOB_CLASS_P0);
    a10.id = 12;
    a10.model = A10;
    bench_offer(&b, a10);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .job_class = JOB_CLASS_P3});
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id, 12);
    bench_submit(&b, (struct test_job){
                         .id = 3, .min = 1, .max = 1, .vram_gib = 80, .job_class = JOB_CLASS_P0});
    assert_int_equal(bought_by(&b, 3), 1); /* the same class is not kept off */
    bench_close(&b);
}

static void a_claim_ends_with_its_time_or_its_job(void **state)
{
    for (uint32_t cancels = 0; cancels < 2; cancels++) {
        struct bench b;
        (void)state;
        open_with_gang(&b, JOB_CLASS_P1);
        bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .job_class = JOB_CLASS_P2});
        bench_advance(&b, b.config.boot_timeout_us - SECOND_US);
        assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 0);
        if (cancels)
            bench_cancel(&b, 1);
        else
            bench_advance(&b, SECOND_US);
        assert_int_equal(bought_by(&b, 2), 1);
        /* Spent: it claims no more until it has been complete once. */
        bench_offer(&b, with_stock(2));
        bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1, .job_class = JOB_CLASS_P2});
        assert_int_equal(bought_by(&b, 3), 1);
        bench_close(&b);
    }
}

static void who_is_kept_off_does_not_keep_off_others_for_ever(void **state)
{
    struct bench b;
    (void)state;
    open_with_gang(&b, JOB_CLASS_P1);
    bench_submit(&b, (struct test_job){
                         .id = 2, .min = 6, .max = 6, .vram_gib = 80, .job_class = JOB_CLASS_P0});
    bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1, .job_class = JOB_CLASS_P2});
    bench_offer(&b, with_stock(5)); /* enough for P1, but P0 is six */
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 0);
    bench_advance(&b, b.config.boot_timeout_us);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE] >= 4, 1); /* P1, then what is left */
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    assert_int_equal(bench_job_state(&b, 3), JOB_STARTING);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lower_classes_leave_stock_to_a_gang_that_waits),
        cmocka_unit_test(what_the_gang_cannot_use_is_free),
        cmocka_unit_test(a_claim_ends_with_its_time_or_its_job),
        cmocka_unit_test(who_is_kept_off_does_not_keep_off_others_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
