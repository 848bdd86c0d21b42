#include "whatif/series.h"
#include "base/mem.h"
#include "whatif/rows.h"
#include <inttypes.h>
#include <string.h>

#define PRICE_MAX_USD_MICROS INT64_C(10000000000)

/* One pass over the rows that are picked. */
struct reading {
    struct rows rows;
    uint32_t time, value, length;
};

static bool begin(struct reading *r, const char *text, size_t bytes)
{
    const struct series_query *q = r->rows.q;
    return rows_begin(&r->rows, text, bytes) && rows_column(&r->rows, q->time, &r->time) &&
           rows_column(&r->rows, q->value, &r->value) &&
           rows_column(&r->rows, q->length, &r->length);
}

static bool wrong(struct reading *r, const char *what, const struct csv_field *field)
{
    return rows_wrong(&r->rows, what, field);
}

/* The next row that is picked; false at the end, or after a mistake (error is set then). */
static bool next(struct reading *r, bool *ret_good)
{
    *ret_good = true;
    while (rows_next(&r->rows)) {
        uint32_t need[] = {r->time, r->value, r->length};
        for (uint32_t i = 0; i < sizeof need / sizeof need[0]; i++)
            if (need[i] != UINT32_MAX && need[i] >= r->rows.csv.field_count) {
                *ret_good = error_set(r->rows.error, "%s:%u: a row of %u fields, the head has more",
                                      r->rows.q->file, r->rows.csv.line, r->rows.csv.field_count);
                return false;
            }
        return true;
    }
    return false;
}

static bool read_time(struct reading *r, int64_t *ret_us)
{
    const struct csv_field *field = &r->rows.csv.fields[r->time];
    bool counts = r->length != UINT32_MAX;
    if (!(counts ? csv_integer(field, ret_us) : csv_time_us(field, ret_us)))
        return wrong(r, "a time is a date, a date and a time, or seconds", field);
    if (*ret_us < 0) return wrong(r, "a time is not before the beginning", field);
    if (counts && *ret_us > ROWS_TIME_MAX_US / r->rows.q->step_us)
        return wrong(r, "a step is before the year 2100", field);
    if (counts) *ret_us *= r->rows.q->step_us;
    return *ret_us <= ROWS_TIME_MAX_US || wrong(r, "a time is before the year 2100", field);
}

static bool read_value(struct reading *r, int64_t *ret_value)
{
    const struct csv_field *field = &r->rows.csv.fields[r->value];
    if (!r->rows.q->is_price) {
        if (!csv_integer(field, ret_value) || *ret_value < 0 || *ret_value > ROWS_NODES_MAX)
            return wrong(r, "nodes to be had are a number from 0", field);
        return true;
    }
    if (!csv_micros(field, ret_value) || *ret_value > PRICE_MAX_USD_MICROS)
        return wrong(r, "a price is dollars an hour, at most 10000", field);
    if (*ret_value <= 0) return wrong(r, "a price is above 0", field);
    *ret_value = *ret_value / 1000 * (r->rows.q->scale_ppm / 1000);
    return *ret_value > 0 || wrong(r, "a price is above 0 also after scaling", field);
}

/* A run ends where the next begins; what is between is a gap. seen_us: of the row before, -1: none. */
static bool check_order(struct reading *r, int64_t at_us, int64_t seen_us, int64_t end_us)
{
    const struct csv_field *field = &r->rows.csv.fields[r->time];
    if (seen_us < 0) return true;
    if (at_us < seen_us) return wrong(r, "times do not go back", field);
    if (r->length != UINT32_MAX && at_us < end_us) return wrong(r, "runs do not overlap", field);
    int64_t gap_us = at_us - (r->length != UINT32_MAX ? end_us : seen_us);
    if (r->rows.q->gap_max_us > 0 && gap_us > r->rows.q->gap_max_us)
        return error_set(r->rows.error,
                         "%s:%u: nothing is known of the %" PRId64 " s before it; raise gap_max",
                         r->rows.q->file, r->rows.csv.line, gap_us / 1000000);
    return true;
}

static bool add_step(struct reading *r, struct series *s, uint32_t *room, struct step step)
{
    if (s->count > 0 && s->steps[s->count - 1].at_us == step.at_us) {
        s->steps[s->count - 1].value = step.value; /* two at one time: the later line holds */
        return true;
    }
    if (s->count > 0 && s->steps[s->count - 1].value == step.value) return true; /* said again */
    void *steps = s->steps;
    bool good = rows_grow(&steps, s->count, room, sizeof step, r->rows.error);
    s->steps = steps;
    if (good) s->steps[s->count++] = step;
    return good;
}

static bool read_steps(struct reading *r, struct series *s)
{
    uint32_t room = 0;
    int64_t end_us = 0, seen_us = -1;
    bool good;
    while (next(r, &good)) {
        struct step step;
        int64_t runs = 0;
        if (!read_time(r, &step.at_us) || !read_value(r, &step.value)) return false;
        if (r->length != UINT32_MAX &&
            (!csv_integer(&r->rows.csv.fields[r->length], &runs) || runs <= 0 || runs > ROWS_NODES_MAX))
            return wrong(r, "a run has a length above 0", &r->rows.csv.fields[r->length]);
        if (!check_order(r, step.at_us, seen_us, end_us)) return false;
        seen_us = step.at_us;
        end_us = step.at_us + runs * r->rows.q->step_us;
        if (!add_step(r, s, &room, step)) return false;
    }
    return good;
}

/* The step that holds at `from_us` becomes the first, at 0. */
static void cut(struct series *s, int64_t from_us)
{
    uint32_t first = 0;
    while (first + 1 < s->count && s->steps[first + 1].at_us <= from_us) first++;
    memmove(s->steps, s->steps + first, (s->count - first) * sizeof s->steps[0]);
    s->count -= first;
    for (uint32_t i = 0; i < s->count; i++) s->steps[i].at_us -= from_us;
    s->steps[0].at_us = 0;
}

bool series_read(const struct series_query *query, const char *text, size_t bytes,
                 struct series *ret_series, struct error *ret_error)
{
    struct reading r = {.rows = {.q = query, .error = ret_error}};
    *ret_series = (struct series){0};
    bool good = begin(&r, text, bytes) && read_steps(&r, ret_series);
    if (good && ret_series->count == 0) {
        const struct series_pick *pick = &query->picks[0];
        good = query->pick_count > 0
                   ? error_set(ret_error, "%s: no row has \"%s\" in its column \"%s\"%s",
                               query->file, pick->word, pick->column,
                               query->pick_count > 1 ? " and what else was picked" : "")
                   : error_set(ret_error, "%s: has no rows", query->file);
    }
    if (good) {
        cut(ret_series, query->from_us);
        return true;
    }
    series_free(ret_series);
    return false;
}

void series_free(struct series *series)
{
    mem_free(series->steps);
    *series = (struct series){0};
}
