/* Jobs that ask for NCU: the cheapest mix, whole, in one region, within the budget, made up when lost. */
#include "core/explain.h"
#include "core/quote.h"
#include "core/testing.h"

enum { H100, A100_80, A100_40, A10, T4, MODELS, TERMS = 3 };

static const struct pool_limits limits = {.nodes_max = 64,
                                          .jobs_max = 16,
                                          .offers_max = 24,
                                          .models_max = MODELS,
                                          .pools_max = 2,
                                          .terms_max = 4,
                                          .leases_max = 128};

static const struct {
    uint32_t ncu_milli;
    int64_t price;
} catalog[MODELS] = {[H100] = {2500, 4500000},
                     [A100_80] = {1600, 3200000},
                     [A100_40] = {1000, 2800000},
                     [A10] = {400, 1100000},
                     [T4] = {200, 600000}};

static void offer_at(struct bench *b, uint32_t region, uint32_t model, uint32_t capacity,
                     uint32_t devices, uint32_t stock, int64_t price)
{
    bench_offer(b, (struct test_offer){.id = region * 100 + model * 10 + capacity,
                                       .region = region,
                                       .model = model,
                                       .capacity = capacity,
                                       .devices = devices,
                                       .stock = stock,
                                       .price = price,
                                       .on_demand = price});
}

static void offer(struct bench *b, uint32_t model, uint32_t stock)
{
    offer_at(b, 1, model, CAPACITY_ON_DEMAND, 1, stock, catalog[model].price);
}

static void open_market(struct bench *b, uint32_t stock)
{
    bench_open(b, &limits);
    for (uint32_t i = 0; i < MODELS; i++) bench_model(b, i, catalog[i].ncu_milli, 80, 1);
    for (uint32_t i = 0; i < MODELS; i++) offer(b, i, stock);
}

static void submit(struct bench *b, uint64_t id, uint32_t ncu_milli, int64_t budget_per_hour)
{
    bench_terms(b, TERMS + id, (struct job_terms){.ncu_milli = ncu_milli});
    bench_submit(b, (struct test_job){.id = id,
                                      .min = 1,
                                      .max = 1,
                                      .job_class = JOB_CLASS_P2,
                                      .budget_per_hour = budget_per_hour,
                                      .terms_id = TERMS + id});
}

static void settle(struct bench *b)
{
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static uint32_t nodes_of(const struct bench *b, uint32_t model)
{
    struct node_view n;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++)
        count += pool_node_at(b->p, i, &n) && n.model == model && n.state <= NODE_READY;
    return count;
}

static const struct pool_decision *said(const struct bench *b, uint32_t kind, uint32_t reason)
{
    const struct pool_decision *d = bench_decision(b, kind, reason);
    assert_non_null(d);
    return d;
}

static void ten_ncu_are_four_h100(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, 8);
    submit(&b, 1, 10000, 25 * USD);
    const struct pool_decision *d = said(&b, DECISION_PLACE, REASON_NCU_MIX);
    assert_true(d->a == 18 * USD && d->b == 4 && d->c == 10000);
    assert_int_equal(nodes_of(&b, H100), 4);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 4);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    bench_close(&b);
}

static void eleven_ncu_are_four_h100_and_an_a100(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, 8);
    submit(&b, 1, 11000, 21 * USD);
    const struct pool_decision *d = said(&b, DECISION_PLACE, REASON_NCU_MIX);
    assert_true(d->a == 20800000 && d->b == 5 && d->c == 11000);
    assert_int_equal(nodes_of(&b, H100), 4);
    assert_int_equal(nodes_of(&b, A100_40), 1);
    struct job_view view;
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.devices_min, 5);
    bench_close(&b);
}

static void a_budget_below_the_cheapest_mix_is_refused_with_its_price(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, 8);
    submit(&b, 1, 11000, 20 * USD);
    const struct pool_decision *d = said(&b, DECISION_REFUSE, REASON_NCU_BUDGET);
    assert_true(d->a == 20800000 && d->b == 20 * USD && d->c == 11000);
    submit(&b, 2, 11000, d->a); /* the figure is enough */
    assert_int_equal(bench_job_state(&b, 2), JOB_STARTING);
    submit(&b, 3, 1000000, 0);
    d = said(&b, DECISION_REFUSE, REASON_NCU_TOO_MANY);
    assert_true(d->a == 1000000 && d->b == 8 * 5700);
    bench_close(&b);
}

static void a_gang_of_ncu_starts_whole_and_makes_up_what_it_loses(void **state)
{
    (void)state;
    struct bench b;
    uint64_t key;
    open_market(&b, 8);
    submit(&b, 1, 11000, 25 * USD);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, &key), 5);
    bench_node(&b, key, NODE_PHASE_UP);
    bench_agent(&b, key);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING); /* one of five */
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    for (uint32_t model = H100; model <= A100_40; model++) offer(&b, model, 0);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_CRASHED, 0, 0);
    settle(&b);
    /* 2.5 NCU of A10 at 0.4 and T4 at 0.2: 6 A10 and a T4, $7.20, as 7 A10 cost $7.70. */
    assert_int_equal(nodes_of(&b, H100), 3);
    assert_int_equal(nodes_of(&b, A10), 6);
    assert_int_equal(nodes_of(&b, T4), 1);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    bench_close(&b);
}

static void what_is_lost_and_too_dear_to_make_up_is_said_with_its_price(void **state)
{
    (void)state;
    struct bench b;
    uint64_t key;
    open_market(&b, 8);
    submit(&b, 1, 10000, 19 * USD);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, &key), 4);
    bench_raise(&b);
    offer(&b, H100, 0);
    offer(&b, A100_80, 0);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_CRASHED, 0, 0);
    settle(&b);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 0); /* $5.50 are left */
    struct job_view view;
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.last_reason, REASON_WAIT_BUDGET);
    assert_true(view.last_a == 7200000); /* 6 A10 and a T4 */
    assert_true(view.last_b == 19 * USD - 3 * 4500000);
    offer(&b, H100, 1);
    settle(&b);
    assert_int_equal(nodes_of(&b, H100), 4);
    bench_close(&b);
}

static void it_waits_whole_for_stock_and_holds_nothing(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, 2); /* 11.4 NCU */
    for (uint32_t model = 0; model < MODELS; model++) offer(&b, model, model == H100 ? 2 : 0);
    submit(&b, 1, 11000, 0);
    const struct pool_decision *d = said(&b, DECISION_WAIT, REASON_WAIT_NCU);
    assert_true(d->a == 11000 && d->b == 5000);
    struct explanation e;
    assert_true(pool_explain(b.p, 1, &e));
    assert_true(e.wish_count > 0 && e.wishes[0].kind == WISH_FEWER_NCU);
    assert_true(e.wishes[0].value == 5000 && e.wishes[0].usd_micros_per_hour == 9 * USD);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 0);
    for (uint32_t model = 0; model < MODELS; model++) offer(&b, model, 2);
    settle(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    bench_close(&b);
}

static void idle_devices_go_first_at_the_same_price(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, &limits);
    bench_model(&b, H100, 2500, 80, 1);
    offer_at(&b, 1, H100, CAPACITY_ON_DEMAND, 8, 4, 36 * USD);
    bench_submit(&b, (struct test_job){.id = 9, .min = 1, .max = 1, .job_class = JOB_CLASS_P2});
    bench_raise(&b); /* seven are idle, and paid by the pool */
    submit(&b, 1, 15000, 28 * USD);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 0);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    const struct pool_decision *d = bench_decision(&b, DECISION_PLACE, REASON_NCU_MIX);
    if (d != NULL) assert_true(d->a == 27 * USD && d->b == 6);
    bench_close(&b);
}

static void two_regions_are_never_mixed_and_the_cheaper_one_is_taken(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, &limits);
    bench_model(&b, H100, 2500, 80, 1);
    bench_model(&b, A100_80, 1600, 80, 1);
    offer_at(&b, 1, H100, CAPACITY_ON_DEMAND, 1, 3, 3 * USD);
    offer_at(&b, 2, H100, CAPACITY_ON_DEMAND, 1, 3, 5 * USD);
    offer_at(&b, 2, A100_80, CAPACITY_ON_DEMAND, 1, 3, 4 * USD);
    submit(&b, 1, 9000, 0); /* 7.5 in region 1, for half the price */
    struct job_view view;
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.region, 2);
    submit(&b, 2, 2000, 0);
    assert_true(pool_job_find(b.p, 2, &view));
    assert_int_equal(view.region, 1);
    bench_close(&b);
}

static void a_plan_says_the_mix_and_the_best_single_model(void **state)
{
    (void)state;
    struct bench b;
    struct quote quote;
    struct job_terms terms = {.ncu_milli = 11000};
    struct pool_event asked = {.kind = POOL_EVENT_JOB_SUBMITTED,
                               .u.job_submitted = {.job_id = 1,
                                                   .devices_min = 1,
                                                   .devices_max = 1,
                                                   .terms_id = 1,
                                                   .job_class = JOB_CLASS_P2,
                                                   .kind = JOB_KIND_ELASTIC}};
    open_market(&b, 16);
    bench_terms(&b, 1, terms);
    pool_quote(b.p, &(struct quote_ask){.submitted = &asked, .terms = &terms}, &quote);
    assert_int_equal(quote.verdict, REASON_FITS);
    assert_true(quote.options[0].usd_micros_per_hour == 20800000);
    assert_int_equal(quote.options[0].device_count, 5);
    bool single = false;
    for (uint32_t i = 0; i < quote.option_count; i++)
        if (quote.options[i].strategy == QUOTE_SINGLE_MODEL) {
            assert_true(quote.options[i].usd_micros_per_hour == 22400000); /* 7 A100-80GB */
            single = true;
        }
    assert_true(single);
    bench_close(&b);
}

/* A job of so many devices brings nodes of the pool's own up, and ends. */
static void idle_owned(struct bench *b, uint32_t devices)
{
    struct lease_view lease;
    bench_submit(b, (struct test_job){
                        .id = 9, .min = devices, .max = devices, .job_class = JOB_CLASS_P2});
    bench_raise(b);
    bench_cancel(b, 9);
    while (bench_lease(b, 9, 0, &lease))
        bench_worker(b, lease.node_key, 9, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    settle(b);
}

/* Two places and two leases; an idle owned node holds one of the places and is of no use. */
static void idle_owned_nodes_make_room_for_two_large_ones(void **state)
{
    (void)state;
    struct pool_limits tight = limits;
    struct bench b;
    tight.nodes_max = tight.leases_max = 2;
    bench_open(&b, &tight);
    for (uint32_t i = 0; i < MODELS; i++) bench_model(&b, i, catalog[i].ncu_milli, 80, 1);
    offer_at(&b, 1, T4, CAPACITY_OWNED, 1, 1, 1000);
    idle_owned(&b, 1);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 1);
    offer_at(&b, 1, H100, CAPACITY_ON_DEMAND, 1, 4, 1 * USD); /* cheap and small: five of them */
    offer_at(&b, 1, A100_80, CAPACITY_ON_DEMAND, 4, 2, 30 * USD); /* two do */
    submit(&b, 1, 12000, 0);
    settle(&b);
    uint64_t key;
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, &key), 1);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 0);
    settle(&b);
    assert_int_equal(nodes_of(&b, A100_80), 2);
    assert_int_equal(bench_job_state(&b, 1), JOB_STARTING);
    bench_close(&b);
}

static void five_devices_of_one_idle_node_are_one_lease(void **state)
{
    (void)state;
    struct pool_limits tight = limits;
    struct bench b;
    tight.nodes_max = tight.leases_max = 2;
    bench_open(&b, &tight);
    for (uint32_t i = 0; i < MODELS; i++) bench_model(&b, i, catalog[i].ncu_milli, 80, 1);
    offer_at(&b, 1, A100_40, CAPACITY_OWNED, 8, 1, 1 * USD);
    idle_owned(&b, 8);
    submit(&b, 1, 5000, 0);
    settle(&b);
    assert_true(bench_job_state(&b, 1) == JOB_RUNNING);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 1);
    bench_close(&b);
}

/* Four small idle nodes and a large one, with four leases to be had: the small ones are cheaper, and with
 * all of them there is no lease left for the large one that alone does. */
static void idle_nodes_that_take_too_many_leases_are_passed_over(void **state)
{
    (void)state;
    struct pool_limits tight = limits;
    struct bench b;
    tight.leases_max = 5;
    bench_open(&b, &tight);
    for (uint32_t i = 0; i < MODELS; i++) bench_model(&b, i, catalog[i].ncu_milli, 80, 1);
    offer_at(&b, 1, T4, CAPACITY_OWNED, 1, 4, 1000);
    offer_at(&b, 1, A100_80, CAPACITY_OWNED, 8, 1, 8 * USD);
    idle_owned(&b, 12);
    offer_at(&b, 2, A10, CAPACITY_OWNED, 1, 1, 1000);
    bench_submit(
        &b,
        (struct test_job){.id = 8, .min = 1, .max = 1, .region = 2, .job_class = JOB_CLASS_P2});
    bench_raise(&b);
    submit(&b, 1, 12000, 0);
    settle(&b);
    assert_true(bench_job_state(&b, 1) == JOB_RUNNING);
    bench_close(&b);
}

/* ---- against all mixes ---- */

enum { OFFERS = 4, WORLDS = 3000 };

struct market {
    struct {
        uint32_t model, region, stock, devices;
        int64_t price;
    } offers[OFFERS];
};

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33) % below;
}

static void draw_market(struct bench *b, uint64_t *random, struct market *ret_market)
{
    static const uint32_t kinds[] = {CAPACITY_OWNED, CAPACITY_RESERVED, CAPACITY_ON_DEMAND,
                                     CAPACITY_SPOT};
    bench_open(b, &limits);
    for (uint32_t i = 0; i < MODELS; i++) bench_model(b, i, catalog[i].ncu_milli, 80, 1);
    for (uint32_t i = 0; i < OFFERS; i++) {
        uint32_t devices = 1U << draw(random, 2);
        ret_market->offers[i].model = draw(random, MODELS);
        ret_market->offers[i].region = 1 + draw(random, 2);
        ret_market->offers[i].stock = draw(random, 4);
        ret_market->offers[i].devices = devices;
        ret_market->offers[i].price =
            catalog[ret_market->offers[i].model].price * devices / 100 * (60 + draw(random, 80));
        bench_offer(b, (struct test_offer){.id = 1 + i,
                                           .region = ret_market->offers[i].region,
                                           .zone = 50 + i,
                                           .model = ret_market->offers[i].model,
                                           .capacity = kinds[i],
                                           .devices = devices,
                                           .stock = ret_market->offers[i].stock,
                                           .price = ret_market->offers[i].price,
                                           .on_demand = 10 * ret_market->offers[i].price});
    }
}

/* -1: no mix of one region reaches it. */
static int64_t cheapest(const struct market *m, uint64_t wanted_milli)
{
    int64_t least = -1;
    for (uint32_t region = 1; region <= 2; region++)
        for (uint32_t code = 0; code < 256; code++) { /* four offers, up to three nodes of each */
            uint64_t ncu_milli = 0;
            int64_t cost = 0;
            bool possible = true;
            for (uint32_t i = 0; i < OFFERS; i++) {
                uint32_t count = code >> 2 * i & 3;
                if (count > 0 && (m->offers[i].region != region || count > m->offers[i].stock))
                    possible = false;
                ncu_milli +=
                    (uint64_t)catalog[m->offers[i].model].ncu_milli * m->offers[i].devices * count;
                cost += m->offers[i].price * count;
            }
            if (possible && ncu_milli >= wanted_milli && (least < 0 || cost < least)) least = cost;
        }
    return least;
}

static void it_starts_exactly_where_some_mix_does_and_at_its_price(void **state)
{
    (void)state;
    uint64_t random = 7;
    uint32_t started = 0, refused = 0;
    for (uint32_t world = 0; world < WORLDS; world++) {
        struct bench b;
        struct market market;
        draw_market(&b, &random, &market);
        uint32_t wanted = 200 * (1 + draw(&random, 60));
        int64_t budget = draw(&random, 3) == 0 ? 0 : (1 + draw(&random, 30)) * USD;
        int64_t least = cheapest(&market, wanted);
        submit(&b, 1, wanted, budget);
        struct job_view view;
        assert_true(pool_job_find(b.p, 1, &view));
        bool possible = least >= 0 && (budget == 0 || least <= budget);
        assert_int_equal(view.state, possible ? JOB_STARTING : JOB_REFUSED);
        if (possible)
            assert_true(said(&b, DECISION_PLACE, REASON_NCU_MIX)->a == least);
        else if (least >= 0)
            assert_true(said(&b, DECISION_REFUSE, REASON_NCU_BUDGET)->a == least);
        started += possible;
        refused += !possible && least >= 0;
        bench_close(&b);
    }
    assert_true(started > WORLDS / 4 && refused > WORLDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_ncu_are_four_h100),
        cmocka_unit_test(eleven_ncu_are_four_h100_and_an_a100),
        cmocka_unit_test(a_budget_below_the_cheapest_mix_is_refused_with_its_price),
        cmocka_unit_test(a_gang_of_ncu_starts_whole_and_makes_up_what_it_loses),
        cmocka_unit_test(what_is_lost_and_too_dear_to_make_up_is_said_with_its_price),
        cmocka_unit_test(it_waits_whole_for_stock_and_holds_nothing),
        cmocka_unit_test(idle_devices_go_first_at_the_same_price),
        cmocka_unit_test(two_regions_are_never_mixed_and_the_cheaper_one_is_taken),
        cmocka_unit_test(idle_owned_nodes_make_room_for_two_large_ones),
        cmocka_unit_test(five_devices_of_one_idle_node_are_one_lease),
        cmocka_unit_test(idle_nodes_that_take_too_many_leases_are_passed_over),
        cmocka_unit_test(a_plan_says_the_mix_and_the_best_single_model),
        cmocka_unit_test(it_starts_exactly_where_some_mix_does_and_at_its_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
