/* Times as text, also before 1970 and at the ends of 64 bits; the monotonic clock does not go back.
 */
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_format(void **state)
{
    (void)state;
    static const struct {
        int64_t wall_us;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {INT64_C(1795983242123456), "2026-11-29T20:14:02.123Z"},
        {INT64_C(1709164799999999), "2024-02-28T23:59:59.999Z"},
        {INT64_C(1709164800000000), "2024-02-29T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"}, /* rounds down, not towards zero */
        {-1000, "1969-12-31T23:59:59.999Z"},
        {-1000000, "1969-12-31T23:59:59.000Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[25];
        clock_format(cases[i].wall_us, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_ends_stay_inside_the_buffer(void **state)
{
    (void)state;
    const int64_t ends[] = {INT64_MIN, INT64_MAX};
    for (int i = 0; i < 2; i++) {
        char text[26];
        memset(text, '#', sizeof text);
        clock_format(ends[i], text);
        assert_true(strlen(text) <= 24);
        assert_int_equal(text[25], '#');
    }
}

static void test_clocks(void **state)
{
    (void)state;
    assert_true(clock_wall_us() > INT64_C(1700000000000000)); /* microseconds, after 2023 */
    int64_t last = clock_monotonic_us();
    for (int i = 0; i < 100000; i++) {
        int64_t now = clock_monotonic_us();
        assert_true(now >= last);
        last = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_ends_stay_inside_the_buffer),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
