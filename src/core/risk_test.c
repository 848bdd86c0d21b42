/* What an offer's risk does to where nodes are bought: told hazards, losses that fade, changeovers. */
#include "core/offer.h"
#include "core/risk.h"
#include "core/testing.h"

enum { H100 = 0 };
static const struct test_offer near = {1, 1, H100, CAPACITY_SPOT, 1, 10, 2 * USD, 5 * USD};
static const struct test_offer far = {2, 2, H100, CAPACITY_SPOT, 1, 10, 3 * USD, 5 * USD};
static const struct test_offer steady = {3, 1, H100, CAPACITY_ON_DEMAND, 1, 10, 5 * USD, 5 * USD};

static const struct offer *offer_of(const struct bench *b, uint64_t id)
{
    for (uint32_t i = 0; i < b->p->offers_end; i++)
        if (b->p->offers[i].offer_id == id) return &b->p->offers[i];
    fail_msg("no such offer");
    return NULL;
}

static void open_with(struct bench *b, const struct test_offer *offers, uint32_t count)
{
    bench_open(b, NULL);
    bench_model(b, H100, 1000, 80, 1);
    for (uint32_t i = 0; i < count; i++) bench_offer(b, offers[i]);
}

/* The offer at which the one node on order was ordered. */
static uint64_t bought_at(const struct bench *b)
{
    return bench_command(b, POOL_COMMAND_ENSURE_NODE, 0)->offer_id;
}

static uint64_t start_job(struct bench *b, uint32_t region)
{
    bench_submit(b, (struct test_job){.id = 1, .min = 1, .max = 1, .region = region});
    uint64_t key = bench_command(b, POOL_COMMAND_ENSURE_NODE, 0)->node_key;
    bench_raise(b);
    return key;
}

static void take(struct bench *b, uint64_t key)
{
    bench_node_full(b, key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, -1);
}

/* A whole job was lost in the cheap region, another is free: the first retry goes there, and the
 * decision says for how long the cheap one counts double. */
static void the_first_retry_avoids_where_the_node_was_taken(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){near, far}, 2);
    take(&b, start_job(&b, 0));
    assert_int_equal(bench_decision(&b, DECISION_LOST, REASON_PREEMPTED)->a,
                     b.config.refused_backoff_us);
    assert_int_equal(bought_at(&b), far.id);
    bench_close(&b);
}

static void a_pinned_region_is_kept(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){near, far}, 2);
    take(&b, start_job(&b, near.region));
    assert_int_equal(bought_at(&b), near.id);
    bench_close(&b);
}

/* Twice the price at most: guaranteed capacity at more than that is no refuge. */
static void nothing_is_bought_at_any_price_to_avoid_an_offer(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){near, steady}, 2);
    take(&b, start_job(&b, 0));
    assert_int_equal(bought_at(&b), near.id);
    bench_close(&b);
}

static void a_loss_is_forgotten_step_by_step(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){near, far}, 2);
    take(&b, start_job(&b, near.region));
    bench_cancel(&b, 1);
    uint32_t last = offer_of(&b, near.id)->risk_ppm;
    assert_int_equal(last, 1000000);
    uint32_t steps = 0;
    for (int64_t minute = 0; minute < 60 * 24 && last > 0; minute++) {
        bench_advance(&b, 60 * SECOND_US);
        uint32_t risk = offer_of(&b, near.id)->risk_ppm;
        assert_true(risk <= last);
        steps += risk < last;
        last = risk;
    }
    assert_int_equal(last, 0);
    assert_true(steps >= 3);
    assert_int_equal(offer_of(&b, near.id)->unit_usd_micros, near.price);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    assert_int_equal(bought_at(&b), near.id);
    bench_close(&b);
}

static void a_notice_counts_as_a_loss_once(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){near, far}, 2);
    uint64_t key = start_job(&b, near.region);
    bench_node_full(&b, key, NODE_PHASE_UP, NODE_REASON_NONE, b.now_us + 120 * SECOND_US, -1);
    assert_int_equal(bench_decision(&b, DECISION_DRAIN, REASON_NOTICE)->b,
                     b.config.refused_backoff_us);
    int64_t taken_us = offer_of(&b, near.id)->taken_us;
    bench_advance(&b, 60 * SECOND_US);
    take(&b, key);
    assert_int_equal(offer_of(&b, near.id)->taken_us, taken_us);
    bench_close(&b);
}

/* A day in which one offer comes and goes every half hour and the other stays: each is known by its own
 * life, and the one that stays is worth a tenth more, though neither ever took a node. */
static void an_offer_is_known_by_how_long_it_has_lived(void **state)
{
    struct bench b;
    (void)state;
    static const struct test_offer flaps = {1, 1, H100, CAPACITY_SPOT, 1, 10, 20 * USD, 50 * USD};
    static const struct test_offer stays = {2, 1, H100, CAPACITY_SPOT, 1, 10, 22 * USD, 50 * USD};
    open_with(&b, (struct test_offer[]){flaps, stays}, 2);
    for (uint32_t half_hour = 0; half_hour < 48; half_hour++) {
        struct test_offer now = flaps;
        now.stock = half_hour % 2 == 0 ? 10 : 0;
        bench_offer(&b, now);
        bench_advance(&b, 1800 * SECOND_US);
    }
    bench_offer(&b, flaps);
    bench_advance(&b, 1600 * SECOND_US); /* as old as it gets */
    bench_tick(&b);
    risk_joined(b.p, 0, 720 * SECOND_US);
    risk_joined(b.p, 1, 720 * SECOND_US);
    risk_weigh(b.p, 0);
    risk_weigh(b.p, 1);
    assert_true(offer_of(&b, flaps.id)->risk_ppm > 120000);
    assert_true(offer_of(&b, stays.id)->risk_ppm < 20000);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    assert_int_equal(bought_at(&b), stays.id);
    bench_close(&b);
}

/* 0.5 losses an hour and a changeover of 12 minutes: a tenth of each life is lost. */
static void told_hazards_and_measured_changeovers_weigh(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){near}, 1);
    uint32_t slot = 0;
    b.p->offers[slot].hazard_ppm = 500000;
    risk_joined(b.p, slot, 720 * SECOND_US);
    risk_weigh(b.p, slot);
    assert_int_equal(b.p->offers[slot].risk_ppm, 111111); /* 1 / (1 - 0.1) */
    assert_int_equal(b.p->offers[slot].unit_usd_micros, near.price + near.price / 9);
    risk_joined(b.p, slot, 240 * SECOND_US); /* a quarter of the news */
    assert_int_equal(b.p->offers[slot].changeover_us, 600 * SECOND_US);
    b.p->offers[slot].hazard_ppm = UINT32_MAX; /* absurd: never more than double */
    risk_weigh(b.p, slot);
    assert_int_equal(b.p->offers[slot].risk_ppm, 1000000);
    bench_close(&b);
}

/* Capacity that nobody takes away is not blamed for a machine that failed. */
static void guaranteed_capacity_has_no_losses(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){steady}, 1);
    take(&b, start_job(&b, 0));
    assert_int_equal(offer_of(&b, steady.id)->risk_ppm, 0);
    assert_int_equal(bench_decision(&b, DECISION_LOST, REASON_PREEMPTED)->a, 0);
    bench_close(&b);
}

/* A ranking counts in place of the surcharge, a learned one beside it, or not at all. */
static void a_rank_counts_in_place_of_the_surcharge_or_beside_it(void **state)
{
    (void)state;
    struct offer o = {.risk_ppm = 500000};
    assert_int_equal(risk_weighed(&o, USD), 3 * USD / 2);
    o.rank_ppm = 2000000;
    assert_int_equal(risk_weighed(&o, USD), 2 * USD);
    o.rank_beside = 1;
    assert_int_equal(risk_weighed(&o, USD), 3 * USD);
    o.rank_ppm = RANK_OUTSIDE;
    assert_int_equal(risk_weighed(&o, USD), 3 * USD / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_retry_avoids_where_the_node_was_taken),
        cmocka_unit_test(a_pinned_region_is_kept),
        cmocka_unit_test(nothing_is_bought_at_any_price_to_avoid_an_offer),
        cmocka_unit_test(a_loss_is_forgotten_step_by_step),
        cmocka_unit_test(a_notice_counts_as_a_loss_once),
        cmocka_unit_test(an_offer_is_known_by_how_long_it_has_lived),
        cmocka_unit_test(told_hazards_and_measured_changeovers_weigh),
        cmocka_unit_test(guaranteed_capacity_has_no_losses),
        cmocka_unit_test(a_rank_counts_in_place_of_the_surcharge_or_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
