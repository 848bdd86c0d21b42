/* The status page can be read while it is written, after the writer is gone, and says what is not
 * a page. */
#include "worker/status.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void page_outlives_its_writer(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "status-test-%ld", (long)getpid());
    struct error error;
    struct status_page *page = status_open(path, &error);
    assert_non_null(page);
    struct worker_status facts = {.job = 1, .worker = 5, .step = 7, .phase = DOING_REDUCE}, seen;
    status_write(page, &facts);
    facts.step = 8;
    status_write(page, &facts);
    status_close(page);
    assert_true(status_read(path, &seen, &error));
    assert_int_equal(seen.step, 8);
    assert_int_equal(seen.worker, 5);
    assert_int_equal(seen.torn, 0);
    assert_string_equal(status_phase_name(seen.phase), "reduce");
    assert_string_equal(status_phase_name(99), "unknown");
    assert_int_equal(truncate(path, 10), 0);
    assert_false(status_read(path, &seen, &error));
    unlink(path);
    assert_false(status_read(path, &seen, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(page_outlives_its_writer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
