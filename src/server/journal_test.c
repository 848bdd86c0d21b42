/* The journal keeps whole batches: what was committed is read back after a reopen, what failed left
 * nothing, damage is noticed. */
#include "base/mem.h"
#include "codec/record.h"
#include "server/journal.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct fixture {
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    journal *j;
    struct batch b;
};

static void open_journal(struct fixture *f, int64_t bytes_max)
{
    struct error error;
    const struct journal_options options = {.path = f->path, .bytes_max = bytes_max};
    f->j = journal_open(&options, &error);
    assert_non_null(f->j);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    test_dir_make(f->dir);
    (void)test_dir_path(f->dir, "journal.db", f->path);
    open_journal(f, 0);
    batch_init(&f->b);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    journal_close(f->j);
    batch_free(&f->b);
    test_dir_remove(f->dir);
    free(f);
    return 0;
}

static void push_tick(struct fixture *f, uint64_t seq)
{
    struct pool_event *event = array_push(&f->b.events);
    *event = (struct pool_event){.seq = seq,
                                 .now_us = 1000 + (int64_t)seq,
                                 .kind = POOL_EVENT_TICK,
                                 .version = POOL_CORE_VERSION};
}

static void commit(struct fixture *f)
{
    struct error error = {""};
    if (!journal_commit(f->j, &f->b, &error)) fail_msg("%s", error.text);
    batch_clear(&f->b);
}

static bool count_event(void *arg, const struct pool_event *event)
{
    uint64_t *last = arg;
    assert_int_equal(event->seq, *last + 1);
    assert_int_equal(event->now_us, 1000 + (int64_t)event->seq);
    *last = event->seq;
    return true;
}

static uint64_t last_event(struct fixture *f, uint64_t after)
{
    struct error error = {""};
    uint64_t last = after;
    if (!journal_read_events(f->j, after, count_event, &last, &error)) fail_msg("%s", error.text);
    return last;
}

static int64_t number(struct fixture *f, const char *sql)
{
    struct sqlite3_stmt *query = journal_query(f->j, sql, NULL);
    assert_non_null(query);
    assert_true(journal_row(query));
    int64_t value = sqlite3_column_int64(query, 0);
    journal_reset(query);
    return value;
}

static void sql(struct fixture *f, const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void committed_events_survive_a_reopen(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seq = 1; seq <= 300; seq++) {
        push_tick(f, seq);
        if (seq % 7 == 0) commit(f);
    }
    commit(f);
    journal_close(f->j);
    open_journal(f, 0);
    assert_int_equal(last_event(f, 0), 300);
    assert_int_equal(last_event(f, 250), 300);
}

/* Replay says decisions and entries again: each must be stored once. */
static void outputs_are_stored_once(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 2; round++) {
        struct batch_decision *decision = array_push(&f->b.decisions);
        decision->decision.id = 65537;
        decision->decision.job_id = 3;
        struct ledger_entry *entry = array_push(&f->b.entries);
        entry->id = 65538;
        entry->usd_micros = 250;
        commit(f);
    }
    assert_int_equal(number(f, "SELECT count(*) FROM decisions"), 1);
    assert_int_equal(number(f, "SELECT sum(usd_micros) FROM entries"), 250);
}

static void push_log(struct fixture *f, uint64_t boot, uint64_t line_number)
{
    struct batch_log *log = array_push(&f->b.logs);
    *log = (struct batch_log){.job_id = 1, .node_key = 9, .boot = boot, .number = line_number};
    log->line = mem_strdup("hello");
}

static void a_log_line_sent_twice_is_stored_once(void **state)
{
    struct fixture *f = *state;
    push_log(f, 5, 1);
    push_log(f, 5, 2);
    commit(f);
    push_log(f, 5, 2); /* sent again: the reply was lost */
    push_log(f, 5, 3);
    push_log(f, 6, 1); /* another run of the agent counts from 1 again */
    commit(f);
    assert_int_equal(number(f, "SELECT count(*) FROM logs"), 4);
}

static void push_step(struct fixture *f, uint64_t generation, double loss)
{
    struct batch_progress *row = array_push(&f->b.progress);
    *row = (struct batch_progress){.job_id = 1, .step = 8, .generation = generation, .loss = loss};
    row->workers = mem_strdup("[]");
    commit(f);
}

static void a_step_redone_by_a_later_generation_counts(void **state)
{
    struct fixture *f = *state;
    push_step(f, 4, 3.0);
    push_step(f, 6, 2.0);
    push_step(f, 5, 1.0); /* late news of an earlier one */
    assert_int_equal(number(f, "SELECT count(*) FROM progress"), 1);
    assert_int_equal(number(f, "SELECT cast(loss AS INTEGER) FROM progress"), 2);
    assert_int_equal(number(f, "SELECT generation FROM progress"), 6);
}

static void a_full_disk_leaves_nothing_half_done(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    push_tick(f, 1);
    commit(f);
    journal_close(f->j);
    open_journal(f, 65536); /* fewer pages than the batch below needs */
    push_tick(f, 2);
    for (uint64_t i = 1; i <= 3000; i++) push_log(f, 1, i);
    assert_false(journal_commit(f->j, &f->b, &error));
    assert_true(journal_error_is_full(f->j));
    assert_non_null(strstr(error.text, "free space"));
    assert_int_equal(last_event(f, 0), 1);
    assert_int_equal(number(f, "SELECT count(*) FROM logs"), 0);
    batch_clear(&f->b);
    push_tick(f, 2); /* a small one still fits */
    commit(f);
    assert_false(journal_error_is_full(f->j));
    assert_int_equal(last_event(f, 0), 2);
}

/* A number that is there already is a bug elsewhere; the batch around it must not get in. */
static void a_failed_row_rolls_the_batch_back(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    push_tick(f, 1);
    commit(f);
    push_tick(f, 2);
    push_tick(f, 1);
    assert_false(journal_commit(f->j, &f->b, &error));
    assert_false(journal_error_is_full(f->j));
    assert_int_equal(last_event(f, 0), 1);
}

static void push_snapshot(struct fixture *f, uint64_t seq)
{
    f->b.snapshot = mem_alloc(4);
    memcpy(f->b.snapshot, "snap", 4);
    f->b.snapshot_bytes = 4;
    f->b.snapshot_seq = seq;
    commit(f);
}

static void snapshots_trim_what_lies_behind_the_older_one(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seq = 1; seq <= 40; seq++) {
        push_tick(f, seq);
        commit(f);
        if (seq % 10 == 0) push_snapshot(f, seq);
        if (seq == 10) assert_int_equal(number(f, "SELECT min(seq) FROM events"), 1);
    }
    assert_int_equal(number(f, "SELECT count(*) FROM snapshots"), 2);
    assert_int_equal(number(f, "SELECT min(seq) FROM snapshots"), 30);
    assert_int_equal(number(f, "SELECT min(seq) FROM events"), 31);
    assert_int_equal(last_event(f, 30), 40);
}

static bool take_second(void *arg, uint64_t seq, const uint8_t *bytes, size_t count)
{
    uint64_t *seen = arg;
    assert_memory_equal(bytes, "snap", count);
    seen[seen[0] == 0 ? 0 : 1] = seq;
    return seen[1] != 0;
}

static void snapshots_are_visited_newest_first(void **state)
{
    struct fixture *f = *state;
    uint64_t seen[2] = {0};
    push_snapshot(f, 5);
    push_snapshot(f, 9);
    assert_true(journal_read_snapshots(f->j, take_second, seen, NULL));
    assert_int_equal(seen[0], 9);
    assert_int_equal(seen[1], 5);
}

static void damage_is_told(void **state)
{
    struct fixture *f = *state;
    static const char *const harm[] = {
        "DELETE FROM events WHERE seq = 2",
        "UPDATE events SET bytes = x'00' WHERE seq = 2",
        "UPDATE events SET bytes = (SELECT bytes FROM events WHERE seq = 3) WHERE seq = 2",
    };
    for (uint64_t seq = 1; seq <= 3; seq++) push_tick(f, seq);
    commit(f);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        struct error error = {""};
        uint64_t last = 0;
        sql(f, "CREATE TABLE keep AS SELECT * FROM events");
        sql(f, harm[i]);
        assert_false(journal_read_events(f->j, 0, count_event, &last, &error));
        assert_non_null(strstr(error.text, "event 2"));
        assert_int_equal(last, 1);
        sql(f, "DELETE FROM events; INSERT INTO events SELECT * FROM keep; DROP TABLE keep");
    }
}

/* An older program decided otherwise: its journal is sound, and not stepped. */
static void another_version_of_the_core_is_told_with_both_numbers(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    uint64_t last = 0;
    for (uint64_t seq = 1; seq <= 3; seq++) push_tick(f, seq);
    commit(f);
    sql(f, "UPDATE events SET bytes = cast(substr(bytes, 1, 20) || x'01000000' || substr(bytes, 25)"
           " AS BLOB) WHERE seq = 2");
    assert_false(journal_read_events(f->j, 0, count_event, &last, &error));
    assert_int_equal(last, 1);
    assert_non_null(strstr(error.text, "event 2 of the journal was written by version 1"));
    char own[64];
    (void)snprintf(own, sizeof own, "this program has version %d", POOL_CORE_VERSION);
    assert_non_null(strstr(error.text, own));
    assert_null(strstr(error.text, "damaged"));
}

static void rewrite(const struct fixture *f, const char *name, const char *text)
{
    char path[TEST_PATH_BYTES];
    FILE *file = fopen(test_dir_path(f->dir, name, path), "we");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A journal without its newest events opens like a shorter one: only the mark tells. */
static void a_journal_that_lost_its_end_is_refused(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    const struct journal_options options = {.path = f->path};
    push_tick(f, 1);
    push_tick(f, 2);
    commit(f);
    journal_close(f->j);
    rewrite(f, "journal.db", "");
    f->j = journal_open(&options, &error);
    assert_null(f->j);
    assert_non_null(strstr(error.text, "ends at event 0, but 2 were acknowledged"));
    assert_non_null(strstr(error.text, "journal.db-mark"));
    assert_null(strchr(error.text, '\n'));
    rewrite(f, "journal.db-mark", "rubbish");
    assert_null(journal_open(&options, &error));
    assert_non_null(strstr(error.text, "remove this file"));
    assert_int_equal(unlink(test_dir_path(f->dir, "journal.db-mark", path)), 0);
    f->j = journal_open(&options, &error);
    assert_non_null(f->j);
    push_tick(f, 1);
    commit(f);
}

static void another_format_is_refused(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    int64_t format = JOURNAL_FORMAT + 1;
    assert_true(journal_meta_put(f->j, "format", &format, sizeof format, NULL));
    journal_close(f->j);
    f->j = journal_open(&(struct journal_options){.path = f->path}, &error);
    assert_null(f->j);
    assert_non_null(strstr(error.text, "format"));
}

static void a_file_that_is_no_database_is_refused(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    FILE *file = fopen(test_dir_path(f->dir, "other.db", path), "we");
    assert_non_null(file);
    for (int i = 0; i < 500; i++) (void)fputs("not a database at all", file);
    assert_int_equal(fclose(file), 0);
    assert_null(journal_open(&(struct journal_options){.path = path}, &error));
    assert_non_null(strstr(error.text, "journal"));
}

static void restart_at_forgets_older_events(void **state)
{
    struct fixture *f = *state;
    uint64_t value = 77, read = 0;
    for (uint64_t seq = 1; seq <= 3; seq++) push_tick(f, seq);
    commit(f);
    const struct journal_restart restart = {.seq = 3,
                                            .snapshot = (const uint8_t *)"snap",
                                            .snapshot_bytes = 4,
                                            .key = "pool_config",
                                            .value = &value,
                                            .value_bytes = sizeof value};
    assert_true(journal_restart_at(f->j, &restart, NULL));
    assert_int_equal(number(f, "SELECT count(*) FROM events"), 0);
    assert_true(journal_meta_get(f->j, "pool_config", &read, sizeof read));
    assert_int_equal(read, 77);
    push_tick(f, 4);
    commit(f);
    assert_int_equal(last_event(f, 3), 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(committed_events_survive_a_reopen),
        TEST(outputs_are_stored_once),
        TEST(a_log_line_sent_twice_is_stored_once),
        TEST(a_step_redone_by_a_later_generation_counts),
        TEST(a_full_disk_leaves_nothing_half_done),
        TEST(a_failed_row_rolls_the_batch_back),
        TEST(snapshots_trim_what_lies_behind_the_older_one),
        TEST(snapshots_are_visited_newest_first),
        TEST(damage_is_told),
        TEST(a_journal_that_lost_its_end_is_refused),
        TEST(another_version_of_the_core_is_told_with_both_numbers),
        TEST(another_format_is_refused),
        TEST(a_file_that_is_no_database_is_refused),
        TEST(restart_at_forgets_older_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
