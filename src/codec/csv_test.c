/* Rows and cells of traces as they come: quotes, line ends of two kinds, times of three. */
#include "codec/csv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void rows_are_split(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbfzone, price\r\n\n\"a, b\",1.25\r\nc";
    struct csv csv;
    csv_begin(&csv, text, strlen(text));
    assert_true(csv_next(&csv));
    assert_int_equal(csv_find(&csv, "zone"), 0); /* behind a byte order mark */
    assert_int_equal(csv_find(&csv, "price"), 1);
    assert_int_equal(csv_find(&csv, "kind"), UINT32_MAX);
    assert_true(csv_next(&csv));
    assert_int_equal(csv.line, 3); /* the empty one counts */
    assert_int_equal(csv.field_count, 2);
    assert_true(csv_is(&csv.fields[0], "a, b"));
    assert_true(csv_next(&csv));
    assert_int_equal(csv.field_count, 1);
    assert_false(csv_next(&csv));
}

static void quotes_keep_commas_line_ends_and_quotes(void **state)
{
    (void)state;
    static const char text[] = "a,b\n\"x, \"\"y\"\"\nz\", 5\" \n\"open,1\nrest";
    struct csv csv;
    char cell[32];
    csv_begin(&csv, text, strlen(text));
    assert_true(csv_next(&csv) && csv_next(&csv));
    assert_int_equal(csv.line, 2);
    assert_int_equal(csv.field_count, 2);
    assert_true(csv_copy(&csv.fields[0], cell, sizeof cell));
    assert_string_equal(cell, "x, \"y\"\nz");
    assert_true(csv_is(&csv.fields[0], cell));
    assert_false(csv_is(&csv.fields[0], "x, \"y\"\nz and more"));
    assert_true(csv_is(&csv.fields[1], "5\"")); /* not at its beginning: text */
    assert_false(csv_copy(&csv.fields[0], cell, 4));
    assert_string_equal(cell, "x, ");
    assert_true(csv_next(&csv)); /* a quote that nobody ends takes all */
    assert_int_equal(csv.line, 4);
    assert_int_equal(csv.field_count, 1);
    assert_true(csv_is(&csv.fields[0], "open,1\nrest"));
    assert_false(csv_next(&csv));
}

/* More cells than there is room for are counted; the text is not read beyond its end. */
static void rows_have_any_number_of_cells(void **state)
{
    (void)state;
    char text[2 * CSV_FIELDS_MAX + 20];
    memset(text, ',', sizeof text);
    struct csv csv;
    csv_begin(&csv, text, sizeof text);
    assert_true(csv_next(&csv));
    assert_int_equal(csv.field_count, sizeof text + 1);
    assert_int_equal(csv_find(&csv, "x"), UINT32_MAX);
    csv_begin(&csv, "\"", 1);
    assert_false(csv_next(&csv));
}

static bool time_of(const char *text, int64_t *ret_us)
{
    const struct csv_field field = {.text = text, .bytes = (uint32_t)strlen(text)};
    return csv_time_us(&field, ret_us);
}

static void times_are_of_the_calendar_or_seconds(void **state)
{
    (void)state;
    int64_t us = -1;
    assert_true(time_of("2020-03-01 00:00:01", &us));
    assert_int_equal(us, INT64_C(1583020801000000));
    assert_true(time_of("12.5", &us));
    assert_int_equal(us, 12500000);
    assert_false(time_of("2021-02-29", &us)); /* not the first of March */
    assert_false(time_of("2021-02-28T24:00:00Z", &us));
    assert_false(time_of("", &us));
}

static void fractions_finer_than_a_millionth_are_cut(void **state)
{
    (void)state;
    int64_t micros;
    const struct csv_field field = {.text = "0.12345678", .bytes = 10};
    assert_true(csv_micros(&field, &micros));
    assert_int_equal(micros, 123456);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_split),
        cmocka_unit_test(quotes_keep_commas_line_ends_and_quotes),
        cmocka_unit_test(rows_have_any_number_of_cells),
        cmocka_unit_test(times_are_of_the_calendar_or_seconds),
        cmocka_unit_test(fractions_finer_than_a_millionth_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
