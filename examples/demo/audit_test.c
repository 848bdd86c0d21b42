/* The checks must find each kind of damage in rows that are otherwise right. */
#include "demo/audit.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct audit_options options = {.steps = 4, .slots = 8, .samples_per_slot = 2};

/* Two workers, one half each: right in every way. */
static json_t *good_rows(void)
{
    json_t *steps = json_array();
    for (int step = 0; step < 4; step++) {
        json_t *row = json_pack("{s:i, s:i, s:f, s:[{s:i,s:s},{s:i,s:s}]}", "step", step, "t",
                                10 + step, "loss", 5.0 - step, "workers", "worker", 1, "slots",
                                "0f", "worker", step < 2 ? 2 : 3, "slots", "f0");
        json_array_append_new(steps, row);
    }
    return steps;
}

static struct audit audit_of(json_t *steps, uint32_t *ret_faults)
{
    struct audit audit;
    struct text faults = {0};
    audit_steps(steps, &options, &audit);
    *ret_faults = audit_tell_faults(&audit, &options, &faults);
    text_free(&faults);
    json_decref(steps);
    return audit;
}

static void passes_what_is_right(void **state)
{
    (void)state;
    uint32_t faults;
    struct audit audit = audit_of(good_rows(), &faults);
    assert_int_equal(faults, 0);
    assert_int_equal(audit.samples_expected, 64);
    assert_int_equal(audit.samples_used_once, 64);
}

static void finds_a_missing_step(void **state)
{
    (void)state;
    for (size_t missing = 0; missing < 4; missing++) {
        json_t *steps = good_rows();
        json_array_remove(steps, missing);
        uint32_t faults;
        struct audit audit = audit_of(steps, &faults);
        assert_int_equal(audit.steps_lost, 1);
        assert_true(faults >= 2); /* the step and its samples */
    }
}

static void finds_a_doubled_step(void **state)
{
    (void)state;
    json_t *steps = good_rows();
    json_array_insert(steps, 2, json_array_get(steps, 1));
    uint32_t faults;
    struct audit audit = audit_of(steps, &faults);
    assert_int_equal(audit.steps_doubled, 1);
    assert_int_equal(faults, 1);
}

static void set_slots(json_t *steps, size_t step, size_t worker, const char *slots)
{
    json_t *workers = json_object_get(json_array_get(steps, step), "workers");
    json_object_set_new(json_array_get(workers, worker), "slots", json_string(slots));
}

static void finds_doubled_and_missing_slots(void **state)
{
    (void)state;
    uint32_t faults;
    json_t *steps = good_rows();
    set_slots(steps, 2, 1, "f8");
    struct audit audit = audit_of(steps, &faults);
    assert_int_equal(audit.slots_doubled, 1);
    assert_int_equal(audit.samples_used_once, 62);
    steps = good_rows();
    set_slots(steps, 2, 1, "70");
    audit = audit_of(steps, &faults);
    assert_int_equal(audit.slots_missing, 1);
    assert_int_equal(faults, 2);
}

static void refuses_rows_it_cannot_read(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "xy", "1ff", "F0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *steps = good_rows();
        set_slots(steps, 0, 0, bad[i]);
        uint32_t faults;
        struct audit audit = audit_of(steps, &faults);
        assert_int_equal(audit.bad_rows, 1);
        assert_true(faults > 0);
    }
    uint32_t faults;
    json_t *steps = good_rows();
    json_array_append_new(steps, json_pack("{s:i, s:[]}", "step", 4, "workers"));
    assert_int_equal(audit_of(steps, &faults).bad_rows, 1);
}

static void wants_learning(void **state)
{
    (void)state;
    json_t *steps = good_rows();
    json_object_set_new(json_array_get(steps, 3), "loss", json_real(4.9));
    uint32_t faults;
    (void)audit_of(steps, &faults);
    assert_int_equal(faults, 1);
}

static json_t *decision(int t, const char *kind, const char *reason, int node)
{
    return json_pack("{s:i, s:s, s:s, s:i}", "t", t, "kind", kind, "reason", reason, "node", node);
}

static void counts_churn(void **state)
{
    (void)state;
    json_t *decisions = json_array(), *steps = good_rows();
    json_array_append_new(decisions, decision(5, "lost", "CRASHED", 9)); /* before the first step */
    json_array_append_new(decisions, decision(10, "lost", "PREEMPTED", 1));
    json_array_append_new(decisions, decision(10, "drain", "NOTICE", 2)); /* both: one loss */
    json_array_append_new(decisions, decision(11, "lost", "PREEMPTED_NOTICED", 2));
    json_array_append_new(decisions, decision(11, "lost", "CRASHED", 3));
    json_array_append_new(decisions, decision(12, "lost", "BOOT_TIMEOUT", 4));
    json_array_append_new(decisions, decision(12, "drain", "PRICE_ABOVE_THRESHOLD", 5));
    json_array_append_new(decisions, decision(12, "drain", "NOTICE", 6)); /* it left in time */
    json_array_append_new(decisions, decision(12, "release", "IDLE", 7));
    json_array_append_new(decisions,
                          decision(14, "lost", "PREEMPTED", 8)); /* after the last step */
    struct churn churn;
    audit_churn(decisions, steps, &churn);
    assert_int_equal(churn.losses_total, 4);
    assert_int_equal(churn.losses_without_notice, 2);
    assert_int_equal(churn.drains_for_price, 1);
    assert_int_equal(churn.joins, 1);
    json_decref(decisions);
    json_decref(steps);
}

static void wants_a_rough_market(void **state)
{
    (void)state;
    struct churn churn = {.losses_total = 6,
                          .losses_without_notice = 2,
                          .losses_during_reduction = 1,
                          .drains_for_price = 1,
                          .joins = 1};
    struct text faults = {0};
    assert_int_equal(audit_tell_calm(&churn, &faults), 0);
    churn.losses_during_reduction = 0;
    churn.losses_total = 5;
    assert_int_equal(audit_tell_calm(&churn, &faults), 2);
    assert_non_null(strstr(text_get(&faults), "only 5 losses, at least 6"));
    text_free(&faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_what_is_right),
        cmocka_unit_test(finds_a_missing_step),
        cmocka_unit_test(finds_a_doubled_step),
        cmocka_unit_test(finds_doubled_and_missing_slots),
        cmocka_unit_test(refuses_rows_it_cannot_read),
        cmocka_unit_test(wants_learning),
        cmocka_unit_test(counts_churn),
        cmocka_unit_test(wants_a_rough_market),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
