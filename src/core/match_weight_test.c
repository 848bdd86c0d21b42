/* Weights against the real formula, learned sizes against all choices tried one by one. */
#include "core/match.h"
#include "core/match_size.h"
#include "core/match_weight.h"
#include "core/testing.h"
#include <math.h>

static void powers_are_within_a_ten_thousandth(void **state)
{
    static const int32_t exponents[] = {-1000, -500, -100, 0, 300, 1000};
    (void)state;
    for (uint32_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++) {
        for (int64_t ratio = MATCH_ONE / 8; ratio < (INT64_C(1) << 30); ratio += ratio / 37 + 1) {
            double real = pow((double)ratio / MATCH_ONE, exponents[i] / 1000.0) * MATCH_ONE;
            int64_t got = match_power(ratio, exponents[i]);
            if (real > (double)MATCH_WEIGHT_MAX) {
                assert_int_equal(got, MATCH_WEIGHT_MAX);
                continue;
            }
            assert_true(fabs((double)got - real) <= 1.0 + real * 1e-4);
        }
    }
}

static void a_weight_falls_with_size_and_rises_with_age(void **state)
{
    struct match_aim aim = MATCH_AIM_MEAN;
    int64_t last = INT64_MAX;
    (void)state;
    for (int64_t hours = 0; hours < 2000; hours += 7) {
        int64_t weight = match_weight(&aim, hours * 3600, 0, 3600, 3600);
        assert_true(weight <= last);
        last = weight;
    }
    int64_t fresh = match_weight(&aim, 36000, 10, 3600, 3600);
    assert_int_equal(match_weight(&aim, 36000, 3600, 3600, 3600), fresh);
    assert_int_equal(match_weight(&aim, 36000, 3 * 3600, 3600, 3600), fresh + fresh * 600 / 1000);
    assert_true(match_weight(&aim, 0, INT64_MAX, 0, 0) > 300 * MATCH_ONE);
    assert_true(match_weight(&aim, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MAX) >= 1);
}

static void rates_are_normalised_by_best_and_mean(void **state)
{
    const int64_t rates[3] = {4000000, 1000000, 1000000};
    (void)state;
    int64_t norm = match_norm(rates, 3);
    assert_int_equal(norm, 2828427); /* sqrt(4 * 2) */
    assert_int_equal(match_rate(rates[0], norm), 5793);
    assert_int_equal(match_rate(0, norm), 0);
    const int64_t large[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    assert_true(llabs(match_norm(large, 2) - large[0]) < (large[0] >> 30));
    const int64_t none[2] = {0, -1};
    assert_int_equal(match_norm(none, 2), 0);
    assert_int_equal(match_worth(MATCH_WEIGHT_MAX, (int64_t)MATCH_RATE_ONE * MATCH_RATIO_MAX),
                     MATCH_VALUE_MAX);
}

/* Sizes 1 h and 100 h, half each: a fresh job is judged by the short ones, one that outlived them by
 * the long ones. */
static void the_expected_rest_follows_the_sizes_that_ended(void **state)
{
    struct match_size size;
    (void)state;
    match_size_clear(&size);
    assert_int_equal(match_size_expected_s(&size, 7200), 7200 + 3600);
    for (uint32_t i = 0; i < MATCH_SIZE_LEARN_MIN; i++)
        match_size_ended(&size, i % 2 == 0 ? 3600 : 360000);
    int64_t fresh_s = match_size_expected_s(&size, 0);
    int64_t grown_s = match_size_expected_s(&size, 10 * 3600);
    assert_true(llabs(fresh_s - 2 * 3600) < 3600 / 4); /* all served for 1 h, half of them end */
    assert_true(llabs(grown_s - 90 * 3600) < 90 * 3600 / 16);
    assert_true(match_size_expected_s(&size, 1000 * 3600) >= 1000 * 3600); /* never seen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_are_within_a_ten_thousandth),
        cmocka_unit_test(a_weight_falls_with_size_and_rises_with_age),
        cmocka_unit_test(rates_are_normalised_by_best_and_mean),
        cmocka_unit_test(the_expected_rest_follows_the_sizes_that_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
