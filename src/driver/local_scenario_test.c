/* Scenario files and traces: what is read, and that each mistake is one sentence with its line. */
#include "base/mem.h"
#include "driver/local_replay.h"
#include "driver/local_scenario.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ZONES "zones:\n  aurora/east-a: {region: east, notice: 2s}\n"
#define OFFERS                                                                                     \
    "offers:\n  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1.10, spot: 0.4}\n"
#define HOURLY                                                                                     \
    "  - {zone: aurora/east-a, model: A10, kind: on_demand, on_demand: 1.10, billing: 1h}\n"

static struct local_scenario *parse(const char *text, struct error *ret_error)
{
    return local_scenario_parse("s.yaml", text, strlen(text), ret_error);
}

static void test_everything_is_read(void **state)
{
    (void)state;
    struct error error;
    struct local_scenario *s =
        parse("seed: 5\nemulate: {slot_ms_at_1_ncu: 0.5}\n" ZONES OFFERS HOURLY
              "prices: {every: 2s, reversion: 0.25, spike_factor: {min: 2, max: 3}}\n"
              "preemptions: {mean_life: 60s, heavy_tail: 0.5, without_notice: 0.3}\n"
              "events:\n"
              "  - {at: 20s, preempt: {zone: aurora/east-a, during: reduce, count: 2}}\n"
              "  - {at_step: 9, price: {model: A10, share: 0.9, for: 30s}}\n"
              "  - {at: 1s, stock: {count: 0}}\n",
              &error);
    if (s == NULL) fail_msg("%s", error.text);
    assert_int_equal(s->seed, 5);
    assert_int_equal(s->slot_us_at_1_ncu, 500);
    assert_string_equal(s->zones[0].provider, "aurora");
    assert_int_equal(s->zones[0].notice_us, 2000000);
    assert_int_equal(s->offers[0].capacity, CAPACITY_SPOT);
    assert_int_equal(s->offers[0].device_count, 1);
    assert_int_equal(s->offers[0].spot_usd_micros_per_hour, 400000);
    assert_int_equal(s->offers[0].billing_s, 0);
    assert_int_equal(s->offers[1].billing_s, 3600);
    assert_true(s->prices.reversion == 0.25);
    assert_true(s->prices.spike_factor_max == 3);
    assert_true(s->preemptions.life_shape == 0.5);
    assert_true(s->events[0].during_reduce);
    assert_int_equal(s->events[0].count, 2);
    assert_int_equal(s->events[1].at_us, -1);
    assert_int_equal(s->events[1].at_step, 9);
    assert_int_equal(s->events[1].share_ppm, 900000);
    assert_int_equal(s->events[2].kind, LOCAL_EVENT_STOCK);
    const struct driver_offer_name name = {"aurora", "east",        "aurora/east-a",
                                           "A10",    CAPACITY_SPOT, 1};
    assert_int_equal(local_scenario_find(s, &name), 0);
    local_scenario_free(s);
}

static void test_mistakes_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "at least one zone"},
        {ZONES "  borealis/b: {region: east}\n" OFFERS,
         "s.yaml:3: zone \"borealis/b\" has no price"},
        {ZONES
         "offers:\n  - {zone: aurora/east-b, model: A10, kind: spot, on_demand: 1, spot: 1}\n",
         "did you mean \"aurora/east-a\"?"},
        {ZONES "offers:\n  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1}\n",
         "\"spot\""},
        {ZONES
         "offers:\n  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1, spot: 2}\n",
         "spot is above on_demand"},
        {ZONES
         "offers:\n  - {zone: aurora/east-a, model: A10, kind: sport, on_demand: 1, spot: 1}\n",
         "none of owned, reserved, on_demand, spot"},
        {ZONES OFFERS "  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1, spot: 1}\n",
         "merge them"},
        {ZONES OFFERS "prizes: {every: 1s}\n", "\"prizes\""},
        {ZONES "offers:\n  - {zone: aurora/east-a, model: A10, kind: on_demand, on_demand: 1, "
               "billing: 1.5s}\n",
         "s.yaml:4: billing goes by whole seconds"},
        {ZONES "offers:\n  - {zone: aurora/east-a, model: A10, kind: on_demand, on_demand: 1, "
               "billing: 25h}\n",
         "\"billing\""},
        {ZONES OFFERS "preemptions: {mean_life: -3s}\n", "s.yaml:5"},
        {ZONES OFFERS "events:\n  - {preempt: {}}\n", "either `at` (a duration) or `at_step`"},
        {ZONES OFFERS "events:\n  - {at: 1s}\n", "one of `preempt`, `price` and `stock`"},
        {ZONES OFFERS "events:\n  - {at: 1s, preempt: {during: lunch}}\n", "\"lunch\""},
        {ZONES OFFERS "events:\n  - {at: 1s, price: {for: 3s}}\n", "either usd_per_hour or share"},
        {"zones:\n  aurora: {region: east}\n" OFFERS, "expected CLOUD/ZONE"},
        {ZONES "offers:\n  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1, "
               "price_series: a/b}\n",
         "replay"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {""};
        assert_null(parse(cases[i].text, &error));
        if (strstr(error.text, cases[i].says) == NULL || strncmp(error.text, "s.yaml", 6) != 0)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, error.text, cases[i].says);
    }
}

static void test_out_of_memory_is_a_sentence(void **state)
{
    (void)state;
    const char *text = ZONES OFFERS "events:\n  - {at: 1s, preempt: {}}\n";
    for (uint64_t nth = 1; nth < 10000; nth++) {
        struct error error = {""};
        mem_fail_at(nth);
        struct local_scenario *s = parse(text, &error);
        mem_fail_at(0);
        if (s != NULL) {
            local_scenario_free(s);
            assert_true(nth > 2);
            return;
        }
        assert_true(error.text[0] != '\0');
    }
    fail_msg("it never succeeded");
}

/* ---- traces ---- */

#define PRICES "zone,instance_type,t_utc,usd_per_hour\n"
#define TRACED                                                                                     \
    ZONES "offers:\n  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 5, stock: 9, "    \
          "price_series: us-1a/p3.2xlarge, availability_series: s1}\n"                             \
          "replay: {prices: %s, availability: %s, step: 100s, speedup: 10}\n"

struct traces {
    char prices[64], availability[64];
};

static void write_file(char path[64], const char *content)
{
    (void)snprintf(path, 64, "/tmp/shoal-trace-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    (void)close(fd);
}

static struct local_replay *replay_of(const char *prices, const char *availability,
                                      struct error *ret_error)
{
    struct traces traces;
    char text[1024];
    write_file(traces.prices, prices);
    write_file(traces.availability, availability);
    (void)snprintf(text, sizeof text, TRACED, traces.prices, traces.availability);
    struct local_scenario *s = parse(text, ret_error);
    if (s == NULL) fail_msg("%s", ret_error->text);
    struct local_replay *replay = local_replay_open(s, ret_error);
    local_scenario_free(s);
    (void)unlink(traces.prices);
    (void)unlink(traces.availability);
    return replay;
}

#define AVAILABLE "series_id,start_step,n_steps,value\ns1,0,2,3\ns1,2,5,0\n"

static void test_traces_are_replayed(void **state)
{
    (void)state;
    struct error error;
    struct local_replay *r = replay_of(PRICES "us-1b,p3.2xlarge,2020-01-01T00:00:00Z,9\n"
                                              "us-1a,p3.2xlarge,2020-01-02T00:00:10Z,1.25\n"
                                              "us-1a,p3.2xlarge,2020-01-02T00:00:00Z,1.5\r\n",
                                       AVAILABLE, &error);
    if (r == NULL) fail_msg("%s", error.text);
    assert_int_equal(local_replay_price(r, 0, 0), 1500000); /* sorted, from the kept rows on */
    assert_int_equal(local_replay_price(r, 0, 9999999), 1500000);
    assert_int_equal(local_replay_price(r, 0, 10000000), 1250000);
    assert_int_equal(local_replay_price(r, 0, INT64_MAX), 1250000);
    assert_int_equal(local_replay_available(r, 0, 0), 3);
    assert_int_equal(local_replay_available(r, 0, 199999999), 3);
    assert_int_equal(local_replay_available(r, 0, 200000000), 0);
    assert_int_equal(local_replay_price(r, 1, 0), -1);
    local_replay_close(r);
}

static void test_bad_traces_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *prices, *says;
    } cases[] = {
        {"", ":1: the file is empty"},
        {"zone,instance_type,when,usd_per_hour\n", ":1: the header has no column \"t_utc\""},
        {PRICES "us-1a,p3.2xlarge,2020-02-30T00:00:00Z,1\n", ":2: t_utc is not of the form"},
        {PRICES "us-1a,p3.2xlarge,2020-01-02T00:00:00Z,cheap\n", ":2: usd_per_hour"},
        {PRICES "us-1a,p3.2xlarge,2020-01-02T00:00:00Z,-1\n", ":2: usd_per_hour"},
        {PRICES "us-1a,p3.2xlarge,2020-01-02T00:00:00Z,1\nus-1a,p3\n", ":3: the line is cut short"},
        {PRICES "us-1c,p3.2xlarge,2020-01-02T00:00:00Z,1\n", "no row of the series"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {""};
        assert_null(replay_of(cases[i].prices, AVAILABLE, &error));
        if (strstr(error.text, cases[i].says) == NULL || strncmp(error.text, "/tmp/", 5) != 0)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, error.text, cases[i].says);
    }
    struct error error = {""};
    assert_null(replay_of(PRICES "us-1a,p3.2xlarge,2020-01-02T00:00:00Z,1\n",
                          "series_id,start_step,n_steps,value\ns1,0,x,1\n", &error));
    assert_non_null(strstr(error.text, ":2: start_step, n_steps and value"));
}

static void test_missing_trace_is_a_sentence(void **state)
{
    (void)state;
    struct error error = {""};
    char text[1024];
    (void)snprintf(text, sizeof text, TRACED, "/nonexistent.csv", "/nonexistent.csv");
    struct local_scenario *s = parse(text, &error);
    assert_non_null(s);
    assert_null(local_replay_open(s, &error));
    assert_non_null(strstr(error.text, "/nonexistent.csv: cannot open"));
    local_scenario_free(s);
}

/* The recorded data that the defaults were measured on, if it is there. */
static void test_real_traces(void **state)
{
    (void)state;
    struct error error = {""};
    struct local_scenario *s = parse(
        "zones:\n  aws/east-2b: {region: east}\noffers:\n  - {zone: aws/east-2b, model: V100, "
        "kind: spot, on_demand: 3.06, stock: 16, price_series: us-east-2a/p3.2xlarge, "
        "availability_series: avail-16n-aws-08-27-2023-us-east-2b_v100_1}\n"
        "replay: {prices: $SHOAL_DATA/prices/aws_spot_price_history_2019-12_2020-03.csv, "
        "availability: $SHOAL_DATA/spot_availability/skypilot_segments.csv, step: 300s}\n",
        &error);
    if (s == NULL) fail_msg("%s", error.text);
    if (access(s->price_file, R_OK) != 0) {
        local_scenario_free(s);
        skip(); /* SHOAL_DATA names no folder with the traces */
    }
    struct local_replay *r = local_replay_open(s, &error);
    if (r == NULL) fail_msg("%s", error.text);
    int64_t day_us = INT64_C(86400000000), held = 0;
    for (int64_t day = 0; day < 14; day++) {
        int64_t price = local_replay_price(r, 0, day * day_us);
        int64_t available = local_replay_available(r, 0, day * day_us);
        assert_true(price > 500000 && price <= 3060000);
        assert_true(available >= 0 && available <= 16);
        held += available;
    }
    assert_true(held > 0);
    local_replay_close(r);
    local_scenario_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_read),
        cmocka_unit_test(test_mistakes_name_the_place),
        cmocka_unit_test(test_out_of_memory_is_a_sentence),
        cmocka_unit_test(test_traces_are_replayed),
        cmocka_unit_test(test_bad_traces_name_the_line),
        cmocka_unit_test(test_missing_trace_is_a_sentence),
        cmocka_unit_test(test_real_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
