/* A number is all of the text, and within its bounds; what is no number changes nothing. */
#include "base/number.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void whole_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"", " 7", "7 ", "+7", "-7", "7x", "0x7", "1e3", "7.0", "4", "10",
                                      "18446744073709551616", "99999999999999999999999"};
    uint64_t number = 1;
    assert_true(number_read("007", 5, 9, &number));
    assert_int_equal(number, 7);
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(number_read(bad[i], 5, 9, &number));
    assert_int_equal(number, 7);
    assert_true(number_read("18446744073709551615", 0, UINT64_MAX, &number));
    assert_true(number == UINT64_MAX);
}

static void reals(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "nan", "inf", "-inf", "0x1p3", " 1", "1 ",
                                      "1,5", "1e",  "e",   "--1",  "1.2.3", "11", "-1"};
    double number = 0;
    assert_true(number_read_real("1.5e0", 0, 10, &number));
    assert_true(number > 1.49 && number < 1.51);
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(number_read_real(bad[i], 0, 10, &number));
    assert_true(number > 1.49 && number < 1.51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_numbers), cmocka_unit_test(reals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
