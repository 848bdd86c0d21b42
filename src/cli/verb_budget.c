/* shoal budget */
#include "cli/format.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include <stdio.h>
#include <string.h>

static void add_money(struct table *table, const json_t *amount, const char *key)
{
    char text[FORMAT_BYTES];
    if (json_object_get(amount, key) == NULL)
        table_cell(table, "-");
    else
        table_cell(table, "%s", format_usd(text, row_int(amount, key), 4));
}

/* One line for each period that has a limit or in which something was spent. */
static void add_amount(struct table *table, const json_t *row, const char *what,
                       const json_t *amount)
{
    bool limited = json_object_get(amount, "limit_usd_micros") != NULL;
    json_int_t left = row_int(amount, "left_usd_micros");
    json_int_t taken = row_int(amount, "used_usd_micros") + row_int(amount, "reserved_usd_micros");
    if (!limited && taken == 0) return;
    if (limited && left == 0) table_row_style(table, TERM_RED);
    table_cell(table, "%s", row_text(row, "of"));
    table_cell(table, "%s", row_text(row, "name"));
    table_cell(table, "%s", what);
    add_money(table, amount, "used_usd_micros");
    add_money(table, amount, "reserved_usd_micros");
    add_money(table, amount, "limit_usd_micros");
    add_money(table, amount, "left_usd_micros");
}

static void add_job_limit(struct table *table, const json_t *row, const json_t *bought)
{
    if (json_object_get(bought, "job_limit_usd_micros") == NULL) return;
    table_cell(table, "%s", row_text(row, "of"));
    table_cell(table, "%s", row_text(row, "name"));
    table_cell(table, "bought by a job");
    table_cell(table, "-");
    table_cell(table, "-");
    add_money(table, bought, "job_limit_usd_micros");
    table_cell(table, "-");
}

static bool budget_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"of", TABLE_LEFT},     {"name", TABLE_LEFT},       {"dollars", TABLE_LEFT},
        {"spent", TABLE_RIGHT}, {"set aside", TABLE_RIGHT}, {"limit", TABLE_RIGHT},
        {"left", TABLE_RIGHT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "budgets"), i, row)
    {
        const json_t *bought = json_object_get(row, "bought");
        add_amount(table, row, "an hour, now", json_object_get(row, "hour"));
        add_amount(table, row, "this day", json_object_get(row, "day"));
        add_amount(table, row, "this month", json_object_get(row, "month"));
        add_amount(table, row, "bought an hour, now", json_object_get(bought, "hour"));
        add_amount(table, row, "bought this month", json_object_get(bought, "month"));
        add_job_limit(table, row, bought);
    }
    return table_finish(table, term,
                        "nothing was spent, and no limits or gates are given in shoal.yaml",
                        ret_error);
}

int verb_budget(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    if (code != CLI_GO_ON) return code;
    return cli_show(&args, "/v1/budget", budget_print);
}
