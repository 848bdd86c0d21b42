#include "cli/market_record.h"
#include "base/clock.h"
#include "base/number.h"
#include "cli/market_log.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TELL_AGAIN_US INT64_C(60000000)

enum { EVENTS_AT_ONCE = 5000, SECONDS_MAX = 86400 };

struct recorder {
    const struct cli_args *args;
    struct market_log log;
    uint64_t journal, after; /* the events up to here are known */
    uint32_t skip;           /* rows of the event behind `after` that are recorded already */
    uint64_t skip_event;
    bool more, is_stuck; /* stuck: the record cannot be written */
};

/* Where the record's last row says that it is, as long as the server speaks of the same journal. */
static void take_place(struct recorder *r)
{
    const struct market_place *place = &r->log.place;
    r->journal = place->journal;
    r->after = place->event == 0 ? 0 : place->event - 1;
    r->skip = place->rows;
    r->skip_event = place->event;
}

/* Only what is for sale has a price to record. */
static bool is_recorded(const json_t *row)
{
    const char *kind = row_text(row, "capacity");
    return row_int(row, "usd_micros_per_hour") > 0 &&
           (strcmp(kind, "spot") == 0 || strcmp(kind, "on_demand") == 0);
}

/* Of several words about an offer at one moment the last one holds. */
static bool is_said_again(const json_t *rows, size_t at)
{
    const json_t *row = json_array_get(rows, at);
    for (size_t i = at + 1; i < json_array_size(rows); i++) {
        const json_t *later = json_array_get(rows, i);
        if (row_int(later, "t") != row_int(row, "t")) return false;
        if (row_int(later, "offer") == row_int(row, "offer")) return true;
    }
    return false;
}

static bool add_rows(struct recorder *r, const json_t *answer, struct error *ret_error)
{
    r->is_stuck = true;
    const json_t *rows = json_object_get(answer, "changes");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        uint64_t event = (uint64_t)row_int(row, "event");
        if (!is_recorded(row) || is_said_again(rows, i)) continue;
        if (event == r->skip_event && r->skip > 0) {
            r->skip--;
            continue;
        }
        const json_t *stock = json_object_get(row, "stock");
        const struct market_change change = {
            .zone = row_text(row, "zone"),
            .model = row_text(row, "model"),
            .kind = row_text(row, "capacity"),
            .provider = row_text(row, "provider"),
            .region = row_text(row, "region"),
            .at_us = row_int(row, "t"),
            .usd_micros_per_hour = row_int(row, "usd_micros_per_hour"),
            .stock = json_is_integer(stock) ? json_integer_value(stock) : -1,
            .devices = (uint32_t)row_int(row, "devices"),
            .event = event};
        if (!market_log_add(&r->log, r->journal, &change, ret_error)) return false;
    }
    r->is_stuck = !market_log_flush(&r->log, ret_error);
    return !r->is_stuck;
}

/* false: the answer is of another journal, and must be asked for anew from its beginning. */
static bool is_ours(struct recorder *r, const json_t *answer)
{
    uint64_t journal = (uint64_t)row_int(answer, "journal");
    uint64_t first = (uint64_t)row_int(answer, "first");
    bool is_same = journal == r->journal && (uint64_t)row_int(answer, "last") >= r->after;
    if (is_same && r->after > 0 && first > r->after + 1)
        fprintf(stderr,
                "shoal market record: events %" PRIu64 " to %" PRIu64 " are gone from the server's "
                "journal; changes between are missing in the record\n",
                r->after + 1, first - 1);
    if (!is_same && r->after > 0)
        fprintf(stderr, "shoal market record: the server has another journal than the record's "
                        "last rows; it is recorded from its beginning\n");
    if (is_same || r->after == 0) {
        r->journal = journal;
        return true;
    }
    r->journal = journal;
    r->after = 0;
    r->skip = 0;
    return false;
}

static bool take(struct recorder *r, struct error *ret_error)
{
    char path[128];
    struct client *client = client_open(&r->args->client, ret_error);
    if (client == NULL) return false;
    (void)snprintf(path, sizeof path, "/v1/market/changes?after=%" PRIu64 "&limit=%d", r->after,
                   EVENTS_AT_ONCE); /* fits */
    json_t *answer = client_get(client, path, ret_error);
    client_close(client);
    if (answer == NULL) return false;
    r->more = true;
    bool ok = true;
    if (is_ours(r, answer)) {
        ok = add_rows(r, answer, ret_error);
        r->after = (uint64_t)row_int(answer, "next");
        r->more = json_is_true(json_object_get(answer, "more"));
    }
    json_decref(answer);
    return ok;
}

static bool read_seconds(const char *flag, const char *text, double low, double *ret_seconds)
{
    if (text == NULL || number_read_real(text, low, SECONDS_MAX, ret_seconds)) return true;
    fprintf(stderr, "shoal market record: %s takes %g to %d seconds, not \"%s\"\n", flag, low,
            SECONDS_MAX, text);
    return false;
}

static void wait_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&left, NULL); /* a signal ends it sooner: one look more */
}

/* Until everything there is has been taken. */
static bool take_all(struct recorder *r, struct error *ret_error)
{
    do {
        if (!take(r, ret_error)) return false;
    } while (r->more);
    return true;
}

/* A server that is away is waited for, told once a minute, and given up after `wait_us`; a record that
 * cannot be written ends it. */
static bool follow(struct recorder *r, double seconds, int64_t wait_us, struct error *ret_error)
{
    int64_t seen_us = clock_monotonic_us(), told_us = 0;
    for (;; wait_seconds(seconds)) {
        bool ok = take_all(r, ret_error);
        int64_t now_us = clock_monotonic_us(), away_us = now_us - seen_us;
        if (!ok && r->is_stuck) return false;
        if (ok && told_us != 0) fprintf(stderr, "shoal market record: the server is back\n");
        if (ok) {
            seen_us = now_us;
            told_us = 0;
            continue;
        }
        if (away_us >= wait_us) {
            char why[sizeof ret_error->text];
            memcpy(why, ret_error->text, sizeof why);
            return error_set(ret_error,
                             "%s; gave up after %.0f s (--wait). What was recorded is kept, and the "
                             "same command goes on from there",
                             why, (double)away_us / 1e6);
        }
        if (told_us != 0 && now_us - told_us < TELL_AGAIN_US) continue;
        fprintf(stderr, "shoal market record: %s; waiting for it, %.0f s of %.0f s\n",
                ret_error->text, (double)away_us / 1e6, (double)wait_us / 1e6);
        told_us = now_us;
    }
}

static void tell(const struct recorder *r, bool json)
{
    const struct market_log *log = &r->log;
    if (json)
        printf("{\"recorded\":%" PRIu64 ",\"event\":%" PRIu64 ",\"journal\":%" PRIu64 "}\n",
               log->added, r->after, r->journal);
    else
        printf("%" PRIu64 " changes of prices or stock recorded%s%s\n", log->added,
               log->file[0] == '\0' ? "" : " to ", log->file);
}

int market_record(const struct cli_args *args, const struct market_record *wanted)
{
    struct error error;
    struct recorder r = {.args = args};
    double seconds = 10, wait_s = 600;
    if (!read_seconds("--every", wanted->every, 0.1, &seconds) ||
        !read_seconds("--wait", wanted->wait, 0, &wait_s))
        return CLI_USAGE;
    if (!market_log_open(&r.log, wanted->out, &error)) return cli_fail(&error);
    take_place(&r);
    bool ok = wanted->once ? take_all(&r, &error) : follow(&r, seconds, (int64_t)(wait_s * 1e6), &error);
    if (ok) tell(&r, args->json);
    market_log_close(&r.log);
    return ok ? CLI_DONE : cli_fail(&error);
}
