/* Every member of every enum has a name of its own, and numbers print as documented. */
#include "codec/names.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

typedef const char *name_fn(uint32_t value);
typedef bool find_fn(const char *name, uint32_t *ret_value);

static const struct {
    name_fn *name;
    find_fn *find; /* NULL: no way back is offered */
    uint32_t first, end;
} enums[] = {
    {name_event_kind, NULL, 1, POOL_EVENT_KIND_END},
    {name_capacity, find_capacity, 1, CAPACITY_KIND_END},
    {name_node_phase, find_node_phase, 1, NODE_PHASE_END},
    {name_node_reason, find_node_reason, 0, NODE_REASON_END},
    {name_agent_phase, find_agent_phase, 1, AGENT_PHASE_END},
    {name_worker_phase, find_worker_phase, 1, WORKER_PHASE_END},
    {name_job_kind, find_job_kind, 1, JOB_KIND_END},
    {name_job_class, find_job_class, 0, JOB_CLASS_END},
    {name_command_kind, NULL, 1, POOL_COMMAND_KIND_END},
    {name_decision_kind, NULL, 1, DECISION_KIND_END},
    {name_reason, find_reason, 0, DECISION_REASON_END},
    {name_entry_kind, NULL, 1, ENTRY_KIND_END},
    {name_job_state, find_job_state, 1, JOB_STATE_END},
    {name_node_state, find_node_state, 1, NODE_STATE_END},
    {name_quote_strategy, NULL, 1, QUOTE_STRATEGY_END},
};

static void every_member_has_its_own_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof enums / sizeof enums[0]; i++) {
        for (uint32_t value = enums[i].first; value < enums[i].end; value++) {
            const char *name = enums[i].name(value);
            assert_string_not_equal(name, "unknown");
            if (value > 0) assert_string_not_equal(name, "none");
            for (uint32_t other = enums[i].first; other < value; other++)
                assert_string_not_equal(name, enums[i].name(other));
            if (enums[i].find == NULL) continue;
            uint32_t found = UINT32_MAX;
            assert_true(enums[i].find(name, &found));
            assert_int_equal(found, value);
        }
        assert_string_equal(enums[i].name(enums[i].end), "unknown");
        assert_string_equal(enums[i].name(UINT32_MAX), "unknown");
    }
    uint32_t untouched = 7;
    assert_false(find_capacity("none", &untouched));
    assert_false(find_capacity("Spot", &untouched));
    assert_int_equal(untouched, 7);
}

static void words_match_their_enum_members(void **state)
{
    (void)state; /* a swapped pair would pass the test above */
    assert_string_equal(name_event_kind(POOL_EVENT_NODE_DRAIN_ASKED), "node_drain_asked");
    assert_string_equal(name_event_kind(POOL_EVENT_OFFER_CHANGED), "offer_changed");
    assert_string_equal(name_capacity(CAPACITY_ON_DEMAND), "on_demand");
    assert_string_equal(name_node_phase(NODE_PHASE_UP), "up");
    assert_string_equal(name_node_reason(NODE_REASON_CRASHED), "crashed");
    assert_string_equal(name_worker_phase(WORKER_PHASE_FINISHED), "finished");
    assert_string_equal(name_job_class(JOB_CLASS_P3), "P3");
    assert_string_equal(name_command_kind(POOL_COMMAND_OBSERVE_NODE), "observe_node");
    assert_string_equal(name_decision_kind(DECISION_LOST), "lost");
    assert_string_equal(name_decision_kind(DECISION_STALL), "stall");
    assert_string_equal(name_event_kind(POOL_EVENT_WORKER_STALLED), "worker_stalled");
    assert_string_equal(name_reason(REASON_STALL_OVER + STALL_DIVERGED - STALL_OVER),
                        "STALL_DIVERGED");
    assert_string_equal(name_reason(REASON_STALL_OVER + SLOW_NETWORK - STALL_OVER), "SLOW_NETWORK");
    assert_string_equal(name_reason(REASON_REGION_CHANGED), "REGION_CHANGED");
    assert_string_equal(name_entry_kind(ENTRY_IDLE), "idle");
    assert_string_equal(name_job_state(JOB_CANCELLED), "cancelled");
    assert_string_equal(name_node_state(NODE_DRAINING), "draining");
    assert_string_equal(name_quote_strategy(QUOTE_GUARANTEED_ONLY), "guaranteed_only");
}

static void money_prints_cents_or_two_digits(void **state)
{
    (void)state;
    static const struct {
        int64_t usd_micros;
        const char *text;
    } cases[] = {
        {0, "$0.00"},
        {18000000, "$18.00"},
        {4200, "$0.0042"},
        {-1500000, "-$1.50"},
        {1, "$0.000001"},
        {42, "$0.000042"},
        {4250, "$0.0043"},
        {4000, "$0.004"},
        {9949, "$0.0099"},
        {9950, "$0.01"},
        {9999, "$0.01"},
        {10000, "$0.01"},
        {994999, "$0.99"},
        {995000, "$1.00"},
        {1234567, "$1.23"},
        {-4200, "-$0.0042"},
        {995, "$0.001"},
        {99, "$0.000099"},
        {INT64_MAX, "$9223372036854.78"},
        {INT64_MIN, "-$9223372036854.78"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[NAMES_NUMBER_BYTES];
        assert_string_equal(money_format(cases[i].usd_micros, text), cases[i].text);
    }
}

static void other_numbers_drop_trailing_zeros(void **state)
{
    (void)state;
    char text[NAMES_NUMBER_BYTES];
    assert_string_equal(milli_format(2500, text), "2.5");
    assert_string_equal(milli_format(12000, text), "12");
    assert_string_equal(milli_format(0, text), "0");
    assert_string_equal(milli_format(-1, text), "-0.001");
    assert_string_equal(milli_format(INT64_MIN, text), "-9223372036854775.808");
    assert_string_equal(seconds_format(15000000, text), "15");
    assert_string_equal(seconds_format(500000, text), "0.5");
    assert_string_equal(seconds_format(1499, text), "0.001");
    assert_string_equal(seconds_format(1500, text), "0.002");
    assert_string_equal(seconds_format(-1500, text), "-0.002");
    assert_string_equal(seconds_format(INT64_MAX, text), "9223372036854.776");
    assert_string_equal(percent_format(700000, text), "70");
    assert_string_equal(percent_format(125000, text), "12.5");
    assert_string_equal(percent_format(1, text), "0");
}

static void sentences_take_their_numbers(void **state)
{
    (void)state;
    char text[NAMES_SENTENCE_BYTES];
    assert_string_equal(
        reason_format(REASON_PRICE_ABOVE_THRESHOLD, 4400000, 3150000, 0, text, sizeof text),
        "price $4.40/h is above the threshold $3.15/h");
    assert_string_equal(reason_format(REASON_FITS, 4, 12, 0, text, sizeof text),
                        "fits: needs 4 devices, the pool can reach 12");
    assert_string_equal(reason_format(REASON_CHEAPEST, 1800000, 30000000, 2500, text, sizeof text),
                        "cheapest offer that fits: $1.80/h for 2.5 NCU within $30.00/h left");
    assert_string_equal(reason_format(REASON_CHEAPEST, 1800000, 0, 2500, text, sizeof text),
                        "cheapest offer that fits: $1.80/h for 2.5 NCU");
    assert_string_equal(reason_format(REASON_DONE, 0, 0, 0, text, sizeof text),
                        "its command has ended well");
    assert_string_equal(reason_format(REASON_CHEAPER_SPOT, 1000000, 4400000, 0, text, sizeof text),
                        "spot is cheap again: $1.00/h instead of $4.40/h for the same NCU");
    assert_string_equal(reason_format(REASON_NOTICE, 2000000, 0, 0, text, sizeof text),
                        "the provider takes the node in 2 s");
    assert_string_equal(reason_format(REASON_NOTICE, 2000000, 30000000, 0, text, sizeof text),
                        "the provider takes the node in 2 s; its offer counts double for 30 s");
    assert_string_equal(
        reason_format(REASON_NCU_BUDGET, 2924001, 2920000, 3500, text, sizeof text),
        "the cheapest mix of 3.5 NCU costs $2.93/h, the budget is $2.92/h; raise it to $2.93/h");
    assert_string_equal(money_format_up(2920000, text), "$2.92");
    assert_string_equal(money_format_up(1, text), "$0.01");
    assert_string_equal(money_format_up(0, text), "$0.00");
    (void)money_format_up(INT64_MAX, text);
    assert_string_equal(reason_format(DECISION_REASON_END, 1, 2, 3, text, sizeof text),
                        "unknown reason");
}

static void no_sentence_is_cut_or_keeps_a_placeholder(void **state)
{
    (void)state;
    for (uint32_t reason = 0; reason < DECISION_REASON_END; reason++) {
        char text[NAMES_SENTENCE_BYTES], small[8];
        (void)reason_format(reason, INT64_MIN, INT64_MIN, INT64_MIN, text, sizeof text);
        assert_true(strlen(text) < sizeof text - 1);
        for (const char *at = text; *at != '\0'; at++)
            assert_false(strchr(">#@~", *at) != NULL && at[1] >= 'a' && at[1] <= 'c');
        (void)reason_format(reason, 1, 2, 3, small, sizeof small);
        assert_true(strlen(small) < sizeof small);
        (void)reason_format(reason, 1, 2, 3, small, 0); /* writes nothing */
    }
}

static void one_is_told_as_one_and_spans_with_a_unit_that_suits(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } spans[] = {{0, "0 s"},
                 {500, "0.001 s"},
                 {500000, "0.5 s"},
                 {7540000, "7.5 s"},
                 {60005000, "60 s"},
                 {119000000, "119 s"},
                 {1500000000, "25 min"},
                 {95400000000, "26.5 h"},
                 {302400000000, "3.5 d"},
                 {-1500000000, "-25 min"}};
    char text[NAMES_SENTENCE_BYTES], number[NAMES_NUMBER_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        assert_string_equal(span_format(spans[i].us, number), spans[i].text);
    (void)span_format(INT64_MIN, number);
    (void)span_format(INT64_MAX, number);
    assert_string_equal(reason_format(REASON_GANG_READY, 1, 1, 0, text, sizeof text),
                        "1 of at least 1 device is up");
    assert_string_equal(reason_format(REASON_GANG_READY, 1, 2, 0, text, sizeof text),
                        "1 of at least 2 devices are up");
    assert_string_equal(reason_format(REASON_STOCKOUT, 0, 0, 0, text, sizeof text),
                        "the provider has no capacity; tried again at once");
    assert_string_equal(
        reason_format(REASON_RESERVED, 8, 3240000000, 7, text, sizeof text),
        "waits: 8 devices are reserved for it; the last of them is expected free in "
        "54 min, when job 7 ends");
    assert_string_equal(reason_format(REASON_WAIT_TURN, 1, 0, 0, text, sizeof text),
                        "waits behind 1 job of a higher class or greater age");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_told_as_one_and_spans_with_a_unit_that_suits),
        cmocka_unit_test(every_member_has_its_own_name),
        cmocka_unit_test(words_match_their_enum_members),
        cmocka_unit_test(money_prints_cents_or_two_digits),
        cmocka_unit_test(other_numbers_drop_trailing_zeros),
        cmocka_unit_test(sentences_take_their_numbers),
        cmocka_unit_test(no_sentence_is_cut_or_keeps_a_placeholder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
