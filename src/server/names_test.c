/* Numbers of names: given once, kept over a restart, unharmed by failed commits and by memory that
 * runs out. */
#include "base/mem.h"
#include "server/names.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint32_t id_of(names *n, uint32_t kind, const char *name)
{
    uint32_t id = 999;
    assert_true(names_id(n, kind, name, &id));
    return id;
}

static void numbers_begin_where_the_kind_says(void **state)
{
    (void)state;
    names *n = names_open();
    assert_int_equal(id_of(n, ID_TENANT, "lab"), 1);
    assert_int_equal(id_of(n, ID_TENANT, "ops"), 2);
    assert_int_equal(id_of(n, ID_TENANT, "lab"), 1);
    assert_int_equal(id_of(n, ID_TEAM, "lab"), 1); /* another kind counts by itself */
    assert_int_equal(id_of(n, ID_POOL, "tier-1"), 0);
    assert_int_equal(id_of(n, ID_POOL, "tier-2"), 1);
    assert_string_equal(names_text(n, ID_TENANT, 2), "ops");
    assert_string_equal(names_text(n, ID_TENANT, 0), "");
    assert_string_equal(names_text(n, ID_TENANT, 77), "");
    assert_string_equal(names_text(n, ID_POOL, 0), "tier-1");
    names_close(n);
}

static void bits_run_out(void **state)
{
    (void)state;
    names *n = names_open();
    char name[16];
    uint32_t id;
    for (int i = 0; i < NAMES_BITS_MAX; i++) {
        (void)snprintf(name, sizeof name, "pool-%d", i);
        assert_int_equal(id_of(n, ID_POOL, name), i);
    }
    assert_false(names_id(n, ID_POOL, "one-more", &id));
    assert_int_equal(id_of(n, ID_POOL, "pool-7"), 7);
    names_close(n);
}

static void many_names_keep_their_numbers(void **state)
{
    (void)state;
    names *n = names_open();
    char name[24];
    for (uint32_t i = 1; i <= 5000; i++) {
        (void)snprintf(name, sizeof name, "experiment-%u", i);
        assert_int_equal(id_of(n, ID_EXPERIMENT, name), i);
    }
    assert_int_equal(id_of(n, ID_EXPERIMENT, "experiment-1234"), 1234);
    names_close(n);
}

/* A commit that fails must not lose the name: it goes with the next one. */
static void unstored_names_go_with_the_next_commit(void **state)
{
    (void)state;
    struct batch b;
    names *n = names_open();
    batch_init(&b);
    (void)id_of(n, ID_ZONE, "a");
    assert_true(names_collect(n, &b));
    assert_int_equal(b.names.count, 1);
    (void)id_of(n, ID_ZONE, "b"); /* while the commit runs */
    batch_clear(&b);              /* it failed */
    assert_true(names_collect(n, &b));
    assert_int_equal(b.names.count, 2);
    names_stored(n, &b);
    batch_clear(&b);
    assert_true(names_collect(n, &b));
    assert_int_equal(b.names.count, 0);
    batch_free(&b);
    names_close(n);
}

static void numbers_survive_a_restart(void **state)
{
    (void)state;
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    struct batch b;
    test_dir_make(dir);
    const struct journal_options options = {.path = test_dir_path(dir, "journal.db", path)};
    for (int round = 0; round < 3; round++) {
        char name[16];
        names *n = names_open();
        journal *j = journal_open(&options, NULL);
        assert_non_null(j);
        assert_true(names_load(n, j, NULL));
        for (int i = 0; i <= round; i++) {
            (void)snprintf(name, sizeof name, "zone-%d", i);
            assert_int_equal(id_of(n, ID_ZONE, name), i + 1);
        }
        batch_init(&b);
        assert_true(names_collect(n, &b));
        assert_int_equal(b.names.count, 1);
        assert_true(journal_commit(j, &b, NULL));
        batch_free(&b);
        journal_close(j);
        names_close(n);
    }
    test_dir_remove(dir);
}

static void a_failed_allocation_leaves_the_table_as_it_was(void **state)
{
    (void)state;
    uint32_t failures = 0;
    for (uint64_t nth = 1; nth <= 12; nth++) {
        uint32_t id = 0;
        names *n = names_open();
        (void)id_of(n, ID_TEAM, "first");
        mem_fail_at(nth);
        bool added = names_id(n, ID_ZONE, "second", &id);
        mem_fail_at(0);
        if (!added) failures++;
        assert_int_equal(id_of(n, ID_ZONE, "second"), 1);
        assert_int_equal(id_of(n, ID_TEAM, "first"), 1);
        assert_int_equal(id_of(n, ID_TEAM, "third"), 2);
        names_close(n);
    }
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_begin_where_the_kind_says),
        cmocka_unit_test(bits_run_out),
        cmocka_unit_test(many_names_keep_their_numbers),
        cmocka_unit_test(unstored_names_go_with_the_next_commit),
        cmocka_unit_test(numbers_survive_a_restart),
        cmocka_unit_test(a_failed_allocation_leaves_the_table_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
