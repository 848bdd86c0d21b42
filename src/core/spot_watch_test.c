/* Which spot offers are watched when the market has more of them than places. */
#include "core/spot_watch.h"
#include "core/testing.h"

#define HOURS_US INT64_C(3600000000)
enum {
    SMALL,
    LARGE,
    HERE = 1,
    THERE,
    JOB_GIB = 40, /* LARGE has so much, SMALL has not */
    CROWD = SPOT_ZONES_MAX,
    ON_DEMAND_ID = 1000,
    ON_DEMAND_SLOT = 0,
};

static void open_market(struct bench *b, uint32_t crowd_model)
{
    *b = (struct bench){.now_us = 0};
    pool_config_default(&b->config);
    b->config.limits = (struct pool_limits){.nodes_max = 64,
                                            .jobs_max = 8,
                                            .offers_max = 80,
                                            .models_max = 2,
                                            .pools_max = 2,
                                            .leases_max = 64,
                                            .terms_max = 8};
    size_t bytes = pool_size(&b->config.limits);
    b->memory = malloc(bytes);
    assert_non_null(b->memory);
    b->p = pool_init(b->memory, bytes, &b->config);
    bench_model(b, SMALL, 1000, JOB_GIB / 4, 1);
    bench_model(b, LARGE, 1000, JOB_GIB, 1);
    for (uint32_t i = 0; i <= CROWD; i++)
        bench_offer(b, (struct test_offer){.id = i == 0 ? ON_DEMAND_ID : i,
                                           .region = HERE,
                                           .model = i == 0 ? LARGE : crowd_model,
                                           .capacity = i == 0 ? CAPACITY_ON_DEMAND : CAPACITY_SPOT,
                                           .devices = 1,
                                           .stock = 4,
                                           .price = i == 0 ? 3 * USD : USD,
                                           .on_demand = 3 * USD});
}

/* Its slot. */
static uint32_t one_more(struct bench *b, uint64_t id, uint32_t region, int64_t price)
{
    bench_offer(b, (struct test_offer){.id = id,
                                       .region = region,
                                       .model = LARGE,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 4,
                                       .price = price,
                                       .on_demand = 3 * USD});
    return b->p->offers_end - 1;
}

static void submit(struct bench *b, uint64_t job_id, uint32_t region)
{
    bench_terms(b, job_id, (struct job_terms){.run_us = 4 * HOURS_US, .deadline_us = 40 * HOURS_US});
    bench_submit(b, (struct test_job){.id = job_id,
                                      .min = 1,
                                      .max = 1,
                                      .region = region,
                                      .vram_gib = JOB_GIB,
                                      .job_class = JOB_CLASS_P2,
                                      .terms_id = job_id});
}

static void pass(struct bench *b, int64_t duration_us)
{
    for (int64_t end_us = b->now_us + duration_us; b->now_us < end_us;) {
        b->now_us += SPOT_TICK_US;
        bench_tick(b);
    }
}

static bool is_watched(const struct bench *b, uint32_t slot)
{
    return spot_watch_zone(b->p, slot) != SLOT_NONE;
}

static uint32_t watched(const struct bench *b)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < b->p->offers_end; slot++) count += is_watched(b, slot);
    return count;
}

static void what_a_job_with_a_deadline_can_use_is_watched(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, SMALL);
    uint32_t first = one_more(&b, 101, HERE, USD), second = one_more(&b, 102, HERE, USD);
    pass(&b, HOURS_US);
    assert_false(is_watched(&b, first)); /* nobody could use them, and the places are taken */
    assert_false(is_watched(&b, second));
    submit(&b, 1, HERE);
    assert_true(is_watched(&b, first));
    assert_true(is_watched(&b, second));
    assert_false(is_watched(&b, ON_DEMAND_SLOT));
    assert_int_equal(watched(&b), SPOT_ZONES_MAX);
    uint32_t zones = UINT32_C(1) << spot_watch_zone(b.p, first) |
                     UINT32_C(1) << spot_watch_zone(b.p, second);
    for (uint32_t t = 0; t < b.p->watch->tick_count; t++)
        assert_int_equal(b.p->watch->history[t] & zones, 0); /* the others' past is not theirs */
    assert_int_equal(b.p->watch->plans[0].zones, zones); /* its table is of both */
    bench_close(&b);
}

static void what_a_job_uses_is_not_given_away(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, LARGE);
    submit(&b, 1, HERE); /* it could use all of them */
    uint32_t cheaper = one_more(&b, 101, HERE, USD / 2);
    pass(&b, HOURS_US);
    assert_false(is_watched(&b, cheaper));
    assert_int_equal(watched(&b), SPOT_ZONES_MAX);
    bench_close(&b);
}

static void places_that_nobody_needed_for_a_day_are_free(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, LARGE);
    submit(&b, 1, HERE);
    bench_cancel(&b, 1);
    uint32_t slot = one_more(&b, 101, THERE, USD);
    pass(&b, 23 * HOURS_US);
    submit(&b, 2, THERE);
    assert_false(is_watched(&b, slot));
    pass(&b, 2 * HOURS_US);
    submit(&b, 3, THERE);
    assert_true(is_watched(&b, slot));
    assert_int_equal(watched(&b), SPOT_ZONES_MAX);
    bench_close(&b);
}

static void the_cheapest_is_first(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, SMALL);
    uint32_t slots[CROWD + 8];
    for (uint32_t i = 0; i < CROWD + 8; i++)
        slots[i] = one_more(&b, 101 + i, HERE, USD + (CROWD + 8 - i) * 1000);
    submit(&b, 1, HERE);
    for (uint32_t i = 0; i < CROWD + 8; i++) assert_int_equal(is_watched(&b, slots[i]), i >= 8);
    bench_close(&b);
}

static void a_snapshot_keeps_who_is_watched(void **state)
{
    (void)state;
    struct bench b;
    open_market(&b, SMALL);
    uint32_t slot = one_more(&b, 101, HERE, USD);
    pass(&b, HOURS_US);
    submit(&b, 1, HERE);
    pass(&b, HOURS_US);
    size_t bytes = pool_snapshot_write(b.p, NULL, 0), size = pool_size(&b.config.limits);
    uint8_t *snapshot = malloc(bytes);
    void *memory = malloc(size);
    assert_non_null(snapshot);
    assert_non_null(memory);
    assert_int_equal(pool_snapshot_write(b.p, snapshot, bytes), bytes);
    pool *twin = pool_init(memory, size, &b.config);
    assert_true(pool_snapshot_read(twin, snapshot, bytes));
    assert_true(pool_digest(twin) == pool_digest(b.p));
    assert_int_equal(spot_watch_zone(twin, slot), spot_watch_zone(b.p, slot));
    for (uint32_t z = 0; z < SPOT_ZONES_MAX; z++)
        assert_int_equal(twin->watch->wanted_us[z], b.p->watch->wanted_us[z]);
    free(memory);
    free(snapshot);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_job_with_a_deadline_can_use_is_watched),
        cmocka_unit_test(what_a_job_uses_is_not_given_away),
        cmocka_unit_test(places_that_nobody_needed_for_a_day_are_free),
        cmocka_unit_test(the_cheapest_is_first),
        cmocka_unit_test(a_snapshot_keeps_who_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
