#include "cli/follow.h"
#include "base/clock.h"
#include "cli/format.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

#define AWAY_US_MAX  INT64_C(60000000) /* a restart with a long journal is shorter */
#define PLAIN_GAP_US INT64_C(2000000)
enum { LOOK_MS = 400 };

int64_t follow_estimate_us(struct follow *follow, int64_t now_us, int64_t step, int64_t steps)
{
    if (step <= 0 || steps <= 0) return -1;
    if (follow->first_us == 0) {
        follow->first_us = now_us;
        follow->first_step = step;
    }
    int64_t made = step - follow->first_step, took_us = now_us - follow->first_us;
    if (made <= 0 || took_us <= 0) return -1;
    return (steps - step) * (took_us / made);
}

/* "step 12/200 · loss 2.312 · 3,420 tokens/s · 8 of 12 devices · $14.20/h · spent $0.42 · 1 min
 * left" of a row of /v1/jobs/ID. */
static void add_line(struct follow *follow, const json_t *job, int64_t now_us,
                     struct text *ret_line)
{
    char text[FORMAT_BYTES];
    int64_t step = row_int(job, "step"), steps = row_int(job, "steps");
    int64_t left_us = follow_estimate_us(follow, now_us, step, steps);
    if (steps > 0)
        text_add(ret_line, "step %" PRId64 "/%" PRId64, step, steps);
    else
        text_add(ret_line, "%s", row_text(job, "state"));
    if (row_real(job, "loss") > 0) text_add(ret_line, " · loss %.3f", row_real(job, "loss"));
    if (row_real(job, "tokens_per_s") > 0)
        text_add(ret_line, " · %s tokens/s",
                 format_count(text, (int64_t)row_real(job, "tokens_per_s")));
    text_add(ret_line, " · %" PRId64 " of %" PRId64 " devices", (int64_t)row_int(job, "devices_up"),
             (int64_t)row_int(job, "devices_wanted"));
    text_add(ret_line, " · %s/h", format_usd(text, row_int(job, "usd_micros_per_hour"), 2));
    text_add(ret_line, " · spent %s", format_usd(text, row_int(job, "usd_micros"), 4));
    if (left_us >= 0) text_add(ret_line, " · %s left", format_duration(text, left_us));
}

static bool has_ended(const char *state)
{
    static const char *const ends[] = {"done", "failed", "cancelled", "refused"};
    for (uint32_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(state, ends[i]) == 0) return true;
    return false;
}

static bool tell_end(const json_t *row, struct live *live, struct error *ret_error)
{
    char spent[FORMAT_BYTES], took[FORMAT_BYTES], line[256];
    const char *state = row_text(row, "state");
    int64_t job = row_int(row, "job");
    live_clear(live);
    if (strcmp(state, "done") != 0)
        return error_set(ret_error,
                         "job %" PRId64 " %s: %s; see: shoal why %" PRId64 ", shoal logs %" PRId64,
                         job, strcmp(state, "cancelled") == 0 ? "was cancelled" : state,
                         row_text(row, "last_text"), job, job);
    (void)snprintf(line, sizeof line, "done: job %" PRId64 " took %s and cost %s", job,
                   format_duration(took, row_int(row, "ended_us") - row_int(row, "submitted_us")),
                   format_usd(spent, row_int(row, "usd_micros"), 4)); /* fits */
    live_print(live, line);
    return true;
}

struct watch {
    struct follow follow;
    int64_t heard_us, shown_us;
};

static void show(struct watch *watch, const json_t *row, struct live *live, int64_t now_us)
{
    bool is_due = live->term->is_terminal || now_us - watch->shown_us >= PLAIN_GAP_US;
    if (!is_due) return;
    struct text line = {0};
    add_line(&watch->follow, row, now_us, &line);
    if (line.bytes != NULL) term_wrap(live->term, line.bytes);
    live_show(live, text_get(&line));
    text_free(&line);
    watch->shown_us = now_us;
}

bool follow_job(struct client *client, int64_t job, const struct term *term,
                struct error *ret_error)
{
    struct live live = {.term = term};
    struct watch watch = {.heard_us = clock_monotonic_us()};
    char path[64];
    (void)snprintf(path, sizeof path, "/v1/jobs/%" PRId64, job); /* fits */
    for (;;) {
        json_t *row = client_get(client, path, ret_error);
        int64_t now_us = clock_monotonic_us();
        if (row != NULL) {
            bool is_over = has_ended(row_text(row, "state"));
            bool ok = is_over ? tell_end(row, &live, ret_error) : true;
            if (!is_over) show(&watch, row, &live, now_us);
            json_decref(row);
            if (is_over) return ok;
            watch.heard_us = now_us;
        } else if (now_us - watch.heard_us > AWAY_US_MAX) {
            live_end(&live);
            return error_prefix(ret_error, "job %" PRId64 " may still run", job);
        }
        struct timespec span = {.tv_nsec = LOOK_MS * 1000000L};
        (void)nanosleep(&span, NULL); /* cut short by a signal is fine */
    }
}
