/* What store.h promises, of a real folder and of the made-up disk: whole or not at all, first
 * writer wins, ranges, listings, and what every failing call and power cut leaves. */
#include "base/mem.h"
#include "worker/store/disk_sim.h"
#include "worker/store/store_backend.h"
#include "worker/store/store_testing.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 2 * STORE_PART_BYTES + 12345 };

static bool put(struct store *store, const char *name, const uint8_t *bytes, size_t count)
{
    return testing_put(store, name, bytes, count, NULL);
}

static void check_holds(struct store *store, const char *name, const uint8_t *bytes, size_t count)
{
    assert_true(testing_holds(store, name, bytes, count, NULL));
}

static uint32_t count_objects(struct store *store, const char *prefix, bool unfinished)
{
    uint32_t count = 0;
    assert_true(testing_count(store, prefix, unfinished, &count, NULL));
    return count;
}

static void keeps_the_contract(struct store *store)
{
    uint8_t *bytes = testing_pattern(BYTES, 1);
    assert_int_equal(count_objects(store, "", false), 0);
    assert_true(put(store, "step-000001/shard-a", bytes, BYTES));
    assert_true(put(store, "step-000001/shard-b", bytes, 17));
    assert_true(put(store, "step-000002/empty", bytes, 0));
    assert_true(put(store, "top", bytes, 4096));
    check_holds(store, "step-000001/shard-a", bytes, BYTES);
    check_holds(store, "step-000001/shard-b", bytes, 17);
    check_holds(store, "step-000002/empty", bytes, 0);
    assert_int_equal(count_objects(store, "", false), 4);
    assert_int_equal(count_objects(store, "step-", false), 3);
    assert_int_equal(count_objects(store, "step-000001/", false), 2);
    assert_int_equal(count_objects(store, "step-000001/shard-b", false), 1);
    assert_int_equal(count_objects(store, "x", false), 0);

    assert_true(put(store, "top", bytes + 1, 10)); /* replaced */
    check_holds(store, "top", bytes + 1, 10);
    assert_int_equal(store_put_if_absent(store, "step-000001/m", "one", 3, NULL), STORE_PUT_DONE);
    assert_int_equal(store_put_if_absent(store, "step-000001/m", "two", 3, NULL), STORE_PUT_EXISTS);
    check_holds(store, "step-000001/m", (const uint8_t *)"one", 3);
    assert_int_equal(count_objects(store, "", true), 0);

    struct store_writer *writer = store_create(store, "step-000003/late", 5, NULL);
    assert_non_null(writer);
    assert_true(store_put_part(writer, 0, "12345", 5, NULL));
    assert_int_equal(count_objects(store, "step-000003/", false), 0); /* not before its commit */
    assert_int_equal(count_objects(store, "step-000003/", true), 1);
    store_abort(writer);
    assert_int_equal(count_objects(store, "", true), 0);

    assert_true(store_remove(store, "top", NULL));
    assert_true(store_remove(store, "top", NULL));
    assert_true(store_remove(store, "step-000002/empty", NULL));
    assert_int_equal(count_objects(store, "", false), 3);
    free(bytes);
}

static void reads_ranges(struct store *store)
{
    static const uint64_t at[][2] = {
        {0, 1},         {4095, 2},  {4096, 4096},         {1, 100000}, {8192, 3 << 20},
        {BYTES - 1, 1}, {BYTES, 0}, {4096, BYTES - 4096}, {0, BYTES}};
    uint8_t *bytes = testing_pattern(BYTES, 7), *into = testing_pattern(BYTES + 8, 0);
    struct error error;
    uint64_t count;
    assert_true(put(store, "r/ranges", bytes, BYTES));
    struct store_reader *reader = store_open_object(store, "r/ranges", &count, &error);
    assert_non_null(reader);
    assert_int_equal(count, BYTES);
    for (size_t shift = 0; shift < 8; shift += 7)
        for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
            assert_true(store_read(reader, at[i][0], into + shift, at[i][1], &error));
            assert_memory_equal(into + shift, bytes + at[i][0], at[i][1]);
        }
    assert_false(store_read(reader, BYTES, into, 1, &error));
    assert_non_null(strstr(error.text, "r/ranges: ends at byte"));
    assert_false(store_read(reader, UINT64_MAX, into, 2, &error));
    store_close_object(reader);
    assert_null(store_open_object(store, "r/none", &count, &error));
    assert_non_null(strstr(error.text, "r/none"));
    assert_true(store_remove(store, "r/ranges", NULL));
    free(bytes);
    free(into);
}

static void a_folder_keeps_the_contract(void **state)
{
    (void)state;
    char path[64], command[80];
    struct error error;
    snprintf(path, sizeof path, "store-test-%ld", (long)getpid());
    snprintf(command, sizeof command, "rm -rf %s", path);
    struct store *store = store_open(path, &error);
    assert_non_null(store);
    reads_ranges(store);
    assert_int_equal(access("store-test-x/r", F_OK), -1);
    keeps_the_contract(store);
    store_close(store);
    assert_int_equal(system(command), 0);
}

static void the_made_up_disk_keeps_it_too(void **state)
{
    (void)state;
    struct disk_sim *sim = disk_sim_new(1);
    struct disk disk = disk_sim_disk(sim);
    struct store *store = store_dir_open("/d/ckpt", &disk, NULL);
    reads_ranges(store);
    keeps_the_contract(store);
    store_close(store);
    disk_sim_free(sim);
}

static void addresses(void **state)
{
    (void)state;
    struct error error;
    struct store *store = store_open("file:///tmp/a//", &error);
    assert_string_equal(store_url(store), "/tmp/a");
    store_close(store);
    assert_null(store_open("ftp://host/x", &error));
    assert_non_null(strstr(error.text, "/path or file:///path"));
    assert_null(store_open("", &error));
    static const char *const bad[] = {"",     ".",    "..",     "a/",  "/a",  "a/b/c",
                                      "../a", "a/..", ".tmp-1", "a b", "a\n", "ä"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(store_name_is_sound(bad[i]));
    assert_true(store_name_is_sound("step-000001/shard-0000-t1w2.safetensors"));
}

static void unreadable_folders_are_told(void **state)
{
    (void)state;
    struct error error;
    struct store_listing listing;
    struct store *store = store_open("/proc/version", &error); /* a file */
    assert_false(store_list(store, "", &listing, &error));
    assert_non_null(strstr(error.text, "/proc/version"));
    assert_null(store_create(store, "a/b", 1, &error));
    assert_non_null(strstr(error.text, "Not a directory"));
    store_close(store);
}

/* An old object and a new one; whatever call fails, the name holds one of them, and all of it. */
static void every_failing_call_leaves_old_or_new(void **state)
{
    (void)state;
    uint8_t *old = testing_pattern(3000, 3), *young = testing_pattern(5000, 4);
    static const int errnos[] = {ENOSPC, EIO, EDQUOT};
    for (int cut = 0; cut < 2; cut++) {
        bool reached = true;
        for (uint64_t nth = 1; reached; nth++)
            for (uint64_t seed = 0; seed < 20; seed++) {
                struct disk_sim *sim = disk_sim_new(seed);
                struct disk disk = disk_sim_disk(sim);
                struct store *store = store_dir_open("/d/ckpt", &disk, NULL);
                assert_true(put(store, "s/x", old, 3000));
                uint64_t before = disk_sim_calls(sim);
                if (cut == 0)
                    disk_sim_fail_at(sim, nth, errnos[seed % 3]);
                else
                    disk_sim_cut_at(sim, nth);
                bool fine = put(store, "s/x", young, 5000);
                bool there = store_put_if_absent(store, "s/m", "m", 1, NULL) == STORE_PUT_DONE;
                reached = disk_sim_calls(sim) - before >= nth;
                if (cut == 1) disk_sim_crash(sim);
                char *got;
                size_t count;
                assert_true(store_read_all(store, "s/x", 9999, &got, &count, NULL));
                assert_true(count == 5000 || (count == 3000 && !fine));
                assert_memory_equal(got, count == 3000 ? old : young, count);
                mem_free(got);
                if (there) check_holds(store, "s/m", (const uint8_t *)"m", 1);
                assert_in_range(count_objects(store, "", true), 0, cut == 0 ? 0 : 2);
                store_close(store);
                disk_sim_free(sim);
            }
    }
    free(old);
    free(young);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_keeps_the_contract),
        cmocka_unit_test(the_made_up_disk_keeps_it_too),
        cmocka_unit_test(addresses),
        cmocka_unit_test(unreadable_folders_are_told),
        cmocka_unit_test(every_failing_call_leaves_old_or_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
