#include "codec/utc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void moments_are_read(void **state)
{
    (void)state;
    int64_t us;
    assert_true(utc_parse("1970-01-01", &us));
    assert_int_equal(us, 0);
    assert_true(utc_parse("2020-02-29T12:34:56.250Z", &us));
    assert_int_equal(us, INT64_C(1582979696250000));
    assert_true(utc_parse("2020-02-29 12:34:56.25+00:00", &us));
    assert_int_equal(us, INT64_C(1582979696250000));
    assert_true(utc_parse("2020-02-29T14:34:56.25+0200", &us));
    assert_int_equal(us, INT64_C(1582979696250000));
    assert_true(utc_parse("1582979696", &us));
    assert_int_equal(us, INT64_C(1582979696000000));
    assert_true(utc_parse("2099-12-31", &us));
    assert_int_equal(us, INT64_C(4102358400000000));
}

static void what_no_calendar_has_is_none(void **state)
{
    (void)state;
    int64_t us;
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "-5",
                                      "2019-02-29",
                                      "2020-13-01",
                                      "2020-00-01",
                                      "2020-01-32",
                                      "1969-12-31",
                                      "2020-01-01T25:00",
                                      "2020-01-01T10",
                                      "2020-01-01T10:00:00ZZ",
                                      "2020-01-01T10:00:00+25:00",
                                      "1970-01-01T00:00:00+01:00",
                                      "2020-1-1",
                                      "99999999999"};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (utc_parse(bad[i], &us)) fail_msg("%s is a time", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_read),
        cmocka_unit_test(what_no_calendar_has_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
