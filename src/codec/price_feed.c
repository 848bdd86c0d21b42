#include "base/mem.h"
#include "codec/price_feed_rows.h"
#include "codec/utc.h"
#include "codec/utf8_mark.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 256 };
#define USD_MICROS_MAX INT64_C(10000000000)

const char *feed_format_name(enum feed_format format)
{
    static const char *const names[] = {[FEED_AWS] = "AWS spot price history",
                                        [FEED_AZURE] = "Azure retail prices",
                                        [FEED_GCP] = "Google catalog of SKUs",
                                        [FEED_CSV] = "CSV"};
    return names[format];
}

/* ---- rows ---- */

void feed_fault(struct price_feed *feed, uint32_t row, const char *format, ...)
{
    if (feed->fault_count < FEED_FAULTS_MAX) {
        struct feed_fault *fault = &feed->faults[feed->fault_count];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(fault->text, sizeof fault->text, format, args); /* cut is fine */
        va_end(args);
        fault->row = row;
        for (char *c = fault->text; *c != '\0'; c++)
            if (iscntrl((unsigned char)*c)) *c = '?';
    }
    feed->fault_count++;
}

void feed_pass(struct price_feed *feed)
{
    feed->rows++;
    feed->passed++;
}

static struct feed_point *point_new(struct price_feed *feed)
{
    if (feed->point_count == feed->room) {
        uint32_t room = feed->room == 0 ? ROOM_FIRST : 2 * feed->room;
        void *more = mem_realloc(feed->points, room * sizeof *feed->points);
        if (more == NULL) {
            feed->out_of_memory = true;
            return NULL;
        }
        feed->points = more;
        feed->room = room;
    }
    struct feed_point *point = &feed->points[feed->point_count++];
    memset(point, 0, sizeof *point);
    return point;
}

static bool has_controls(const char *text)
{
    while (*text != '\0' && !iscntrl((unsigned char)*text)) text++;
    return *text != '\0';
}

static bool is_name(struct price_feed *feed, const struct feed_row *row, const char *what,
                    const char *text)
{
    if (text == NULL || text[0] == '\0')
        feed_fault(feed, row->number, "no %s", what);
    else if (strlen(text) >= FEED_NAME_BYTES)
        feed_fault(feed, row->number, "%s is longer than %d bytes", what, FEED_NAME_BYTES - 1);
    else if (has_controls(text)) /* it would steer the terminal that shows it */
        feed_fault(feed, row->number, "%s has control bytes: \"%s\"", what, text);
    else
        return true;
    return false;
}

void feed_add(struct price_feed *feed, const struct feed_row *row, int64_t usd_micros_per_hour)
{
    int64_t at_us;
    feed->rows++;
    if (!is_name(feed, row, "zone", row->zone) || !is_name(feed, row, "type", row->instance))
        return;
    if (row->time == NULL || !utc_parse(row->time, &at_us)) {
        feed_fault(feed, row->number, "not a time: \"%s\"", row->time == NULL ? "" : row->time);
        return;
    }
    if (usd_micros_per_hour <= 0 || usd_micros_per_hour > USD_MICROS_MAX) {
        feed_fault(feed, row->number, "a price must be above 0 and at most $10,000 an hour");
        return;
    }
    struct feed_point *point = point_new(feed);
    if (point == NULL) return;
    memcpy(point->zone, row->zone, strlen(row->zone));
    memcpy(point->instance, row->instance, strlen(row->instance));
    point->at_us = at_us;
    point->usd_micros_per_hour = usd_micros_per_hour;
    point->is_spot = row->is_spot;
    point->row = row->number;
}

/* ---- cells ---- */

/* The next digit, if it is one. */
static bool digit(const char **at, int64_t *ret)
{
    if (!isdigit((unsigned char)**at)) return false;
    *ret = *(*at)++ - '0';
    return true;
}

bool feed_price(const char *text, int64_t *ret_usd_micros)
{
    int64_t micros = 0, next, unit = 100000;
    bool any = false;
    for (; digit(&text, &next); any = true) {
        micros = micros * 10 + next * 1000000;
        if (micros > 10 * USD_MICROS_MAX) return false;
    }
    if (*text == '.') {
        text++;
        for (; unit > 0 && digit(&text, &next); unit /= 10, any = true) micros += next * unit;
        if (unit == 0 && digit(&text, &next)) micros += next >= 5;
        while (digit(&text, &next)) {}
    }
    *ret_usd_micros = micros;
    return any && *text == '\0';
}

/* ---- the whole ---- */

static int compare_series(const struct feed_point *a, const struct feed_point *b)
{
    int order = strcmp(a->zone, b->zone);
    if (order == 0) order = strcmp(a->instance, b->instance);
    if (order == 0) order = (int)a->is_spot - (int)b->is_spot;
    return order;
}

static int compare(const void *left, const void *right)
{
    const struct feed_point *a = left, *b = right;
    int order = compare_series(a, b);
    if (order != 0) return order;
    if (a->at_us != b->at_us) return a->at_us < b->at_us ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Of several rows for one time the first stands. */
static void merge(struct price_feed *feed)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < feed->point_count; i++) {
        const struct feed_point *point = &feed->points[i];
        const struct feed_point *last = kept > 0 ? &feed->points[kept - 1] : NULL;
        if (last == NULL || compare_series(last, point) != 0 || last->at_us != point->at_us)
            feed->points[kept++] = *point;
        else if (last->usd_micros_per_hour == point->usd_micros_per_hour)
            feed->repeats++;
        else
            feed_fault(feed, point->row, "another price for the time of row %" PRIu32, last->row);
    }
    feed->point_count = kept;
}

bool price_feed_read(const char *text, size_t bytes, struct price_feed *ret_feed,
                     struct error *ret_error)
{
    size_t blank = 0;
    *ret_feed = (struct price_feed){.format = FEED_CSV};
    utf8_skip_mark(&text, &bytes);
    while (blank < bytes && isspace((unsigned char)text[blank])) blank++;
    bool is_json = blank < bytes && (text[blank] == '{' || text[blank] == '[');
    bool ok = is_json ? feed_read_json(text, bytes, ret_feed, ret_error)
                      : feed_read_csv(text, bytes, ret_feed, ret_error);
    if (ok && ret_feed->out_of_memory) ok = error_set(ret_error, "out of memory for the prices");
    if (!ok) {
        price_feed_close(ret_feed);
        return false;
    }
    if (ret_feed->point_count > 1)
        qsort(ret_feed->points, ret_feed->point_count, sizeof *ret_feed->points, compare);
    merge(ret_feed);
    return true;
}

void price_feed_close(struct price_feed *feed)
{
    mem_free(feed->points);
    *feed = (struct price_feed){0};
}

uint32_t price_feed_series_end(const struct price_feed *feed, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < feed->point_count && compare_series(&feed->points[first], &feed->points[end]) == 0)
        end++;
    return end;
}
