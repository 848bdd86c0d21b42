/* shoal jobs, shoal cancel */
#include "base/mem.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include <inttypes.h>
#include <string.h>

static enum term_style style_of(const char *state)
{
    if (strcmp(state, "running") == 0) return TERM_GREEN;
    if (strcmp(state, "failed") == 0 || strcmp(state, "refused") == 0) return TERM_RED;
    if (strcmp(state, "queued") == 0 || strcmp(state, "starting") == 0) return TERM_YELLOW;
    return TERM_PLAIN;
}

static void add_job(struct table *table, const json_t *row)
{
    char spent[FORMAT_BYTES], rate[FORMAT_BYTES];
    table_row_style(table, style_of(row_text(row, "state")));
    table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(row, "job"));
    table_cell(table, "%s", row_text(row, "name"));
    table_cell(table, "%s", row_text(row, "class"));
    table_cell(table, "%s", row_text(row, "state"));
    if (row_int(row, "steps") > 0)
        table_cell(table, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT, row_int(row, "step"),
                   row_int(row, "steps"));
    else
        table_cell(table, "-");
    table_cell(table, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT, row_int(row, "devices_up"),
               row_int(row, "devices_wanted"));
    table_cell(table, "%s", row_text(row, "region"));
    table_cell(table, "%s", format_usd(rate, row_int(row, "usd_micros_per_hour"), 2));
    table_cell(table, "%s", format_usd(spent, row_int(row, "usd_micros"), 4));
    table_cell(table, "%s", row_text(row, "last_text"));
}

static bool jobs_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"job", TABLE_RIGHT},          {"name", TABLE_LEFT},  {"class", TABLE_LEFT},
        {"state", TABLE_LEFT},         {"step", TABLE_RIGHT}, {"devices", TABLE_RIGHT},
        {"region", TABLE_LEFT},        {"$/h", TABLE_RIGHT},  {"spent", TABLE_RIGHT},
        {"last decision", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "jobs"), i, row) add_job(table, row);
    return table_finish(table, term, "no jobs yet; submit one with: shoal run job.yaml", ret_error);
}

int verb_jobs(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    if (code != CLI_GO_ON) return code;
    return cli_show(&args, "/v1/jobs", jobs_print);
}

static bool cancel_job(struct client *client, const struct cli_args *args, struct error *ret_error)
{
    int64_t job;
    if (!cli_find_job(client, args->words[0], &job, ret_error)) return false;
    char path[96], done[96];
    (void)snprintf(path, sizeof path, "/v1/jobs/%" PRId64 "/cancel", job); /* both fit */
    (void)snprintf(done, sizeof done,
                   "job %" PRId64 " is being cancelled; its workers hand over and leave", job);
    return cli_post(client, args, path, done, ret_error);
}

int verb_cancel(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    return code != CLI_GO_ON ? code : cli_call(&args, cancel_job);
}
