/* A record of prices that is cut off anywhere goes on without losing or doubling a row. */
#include "base/io.h"
#include "base/mem.h"
#include "cli/market_log.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 12 };
#define DAY_US INT64_C(86400000000)

static char folder[64], path[96];
static struct error error;

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/market_log_XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    (void)snprintf(path, sizeof path, "%s/p.csv", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Row i belongs to event 10 + i / 3: three rows an event. */
static struct market_change change(uint32_t i)
{
    return (struct market_change){.zone = i % 2 ? "z,\"1\"" : "z-0",
                                  .model = "H100",
                                  .kind = "spot",
                                  .provider = "p",
                                  .region = "r",
                                  .at_us = 1000000 + (int64_t)i / 3 * 500000,
                                  .usd_micros_per_hour = 1000000 + i,
                                  .stock = i % 3 == 0 ? 7 : -1,
                                  .devices = i % 2 ? 8 : 1,
                                  .event = 10 + i / 3};
}

/* Adds what is missing, as the recorder does: rows of the last event are counted, not repeated. */
static bool go_on(const char *out, uint64_t journal, struct error *ret_error)
{
    struct market_log log;
    if (!market_log_open(&log, out, ret_error)) return false;
    uint64_t last = log.place.event;
    uint32_t skip = log.place.rows;
    bool ok = true;
    for (uint32_t i = 0; i < ROWS && ok; i++) {
        struct market_change row = change(i);
        if (row.event < last) continue;
        if (row.event == last && skip > 0 && skip--) continue;
        ok = market_log_add(&log, journal, &row, ret_error) &&
             (i % 4 != 3 || market_log_flush(&log, ret_error));
    }
    ok = ok && market_log_flush(&log, ret_error);
    market_log_close(&log);
    return ok;
}

static char *content(const char *file, size_t *ret_bytes)
{
    char *text = NULL;
    if (!io_read_file(file, 1 << 20, &text, ret_bytes, &error)) fail_msg("%s", error.text);
    return text;
}

static void rows_read_as_written(void **state)
{
    (void)state;
    size_t bytes;
    assert_true(go_on(path, 4, &error));
    char *text = content(path, &bytes);
    assert_non_null(strstr(text, "journal\n1970-01-01T00:00:01Z,z-0,H100,spot,1.000000,7,p,r,1,10,4\n"
                                 "1970-01-01T00:00:01Z,\"z,\"\"1\"\"\",H100 x8,spot,1.000001,,p,r,"
                                 "8,10,4\n"));
    mem_free(text);
}

static void cut_anywhere_it_goes_on(void **state)
{
    (void)state;
    size_t whole, bytes;
    assert_true(go_on(path, 4, &error));
    char *wanted = content(path, &whole);
    for (size_t cut = 0; cut < whole; cut++) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        if (!go_on(path, 4, &error)) fail_msg("cut at %zu: %s", cut, error.text);
        char *text = content(path, &bytes);
        if (bytes != whole || memcmp(text, wanted, whole) != 0) fail_msg("cut at %zu:\n%s", cut, text);
        mem_free(text);
    }
    mem_free(wanted);
}

static void any_failed_write_leaves_whole_rows(void **state)
{
    (void)state;
    size_t whole, bytes;
    assert_true(go_on(path, 4, &error));
    char *wanted = content(path, &whole);
    uint32_t failures = 0;
    for (uint64_t nth = 1; nth < 20; nth++) {
        assert_int_equal(unlink(path), 0);
        io_fail_at(nth, ENOSPC);
        bool ok = go_on(path, 4, &error);
        io_fail_at(0, 0);
        failures += !ok;
        if (!ok) assert_non_null(strstr(error.text, "No space left"));
        if (!ok) assert_true(go_on(path, 4, &error));
        char *text = content(path, &bytes);
        assert_int_equal(bytes, whole);
        assert_memory_equal(text, wanted, whole);
        mem_free(text);
    }
    assert_true(failures >= 7); /* the open, and a write and an fsync for each of three batches */
    mem_free(wanted);
}

static void without_memory_a_sentence(void **state)
{
    (void)state;
    uint32_t failures = 0;
    for (uint64_t nth = 1; nth < 8; nth++) {
        (void)unlink(path);
        mem_fail_at(nth);
        bool ok = go_on(path, 4, &error);
        mem_fail_at(0);
        failures += !ok;
        if (!ok) assert_non_null(strstr(error.text, "out of memory"));
        assert_true(go_on(path, 4, &error));
    }
    assert_true(failures > 0);
}

static void a_folder_has_a_file_a_day(void **state)
{
    (void)state;
    struct market_log log;
    char out[96], file[160];
    size_t bytes;
    (void)snprintf(out, sizeof out, "%s/days/", folder);
    assert_true(market_log_open(&log, out, &error));
    for (uint32_t i = 0; i < 6; i++) {
        struct market_change row = change(i);
        static const int64_t days[] = {0, 0, 2, 2, 1, 3}; /* 1: the clock was set back */
        row.at_us = days[i] * DAY_US + i;
        row.event = i + 1;
        assert_true(market_log_add(&log, 4, &row, &error));
    }
    assert_true(market_log_flush(&log, &error));
    market_log_close(&log);
    static const struct {
        const char *day;
        uint32_t lines;
    } files[] = {{"01", 3}, {"03", 4}, {"04", 2}};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t lines = 0;
        (void)snprintf(file, sizeof file, "%s/prices-1970-01-%s.csv", out, files[i].day);
        char *text = content(file, &bytes);
        for (size_t c = 0; c < bytes; c++) lines += text[c] == '\n';
        assert_int_equal(lines, files[i].lines);
        mem_free(text);
    }
    /* A crash just after a new day's file was made: the place is in the one before. */
    assert_int_equal(truncate(file, 20), 0);
    assert_true(market_log_open(&log, out, &error));
    assert_int_equal(log.place.event, 5);
    assert_non_null(strstr(log.file, "1970-01-04"));
    market_log_close(&log);
}

static void what_is_no_record_is_left_alone(void **state)
{
    (void)state;
    struct market_log log, second;
    size_t bytes;
    static const char foreign[] = "time,zone,price\n1,2,3\n";
    assert_true(io_write_file(path, foreign, strlen(foreign), 0644, &error));
    assert_false(market_log_open(&log, path, &error));
    assert_non_null(strstr(error.text, "first line"));
    char *text = content(path, &bytes);
    assert_string_equal(text, foreign);
    mem_free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(market_log_open(&log, path, &error));
    assert_non_null(strstr(error.text, "not a plain file"));
    assert_int_equal(unlink(path), 0);
    assert_true(market_log_open(&log, path, &error));
    assert_false(market_log_open(&second, path, &error));
    assert_non_null(strstr(error.text, "another process"));
    market_log_close(&log);
    assert_false(market_log_open(&log, "", &error));
}

static void another_journal_counts_anew(void **state)
{
    (void)state;
    struct market_place place;
    size_t cut;
    static const char rows[] = "x,9,4\nx,9,5\nx,9,5\nx,1";
    assert_true(market_log_tail(rows, strlen(rows), false, &place, &cut));
    assert_int_equal(place.event, 9);
    assert_int_equal(place.journal, 5);
    assert_int_equal(place.rows, 2);
    assert_int_equal(cut, 3);
    assert_false(market_log_tail("a\nb\n", 4, false, &place, &cut));
    assert_false(market_log_tail("a\n,0,4\n", 7, false, &place, &cut)); /* no event */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_read_as_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_anywhere_it_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_failed_write_leaves_whole_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_a_sentence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_has_a_file_a_day, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_record_is_left_alone, set_up, tear_down),
        cmocka_unit_test(another_journal_counts_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
