/* One event is one line, whatever is in the fields. The lines are read back from a file that takes
 * the place of stderr. */
#include "base/log.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char captured[8192];
static int log_fd = -1, real_stderr = -1;

static void capture(void)
{
    assert_int_equal(ftruncate(log_fd, 0), 0);
    assert_int_equal(lseek(log_fd, 0, SEEK_SET), 0);
    assert_true(dup2(log_fd, STDERR_FILENO) >= 0);
}

static void captured_end(void)
{
    assert_true(dup2(real_stderr, STDERR_FILENO) >= 0);
    ssize_t count = pread(log_fd, captured, sizeof captured - 1, 0);
    assert_true(count >= 0);
    captured[count] = '\0';
}

static int setup(void **state)
{
    (void)state;
    char path[] = "/tmp/log_test_XXXXXX";
    log_fd = mkstemp(path);
    real_stderr = dup(STDERR_FILENO);
    return log_fd < 0 || real_stderr < 0 ? -1 : unlink(path);
}

static int teardown(void **state)
{
    (void)state;
    return close(log_fd) | close(real_stderr);
}

static int count_of(char wanted)
{
    int count = 0;
    for (const char *at = captured; *at != '\0'; at++) count += *at == wanted;
    return count;
}

static void test_form(void **state)
{
    (void)state;
    capture();
    log_line(LOG_WARN, "driver", "node is gone", "node=%d zone=%s", 7, "aurora/east-a");
    captured_end();
    assert_memory_equal(captured, "t=20", 4);
    const char *rest = strchr(captured, ' ');
    assert_non_null(rest);
    assert_string_equal(rest,
                        " lvl=warn mod=driver msg=\"node is gone\" node=7 zone=aurora/east-a\n");
}

static void test_no_fields(void **state)
{
    (void)state;
    const char *nothing = "";
    capture();
    log_line(LOG_INFO, "server", "ready", "%s", nothing);
    captured_end();
    assert_non_null(strstr(captured, " lvl=info mod=server msg=\"ready\"\n"));
}

/* A worker's name or a provider's answer must not be able to forge a second line. */
static void test_one_line(void **state)
{
    (void)state;
    capture();
    log_line(LOG_ERROR, "agent", "bad\nname", "name=\"%s\"", "x\nt=1 lvl=info\r\x1b[2J");
    captured_end();
    assert_int_equal(count_of('\n'), 1);
    assert_int_equal(count_of('\r'), 0);
    assert_int_equal(count_of('\x1b'), 0);
    assert_non_null(strstr(captured, "msg=\"bad name\" name=\"x t=1 lvl=info  [2J\"\n"));
}

static void test_text_outside_ascii_stays(void **state)
{
    (void)state;
    capture();
    log_line(LOG_INFO, "agent", "hello", "name=%s", "Z\xc3\xbcrich");
    captured_end();
    assert_non_null(strstr(captured, "name=Z\xc3\xbcrich\n"));
}

static void test_long_fields_are_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    capture();
    log_line(LOG_INFO, "agent", "long", "text=%s", text);
    captured_end();
    assert_int_equal(count_of('\n'), 1);
    assert_true(strlen(captured) < 1200);
}

static void test_debug_only_when_asked(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("SHOAL_LOG"), 0);
    capture();
    log_line(LOG_DEBUG, "agent", "detail", "a=%d", 1);
    captured_end();
    assert_string_equal(captured, "");
    assert_int_equal(setenv("SHOAL_LOG", "debug", 1), 0);
    capture();
    log_line(LOG_DEBUG, "agent", "detail", "a=%d", 1);
    captured_end();
    assert_non_null(strstr(captured, "lvl=debug"));
    assert_int_equal(unsetenv("SHOAL_LOG"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_no_fields),
        cmocka_unit_test(test_one_line),
        cmocka_unit_test(test_text_outside_ascii_stays),
        cmocka_unit_test(test_long_fields_are_cut),
        cmocka_unit_test(test_debug_only_when_asked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
