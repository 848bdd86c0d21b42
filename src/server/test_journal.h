/* A journal and the pool that its server would have in memory, for tests of what reads journals.
 *
 * happen() journals an event and then steps the live pool; what the pool says of it is stored with the
 * commit after, as a server does.
 */
#ifndef SHOAL_SERVER_TEST_JOURNAL_H
#define SHOAL_SERVER_TEST_JOURNAL_H

#include "base/mem.h"
#include "server/journal.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TEST_START_US = 1000000 };

struct test_journal {
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    journal *j;
    pool *live;
    void *memory; /* of the live pool */
    struct batch b;
    struct pool_output out;
    int64_t step_us;        /* between two events */
    uint64_t seq, node_key; /* node_key: asked for last */
};

static inline void test_journal_open(struct test_journal *t, int64_t step_us)
{
    test_dir_make(t->dir);
    (void)test_dir_path(t->dir, "journal.db", t->path);
    t->j = journal_open(&(struct journal_options){.path = t->path}, NULL);
    assert_non_null(t->j);
    batch_init(&t->b);
    t->step_us = step_us;
}

static inline void test_journal_close(struct test_journal *t)
{
    journal_close(t->j);
    batch_free(&t->b);
    mem_free(t->memory);
    test_dir_remove(t->dir);
}

static inline void test_commit(struct test_journal *t)
{
    struct error error = {""};
    if (!journal_commit(t->j, &t->b, &error)) fail_msg("%s", error.text);
    batch_clear(&t->b);
}

static inline int64_t test_now_us(const struct test_journal *t)
{
    return TEST_START_US + (int64_t)t->seq * t->step_us;
}

static inline void test_happen(struct test_journal *t, struct pool_event event)
{
    event.seq = ++t->seq;
    event.now_us = test_now_us(t);
    event.version = POOL_CORE_VERSION;
    assert_null(pool_event_check(&event));
    *(struct pool_event *)array_push(&t->b.events) = event;
    test_commit(t);
    pool_step(t->live, &event, &t->out);
    for (uint32_t i = 0; i < t->out.decision_count; i++)
        ((struct batch_decision *)array_push(&t->b.decisions))->decision = t->out.decisions[i];
    for (uint32_t i = 0; i < t->out.entry_count; i++)
        *(struct ledger_entry *)array_push(&t->b.entries) = t->out.entries[i];
    for (uint32_t i = 0; i < t->out.command_count; i++)
        if (t->out.commands[i].kind == POOL_COMMAND_ENSURE_NODE)
            t->node_key = t->out.commands[i].node_key;
}

static inline void test_ticks(struct test_journal *t, int count)
{
    for (int i = 0; i < count; i++) test_happen(t, (struct pool_event){.kind = POOL_EVENT_TICK});
}

/* A model, and an offer of four nodes of it. */
static inline void test_define(struct test_journal *t)
{
    struct pool_event event = {.kind = POOL_EVENT_MODEL_DEFINED};
    event.u.model_defined.ncu_milli = 1000;
    event.u.model_defined.vram_mib = 40960;
    test_happen(t, event);
    event = (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED};
    event.u.offer_changed.offer_id = 1;
    event.u.offer_changed.usd_micros_per_hour = 1000000;
    event.u.offer_changed.on_demand_usd_micros_per_hour = 1000000;
    event.u.offer_changed.provider = event.u.offer_changed.region = event.u.offer_changed.zone = 1;
    event.u.offer_changed.capacity = CAPACITY_ON_DEMAND;
    event.u.offer_changed.device_count = 1;
    event.u.offer_changed.stock_count = 4;
    test_happen(t, event);
}

/* A job of one device. */
static inline void test_submit(struct test_journal *t, uint64_t job_id)
{
    struct pool_event event = {.kind = POOL_EVENT_JOB_SUBMITTED};
    event.u.job_submitted.job_id = job_id;
    event.u.job_submitted.spec_hash = 7;
    event.u.job_submitted.devices_min = event.u.job_submitted.devices_max = 1;
    event.u.job_submitted.job_class = JOB_CLASS_P2;
    event.u.job_submitted.kind = JOB_KIND_BATCH;
    test_happen(t, event);
}

static inline void test_snapshot(struct test_journal *t)
{
    t->b.snapshot_bytes = pool_snapshot_write(t->live, NULL, 0);
    t->b.snapshot = mem_alloc(t->b.snapshot_bytes);
    assert_non_null(t->b.snapshot);
    (void)pool_snapshot_write(t->live, t->b.snapshot, t->b.snapshot_bytes);
    t->b.snapshot_seq = t->seq;
    test_commit(t);
}

/* From outside, as harm comes; returns how many rows it changed. */
static inline int test_sql(const struct test_journal *t, const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(t->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    int rows = sqlite3_changes(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return rows;
}

#endif
