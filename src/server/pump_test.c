/* The pump: what is pushed together is committed together, waiters hear in order and only after the
 * commit, a failed commit drops everything but what the core has said. */
#include "base/mem.h"
#include "server/pump.h"
#include "server/restore.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WAIT_PASSES_MAX = 100000 };

struct fixture {
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    uv_loop_t loop;
    journal *j;
    names *n;
    struct restored restored;
    pump *p;
    uint32_t stepped_count, told_count;
    uint64_t last_seq;
    int64_t last_now_us;
    char error[256];
    bool closed;
};

static void on_stepped(void *host, const struct pool_event *event, const struct pool_output *out)
{
    struct fixture *f = host;
    assert_int_equal(event->seq, f->last_seq + 1);
    assert_true(event->now_us >= f->last_now_us);
    f->last_seq = event->seq;
    f->last_now_us = event->now_us;
    f->stepped_count++;
    (void)out;
}

static void open_all(struct fixture *f, int64_t bytes_max)
{
    struct pool_config config;
    pool_config_default(&config);
    config.limits.jobs_max = 64;
    config.limits.nodes_max = 16;
    const struct journal_options journal_wanted = {.path = f->path, .bytes_max = bytes_max};
    f->j = journal_open(&journal_wanted, NULL);
    assert_non_null(f->j);
    f->n = names_open();
    assert_true(names_load(f->n, f->j, NULL));
    const struct restore_options restore_wanted = {.journal = f->j, .config = &config};
    assert_true(restore_pool(&restore_wanted, &f->restored, NULL));
    const struct pump_options options = {.loop = &f->loop,
                                         .journal = f->j,
                                         .names = f->n,
                                         .pool = f->restored.pool,
                                         .host = f,
                                         .stepped = on_stepped};
    f->p = pump_open(&options, NULL);
    assert_non_null(f->p);
    f->last_seq = pump_seq(f->p);
}

static void on_closed(void *arg)
{
    struct fixture *f = arg;
    f->closed = true;
}

static void close_all(struct fixture *f)
{
    f->closed = false;
    pump_close(f->p, on_closed, f);
    for (int i = 0; i < WAIT_PASSES_MAX && !f->closed; i++) (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(f->closed);
    mem_free(f->restored.memory);
    names_close(f->n);
    journal_close(f->j);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    test_dir_make(f->dir);
    (void)test_dir_path(f->dir, "journal.db", f->path);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(uv_loop_close(&f->loop), 0);
    test_dir_remove(f->dir);
    free(f);
    return 0;
}

static void push_tick(struct fixture *f)
{
    assert_null(pump_push(f->p, &(struct pool_event){.kind = POOL_EVENT_TICK}));
}

static void on_told(void *arg, const char *error)
{
    struct fixture *f = arg;
    f->told_count++;
    (void)snprintf(f->error, sizeof f->error, "%s", error == NULL ? "" : error);
}

static void run_until_told(struct fixture *f, uint32_t count)
{
    for (int i = 0; i < WAIT_PASSES_MAX && f->told_count < count; i++)
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->told_count, count);
}

static void what_comes_together_is_one_commit(void **state)
{
    struct fixture *f = *state;
    struct pump_stats stats;
    open_all(f, 0);
    for (int i = 0; i < 100; i++) {
        push_tick(f);
        assert_true(pump_wait(f->p, on_told, f));
    }
    assert_int_equal(f->stepped_count, 0); /* nothing happens before the commit */
    run_until_told(f, 100);
    assert_int_equal(f->stepped_count, 100);
    assert_string_equal(f->error, "");
    pump_stats_read(f->p, &stats);
    assert_int_equal(stats.commits, 1);
    assert_int_equal(stats.events, 100);
    close_all(f);
}

static void on_told_push_again(void *arg, const char *error)
{
    struct fixture *f = arg;
    on_told(arg, error);
    if (f->told_count >= 5) return;
    push_tick(f);
    assert_true(pump_wait(f->p, on_told_push_again, f));
}

static void a_waiter_may_push_more(void **state)
{
    struct fixture *f = *state;
    open_all(f, 0);
    push_tick(f);
    assert_true(pump_wait(f->p, on_told_push_again, f));
    run_until_told(f, 5);
    assert_int_equal(pump_seq(f->p), 5);
    close_all(f);
}

static void closing_commits_what_was_pushed(void **state)
{
    struct fixture *f = *state;
    open_all(f, 0);
    push_tick(f);
    push_tick(f);
    close_all(f);
    open_all(f, 0);
    assert_int_equal(pump_seq(f->p), 2);
    assert_int_equal(f->restored.events_replayed, 2);
    pump_close(f->p, on_closed, f);
    assert_non_null(pump_push(f->p, &(struct pool_event){.kind = POOL_EVENT_TICK}));
    assert_false(pump_wait(f->p, on_told, f));
    close_all(f);
}

static void a_bad_event_is_refused_before_the_journal(void **state)
{
    struct fixture *f = *state;
    open_all(f, 0);
    assert_non_null(pump_push(f->p, &(struct pool_event){.kind = POOL_EVENT_KIND_END}));
    assert_non_null(pump_push(f->p, &(struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED}));
    assert_int_equal(pump_batch(f->p)->events.count, 0);
    close_all(f);
}

static void fill(struct fixture *f, uint32_t lines)
{
    for (uint32_t i = 0; i < lines; i++) {
        struct batch_log *log = array_push(&pump_batch(f->p)->logs);
        *log = (struct batch_log){.job_id = 1, .node_key = 1, .number = i + 1};
        log->line = mem_strdup("a line that takes some room in the journal of this test ........");
        assert_non_null(log->line);
    }
}

static void a_failed_commit_drops_events_and_keeps_what_was_said(void **state)
{
    struct fixture *f = *state;
    uint32_t zone = 0;
    open_all(f, 100000);
    struct ledger_entry *entry = array_push(&pump_batch(f->p)->entries);
    *entry = (struct ledger_entry){.id = 4711, .usd_micros = 12};
    assert_true(names_id(f->n, ID_ZONE, "a", &zone));
    push_tick(f);
    fill(f, 5000);
    assert_true(pump_wait(f->p, on_told, f));
    run_until_told(f, 1);
    assert_non_null(strstr(f->error, "free space"));
    assert_true(pump_is_full(f->p));
    assert_non_null(pump_trouble(f->p));
    assert_int_equal(f->stepped_count, 0);
    assert_int_equal(pump_seq(f->p), 0);
    push_tick(f); /* small: fits */
    assert_true(pump_wait(f->p, on_told, f));
    run_until_told(f, 2);
    assert_string_equal(f->error, "");
    assert_null(pump_trouble(f->p));
    assert_int_equal(pump_seq(f->p), 1);
    struct sqlite3_stmt *query = journal_query(
        f->j, "SELECT (SELECT sum(usd_micros) FROM entries), (SELECT count(*) FROM names)", NULL);
    assert_true(journal_row(query));
    assert_int_equal(sqlite3_column_int(query, 0), 12);
    assert_int_equal(sqlite3_column_int(query, 1), 1);
    journal_reset(query);
    close_all(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_comes_together_is_one_commit),
        TEST(a_waiter_may_push_more),
        TEST(closing_commits_what_was_pushed),
        TEST(a_bad_event_is_refused_before_the_journal),
        TEST(a_failed_commit_drops_events_and_keeps_what_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
