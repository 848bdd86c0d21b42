/* Each call can be made to fail, once; sizes that overflow or are 0 are answered safely. */
#include "base/mem.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *call_alloc(void)
{
    return mem_alloc(8);
}

static void *call_zalloc(void)
{
    return mem_zalloc(2, 4);
}

static void *call_realloc(void)
{
    return mem_realloc(NULL, 8);
}

static void *call_strdup(void)
{
    return mem_strdup("text");
}

static void *call_printf(void)
{
    return mem_printf("%d", 7);
}

static void test_each_call_fails_once(void **state)
{
    (void)state;
    void *(*const calls[])(void) = {call_alloc, call_zalloc, call_realloc, call_strdup,
                                    call_printf};
    enum { CALLS = sizeof calls / sizeof calls[0] };
    for (size_t failing = 1; failing <= CALLS; failing++) {
        mem_fail_at(failing);
        for (size_t i = 1; i <= 2 * CALLS; i++) {
            void *block = calls[(i - 1) % CALLS]();
            if (i == failing)
                assert_null(block);
            else
                assert_non_null(block);
            mem_free(block);
        }
    }
}

static void test_switched_off(void **state)
{
    (void)state;
    mem_fail_at(1);
    mem_fail_at(0);
    void *block = mem_alloc(1);
    assert_non_null(block);
    mem_free(block);
}

static void test_counts_allocations_only(void **state)
{
    (void)state;
    uint64_t before = mem_calls();
    char *text = mem_printf("%s-%d", "a", 1);
    assert_string_equal(text, "a-1");
    assert_int_equal(mem_calls() - before, 1);
    mem_free(text);
    mem_free(NULL);
    assert_int_equal(mem_calls() - before, 1);
}

/* A failed realloc leaves the block as it was: callers go on owning it. */
static void test_failed_realloc_keeps_the_block(void **state)
{
    (void)state;
    char *text = mem_strdup("kept");
    assert_non_null(text);
    mem_fail_at(1);
    assert_null(mem_realloc(text, 100));
    assert_string_equal(text, "kept");
    text = mem_realloc(text, 100);
    assert_string_equal(text, "kept");
    mem_free(text);
}

static void test_sure_allocations_count_the_failure_only(void **state)
{
    (void)state;
    uint64_t before = mem_failures();
    mem_fail_at(1);
    void *block = mem_alloc_sure(8);
    assert_non_null(block);
    mem_free(block);
    assert_int_equal(mem_failures() - before, 1);
}

static void test_zeroed(void **state)
{
    (void)state;
    unsigned char *block = mem_zalloc(100, 3);
    assert_non_null(block);
    for (size_t i = 0; i < 300; i++) assert_int_equal(block[i], 0);
    mem_free(block);
}

static void test_odd_sizes(void **state)
{
    (void)state;
    void *blocks[] = {mem_alloc(0), mem_zalloc(0, 0), mem_zalloc(0, 8), mem_zalloc(8, 0)};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        assert_non_null(blocks[i]);
        mem_free(blocks[i]);
    }
    volatile size_t huge = SIZE_MAX; /* volatile: the compiler would refuse the constant */
    assert_null(mem_zalloc(huge, 2));
    assert_null(mem_zalloc(huge / 2 + 1, 2));
}

enum { THREADS = 4, ROUNDS = 1000 };

static void *allocate_often(void *failures)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *block = mem_alloc(1);
        *(int *)failures += block == NULL;
        mem_free(block);
    }
    return NULL;
}

static void test_one_failure_over_all_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int failures[THREADS] = {0}, sum = 0;
    uint64_t before = mem_calls();
    mem_fail_at(THREADS * ROUNDS / 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, &failures[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        sum += failures[i];
    }
    assert_int_equal(sum, 1);
    assert_int_equal(mem_calls() - before, THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails_once),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_counts_allocations_only),
        cmocka_unit_test(test_failed_realloc_keeps_the_block),
        cmocka_unit_test(test_sure_allocations_count_the_failure_only),
        cmocka_unit_test(test_zeroed),
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_one_failure_over_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
