/* The bill to the micro-dollar, and the effects of script events on price and stock. */
#include "driver/local_world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define T0_US INT64_C(1700000000000000)

static const char scenario[] =
    "zones:\n  aurora/east-a: {region: east}\n  aurora/east-b: {region: east}\n"
    "offers:\n"
    "  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1.10, spot: 0.4, stock: 4}\n"
    "  - {zone: aurora/east-a, model: H100, kind: on_demand, on_demand: 4.50, stock: 4}\n"
    "  - {zone: aurora/east-b, model: A10, kind: spot, on_demand: 1.10, spot: 0.4, stock: 4}\n"
    "  - {zone: aurora/east-b, model: H100, kind: on_demand, on_demand: 4.50, billing: 1h}\n"
    "  - {zone: aurora/east-b, model: A30, kind: spot, on_demand: 2, spot: 0.7, billing: 7s}\n"
    "prices: {every: 1s}\n"
    "events:\n"
    "  - {at: 10s, price: {zone: aurora/east-a, share: 0.9, for: 5s}}\n"
    "  - {at: 10s, stock: {zone: aurora/east-b, count: 1, for: 5s}}\n";

struct fixture {
    char dir[64], file[96];
    struct local_world world;
};

static void open_world(struct fixture *f, int64_t now_us)
{
    bool is_other;
    struct error error;
    if (!local_world_open(&f->world, f->file, f->dir, now_us, &is_other, &error))
        fail_msg("%s", error.text);
    assert_false(is_other);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/shoal-world-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->file, sizeof f->file, "%s/s.yaml", f->dir);
    FILE *file = fopen(f->file, "w");
    assert_non_null(file);
    fputs(scenario, file);
    fclose(file);
    open_world(f, T0_US);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char path[128];
    local_world_close(&f->world);
    (void)unlink(f->file);
    (void)snprintf(path, sizeof path, "%s/world.json", f->dir);
    (void)unlink(path);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static struct local_node node_of(uint32_t offer_index, int64_t up_us)
{
    return (struct local_node){
        .key = 1, .offer_index = offer_index, .up_us = up_us, .billed_to_us = up_us};
}

/* price x microseconds summed in 128 bits, rounded down once: the definition of the bill. */
static int64_t bill_by_definition(struct local_world *world, uint32_t offer_index, int64_t from_us,
                                  int64_t to_us)
{
    __extension__ unsigned __int128 sum = 0;
    for (int64_t at_us = from_us; at_us < to_us;) {
        int64_t tick = (at_us - T0_US) / 1000000;
        int64_t end_us = T0_US + (tick + 1) * 1000000;
        if (end_us > to_us) end_us = to_us;
        sum += (uint64_t)local_world_price(world, offer_index, tick) * (uint64_t)(end_us - at_us);
        at_us = end_us;
    }
    return (int64_t)(uint64_t)(sum / 3600000000u);
}

static void test_bill_is_exact_however_often_it_is_read(void **state)
{
    struct fixture *f = *state;
    const int64_t up_us = T0_US + 1234567, gone_us = T0_US + INT64_C(7200000000) + 891;
    for (uint32_t offer = 0; offer < 3; offer++) {
        struct local_node once = node_of(offer, up_us), often = node_of(offer, up_us);
        local_world_bill(&f->world, &once, gone_us);
        int64_t last = 0;
        for (int64_t at_us = up_us; at_us < gone_us; at_us += 777777) {
            local_world_bill(&f->world, &often, at_us);
            assert_true(often.billed_usd_micros >= last);
            last = often.billed_usd_micros;
        }
        local_world_bill(&f->world, &often, gone_us);
        assert_true(once.billed_usd_micros == often.billed_usd_micros);
        assert_true(once.billed_usd_micros == bill_by_definition(&f->world, offer, up_us, gone_us));
    }
}

static void test_constant_price_for_one_hour(void **state)
{
    struct fixture *f = *state;
    struct local_node node = node_of(1, T0_US + 5);
    local_world_bill(&f->world, &node, T0_US + 5 + INT64_C(3600000000));
    assert_int_equal(node.billed_usd_micros, 4500000);
    local_world_bill(&f->world, &node, T0_US); /* a clock set back takes nothing back */
    assert_int_equal(node.billed_usd_micros, 4500000);
}

/* Begun hours are owed whole; units in between ticks, as the sum of their own prices. */
static void test_whole_units_are_billed(void **state)
{
    struct fixture *f = *state;
    const int64_t hour_us = INT64_C(3600000000), up_us = T0_US + 5;
    struct local_node hourly = node_of(3, up_us);
    local_world_bill(&f->world, &hourly, up_us);
    assert_int_equal(hourly.billed_usd_micros, 0);
    local_world_bill(&f->world, &hourly, up_us + 1);
    assert_int_equal(hourly.billed_usd_micros, 4500000);
    local_world_bill(&f->world, &hourly, up_us + hour_us);
    assert_int_equal(hourly.billed_usd_micros, 4500000);
    local_world_bill(&f->world, &hourly, up_us + hour_us + 1);
    assert_int_equal(hourly.billed_usd_micros, 9000000);

    struct local_node once = node_of(4, up_us), often = node_of(4, up_us);
    int64_t owed = 0;
    for (int64_t second = 0; second < 700; second += 7)
        owed += local_world_price(&f->world, 4, second) * 7;
    for (int64_t at_us = up_us; at_us < up_us + 700000000; at_us += 777777)
        local_world_bill(&f->world, &often, at_us);
    local_world_bill(&f->world, &once, up_us + 700000000);
    assert_true(once.billed_usd_micros == owed / 3600);
    assert_true(often.billed_usd_micros == once.billed_usd_micros);
}

static void test_script_changes_price_and_stock_for_a_while(void **state)
{
    struct fixture *f = *state;
    struct local_world *w = &f->world;
    assert_false(local_world_is_due(w, 0, T0_US + 100000000)); /* no node came up yet */
    w->first_up_us = T0_US + 2000000;
    assert_false(local_world_is_due(w, 0, T0_US + 11999999));
    assert_true(local_world_is_due(w, 0, T0_US + 12000000));
    int64_t before = local_world_price(w, 0, 12);
    w->fired_us[0] = w->fired_us[1] = T0_US + 12300000;
    assert_false(local_world_is_due(w, 0, T0_US + 13000000));
    assert_int_equal(local_world_price(w, 0, 12), before); /* a tick that began keeps its price */
    assert_int_equal(local_world_price(w, 0, 13), 990000);
    assert_int_equal(local_world_price(w, 0, 17), 990000);
    assert_int_not_equal(local_world_price(w, 0, 18), 990000);
    assert_int_not_equal(local_world_price(w, 2, 13), 990000); /* another zone */
    assert_int_equal(local_world_price(w, 1, 13), 4500000);    /* guaranteed capacity */
    assert_int_equal(local_world_capacity(w, 2, T0_US + 12299999), 4);
    assert_int_equal(local_world_capacity(w, 2, T0_US + 12300000), 1);
    assert_int_equal(local_world_capacity(w, 0, T0_US + 12300000), 4);
    assert_int_equal(local_world_capacity(w, 2, T0_US + 17300000), 4);
}

static void test_world_is_found_again(void **state)
{
    struct fixture *f = *state;
    f->world.first_up_us = T0_US + 7;
    f->world.fired_us[1] = T0_US + 9;
    int64_t price = local_world_price(&f->world, 0, 500);
    struct error error;
    assert_true(local_world_write(&f->world, &error));
    local_world_close(&f->world);
    open_world(f, T0_US + 1000000000);
    assert_true(f->world.t0_us == T0_US);
    assert_true(f->world.first_up_us == T0_US + 7);
    assert_true(f->world.fired_us[1] == T0_US + 9);
    assert_true(local_world_price(&f->world, 0, 500) == price);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(bill_is_exact_however_often_it_is_read),
        TEST(constant_price_for_one_hour),
        TEST(whole_units_are_billed),
        TEST(script_changes_price_and_stock_for_a_while),
        TEST(world_is_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
