/* Where a job's data has to come from counts: compared with the price of compute, charged, and said. */
#include "core/data.h"
#include "core/limits.h"
#include "core/quote.h"
#include "core/testing.h"
#include <inttypes.h>

enum { HERE = 1, NEAR = 2, TERMS = 5, NCU = 1000, WORLDS = 1000, REGIONS = 4 };

static const struct pool_limits limits = {.nodes_max = 32,
                                          .jobs_max = 8,
                                          .offers_max = 8,
                                          .models_max = 1,
                                          .pools_max = 1,
                                          .terms_max = 8,
                                          .leases_max = 64};

/* Data of 1,000 GB lies HERE; to NEAR, of the same cloud, it costs $20 and 2,000 s. */
static void tell_links(struct bench *b)
{
    bench_step(b,
               (struct pool_event){
                   .kind = POOL_EVENT_LINKS_TOLD,
                   .u.links_told = {.from = HERE,
                                    .count = 3,
                                    .links = {{0, 90000, 100}, {HERE, 0, 0}, {NEAR, 20000, 500}}}});
}

static void offer(struct bench *b, uint32_t region, int64_t price, uint32_t stock)
{
    bench_offer(b, (struct test_offer){.id = region,
                                       .region = region,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 1,
                                       .stock = stock,
                                       .price = price,
                                       .on_demand = price});
}

static void open_world(struct bench *b, int64_t here, int64_t near)
{
    bench_open(b, &limits);
    bench_model(b, 0, NCU, 24, 1);
    tell_links(b);
    offer(b, HERE, here, 8);
    offer(b, NEAR, near, 8);
}

static const struct job_terms terms_of_ten_hours = {
    .run_us = 10 * HOUR_US, .data_bytes = 1000 * DATA_GB, .data_region = HERE};

static struct job_view submit(struct bench *b, int64_t budget)
{
    struct job_view view;
    bench_terms(b, TERMS, terms_of_ten_hours);
    bench_submit(
        b, (struct test_job){.id = 1, .min = 4, .max = 4, .budget = budget, .terms_id = TERMS});
    assert_true(pool_job_find(b->p, 1, &view));
    return view;
}

/* 4 devices for 10 h: a dollar less for each hour of a device saves $40. */
static void it_stays_with_its_data_unless_compute_elsewhere_saves_more(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 3 * USD, 3 * USD - USD / 4); /* saves $10, costs $20 */
    assert_int_equal(submit(&b, 0).region, HERE);
    assert_int_equal(b.said[DECISION_PLACE][REASON_DATA_COMES], 0);
    bench_close(&b);
    open_world(&b, 3 * USD, 2 * USD); /* saves $40 */
    assert_int_equal(submit(&b, 0).region, NEAR);
    const struct pool_decision *d = bench_decision(&b, DECISION_PLACE, REASON_DATA_COMES);
    assert_non_null(d);
    assert_true(d->a == 20 * USD && d->b == 2000 * SECOND_US && d->c == 1000);
    bench_close(&b);
}

/* A bucket that was made elsewhere in the same cloud: dollars and seconds of each option. */
static void d8_the_plan_tells_egress_inside_one_cloud(void **state)
{
    (void)state;
    struct bench b;
    struct quote quote;
    open_world(&b, 3 * USD, 2 * USD);
    const struct pool_event submitted = {
        .kind = POOL_EVENT_JOB_SUBMITTED,
        .u.job_submitted = {.job_id = 9, .devices_min = 4, .devices_max = 4, .kind = 1}};
    const struct quote_ask ask = {.submitted = &submitted, .terms = &terms_of_ten_hours};
    pool_quote(b.p, &ask, &quote);
    assert_int_equal(quote.options[0].region, NEAR);
    assert_true(quote.options[0].egress_usd_micros == 20 * USD);
    assert_true(quote.options[0].staging_us == 2000 * SECOND_US);
    uint32_t at = 1;
    while (at < quote.option_count && quote.options[at].region != HERE) at++;
    assert_true(at < quote.option_count && quote.options[at].egress_usd_micros == 0);
    bench_close(&b);
}

/* Compute moves when its region has nothing; it goes back to data that is there already for free. */
static void it_pays_once_for_each_region(void **state)
{
    (void)state;
    struct bench b;
    struct job_view view;
    bench_open(&b, &limits);
    bench_model(&b, 0, NCU, 24, 1);
    tell_links(&b);
    offer(&b, HERE, 3 * USD, 0);
    offer(&b, NEAR, 3 * USD, 8);
    assert_int_equal(submit(&b, 0).region, NEAR);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    struct lease_view lease;
    for (uint32_t i = 0; i < 4; i++) { /* all is lost at once, and bought again */
        assert_true(bench_lease(&b, 1, 0, &lease));
        bench_node_full(&b, lease.node_key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, 0);
    }
    bench_raise(&b);
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.region, NEAR);
    assert_int_equal(b.said[DECISION_PLACE][REASON_DATA_COMES], 1);
    bench_close(&b);
}

static void what_its_budget_does_not_bear_is_no_place_for_it(void **state)
{
    (void)state;
    struct bench b;
    open_world(&b, 3 * USD, USD); /* far cheaper there, but $20 are more than it has */
    assert_int_equal(submit(&b, 15 * USD).region, HERE);
    bench_close(&b);
    bench_open(&b, &limits);
    bench_model(&b, 0, NCU, 24, 1);
    tell_links(&b);
    offer(&b, NEAR, USD, 8);
    assert_int_equal(submit(&b, 15 * USD).state, JOB_QUEUED);
    const struct pool_decision *d = bench_decision(&b, DECISION_WAIT, REASON_WAIT_DATA);
    assert_non_null(d);
    assert_true(d->a == 20 * USD && d->b == 15 * USD);
    bench_close(&b);
    bench_open(&b, &limits);
    bench_model(&b, 0, NCU, 24, 1);
    tell_links(&b);
    offer(&b, NEAR, USD, 8);
    struct job_view view = submit(&b, 30 * USD);
    assert_int_equal(view.state, JOB_STARTING);
    bench_close(&b);
}

/* The dollars of a day of its tenant, too: what egress took is gone for the next job. */
static void egress_counts_in_the_dollars_of_accounts(void **state)
{
    (void)state;
    struct bench b;
    struct job_view view;
    bench_open(&b, &limits);
    bench_model(&b, 0, NCU, 24, 1);
    tell_links(&b);
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_ACCOUNT_DEFINED,
                                       .u.account_defined = {.names = {1},
                                                             .quota_milli = {-1, -1},
                                                             .borrow_milli = {-1, -1},
                                                             .lend_milli = {-1, -1},
                                                             .usd_micros_max = {110 * USD}}});
    offer(&b, NEAR, USD, 16);
    bench_terms(&b, TERMS, terms_of_ten_hours);
    for (uint64_t id = 1; id <= 2; id++) { /* each: $20 of egress, $40 for 4 devices of 10 h */
        bench_step(&b, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                           .u.job_submitted = {.job_id = id,
                                                               .devices_min = 4,
                                                               .devices_max = 4,
                                                               .kind = JOB_KIND_ELASTIC,
                                                               .tenant = 1,
                                                               .job_class = JOB_CLASS_P2,
                                                               .terms_id = TERMS}});
        while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
    }
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    assert_true(pool_job_find(b.p, 2, &view));
    assert_int_equal(view.state, JOB_QUEUED); /* $50 are left, egress and devices take $60 */
    bench_close(&b);
}

/* All regions, compared by hand: dollars for the run, the wait for data and the egress. */
static void the_cheapest_place_for_the_work_is_taken(void **state)
{
    uint64_t random = 1;
    uint32_t away = 0;
    (void)state;
    for (uint32_t world = 0; world < WORLDS; world++) {
        struct bench b;
        int64_t best = INT64_MAX, costs[REGIONS + 1] = {0};
        bench_open(&b, &limits);
        bench_model(&b, 0, NCU, 24, 1);
        for (uint32_t region = 1; region <= REGIONS; region++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint32_t per_gb = region == HERE ? 0 : (uint32_t)(random >> 33) % 100000;
            uint32_t mb_per_s = region == HERE ? 0 : 50 + (uint32_t)(random >> 40) % 500;
            int64_t price = USD / 2 + (int64_t)(random >> 50) % 4000 * 1000;
            bench_step(
                &b, (struct pool_event){.kind = POOL_EVENT_LINKS_TOLD,
                                        .u.links_told = {.from = HERE,
                                                         .count = 1,
                                                         .links = {{region, per_gb, mb_per_s}}}});
            offer(&b, region, price, 8);
            int64_t staging_s = mb_per_s == 0 ? 0 : 1000000 / mb_per_s;
            costs[region] = 4 * price * (36000 + staging_s) / 3600 + 1000 * (int64_t)per_gb;
            if (costs[region] < best) best = costs[region];
        }
        uint32_t region = submit(&b, 0).region;
        if (costs[region] > best + best / 10000) /* rounding */
            fail_msg("world %u: region %u for %" PRId64 ", the best costs %" PRId64, world, region,
                     costs[region], best);
        away += region != HERE;
        bench_close(&b);
    }
    printf("away from its data in %u of %u worlds\n", away, WORLDS);
    assert_true(away > WORLDS / 10 && away < WORLDS * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stays_with_its_data_unless_compute_elsewhere_saves_more),
        cmocka_unit_test(d8_the_plan_tells_egress_inside_one_cloud),
        cmocka_unit_test(it_pays_once_for_each_region),
        cmocka_unit_test(what_its_budget_does_not_bear_is_no_place_for_it),
        cmocka_unit_test(egress_counts_in_the_dollars_of_accounts),
        cmocka_unit_test(the_cheapest_place_for_the_work_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
