/* The market on terminals of several widths, and with rows that lack everything. */
#include "base/mem.h"
#include "cli/client.h"
#include "cli/market_show.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char answer_text[] =
    "{\"t\":7200000000,\"offers\":["
    "{\"zone\":\"z/b\",\"region\":\"east\",\"model\":\"H100\",\"ncu_milli\":2500,\"capacity\":"
    "\"spot\",\"devices\":8,\"stock\":2,\"nodes_held\":1,\"usd_micros_per_hour\":16000000,"
    "\"on_demand_usd_micros_per_hour\":40000000,\"history\":[[0,8000000],[3600000000,16000000]],"
    "\"survival\":{\"nodes\":5,\"lost\":2,\"median_us\":7200000000,\"hour_ppm\":800000,\"losses\":"
    "[{\"node\":2199023255559,\"t\":50,\"up_us\":60000000,\"end\":\"taken\"},"
    "{\"node\":2199023255558,\"t\":40,\"up_us\":1000000,\"end\":\"failed\"}]}},"
    "{\"zone\":\"z/a\",\"region\":\"east\",\"model\":\"H100\",\"ncu_milli\":2500,\"capacity\":"
    "\"on_demand\",\"devices\":8,\"usd_micros_per_hour\":40000000,"
    "\"on_demand_usd_micros_per_hour\":40000000,\"history\":[],"
    "\"survival\":{\"nodes\":0,\"lost\":0,\"median_us\":null,\"losses\":[]}},"
    "{\"zone\":\"z/a\",\"region\":\"west\",\"model\":\"A10\",\"capacity\":\"spot\","
    "\"usd_micros_per_hour\":400000,\"survival\":{\"nodes\":0,\"median_us\":600000000,"
    "\"hour_ppm\":100000}}]}";

static char *shown(const char *text, uint32_t width, bool has_colour)
{
    char *bytes = NULL;
    size_t count = 0;
    struct error error = {""};
    json_t *answer = json_loads(text, 0, NULL);
    struct term term = {.width = width, .has_colour = has_colour};
    term.stream = open_memstream(&bytes, &count);
    if (!market_show(answer, &term, &error)) {
        assert_string_not_equal(error.text, "");
        (void)fclose(term.stream);
        free(bytes);
        bytes = NULL;
    } else {
        (void)fclose(term.stream);
    }
    json_decref(answer);
    return bytes;
}

/* The demo shows the same rows without what only /v1/market knows. */
static void offers_alone_are_the_same_rows(void **state)
{
    (void)state;
    struct term term = {0};
    json_t *answer = json_loads(answer_text, 0, NULL);
    char *text = market_text(json_object_get(answer, "offers"), row_int(answer, "t"), &term);
    assert_null(strstr(text, "half up"));
    assert_non_null(strstr(text,
                           "z/b   east    H100 ×8  spot       $16.00          40 %      2     "
                           "1  ▁▁▁▁▁▁██████\n"));
    assert_true(strstr(text, "A10") < strstr(text, "H100"));
    mem_free(text);
    json_decref(answer);
}

static void a_file_gets_all_columns(void **state)
{
    (void)state;
    char *text = shown(answer_text, 0, false);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text,
                           "z/b   east    H100 ×8  spot       $16.00          40 %      2     "
                           "1  2 of 5    80 %    2 h 00 min  ▁▁▁▁▁▁▁▁▁▁▁▁████████████\n"));
    assert_non_null(strstr(text, "-   ~10 %  ~10 min 00 s  \n"));
    assert_non_null(strstr(text, "H100         $2.00      $5.00          40 %    $0.80  z/b\n"));
    assert_non_null(strstr(text, "A10          $0.40          -             -        -  z/a\n"));
    assert_non_null(strstr(text, "  7  H100   spot  z/b   1 min 00 s  taken without notice\n"));
    assert_true(strstr(text, "  7  H100") < strstr(text, "  6  H100")); /* newest first */
    free(text);
}

static void a_device_may_be_cheapest_in_a_dearer_node(void **state)
{
    (void)state;
    char *text = shown("{\"offers\":["
                       "{\"zone\":\"z/small\",\"model\":\"T4\",\"capacity\":\"spot\",\"devices\":1,"
                       "\"usd_micros_per_hour\":900000},"
                       "{\"zone\":\"z/large\",\"model\":\"T4\",\"capacity\":\"spot\",\"devices\":4,"
                       "\"usd_micros_per_hour\":2000000}]}",
                       0, false);
    assert_non_null(
        strstr(text, "T4           $0.50          -             -        -  z/large\n"));
    free(text);
}

static uint32_t widest(const char *text)
{
    uint32_t most = 0;
    char *copy = strdup(text);
    for (char *line = strtok(copy, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "\033[2ma device", 12) == 0) break; /* the first table */
        if (term_columns(line) > most) most = term_columns(line);
    }
    free(copy);
    return most;
}

static void the_terminal_is_filled_not_overrun(void **state)
{
    (void)state;
    for (uint32_t width = 52; width <= 140; width++) {
        char *text = shown(answer_text, width, true);
        if (widest(text) > width) fail_msg("%u columns wide on %u:\n%s", widest(text), width, text);
        assert_non_null(strstr(text, "$16.00"));
        assert_non_null(strstr(text, "\033[32mz/b")); /* held */
        free(text);
    }
}

static void nothing_on_sale_is_said(void **state)
{
    (void)state;
    char *text = shown("{\"offers\":[]}", 80, false);
    assert_non_null(strstr(text, "name a provider"));
    free(text);
    text =
        shown("{\"offers\":[{},{\"survival\":{\"losses\":[{}]},\"history\":[[],7]}]}", 80, false);
    assert_non_null(strstr(text, "$0.00"));
    free(text);
}

static void without_memory_a_sentence(void **state)
{
    (void)state;
    bool done = false;
    for (uint64_t nth = 1; nth < 1000 && !done; nth++) {
        mem_fail_at(nth);
        char *text = shown(answer_text, 80, false);
        mem_fail_at(0);
        done = text != NULL && strstr(text, "taken without notice") != NULL && nth > 20;
        free(text);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_all_columns),
        cmocka_unit_test(offers_alone_are_the_same_rows),
        cmocka_unit_test(a_device_may_be_cheapest_in_a_dearer_node),
        cmocka_unit_test(the_terminal_is_filled_not_overrun),
        cmocka_unit_test(nothing_on_sale_is_said),
        cmocka_unit_test(without_memory_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
