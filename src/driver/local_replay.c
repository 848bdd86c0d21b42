#include "driver/local_replay.h"
#include "base/io.h"
#include "base/mem.h"
#include "codec/utc.h"
#include "codec/yaml.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 64, PRICE_COLUMNS = 4, AVAILABLE_COLUMNS = 4 };
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

/* One CSV file while it is read. Fields have no quotes in these formats; one is a mistake. */
struct csv {
    const char *file;
    char *at;
    uint32_t line, column_count;
    char *fields[COLUMNS_MAX];
};

/* Cuts the next line into fields; false at the end of the file. */
static bool csv_next(struct csv *csv)
{
    if (*csv->at == '\0') return false;
    char *start = csv->at, *end = start + strcspn(start, "\n");
    csv->at = *end == '\0' ? end : end + 1;
    *end = '\0';
    if (end > start && end[-1] == '\r') end[-1] = '\0';
    csv->line++;
    csv->column_count = 0;
    for (char *field = start; field != NULL && csv->column_count < COLUMNS_MAX;) {
        csv->fields[csv->column_count++] = field;
        field = strchr(field, ',');
        if (field != NULL) *field++ = '\0';
    }
    return true;
}

static bool csv_mistake(const struct csv *csv, const char *what, struct error *ret_error)
{
    return error_set(ret_error, "%s:%u: %s; repair the line or name another file under replay",
                     csv->file, csv->line, what);
}

static bool csv_columns(struct csv *csv, const char *const *names, uint32_t count,
                        uint32_t *ret_columns, struct error *ret_error)
{
    if (!csv_next(csv)) {
        csv->line = 1;
        return csv_mistake(csv, "the file is empty", ret_error);
    }
    for (uint32_t n = 0; n < count; n++) {
        uint32_t column = 0;
        while (column < csv->column_count && strcmp(csv->fields[column], names[n]) != 0) column++;
        if (column == csv->column_count) {
            char what[128];
            (void)snprintf(what, sizeof what, "the header has no column \"%s\"", names[n]);
            return csv_mistake(csv, what, ret_error);
        }
        ret_columns[n] = column;
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

static bool parse_count(const char *text, int64_t *ret_value)
{
    return yaml_parse_integer(text, ret_value) && *ret_value >= 0 && *ret_value <= INT32_MAX;
}

static bool read_price_row(struct csv *csv, const uint32_t *columns,
                           const struct local_scenario *scenario, struct local_replay *replay,
                           struct error *ret_error)
{
    for (uint32_t i = 0; i < PRICE_COLUMNS; i++)
        if (columns[i] >= csv->column_count)
            return csv_mistake(csv, "the line is cut short", ret_error);
    char name[LOCAL_SERIES_BYTES];
    (void)snprintf(name, sizeof name, "%.60s/%.60s", csv->fields[columns[0]],
                   csv->fields[columns[1]]);
    int64_t at_us, usd_micros;
    if (!utc_parse(csv->fields[columns[2]], &at_us))
        return csv_mistake(csv, "t_utc is not of the form 2020-01-31T12:00:00Z", ret_error);
    if (!yaml_parse_micros(csv->fields[columns[3]], &usd_micros) || usd_micros <= 0 ||
        usd_micros > PRICE_MAX_USD_MICROS)
        return csv_mistake(csv, "usd_per_hour is not a price between 0 and 1000", ret_error);
    for (uint32_t i = 0; i < scenario->offer_count; i++)
        if (strcmp(scenario->offers[i].price_series, name) == 0 &&
            !series_add(&replay->prices[i], at_us, usd_micros))
            return csv_mistake(csv, "out of memory, or too many rows", ret_error);
    return true;
}

static bool read_available_row(struct csv *csv, const uint32_t *columns,
                               const struct local_scenario *scenario, struct local_replay *replay,
                               struct error *ret_error)
{
    for (uint32_t i = 0; i < AVAILABLE_COLUMNS; i++)
        if (columns[i] >= csv->column_count)
            return csv_mistake(csv, "the line is cut short", ret_error);
    int64_t start, steps, value;
    if (!parse_count(csv->fields[columns[1]], &start) ||
        !parse_count(csv->fields[columns[2]], &steps) ||
        !parse_count(csv->fields[columns[3]], &value))
        return csv_mistake(csv, "start_step, n_steps and value must be whole numbers", ret_error);
    for (uint32_t i = 0; i < scenario->offer_count; i++)
        if (strcmp(scenario->offers[i].availability_series, csv->fields[columns[0]]) == 0 &&
            !series_add(&replay->available[i], start * scenario->replay_step_us, value))
            return csv_mistake(csv, "out of memory, or too many rows", ret_error);
    return true;
}

typedef bool row_fn(struct csv *csv, const uint32_t *columns, const struct local_scenario *scenario,
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
    struct csv csv = {.file = file, .at = text};
    uint32_t columns[4];
    bool good = csv_columns(&csv, names, 4, columns, ret_error);
    while (good && csv_next(&csv)) good = read_row(&csv, columns, scenario, replay, ret_error);
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
    static const char *const price_names[PRICE_COLUMNS] = {"zone", "instance_type", "t_utc",
                                                           "usd_per_hour"};
    static const char *const available_names[AVAILABLE_COLUMNS] = {"series_id", "start_step",
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
