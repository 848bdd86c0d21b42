/* Lines, logs and progress on their way to the server: nothing is lost without a word, nothing is
 * sent that was acknowledged, and any bytes can be sent.
 */
#include "agent/line_reader.h"
#include "agent/log_queue.h"
#include "agent/options.h"
#include "agent/progress_queue.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- line_reader ---- */

struct seen {
    char text[512];
    int count;
};

static void note_line(void *self, const char *line, size_t bytes, bool cut)
{
    struct seen *seen = self;
    size_t length = strlen(seen->text);
    assert_int_equal(strlen(line), bytes);
    (void)snprintf(seen->text + length, sizeof seen->text - length, "[%s%s]", line,
                   cut ? "|cut" : "");
    seen->count++;
}

static void test_lines_are_the_same_however_they_arrive(void **state)
{
    (void)state;
    const char *text = "one\ntwo\r\n\nlonger than it may be\nlast";
    for (size_t chunk = 1; chunk <= strlen(text); chunk++) {
        struct line_reader reader = {.line_bytes_max = 10};
        struct seen seen = {0};
        for (size_t at = 0; at < strlen(text); at += chunk) {
            size_t left = strlen(text) - at;
            line_reader_feed(&reader, text + at, left < chunk ? left : chunk, note_line, &seen);
        }
        line_reader_end(&reader, note_line, &seen);
        line_reader_close(&reader);
        assert_string_equal(seen.text, "[one][two][][longer tha|cut][last]");
    }
}

static void test_line_reader_without_memory_cuts(void **state)
{
    (void)state;
    struct line_reader reader = {.line_bytes_max = 1000};
    struct seen seen = {0};
    line_reader_feed(&reader, "abc", 3, note_line, &seen);
    char long_text[400];
    memset(long_text, 'x', sizeof long_text);
    mem_fail_at(1);
    line_reader_feed(&reader, long_text, sizeof long_text, note_line, &seen);
    line_reader_feed(&reader, "\nnext\n", 6, note_line, &seen);
    mem_fail_at(0);
    line_reader_close(&reader);
    assert_string_equal(seen.text, "[abc|cut][next]");
}

/* ---- log_queue ---- */

static void add(struct log_queue *queue, struct log_source *source, const char *line, int64_t us)
{
    log_queue_add(queue, source, 1, 2, "out", line, strlen(line), false, us);
}

static void test_log_lines_are_kept_until_acknowledged(void **state)
{
    (void)state;
    struct log_queue queue;
    struct log_source source = {0};
    struct report_log lines[4];
    assert_true(log_queue_open(&queue));
    add(&queue, &source, "a", 1000000);
    add(&queue, &source, "b", 1000000);
    assert_int_equal(log_queue_send(&queue, lines, 4), 2);
    assert_int_equal(log_queue_send(&queue, lines, 4), 2); /* sending takes nothing */
    assert_string_equal(lines[0].line, "a");
    assert_string_equal(lines[0].time, "1970-01-01T00:00:01.000Z");
    assert_int_equal(log_queue_send(&queue, lines, 1), 1);
    log_queue_acknowledge(&queue, 1);
    assert_int_equal(log_queue_send(&queue, lines, 4), 1);
    assert_string_equal(lines[0].line, "b");
    log_queue_acknowledge(&queue, 1000); /* more than there is: a server that knows better */
    assert_int_equal(log_queue_send(&queue, lines, 4), 0);
    assert_int_equal(queue.first, 3);
    log_queue_close(&queue);
}

static void test_log_lines_never_sent_are_not_acknowledged(void **state)
{
    (void)state;
    struct log_queue queue;
    struct log_source source = {0};
    struct report_log line;
    assert_true(log_queue_open(&queue));
    add(&queue, &source, "in the report", 1000000);
    assert_int_equal(log_queue_send(&queue, &line, 1), 1);
    add(&queue, &source, "came while it was on its way", 1000000);
    log_queue_acknowledge(&queue, 1000);
    assert_int_equal(log_queue_send(&queue, &line, 1), 1);
    assert_string_equal(line.line, "came while it was on its way");
    log_queue_close(&queue);
}

static void test_bytes_become_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"plain\ttab", "plain\ttab"},
        {"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"},
        {"\xff\xfe", "??"},
        {"\xc3", "?"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xc0\xaf", "??"},
        {"\xed\xa0\x80", "???"},
        {"\xf0\x9f\x8e\x89", "\xf0\x9f\x8e\x89"},
        {"\xf4\x90\x80\x80", "????"},
        {"\x1b[2J", "?[2J"},
    };
    struct log_queue queue;
    struct log_source source = {0};
    struct report_log line;
    assert_true(log_queue_open(&queue));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        add(&queue, &source, cases[i].bytes, 1000000);
        assert_int_equal(log_queue_send(&queue, &line, 1), 1);
        assert_string_equal(line.line, cases[i].text);
        log_queue_acknowledge(&queue, queue.end - 1);
    }
    log_queue_close(&queue);
}

/* Counts the lines and what the remarks say was dropped. */
static uint64_t lines_and_dropped(struct log_queue *queue)
{
    struct report_log line;
    uint64_t sum = 0, dropped;
    while (log_queue_send(queue, &line, 1) == 1) {
        bool remark = sscanf(line.line, "(shoal: %lu", &dropped) == 1;
        sum += remark ? dropped : 1;
        log_queue_acknowledge(queue, queue->first);
    }
    return sum;
}

static void test_flood_adds_up(void **state)
{
    (void)state;
    struct log_queue queue;
    struct log_source source = {0};
    assert_true(log_queue_open(&queue));
    for (int i = 0; i < 10000; i++) add(&queue, &source, "flood", 1000000 + i);
    assert_true(queue.end - queue.first < LOG_QUEUE_BURST + 10);
    add(&queue, &source, "calm again", 9000000);
    assert_int_equal(lines_and_dropped(&queue), 10001);
    log_queue_close(&queue);
}

static void test_full_queue_adds_up(void **state)
{
    (void)state;
    struct log_queue queue;
    assert_true(log_queue_open(&queue));
    enum { LINES = LOG_QUEUE_LINES_MAX + 500 };
    for (int i = 0; i < LINES; i++) {
        struct log_source source = {0}; /* no rate limit here */
        add(&queue, &source, "x", 1000000);
    }
    assert_int_equal(queue.end - queue.first, LOG_QUEUE_LINES_MAX);
    /* The server is back and takes most of them; the next line brings the remark. */
    struct log_source source = {0};
    uint64_t taken = LOG_QUEUE_LINES_MAX - 100;
    struct report_log *sent = mem_zalloc(LOG_QUEUE_LINES_MAX, sizeof *sent);
    assert_int_equal(log_queue_send(&queue, sent, LOG_QUEUE_LINES_MAX), LOG_QUEUE_LINES_MAX);
    mem_free(sent);
    log_queue_acknowledge(&queue, queue.first + taken - 1);
    add(&queue, &source, "y", 1000000);
    assert_int_equal(lines_and_dropped(&queue) + taken, LINES + 1);
    log_queue_close(&queue);
}

/* ---- progress_queue ---- */

static struct worker_line row_of(uint64_t step)
{
    return (struct worker_line){.kind = WORKER_LINE_PROGRESS, .progress = {.job = 1, .step = step}};
}

static void test_progress_is_acknowledged_only_when_sent(void **state)
{
    (void)state;
    struct progress_queue queue;
    struct report_progress rows[4];
    assert_true(progress_queue_open(&queue));
    for (uint64_t step = 1; step <= 3; step++) {
        struct worker_line row = row_of(step);
        progress_queue_add(&queue, &row);
    }
    progress_queue_acknowledge(&queue, 100); /* of nothing: no report held them */
    assert_int_equal(progress_queue_send(&queue, rows, 2), 2);
    struct worker_line late = row_of(4);
    progress_queue_add(&queue, &late);
    progress_queue_acknowledge(&queue, 100);
    assert_int_equal(progress_queue_send(&queue, rows, 4), 2);
    assert_int_equal(rows[0].step, 3);
    progress_queue_acknowledge(&queue, 3);
    assert_int_equal(progress_queue_send(&queue, rows, 4), 1);
    assert_int_equal(rows[0].step, 4);
    progress_queue_close(&queue);
}

static void test_progress_drops_the_oldest_and_counts(void **state)
{
    (void)state;
    struct progress_queue queue;
    struct report_progress rows[1];
    assert_true(progress_queue_open(&queue));
    for (uint64_t step = 0; step < PROGRESS_QUEUE_MAX + 7; step++) {
        struct worker_line row = row_of(step);
        progress_queue_add(&queue, &row);
    }
    assert_int_equal(queue.dropped_count, 7);
    assert_int_equal(progress_queue_send(&queue, rows, 1), 1);
    assert_int_equal(rows[0].step, 7);
    progress_queue_close(&queue);
}

static void test_an_empty_queue_begins_at_its_front(void **state)
{
    (void)state;
    struct progress_queue queue;
    struct report_progress rows[4];
    assert_true(progress_queue_open(&queue));
    for (uint64_t step = 0; step < 3 * PROGRESS_QUEUE_MAX; step++) {
        struct worker_line row = row_of(step);
        progress_queue_add(&queue, &row);
        assert_true(queue.end <= 2);
        if (step % 2 == 0) continue;
        assert_int_equal(progress_queue_send(&queue, rows, 4), 2);
        assert_int_equal(rows[1].step, step);
        progress_queue_acknowledge(&queue, step);
    }
    assert_int_equal(queue.dropped_count, 0);
    progress_queue_close(&queue);
}

static void test_checkpoints_are_levels(void **state)
{
    (void)state;
    struct progress_queue queue;
    assert_true(progress_queue_open(&queue));
    progress_queue_ckpt(&queue, 1, 20);
    progress_queue_ckpt(&queue, 1, 10);
    progress_queue_ckpt(&queue, 2, 5);
    assert_int_equal(queue.ckpt_count, 2);
    assert_int_equal(queue.ckpts[0].step, 20);
    for (uint64_t job = 3; job < 3 + REPORT_CKPTS_MAX; job++) progress_queue_ckpt(&queue, job, 1);
    assert_int_equal(queue.ckpt_count, REPORT_CKPTS_MAX);
    progress_queue_close(&queue);
}

/* ---- options ---- */

static void test_options_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        char *args[10];
        const char *says;
    } cases[] = {
        {{"agent"}, "--server, --token-file and --node are needed"},
        {{"agent", "--node", "x"}, "--node x"},
        {{"agent", "--node", "18446744073709551616"}, "--node 18446744073709551616"},
        {{"agent", "--node", "0"}, "--node 0"},
        {{"agent", "--devices", "65"}, "from 1 to 64"},
        {{"agent", "--lease-ms", "1"}, "from 100 to"},
        {{"agent", "--server", "u", "--token-file", "t", "--node", "1", "extra"}, "\"extra\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int count = 0;
        struct agent_options options;
        struct error error;
        while (cases[i].args[count] != NULL) count++;
        assert_int_equal(
            agent_options_parse(count, (char **)(uintptr_t)cases[i].args, &options, &error),
            AGENT_OPTIONS_WRONG);
        if (strstr(error.text, cases[i].says) == NULL)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, error.text, cases[i].says);
    }
    char *good[] = {"agent", "--server", "http://h:1",           "--token-file",
                    "t",     "--node",   "18446744073709551615", NULL};
    struct agent_options options;
    struct error error;
    assert_int_equal(agent_options_parse(7, good, &options, &error), AGENT_OPTIONS_RUN);
    assert_true(options.node_key == UINT64_MAX);
    assert_true(options.device_model[0] != '\0'); /* the processor's name */
    assert_int_equal(options.device_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_the_same_however_they_arrive),
        cmocka_unit_test(test_line_reader_without_memory_cuts),
        cmocka_unit_test(test_log_lines_are_kept_until_acknowledged),
        cmocka_unit_test(test_log_lines_never_sent_are_not_acknowledged),
        cmocka_unit_test(test_bytes_become_text),
        cmocka_unit_test(test_flood_adds_up),
        cmocka_unit_test(test_full_queue_adds_up),
        cmocka_unit_test(test_progress_is_acknowledged_only_when_sent),
        cmocka_unit_test(test_progress_drops_the_oldest_and_counts),
        cmocka_unit_test(test_an_empty_queue_begins_at_its_front),
        cmocka_unit_test(test_checkpoints_are_levels),
        cmocka_unit_test(test_options_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
