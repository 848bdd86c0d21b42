#include "demo/watch.h"
#include "base/clock.h"
#include "cli/format.h"
#include <inttypes.h>
#include <string.h>

#define AWAY_US_MAX  INT64_C(30000000)
#define PLAIN_GAP_US INT64_C(5000000)
#define RATE_US      INT64_C(6000000) /* tokens/s are those of the last steps in this span */
enum { PATH_BYTES = 128, TOKENS_PER_SAMPLE = 64, PAGE = 10000 };

bool watch_open(struct watch *watch, struct client *client, struct record *record,
                const struct term *term, struct error *ret_error)
{
    *watch = (struct watch){.client = client,
                            .record = record,
                            .term = term,
                            .live = {.term = term},
                            .last_step = -1,
                            .heard_us = clock_monotonic_us()};
    watch->seen_workers = json_object();
    record->steps = json_array();
    record->decisions = json_array();
    if (watch->seen_workers != NULL && record->steps != NULL && record->decisions != NULL)
        return true;
    return error_set(ret_error, "no memory to follow the job");
}

void watch_close(struct watch *watch)
{
    if (watch->client == NULL) return; /* never opened */
    live_end(&watch->live);
    json_decref(watch->job_row);
    json_decref(watch->seen_workers);
    *watch = (struct watch){0};
}

static void print(struct watch *watch, struct text *line)
{
    if (line->count > 0) live_print(&watch->live, text_get(line));
    text_free(line);
}

void watch_tell(struct watch *watch, const char *sentence)
{
    struct text line = {0};
    int seconds = (int)record_seconds(watch->record, clock_wall_us());
    text_add(&line, "  %2d:%02d  %s! %s%s", seconds / 60, seconds % 60,
             term_style(watch->term, TERM_MAGENTA), sentence, term_style(watch->term, TERM_PLAIN));
    print(watch, &line);
}

static void take_decision(struct watch *watch, json_t *row)
{
    struct text line = {0};
    bool is_order =
        strcmp(row_text(row, "kind"), "buy") == 0 || strcmp(row_text(row, "kind"), "wait") == 0;
    watch->last_decision = row_int(row, "id");
    (void)json_array_append(watch->record->decisions, row); /* fetched again at the end */
    if (is_order && !watch->tells_orders) return;
    if (show_decision(row, watch->record, watch->term, &line)) print(watch, &line);
}

/* Tells workers that take part for the first time, the founders of the run excepted. */
static void take_workers(struct watch *watch, const json_t *step)
{
    bool is_first = json_object_size(watch->seen_workers) == 0;
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(step, "workers"), i, worker)
    {
        char key[32];
        struct text line = {0};
        (void)snprintf(key, sizeof key, "%" JSON_INTEGER_FORMAT, row_int(worker, "worker"));
        if (json_object_get(watch->seen_workers, key) != NULL) continue;
        (void)json_object_set_new(watch->seen_workers, key, json_true()); /* else told twice */
        if (is_first) continue;
        show_join(worker, record_seconds(watch->record, row_int(step, "t")), watch->term, &line);
        print(watch, &line);
    }
}

static void take_step(struct watch *watch, json_t *row)
{
    watch->last_step = row_int(row, "step");
    (void)json_array_append(watch->record->steps, row); /* fetched again at the end */
    take_workers(watch, row);
}

static json_t *fetch_decisions(struct watch *watch, struct error *ret_error)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/v1/decisions?after=%" JSON_INTEGER_FORMAT "&limit=%d",
                   watch->last_decision, PAGE); /* fits */
    return client_get(watch->client, path, ret_error);
}

static json_t *fetch_steps(struct watch *watch, struct error *ret_error)
{
    char path[PATH_BYTES], after[48] = "";
    if (watch->last_step >= 0)
        (void)snprintf(after, sizeof after, "&after=%" JSON_INTEGER_FORMAT, watch->last_step);
    (void)snprintf(path, sizeof path, "/v1/jobs/%" JSON_INTEGER_FORMAT "/progress?limit=%d%s",
                   watch->job, PAGE, after); /* fits */
    return client_get(watch->client, path, ret_error);
}

/* Both lists are in order of time; so is what is told. */
static void take_in_order(struct watch *watch, json_t *decisions, json_t *steps)
{
    size_t i = 0, j = 0;
    while (i < json_array_size(decisions) || j < json_array_size(steps)) {
        json_t *decision = json_array_get(decisions, i), *step = json_array_get(steps, j);
        bool is_step =
            decision == NULL || (step != NULL && row_int(step, "t") < row_int(decision, "t"));
        if (is_step)
            take_step(watch, step);
        else
            take_decision(watch, decision);
        i += !is_step;
        j += is_step;
    }
}

static bool fetch_news(struct watch *watch, struct error *ret_error)
{
    json_t *decisions = fetch_decisions(watch, ret_error);
    json_t *steps = decisions == NULL ? NULL : fetch_steps(watch, ret_error);
    bool ok = steps != NULL;
    if (ok)
        take_in_order(watch, json_object_get(decisions, "decisions"),
                      json_object_get(steps, "steps"));
    json_decref(decisions);
    json_decref(steps);
    return ok;
}

static bool fetch_job(struct watch *watch, struct error *ret_error)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/v1/jobs/%" JSON_INTEGER_FORMAT, watch->job); /* fits */
    json_t *row = client_get(watch->client, path, ret_error);
    if (row == NULL) return false;
    json_decref(watch->job_row);
    watch->job_row = row;
    return true;
}

static bool is_state(const struct watch *watch, const char *state)
{
    return strcmp(row_text(watch->job_row, "state"), state) == 0;
}

bool watch_is_done(const struct watch *watch)
{
    return is_state(watch, "done");
}

json_int_t watch_steps_done(const struct watch *watch)
{
    return watch->last_step + 1;
}

bool watch_look(struct watch *watch, struct error *ret_error)
{
    int64_t now_us = clock_monotonic_us();
    watch->is_away = !fetch_news(watch, ret_error) || !fetch_job(watch, ret_error);
    if (!watch->is_away) watch->heard_us = now_us;
    if (now_us - watch->heard_us > AWAY_US_MAX) return false;
    if (!is_state(watch, "failed") && !is_state(watch, "refused") && !is_state(watch, "cancelled"))
        return true;
    return error_set(ret_error, "the job %s: %s", row_text(watch->job_row, "state"),
                     row_text(watch->job_row, "last_text"));
}

/* Over the steps of the last RATE_US. */
static double tokens_per_s(const struct record *record)
{
    size_t count = json_array_size(record->steps), first = count;
    if (count < 2) return 0;
    int64_t last_us = row_int(json_array_get(record->steps, count - 1), "t");
    while (first > 0 && last_us - row_int(json_array_get(record->steps, first - 1), "t") < RATE_US)
        first--;
    int64_t span_us = last_us - row_int(json_array_get(record->steps, first), "t");
    double tokens = (double)(count - 1 - first) * (double)record->options.slots *
                    (double)record->options.samples_per_slot * TOKENS_PER_SAMPLE;
    return span_us > 0 ? tokens / (double)span_us * 1e6 : 0;
}

void watch_show(struct watch *watch)
{
    int64_t now_us = clock_monotonic_us();
    if (!watch->term->is_terminal && now_us - watch->shown_us < PLAIN_GAP_US) return;
    watch->shown_us = now_us;
    struct text line = {0};
    json_int_t done = watch_steps_done(watch);
    size_t count = json_array_size(watch->record->steps);
    struct show_progress progress = {
        .job = watch->job_row,
        .last = count == 0 ? NULL : json_array_get(watch->record->steps, count - 1),
        .tokens_per_s = tokens_per_s(watch->record),
        .left_us =
            follow_estimate_us(&watch->follow, now_us, done, (int64_t)watch->record->options.steps),
        .is_away = watch->is_away};
    show_progress_line(&progress, watch->record, &line);
    if (line.bytes != NULL) term_wrap(watch->term, line.bytes);
    live_show(&watch->live, text_get(&line));
    text_free(&line);
}

/* All rows of a paged call into a new array; `key` is the member that pages are asked by. */
static json_t *fetch_all(struct watch *watch, const char *path, const char *list, const char *key,
                         struct error *ret_error)
{
    json_t *all = json_array(), *answer;
    size_t count = PAGE;
    char page[PATH_BYTES * 2], after[48] = "";
    while (all != NULL && count == PAGE) {
        (void)snprintf(page, sizeof page, "%s?limit=%d%s", path, PAGE, after); /* fits */
        answer = client_get(watch->client, page, ret_error);
        const json_t *rows = row_list(answer, list);
        count = json_array_size(rows);
        bool ok = answer != NULL && json_array_extend(all, (json_t *)(uintptr_t)rows) == 0;
        if (ok && count > 0)
            (void)snprintf(after, sizeof after, "&after=%" JSON_INTEGER_FORMAT,
                           row_int(json_array_get(rows, count - 1), key)); /* fits */
        json_decref(answer);
        if (ok) continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

bool watch_collect(struct watch *watch, struct error *ret_error)
{
    struct record *record = watch->record;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/v1/jobs/%" JSON_INTEGER_FORMAT "/progress", watch->job);
    json_t *steps = fetch_all(watch, path, "steps", "step", ret_error);
    json_t *decisions = fetch_all(watch, "/v1/decisions", "decisions", "id", ret_error);
    json_t *entries = fetch_all(watch, "/v1/ledger", "entries", "id", ret_error);
    json_t *offers = client_get(watch->client, "/v1/offers", ret_error);
    if (steps == NULL || decisions == NULL || entries == NULL || offers == NULL ||
        !fetch_job(watch, ret_error)) {
        json_decref(steps);
        json_decref(decisions);
        json_decref(entries);
        json_decref(offers);
        return false;
    }
    json_decref(record->steps);
    json_decref(record->decisions);
    json_decref(record->entries);
    json_decref(record->offers);
    record->steps = steps;
    record->decisions = decisions;
    record->entries = entries;
    record->offers = json_incref(json_object_get(offers, "offers"));
    record->submitted_us = row_int(watch->job_row, "submitted_us");
    record->ended_us = row_int(watch->job_row, "ended_us");
    json_decref(offers);
    record_index(record);
    return true;
}
