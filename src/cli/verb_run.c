/* shoal run, shoal plan */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/plan_ncu.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

enum { JOB_FILE_BYTES_MAX = 1024 * 1024, KEY_BYTES = 33 };
#define HOUR_US 3600e6

static int64_t micros_of(double usd)
{
    return (int64_t)(usd * 1e6 + (usd < 0 ? -0.5 : 0.5));
}

/* "2x H100 spot aurora/east-a, 4x A10 …" */
static void add_lines(struct text *text, const json_t *option)
{
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(option, "lines"), i, line) text_add(
        text, "%s%" JSON_INTEGER_FORMAT "× %s %s %s", i == 0 ? "" : ", ", row_int(line, "nodes"),
        row_text(line, "model"), row_text(line, "kind"), row_text(line, "zone"));
}

/* "cheapest_mix" -> "cheapest mix" */
static const char *strategy_text(const json_t *option, char text[FORMAT_BYTES])
{
    (void)snprintf(text, FORMAT_BYTES, "%s", row_text(option, "strategy")); /* cut is fine */
    for (char *c = text; *c != '\0'; c++)
        if (*c == '_') *c = ' ';
    return text;
}

static bool is_possible(const json_t *option)
{
    return json_is_true(json_object_get(option, "possible"));
}

/* What it takes to bring the data of the job there. */
static void add_data(struct text *what, const json_t *option)
{
    char usd[FORMAT_BYTES], took[FORMAT_BYTES];
    double seconds = row_real(option, "staging_s"), egress = row_real(option, "egress_usd");
    if (seconds <= 0 && egress <= 0) return;
    text_add(what, "; data: %s of egress, %s", format_usd(usd, micros_of(egress), 2),
             format_duration(took, (int64_t)(seconds * 1e6)));
}

static void add_option(struct table *table, const json_t *option, bool is_chosen)
{
    char text[FORMAT_BYTES];
    struct text what = {0};
    double hours = row_real(option, "hours");
    if (!is_possible(option))
        text_add(&what, "%s", row_text(option, "text"));
    else
        add_lines(&what, option);
    add_data(&what, option);
    table_row_style(table, is_chosen ? TERM_GREEN : is_possible(option) ? TERM_PLAIN : TERM_DIM);
    table_cell(table, "%s", is_chosen ? "→" : "");
    table_cell(table, "%s", strategy_text(option, text));
    table_cell(table, "%s", row_text(option, "region"));
    table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(option, "devices"));
    table_cell(table, "%.1f", row_real(option, "ncu"));
    table_cell(table, "%s", format_usd(text, micros_of(row_real(option, "usd_per_hour")), 2));
    table_cell(table, "%s",
               hours > 0 ? format_duration(text, (int64_t)(hours * HOUR_US)) : "not known");
    table_cell(table, "%s",
               hours > 0 ? format_usd(text, micros_of(row_real(option, "usd")), 4) : "-");
    table_cell(table, "%s", text_get(&what));
    text_free(&what);
}

static bool print_options(const json_t *options, bool has_choice, const struct term *term,
                          struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"", TABLE_LEFT},         {"option", TABLE_LEFT}, {"region", TABLE_LEFT},
        {"devices", TABLE_RIGHT}, {"NCU", TABLE_RIGHT},   {"$/h", TABLE_RIGHT},
        {"time", TABLE_RIGHT},    {"total", TABLE_RIGHT}, {"made of", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    table_wrap(table);
    size_t i;
    json_t *option;
    json_array_foreach(options, i, option) add_option(table, option, has_choice && i == 0);
    bool ok = table_print(table, term, ret_error);
    table_close(table);
    return ok;
}

/* The next best that could run too: what the choice is measured against. NULL: none. */
static const json_t *runner_up(const json_t *options)
{
    for (size_t i = 1; i < json_array_size(options); i++)
        if (is_possible(json_array_get(options, i))) return json_array_get(options, i);
    return NULL;
}

static void print_why(const json_t *options, FILE *stream)
{
    char best_text[FORMAT_BYTES], other_text[FORMAT_BYTES], name[FORMAT_BYTES];
    const json_t *best = json_array_get(options, 0), *other = runner_up(options);
    double best_ncu = row_real(best, "ncu");
    fprintf(stream, "\n→ %s in %s: ", strategy_text(best, name), row_text(best, "region"));
    if (other == NULL) {
        fprintf(stream, "the only option that can run now\n");
        return;
    }
    double other_ncu = row_real(other, "ncu");
    double best_unit = best_ncu > 0 ? row_real(best, "usd_per_hour") / best_ncu : 0;
    double other_unit = other_ncu > 0 ? row_real(other, "usd_per_hour") / other_ncu : 0;
    fprintf(stream, "%s per NCU-hour with %.1f NCU; next best, %s in %s: %s with %.1f NCU\n",
            format_usd(best_text, micros_of(best_unit), 3), best_ncu, strategy_text(other, name),
            row_text(other, "region"), format_usd(other_text, micros_of(other_unit), 3), other_ncu);
}

static bool plan_print(const json_t *plan, const struct term *term, struct error *ret_error)
{
    const json_t *options = row_list(plan, "options");
    bool fits = strcmp(row_text(plan, "verdict"), "FITS") == 0;
    bool has_choice = fits && is_possible(json_array_get(options, 0));
    if (json_array_size(options) > 0 && !print_options(options, has_choice, term, ret_error))
        return false;
    if (!fits) return error_set(ret_error, "would be refused: %s", row_text(plan, "text"));
    if (has_choice)
        print_why(options, term->stream);
    else
        fprintf(term->stream, "\nwould be accepted and wait: nothing that fits is on offer now\n");
    fprintf(term->stream, "Nothing has been bought. Start it with: shoal run\n");
    return true;
}

static bool read_job_file(const char *path, char **ret_yaml, struct error *ret_error)
{
    size_t count;
    if (!io_read_file(path, JOB_FILE_BYTES_MAX, ret_yaml, &count, ret_error)) return false;
    if (strlen(*ret_yaml) == count) return true;
    mem_free(*ret_yaml);
    *ret_yaml = NULL;
    return error_set(ret_error, "%s: holds a 0 byte, so it is no YAML text", path);
}

/* The server calls every job "job.yaml"; the user knows it by its path. Always returns false. */
static bool name_file(const char *path, struct error *ret_error)
{
    static const char name[] = "job.yaml:";
    if (strncmp(ret_error->text, name, sizeof name - 1) != 0)
        return error_prefix(ret_error, "%s", path);
    struct error told = *ret_error;
    return error_set(ret_error, "%s:%.400s", path, told.text + sizeof name - 1);
}

static bool plan_job(struct client *client, const struct cli_args *args, const char *yaml,
                     struct error *ret_error)
{
    struct client_request request = {
        .method = "POST", .path = "/v1/plan", .body = yaml, .type = "application/yaml"};
    struct client_reply reply;
    if (!client_call(client, &request, &reply, ret_error))
        return name_file(args->words[0], ret_error);
    struct term term = term_open(stdout);
    json_t *plan = json_loads(reply.text, 0, NULL);
    bool ok = plan != NULL;
    if (!ok)
        (void)error_set(ret_error, "the server's plan is no JSON");
    else if (args->json)
        cli_print_raw(reply.text);
    else
        ok = plan_print(plan, &term, ret_error);
    json_decref(plan);
    client_reply_free(&reply);
    return ok;
}

int verb_plan(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    struct plan_ncu_options ncu = {0};
    const struct cli_flag flags[] = {
        {"--ncu", "N", "plan for N normalized compute units (A100-40GB = 1)", NULL, &ncu.ncu},
        {"--budget", "USD", "at most so many dollars an hour", NULL, &ncu.budget},
        {"--list", NULL, "by the list prices of the catalog", &ncu.by_list, NULL},
    };
    int code = cli_read(verb, argc, argv, flags, sizeof flags / sizeof flags[0], &args);
    if (code != CLI_GO_ON) return code;
    struct error error;
    if (ncu.ncu != NULL) return plan_ncu(&args, &ncu);
    if (args.word_count == 0) {
        (void)error_set(&error, "plan: name a job.yaml, or give --ncu N");
        (void)cli_fail(&error);
        return CLI_USAGE;
    }
    char *yaml = NULL;
    struct client *client = client_open(&args.client, &error);
    bool ok = client != NULL && read_job_file(args.words[0], &yaml, &error) &&
              plan_job(client, &args, yaml, &error);
    mem_free(yaml);
    client_close(client);
    return ok ? CLI_DONE : cli_fail(&error);
}

/* Price and finish time in two lines, before anything starts. */
static void print_short_plan(const json_t *plan)
{
    const json_t *option = json_array_get(json_object_get(plan, "options"), 0);
    if (option == NULL || !is_possible(option)) {
        printf("plan:   waits for capacity; nothing that fits is on offer now\n");
        return;
    }
    char rate[FORMAT_BYTES], total[FORMAT_BYTES], took[FORMAT_BYTES], clock[FORMAT_BYTES];
    struct text made = {0};
    double hours = row_real(option, "hours");
    int64_t took_us = (int64_t)(hours * HOUR_US);
    add_lines(&made, option);
    add_data(&made, option);
    printf("plan:   %s/h in %s: %s\n",
           format_usd(rate, micros_of(row_real(option, "usd_per_hour")), 2),
           row_text(option, "region"), text_get(&made));
    text_free(&made);
    if (hours > 0)
        printf("finish: in about %s, at %s, for about %s\n", format_duration(took, took_us),
               format_clock(clock, clock_wall_us() + took_us),
               format_usd(total, micros_of(row_real(option, "usd")), 4));
    else
        printf("finish: not known; the job does not say how long it takes "
               "(elastic.work_per_slot, or work.time)\n");
}

/* So that the second sending after a lost answer is the same submission. */
static bool make_key(char key[KEY_BYTES], struct error *ret_error)
{
    uint8_t bytes[(KEY_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set(ret_error, "the system gave no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(key + 2 * i, 3, "%02x", bytes[i]); /* fits */
    return true;
}

static bool submit(struct client *client, const char *yaml, struct client_reply *ret_reply,
                   struct error *ret_error)
{
    char key[KEY_BYTES];
    if (!make_key(key, ret_error)) return false;
    struct client_request request = {.method = "POST",
                                     .path = "/v1/jobs",
                                     .body = yaml,
                                     .type = "application/yaml",
                                     .idempotency_key = key};
    return client_call(client, &request, ret_reply, ret_error) ||
           (client_is_up(client) && client_call(client, &request, ret_reply, ret_error));
}

static bool run_job(struct client *client, const struct cli_args *args, const char *yaml,
                    bool detach, struct error *ret_error)
{
    if (!args->json) {
        json_t *plan = client_post(client, "/v1/plan", "application/yaml", yaml, ret_error);
        if (plan == NULL) return name_file(args->words[0], ret_error);
        bool fits = strcmp(row_text(plan, "verdict"), "FITS") == 0;
        if (fits)
            print_short_plan(plan);
        else
            (void)error_set(ret_error, "%s: refused: %s", args->words[0], row_text(plan, "text"));
        json_decref(plan);
        if (!fits) return false;
    }
    struct client_reply reply;
    if (!submit(client, yaml, &reply, ret_error)) return name_file(args->words[0], ret_error);
    json_t *answer = json_loads(reply.text, 0, NULL);
    int64_t job = row_int(answer, "job");
    if (args->json)
        cli_print_raw(reply.text);
    else
        printf("job %" PRId64 " (%s) is submitted\n", job, row_text(answer, "name"));
    (void)fflush(stdout); /* the number must be seen even if what follows is cut */
    json_decref(answer);
    client_reply_free(&reply);
    if (detach) return true;
    struct term term = term_open(args->json ? stderr : stdout);
    return follow_job(client, job, &term, ret_error);
}

int verb_run(const struct cli_verb *verb, int argc, char **argv)
{
    bool detach = false;
    const struct cli_flag flags[] = {
        {"--detach", NULL, "submit and return; the job goes on by itself", &detach, NULL}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, 1, &args);
    if (code != CLI_GO_ON) return code;
    struct error error;
    char *yaml = NULL;
    struct client *client = client_open(&args.client, &error);
    bool ok = client != NULL && read_job_file(args.words[0], &yaml, &error) &&
              run_job(client, &args, yaml, detach, &error);
    mem_free(yaml);
    client_close(client);
    return ok ? CLI_DONE : cli_fail(&error);
}
