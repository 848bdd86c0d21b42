/* Bills against quotes: a provider that bills more than it says is found out within its first billed
 * minute, and one that does not is never blamed, however late and rounded its answers are. */
#include "core/testing.h"

#include "core/bill.h"

enum { H100 = 0 };
static const struct test_offer lying = {1, 1, H100, CAPACITY_SPOT, 1, 10, 280000, 440000};
static const struct test_offer steady = {2, 1, H100, CAPACITY_ON_DEMAND, 1, 10, 440000, 440000};
#define MINUTE_US (60 * SECOND_US)

static uint64_t open_with(struct bench *b, const struct test_offer *offers, uint32_t count)
{
    bench_open(b, NULL);
    bench_model(b, H100, 1000, 80, 1);
    for (uint32_t i = 0; i < count; i++) bench_offer(b, offers[i]);
    bench_submit(b, (struct test_job){.id = 1, .min = 1, .max = 1});
    uint64_t key = bench_command(b, POOL_COMMAND_ENSURE_NODE, 0)->node_key;
    bench_raise(b);
    return key;
}

static void bill(struct bench *b, uint64_t key, int64_t usd_micros)
{
    bench_node_full(b, key, NODE_PHASE_UP, NODE_REASON_NONE, 0, usd_micros);
}

/* Quoted at $0.28, billed $0.49 while on-demand is $0.44: found out after a minute, and the job
 * moves, as after a rise of the price above on-demand. */
static void the_first_billed_minute_tells(void **state)
{
    struct bench b;
    (void)state;
    uint64_t key = open_with(&b, (struct test_offer[]){lying, steady}, 2);
    bill(&b, key, 0);
    bench_live(&b, MINUTE_US);
    bill(&b, key, 490000 / 60);
    const struct pool_decision *d =
        bench_decision(&b, DECISION_DISTRUST, REASON_BILLED_ABOVE_QUOTE);
    assert_non_null(d);
    assert_int_equal(d->a, 489960); /* whole micro-dollars a minute */
    assert_int_equal(d->b, lying.price);
    assert_int_equal(d->offer_id, lying.id);
    bench_tick(&b);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 1);
    assert_int_equal(b.said[DECISION_BUY][REASON_FALLBACK] + b.said[DECISION_BUY][REASON_CHEAPEST],
                     2);
    bench_close(&b);
}

static void another_quote_is_believed_again(void **state)
{
    struct bench b;
    (void)state;
    uint64_t key = open_with(&b, (struct test_offer[]){lying}, 1);
    bill(&b, key, 0);
    bench_live(&b, MINUTE_US);
    bill(&b, key, 490000 / 60);
    struct offer_view view;
    assert_true(pool_offer_at(b.p, 0, &view));
    assert_int_equal(view.usd_micros_per_hour, 489960);
    assert_int_equal(view.quoted_usd_micros_per_hour, lying.price);
    bench_offer(&b, lying); /* the same again is no news */
    assert_true(pool_offer_at(b.p, 0, &view));
    assert_int_equal(view.usd_micros_per_hour, 489960);
    struct test_offer other = lying;
    other.price = 300000;
    bench_offer(&b, other);
    assert_true(pool_offer_at(b.p, 0, &view));
    assert_int_equal(view.usd_micros_per_hour, other.price);
    bench_close(&b);
}

/* Begun minutes billed in full, answers up to two minutes old, a meter read before a price rise is
 * known: none of it is a lie. */
static void honest_bills_are_never_blamed(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct bench b;
        uint64_t key = open_with(&b, (struct test_offer[]){lying}, 1);
        int64_t up_us = b.now_us;
        uint32_t random = seed * 2654435761u;
        for (uint32_t i = 0; i < 40; i++) {
            random = random * 1664525u + 1013904223u;
            bench_live(&b, (1 + random / 65536 % 90) * SECOND_US);
            int64_t age_us = (random >> 8) % 120 * SECOND_US;
            int64_t ran_us = b.now_us - up_us > age_us ? b.now_us - up_us - age_us : 0;
            int64_t minutes = (ran_us + MINUTE_US - 1) / MINUTE_US;
            bill(&b, key, minutes * lying.price / 60);
        }
        assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 0);
        bench_close(&b);
    }
}

/* The provider counts from half a minute before we do, since the agent was heard first; its first bill that
 * we see is half a minute old and has, all the same, what we reckon with. */
static void an_old_bill_of_a_meter_that_began_before_ours_is_no_lie(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, NULL);
    bench_model(&b, H100, 1000, 80, 1);
    bench_offer(&b, lying);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    uint64_t key = bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0)->node_key;
    bench_advance(&b, SECOND_US);
    int64_t up_us = b.now_us;
    bench_advance(&b, 30 * SECOND_US);
    bench_agent(&b, key);
    for (uint32_t i = 0; i < 10; i++) {
        int64_t age_us = i == 0 ? 30 * SECOND_US : 0;
        bench_live(&b, MINUTE_US - SECOND_US);
        bench_step(&b,
                   (struct pool_event){
                       .kind = POOL_EVENT_NODE_OBSERVED,
                       .u.node_observed = {.node_key = key,
                                           .phase = NODE_PHASE_UP,
                                           .up_since_us = up_us,
                                           .billed_usd_micros = (b.now_us - up_us - age_us) *
                                                                lying.price / (60 * MINUTE_US)}});
    }
    assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 0);
    bench_close(&b);
}

/* Begun units of an hour or ten minutes, counted from up to a minute before it was seen up: that is
 * how they bill, however late the answers. */
static void whole_hours_are_no_lie(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 100; seed++) {
        struct bench b;
        struct test_offer honest = lying;
        honest.billing_s = seed % 3 == 0 ? 600 : 3600;
        uint32_t random = seed * 2654435761u;
        uint64_t key = open_with(&b, &honest, 1);
        int64_t up_us = b.now_us - random % 60 * SECOND_US;
        for (uint32_t i = 0; i < 200; i++) {
            random = random * 1664525u + 1013904223u;
            bench_live(&b, (1 + random / 65536 % 90) * SECOND_US);
            int64_t age_us = (random >> 8) % 120 * SECOND_US;
            int64_t unit_us = honest.billing_s * SECOND_US, ran_us = b.now_us - up_us - age_us;
            int64_t units = ran_us > 0 ? (ran_us + unit_us - 1) / unit_us : 0;
            bill(&b, key, units * honest.billing_s * honest.price / 3600);
        }
        assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 0);
        bench_close(&b);
    }
}

static void a_dear_first_hour_is_found_out(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer hourly = lying;
    hourly.billing_s = 3600;
    uint64_t key = open_with(&b, (struct test_offer[]){hourly, steady}, 2);
    bench_live(&b, MINUTE_US);
    bill(&b, key, 490000); /* the first word on it */
    const struct pool_decision *d =
        bench_decision(&b, DECISION_DISTRUST, REASON_BILLED_ABOVE_QUOTE);
    assert_non_null(d);
    assert_int_equal(d->a, 490000);
    assert_int_equal(d->b, hourly.price);
    struct offer_view view;
    assert_true(pool_offer_at(b.p, 0, &view));
    assert_int_equal(view.billing_s, 3600);
    bench_close(&b);
}

static void more_than_a_day_is_no_unit(void **state)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFER_CHANGED,
                               .version = POOL_CORE_VERSION,
                               .u.offer_changed = {.offer_id = 1,
                                                   .region = 1,
                                                   .capacity = CAPACITY_SPOT,
                                                   .device_count = 1,
                                                   .billing_s = BILLING_S_MAX}};
    (void)state;
    assert_null(pool_event_check(&event));
    event.u.offer_changed.billing_s++;
    assert_string_equal(pool_event_check(&event), "offer: it bills more than a day at once");
}

/* What it bills by is told anew with each change of the offer. */
static void another_billing_unit_counts_from_then_on(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer hourly = lying;
    hourly.billing_s = 3600;
    uint64_t key = open_with(&b, &hourly, 1);
    bill(&b, key, 0);
    bench_live(&b, MINUTE_US);
    bill(&b, key, hourly.price);
    assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 0);
    bench_offer(&b, lying); /* by the second, so an hour for a minute is a lie */
    bill(&b, key, hourly.price);
    assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 1);
    bench_close(&b);
}

/* A price that changed in between explains anything: the comparison begins anew. */
static void a_changed_price_begins_the_comparison_anew(void **state)
{
    struct bench b;
    (void)state;
    uint64_t key = open_with(&b, (struct test_offer[]){lying}, 1);
    bill(&b, key, 0);
    bench_live(&b, MINUTE_US);
    struct test_offer dearer = lying;
    dearer.price = 400000; /* it cost that for half a minute before we were told */
    bench_offer(&b, dearer);
    bill(&b, key, (280000 + 400000) / 2 / 60);
    assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 0);
    bench_live(&b, 2 * MINUTE_US);
    bill(&b, key, (280000 + 400000) / 2 / 60 + 2 * 400000 / 60);
    assert_int_equal(b.said[DECISION_DISTRUST][REASON_BILLED_ABOVE_QUOTE], 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_billed_minute_tells),
        cmocka_unit_test(another_quote_is_believed_again),
        cmocka_unit_test(honest_bills_are_never_blamed),
        cmocka_unit_test(an_old_bill_of_a_meter_that_began_before_ours_is_no_lie),
        cmocka_unit_test(whole_hours_are_no_lie),
        cmocka_unit_test(a_dear_first_hour_is_found_out),
        cmocka_unit_test(more_than_a_day_is_no_unit),
        cmocka_unit_test(another_billing_unit_counts_from_then_on),
        cmocka_unit_test(a_changed_price_begins_the_comparison_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
