/* shoal market import FILE: a history of prices as others tell it, looked at and put into one form. */
#include "cli/market_import.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/format.h"
#include "cli/table.h"
#include "codec/price_feed.h"
#include <inttypes.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 30, TREND_WIDTH = 30 };

struct series {
    const struct feed_point *points;
    uint32_t count;
    int64_t lowest, highest;
};

static struct series series_at(const struct price_feed *feed, uint32_t first, uint32_t end)
{
    struct series s = {.points = &feed->points[first], .count = end - first};
    s.lowest = s.highest = s.points[0].usd_micros_per_hour;
    for (uint32_t i = 1; i < s.count; i++) {
        int64_t price = s.points[i].usd_micros_per_hour;
        if (price < s.lowest) s.lowest = price;
        if (price > s.highest) s.highest = price;
    }
    return s;
}

static const char *kind_of(const struct series *s)
{
    return s->points[0].is_spot ? "spot" : "on_demand";
}

/* The price at TREND_WIDTH instants, evenly over the time of the series. */
static const char *trend(char bars[TREND_WIDTH * 3 + 1], const struct series *s)
{
    int64_t values[TREND_WIDTH], begin = s->points[0].at_us;
    int64_t span = s->points[s->count - 1].at_us - begin;
    for (uint32_t i = 0, at = 0; i < TREND_WIDTH; i++) {
        int64_t now = begin + span * i / (TREND_WIDTH - 1);
        while (at + 1 < s->count && s->points[at + 1].at_us <= now) at++;
        values[i] = s->points[at].usd_micros_per_hour;
    }
    return format_spark(bars, TREND_WIDTH * 3 + 1, values, TREND_WIDTH, TREND_WIDTH);
}

static void add_series(struct table *table, const struct series *s)
{
    char text[FORMAT_BYTES], bars[TREND_WIDTH * 3 + 1];
    table_cell(table, "%s", s->points[0].zone);
    table_cell(table, "%s", s->points[0].instance);
    table_cell(table, "%s", kind_of(s));
    table_cell(table, "%" PRIu32, s->count);
    table_cell(table, "%.10s", format_utc(text, s->points[0].at_us));
    table_cell(table, "%.10s", format_utc(text, s->points[s->count - 1].at_us));
    table_cell(table, "%s", format_usd(text, s->lowest, 4));
    table_cell(table, "%s", format_usd(text, s->highest, 4));
    table_cell(table, "%s", format_usd(text, s->points[s->count - 1].usd_micros_per_hour, 4));
    table_cell(table, "%s", trend(bars, s));
}

static bool print_table(const struct price_feed *feed, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"zone", TABLE_LEFT},      {"type", TABLE_LEFT},     {"kind", TABLE_LEFT},
        {"prices", TABLE_RIGHT},   {"from", TABLE_LEFT},     {"to", TABLE_LEFT},
        {"lowest", TABLE_RIGHT},   {"highest", TABLE_RIGHT}, {"last $/h", TABLE_RIGHT},
        {"over time", TABLE_LEFT},
    };
    struct term term = term_open(stdout);
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    for (uint32_t first = 0, end; first < feed->point_count; first = end) {
        end = price_feed_series_end(feed, first);
        struct series s = series_at(feed, first, end);
        add_series(table, &s);
    }
    return table_finish(table, &term, "no prices", ret_error);
}

static void print_faults(const struct price_feed *feed, const char *path)
{
    uint32_t shown = feed->fault_count < FEED_FAULTS_MAX ? feed->fault_count : FEED_FAULTS_MAX;
    fprintf(stderr,
            "%s: %s: %" PRIu32 " rows: %" PRIu32 " prices, %" PRIu32 " said again, %" PRIu32
            " about something else, %" PRIu32 " malformed\n",
            path, feed_format_name(feed->format), feed->rows, feed->point_count, feed->repeats,
            feed->passed, feed->fault_count);
    for (uint32_t i = 0; i < shown; i++)
        fprintf(stderr, "  row %" PRIu32 ": %s\n", feed->faults[i].row, feed->faults[i].text);
    if (shown < feed->fault_count)
        fprintf(stderr, "  and %" PRIu32 " more\n", feed->fault_count - shown);
}

/* ---- JSON ---- */

static json_t *series_json(const struct series *s)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < s->count; i++)
        (void)json_array_append_new(points,
                                    json_pack("[I,I]", (json_int_t)s->points[i].at_us,
                                              (json_int_t)s->points[i].usd_micros_per_hour));
    if (json_array_size(points) != s->count) { /* out of memory: no half answer */
        json_decref(points);
        return NULL;
    }
    return json_pack("{s:s?,s:s?,s:s,s:o}", "zone", s->points[0].zone, "instance_type",
                     s->points[0].instance, "capacity", kind_of(s), "points", points);
}

static json_t *faults_json(const struct price_feed *feed)
{
    json_t *faults = json_array();
    for (uint32_t i = 0; i < feed->fault_count && i < FEED_FAULTS_MAX; i++)
        (void)json_array_append_new(faults,
                                    json_pack("{s:i,s:s%}", "row", (int)feed->faults[i].row, "text",
                                              feed->faults[i].text, strlen(feed->faults[i].text)));
    return faults;
}

static bool print_json(const struct price_feed *feed, struct error *ret_error)
{
    json_t *all = json_array();
    bool ok = all != NULL;
    for (uint32_t first = 0, end; first < feed->point_count && ok; first = end) {
        end = price_feed_series_end(feed, first);
        struct series s = series_at(feed, first, end);
        ok = json_array_append_new(all, series_json(&s)) == 0;
    }
    json_t *root =
        json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:o,s:o}", "format", feed_format_name(feed->format),
                  "rows", (int)feed->rows, "prices", (int)feed->point_count, "repeats",
                  (int)feed->repeats, "passed", (int)feed->passed, "malformed",
                  (int)feed->fault_count, "faults", faults_json(feed), "series", all);
    ok = ok && root != NULL && json_dumpf(root, stdout, JSON_COMPACT) == 0;
    json_decref(root);
    if (!ok) return error_set(ret_error, "out of memory for the prices, or names are not UTF-8");
    putchar('\n');
    return true;
}

/* ---- one form ---- */

static void put_cell(FILE *file, const char *text)
{
    bool quoted = strpbrk(text, ",\"\n") != NULL;
    if (quoted) fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputs(quoted ? "\"," : ",", file);
}

static bool write_csv(const struct price_feed *feed, const char *path, struct error *ret_error)
{
    char *text = NULL, at[FORMAT_BYTES];
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL) return error_set(ret_error, "out of memory for %s", path);
    fputs("zone,instance_type,capacity,t_utc,usd_per_hour\n", file);
    for (uint32_t i = 0; i < feed->point_count; i++) {
        const struct feed_point *p = &feed->points[i];
        put_cell(file, p->zone);
        put_cell(file, p->instance);
        fprintf(file, "%s,%s,%" PRId64 ".%06" PRId64 "\n", p->is_spot ? "spot" : "on_demand",
                format_utc(at, p->at_us), p->usd_micros_per_hour / 1000000,
                p->usd_micros_per_hour % 1000000);
    }
    bool ok = fclose(file) == 0 || error_set(ret_error, "out of memory for %s", path);
    ok = ok && io_write_file(path, text, bytes, 0644, ret_error);
    free(text); /* of open_memstream() */
    return ok;
}

int market_import(const char *path, const char *out, bool json)
{
    struct error error;
    struct price_feed feed;
    char *text;
    size_t bytes;
    if (!io_read_file(path, FILE_BYTES_MAX, &text, &bytes, &error)) return cli_fail(&error);
    bool ok = price_feed_read(text, bytes, &feed, &error);
    mem_free(text);
    if (!ok) {
        fprintf(stderr, "shoal market import: %s: %s\n", path, error.text);
        return CLI_FAILED;
    }
    ok = json ? print_json(&feed, &error) : print_table(&feed, &error);
    print_faults(&feed, path);
    if (ok && out != NULL) ok = write_csv(&feed, out, &error);
    int code = !ok ? cli_fail(&error) : feed.point_count == 0 ? CLI_FAILED : CLI_DONE;
    price_feed_close(&feed);
    return code;
}
