/* Lives of nodes out of the journal's rows: beginnings, ends, what is read when. */
#include "base/mem.h"
#include "server/lives.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HOUR INT64_C(3600000000)

struct fixture {
    char dir[TEST_PATH_BYTES];
    journal *j;
    struct batch b;
    struct lives lives;
    uint64_t next_id;
};

static int set_up(void **state)
{
    static struct fixture f;
    char path[TEST_PATH_BYTES];
    f = (struct fixture){.next_id = 1 << 16};
    test_dir_make(f.dir);
    f.j = journal_open(&(struct journal_options){.path = test_dir_path(f.dir, "journal.db", path)},
                       NULL);
    batch_init(&f.b);
    lives_init(&f.lives);
    *state = &f;
    return f.j == NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    lives_free(&f->lives);
    batch_free(&f->b);
    journal_close(f->j);
    test_dir_remove(f->dir);
    return 0;
}

static void entry(struct fixture *f, uint64_t node, int64_t from_h, int64_t to_h)
{
    struct ledger_entry *row = array_push(&f->b.entries);
    *row = (struct ledger_entry){.id = f->next_id++,
                                 .node_key = node,
                                 .offer_id = 3,
                                 .from_us = from_h * HOUR,
                                 .to_us = to_h * HOUR,
                                 .kind = ENTRY_JOB};
}

static void decision(struct fixture *f, uint64_t node, uint32_t kind, uint32_t reason, int64_t at_h)
{
    struct batch_decision *row = array_push(&f->b.decisions);
    row->t_us = at_h * HOUR;
    row->decision = (struct pool_decision){.id = f->next_id++,
                                           .kind = kind,
                                           .reason = reason,
                                           .node_key = node,
                                           .offer_id = 3,
                                           .a = HOUR / 2};
}

static void refresh(struct fixture *f)
{
    struct error error = {""};
    assert_true(journal_commit(f->j, &f->b, NULL));
    batch_clear(&f->b);
    if (!lives_refresh(&f->lives, f->j, &error)) fail_msg("%s", error.text);
}

static void ends_are_told_apart(void **state)
{
    struct fixture *f = *state;
    for (uint64_t node = 9; node >= 4; node--) entry(f, node, 10, 11); /* out of order */
    decision(f, 4, DECISION_LOST, REASON_PREEMPTED, 12);
    decision(f, 5, DECISION_DRAIN, REASON_NOTICE, 12); /* in half an hour */
    decision(f, 6, DECISION_LOST, REASON_CRASHED, 12);
    decision(f, 7, DECISION_RELEASE, REASON_IDLE, 12);
    decision(f, 8, DECISION_DRAIN, REASON_PRICE_ABOVE_THRESHOLD, 12);
    decision(f, 2, DECISION_LOST, REASON_PREEMPTED, 12); /* never billed */
    decision(f, 3, DECISION_LOST, REASON_STOCKOUT, 12);  /* never there */
    refresh(f);
    static const uint32_t ends[] = {LIFE_TAKEN, LIFE_NOTICED, LIFE_FAILED, LIFE_GOES_ON,
                                    LIFE_GOES_ON};
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(lives_find(&f->lives, 4 + i)->end, ends[i]);
    assert_int_equal(lives_find(&f->lives, 5)->ended_us, 12 * HOUR + HOUR / 2);
    assert_null(lives_find(&f->lives, 3));
    struct survival_seen seen = {0};
    life_see(lives_find(&f->lives, 2), 0, &seen);
    assert_int_equal(seen.lives, 0);
    life_see(lives_find(&f->lives, 4), 0, &seen);         /* 2 h, lost */
    life_see(lives_find(&f->lives, 7), 0, &seen);         /* 1 h, let go */
    life_see(lives_find(&f->lives, 9), 14 * HOUR, &seen); /* 4 h, runs */
    double hours = 0;
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++) hours += seen.hours[i];
    assert_true(hours > 6.999 && hours < 7.001);
    assert_int_equal(seen.losses, 1);
    assert_int_equal(seen.lives, 3);
}

static void later_rows_go_on_where_reading_stopped(void **state)
{
    struct fixture *f = *state;
    entry(f, 4, 10, 11);
    refresh(f);
    refresh(f); /* nothing new */
    assert_int_equal(lives_find(&f->lives, 4)->to_us, 11 * HOUR);
    entry(f, 4, 11, 13);
    decision(f, 4, DECISION_LOST, REASON_PREEMPTED_NOTICED, 13);
    refresh(f);
    assert_int_equal(f->lives.all.count, 1);
    assert_int_equal(lives_find(&f->lives, 4)->from_us, 10 * HOUR);
    assert_int_equal(lives_find(&f->lives, 4)->to_us, 13 * HOUR);
    assert_int_equal(lives_find(&f->lives, 4)->end, LIFE_NOTICED);
}

static void without_memory_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    struct error error = {""};
    for (uint64_t node = 1; node <= 100; node++) entry(f, node, 10, 11);
    assert_true(journal_commit(f->j, &f->b, NULL));
    batch_clear(&f->b);
    mem_fail_at(1);
    assert_false(lives_refresh(&f->lives, f->j, &error));
    mem_fail_at(0);
    assert_string_equal(error.text, "out of memory for the lives of nodes");
    refresh(f);
    assert_int_equal(f->lives.all.count, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(later_rows_go_on_where_reading_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_lost, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
