/* Decisions, one story each: what is asked, what the market does, what is said and done. */
#include "core/testing.h"

enum { H100, A10 };
enum { FP16 = 1, FP8 = 2 };

static const struct test_offer h100_spot = {.id = 11,
                                            .region = 1,
                                            .model = H100,
                                            .capacity = CAPACITY_SPOT,
                                            .devices = 1,
                                            .stock = 4,
                                            .price = 2 * USD,
                                            .on_demand = 4 * USD};
static const struct test_offer h100_on_demand = {.id = 12,
                                                 .region = 1,
                                                 .model = H100,
                                                 .capacity = CAPACITY_ON_DEMAND,
                                                 .devices = 1,
                                                 .stock = 8,
                                                 .price = 4 * USD,
                                                 .on_demand = 4 * USD};
static const struct test_offer a10_spot = {.id = 21,
                                           .region = 2,
                                           .model = A10,
                                           .capacity = CAPACITY_SPOT,
                                           .devices = 1,
                                           .stock = 8,
                                           .price = USD / 2,
                                           .on_demand = USD};

static void open_with(struct bench *b, const struct test_offer *offers, uint32_t count)
{
    bench_open(b, NULL);
    bench_model(b, H100, /* ncu_milli */ 2500, /* vram_gib */ 80, FP16 | FP8);
    bench_model(b, A10, 400, 24, FP16);
    for (uint32_t i = 0; i < count; i++) bench_offer(b, offers[i]);
}

static struct test_offer changed(struct test_offer offer, int64_t price, uint32_t stock)
{
    offer.price = price;
    offer.stock = stock;
    return offer;
}

static void impossible_jobs_are_refused_with_what_would_help(void **state)
{
    static const struct {
        struct test_job job;
        uint32_t reason;
        int64_t a, b, c;
    } cases[] = {
        {{.id = 1, .min = 3, .max = 2}, REASON_BAD_REQUEST, 3, 2, 0},
        {{.id = 2, .min = 0, .max = 0}, REASON_BAD_REQUEST, 0, 0, 0},
        {{.id = 3, .min = 1, .max = 1, .capability_mask = 4}, REASON_NO_CAPABILITY, 0, 0, 0},
        {{.id = 4, .min = 1, .max = 1, .vram_gib = 81}, REASON_NO_CAPABILITY, 0, 0, 0},
        {{.id = 5, .min = 1, .max = 1, .capacity_mask = 1 << CAPACITY_OWNED},
         REASON_NO_OFFER,
         0,
         0,
         0},
        {{.id = 6, .min = 1, .max = 1, .region = 9}, REASON_NO_OFFER, 0, 0, 0},
        {{.id = 7, .min = 13, .max = 20}, REASON_GANG_TOO_LARGE, 13, 12, 0},
        {{.id = 8, .min = 9, .max = 20, .region = 2}, REASON_GANG_TOO_LARGE, 9, 8, 0},
        {{.id = 9, .min = 2, .max = 2, .budget_per_hour = USD - 1},
         REASON_BUDGET_TOO_SMALL,
         USD,
         USD - 1,
         2},
        {{.id = 10, .min = 2, .max = 2, .capability_mask = FP8, .budget_per_hour = USD},
         REASON_BUDGET_TOO_SMALL,
         4 * USD,
         USD,
         2},
        {{.id = 11, .min = 2, .max = 2, .kind = JOB_KIND_BATCH}, REASON_GANG_TOO_LARGE, 2, 1, 0},
        {{.id = 12, .min = 1, .max = 1, .pool_mask = 1}, REASON_NO_CAPABILITY, 0, 0, 0},
    };
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, h100_on_demand, a10_spot}, 3);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_submit(&b, cases[i].job);
        const struct pool_decision *d = bench_decision(&b, DECISION_REFUSE, cases[i].reason);
        if (d == NULL) fail_msg("case %u was not refused for reason %u", i, cases[i].reason);
        assert_int_equal(d->a, cases[i].a);
        assert_int_equal(d->b, cases[i].b);
        assert_int_equal(d->c, cases[i].c);
        assert_int_equal(bench_job_state(&b, cases[i].job.id), JOB_REFUSED);
        assert_int_equal(b.out.command_count, 0);
    }
    bench_close(&b);
}

static void what_is_short_today_waits(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_offer(&b, changed(h100_spot, 5 * USD, 0)); /* above the threshold and out of stock */
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2});
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    assert_non_null(bench_decision(&b, DECISION_WAIT, REASON_WAIT_CAPACITY));
    bench_offer(&b,
                changed(h100_spot, 5 * USD, 4)); /* offers above the threshold are never bought */
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 0);
    bench_offer(&b, h100_spot);
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 2);
    bench_close(&b);
}

static void pools_narrow_the_choice(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, a10_spot}, 2);
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_POOL_DEFINED,
                                       .u.pool_defined = {.pool = 1,
                                                          .capability_mask = FP16,
                                                          .hardware_mask = 1 << A10,
                                                          .vram_min_mib = 1024}});
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .pool_mask = 2});
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id, 21);
    bench_close(&b);
}

static void the_region_with_most_ncu_wins(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){a10_spot, h100_spot}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 8, .budget_per_hour = 100 * USD});
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 4); /* 10 NCU against 3.2 */
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, i)->offer_id, 11);
    bench_close(&b);
}

static void budget_bounds_what_is_bought_and_waiting_is_said_once(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 4, .budget_per_hour = 5 * USD});
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 2);
    const struct pool_decision *d = bench_decision(&b, DECISION_WAIT, REASON_WAIT_BUDGET);
    assert_non_null(d);
    assert_int_equal(d->a, 2 * USD); /* the next node */
    assert_int_equal(d->b, 1 * USD); /* what is left */
    bench_raise(&b);
    for (int64_t i = 0; i < 20; i++) bench_offer(&b, changed(h100_spot, 2 * USD - i, 4));
    bench_live(&b, 30 * SECOND_US);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_BUDGET], 1);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 2);
    bench_offer(&b, changed(h100_spot, 3 * USD / 2, 4)); /* now three fit $5/h */
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 3);
    bench_close(&b);
}

/* On a node that was bought for it, and on an idle one that needs no boot. */
static void a_spent_budget_ends_the_job(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    for (uint64_t id = 1; id <= 2; id++) {
        bench_submit(&b, (struct test_job){.id = id, .min = 1, .max = 1, .budget = USD / 1000});
        bench_raise(&b);
        assert_int_equal(bench_job_state(&b, id), JOB_RUNNING);
        assert_true(bench_lease(&b, id, 0, &lease));
        bench_live(&b, 5 * SECOND_US); /* $0.001 lasts 1.8 s at $2/h */
        assert_int_equal(bench_job_state(&b, id), JOB_FAILED);
        bench_worker(&b, lease.node_key, id, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    }
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 1);
    bench_close(&b);
}

static void waiting_is_said_again_when_less_is_up_not_after_each_purchase(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1); /* 4 in stock */
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 8});
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_CAPACITY], 1); /* with 0 up */
    bench_raise(&b);
    for (uint32_t i = 0; i < 3; i++) { /* stock trickles in: each purchase leaves it short */
        bench_offer(&b, changed(h100_spot, 2 * USD, 1));
        assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 1);
        bench_raise(&b);
        bench_offer(&b, changed(h100_spot, 2 * USD, 0));
    }
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_CAPACITY], 1);
    bench_offer(&b, changed(h100_spot, 2 * USD, 1));
    bench_raise(&b); /* 8 of 8: it waits no more */
    bench_offer(&b, changed(h100_spot, 2 * USD, 0));
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_nodes(&b, NODE_READY, &key) > 0);
        bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, -1);
        const struct pool_decision *d =
            bench_decision(&b, DECISION_WAIT, REASON_WAIT_CAPACITY); /* 7, 6, 5: fewer each time */
        assert_non_null(d);
        assert_int_equal(d->a, 7 - i);
    }
    bench_offer(&b, changed(h100_spot, 2 * USD, 1));
    bench_raise(&b);
    assert_int_equal(b.said[DECISION_WAIT][REASON_WAIT_CAPACITY], 4);
    bench_close(&b);
}

static void a_gang_that_the_cheapest_ncu_cannot_complete_takes_cheaper_devices(void **state)
{
    struct bench b;
    struct test_offer a10_here = a10_spot;
    (void)state;
    a10_here.region = 1;
    open_with(&b, (struct test_offer[]){h100_spot, a10_here}, 2);
    /* By NCU: one H100 for $2, then three A10 for $1.5: 4 devices for $3.5, 10 cents too dear. */
    bench_submit(&b,
                 (struct test_job){.id = 1, .min = 4, .max = 4, .budget_per_hour = 34 * USD / 10});
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, i)->offer_id, 21);
    bench_close(&b);
}

static void risen_prices_shed_the_dearest_node_down_to_the_gang(void **state)
{
    struct bench b;
    struct test_offer a10_here = a10_spot;
    struct job_view job;
    (void)state;
    a10_here.region = 1;
    a10_here.stock = 2;
    open_with(&b, (struct test_offer[]){h100_spot, a10_here}, 2);
    /* Four H100 at $2 (by NCU: $0.80) and two A10 at $0.50 ($1.25): $9 of $9. */
    bench_submit(
        &b, (struct test_job){
                .id = 1, .min = 3, .max = 6, .threshold_ppm = 2000000, .budget_per_hour = 9 * USD});
    bench_raise(&b);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 6);
    bench_offer(&b, changed(h100_spot, 2 * USD + USD / 50, 0)); /* $9.08: a wobble, for now */
    bench_live(&b, 50 * SECOND_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_BUDGET_EXCEEDED], 0);
    bench_offer(&b, changed(h100_spot, 2 * USD, 0)); /* over before the minute */
    bench_live(&b, 50 * SECOND_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_BUDGET_EXCEEDED], 0);
    bench_offer(&b, changed(h100_spot, 2 * USD + USD / 50, 0));
    bench_live(&b, 70 * SECOND_US); /* this one lasts */
    assert_int_equal(b.said[DECISION_DRAIN][REASON_BUDGET_EXCEEDED], 1);
    bench_offer(&b, changed(h100_spot, 3 * USD, 0)); /* $12.50, then three at $9 are left */
    assert_int_equal(b.said[DECISION_DRAIN][REASON_BUDGET_EXCEEDED], 3);
    const struct pool_decision *d = bench_decision(&b, DECISION_DRAIN, REASON_BUDGET_EXCEEDED);
    assert_int_equal(d->a, 125 * USD / 10);
    assert_int_equal(d->b, 9 * USD);
    assert_int_equal(d->c, USD / 2); /* the other A10: $1.25 for an NCU, still more than $1.20 */
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 3);
    bench_offer(&b,
                changed(h100_spot, 4 * USD, 0)); /* $12 for the gang: it stays, and is told once */
    d = bench_decision(&b, DECISION_WAIT, REASON_BUDGET_AT_MINIMUM);
    assert_non_null(d);
    assert_int_equal(d->a, 12 * USD);
    assert_int_equal(d->c, 3);
    for (int64_t i = 1; i < 10; i++) bench_offer(&b, changed(h100_spot, 4 * USD + i, 0));
    bench_live(&b, 120 * SECOND_US);
    assert_int_equal(b.said[DECISION_WAIT][REASON_BUDGET_AT_MINIMUM], 1);
    assert_true(pool_job_find(b.p, 1, &job));
    assert_int_equal(job.devices_up, 3);
    bench_close(&b);
}

static void a_price_that_wavers_around_the_budget_trades_one_node_in_ten_minutes(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(
        &b, (struct test_job){
                .id = 1, .min = 1, .max = 4, .threshold_ppm = 2000000, .budget_per_hour = 8 * USD});
    for (int64_t i = 0; i < 120; i++) { /* 20 minutes, 5 % up and down every 10 s */
        bench_raise(&b);
        bench_live(&b, 10 * SECOND_US);
        bench_offer(&b, changed(h100_spot, 2 * USD + (i % 2 ? -USD / 10 : USD / 10), 4));
        if (bench_nodes(&b, NODE_RELEASING, &key) > 0) bench_node(&b, key, NODE_PHASE_GONE);
    }
    assert_true(b.said[DECISION_DRAIN][REASON_BUDGET_EXCEEDED] >= 1);
    assert_true(b.said[DECISION_DRAIN][REASON_BUDGET_EXCEEDED] <= 2);
    bench_close(&b);
}

static void who_shares_a_node_leaves_it_to_the_others(void **state)
{
    struct bench b;
    struct test_offer big = h100_on_demand;
    struct job_view job;
    (void)state;
    big.devices = 4;
    big.stock = 1;
    big.price = big.on_demand = 8 * USD;
    open_with(&b, (struct test_offer[]){big}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 3, .max = 3});
    bench_raise(&b);
    bench_offer(&b, changed(h100_spot, 2 * USD, 1));
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 2, .budget_per_hour = 4 * USD});
    bench_raise(&b);
    assert_true(pool_job_find(b.p, 2, &job));
    assert_int_equal(job.devices_up, 2); /* the idle device at $2/h, and spot */
    big.price = big.on_demand = 20 * USD;
    bench_offer(&b, changed(big, 20 * USD, 0));
    assert_non_null(bench_decision(&b, DECISION_DRAIN, REASON_BUDGET_EXCEEDED));
    assert_int_equal(bench_count(&b, POOL_COMMAND_STOP_WORKER), 1);
    assert_int_equal(bench_command(&b, POOL_COMMAND_STOP_WORKER, 0)->job_id, 2);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 2); /* and job 1 works on */
    bench_close(&b);
}

static void price_above_threshold_drains_and_falls_back(void **state)
{
    struct bench b;
    struct lease_view lease;
    uint64_t spot_key;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, h100_on_demand}, 2);
    bench_submit(
        &b, (struct test_job){
                .id = 1, .min = 1, .max = 1, .threshold_ppm = 700000, .budget_per_hour = 10 * USD});
    bench_raise(&b);
    assert_true(bench_lease(&b, 1, 0, &lease));
    spot_key = lease.node_key;
    bench_worker(&b, spot_key, 1, lease.worker_id, WORKER_PHASE_RUNNING, 1);
    bench_offer(&b, changed(h100_spot, 28 * USD / 10, 4)); /* at the threshold: stays */
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 0);
    bench_offer(&b, changed(h100_spot, 28 * USD / 10 + 1, 4));
    const struct pool_decision *d =
        bench_decision(&b, DECISION_DRAIN, REASON_PRICE_ABOVE_THRESHOLD);
    assert_non_null(d);
    assert_int_equal(d->b, 28 * USD / 10);
    const struct pool_command *stop = bench_command(&b, POOL_COMMAND_STOP_WORKER, 0);
    assert_int_equal(stop->deadline_us, b.now_us + b.config.drain_us);
    assert_int_equal(stop->reason, REASON_PRICE_ABOVE_THRESHOLD);
    /* The budget allows both at once: the replacement is ordered with the drain. */
    d = bench_decision(&b, DECISION_BUY, REASON_FALLBACK);
    assert_non_null(d);
    assert_int_equal(d->a, 4 * USD);
    bench_worker(&b, spot_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 5);
    assert_int_equal(bench_command(&b, POOL_COMMAND_RELEASE_NODE, 0)->node_key, spot_key);
    bench_node_full(&b, spot_key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 0);
    bench_raise(&b);
    /* Spot just below the threshold does not tempt; clearly below, and after a minute, it does. */
    bench_live(&b, 70 * SECOND_US);
    bench_offer(&b, changed(h100_spot, 27 * USD / 10, 4));
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 2);
    bench_offer(&b, changed(h100_spot, 2 * USD, 4));
    d = bench_decision(&b, DECISION_DRAIN, REASON_CHEAPER_SPOT);
    assert_non_null(d);
    assert_int_equal(d->a, 2 * USD); /* what the same NCU cost on spot, */
    assert_int_equal(d->b, 4 * USD); /* and what the node costs */
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id, 11);
    bench_close(&b);
}

static void a_wavering_price_does_not_make_a_job_trade(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, h100_on_demand}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .threshold_ppm = 700000});
    for (int64_t i = 0; i < 360; i++) { /* an hour, the price crosses every 10 s */
        bench_raise(&b);
        bench_offer(&b, changed(h100_spot, (i % 2 ? 26 : 29) * USD / 10, 4));
        bench_live(&b, 10 * SECOND_US);
        for (uint32_t n = 0; n < pool_nodes_end(b.p); n++) {
            struct node_view v;
            if (pool_node_at(b.p, n, &v) && v.state == NODE_RELEASING)
                bench_node(&b, v.node_key, NODE_PHASE_GONE);
        }
    }
    assert_int_equal(b.said[DECISION_BUY][REASON_CHEAPEST], 1);
    assert_int_equal(b.said[DECISION_BUY][REASON_FALLBACK], 1);
    bench_close(&b);
}

static void an_offer_drained_for_its_price_is_not_bought_back_at_once(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .threshold_ppm = 700000});
    bench_raise(&b);
    bench_offer(&b, changed(h100_spot, 29 * USD / 10, 4));
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 1);
    bench_live(&b, b.config.drain_us + 2 * b.config.ask_again_us);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, &key), 1);
    bench_node(&b, key, NODE_PHASE_GONE);
    bench_offer(&b, changed(h100_spot, 27 * USD / 10, 4)); /* below, but not clearly */
    assert_int_equal(b.said[DECISION_BUY][REASON_CHEAPEST], 1);
    bench_offer(&b, changed(h100_spot, 25 * USD / 10, 4));
    assert_int_equal(b.said[DECISION_BUY][REASON_CHEAPEST], 2);
    bench_close(&b);
}

static void an_offer_drained_for_one_is_still_there_for_the_more_patient(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .threshold_ppm = 700000});
    bench_raise(&b);
    bench_offer(&b, changed(h100_spot, 29 * USD / 10, 4));
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 1);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .threshold_ppm = 900000});
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->job_id, 2); /* 73 % of 90 % */
    bench_close(&b);
}

static void guaranteed_nodes_go_back_only_for_as_many_spot_devices(void **state)
{
    struct bench b;
    struct test_offer big = h100_on_demand;
    (void)state;
    big.devices = 4;
    big.stock = 1;
    big.price = big.on_demand = 16 * USD;
    open_with(&b, (struct test_offer[]){changed(h100_spot, 2 * USD, 0), big}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 4});
    assert_int_equal(b.said[DECISION_BUY][REASON_FALLBACK], 1);
    bench_raise(&b);
    bench_live(&b, 70 * SECOND_US);
    bench_offer(&b, changed(h100_spot, 2 * USD, 3)); /* half the price, but one device less */
    bench_live(&b, 70 * SECOND_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_CHEAPER_SPOT], 0);
    bench_offer(&b, h100_spot);
    bench_live(&b, 70 * SECOND_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_CHEAPER_SPOT], 1);
    bench_close(&b);
}

static void without_budget_for_both_the_replacement_waits_for_the_release(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, h100_on_demand}, 2);
    bench_submit(
        &b, (struct test_job){
                .id = 1, .min = 1, .max = 1, .threshold_ppm = 700000, .budget_per_hour = 5 * USD});
    bench_raise(&b);
    assert_true(bench_lease(&b, 1, 0, &lease));
    bench_offer(&b, changed(h100_spot, 3 * USD, 4));
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 1);
    bench_worker(&b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 5);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 1); /* still paid until it is gone */
    bench_node(&b, lease.node_key, NODE_PHASE_GONE);
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id, 12);
    bench_close(&b);
}

static void a_notice_drains_just_before_it(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_raise(&b);
    assert_true(bench_lease(&b, 1, 0, &lease));
    int64_t notice_us = b.now_us + 2 * SECOND_US;
    bench_node_full(&b, lease.node_key, NODE_PHASE_UP, NODE_REASON_NONE, notice_us, -1);
    const struct pool_decision *d = bench_decision(&b, DECISION_DRAIN, REASON_NOTICE);
    assert_int_equal(d->a, 2 * SECOND_US);
    int64_t deadline_us = bench_command(&b, POOL_COMMAND_STOP_WORKER, 0)->deadline_us;
    assert_true(deadline_us < notice_us);
    assert_true(deadline_us > b.now_us + SECOND_US);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 2); /* and it is replaced at once */
    bench_node_full(&b, lease.node_key, NODE_PHASE_UP, NODE_REASON_NONE, notice_us, -1);
    assert_int_equal(b.out.decision_count, 0); /* the same level again is no news */
    bench_node_full(&b, lease.node_key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, 1000);
    assert_non_null(bench_decision(&b, DECISION_LOST, REASON_PREEMPTED_NOTICED));
    bench_close(&b);
}

static void an_operator_empties_a_node(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_raise(&b);
    assert_true(bench_lease(&b, 1, 0, &lease));
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_NODE_DRAIN_ASKED,
                                       .u.node_drain_asked = {.node_key = lease.node_key}});
    assert_non_null(bench_decision(&b, DECISION_DRAIN, REASON_OPERATOR));
    assert_int_equal(bench_count(&b, POOL_COMMAND_STOP_WORKER), 1);
    bench_live(&b, b.config.drain_us + 2 * b.config.ask_again_us); /* it never answers */
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 1);
    bench_close(&b);
}

/* What a job's workers found out becomes a decision; the same again is not said again. */
static void a_stall_is_kept_as_a_decision(void **state)
{
    struct bench b;
    struct job_view job;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot}, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_raise(&b);
    struct pool_event event = {.kind = POOL_EVENT_WORKER_STALLED,
                               .u.worker_stalled = {.job_id = 1,
                                                    .worker_id = 5,
                                                    .step = 40,
                                                    .lasted_us = 7 * SECOND_US,
                                                    .kind = STALL_DATA}};
    bench_step(&b, event);
    bench_step(&b, event);
    assert_int_equal(b.said[DECISION_STALL][REASON_STALL_DATA], 1);
    assert_true(pool_job_find(b.p, 1, &job));
    assert_int_equal(job.last_a, 40);
    assert_int_equal(job.last_b, 5);
    assert_int_equal(job.last_c, 7 * SECOND_US);
    event.u.worker_stalled.kind = SLOW_LINK; /* c is the other end */
    event.u.worker_stalled.peer_id = 6;
    bench_step(&b, event);
    assert_true(pool_job_find(b.p, 1, &job));
    assert_int_equal(job.last_c, 6);
    event.u.worker_stalled.kind = STALL_OVER;
    bench_step(&b, event);
    assert_int_equal(b.said[DECISION_STALL][REASON_STALL_OVER], 1);
    event.u.worker_stalled.job_id = 99; /* nobody's */
    bench_step(&b, event);
    event.u.worker_stalled.kind = STALL_KIND_END;
    event.version = POOL_CORE_VERSION;
    assert_non_null(pool_event_check(&event));
    bench_close(&b);
}

static void a_job_moves_when_its_region_can_hold_it_no_more(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, a10_spot}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2});
    bench_raise(&b);
    bench_offer(&b, changed(h100_spot, 2 * USD, 0));
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_nodes(&b, NODE_READY, &key) > 0);
        bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, -1);
        if (i == 0)
            assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 0); /* one is left */
    }
    assert_non_null(bench_decision(&b, DECISION_PLACE, REASON_REGION_CHANGED));
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 2);
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id, 21);
    bench_close(&b);
}

static void higher_classes_are_served_first(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){changed(h100_spot, 2 * USD, 1)}, 1);
    bench_offer(&b, changed(h100_spot, 2 * USD, 0));
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .job_class = JOB_CLASS_P2});
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .job_class = JOB_CLASS_P0});
    bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1, .job_class = JOB_CLASS_P0});
    const struct pool_decision *d = bench_decision(&b, DECISION_WAIT, REASON_WAIT_TURN);
    assert_non_null(d);
    assert_int_equal(d->a, 1);
    static const uint64_t order[] = {2, 3, 1};
    for (uint32_t i = 0; i < 3; i++) {
        bench_offer(&b, changed(h100_spot, 2 * USD, 1));
        const struct pool_command *c = bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0);
        assert_non_null(c);
        assert_int_equal(c->job_id, order[i]);
        bench_node(&b, c->node_key, NODE_PHASE_UP);
        bench_offer(&b, changed(h100_spot, 2 * USD, 0));
    }
    bench_close(&b);
}

static void idle_and_owned_devices_are_taken_before_any_is_bought(void **state)
{
    struct bench b;
    struct lease_view lease;
    struct test_offer owned = {.id = 31,
                               .region = 1,
                               .model = H100,
                               .capacity = CAPACITY_OWNED,
                               .devices = 4,
                               .stock = 1,
                               .price = 0,
                               .on_demand = 0};
    (void)state;
    open_with(&b, (struct test_offer[]){h100_spot, owned}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2, .kind = JOB_KIND_BATCH});
    assert_int_equal(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id, 31);
    bench_raise(&b);
    assert_true(bench_lease(&b, 1, 0, &lease));
    assert_int_equal(lease.device_count, 2); /* one worker, two devices of one node */
    assert_false(bench_lease(&b, 1, 1, &lease));
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 2});
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 0); /* the other two */
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_WORKER), 1);
    bench_live(&b, 300 * SECOND_US);
    assert_int_equal(b.entered_usd_micros[ENTRY_JOB], 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_jobs_are_refused_with_what_would_help),
        cmocka_unit_test(what_is_short_today_waits),
        cmocka_unit_test(pools_narrow_the_choice),
        cmocka_unit_test(the_region_with_most_ncu_wins),
        cmocka_unit_test(budget_bounds_what_is_bought_and_waiting_is_said_once),
        cmocka_unit_test(a_spent_budget_ends_the_job),
        cmocka_unit_test(waiting_is_said_again_when_less_is_up_not_after_each_purchase),
        cmocka_unit_test(a_gang_that_the_cheapest_ncu_cannot_complete_takes_cheaper_devices),
        cmocka_unit_test(risen_prices_shed_the_dearest_node_down_to_the_gang),
        cmocka_unit_test(a_price_that_wavers_around_the_budget_trades_one_node_in_ten_minutes),
        cmocka_unit_test(who_shares_a_node_leaves_it_to_the_others),
        cmocka_unit_test(price_above_threshold_drains_and_falls_back),
        cmocka_unit_test(a_wavering_price_does_not_make_a_job_trade),
        cmocka_unit_test(an_offer_drained_for_its_price_is_not_bought_back_at_once),
        cmocka_unit_test(an_offer_drained_for_one_is_still_there_for_the_more_patient),
        cmocka_unit_test(guaranteed_nodes_go_back_only_for_as_many_spot_devices),
        cmocka_unit_test(without_budget_for_both_the_replacement_waits_for_the_release),
        cmocka_unit_test(a_notice_drains_just_before_it),
        cmocka_unit_test(an_operator_empties_a_node),
        cmocka_unit_test(a_stall_is_kept_as_a_decision),
        cmocka_unit_test(a_job_moves_when_its_region_can_hold_it_no_more),
        cmocka_unit_test(higher_classes_are_served_first),
        cmocka_unit_test(idle_and_owned_devices_are_taken_before_any_is_bought),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
