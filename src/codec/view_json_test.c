/* Rows have the members that docs/protocol.md promises, with names where the core has numbers. */
#include "base/mem.h"
#include "codec/codec.h"
#include "codec/explain_json.h"
#include "codec/json.h"
#include "codec/rates_json.h"
#include "codec/view_json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct catalog catalog;
static struct job_spec spec;

static const char *name_of(void *self, enum id_kind kind, uint32_t id)
{
    static const char *const kinds[] = {"",         "tenant", "project", "team", "experiment",
                                        "provider", "region", "zone",    "pool"};
    char *text = self;
    if (id == 0) return "";
    (void)snprintf(text, 32, "%s-%u", kinds[kind], id);
    return text;
}

static bool offer_of(void *self, uint64_t offer_id, struct offer_view *ret_offer)
{
    (void)self;
    if (offer_id != 9) return false;
    *ret_offer = (struct offer_view){
        .offer_id = 9, .zone = 4, .model = 1, .region = 2, .capacity = CAPACITY_SPOT};
    return true;
}

static char text_of_name[32];
static struct view_names names = {name_of, offer_of, text_of_name, &catalog};

static int set_up(void **state)
{
    (void)state;
    static const char job[] = "{name: lm, run: {command: [x]}, elastic: {slots: 10, steps: 36, "
                              "work_per_slot: 20s}}";
    struct error error;
    return catalog_parse_shipped(&catalog, &error) &&
                   job_spec_parse(&catalog, NULL, "j", job, strlen(job), &spec, &error)
               ? 0
               : -1;
}

/* Takes the reference. */
static void expect(json_t *got, const char *text)
{
    char *written = json_finish_text(got, got == NULL);
    assert_non_null(written);
    assert_string_equal(written, text);
    mem_free(written);
}

static const struct job_view job = {.job_id = 1,
                                    .state = JOB_RUNNING,
                                    .job_class = JOB_CLASS_P1,
                                    .devices_min = 2,
                                    .devices_max = 8,
                                    .devices_up = 3,
                                    .devices_wanted = 4,
                                    .region = 2,
                                    .tenant = 5,
                                    .team = 7,
                                    .step = 12,
                                    .ckpt_step = 10,
                                    .submitted_us = 100,
                                    .deadline_us = 500,
                                    .work_left_us = 60,
                                    .started_us = 200,
                                    .usd_micros = 300,
                                    .usd_micros_per_hour = 400,
                                    .egress_usd_micros = 9,
                                    .last_kind = DECISION_BUY,
                                    .last_reason = REASON_CHEAPEST,
                                    .last_a = 1800000,
                                    .last_b = 30000000,
                                    .last_c = 2500};

static void a_job_row(void **state)
{
    (void)state;
    expect(job_view_json(&names, &job, &spec),
           "{\"job\":1,\"name\":\"lm\",\"class\":\"P1\",\"kind\":\"elastic\",\"state\":\"running\","
           "\"devices_min\":2,\"devices_max\":8,\"devices_up\":3,\"devices_wanted\":4,"
           "\"region\":\"region-2\",\"tenant\":\"tenant-5\",\"project\":\"\",\"team\":\"team-7\","
           "\"experiment\":\"\",\"slots\":10,\"steps\":36,\"step\":12,\"ckpt_step\":10,"
           "\"submitted_us\":100,\"deadline_us\":500,\"work_left_us\":60,\"started_us\":200,"
           "\"ended_us\":0,\"usd_micros\":300,"
           "\"usd_micros_per_hour\":400,\"egress_usd_micros\":9,\"last_kind\":\"buy\",\"last_"
           "reason\":\"CHEAPEST\","
           "\"last_text\":\"cheapest offer that fits: $1.80/h for 2.5 NCU within $30.00/h left\"}");
    json_t *row = job_view_json(&names, &job, NULL);
    assert_string_equal(json_string_value(json_object_get(row, "name")), "");
    json_decref(row);
}

static void a_node_and_a_lease_row(void **state)
{
    (void)state;
    const struct node_view node = {.node_key = 7,
                                   .offer_id = 9,
                                   .state = NODE_DRAINING,
                                   .phase = NODE_PHASE_UP,
                                   .device_count = 2,
                                   .devices_free = 1,
                                   .model = 0,
                                   .zone = 4,
                                   .region = 2,
                                   .provider = 3,
                                   .capacity = CAPACITY_SPOT,
                                   .agent_joined = 1,
                                   .ordered_us = 1,
                                   .up_since_us = 2,
                                   .notice_us = 3,
                                   .agent_heard_us = 4,
                                   .usd_micros = 5,
                                   .usd_micros_per_hour = 6,
                                   .drain_reason = REASON_NOTICE};
    expect(node_view_json(&names, &node),
           "{\"node\":7,\"state\":\"draining\",\"phase\":\"up\",\"devices\":2,\"devices_free\":1,"
           "\"model\":\"H100\",\"zone\":\"zone-4\",\"rack\":\"\","
           "\"groups\":{\"form\":0,\"nvlink\":[],\"pcie\":[],\"numa\":[]},\"region\":\"region-2\","
           "\"provider\":\"provider-"
           "3\",\"capacity\":\"spot\",\"agent_joined\":true,\"ordered_us\":1,\"up_since_us\":2,"
           "\"notice_us\":3,\"agent_heard_us\":4,\"usd_micros\":5,\"usd_micros_per_hour\":6,"
           "\"drain_reason\":\"NOTICE\"}");
    const struct lease_view lease = {.job_id = 1,
                                     .node_key = 7,
                                     .worker_id = 8,
                                     .device_count = 1,
                                     .phase = WORKER_PHASE_RUNNING,
                                     .since_us = 5,
                                     .step = 3};
    expect(lease_view_json(&lease), "{\"job\":1,\"node\":7,\"worker\":8,\"devices\":1,\"device_"
                                    "milli\":0,\"device_mask\":0,\"phase\":\"running\",\"step\":3,"
                                    "\"stop_reason\":\"\",\"since_us\":5,\"deadline_us\":0}");
}

static void an_offer_and_a_pool_row(void **state)
{
    (void)state;
    const struct offer_view offer = {.offer_id = 9,
                                     .usd_micros_per_hour = 1,
                                     .provider = 3,
                                     .on_demand_usd_micros_per_hour = 2,
                                     .region = 2,
                                     .zone = 4,
                                     .model = 3,
                                     .capacity = CAPACITY_ON_DEMAND,
                                     .device_count = 8,
                                     .stock_count = 5,
                                     .nodes_held = 1,
                                     .refused_until_us = 6,
                                     .quoted_usd_micros_per_hour = 1,
                                     .risk_ppm = 7,
                                     .rank_ppm = 8,
                                     .hazard_ppm = 9,
                                     .up_us = 10,
                                     .changeover_us = 11,
                                     .billing_s = 3600};
    expect(offer_view_json(&names, &offer),
           "{\"offer\":9,\"provider\":\"provider-3\",\"region\":\"region-2\",\"zone\":\"zone-4\","
           "\"rack\":\"\","
           "\"model\":\"A10\",\"ncu_milli\":400,\"capacity\":\"on_demand\",\"devices\":8,"
           "\"stock\":5,\"nodes_held\":1,\"usd_micros_per_hour\":1,"
           "\"on_demand_usd_micros_per_hour\":2,\"quoted_usd_micros_per_hour\":1,\"risk_ppm\":7,"
           "\"rank_ppm\":8,\"hazard_ppm\":9,\"up_us\":10,\"changeover_us\":11,"
           "\"refused_until_us\":6,\"billing_s\":3600}");
    const struct config_pool pool_entry = {
        .name = "tier",
        .need = {.capability_mask = 1 | 2, .vram_min_mib = 24576},
        .hardware_mask = 1 | 8,
        .price_threshold_ppm = 500000,
        .use_case_count = 1,
        .use_cases = {"tuning"}};
    expect(pool_json(&catalog, &pool_entry),
           "{\"name\":\"tier\",\"capabilities\":[\"fp16\",\"bf16\",\"24gb-vram\"],"
           "\"hardware\":[\"H100\",\"A10\"],\"lacking\":[],\"use_cases\":[\"tuning\"],\"price_"
           "threshold\":0.5}");
}

static void decisions_and_entries_name_zone_and_model(void **state)
{
    (void)state;
    const struct pool_decision decision = {.id = 65537,
                                           .kind = DECISION_DRAIN,
                                           .reason = REASON_PRICE_ABOVE_THRESHOLD,
                                           .job_id = 1,
                                           .node_key = 7,
                                           .offer_id = 9,
                                           .a = 4400000,
                                           .b = 3150000};
    expect(decision_json(&names, &decision, 1000),
           "{\"id\":65537,\"t\":1000,\"kind\":\"drain\",\"reason\":\"PRICE_ABOVE_THRESHOLD\","
           "\"text\":\"price $4.40/h is above the threshold $3.15/h\",\"job\":1,\"node\":7,"
           "\"offer\":9,\"zone\":\"zone-4\",\"model\":\"A100-80GB\",\"a\":4400000,\"b\":3150000,"
           "\"c\":0}");
    const struct ledger_entry entry = {.id = 65538,
                                       .node_key = 7,
                                       .job_id = 1,
                                       .offer_id = 8,
                                       .from_us = 1,
                                       .to_us = 2,
                                       .usd_micros = -3,
                                       .kind = ENTRY_ADJUSTMENT,
                                       .project = 6,
                                       .device_count = 1};
    expect(entry_json(&names, &entry),
           "{\"id\":65538,\"node\":7,\"job\":1,\"offer\":8,\"zone\":\"\",\"model\":\"\","
           "\"from_us\":1,\"to_us\":2,\"usd_micros\":-3,\"kind\":\"adjustment\",\"tenant\":\"\","
           "\"project\":\"project-6\",\"team\":\"\",\"experiment\":\"\",\"devices\":1}");
}

/* 36 steps x 10 slots x 20 s = 2 NCU hours; at 2 NCU that is an hour. */
static void a_quote_knows_hours_and_total(void **state)
{
    (void)state;
    static struct quote quote;
    quote = (struct quote){.option_count = 2, .verdict = REASON_FITS, .a = 1, .b = 4};
    quote.options[0] = (struct quote_option){.strategy = QUOTE_CHEAPEST_MIX,
                                             .region = 2,
                                             .device_count = 2,
                                             .line_count = 1,
                                             .ncu_milli = 2000,
                                             .usd_micros_per_hour = 3600000,
                                             .reason = REASON_FITS,
                                             .a = 1,
                                             .b = 4,
                                             .lines = {{9, 2, 2, 3600000}}};
    quote.options[1] =
        (struct quote_option){.strategy = QUOTE_SPOT_ONLY, .region = 2, .reason = REASON_NO_OFFER};
    json_t *row = quote_json(&names, &quote, &spec);
    json_t *options = json_object_get(row, "options");
    json_t *first = json_array_get(options, 0), *second = json_array_get(options, 1);
    assert_string_equal(json_string_value(json_object_get(row, "verdict")), "FITS");
    assert_string_equal(json_string_value(json_object_get(row, "text")),
                        "fits: needs 1 device, the pool can reach 4");
    assert_true(fabs(json_real_value(json_object_get(first, "hours")) - 1) < 1e-9);
    assert_true(fabs(json_real_value(json_object_get(first, "usd")) - 3.6) < 1e-9);
    assert_true(fabs(json_real_value(json_object_get(first, "ncu")) - 2) < 1e-9);
    assert_true(json_is_true(json_object_get(first, "possible")));
    json_t *line = json_array_get(json_object_get(first, "lines"), 0);
    assert_string_equal(json_string_value(json_object_get(line, "zone")), "zone-4");
    assert_string_equal(json_string_value(json_object_get(line, "model")), "A100-80GB");
    assert_string_equal(json_string_value(json_object_get(line, "kind")), "spot");
    assert_int_equal(json_integer_value(json_object_get(line, "nodes")), 2);
    assert_true(json_is_false(json_object_get(second, "possible")));
    assert_null(json_object_get(second, "hours"));
    json_decref(row);

    row = quote_json(&names, &quote, NULL); /* no job: no hours */
    assert_null(json_object_get(json_array_get(json_object_get(row, "options"), 0), "hours"));
    json_decref(row);

    static struct job_spec timed; /* says nothing of its work, but how long it takes */
    timed.terms.run_us = INT64_C(5400000000);
    row = quote_json(&names, &quote, &timed);
    options = json_object_get(row, "options");
    assert_true(fabs(json_real_value(json_object_get(json_array_get(options, 0), "hours")) - 1.5) <
                1e-9);
    assert_null(json_object_get(json_array_get(options, 1), "hours"));
    json_decref(row);
}

/* 6.6598 has no exact double; 17 digits would print 6.6597999999999997. */
static void reals_print_as_they_were_written(void **state)
{
    (void)state;
    bool failed = false;
    json_t *object = json_object();
    json_set_real(object, "loss", 6.6598, &failed);
    char *text = json_finish_text(object, failed);
    assert_string_equal(text, "{\"loss\":6.6598}");
    mem_free(text);
}

static void rates_are_sentences(void **state)
{
    (void)state;
    const struct rate_view rates[] = {
        {.model = 0, .told = 1U << RATE_MEASURED, .measured_milli = 12500, .speed_ppm = 1415000},
        {.model = 1, .told = 1U << RATE_DECLARED, .declared_milli = 40, .speed_ppm = 230000},
        {.model = 2, .speed_ppm = 500000},
        {.model = 3, .told = 1U << RATE_DECLARED}};
    static const char *const texts[] = {
        ": 142 % of its usual speed (measured: 12.500 a second on a device)",
        ": 23 % of its usual speed (declared: 0.040 a second on a device)",
        ": 50 % of its usual speed (by its NCU)", ": never, as declared"};
    json_t *rows = rates_json(&names, rates, 4);
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *model = json_string_value(json_object_get(row, "model"));
        const char *text = json_string_value(json_object_get(row, "text"));
        assert_string_equal(model, catalog.models[i].name);
        assert_string_equal(text + strlen(model), texts[i]);
    }
    json_decref(rows);
}

static void a_deadline_is_a_sentence(void **state)
{
    (void)state;
    struct job_view view = {.deadline_us = 100000000, .work_left_us = 30000000};
    expect(deadline_json(&view, 40000000),
           "{\"t\":100000000,\"work_left_us\":30000000,\"slack_us\":30000000,\"text\":\"its "
           "deadline is "
           "in 60 s, its work takes 30 s: 30 s are left for losses\"}");
    expect(
        deadline_json(&view, 110000000),
        "{\"t\":100000000,\"work_left_us\":30000000,\"slack_us\":-40000000,\"text\":\"its deadline "
        "has passed; its work takes another 30 s\"}");
    view.ended_us = 1;
    assert_true(json_is_null(deadline_json(&view, 40000000)));
}

static void the_next_free_time_is_a_sentence(void **state)
{
    (void)state;
    struct next_free next = {
        .at_us = 5, .job_id = 7, .region = 2, .device_count = 3, .devices_min = 8};
    expect(next_free_json(&names, &next),
           "{\"t\":5,\"text\":\"in region-2, when job 7 ends; 3 of 8 devices are free there now\","
           "\"job\":7,\"region\":\"region-2\",\"devices\":3,\"devices_min\":8}");
    next.job_id = 0;
    json_t *row = next_free_json(&names, &next);
    assert_string_equal(json_string_value(json_object_get(row, "text")),
                        "in region-2, when a worker has handed over; 3 of 8 devices are free there "
                        "now");
    json_decref(row);
    next.at_us = 0;
    assert_true(json_is_null(next_free_json(&names, &next)));
}

static void wishes_are_sentences(void **state)
{
    (void)state;
    const struct explanation explanation = {.wish_count = 3,
                                            .wishes = {{.kind = WISH_FEWER_DEVICES,
                                                        .value = 1,
                                                        .region = 2,
                                                        .device_count = 1,
                                                        .usd_micros_per_hour = 4500000,
                                                        .has_extra = 1,
                                                        .extra_usd_micros_per_hour = -1900000},
                                                       {.kind = WISH_BUDGET,
                                                        .value = 8991000,
                                                        .region = 2,
                                                        .device_count = 2,
                                                        .usd_micros_per_hour = 9000000},
                                                       {.kind = WISH_CLASS,
                                                        .value = JOB_CLASS_P0,
                                                        .region = 3,
                                                        .device_count = 2,
                                                        .victim_count = 2}}};
    expect(
        explanation_json(&names, &explanation),
        "[{\"kind\":\"fewer_devices\",\"text\":\"with 1 device: 1 device in region-2 for "
        "$4.50/h\",\"words\":\"with 1 device for $1.90/h "
        "less\",\"value\":1,\"region\":\"region-2\",\"devices\":1,\"victims\":0,"
        "\"usd_micros_per_hour\":4500000,\"extra_usd_micros_per_hour\":-1900000},"
        "{\"kind\":\"budget\",\"text\":\"with a budget of $9.00/h: 2 devices in region-2 for "
        "$9.00/h\",\"words\":\"with a budget of "
        "$9.00/h\",\"value\":8991000,\"region\":\"region-2\",\"devices\":2,\"victims\":0,"
        "\"usd_micros_per_hour\":9000000},"
        "{\"kind\":\"class\",\"text\":\"at class P0: in region-3, where 2 workers of lower "
        "classes would go\",\"words\":\"at P0\",\"value\":0,\"region\":\"region-3\",\"devices\":2,"
        "\"victims\":2,\"usd_micros_per_hour\":0}]");
}

/* "would start now with fp16, or in region-4 for +$1.90/h, or without bf16" */
static void wishes_are_words_of_a_line(void **state)
{
    static const char *const words[] = {"with fp16", "in region-4 for +$1.90/h", "without bf16"};
    (void)state;
    uint64_t fp16 = 0, bf16 = 0;
    for (uint32_t i = 0; i < catalog.capability_count; i++) {
        if (strcmp(catalog.capabilities[i], "fp16") == 0) fp16 = i;
        if (strcmp(catalog.capabilities[i], "bf16") == 0) bf16 = i;
    }
    struct explanation two = {.wish_count = 2,
                              .capability_mask = UINT64_C(1) << fp16 | UINT64_C(1) << bf16,
                              .wishes = {{.kind = WISH_WITHOUT_CAPABILITY, .value = (int64_t)bf16},
                                         {.kind = WISH_ANY_REGION,
                                          .region = 4,
                                          .has_extra = 1,
                                          .extra_usd_micros_per_hour = 1900000}}};
    struct explanation one = {
        .wish_count = 1, .capability_mask = UINT64_C(1) << bf16, .wishes = {two.wishes[0]}};
    json_t *rows = explanation_json(&names, &two), *last = explanation_json(&names, &one);
    for (uint32_t i = 0; i < 3; i++)
        assert_string_equal(
            words[i], json_string_value(json_object_get(
                          i < 2 ? json_array_get(rows, i) : json_array_get(last, 0), "words")));
    json_decref(rows);
    json_decref(last);
}

int main(void)
{
    codec_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_sentences),
        cmocka_unit_test(a_deadline_is_a_sentence),
        cmocka_unit_test(the_next_free_time_is_a_sentence),
        cmocka_unit_test(wishes_are_sentences),
        cmocka_unit_test(wishes_are_words_of_a_line),
        cmocka_unit_test(a_job_row),
        cmocka_unit_test(a_node_and_a_lease_row),
        cmocka_unit_test(an_offer_and_a_pool_row),
        cmocka_unit_test(decisions_and_entries_name_zone_and_model),
        cmocka_unit_test(a_quote_knows_hours_and_total),
        cmocka_unit_test(reals_print_as_they_were_written),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
