/* The order of a market against a plain sort, under prices that drip, rain and tie. */
#include "core/prices.h"
#include "core/testing.h"

enum { OFFERS_MAX = 300, ROUNDS = 3000 };

static uint32_t draw(uint64_t *random, uint32_t end)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % end);
}

static void change(struct bench *b, uint64_t id, int64_t price)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFER_CHANGED,
                               .seq = ++b->seq,
                               .version = POOL_CORE_VERSION,
                               .now_us = b->now_us,
                               .u.offer_changed = {.offer_id = id,
                                                   .usd_micros_per_hour = price,
                                                   .region = 1,
                                                   .capacity = CAPACITY_SPOT,
                                                   .device_count = 1 + (uint32_t)(id % 2),
                                                   .stock_count = 1}};
    pool_step(b->p, &event, &b->out);
}

static bool is_after(const struct pool *p, uint32_t a, uint32_t b)
{
    if (p->offers[a].unit_usd_micros != p->offers[b].unit_usd_micros)
        return p->offers[a].unit_usd_micros > p->offers[b].unit_usd_micros;
    return p->offers[a].offer_id > p->offers[b].offer_id;
}

static void expect_in_order(const struct bench *b, uint32_t offers)
{
    const struct market *market = market_of(b->p, 0, 0);
    uint32_t count = 0, last = SLOT_NONE;
    for (uint32_t at = prices_first(b->p, market, KINDS_ALL); at != SLOT_NONE;
         at = prices_next(b->p, market, at, KINDS_ALL)) {
        if (last != SLOT_NONE) assert_true(is_after(b->p, at, last));
        last = at;
        count++;
    }
    assert_int_equal(count, offers); /* each once: they are strictly after one another */
    pool_check(b->p);
}

static void run(uint64_t seed, uint32_t offers)
{
    struct bench b;
    struct pool_limits limits = {.nodes_max = 4,
                                 .jobs_max = 4,
                                 .offers_max = OFFERS_MAX,
                                 .models_max = 1,
                                 .pools_max = 1,
                                 .leases_max = 4};
    bench_open(&b, &limits);
    bench_model(&b, 0, 1000, 16, 1);
    for (uint32_t i = 0; i < offers; i++) change(&b, 1 + i, 1000 * draw(&seed, 50));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t id = draw(&seed, offers);
        int64_t price = b.p->offers[id].usd_micros_per_hour;
        if (draw(&seed, 4) == 0)
            price = 1000 * draw(&seed, 50); /* far away, often beside an equal one */
        else
            price += draw(&seed, 3);
        change(&b, 1 + id, price);
        if (draw(&seed, 50) == 0) prices_sort(b.p, market_of(b.p, 0, 0));
        if (draw(&seed, 100) == 0) prices_sort_large(b.p);
        if (draw(&seed, 20) == 0) expect_in_order(&b, offers);
    }
    bench_close(&b);
}

static void an_order_is_exact_sorted_or_not(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run(seed, 1 + (uint32_t)seed);
        run(seed, PRICES_SCAN_MAX);
        run(seed, PRICES_SCAN_MAX + 1);
        run(seed, OFFERS_MAX);
    }
}

static void all_offers_in_one_market_or_each_in_its_own_fit(void **state)
{
    (void)state;
    struct bench b;
    struct pool_limits limits = {.nodes_max = 4,
                                 .jobs_max = 4,
                                 .offers_max = OFFERS_MAX,
                                 .models_max = 1,
                                 .pools_max = 1,
                                 .leases_max = 4};
    for (uint32_t regions = 1; regions <= REGIONS_MAX; regions *= 4) {
        bench_open(&b, &limits);
        for (uint32_t i = 0; i < OFFERS_MAX; i++)
            bench_offer(&b, (struct test_offer){.id = 1 + i,
                                                .region = 1 + i % regions,
                                                .capacity = CAPACITY_SPOT,
                                                .devices = 1,
                                                .stock = 1,
                                                .price = 1000});
        assert_int_equal(pool_offers_end(b.p), OFFERS_MAX);
        bench_close(&b);
    }
}

static struct pool_event price_event(const struct bench *b, uint64_t id, int64_t price,
                                     bool together)
{
    const struct offer *o = &b->p->offers[table_find(&b->p->offer_table, id)];
    bool on_demand = o->capacity == CAPACITY_ON_DEMAND;
    if (together)
        return (struct pool_event){.kind = POOL_EVENT_OFFERS_PRICED,
                                   .u.offers_priced = {.count = 1, .prices = {{id, price}}}};
    return (struct pool_event){
        .kind = POOL_EVENT_OFFER_CHANGED,
        .u.offer_changed = {.offer_id = id,
                            .usd_micros_per_hour = price,
                            .on_demand_usd_micros_per_hour =
                                on_demand ? price : o->on_demand_usd_micros_per_hour,
                            .region = 1,
                            .capacity = o->capacity,
                            .device_count = o->device_count,
                            .stock_count = o->stock_count}};
}

static void open_market(struct bench *b, uint32_t offers, uint32_t stock, int64_t price)
{
    bench_open(b, NULL);
    bench_model(b, 0, 1000, 16, 1);
    for (uint32_t id = 1; id <= offers; id++)
        bench_offer(
            b, (struct test_offer){.id = id,
                                   .region = 1,
                                   .capacity = id % 3 == 0 ? CAPACITY_ON_DEMAND : CAPACITY_SPOT,
                                   .devices = 2,
                                   .stock = stock,
                                   .price = price * id,
                                   .on_demand = 8000});
}

static void submit(struct bench *b, uint64_t id, int64_t budget_per_hour)
{
    bench_submit(b, (struct test_job){.id = id,
                                      .min = 1,
                                      .max = 4,
                                      .capability_mask = 1,
                                      .job_class = JOB_CLASS_P2,
                                      .budget_per_hour = budget_per_hour});
}

/* One pool hears of each price by itself, the other by OFFERS_PRICED: the same is decided, paid and
 * held. Jobs run on some of the offers and spot rises above their threshold; stock never binds. */
static void a_price_told_with_others_is_the_same_price(void **state)
{
    (void)state;
    struct bench pools[2];
    uint64_t seed = 7;
    for (uint32_t i = 0; i < 2; i++) {
        open_market(&pools[i], 6, 100000, 1000);
        for (uint64_t job = 1; job <= 3; job++) submit(&pools[i], job, job == 2 ? 20000 : 0);
        bench_raise(&pools[i]);
    }
    for (uint32_t round = 0; round < 500; round++) {
        uint64_t id = 1 + draw(&seed, 6);
        int64_t price = 1000 * (1 + draw(&seed, 12));
        for (uint32_t i = 0; i < 2; i++) {
            bench_step(&pools[i], price_event(&pools[i], id, price, i == 1));
            bench_raise(&pools[i]);
            bench_live(&pools[i], 5 * SECOND_US);
        }
        assert_memory_equal(pools[0].said, pools[1].said, sizeof pools[0].said);
        assert_memory_equal(pools[0].entered_usd_micros, pools[1].entered_usd_micros,
                            sizeof pools[0].entered_usd_micros);
    }
    assert_true(pools[1].said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD] > 0);
    for (uint32_t i = 0; i < 2; i++) bench_close(&pools[i]);
}

/* Nothing is planned while more prices follow at once; what was never told is passed over. */
static void a_plan_waits_for_the_last_of_the_prices(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, 2, 8, 1000);
    submit(&b, 1, 2000); /* two nodes of the first: the budget is used up with two devices to go */
    submit(&b, 2, 0);
    struct pool_event event = {
        .kind = POOL_EVENT_OFFERS_PRICED,
        .u.offers_priced = {.count = 3, .more = 1, .prices = {{1, 9500}, {77, 1}, {2, 9500}}}};
    bench_step(&b, event); /* far above the threshold of both jobs, who hold such nodes */
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 0);
    assert_int_equal(pool_offers_end(b.p), 2);
    assert_int_equal(pool_next_wake_us(b.p), b.now_us); /* should the last of them never come */
    event.u.offers_priced.more = 0;
    bench_step(&b, event);
    assert_true(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD] > 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_exact_sorted_or_not),
        cmocka_unit_test(a_price_told_with_others_is_the_same_price),
        cmocka_unit_test(a_plan_waits_for_the_last_of_the_prices),
        cmocka_unit_test(all_offers_in_one_market_or_each_in_its_own_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
