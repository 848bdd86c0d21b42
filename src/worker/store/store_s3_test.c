/* What store.h promises, of a bucket on a real server. Run by tests/e2e/s3.py, which starts one,
 * puts a proxy before it that checks signatures and plants faults, and sets AWS_ENDPOINT_URL.
 *
 *     store_s3_test s3://BUCKET/PREFIX SCENARIO
 *
 * Prints one line and exits 0, or says what was wrong and exits 1.
 */
#include "base/mem.h"
#include "worker/store/store_testing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 2 * STORE_PART_BYTES + 54321, SMALL = 1000 };

static struct error error;

static void need(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "%s: %s\n", what, error.text);
    exit(1);
}

static bool put(struct store *store, const char *name, const uint8_t *bytes, size_t count)
{
    return testing_put(store, name, bytes, count, &error);
}

static void check_holds(struct store *store, const char *name, const uint8_t *bytes, size_t count)
{
    need(testing_holds(store, name, bytes, count, &error), "read");
}

static uint32_t count_objects(struct store *store, const char *prefix, bool unfinished)
{
    uint32_t count = 0;
    need(testing_count(store, prefix, unfinished, &count, &error), "list");
    return count;
}

/* Whole objects of no, few and many bytes; ranges; listing; replacing; removing. */
static void test_objects(struct store *store)
{
    uint8_t *large = testing_pattern(LARGE, 1), *small = testing_pattern(SMALL, 2);
    need(count_objects(store, "", false) == 0, "not empty at first");
    need(put(store, "step-1/large", large, LARGE), "put large");
    need(put(store, "step-1/small", small, SMALL), "put small");
    need(put(store, "step-2/none", small, 0), "put empty");
    check_holds(store, "step-1/large", large, LARGE);
    check_holds(store, "step-1/small", small, SMALL);
    check_holds(store, "step-2/none", small, 0);
    need(count_objects(store, "step-1/", false) == 2, "listing of a folder");
    need(count_objects(store, "", false) == 3, "listing");
    uint64_t bytes;
    uint8_t range[777];
    struct store_reader *reader = store_open_object(store, "step-1/large", &bytes, &error);
    need(reader != NULL && bytes == LARGE, "open");
    need(store_read(reader, STORE_PART_BYTES - 300, range, sizeof range, &error), "range");
    need(memcmp(range, large + STORE_PART_BYTES - 300, sizeof range) == 0, "range differs");
    need(!store_read(reader, LARGE - 1, range, 2, &error), "a range past the end");
    need(put(store, "step-1/large", small, SMALL), "replace");
    need(!store_read(reader, 0, range, sizeof range, &error), "the old object is gone");
    need(strstr(error.text, "written again") != NULL || strstr(error.text, "404") != NULL,
         "says why");
    store_close_object(reader);
    check_holds(store, "step-1/large", small, SMALL);
    need(store_remove(store, "step-1/large", &error), "remove");
    need(store_remove(store, "step-1/large", &error), "remove what is not there");
    need(count_objects(store, "step-1/", false) == 1, "removed");
    need(store_open_object(store, "step-1/large", &bytes, &error) == NULL,
         "open what is not there");
    need(strstr(error.text, "no such object") != NULL, "says what is not there");
    free(large);
    free(small);
}

static void test_unfinished(struct store *store)
{
    uint8_t *large = testing_pattern(LARGE, 3);
    struct store_writer *writer = store_create(store, "step-9/shard", LARGE, &error);
    need(writer != NULL, "create");
    need(store_put_part(writer, 1, large + STORE_PART_BYTES, STORE_PART_BYTES, &error), "part");
    need(count_objects(store, "", false) == 0, "not to be seen before the commit");
    need(count_objects(store, "step-9/", true) == 1, "listed as unfinished");
    store_abort(writer);
    need(count_objects(store, "", true) == 0, "aborted");
    writer = store_create(store, "step-9/shard", LARGE, &error); /* one that dies */
    need(writer != NULL, "create again");
    need(store_discard(store, "step-9/shard", &error), "discard");
    need(count_objects(store, "", true) == 0, "discarded");
    store_abort(writer); /* of what is gone already */
    free(large);
}

static void test_first_wins(struct store *store)
{
    need(store_put_if_absent(store, "m.json", "one", 3, &error) == STORE_PUT_DONE, "first");
    need(store_put_if_absent(store, "m.json", "two", 3, &error) == STORE_PUT_EXISTS, "second");
    check_holds(store, "m.json", (const uint8_t *)"one", 3);
}

/* With faults planted by the proxy: everything works all the same. */
static void test_faults(struct store *store)
{
    for (uint8_t round = 0; round < 4; round++) {
        char name[32], manifest[32];
        snprintf(name, sizeof name, "step-%u/shard", round);
        snprintf(manifest, sizeof manifest, "step-%u/manifest.json", round);
        uint8_t *large = testing_pattern(LARGE, round);
        need(put(store, name, large, LARGE), "put under faults");
        check_holds(store, name, large, LARGE);
        need(store_put_if_absent(store, manifest, name, strlen(name), &error) == STORE_PUT_DONE,
             "manifest under faults");
        check_holds(store, manifest, (const uint8_t *)name, strlen(name));
        free(large);
    }
    need(count_objects(store, "", false) == 8, "all there");
}

static void test_refused(struct store *store)
{
    struct store_listing listing;
    need(!store_list(store, "", &listing, &error), "a listing that should fail");
    need(!put(store, "step-1/small", (const uint8_t *)"x", 1), "a write that should fail");
    printf("%s\n", error.text);
}

/* Each allocation fails once: a sentence, nothing half done, and then it works. */
static void test_memory(struct store *store)
{
    uint8_t *small = testing_pattern(SMALL, 4);
    struct store_listing listing;
    for (uint64_t nth = 1;; nth++) {
        memset(&error, 0, sizeof error);
        uint64_t failures = mem_failures();
        mem_fail_at(nth);
        bool fine = put(store, "memory", small, SMALL) && store_list(store, "", &listing, &error);
        mem_fail_at(0);
        if (fine) store_listing_free(&listing);
        if (mem_failures() == failures) break; /* past the last one */
        need(fine || error.text[0] != '\0', "failed without a sentence");
    }
    check_holds(store, "memory", small, SMALL);
    free(small);
}

static void test_gone(struct store *store)
{
    struct store_listing listing;
    need(!store_list(store, "", &listing, &error), "a listing that should fail");
    printf("%s\n", error.text);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(struct store *store);
    } scenarios[] = {
        {"objects", test_objects}, {"unfinished", test_unfinished}, {"first-wins", test_first_wins},
        {"faults", test_faults},   {"refused", test_refused},       {"memory", test_memory},
        {"gone", test_gone}};
    if (argc != 3) return 2;
    struct store *store = store_open(argv[1], &error);
    if (store == NULL) {
        printf("%s\n", error.text);
        return 1;
    }
    int status = 2;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(argv[2], scenarios[i].name) == 0) {
            scenarios[i].run(store);
            status = 0;
        }
    store_close(store);
    return status;
}
