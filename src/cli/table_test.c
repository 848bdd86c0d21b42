/* Alignment by what a terminal shows, not by bytes; cutting; styles; failing memory. */
#include "base/mem.h"
#include "cli/suggest.h"
#include "cli/table.h"
#include "base/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct table_column columns[] = {
    {"name", TABLE_LEFT}, {"$/h", TABLE_RIGHT}, {"doing", TABLE_LEFT}};

static struct table *filled(void)
{
    struct table *table = table_open(columns, 3);
    table_cell(table, "%s", "ä");
    table_cell(table, "%d", 7);
    table_cell(table, "%s", "computing the gradient of slot 7");
    table_row_style(table, TERM_RED);
    table_cell(table, "%s", "longer");
    table_cell(table, "%d", 1234);
    table_cell(table, "%s", "x");
    return table;
}

static void aligns(void **state)
{
    (void)state;
    struct term term = {.width = 0};
    struct table *table = filled();
    char *text = table_text(table, &term);
    assert_string_equal(text, "name     $/h  doing\n"
                              "ä          7  computing the gradient of slot 7\n"
                              "longer  1234  x\n");
    assert_int_equal(table_rows(table), 2);
    mem_free(text);
    table_close(table);
}

static void cuts_to_the_terminal(void **state)
{
    (void)state;
    struct term term = {.width = 30, .has_colour = true};
    struct table *table = filled();
    char *text = table_text(table, &term);
    assert_non_null(strstr(text, "ä          7  computing the g…\n"));
    assert_non_null(strstr(text, "\033[31mlonger  1234  x\033[0m\n"));
    mem_free(text);
    table_close(table);
}

/* By words; below the whole row where little room is left beside it. A word longer than a line is cut. */
static void wraps_at_the_terminal(void **state)
{
    (void)state;
    static const struct {
        uint32_t width;
        const char *text;
    } cases[] = {
        {47, "ä          7  computing the gradient of slot 7\n"},
        {45, "ä          7  computing the gradient of slot\n              7\n"},
        {30, "ä          7  \n    computing the gradient of\n    slot 7\n"},
        {10, "ä          7  \n    comput\n    ing\n    the\n    gradie\n    nt of\n"},
        {1, "ä          7  \n    comp\n    utin\n    g\n"},
        {0, "ä          7  computing the gradient of slot 7\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct term term = {.width = cases[i].width};
        struct table *table = filled();
        table_wrap(table);
        char *text = table_text(table, &term);
        assert_non_null(strstr(text, cases[i].text));
        mem_free(text);
        table_close(table);
    }
}

static void survives_failing_memory(void **state)
{
    (void)state;
    struct term term = {.width = 0};
    for (uint64_t nth = 1; nth < 12; nth++) {
        mem_fail_at(nth);
        struct table *table = filled();
        char *text = table_text(table, &term);
        mem_fail_at(0);
        if (text != NULL) assert_non_null(strstr(text, "longer  1234  x\n")); /* whole or nothing */
        mem_free(text);
        table_close(table);
    }
}

static void measures_what_is_seen(void **state)
{
    (void)state;
    assert_int_equal(term_columns("abc"), 3);
    assert_int_equal(term_columns("\033[31mä▁\033[0m"), 2);
    assert_int_equal(term_bytes_within("ä▁x", 2), 5);
    assert_int_equal(term_bytes_within("\033[31mab\033[0m", 1), 6);
    assert_int_equal(term_bytes_within("ab", 9), 2);
    assert_int_equal(term_columns("\033["), 0); /* cut short: nothing is read beyond */
}

static void redraws_only_on_a_terminal(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t count = 0;
    FILE *stream = open_memstream(&bytes, &count);
    struct term plain = {.stream = stream},
                screen = {.stream = stream, .is_terminal = true, .width = 6};
    struct live live = {.term = &plain};
    live_show(&live, "one\ntwo");
    live_print(&live, "event");
    live_end(&live);
    assert_string_equal(bytes, "one\ntwo\nevent\n");
    struct live drawn = {.term = &screen};
    live_show(&drawn, "one\ntwo is long");
    live_print(&drawn, "event");
    live_end(&drawn);
    assert_string_equal(bytes, "one\ntwo\nevent\none\ntwo i\r\033[1A\033[Jevent\none\ntwo i\n");
    (void)fclose(stream);
    free(bytes);
}

static void draws_what_fits(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t count = 0;
    FILE *stream = open_memstream(&bytes, &count);
    struct term screen = {.stream = stream, .is_terminal = true, .width = 20, .height = 3};
    struct live live = {.term = &screen};
    live_show(&live, "a\nb\nc\nd\n");
    live_end(&live);
    (void)fclose(stream);
    assert_string_equal(bytes, "a\nb\r\033[1A\033[Ja\nb\nc\nd\n");
    free(bytes);
}

static void wraps_between_parts(void **state)
{
    (void)state;
    struct term screen = {.width = 12}, file = {.width = 0};
    char line[] = "step 1 · loss 2 · 3 left", same[] = "step 1 · loss 2 · 3 left";
    char solid[] = "a line without any place";
    term_wrap(&screen, line);
    assert_string_equal(line, "step 1\nloss 2\n3 left");
    term_wrap(&file, same);
    assert_string_equal(same, "step 1 · loss 2 · 3 left");
    term_wrap(&screen, solid);
    assert_string_equal(solid, "a line without any place");
}

static void suggests(void **state)
{
    (void)state;
    static const char *const verbs[] = {"run", "plan", "jobs", "nodes", "market", "drain"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {{"job", "jobs"},
                 {"jbos", "jobs"},
                 {"makret", "market"},
                 {"plam", "plan"},
                 {"xyzzy", NULL},
                 {"", NULL},
                 {"q", NULL},
                 {"nodse", "nodes"},
                 {"a-word-that-is-much-longer-than-any-command-can-be", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = suggest_nearest(cases[i].word, verbs, 6);
        if (cases[i].nearest == NULL)
            assert_null(found);
        else
            assert_string_equal(found, cases[i].nearest);
    }
    assert_int_equal(suggest_distance("", "abc"), 3);
    assert_int_equal(suggest_distance("ab", "ba"), 1);
}

static void escapes(void **state)
{
    (void)state;
    struct text text = {0};
    text_add_html(&text, "a<b>&\"c\"");
    assert_string_equal(text_get(&text), "a&lt;b&gt;&amp;&quot;c&quot;");
    text_free(&text);
    assert_string_equal(text_get(&text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligns),
        cmocka_unit_test(cuts_to_the_terminal),
        cmocka_unit_test(wraps_at_the_terminal),
        cmocka_unit_test(survives_failing_memory),
        cmocka_unit_test(measures_what_is_seen),
        cmocka_unit_test(redraws_only_on_a_terminal),
        cmocka_unit_test(draws_what_fits),
        cmocka_unit_test(wraps_between_parts),
        cmocka_unit_test(suggests),
        cmocka_unit_test(escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
