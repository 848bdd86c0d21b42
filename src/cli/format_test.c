/* Numbers as people read them, at the edges where rounding and signs go wrong. */
#include "cli/format.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static void money(void **state)
{
    (void)state;
    static const struct {
        int64_t usd_micros;
        uint32_t decimals;
        const char *text;
    } cases[] = {
        {0, 2, "$0.00"},
        {1, 2, "$0.00"},
        {5000, 2, "$0.01"},
        {4999, 2, "$0.00"},
        {12345678, 2, "$12.35"},
        {12345678, 0, "$12"},
        {12345678, 6, "$12.345678"},
        {12345678, 9, "$12.345678"},
        {-1000000, 2, "-$1.00"},
        {-1, 2, "$0.00"},
        {999999, 2, "$1.00"},
        {INT64_MIN, 0, "-$9223372036855"},
        {INT64_MAX, 6, "$9223372036854.775807"},
    };
    char text[FORMAT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(format_usd(text, cases[i].usd_micros, cases[i].decimals),
                            cases[i].text);
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {-5, "0.0 s"},
        {0, "0.0 s"},
        {449999, "0.4 s"},
        {9949999, "9.9 s"},
        {9950000, "10 s"},
        {59400000, "59 s"},
        {59500000, "1 min 00 s"},
        {3599400000, "59 min 59 s"},
        {3600000000, "1 h 00 min"},
        {86399000000, "23 h 59 min"},
        {90000000000, "1 d 1 h"},
    };
    char text[FORMAT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(format_duration(text, cases[i].us), cases[i].text);
}

static void shares_and_counts(void **state)
{
    (void)state;
    char text[FORMAT_BYTES];
    assert_string_equal(format_share(text, 634000), "63 %");
    assert_string_equal(format_share(text, 6340), "0.6 %");
    assert_string_equal(format_share(text, 1000000), "100 %");
    assert_string_equal(format_count(text, 0), "0");
    assert_string_equal(format_count(text, 999), "999");
    assert_string_equal(format_count(text, 1000), "1,000");
    assert_string_equal(format_count(text, -1234567), "-1,234,567");
    assert_string_equal(format_count(text, INT64_MIN), "-9,223,372,036,854,775,808");
}

static void clocks(void **state)
{
    (void)state;
    char text[FORMAT_BYTES];
    (void)setenv("TZ", "UTC", 1);
    tzset();
    assert_string_equal(format_clock(text, 0), "-");
    assert_string_equal(format_clock(text, INT64_C(1800000000) * 1000000), "08:00:00");
}

static void sparks(void **state)
{
    (void)state;
    char text[FORMAT_SPARK_MAX * 3 + 1];
    const int64_t rising[] = {0, 1, 2, 3, 4, 5, 6, 7}, flat[] = {5, 5, 5};
    const int64_t extremes[] = {INT64_MIN, INT64_MAX};
    assert_string_equal(format_spark(text, sizeof text, rising, 8, 20), "▁▂▃▄▅▆▇█");
    assert_string_equal(format_spark(text, sizeof text, rising, 8, 2), "▁▅");
    assert_string_equal(format_spark(text, sizeof text, flat, 3, 20), "▄▄▄");
    assert_string_equal(format_spark(text, sizeof text, extremes, 2, 20), "▁█");
    assert_string_equal(format_spark(text, sizeof text, rising, 0, 20), "");
    assert_string_equal(format_spark(text, 7, rising, 8, 20), "▁▂"); /* no room for more */
}

static void utc(void **state)
{
    (void)state;
    char text[FORMAT_BYTES];
    assert_string_equal(format_utc(text, 0), "1970-01-01T00:00:00Z");
    assert_string_equal(format_utc(text, INT64_C(1582979696250000)), "2020-02-29T12:34:56.250000Z");
    assert_string_equal(format_utc(text, INT64_C(1582979696000007)), "2020-02-29T12:34:56.000007Z");
    assert_string_equal(format_utc(text, -5), "-5");
    (void)format_utc(text, INT64_MAX); /* whatever it says, it fits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(money),  cmocka_unit_test(durations), cmocka_unit_test(shares_and_counts),
        cmocka_unit_test(clocks), cmocka_unit_test(utc),
        cmocka_unit_test(sparks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
