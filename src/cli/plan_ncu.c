#include "cli/plan_ncu.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NCU_MILLI_MAX = 100000000 }; /* that the API takes */

/* "11", "2.5": thousandths or millionths exactly; false: no such number, or too many digits. */
static bool parse_scaled(const char *word, int digits, int64_t *ret_value)
{
    int64_t value = 0;
    const char *at = word;
    for (; *at >= '0' && *at <= '9' && value < 1000000000; at++) value = value * 10 + (*at - '0');
    if (at == word) return false;
    if (*at == '.') at++;
    for (int i = 0; i < digits; i++)
        value = value * 10 + (at[0] >= '0' && at[0] <= '9' ? *at++ - '0' : 0);
    *ret_value = value;
    return *at == '\0';
}

static void print_mix(const json_t *answer, const struct term *term)
{
    char price[FORMAT_BYTES], other[FORMAT_BYTES];
    json_int_t cost = row_int(answer, "usd_micros_per_hour");
    json_int_t single = row_int(answer, "single_usd_micros_per_hour");
    bool by_list = strcmp(row_text(answer, "source"), "list") == 0;
    fprintf(term->stream, "\n→ %.3f NCU for %s/h%s%s", (double)row_int(answer, "ncu_milli") / 1000,
            format_usd(price, cost, 2), by_list ? " at list prices" : " in ",
            by_list ? "" : row_text(answer, "region"));
    if (single > cost)
        fprintf(term->stream, "; with one type alone, %s: %s/h", row_text(answer, "single_model"),
                format_usd(other, single, 2));
    if (row_int(answer, "bound_usd_micros_per_hour") == cost)
        fprintf(term->stream, "\nNo mix is cheaper.\n");
    else
        fprintf(term->stream, "\nThe search was cut short; no mix is below %s/h.\n",
                format_usd(other, row_int(answer, "bound_usd_micros_per_hour"), 2));
}

static bool ncu_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"devices", TABLE_RIGHT}, {"model", TABLE_LEFT}, {"zone", TABLE_LEFT},
        {"kind", TABLE_LEFT},     {"NCU", TABLE_RIGHT},  {"$/h", TABLE_RIGHT},
    };
    char text[FORMAT_BYTES];
    size_t i;
    json_t *line;
    if (strcmp(row_text(answer, "verdict"), "FITS") != 0)
        return error_set(ret_error, "%s", row_text(answer, "text"));
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(row_list(answer, "lines"), i, line)
    {
        table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(line, "devices"));
        table_cell(table, "%s", row_text(line, "model"));
        table_cell(table, "%s", row_text(line, "zone")[0] != '\0' ? row_text(line, "zone") : "-");
        table_cell(table, "%s", row_text(line, "capacity"));
        table_cell(table, "%.3f", (double)row_int(line, "ncu_milli") / 1000);
        table_cell(table, "%s", format_usd(text, row_int(line, "usd_micros_per_hour"), 2));
    }
    bool ok = table_print(table, term, ret_error);
    table_close(table);
    if (ok) print_mix(answer, term);
    return ok;
}

int plan_ncu(const struct cli_args *args, const struct plan_ncu_options *options)
{
    struct error error;
    int64_t ncu_milli = 0, budget = 0;
    char path[160];
    if (args->word_count > 0) {
        (void)error_set(&error, "plan: give a job.yaml or --ncu, not both");
        (void)cli_fail(&error);
        return CLI_USAGE;
    }
    if (!parse_scaled(options->ncu, 3, &ncu_milli) || ncu_milli == 0 || ncu_milli > NCU_MILLI_MAX) {
        (void)error_set(&error,
                        "--ncu \"%.40s\": give a number above 0 like 11 or 2.5, at most 100000",
                        options->ncu);
        (void)cli_fail(&error);
        return CLI_USAGE;
    }
    if (options->budget != NULL && (!parse_scaled(options->budget, 6, &budget) || budget == 0)) {
        (void)error_set(&error, "--budget \"%.40s\": give dollars an hour like 25 or 20.80",
                        options->budget);
        (void)cli_fail(&error);
        return CLI_USAGE;
    }
    (void)snprintf(path, sizeof path,
                   "/v1/plan/ncu?ncu_milli=%lld&usd_micros_per_hour=%lld&list=%d",
                   (long long)ncu_milli, (long long)budget, options->by_list);
    return cli_show(args, path, ncu_print);
}
