/* The emulated market: the same numbers for the same (seed, which, when) whatever was asked before,
 * inside its bounds, and with the statistics the header promises.
 */
#include "driver/local_market.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct local_price_source source_of(const struct local_prices *prices)
{
    return (struct local_price_source){
        .prices = prices,
        .seed = 1,
        .which = 3,
        .base_usd_micros_per_hour = 1800000,
        .on_demand_usd_micros_per_hour = 4500000,
    };
}

static void test_order_of_questions_does_not_matter(void **state)
{
    (void)state;
    struct local_prices prices;
    local_prices_default(&prices);
    struct local_price_source source = source_of(&prices);
    struct local_price_cursor walking = {0}, jumping = {0};
    int64_t seen[300];
    for (int64_t tick = 0; tick < 300; tick++) seen[tick] = local_price_at(&source, &walking, tick);
    for (int64_t i = 0; i < 300; i++) { /* 7 and 300 share no factor: every tick once */
        int64_t tick = i * 7 % 300;
        assert_true(local_price_at(&source, &jumping, tick) == seen[tick]);
    }
    assert_true(local_price_at(&source, &walking, -5) == seen[0]);
}

static void test_prices_stay_in_bounds_and_move(void **state)
{
    (void)state;
    struct local_prices prices;
    local_prices_default(&prices);
    prices.volatility = 2.0; /* wild */
    struct local_price_source source = source_of(&prices);
    struct local_price_cursor cursor = {0};
    int64_t last = 0;
    int moves = 0, at_ceiling = 0;
    for (int64_t tick = 0; tick < 5000; tick++) {
        int64_t price = local_price_at(&source, &cursor, tick);
        assert_true(price >= 180000);
        assert_true(price <= 4500000);
        at_ceiling += price == 4500000;
        moves += price != last;
        last = price;
    }
    assert_true(moves > 500);
    assert_true(at_ceiling > 50); /* "no spare capacity" happens */
}

/* With the measured defaults: share of ticks with a change, and mean of the logarithm. */
static void test_defaults_behave_as_measured(void **state)
{
    (void)state;
    struct local_prices prices;
    local_prices_default(&prices);
    prices.spike_share = 0;
    struct local_price_source source = source_of(&prices);
    struct local_price_cursor cursor = {0};
    enum { TICKS = 20000 };
    double sum = 0;
    int changes = 0;
    int64_t last = 0;
    for (int64_t tick = 0; tick < TICKS; tick++) {
        int64_t price = local_price_at(&source, &cursor, tick);
        changes += price != last;
        last = price;
        sum += log((double)price / 1800000.0);
    }
    assert_true(fabs((double)changes / TICKS - 0.367) < 0.02);
    assert_true(fabs(sum / TICKS) < 0.02); /* it reverts to the base */
}

static void test_lifetimes_have_the_mean_and_the_tail(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    const int64_t mean_us = 1000000;
    double sum = 0;
    int young = 0, old = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        int64_t life_us = local_weibull_us(mean_us, 0.63, local_draw(9, LOCAL_DRAW_LIFE, 1, i));
        assert_true(life_us >= 1);
        sum += (double)life_us;
        young += life_us < mean_us / 10;
        old += life_us > 3 * mean_us;
    }
    assert_true(fabs(sum / COUNT / (double)mean_us - 1.0) < 0.03);
    /* Weibull, g = gamma(1 + 1/k): P(T < m/10) = 1 - exp(-(0.1 g)^k),
     * P(T > 3 m) = exp(-(3 g)^k). */
    double g = tgamma(1 + 1 / 0.63);
    assert_true(fabs((double)young / COUNT - (1 - exp(-pow(0.1 * g, 0.63)))) < 0.01);
    assert_true(fabs((double)old / COUNT - exp(-pow(3 * g, 0.63))) < 0.01);
}

static void test_draws_depend_on_every_argument(void **state)
{
    (void)state;
    double base = local_draw(1, LOCAL_DRAW_LIFE, 2, 3);
    assert_true(base > 0 && base < 1);
    assert_true(base == local_draw(1, LOCAL_DRAW_LIFE, 2, 3));
    assert_true(base != local_draw(2, LOCAL_DRAW_LIFE, 2, 3));
    assert_true(base != local_draw(1, LOCAL_DRAW_NOTICE, 2, 3));
    assert_true(base != local_draw(1, LOCAL_DRAW_LIFE, 3, 3));
    assert_true(base != local_draw(1, LOCAL_DRAW_LIFE, 2, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_questions_does_not_matter),
        cmocka_unit_test(test_prices_stay_in_bounds_and_move),
        cmocka_unit_test(test_defaults_behave_as_measured),
        cmocka_unit_test(test_lifetimes_have_the_mean_and_the_tail),
        cmocka_unit_test(test_draws_depend_on_every_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
