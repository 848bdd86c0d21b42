/* Restart gives back the very pool that was: from events alone, from a snapshot and the events
 * after it, from the older snapshot when the newest is damaged, and under changed timing. */
#include "base/mem.h"
#include "server/restore.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { START_US = 1000000, STEP_US = 100000 };

struct fixture {
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    journal *j;
    struct pool_config config;
    pool *live; /* the pool that a server would have had in memory */
    void *memory;
    struct batch b;
    struct pool_output out;
    uint64_t seq;
    struct restored restored;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    test_dir_make(f->dir);
    (void)test_dir_path(f->dir, "journal.db", f->path);
    f->j = journal_open(&(struct journal_options){.path = f->path}, NULL);
    assert_non_null(f->j);
    pool_config_default(&f->config);
    f->config.limits.jobs_max = 64;
    f->config.limits.nodes_max = 16;
    batch_init(&f->b);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    journal_close(f->j);
    batch_free(&f->b);
    mem_free(f->memory);
    mem_free(f->restored.memory);
    test_dir_remove(f->dir);
    free(f);
    return 0;
}

static bool restore(struct fixture *f, struct error *ret_error)
{
    const struct restore_options options = {.journal = f->j, .config = &f->config};
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
    assert_true(journal_meta_get(f->j, "pool_config", &config, sizeof config));
    size_t bytes = pool_size(&config.limits);
    f->memory = mem_zalloc(1, bytes);
    f->live = pool_init(f->memory, bytes, &config);
}

static void commit(struct fixture *f)
{
    struct error error = {""};
    if (!journal_commit(f->j, &f->b, &error)) fail_msg("%s", error.text);
    batch_clear(&f->b);
}

/* Journals one event, steps the live pool, and leaves what it says for the next commit. */
static void happen(struct fixture *f, struct pool_event event)
{
    event.seq = ++f->seq;
    event.now_us = START_US + (int64_t)f->seq * STEP_US;
    event.version = POOL_CORE_VERSION;
    assert_null(pool_event_check(&event));
    *(struct pool_event *)array_push(&f->b.events) = event;
    commit(f);
    pool_step(f->live, &event, &f->out);
    for (uint32_t i = 0; i < f->out.decision_count; i++)
        ((struct batch_decision *)array_push(&f->b.decisions))->decision = f->out.decisions[i];
}

static void define(struct fixture *f)
{
    struct pool_event model = {.kind = POOL_EVENT_MODEL_DEFINED};
    model.u.model_defined.ncu_milli = 1000;
    model.u.model_defined.vram_mib = 40960;
    happen(f, model);
    struct pool_event offer = {.kind = POOL_EVENT_OFFER_CHANGED};
    offer.u.offer_changed.offer_id = 1;
    offer.u.offer_changed.usd_micros_per_hour = 1000000;
    offer.u.offer_changed.on_demand_usd_micros_per_hour = 1000000;
    offer.u.offer_changed.provider = offer.u.offer_changed.region = 1;
    offer.u.offer_changed.zone = 1;
    offer.u.offer_changed.capacity = CAPACITY_ON_DEMAND;
    offer.u.offer_changed.device_count = 1;
    offer.u.offer_changed.stock_count = 4;
    happen(f, offer);
}

static void submit(struct fixture *f, uint64_t job_id)
{
    struct pool_event job = {.kind = POOL_EVENT_JOB_SUBMITTED};
    job.u.job_submitted.job_id = job_id;
    job.u.job_submitted.spec_hash = 7;
    job.u.job_submitted.devices_min = job.u.job_submitted.devices_max = 1;
    job.u.job_submitted.job_class = JOB_CLASS_P2;
    job.u.job_submitted.kind = JOB_KIND_BATCH;
    happen(f, job);
}

static void ticks(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++) happen(f, (struct pool_event){.kind = POOL_EVENT_TICK});
}

static void snapshot(struct fixture *f)
{
    f->b.snapshot_bytes = pool_snapshot_write(f->live, NULL, 0);
    f->b.snapshot = mem_alloc(f->b.snapshot_bytes);
    assert_non_null(f->b.snapshot);
    (void)pool_snapshot_write(f->live, f->b.snapshot, f->b.snapshot_bytes);
    f->b.snapshot_seq = f->seq;
    commit(f);
}

static void sql(struct fixture *f, const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t number(struct fixture *f, const char *text)
{
    struct sqlite3_stmt *query = journal_query(f->j, text, NULL);
    assert_true(journal_row(query));
    int64_t value = sqlite3_column_int64(query, 0);
    journal_reset(query);
    return value;
}

static void assert_same(struct fixture *f)
{
    assert_int_equal(pool_last_seq(f->restored.pool), f->seq);
    assert_int_equal(pool_digest(f->restored.pool), pool_digest(f->live));
    pool_check(f->restored.pool);
}

static void events_alone_are_enough(void **state)
{
    struct fixture *f = *state;
    begin(f);
    define(f);
    for (uint64_t id = 1; id <= 10; id++) submit(f, id);
    ticks(f, 20);
    must_restore(f);
    assert_int_equal(f->restored.events_replayed, f->seq);
    assert_same(f);
}

static void a_snapshot_spares_the_events_before_it(void **state)
{
    struct fixture *f = *state;
    begin(f);
    define(f);
    submit(f, 1);
    snapshot(f);
    submit(f, 2);
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
    define(f);
    for (uint64_t id = 1; id <= 3; id++) {
        submit(f, id);
        snapshot(f);
        ticks(f, 2);
    }
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        sql(f, harm[i]);
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
    define(f);
    for (uint64_t id = 1; id <= 3; id++) {
        submit(f, id);
        snapshot(f);
    }
    sql(f, "UPDATE snapshots SET bytes = x'00'");
    assert_false(restore(f, &error));
    assert_non_null(strstr(error.text, "damaged"));
}

static void what_replay_says_again_is_stored_once(void **state)
{
    struct fixture *f = *state;
    begin(f);
    define(f);
    submit(f, 1);
    ticks(f, 3); /* each commit stored what the step before it said */
    int64_t stored = number(f, "SELECT count(*) FROM decisions");
    assert_true(stored > 0);
    must_restore(f);
    must_restore(f);
    assert_int_equal(number(f, "SELECT count(*) FROM decisions"), stored);
    sql(f, "DELETE FROM decisions");
    must_restore(f); /* as after a crash between a commit and the next: said again */
    assert_int_equal(number(f, "SELECT count(*) FROM decisions"), stored);
}

static void changed_timing_moves_the_pool(void **state)
{
    struct fixture *f = *state;
    begin(f);
    define(f);
    submit(f, 1);
    f->config.idle_release_us += 1000000;
    must_restore(f);
    assert_true(f->restored.is_reconfigured);
    assert_int_equal(pool_last_seq(f->restored.pool), f->seq);
    assert_int_equal(number(f, "SELECT count(*) FROM events"), 0);
    must_restore(f); /* and stays moved */
    assert_false(f->restored.is_reconfigured);
    assert_int_equal(pool_last_seq(f->restored.pool), f->seq);
}

static void limits_below_what_is_there_are_refused(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    begin(f);
    define(f);
    for (uint64_t id = 1; id <= 10; id++) submit(f, id);
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
    define(f);
    submit(f, 1);
    snapshot(f);
    ticks(f, 3);
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
    assert_int_equal(pool_last_seq(f->restored.pool), f->seq);
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
