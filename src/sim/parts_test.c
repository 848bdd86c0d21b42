/* The parts under the worlds: streams, queue, map, journal, options. Whether the checkers find
 * faults is shown by the planted bugs (docs/simulation.md). */
#include "base/mem.h"
#include "sim/world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_streams_are_independent_and_repeat(void **state)
{
    (void)state;
    struct sim_random a = sim_random_fork(7, 1), b = sim_random_fork(7, 2);
    struct sim_random again = sim_random_fork(7, 1);
    for (int i = 0; i < 100; i++) {
        uint64_t value = sim_random_next(&a);
        assert_true(value == sim_random_next(&again));
        assert_true(value != sim_random_next(&b));
    }
}

static void test_range_is_inclusive(void **state)
{
    (void)state;
    struct sim_random random = sim_random_fork(1, 1);
    bool seen[5] = {false};
    for (int i = 0; i < 1000; i++) {
        int64_t value = sim_random_range(&random, -2, 2);
        assert_in_range(value + 2, 0, 4);
        seen[value + 2] = true;
    }
    for (int i = 0; i < 5; i++) assert_true(seen[i]);
}

static void test_exponential_has_its_mean(void **state)
{
    (void)state;
    struct sim_random random = sim_random_fork(3, 1);
    const int64_t mean_us = 600 * SIM_SECOND_US;
    int64_t sum = 0;
    for (int i = 0; i < 20000; i++) sum += sim_random_exponential_us(&random, mean_us) / 1000;
    int64_t mean_ms = sum / 20000;
    assert_in_range(mean_ms, 600000 * 94 / 100, 600000 * 106 / 100);
}

static void test_chance_zero_draws_nothing(void **state)
{
    (void)state;
    struct sim_random random = sim_random_fork(3, 1), untouched = random;
    assert_false(sim_random_chance(&random, 0));
    assert_true(random.state == untouched.state);
}

static void test_queue_orders_by_time_then_insertion(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    struct sim_occurrence items[COUNT], o;
    struct sim_queue queue;
    struct sim_random random = sim_random_fork(9, 9);
    sim_queue_init(&queue, items, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        o = (struct sim_occurrence){.at_us = sim_random_range(&random, 0, 20), .value = i};
        assert_true(sim_queue_push(&queue, o));
    }
    assert_false(sim_queue_push(&queue, (struct sim_occurrence){0})); /* full */
    struct sim_occurrence last = {.at_us = -1};
    for (int i = 0; i < COUNT; i++) {
        assert_true(sim_queue_pop(&queue, &o));
        assert_true(o.at_us > last.at_us || (o.at_us == last.at_us && o.value > last.value));
        last = o;
    }
    assert_false(sim_queue_pop(&queue, &o));
}

static void test_map_finds_what_was_put(void **state)
{
    (void)state;
    struct sim_map_slot slots[256] = {0};
    struct sim_map map;
    sim_map_init(&map, slots, 256);
    for (uint32_t i = 1; i <= 100; i++) sim_map_put(&map, (UINT64_C(7) << 40) + i, i);
    for (uint32_t i = 1; i <= 100; i++)
        assert_int_equal(sim_map_find(&map, (UINT64_C(7) << 40) + i), i);
    assert_int_equal(sim_map_find(&map, 5), SIM_MAP_NONE);
    assert_int_equal(sim_map_find(&map, 0), SIM_MAP_NONE);
}

/* Whatever is torn: every committed record reads back, and nothing after the tear does. */
static void test_a_torn_tail_spares_what_was_committed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct sim_server server = {0};
        struct sim_random random = sim_random_fork(seed, 1);
        struct pool_event event = {.kind = POOL_EVENT_TICK, .version = POOL_CORE_VERSION};
        for (event.seq = 1; event.seq <= 8; event.seq++) {
            assert_true(sim_journal_append(&server, &event));
            if (event.seq == 5) server.journal_durable_bytes = server.journal_bytes;
        }
        sim_journal_tear(&server, &random, /* torn */ true);
        size_t offset = 0;
        uint64_t count = 0;
        while (sim_journal_read(&server, &offset, &event)) assert_true(event.seq == ++count);
        assert_in_range(count, 5, 7);
        mem_free(server.journal);
    }
}

static void test_about_half_of_the_knobs_are_off(void **state)
{
    (void)state;
    uint32_t on = 0, all = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct sim_options options = sim_options_swarm(seed);
#define X(name, what)                                                                              \
    on += options.name != 0;                                                                       \
    all++;
        SIM_KNOBS(X)
#undef X
    }
    assert_in_range(on * 100 / all, 45, 55);
}

static void test_usage_errors_exit_with_2(void **state)
{
    (void)state;
    char *bad[][4] = {{"sim", "--seeds", "9..1", NULL},
                      {"sim", "--seeds", "x", NULL},
                      {"sim", "--nonsense", NULL, NULL},
                      {"sim", "--seed", NULL, NULL},
                      {"sim", "--set", "no_such_knob=1", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int argc = 0;
        while (bad[i][argc] != NULL) argc++;
        assert_int_equal(sim_main(argc, bad[i]), 2);
    }
}

/* Memory may run out at any allocation: the run says so, nothing leaks and nothing crashes. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct sim_options options = sim_options_swarm(1);
    options.safety_us = SIM_MINUTE_US;
    for (uint64_t nth = 1; nth <= 16; nth++) {
        struct sim_summary summary;
        mem_fail_at(nth);
        bool ran = sim_run(1, &options, /* trace */ NULL, &summary);
        mem_fail_at(0);
        if (ran && summary.failed) assert_string_equal(summary.checker, "memory");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_are_independent_and_repeat),
        cmocka_unit_test(test_range_is_inclusive),
        cmocka_unit_test(test_exponential_has_its_mean),
        cmocka_unit_test(test_chance_zero_draws_nothing),
        cmocka_unit_test(test_queue_orders_by_time_then_insertion),
        cmocka_unit_test(test_map_finds_what_was_put),
        cmocka_unit_test(test_a_torn_tail_spares_what_was_committed),
        cmocka_unit_test(test_about_half_of_the_knobs_are_off),
        cmocka_unit_test(test_usage_errors_exit_with_2),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
