/* The cheapest mix against the table and against an exhaustive table over random types. */
#include "core/ncu_mix.h"
#include "core/testing.h"

enum { H100, A100_80, A100_40, A10, T4, TABLE_COUNT };

static const struct ncu_type table[TABLE_COUNT] = {
    [H100] = {2500, UINT32_MAX, 4500000},    [A100_80] = {1600, UINT32_MAX, 3200000},
    [A100_40] = {1000, UINT32_MAX, 2800000}, [A10] = {400, UINT32_MAX, 1100000},
    [T4] = {200, UINT32_MAX, 600000},
};

static void ten_and_eleven_ncu(void **state)
{
    struct ncu_mix mix, single;
    (void)state;
    assert_true(ncu_mix_cheapest(table, TABLE_COUNT, 10000, &mix));
    assert_int_equal(mix.usd_micros_per_hour, 18000000);
    assert_int_equal(mix.counts[H100], 4);
    assert_int_equal(mix.ncu_milli, 10000);
    assert_true(mix.is_proven);
    assert_true(ncu_mix_cheapest(table, TABLE_COUNT, 11000, &mix));
    assert_int_equal(mix.usd_micros_per_hour, 20800000);
    assert_int_equal(mix.counts[H100], 4);
    assert_int_equal(mix.counts[A100_40], 1);
    assert_true(ncu_mix_single(table, TABLE_COUNT, 11000, &single));
    /* 7 of A100-80GB; 5 of H100 would be $22.50. */
    assert_int_equal(single.usd_micros_per_hour, 22400000);
    assert_int_equal(single.counts[A100_80], 7);
}

/* least[n]: the least cost of exactly-or-more n units of 100 milli, counts up to the stock. */
static int64_t oracle(const struct ncu_type *types, uint32_t count, uint32_t wanted_milli,
                      uint32_t step_milli)
{
    enum { CELLS = 4096 };
    static int64_t least[CELLS + 1];
    uint32_t wanted = (wanted_milli + step_milli - 1) / step_milli;
    assert_true(wanted <= CELLS);
    for (uint32_t n = 0; n <= wanted; n++) least[n] = n == 0 ? 0 : INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = types[i].ncu_milli / step_milli;
        uint32_t stock = types[i].stock;
        if (stock > wanted / size + 1) stock = wanted / size + 1;
        for (uint32_t piece = 0; piece < stock; piece++) { /* one at a time, from the top */
            for (uint32_t n = wanted; n > 0; n--) {
                int64_t before = least[n > size ? n - size : 0];
                if (before != INT64_MAX && before + types[i].usd_micros_per_hour < least[n])
                    least[n] = before + types[i].usd_micros_per_hour;
            }
        }
    }
    return wanted == 0 ? 0 : least[wanted];
}

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (*random >> 33) % below;
}

static void check(const struct ncu_type *types, uint32_t count, uint32_t wanted_milli,
                  uint32_t step_milli)
{
    struct ncu_mix mix;
    int64_t best = oracle(types, count, wanted_milli, step_milli);
    bool found = ncu_mix_cheapest(types, count, wanted_milli, &mix);
    assert_int_equal(found, best != INT64_MAX);
    if (!found) {
        assert_true(mix.ncu_milli < wanted_milli);
        return;
    }
    assert_true(mix.is_proven);
    assert_int_equal(mix.usd_micros_per_hour, best);
    int64_t cost = 0;
    uint64_t ncu_milli = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(mix.counts[i] <= types[i].stock);
        cost += mix.counts[i] * types[i].usd_micros_per_hour;
        ncu_milli += (uint64_t)mix.counts[i] * types[i].ncu_milli;
    }
    assert_int_equal(cost, best);
    assert_int_equal(ncu_milli, mix.ncu_milli);
    assert_true(ncu_milli >= wanted_milli);
}

static void random_types_come_out_as_the_exhaustive_table_says(void **state)
{
    uint64_t random = 7;
    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        struct ncu_type types[12];
        uint32_t count = 1 + (uint32_t)draw(&random, 8), step = draw(&random, 2) == 0 ? 100 : 7;
        for (uint32_t i = 0; i < count; i++)
            types[i] = (struct ncu_type){
                .ncu_milli = step * (1 + (uint32_t)draw(&random, 40)),
                .stock = draw(&random, 2) == 0 ? UINT32_MAX : (uint32_t)draw(&random, 6),
                .usd_micros_per_hour = (int64_t)(1 + draw(&random, 900)) * 10000};
        check(types, count, step * (uint32_t)draw(&random, 400), step);
    }
}

/* Prices near the price per NCU of all others: the hard ones. */
static void types_of_nearly_the_same_price_per_ncu(void **state)
{
    uint64_t random = 11;
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct ncu_type types[12];
        for (uint32_t i = 0; i < 12; i++) {
            uint32_t ncu_milli = 100 * (1 + (uint32_t)draw(&random, 30));
            types[i] = (struct ncu_type){.ncu_milli = ncu_milli,
                                         .stock = UINT32_MAX,
                                         .usd_micros_per_hour = (int64_t)ncu_milli / 100 * 200000 +
                                                                (int64_t)draw(&random, 5) * 10000};
        }
        check(types, 12, 100 * (uint32_t)draw(&random, 600), 100);
    }
}

static void the_edges(void **state)
{
    struct ncu_mix mix;
    (void)state;
    assert_true(ncu_mix_cheapest(table, TABLE_COUNT, 0, &mix));
    assert_int_equal(mix.usd_micros_per_hour, 0);
    assert_false(ncu_mix_cheapest(table, 0, 1, &mix));
    struct ncu_type few = {.ncu_milli = 400, .stock = 2, .usd_micros_per_hour = 1};
    assert_false(ncu_mix_cheapest(&few, 1, 801, &mix));
    assert_int_equal(mix.ncu_milli, 800); /* what there is */
    assert_true(ncu_mix_cheapest(table, TABLE_COUNT, NCU_WANTED_MAX, &mix));
    assert_true(mix.is_proven);
    assert_int_equal(mix.usd_micros_per_hour, INT64_C(180000) * 1000000);
    struct ncu_type owned = {.ncu_milli = 400, .stock = UINT32_MAX, .usd_micros_per_hour = 0};
    assert_true(ncu_mix_cheapest(&owned, 1, 1000, &mix)); /* free of charge */
    assert_int_equal(mix.counts[0], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_and_eleven_ncu),
        cmocka_unit_test(random_types_come_out_as_the_exhaustive_table_says),
        cmocka_unit_test(types_of_nearly_the_same_price_per_ncu),
        cmocka_unit_test(the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
