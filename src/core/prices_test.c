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
    for (uint32_t at = prices_first(b->p, market); at != SLOT_NONE;
         at = prices_next(b->p, market, at)) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_exact_sorted_or_not),
        cmocka_unit_test(all_offers_in_one_market_or_each_in_its_own_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
