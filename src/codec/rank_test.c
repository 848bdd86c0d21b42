/* The ranking expression: values against what they mean, mistakes with their column; and the answers of a
 * ranking program. */
#include "codec/rank.h"
#include "codec/rank_answer.h"
#include "core/limits.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka needs the four above first. */
#include <cmocka.h>

#define ONE INT64_C(1000000)

static const int64_t values[RANK_FIELD_COUNT] = {
    [RANK_PRICE] = 3 * ONE / 2, [RANK_ON_DEMAND] = 4 * ONE, [RANK_HAZARD] = ONE / 4,
    [RANK_DISTRUST] = ONE / 10, [RANK_AGE] = 5 * ONE,       [RANK_CHANGEOVER] = ONE / 20,
    [RANK_NCU] = 10 * ONE,      [RANK_DEVICES] = 4 * ONE,   [RANK_STOCK] = 3 * ONE,
    [RANK_HELD] = 0,            [RANK_SPOT] = ONE};

static void expressions_have_their_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"price", 3 * ONE / 2},
        {" 1 + 2 * 3 ", 7 * ONE},
        {"(1 + 2) * 3", 9 * ONE},
        {"10 - 4 - 3", 3 * ONE},
        {"12 / 4 / 3", ONE},
        {"-2 * -3", 6 * ONE},
        {"1.5 * 0.000001", 1},
        {"price * (1 + distrust)", 1650000},
        {"if(spot == 1, price / (1 - hazard * changeover), price)", 1518987},
        {"min(price, on_demand) + max(2, 3)", 4500000},
        {"stock < 4", ONE},
        {"stock >= 4", 0},
        {"stock != 3", 0},
        {"if(held, 1, 2)", 2 * ONE},
        {"price / held", INT64_MAX},
        {"1000000000 * 1000000000 * 1000000000", INT64_MAX},
        {"0 - 1000000000 * 1000000000 * 1000000000", -INT64_MAX},
        {"1000000000 * 1000 / 1000000000", 1000 * ONE},
        {"5000000.000001 * 300000", INT64_C(1500000000000300000)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rank_program program;
        struct error error;
        if (!rank_parse(cases[i].text, &program, &error))
            fail_msg("%s: %s", cases[i].text, error.text);
        int64_t value = rank_evaluate(&program, values);
        if (value != cases[i].value)
            fail_msg("%s: %" PRId64 " instead of %" PRId64, cases[i].text, value, cases[i].value);
    }
}

static void mistakes_have_their_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "column 1: a number, a field or ( is missing"},
        {"price *", "column 8: a number, a field or ( is missing"},
        {"price 2", "column 7: an operator is missing, or there is too much"},
        {"1 + (2", "column 7: ) is missing"},
        {"min(1)", "column 6: , is missing: there are more arguments"},
        {"min 1", "column 5: ( is missing"},
        {"1.2345678", "column 9: more than six places after the point"},
        {"1. + 2", "column 3: digits are missing after the point"},
        {"99999999999", "column 1: the number is above a billion"},
        {"2 * prize", "column 5: no such field; there are price, on_demand, hazard, distrust, age, "
                      "changeover, ncu, devices, stock, held, spot, and min, max, if"},
        {"((((((((((((((((((((((((((((((((((1", "column 33: nested too deeply"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rank_program program;
        struct error error;
        assert_false(rank_parse(cases[i].text, &program, &error));
        assert_string_equal(error.text, cases[i].sentence);
    }
    char wide[RANK_TEXT_MAX + 2];
    memset(wide, '1', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    struct rank_program program;
    struct error error;
    assert_false(rank_parse(wide, &program, &error));
    assert_string_equal(error.text, "column 513: the expression is longer than 512 bytes");
    for (uint32_t i = 0; i < RANK_TEXT_MAX; i++) wide[i] = i % 2 == 0 ? '1' : '+';
    wide[RANK_TEXT_MAX - 1] = '\0';
    assert_false(rank_parse(wide, &program, &error));
    assert_non_null(strstr(error.text, "the expression is too long; it may have 128 steps"));
}

static void factors_are_quantised_and_bounded(void **state)
{
    (void)state;
    assert_int_equal(rank_factor_ppm(3 * ONE, 3 * ONE), 999424); /* a million in steps of 2048 */
    assert_int_equal(rank_factor_ppm(0, ONE), 0);
    assert_int_equal(rank_factor_ppm(-ONE, ONE), 0);
    assert_int_equal(rank_factor_ppm(ONE, 0), 0);
    assert_int_equal(rank_factor_ppm(1, PRICE_MAX), RANK_PPM_MIN);
    assert_int_equal(rank_factor_ppm(INT64_MAX, 1), RANK_PPM_MAX);
    uint32_t last = 0;
    for (int64_t value = 1000; value < INT64_C(1000000000000); value += value / 300 + 1) {
        uint32_t factor = rank_factor_ppm(value, ONE);
        assert_true(factor >= last); /* never the other way round */
        if (value < RANK_PPM_MAX) assert_true(factor > value - value / 250 && factor <= value);
        last = factor;
    }
}

static int64_t sum;
static void on_count(void *self, uint64_t offer_id, int64_t usd_micros_per_hour)
{
    (void)self;
    sum += (int64_t)offer_id * usd_micros_per_hour;
}

static void answers_are_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"{\"round\": 7, \"counts\": {\"3\": 10, \"4\": 100}}", NULL},
        {"{\"round\": 7, \"counts\": {}}", NULL},
        {"hello", "not JSON: column 5: '[' or '{' expected near 'hello'"},
        {"{\"round\": 6, \"counts\": {}}", "expected \"round\": 7"},
        {"{\"round\": 7}", "expected \"counts\": {\"ID\": N, ...}"},
        {"{\"round\": 7, \"counts\": {\"3\": 10, \"a\": 1}}", "counts: \"a\" is no number of an offer"},
        {"{\"round\": 7, \"counts\": {\"3\": 10, \"4\": -1}}",
         "counts: offer 4: expected micro-dollars above 0, a whole number"},
        {"{\"round\": 7, \"counts\": {\"3\": 10, \"4\": 1.5}}",
         "counts: offer 4: expected micro-dollars above 0, a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        sum = 0;
        bool good = rank_answer_read(cases[i].text, strlen(cases[i].text), 7, on_count, NULL, &error);
        assert_int_equal(good, cases[i].sentence == NULL);
        if (!good) assert_string_equal(error.text, cases[i].sentence);
        assert_int_equal(sum, i == 0 ? 430 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_have_their_values),
        cmocka_unit_test(mistakes_have_their_column),
        cmocka_unit_test(factors_are_quantised_and_bounded),
        cmocka_unit_test(answers_are_taken_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
