/* A journal stepped once more says what it said; what was changed in it, or never stored, is found. */
#include "server/replay.h"
#include "server/restore.h"
#include "server/test_journal.h"

enum { STEP_US = 20000000 };

struct fixture {
    struct test_journal t;
    struct replay_result result;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pool_config config;
    struct restored restored;
    test_journal_open(&f->t, STEP_US);
    pool_config_default(&config);
    config.limits.jobs_max = 64;
    config.limits.nodes_max = 16;
    const struct restore_options options = {.journal = f->t.j, .config = &config};
    assert_true(restore_pool(&options, &restored, NULL));
    f->t.live = restored.pool;
    f->t.memory = restored.memory;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    test_journal_close(&f->t);
    free(f);
    return 0;
}

/* A job, a node that is bought for it and comes up, and minutes of it. */
static void live(struct test_journal *t)
{
    test_define(t);
    test_submit(t, 1);
    test_ticks(t, 1);
    assert_true(t->node_key != 0);
    struct pool_event event = {.kind = POOL_EVENT_NODE_OBSERVED};
    event.u.node_observed.node_key = t->node_key;
    event.u.node_observed.phase = NODE_PHASE_UP;
    event.u.node_observed.up_since_us = test_now_us(t);
    event.u.node_observed.billed_usd_micros = -1;
    test_happen(t, event);
    test_ticks(t, 12);
}

static void replay(struct fixture *f, uint64_t last_seq)
{
    struct error error = {""};
    journal *j = journal_open_to_read(f->t.path, &error); /* beside the one that writes */
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

static void sql_rows(const struct fixture *f, const char *text, int rows)
{
    assert_int_equal(test_sql(&f->t, text), rows);
}

static void sql(const struct fixture *f, const char *text)
{
    sql_rows(f, text, 1);
}

static void it_says_what_it_said(void **state)
{
    struct fixture *f = *state;
    live(&f->t);
    test_commit(&f->t);
    replay(f, 0);
    assert_differences(f, 0, 0);
    assert_true(f->result.decisions.same >= 2);
    assert_true(f->result.entries.same >= 2);
    assert_int_equal(f->result.decisions.same, f->result.decisions.said);
    assert_int_equal(f->result.entries.same, f->result.entries.said);
    assert_int_equal(f->result.first_seq, 1);
    assert_int_equal(f->result.last_seq, f->t.seq);
    assert_true(f->result.usd_micros > 0);
    assert_int_equal(f->result.digest, pool_digest(f->t.live));
    replay(f, 5);
    assert_int_equal(f->result.last_seq, 5);
    assert_differences(f, 0, 0);
}

static void it_begins_at_the_oldest_snapshot(void **state)
{
    struct fixture *f = *state;
    live(&f->t);
    for (int i = 0; i < 3; i++) { /* of three, two are kept */
        test_snapshot(&f->t);
        test_ticks(&f->t, 5);
    }
    test_commit(&f->t);
    replay(f, 0);
    assert_differences(f, 0, 0);
    assert_int_equal(f->result.first_seq, f->t.seq - 10 + 1);
    assert_int_equal(f->result.digest, pool_digest(f->t.live));
    assert_true(f->result.entries.same > 0);
}

static void assert_refused(struct fixture *f, uint64_t last_seq, const char *why)
{
    struct error error = {""};
    journal *j = journal_open_to_read(f->t.path, &error);
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
    live(&f->t);
    for (int i = 0; i < 3; i++) {
        test_snapshot(&f->t);
        test_ticks(&f->t, 5);
    }
    test_commit(&f->t);
    snprintf(text, sizeof text, "keeps events from %d on", (int)f->t.seq - 10 + 1);
    assert_refused(f, 5, text);
    assert_refused(f, f->t.seq - 10, text);
    replay(f, f->t.seq - 9);
    assert_int_equal(f->result.first_seq, f->result.last_seq);
    sql_rows(f, "UPDATE snapshots SET bytes = x'00'", 2);
    assert_refused(f, 0, "no snapshot that this program can read");
}

static void what_is_not_stored_yet_is_no_difference(void **state)
{
    struct fixture *f = *state;
    live(&f->t);
    do test_ticks(&f->t, 1);
    while (f->t.out.entry_count == 0);
    replay(f, 0); /* the last step's entries wait for the next commit */
    assert_differences(f, 0, 0);
    assert_int_equal(f->result.entries.unrecorded, f->t.out.entry_count);
}

static void what_was_changed_is_found(void **state)
{
    struct fixture *f = *state;
    live(&f->t);
    test_commit(&f->t);
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

/* An offer of the same model that costs more. */
static void offer_another(struct test_journal *t)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFER_CHANGED};
    event.u.offer_changed.offer_id = 2;
    event.u.offer_changed.usd_micros_per_hour = 1500000;
    event.u.offer_changed.on_demand_usd_micros_per_hour = 1500000;
    event.u.offer_changed.provider = event.u.offer_changed.region = event.u.offer_changed.zone = 2;
    event.u.offer_changed.capacity = CAPACITY_ON_DEMAND;
    event.u.offer_changed.device_count = 1;
    event.u.offer_changed.stock_count = 4;
    test_happen(t, event);
}

static void rank(struct test_journal *t, uint32_t state, uint64_t offer_id, uint32_t factor_ppm)
{
    test_happen(t, (struct pool_event){.kind = POOL_EVENT_OFFERS_RANKED,
                                       .u.offers_ranked = {.count = offer_id != 0,
                                                           .state = state,
                                                           .ranks = {{offer_id, factor_ppm, 0}}}});
}

/* What a site's ranking said is in the journal, so a replay needs neither program nor expression: the
 * same offers are bought, and that the program was late is said again. */
static void the_ranking_of_a_site_is_replayed(void **state)
{
    struct fixture *f = *state;
    test_define(&f->t);
    offer_another(&f->t);
    rank(&f->t, RANKING_OWN, 2, 100000);
    test_submit(&f->t, 1);
    test_ticks(&f->t, 1);
    rank(&f->t, RANKING_LATE, 0, 0);
    test_submit(&f->t, 2);
    test_ticks(&f->t, 3);
    test_commit(&f->t);
    char said[96];
    sql(f, "UPDATE decisions SET a = a WHERE offer = 2"); /* the dear one, by the site's word */
    sql(f, "UPDATE decisions SET a = a WHERE offer = 1"); /* the cheap one, without it */
    (void)snprintf(said, sizeof said, "UPDATE decisions SET a = a WHERE reason = %d",
                   REASON_RANKING_LATE);
    sql(f, said);
    replay(f, 0);
    assert_differences(f, 0, 0);
    assert_int_equal(f->result.decisions.same, f->result.decisions.said);
    assert_int_equal(f->result.digest, pool_digest(f->t.live));
}

/* Of another build nothing is stepped: both numbers are told. */
static void a_journal_of_another_build_is_refused(void **state)
{
    struct fixture *f = *state;
    char text[96];
    live(&f->t);
    test_commit(&f->t);
    sql(f, "UPDATE events SET bytes = cast(substr(bytes, 1, 20) || x'01000000' || substr(bytes, 25)"
           " AS BLOB) WHERE seq = 2");
    (void)snprintf(text, sizeof text, "version 1 of the core; this program has version %u",
                   (unsigned)POOL_CORE_VERSION);
    assert_refused(f, 0, text);
    (void)snprintf(text, sizeof text, "its configuration has 3 bytes, this program's has %zu",
                   sizeof(struct pool_config));
    sql(f, "UPDATE meta SET value = x'010203' WHERE key = 'pool_config'");
    assert_refused(f, 0, text);
    sql(f, "DELETE FROM meta WHERE key = 'pool_config'");
    assert_refused(f, 0, "has no configuration yet");
}

static void what_is_no_journal_is_said(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    assert_null(journal_open_to_read(test_dir_path(f->t.dir, "none.db", path), &error));
    assert_non_null(strstr(error.text, "cannot open the journal"));
    live(&f->t);
    test_commit(&f->t);
    sql(f, "UPDATE events SET bytes = x'00' WHERE seq = 3");
    journal *j = journal_open_to_read(f->t.path, &error);
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
        TEST(the_ranking_of_a_site_is_replayed), TEST(a_journal_of_another_build_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
