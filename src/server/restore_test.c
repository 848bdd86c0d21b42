/* Restart gives back the very pool that was: from events alone, from a snapshot and the events
 * after it, from the older snapshot when the newest is damaged, and under changed timing. */
#include "server/restore.h"
#include "server/test_journal.h"

enum { STEP_US = 100000 };

struct fixture {
    struct test_journal t;
    struct pool_config config;
    struct restored restored;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    test_journal_open(&f->t, STEP_US);
    pool_config_default(&f->config);
    f->config.limits.jobs_max = 64;
    f->config.limits.nodes_max = 16;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    test_journal_close(&f->t);
    mem_free(f->restored.memory);
    free(f);
    return 0;
}

static bool restore(struct fixture *f, struct error *ret_error)
{
    const struct restore_options options = {.journal = f->t.j, .config = &f->config};
    mem_free(f->restored.memory);
    f->restored = (struct restored){0};
    return restore_pool(&options, &f->restored, ret_error);
}

static void must_restore(struct fixture *f)
{
    struct error error = {""};
    if (!restore(f, &error)) fail_msg("%s", error.text);
}

/* The first restore makes the journal's configuration; from then on the live pool has the same. */
static void begin(struct fixture *f)
{
    struct pool_config config;
    must_restore(f);
    assert_true(f->restored.is_new);
    assert_true(journal_meta_get(f->t.j, "pool_config", &config, sizeof config));
    size_t bytes = pool_size(&config.limits);
    f->t.memory = mem_zalloc(1, bytes);
    f->t.live = pool_init(f->t.memory, bytes, &config);
}

static int64_t number(struct fixture *f, const char *text)
{
    struct sqlite3_stmt *query = journal_query(f->t.j, text, NULL);
    assert_true(journal_row(query));
    int64_t value = sqlite3_column_int64(query, 0);
    journal_reset(query);
    return value;
}

static void assert_same(struct fixture *f)
{
    assert_int_equal(pool_last_seq(f->restored.pool), f->t.seq);
    assert_int_equal(pool_digest(f->restored.pool), pool_digest(f->t.live));
    pool_check(f->restored.pool);
}

static void events_alone_are_enough(void **state)
{
    struct fixture *f = *state;
    begin(f);
    test_define(&f->t);
    for (uint64_t id = 1; id <= 10; id++) test_submit(&f->t, id);
    test_ticks(&f->t, 20);
    must_restore(f);
    assert_int_equal(f->restored.events_replayed, f->t.seq);
    assert_same(f);
}

static void a_snapshot_spares_the_events_before_it(void **state)
{
    struct fixture *f = *state;
    begin(f);
    test_define(&f->t);
    test_submit(&f->t, 1);
    test_snapshot(&f->t);
    test_submit(&f->t, 2);
    must_restore(f);
    assert_int_equal(f->restored.events_replayed, 1);
    assert_same(f);
}

static void a_damaged_newest_snapshot_gives_way_to_the_older(void **state)
{
    struct fixture *f = *state;
    static const char *const harm[] = {
        "UPDATE snapshots SET bytes = substr(bytes, 1, length(bytes) / 2) WHERE seq = "
        "(SELECT max(seq) FROM snapshots)",
        "UPDATE snapshots SET bytes = zeroblob(length(bytes)) WHERE seq = "
        "(SELECT max(seq) FROM snapshots)",
        "UPDATE snapshots SET bytes = x'' WHERE seq = (SELECT max(seq) FROM snapshots)",
    };
    begin(f);
    test_define(&f->t);
    for (uint64_t id = 1; id <= 3; id++) {
        test_submit(&f->t, id);
        test_snapshot(&f->t);
        test_ticks(&f->t, 2);
    }
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        assert_true(test_sql(&f->t, harm[i]) > 0);
        must_restore(f);
        assert_int_equal(f->restored.snapshots_rejected, 1);
        assert_int_equal(f->restored.events_replayed, 5);
        assert_same(f);
    }
}

/* The events behind the older one are gone by design, so this is damage and must be told. */
static void two_damaged_snapshots_are_told(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    begin(f);
    test_define(&f->t);
    for (uint64_t id = 1; id <= 3; id++) {
        test_submit(&f->t, id);
        test_snapshot(&f->t);
    }
    assert_true(test_sql(&f->t, "UPDATE snapshots SET bytes = x'00'") > 0);
    assert_false(restore(f, &error));
    assert_non_null(strstr(error.text, "damaged"));
}

static void what_replay_says_again_is_stored_once(void **state)
{
    struct fixture *f = *state;
    begin(f);
    test_define(&f->t);
    test_submit(&f->t, 1);
    test_ticks(&f->t, 3); /* each commit stored what the step before it said */
    int64_t stored = number(f, "SELECT count(*) FROM decisions");
    assert_true(stored > 0);
    must_restore(f);
    must_restore(f);
    assert_int_equal(number(f, "SELECT count(*) FROM decisions"), stored);
    assert_true(test_sql(&f->t, "DELETE FROM decisions") > 0);
    must_restore(f); /* as after a crash between a commit and the next: said again */
    assert_int_equal(number(f, "SELECT count(*) FROM decisions"), stored);
}

static void changed_timing_moves_the_pool(void **state)
{
    struct fixture *f = *state;
    begin(f);
    test_define(&f->t);
    test_submit(&f->t, 1);
    f->config.idle_release_us += 1000000;
    must_restore(f);
    assert_true(f->restored.is_reconfigured);
    assert_int_equal(pool_last_seq(f->restored.pool), f->t.seq);
    assert_int_equal(number(f, "SELECT count(*) FROM events"), 0);
    must_restore(f); /* and stays moved */
    assert_false(f->restored.is_reconfigured);
    assert_int_equal(pool_last_seq(f->restored.pool), f->t.seq);
}

static void limits_below_what_is_there_are_refused(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    begin(f);
    test_define(&f->t);
    for (uint64_t id = 1; id <= 10; id++) test_submit(&f->t, id);
    f->config.limits.jobs_max = 2;
    assert_false(restore(f, &error));
    assert_non_null(strstr(error.text, "raise them"));
    f->config.limits.jobs_max = 64;
    must_restore(f);
    assert_same(f);
}

/* Whatever allocation fails, the journal stays as it was and the next start works. */
static void a_failed_allocation_only_delays_the_start(void **state)
{
    struct fixture *f = *state;
    begin(f);
    test_define(&f->t);
    test_submit(&f->t, 1);
    test_snapshot(&f->t);
    test_ticks(&f->t, 3);
    f->config.drain_us += 1; /* the longest way: replay, snapshot, move */
    uint32_t failures = 0;
    for (uint64_t nth = 1; nth <= 12; nth++) {
        struct error error = {""};
        mem_fail_at(nth);
        bool restored = restore(f, &error);
        mem_fail_at(0);
        if (!restored) {
            failures++;
            assert_true(error.text[0] != '\0');
        }
    }
    assert_true(failures > 0);
    must_restore(f);
    assert_int_equal(pool_last_seq(f->restored.pool), f->t.seq);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(events_alone_are_enough),
        TEST(a_snapshot_spares_the_events_before_it),
        TEST(a_damaged_newest_snapshot_gives_way_to_the_older),
        TEST(two_damaged_snapshots_are_told),
        TEST(what_replay_says_again_is_stored_once),
        TEST(changed_timing_moves_the_pool),
        TEST(limits_below_what_is_there_are_refused),
        TEST(a_failed_allocation_only_delays_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
