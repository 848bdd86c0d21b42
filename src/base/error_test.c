/* Sentences, prefixes, and what happens when they do not fit. */
#include "base/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_set_and_prefix(void **state)
{
    (void)state;
    struct error error;
    assert_false(error_set(&error, "line %d: unknown key \"%s\"", 7, "devces"));
    assert_string_equal(error.text, "line 7: unknown key \"devces\"");
    assert_false(error_prefix(&error, "%s", "job.yaml"));
    assert_string_equal(error.text, "job.yaml: line 7: unknown key \"devces\"");
}

static void test_nobody_wants_it(void **state)
{
    (void)state;
    assert_false(error_set(NULL, "text"));
    assert_false(error_prefix(NULL, "text"));
}

static void test_cut(void **state)
{
    (void)state;
    char text[2 * ERROR_TEXT_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct error error;
    assert_false(error_set(&error, "%s", text));
    assert_int_equal(strlen(error.text), ERROR_TEXT_BYTES - 1);
    assert_false(error_prefix(&error, "here")); /* the start stays, the end is cut */
    assert_int_equal(strlen(error.text), ERROR_TEXT_BYTES - 1);
    assert_memory_equal(error.text, "here: xxx", 9);
    assert_false(error_prefix(&error, "%s", text)); /* a prefix that fills everything */
    assert_int_equal(strlen(error.text), ERROR_TEXT_BYTES - 1);
}

static void test_prefix_of_every_length(void **state)
{
    (void)state;
    for (int length = 0; length < ERROR_TEXT_BYTES + 3; length++) {
        struct error error;
        (void)error_set(&error, "old");
        (void)error_prefix(&error, "%*s", length, "");
        size_t whole = (size_t)length + strlen(": old");
        size_t wanted = whole < ERROR_TEXT_BYTES ? whole : ERROR_TEXT_BYTES - 1;
        assert_int_equal(strlen(error.text), wanted);
    }
}

static void test_errno(void **state)
{
    (void)state;
    assert_string_equal(error_errno(ENOENT), "No such file or directory");
    assert_string_equal(error_errno(ENOSPC), "No space left on device");
    assert_non_null(strstr(error_errno(123456), "123456"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_and_prefix),
        cmocka_unit_test(test_nobody_wants_it),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_prefix_of_every_length),
        cmocka_unit_test(test_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
