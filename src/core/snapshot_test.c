/* Snapshots, digests, quotes and event checks: what others rely on byte by byte. */
#include "core/quote.h"
#include "core/testing.h"

enum { H100, A10 };

static void open_busy(struct bench *b)
{
    bench_open(b, NULL);
    bench_model(b, H100, 2500, 80, 3);
    bench_model(b, A10, 400, 24, 1);
    bench_offer(b, (struct test_offer){.id = 11,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 4,
                                       .price = 2 * USD,
                                       .on_demand = 4 * USD});
    bench_offer(b, (struct test_offer){.id = 12,
                                       .region = 1,
                                       .model = A10,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 4,
                                       .price = USD / 2,
                                       .on_demand = USD});
    bench_offer(b, (struct test_offer){.id = 13,
                                       .region = 2,
                                       .model = H100,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 8,
                                       .stock = 2,
                                       .price = 30 * USD,
                                       .on_demand = 30 * USD});
}

static void every_damaged_byte_and_every_cut_is_refused(void **state)
{
    struct bench b, other;
    static uint8_t bytes[1 << 16];
    (void)state;
    open_busy(&b);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 3});
    bench_raise(&b);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 2, .budget_per_hour = 2 * USD});
    size_t count = pool_snapshot_write(b.p, NULL, 0);
    assert_true(count <= sizeof bytes);
    assert_int_equal(pool_snapshot_write(b.p, bytes, count), count);
    bench_open(&other, NULL);
    uint64_t untouched = pool_digest(other.p);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= (uint8_t)(1 + i % 255);
        assert_false(pool_snapshot_read(other.p, bytes, count));
        bytes[i] ^= (uint8_t)(1 + i % 255);
        assert_false(pool_snapshot_read(other.p, bytes, i));
    }
    assert_int_equal(pool_digest(other.p), untouched);
    assert_true(pool_snapshot_read(other.p, bytes, count));
    pool_check(other.p);
    assert_int_equal(pool_digest(other.p), pool_digest(b.p));
    assert_int_equal(pool_next_wake_us(other.p), pool_next_wake_us(b.p));
    bench_close(&other);
    bench_close(&b);
}

static void a_snapshot_larger_than_the_limits_is_refused_and_leaves_an_empty_pool(void **state)
{
    struct bench b, small;
    static uint8_t bytes[1 << 16];
    (void)state;
    open_busy(&b);
    size_t count = pool_snapshot_write(b.p, bytes, sizeof bytes);
    bench_open(&small, &(struct pool_limits){.nodes_max = 1,
                                             .jobs_max = 1,
                                             .offers_max = 1,
                                             .models_max = 8,
                                             .pools_max = 4,
                                             .leases_max = 1});
    assert_false(pool_snapshot_read(small.p, bytes, count));
    assert_int_equal(pool_last_seq(small.p), 0);
    pool_check(small.p);
    bench_close(&small);
    bench_close(&b);
}

static void the_digest_tells_states_apart(void **state)
{
    struct bench b;
    (void)state;
    open_busy(&b);
    uint64_t before = pool_digest(b.p);
    assert_int_equal(pool_digest(b.p), before);
    bench_tick(&b); /* seq moved */
    assert_true(pool_digest(b.p) != before);
    bench_close(&b);
}

static struct pool_event job_event(uint32_t min, uint32_t max, int64_t budget)
{
    return (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                               .version = POOL_CORE_VERSION,
                               .u.job_submitted = {.job_id = 5,
                                                   .devices_min = min,
                                                   .devices_max = max,
                                                   .budget_usd_micros_per_hour = budget,
                                                   .kind = JOB_KIND_ELASTIC}};
}

static void the_first_option_is_what_the_planner_does(void **state)
{
    struct bench b;
    struct quote quote;
    (void)state;
    for (uint32_t max = 1; max <= 20; max++) {
        for (int64_t budget = 0; budget <= 80; budget += 5) {
            open_busy(&b);
            struct pool_event event = job_event(1, max, budget * USD);
            uint64_t digest = pool_digest(b.p);
            pool_quote(b.p, &(struct quote_ask){.submitted = &event}, &quote);
            assert_int_equal(pool_digest(b.p), digest);
            assert_int_equal(quote.verdict, REASON_FITS);
            const struct quote_option *best = &quote.options[0];
            assert_int_equal(best->reason, REASON_FITS);
            bench_step(&b, event);
            struct job_view view;
            assert_true(pool_job_find(b.p, 5, &view));
            assert_int_equal(view.usd_micros_per_hour, best->usd_micros_per_hour);
            assert_int_equal(view.region, best->region);
            uint32_t nodes = 0;
            int64_t usd_micros = 0;
            for (uint32_t i = 0; i < best->line_count; i++) {
                nodes += best->lines[i].node_count;
                usd_micros += best->lines[i].usd_micros_per_hour;
            }
            assert_int_equal(nodes, b.asked[POOL_COMMAND_ENSURE_NODE]);
            assert_int_equal(usd_micros, best->usd_micros_per_hour);
            bench_close(&b);
        }
    }
}

static void options_come_best_first_and_say_why_not(void **state)
{
    struct bench b;
    struct quote quote;
    (void)state;
    open_busy(&b);
    struct pool_event event = job_event(2, 4, 3 * USD);
    pool_quote(b.p, &(struct quote_ask){.submitted = &event}, &quote);
    assert_int_equal(quote.verdict, REASON_FITS);
    bool possible = true, spot = false, single = false;
    for (uint32_t i = 0; i < quote.option_count; i++) {
        const struct quote_option *o = &quote.options[i];
        bool fits = o->reason == REASON_FITS;
        if (fits) assert_true(possible);
        possible = fits;
        spot |= o->strategy == QUOTE_SPOT_ONLY;
        single |= o->strategy == QUOTE_SINGLE_MODEL;
        if (o->region == 2) assert_int_equal(o->reason, REASON_WAIT_BUDGET);
    }
    assert_true(spot);
    assert_true(single);
    event = job_event(1000, 1000, 0);
    pool_quote(b.p, &(struct quote_ask){.submitted = &event}, &quote);
    assert_int_equal(quote.verdict, REASON_GANG_TOO_LARGE);
    assert_int_equal(quote.b, 16);
    event = job_event(3, 2, 0);
    pool_quote(b.p, &(struct quote_ask){.submitted = &event}, &quote);
    assert_int_equal(quote.verdict, REASON_BAD_REQUEST);
    assert_int_equal(quote.option_count, 0);
    bench_close(&b);
}

static void ill_formed_events_are_named(void **state)
{
    static const struct {
        struct pool_event event;
        const char *word;
    } cases[] = {
        {{.kind = 0}, "kind"},
        {{.kind = POOL_EVENT_KIND_END}, "kind"},
        {{.kind = POOL_EVENT_TICK, .version = 9}, "version"},
        {{.kind = POOL_EVENT_TICK, .seq = UINT64_MAX}, "sequence"},
        {{.kind = POOL_EVENT_TICK, .now_us = -1}, "time"},
        {{.kind = POOL_EVENT_MODEL_DEFINED}, "ncu"},
        {{.kind = POOL_EVENT_OFFER_CHANGED, .u.offer_changed = {.offer_id = 1, .region = 1}},
         "capacity"},
        {{.kind = POOL_EVENT_OFFER_CHANGED,
          .u.offer_changed = {.offer_id = 1, .usd_micros_per_hour = -1}},
         "price"},
        {{.kind = POOL_EVENT_OFFER_CHANGED,
          .u.offer_changed = {.offer_id = 1, .region = 1, .capacity = CAPACITY_SPOT}},
         "devices"},
        {{.kind = POOL_EVENT_JOB_SUBMITTED,
          .u.job_submitted = {.job_id = 1, .budget_usd_micros_per_hour = -1}},
         "budget"},
        {{.kind = POOL_EVENT_JOB_SUBMITTED, .u.job_submitted = {.job_id = 1, .job_class = 4}},
         "class"},
        {{.kind = POOL_EVENT_JOB_SUBMITTED, .u.job_submitted = {.job_id = 1, .kind = 9}}, "kind"},
        {{.kind = POOL_EVENT_NODE_OBSERVED, .u.node_observed = {.node_key = 1, .phase = 77}},
         "phase"},
        {{.kind = POOL_EVENT_NODE_OBSERVED,
          .u.node_observed = {.node_key = 1, .phase = 1, .billed_usd_micros = -2}},
         "bill"},
        {{.kind = POOL_EVENT_AGENT_REPORTED, .u.agent_reported = {.node_key = 1}}, "phase"},
        {{.kind = POOL_EVENT_WORKER_REPORTED, .u.worker_reported = {.node_key = 0}}, "key"},
        {{.kind = POOL_EVENT_TERMS_DEFINED}, "id 0"},
        {{.kind = POOL_EVENT_TERMS_DEFINED,
          .u.terms_defined = {.terms_id = 1, .terms = {.device_milli = 1001}}},
         "one device"},
        {{.kind = POOL_EVENT_TERMS_DEFINED,
          .u.terms_defined = {.terms_id = 1, .terms = {.run_us = -1}}},
         "time"},
        {{.kind = POOL_EVENT_TERMS_DEFINED,
          .u.terms_defined = {.terms_id = 1, .terms = {.reserved_byte = 1}}},
         "reserved"},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pool_event event = cases[i].event;
        if (event.version == 0) event.version = POOL_CORE_VERSION;
        const char *sentence = pool_event_check(&event);
        if (sentence == NULL) fail_msg("case %u is accepted", i);
        if (strstr(sentence, cases[i].word) == NULL)
            fail_msg("case %u: \"%s\" does not speak of %s", i, sentence, cases[i].word);
    }
}

/* Model 0 has 4 NCU for $3, model 1 has 1 NCU for $1. */
static void open_two_models(struct bench *b)
{
    bench_open(b, NULL);
    for (uint32_t model = 0; model < 2; model++) {
        bench_model(b, model, model == 0 ? 4000 : 1000, 40, 1);
        bench_offer(b, (struct test_offer){.id = 1 + model,
                                           .region = 1,
                                           .model = model,
                                           .capacity = CAPACITY_ON_DEMAND,
                                           .devices = 1,
                                           .stock = 4,
                                           .price = (model == 0 ? 3 : 1) * USD,
                                           .on_demand = 3 * USD});
    }
}

static struct pool_event rate_event(uint32_t model, uint64_t rate_micro)
{
    return (struct pool_event){
        .kind = POOL_EVENT_RATE_TOLD,
        .version = POOL_CORE_VERSION,
        .u.rate_told = {
            .work_id = 7, .model = model, .source = RATE_DECLARED, .rate_micro = rate_micro}};
}

/* The offer a plan for two devices begins with; 0 = it would be refused. */
static uint64_t planned_offer(const struct bench *b, const struct pool_event *rates, uint32_t count)
{
    struct quote quote;
    const struct job_terms terms = {.work_id = 7};
    struct pool_event event = job_event(2, 2, 0);
    const struct quote_ask ask = {
        .submitted = &event, .terms = &terms, .rates = rates, .rate_count = count};
    pool_quote(b->p, &ask, &quote);
    for (uint32_t i = 0; i < quote.option_count; i++) /* never a device it cannot use */
        for (uint32_t k = 0; k < quote.options[i].line_count; k++)
            for (uint32_t n = 0; n < count; n++)
                assert_false(rates[n].u.rate_told.rate_micro == 0 &&
                             quote.options[i].lines[k].offer_id == 1 + rates[n].u.rate_told.model);
    if (quote.verdict == REASON_RATES_ZERO) return 0;
    assert_int_equal(quote.verdict, REASON_FITS);
    return quote.options[0].lines[0].offer_id;
}

static void a_plan_goes_by_the_rates_of_the_work(void **state)
{
    struct bench b;
    (void)state;
    open_two_models(&b);
    assert_int_equal(planned_offer(&b, NULL, 0), 1);
    const struct pool_event as_fast[] = {rate_event(0, 1000000), rate_event(1, 1000000)};
    assert_int_equal(planned_offer(&b, as_fast, 2), 2);
    const struct pool_event never[] = {rate_event(0, 0), rate_event(1, 1000000)};
    assert_int_equal(planned_offer(&b, never, 2), 2);
    const struct pool_event nowhere[] = {rate_event(0, 0), rate_event(1, 0), rate_event(2, 5)};
    assert_int_equal(planned_offer(&b, nowhere, 3), 0);
    for (uint32_t i = 0; i < 2; i++) bench_step(&b, as_fast[i]); /* and once they are known */
    assert_int_equal(planned_offer(&b, NULL, 0), 2);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damaged_byte_and_every_cut_is_refused),
        cmocka_unit_test(a_snapshot_larger_than_the_limits_is_refused_and_leaves_an_empty_pool),
        cmocka_unit_test(the_digest_tells_states_apart),
        cmocka_unit_test(the_first_option_is_what_the_planner_does),
        cmocka_unit_test(a_plan_goes_by_the_rates_of_the_work),
        cmocka_unit_test(options_come_best_first_and_say_why_not),
        cmocka_unit_test(ill_formed_events_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
