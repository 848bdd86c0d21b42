/* A journal stepped once more says what it said; what was changed in it, or never stored, is found. */
#include "base/mem.h"
#include "server/replay.h"
#include "server/restore.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { START_US = 1000000, STEP_US = 20000000 };

struct fixture {
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    journal *j;
    pool *live; /* a server's: what it says is stored with the next commit */
    void *memory;
    struct batch b;
    struct pool_output out;
    uint64_t seq, node_key;
    struct replay_result result;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pool_config config;
    struct restored restored;
    test_dir_make(f->dir);
    (void)test_dir_path(f->dir, "journal.db", f->path);
    f->j = journal_open(&(struct journal_options){.path = f->path}, NULL);
    assert_non_null(f->j);
    pool_config_default(&config);
    config.limits.jobs_max = 64;
    config.limits.nodes_max = 16;
    const struct restore_options options = {.journal = f->j, .config = &config};
    assert_true(restore_pool(&options, &restored, NULL));
    f->live = restored.pool;
    f->memory = restored.memory;
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
    test_dir_remove(f->dir);
    free(f);
    return 0;
}

static void commit(struct fixture *f)
{
    struct error error = {""};
    if (!journal_commit(f->j, &f->b, &error)) fail_msg("%s", error.text);
    batch_clear(&f->b);
}

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
    for (uint32_t i = 0; i < f->out.entry_count; i++)
        *(struct ledger_entry *)array_push(&f->b.entries) = f->out.entries[i];
    for (uint32_t i = 0; i < f->out.command_count; i++)
        if (f->out.commands[i].kind == POOL_COMMAND_ENSURE_NODE)
            f->node_key = f->out.commands[i].node_key;
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

static void ticks(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++) happen(f, (struct pool_event){.kind = POOL_EVENT_TICK});
}

/* A job, a node that is bought for it and comes up, and minutes of it. */
static void live(struct fixture *f)
{
    struct pool_event event = {.kind = POOL_EVENT_MODEL_DEFINED};
    event.u.model_defined.ncu_milli = 1000;
    event.u.model_defined.vram_mib = 40960;
    happen(f, event);
    event = (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED};
    event.u.offer_changed.offer_id = 1;
    event.u.offer_changed.usd_micros_per_hour = 1000000;
    event.u.offer_changed.on_demand_usd_micros_per_hour = 1000000;
    event.u.offer_changed.provider = event.u.offer_changed.region = event.u.offer_changed.zone = 1;
    event.u.offer_changed.capacity = CAPACITY_ON_DEMAND;
    event.u.offer_changed.device_count = 1;
    event.u.offer_changed.stock_count = 4;
    happen(f, event);
    event = (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED};
    event.u.job_submitted.job_id = 1;
    event.u.job_submitted.spec_hash = 7;
    event.u.job_submitted.devices_min = event.u.job_submitted.devices_max = 1;
    event.u.job_submitted.job_class = JOB_CLASS_P2;
    event.u.job_submitted.kind = JOB_KIND_BATCH;
    happen(f, event);
    ticks(f, 1);
    assert_true(f->node_key != 0);
    event = (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED};
    event.u.node_observed.node_key = f->node_key;
    event.u.node_observed.phase = NODE_PHASE_UP;
    event.u.node_observed.up_since_us = START_US + (int64_t)f->seq * STEP_US;
    event.u.node_observed.billed_usd_micros = -1;
    happen(f, event);
    ticks(f, 12);
}

static void replay(struct fixture *f, uint64_t last_seq)
{
    struct error error = {""};
    journal *j = journal_open_to_read(f->path, &error); /* beside the one that writes */
    if (j == NULL) fail_msg("%s", error.text);
    if (!replay_journal(j, &(struct replay_options){.last_seq = last_seq}, &f->result, &error))
        fail_msg("%s", error.text);
    journal_close(j);
}

static void assert_differences(const struct fixture *f, uint64_t decisions, uint64_t entries)
{
    assert_int_equal(f->result.decisions.differences, decisions);
    assert_int_equal(f->result.entries.differences, entries);
    const struct replay_count *counts[] = {&f->result.decisions, &f->result.entries};
    for (int i = 0; i < 2; i++)
        assert_true(counts[i]->same + counts[i]->unrecorded <= counts[i]->said);
}

static void sql_rows(struct fixture *f, const char *text, int rows)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), rows);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void sql(struct fixture *f, const char *text)
{
    sql_rows(f, text, 1);
}

static void it_says_what_it_said(void **state)
{
    struct fixture *f = *state;
    live(f);
    commit(f);
    replay(f, 0);
    assert_differences(f, 0, 0);
    assert_true(f->result.decisions.same >= 2);
    assert_true(f->result.entries.same >= 2);
    assert_int_equal(f->result.decisions.same, f->result.decisions.said);
    assert_int_equal(f->result.entries.same, f->result.entries.said);
    assert_int_equal(f->result.first_seq, 1);
    assert_int_equal(f->result.last_seq, f->seq);
    assert_true(f->result.usd_micros > 0);
    assert_int_equal(f->result.digest, pool_digest(f->live));
    replay(f, 5);
    assert_int_equal(f->result.last_seq, 5);
    assert_differences(f, 0, 0);
}

static void it_begins_at_the_oldest_snapshot(void **state)
{
    struct fixture *f = *state;
    live(f);
    for (int i = 0; i < 3; i++) { /* of three, two are kept */
        snapshot(f);
        ticks(f, 5);
    }
    commit(f);
    replay(f, 0);
    assert_differences(f, 0, 0);
    assert_int_equal(f->result.first_seq, f->seq - 10 + 1);
    assert_int_equal(f->result.digest, pool_digest(f->live));
    assert_true(f->result.entries.same > 0);
}

static void assert_refused(struct fixture *f, uint64_t last_seq, const char *why)
{
    struct error error = {""};
    journal *j = journal_open_to_read(f->path, &error);
    assert_non_null(j);
    assert_false(
        replay_journal(j, &(struct replay_options){.last_seq = last_seq}, &f->result, &error));
    if (strstr(error.text, why) == NULL) fail_msg("not \"%s\": %s", why, error.text);
    assert_null(strstr(error.text, "damaged"));
    journal_close(j);
}

/* Nothing is wrong with a journal whose first events are no longer kept. */
static void what_is_no_longer_kept_is_said(void **state)
{
    struct fixture *f = *state;
    char text[96];
    live(f);
    for (int i = 0; i < 3; i++) {
        snapshot(f);
        ticks(f, 5);
    }
    commit(f);
    snprintf(text, sizeof text, "keeps events from %d on", (int)f->seq - 10 + 1);
    assert_refused(f, 5, text);
    assert_refused(f, f->seq - 10, text);
    replay(f, f->seq - 9);
    assert_int_equal(f->result.first_seq, f->result.last_seq);
    sql_rows(f, "UPDATE snapshots SET bytes = x'00'", 2);
    assert_refused(f, 0, "no snapshot that this program can read");
}

static void what_is_not_stored_yet_is_no_difference(void **state)
{
    struct fixture *f = *state;
    live(f);
    do ticks(f, 1);
    while (f->out.entry_count == 0);
    replay(f, 0); /* the last step's entries wait for the next commit */
    assert_differences(f, 0, 0);
    assert_int_equal(f->result.entries.unrecorded, f->out.entry_count);
}

static void what_was_changed_is_found(void **state)
{
    struct fixture *f = *state;
    live(f);
    commit(f);
    sql(f, "UPDATE decisions SET a = a + 1 WHERE id = (SELECT min(id) FROM decisions)");
    replay(f, 0);
    assert_differences(f, 1, 0);
    assert_int_equal(f->result.kept, 1);
    assert_int_equal(f->result.kept_differences[0].fault, REPLAY_OTHER);
    assert_int_equal(f->result.kept_differences[0].recorded.a,
                     f->result.kept_differences[0].said.a + 1);
    sql(f, "DELETE FROM decisions WHERE id = (SELECT min(id) FROM decisions)");
    replay(f, 0);
    assert_differences(f, 1, 0);
    assert_int_equal(f->result.kept_differences[0].fault, REPLAY_NOT_RECORDED);
    sql(f,
        "UPDATE entries SET usd_micros = usd_micros - 1 WHERE id = (SELECT min(id) FROM entries)");
    replay(f, 0);
    assert_differences(f, 1, 1);
    sql(f, "INSERT INTO entries(id, node) VALUES ((3 << 16) | 900, 1)");
    replay(f, 0);
    assert_differences(f, 1, 2);
    assert_int_equal(f->result.kept, 3);
}

static void what_is_no_journal_is_said(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    assert_null(journal_open_to_read(test_dir_path(f->dir, "none.db", path), &error));
    assert_non_null(strstr(error.text, "cannot open the journal"));
    live(f);
    commit(f);
    sql(f, "UPDATE events SET bytes = x'00' WHERE seq = 3");
    journal *j = journal_open_to_read(f->path, &error);
    assert_non_null(j);
    assert_false(replay_journal(j, &(struct replay_options){0}, &f->result, &error));
    assert_non_null(strstr(error.text, "damaged at event 3"));
    journal_close(j);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_says_what_it_said),           TEST(it_begins_at_the_oldest_snapshot),
        TEST(what_is_no_longer_kept_is_said), TEST(what_is_not_stored_yet_is_no_difference),
        TEST(what_was_changed_is_found),      TEST(what_is_no_journal_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
