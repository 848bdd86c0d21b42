#include "base/mem.h"
#include "codec/price_feed_rows.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 256 };
#define USD_MICROS_MAX INT64_C(10000000000)
#define DAY_US         INT64_C(86400000000)

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

static bool is_name(struct price_feed *feed, const struct feed_row *row, const char *what,
                    const char *text)
{
    if (text == NULL || text[0] == '\0')
        feed_fault(feed, row->number, "no %s", what);
    else if (strlen(text) >= FEED_NAME_BYTES)
        feed_fault(feed, row->number, "%s is longer than %d bytes", what, FEED_NAME_BYTES - 1);
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
    if (row->time == NULL || !feed_time(row->time, &at_us)) {
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

/* Exactly `count` digits. */
static bool digits(const char **at, uint32_t count, int64_t *ret)
{
    *ret = 0;
    for (; count > 0; count--, (*at)++) {
        if (!isdigit((unsigned char)**at)) return false;
        *ret = *ret * 10 + (**at - '0');
    }
    return true;
}

static bool skip(const char **at, char c)
{
    if (**at != c) return false;
    (*at)++;
    return true;
}

/* Days since 1970 of the Gregorian calendar; years begin in March here, so that leap days end them. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    if (month <= 2) year--;
    int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return year * 365 + year / 4 - year / 100 + year / 400 + in_year - 719468;
}

static bool read_day(const char **at, int64_t *ret_us)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day;
    if (!digits(at, 4, &year) || !skip(at, '-') || !digits(at, 2, &month) || !skip(at, '-') ||
        !digits(at, 2, &day))
        return false;
    if (year < 1970 || year >= 2100 || month < 1 || month > 12 || day < 1) return false;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + leap) return false;
    *ret_us = days_of(year, month, day) * DAY_US;
    return true;
}

static bool read_clock(const char **at, int64_t *ret_us)
{
    int64_t hour, minute, second = 0, part, unit = 100000, micros = 0;
    if (!digits(at, 2, &hour) || !skip(at, ':') || !digits(at, 2, &minute)) return false;
    if (skip(at, ':') && !digits(at, 2, &second)) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;
    if (skip(at, '.'))
        for (; digits(at, 1, &part); unit /= 10) micros += part * unit;
    *ret_us = ((hour * 60 + minute) * 60 + second) * 1000000 + micros;
    return true;
}

static bool read_offset(const char **at, int64_t *ret_us)
{
    int64_t hours, minutes = 0;
    *ret_us = 0;
    if (**at == '\0' || skip(at, 'Z')) return true;
    int64_t sign = **at == '-' ? -1 : 1;
    if (!skip(at, '+') && !skip(at, '-')) return false;
    if (!digits(at, 2, &hours)) return false;
    if ((skip(at, ':') || **at != '\0') && !digits(at, 2, &minutes)) return false;
    *ret_us = sign * (hours * 60 + minutes) * 60 * 1000000;
    return hours < 24 && minutes < 60;
}

static bool read_seconds(const char *text, int64_t *ret_us)
{
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 10 || text[length] != '\0') return false;
    *ret_us = strtoll(text, NULL, 10) * 1000000;
    return true;
}

bool feed_time(const char *text, int64_t *ret_us)
{
    int64_t clock_us = 0, offset_us = 0;
    if (read_seconds(text, ret_us)) return true;
    if (!read_day(&text, ret_us)) return false;
    if (*text != '\0') {
        if (!skip(&text, 'T') && !skip(&text, ' ')) return false;
        if (!read_clock(&text, &clock_us) || !read_offset(&text, &offset_us) || *text != '\0')
            return false;
    }
    *ret_us += clock_us - offset_us;
    return *ret_us >= 0;
}

bool feed_price(const char *text, int64_t *ret_usd_micros)
{
    int64_t micros = 0, digit, unit = 100000;
    bool any = false;
    for (; digits(&text, 1, &digit); any = true) {
        micros = micros * 10 + digit * 1000000;
        if (micros > 10 * USD_MICROS_MAX) return false;
    }
    if (skip(&text, '.')) {
        for (; unit > 0 && digits(&text, 1, &digit); unit /= 10, any = true) micros += digit * unit;
        if (unit == 0 && digits(&text, 1, &digit)) micros += digit >= 5;
        while (digits(&text, 1, &digit)) {}
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
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        bytes -= 3;
    }
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
