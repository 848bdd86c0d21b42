/* shoal why, shoal logs */
#include "cli/format.h"
#include "cli/verbs.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { LOG_LINES_MAX = 1000, FOLLOW_PAUSE_MS = 300 };

static enum term_style style_of(const char *kind)
{
    static const struct {
        const char *kind;
        enum term_style style;
    } styles[] = {
        {"admit", TERM_GREEN},  {"buy", TERM_GREEN},   {"place", TERM_GREEN},
        {"finish", TERM_GREEN}, {"refuse", TERM_RED},  {"lost", TERM_RED},
        {"stall", TERM_RED},    {"wait", TERM_YELLOW}, {"drain", TERM_YELLOW},
    };
    for (uint32_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        if (strcmp(kind, styles[i].kind) == 0) return styles[i].style;
    return TERM_PLAIN;
}

/* "20:14:02  buy     H100 in aurora/east-a: cheapest offer that fits: $1.80/h …" */
static void print_decision(const json_t *row, const struct term *term)
{
    char clock[FORMAT_BYTES];
    const char *kind = row_text(row, "kind"), *model = row_text(row, "model");
    const char *zone = row_text(row, "zone");
    fprintf(term->stream, "%s  %s%-8s%s", format_clock(clock, row_int(row, "t")),
            term_style(term, style_of(kind)), kind, term_style(term, TERM_PLAIN));
    if (model[0] != '\0') fprintf(term->stream, "%s ", model);
    if (zone[0] != '\0') fprintf(term->stream, "in %s ", zone);
    if (row_int(row, "node") != 0)
        fprintf(term->stream, "(node %" JSON_INTEGER_FORMAT ") ", row_short(row, "node"));
    fprintf(term->stream, "%s\n", row_text(row, "text"));
}

/* One line of a stack: files of the program stand out, the address is gone already. */
static void print_frame(const char *frame, const struct term *term)
{
    fprintf(term->stream, "      %s%s%s\n", term_style(term, TERM_DIM), frame,
            term_style(term, TERM_PLAIN));
}

/* What holds the job up now, if anything does. */
static void print_stall(const json_t *stall, const struct term *term)
{
    if (!json_is_object(stall)) return;
    bool stalled = json_is_true(json_object_get(stall, "stalled"));
    const json_t *culprits = row_list(stall, "culprits");
    fprintf(term->stream, "%s%s%s  %s\n", term_style(term, stalled ? TERM_RED : TERM_YELLOW),
            stalled ? "STALLED" : "HELD UP", term_style(term, TERM_PLAIN), row_text(stall, "text"));
    size_t i, k;
    json_t *row, *frame;
    json_array_foreach(culprits, i, row)
    {
        if (strcmp(row_text(row, "text"), row_text(stall, "text")) != 0) /* said already */
            fprintf(term->stream, "  %s\n", row_text(row, "text"));
        json_array_foreach(json_object_get(row, "stack"), k, frame)
            print_frame(json_string_value(frame), term);
    }
    fprintf(term->stream, "\n");
}

/* When devices come free for it, if it waits for them and their jobs' run times are known. */
static void print_next(const json_t *next, const struct term *term)
{
    char clock[FORMAT_BYTES];
    if (!json_is_object(next)) return;
    fprintf(term->stream, "next expected free %s%s%s %s\n", term_style(term, TERM_GREEN),
            format_clock(clock, row_int(next, "t")), term_style(term, TERM_PLAIN),
            row_text(next, "text"));
}

static void print_deadline(const json_t *deadline, const struct term *term)
{
    if (json_is_object(deadline)) fprintf(term->stream, "%s\n", row_text(deadline, "text"));
}

/* What would let it start now: the scheduler's own answer, see core/explain.h. One change each. */
static void print_wishes(const json_t *wishes, const struct term *term)
{
    size_t i;
    json_t *row;
    if (json_array_size(wishes) == 0) return;
    fprintf(term->stream, "%swould start now%s", term_style(term, TERM_GREEN),
            term_style(term, TERM_PLAIN));
    json_array_foreach(wishes, i, row)
        fprintf(term->stream, "%s %s", i == 0 ? "" : ", or", row_text(row, "words"));
    fprintf(term->stream, "\n");
}

/* Where its work runs how fast, if that is told apart by more than NCU. */
static void print_rates(const json_t *rates, const struct term *term)
{
    size_t i;
    json_t *row;
    if (json_array_size(rates) == 0) return;
    fprintf(term->stream, "runs at\n");
    json_array_foreach(rates, i, row) fprintf(term->stream, "  %s\n", row_text(row, "text"));
}

/* The API gives the newest first; a story is read from its beginning. */
static bool why_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    (void)ret_error;                                     /* nothing here can fail */
    print_stall(json_object_get(answer, "stall"), term); /* first: it is why one asks */
    const json_t *decisions = row_list(answer, "decisions");
    size_t count = json_array_size(decisions);
    for (size_t i = count; i > 0; i--) print_decision(json_array_get(decisions, i - 1), term);
    if (count == 0) fprintf(term->stream, "nothing has been decided about this job yet\n");
    print_deadline(json_object_get(answer, "deadline"), term);
    print_next(json_object_get(answer, "next_free"), term);
    print_wishes(row_list(answer, "wishes"), term);
    print_rates(row_list(answer, "rates"), term);
    return true;
}

static int show_of_job(const struct cli_args *args, const char *what, cli_print_fn *print)
{
    struct error error;
    int64_t job = 0;
    struct client *client = client_open(&args->client, &error);
    bool ok = client != NULL && cli_find_job(client, args->words[0], &job, &error);
    client_close(client);
    if (!ok) return cli_fail(&error);
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/jobs/%" PRId64 "/%s", job, what); /* fits */
    return cli_show(args, path, print);
}

int verb_why(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    if (code != CLI_GO_ON) return code;
    return show_of_job(&args, "why", why_print);
}

static void print_lines(const json_t *lines, const struct term *term)
{
    char clock[FORMAT_BYTES];
    size_t i;
    json_t *row;
    json_array_foreach(lines, i, row) fprintf(
        term->stream, "%s%s n%" JSON_INTEGER_FORMAT " w%" JSON_INTEGER_FORMAT "%s %s\n",
        term_style(term, TERM_DIM), format_clock(clock, row_int(row, "t")), row_short(row, "node"),
        row_short(row, "worker"), term_style(term, TERM_PLAIN), row_text(row, "line"));
    (void)fflush(term->stream); /* a closed pipe ends us by its signal */
}

static bool job_is_over(struct client *client, int64_t job)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/v1/jobs/%" PRId64, job); /* fits */
    json_t *row = client_get(client, path, NULL);
    bool is_over = row != NULL && row_int(row, "ended_us") > 0;
    json_decref(row);
    return is_over;
}

static void pause_ms(long ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&span, NULL); /* cut short by a signal is fine */
}

/* All lines there are; with `follow` on until the job has ended and its last line is printed. */
static bool print_logs(struct client *client, int64_t job, bool follow, struct error *ret_error)
{
    struct term term = term_open(stdout);
    json_int_t after = 0;
    bool was_over = false;
    for (;;) {
        char path[128];
        (void)snprintf(path, sizeof path,
                       "/v1/jobs/%" PRId64 "/logs?after=%" JSON_INTEGER_FORMAT "&limit=%d", job,
                       after, LOG_LINES_MAX); /* fits */
        json_t *answer = client_get(client, path, ret_error);
        if (answer == NULL) return false;
        const json_t *lines = row_list(answer, "lines");
        size_t count = json_array_size(lines);
        print_lines(lines, &term);
        if (count > 0) after = row_int(answer, "next");
        json_decref(answer);
        if (count > 0) continue;
        if (!follow || was_over) return true;
        was_over = job_is_over(client, job);
        if (!was_over) pause_ms(FOLLOW_PAUSE_MS);
    }
}

int verb_logs(const struct cli_verb *verb, int argc, char **argv)
{
    bool follow = false;
    const struct cli_flag flags[] = {
        {"--follow", NULL, "go on until the job has ended", &follow, NULL}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, 1, &args);
    if (code != CLI_GO_ON) return code;
    if (args.json) return show_of_job(&args, "logs", NULL /* never printed as a table */);
    struct error error;
    int64_t job = 0;
    struct client *client = client_open(&args.client, &error);
    bool ok = client != NULL && cli_find_job(client, args.words[0], &job, &error) &&
              print_logs(client, job, follow, &error);
    client_close(client);
    return ok ? CLI_DONE : cli_fail(&error);
}
