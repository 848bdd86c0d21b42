#include "driver/local_replay.h"
#include "base/io.h"
#include "base/mem.h"
#include "codec/csv.h"
#include "codec/utc.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 4 }; /* of either file */
#define PRICE_MAX_USD_MICROS INT64_C(1000000000) /* as in local_scenario: $1000 an hour */

struct row {
    int64_t at_us; /* prices: since 1970, later since the trace's start; availability likewise */
    int64_t value;
};

struct series {
    struct row *rows;
    uint32_t count, room;
};

struct local_replay {
    struct series prices[LOCAL_OFFERS_MAX], available[LOCAL_OFFERS_MAX];
};

/* One CSV file while it is read. */
struct reading {
    const char *file;
    struct csv csv;
    uint32_t columns[COLUMNS];
};

static bool mistake(const struct reading *r, const char *what, struct error *ret_error)
{
    return error_set(ret_error, "%s:%u: %s; repair the line or name another file under replay",
                     r->file, r->csv.line, what);
}

static bool find_columns(struct reading *r, const char *const *names, struct error *ret_error)
{
    if (!csv_next(&r->csv)) {
        r->csv.line = 1;
        return mistake(r, "the file is empty", ret_error);
    }
    for (uint32_t n = 0; n < COLUMNS; n++) {
        char what[128];
        r->columns[n] = csv_find(&r->csv, names[n]);
        (void)snprintf(what, sizeof what, "the header has no column \"%s\"", names[n]);
        if (r->columns[n] == UINT32_MAX) return mistake(r, what, ret_error);
    }
    return true;
}

/* The four cells of the row; false: there are not so many. */
static bool cells_of(const struct reading *r, const struct csv_field *ret_cells[COLUMNS])
{
    for (uint32_t i = 0; i < COLUMNS; i++) {
        if (r->columns[i] >= r->csv.field_count) return false;
        ret_cells[i] = &r->csv.fields[r->columns[i]];
    }
    return true;
}

static bool series_add(struct series *series, int64_t at_us, int64_t value)
{
    if (series->count == series->room) {
        if (series->room >= LOCAL_REPLAY_ROWS_MAX) return false;
        uint32_t room = series->room == 0 ? 64 : 2 * series->room;
        struct row *rows = mem_realloc(series->rows, room * sizeof *rows);
        if (rows == NULL) return false;
        series->rows = rows;
        series->room = room;
    }
    series->rows[series->count++] = (struct row){at_us, value};
    return true;
}

static bool read_count(const struct csv_field *cell, int64_t *ret_value)
{
    return csv_integer(cell, ret_value) && *ret_value >= 0 && *ret_value <= INT32_MAX;
}

static bool read_price_row(const struct reading *r, const struct local_scenario *scenario,
                           struct local_replay *replay, struct error *ret_error)
{
    const struct csv_field *cells[COLUMNS];
    char zone[61], type[61], time[32], name[LOCAL_SERIES_BYTES];
    int64_t at_us, usd_micros;
    if (!cells_of(r, cells)) return mistake(r, "the line is cut short", ret_error);
    bool fits = csv_copy(cells[0], zone, sizeof zone) && csv_copy(cells[1], type, sizeof type);
    (void)snprintf(name, sizeof name, "%s/%s", zone, type);
    if (!csv_copy(cells[2], time, sizeof time) || !utc_parse(time, &at_us))
        return mistake(r, "t_utc is not of the form 2020-01-31T12:00:00Z", ret_error);
    if (!csv_micros(cells[3], &usd_micros) || usd_micros <= 0 || usd_micros > PRICE_MAX_USD_MICROS)
        return mistake(r, "usd_per_hour is not a price between 0 and 1000", ret_error);
    for (uint32_t i = 0; i < scenario->offer_count; i++)
        if (fits && strcmp(scenario->offers[i].price_series, name) == 0 &&
            !series_add(&replay->prices[i], at_us, usd_micros))
            return mistake(r, "out of memory, or too many rows", ret_error);
    return true;
}

static bool read_available_row(const struct reading *r, const struct local_scenario *scenario,
                               struct local_replay *replay, struct error *ret_error)
{
    const struct csv_field *cells[COLUMNS];
    int64_t start, steps, value;
    if (!cells_of(r, cells)) return mistake(r, "the line is cut short", ret_error);
    if (!read_count(cells[1], &start) || !read_count(cells[2], &steps) ||
        !read_count(cells[3], &value))
        return mistake(r, "start_step, n_steps and value must be whole numbers", ret_error);
    for (uint32_t i = 0; i < scenario->offer_count; i++)
        if (scenario->offers[i].availability_series[0] != '\0' &&
            csv_is(cells[0], scenario->offers[i].availability_series) &&
            !series_add(&replay->available[i], start * scenario->replay_step_us, value))
            return mistake(r, "out of memory, or too many rows", ret_error);
    return true;
}

typedef bool row_fn(const struct reading *r, const struct local_scenario *scenario,
                    struct local_replay *replay, struct error *ret_error);

static bool read_file(const char *file, const char *const *names, row_fn *read_row,
                      const struct local_scenario *scenario, struct local_replay *replay,
                      struct error *ret_error)
{
    if (file[0] == '\0') return true;
    char *text;
    size_t bytes;
    if (!io_read_file(file, LOCAL_REPLAY_FILE_BYTES_MAX, &text, &bytes, ret_error))
        return error_prefix(ret_error, "replay");
    struct reading r = {.file = file};
    csv_begin(&r.csv, text, bytes);
    bool good = find_columns(&r, names, ret_error);
    while (good && csv_next(&r.csv)) good = read_row(&r, scenario, replay, ret_error);
    mem_free(text);
    return good;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->at_us != y->at_us) return x->at_us < y->at_us ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Sorts, and moves the origin of all series together: zones of one trace share a clock. */
static void align(struct series *all, uint32_t count)
{
    int64_t first_us = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].count == 0) continue;
        qsort(all[i].rows, all[i].count, sizeof all[i].rows[0], compare_rows);
        if (all[i].rows[0].at_us < first_us) first_us = all[i].rows[0].at_us;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < all[i].count; r++) all[i].rows[r].at_us -= first_us;
}

static bool check_found(const struct local_scenario *s, const struct local_replay *replay,
                        struct error *ret_error)
{
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct local_offer *offer = &s->offers[i];
        if (offer->price_series[0] != '\0' && replay->prices[i].count == 0)
            return error_set(ret_error,
                             "%s: no row of the series \"%s\"; price_series is ZONE/TYPE of the "
                             "file",
                             s->price_file, offer->price_series);
        if (offer->availability_series[0] != '\0' && replay->available[i].count == 0)
            return error_set(ret_error,
                             "%s: no row of the series \"%s\"; availability_series is a series_id "
                             "of the file",
                             s->availability_file, offer->availability_series);
    }
    return true;
}

struct local_replay *local_replay_open(const struct local_scenario *scenario,
                                       struct error *ret_error)
{
    static const char *const price_names[COLUMNS] = {"zone", "instance_type", "t_utc",
                                                           "usd_per_hour"};
    static const char *const available_names[COLUMNS] = {"series_id", "start_step",
                                                                   "n_steps", "value"};
    struct local_replay *replay = mem_zalloc(1, sizeof *replay);
    if (replay == NULL) {
        (void)error_set(ret_error, "replay: out of memory");
        return NULL;
    }
    if (read_file(scenario->price_file, price_names, read_price_row, scenario, replay, ret_error) &&
        read_file(scenario->availability_file, available_names, read_available_row, scenario,
                  replay, ret_error) &&
        check_found(scenario, replay, ret_error)) {
        align(replay->prices, scenario->offer_count);
        align(replay->available, scenario->offer_count);
        return replay;
    }
    local_replay_close(replay);
    return NULL;
}

void local_replay_close(struct local_replay *replay)
{
    if (replay == NULL) return;
    for (uint32_t i = 0; i < LOCAL_OFFERS_MAX; i++) {
        mem_free(replay->prices[i].rows);
        mem_free(replay->available[i].rows);
    }
    mem_free(replay);
}

/* The last row at or before trace_us; the first one before it. */
static int64_t value_at(const struct series *series, int64_t trace_us)
{
    if (series->count == 0) return -1;
    uint32_t low = 0, high = series->count; /* rows below low are at or before trace_us */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (series->rows[middle].at_us <= trace_us)
            low = middle + 1;
        else
            high = middle;
    }
    return series->rows[low == 0 ? 0 : low - 1].value;
}

int64_t local_replay_price(const struct local_replay *replay, uint32_t offer_index,
                           int64_t trace_us)
{
    return value_at(&replay->prices[offer_index], trace_us);
}

int64_t local_replay_available(const struct local_replay *replay, uint32_t offer_index,
                               int64_t trace_us)
{
    return value_at(&replay->available[offer_index], trace_us);
}
