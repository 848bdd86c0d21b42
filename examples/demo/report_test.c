/* Figures and page from a made-up record. With a file name it writes the page there, to look at. */
#include "base/mem.h"
#include "cli/client.h"
#include "page/chart.h"
#include "demo/made_up.h"
#include "demo/report.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void adds_up(void **state)
{
    (void)state;
    struct record record = made_up_record();
    struct summary summary = summary_of(&record, 100000000);
    /* sum of the five entries: a minute of 1.8, 0.4, 1.0, 0.35 and 0.9 dollars an hour */
    assert_int_equal(summary.cost_usd_micros, 30000 + 6666 + 16666 + 5833 + 15000);
    /* 60 * 32 slots * 0.1 s = 192 NCU-seconds; held: 60 s of 2.5 + 0.4 + 1 + 0.4 + 1 NCU */
    assert_int_equal(summary.utilization_ppm, (int64_t)(192.0 / (5.3 * 60) * 1e6 + 0.5));
    /* a step takes a second; 2.5 NCU of H100 at 4.5 dollars a device, 0.8 of A10 at 1.0 (0.4 NCU
     * a device) and 2 of A100-40GB at 2.4: 11.3 dollars for 5.3 NCU-hours */
    assert_int_equal(summary.median_step_us, 1000000);
    assert_int_equal(summary.mean_ncu_milli, (int64_t)(5.3 * 60 / 64 * 1e3 + 0.5));
    assert_int_equal(summary.static_wall_us, 60000000);
    assert_int_equal(summary.static_cost_usd_micros,
                     (int64_t)(4.969 * 60 / 3600 * 11.3e6 / 5.3 + 0.5));
    assert_int_equal(summary.churn.losses_total, 4);
    assert_int_equal(summary.churn.losses_without_notice, 3);
    assert_int_equal(summary.churn.joins, 4);
    assert_int_equal(summary.audit.samples_used_once, 60 * 32 * 4);
    assert_int_equal(summary.workers_max, 4);
    record_free(&record);
}

static void summary_has_every_key(void **state)
{
    (void)state;
    static const char *const keys[] = {"steps",
                                       "slots",
                                       "loss_first",
                                       "loss_last",
                                       "weights_sha256",
                                       "control_weights_sha256",
                                       "losses_total",
                                       "losses_without_notice",
                                       "drains_for_price",
                                       "joins",
                                       "device_models",
                                       "zones",
                                       "steps_lost",
                                       "samples_expected",
                                       "samples_used_once",
                                       "cost_usd_micros",
                                       "static_cost_usd_micros",
                                       "utilization_ppm",
                                       "wall_s",
                                       "losses_during_reduction",
                                       "server_restarts",
                                       "redone_slots"};
    struct record record = made_up_record();
    struct summary summary = summary_of(&record, 100000000);
    json_t *all = summary_json(&record, &summary);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(all, keys[i]) == NULL) fail_msg("no %s", keys[i]);
    assert_int_equal(json_array_size(json_object_get(all, "device_models")), 3);
    assert_int_equal(json_array_size(json_object_get(all, "zones")), 3);
    json_decref(all);
    record_free(&record);
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    while ((text = strstr(text, what)) != NULL) {
        count++;
        text += strlen(what);
    }
    return count;
}

static void page_is_whole(void **state)
{
    struct record record = made_up_record();
    struct summary summary = summary_of(&record, 100000000);
    struct text page = {0};
    report_text(&record, &summary, &page);
    assert_false(page.failed);
    static const char *const tags[][2] = {{"<svg", "</svg>"},     {"<section", "</section>"},
                                          {"<table", "</table>"}, {"<figure", "</figure>"},
                                          {"<g ", "</g>"},        {"<text", "</text>"},
                                          {"<td", "</td>"},       {"<ul", "</ul>"},
                                          {"<div", "</div>"}};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        assert_int_equal(count_of(page.bytes, tags[i][0]), count_of(page.bytes, tags[i][1]));
    assert_null(strstr(page.bytes, "<numbers>")); /* escaped */
    assert_null(strstr(page.bytes, "nan"));
    assert_null(strstr(page.bytes, "http")); /* nothing from outside */
    assert_int_equal(count_of(page.bytes, "<figure"), 3);
    if (*state != NULL) assert_true(report_write(&record, &summary, *state, NULL));
    text_free(&page);
    record_free(&record);
}

static void survives_an_empty_record(void **state)
{
    (void)state;
    struct record record = {.options = {1, 1, 1}};
    struct summary summary = summary_of(&record, 0);
    struct text page = {0};
    report_text(&record, &summary, &page);
    assert_non_null(strstr(page.bytes, "</html>"));
    text_free(&page);
    record_free(&record);
}

/* Out of memory anywhere: no crash, and the page is known to be incomplete. */
static void survives_failing_memory(void **state)
{
    (void)state;
    struct record record = made_up_record();
    struct summary summary = summary_of(&record, 0);
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct text page = {0};
        uint64_t before = mem_calls();
        mem_fail_at(nth);
        report_text(&record, &summary, &page);
        bool was_hit = mem_calls() - before >= nth;
        mem_fail_at(0);
        assert_true(!was_hit || page.failed);
        text_free(&page);
    }
    record_free(&record);
}

static void ticks_are_round(void **state)
{
    (void)state;
    assert_true(chart_tick_step(10, 5) == 2);
    assert_true(chart_tick_step(11, 5) == 5);
    assert_true(chart_tick_step(0.9, 4) > 0.49);
    assert_true(chart_tick_step(0, 5) == 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_up),
        cmocka_unit_test(summary_has_every_key),
        cmocka_unit_test_prestate(page_is_whole, argc > 1 ? argv[1] : NULL),
        cmocka_unit_test(survives_an_empty_record),
        cmocka_unit_test(survives_failing_memory),
        cmocka_unit_test(ticks_are_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
