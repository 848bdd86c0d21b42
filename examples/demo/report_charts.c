#include "demo/report_charts.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/format.h"
#include "page/chart.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDE = 980, TALL = 210, SMALL_WIDE = 480, SMALL_TALL = 170, COST_POINTS = 240 };

static struct chart_range time_range(const struct record *record)
{
    return (struct chart_range){0, record_seconds(record, record->ended_us)};
}

/* "1:23 node 7, H100 in aurora/east-a: the provider took the node without notice" */
static void title_of(const struct record *record, const json_t *decision, char *text, size_t bytes)
{
    int seconds = (int)record_seconds(record, row_int(decision, "t"));
    (void)snprintf(text, bytes, "%d:%02d %s %s in %s: %s", seconds / 60, seconds % 60,
                   row_text(decision, "kind"), row_text(decision, "model"),
                   row_text(decision, "zone"), row_text(decision, "text")); /* cut is fine */
}

static bool is_in_time(const struct record *record, int64_t wall_us)
{
    return wall_us >= record->submitted_us && wall_us <= record->ended_us;
}

/* The losses that count: those between the first and the last step. */
static bool is_counted_loss(const struct record *record, size_t index)
{
    size_t count = json_array_size(record->steps);
    int64_t at_us = row_int(json_array_get(record->decisions, index), "t");
    return count > 0 && at_us >= row_int(json_array_get(record->steps, 0), "t") &&
           at_us <= row_int(json_array_get(record->steps, count - 1), "t") &&
           audit_is_loss(record->decisions, index);
}

/* Losses as vertical rules through the plot and a mark at its top. */
static void add_losses(const struct record *record, const struct chart *chart)
{
    size_t i;
    json_t *row;
    char title[256];
    json_array_foreach(record->decisions, i, row)
    {
        if (!is_counted_loss(record, i)) continue;
        double x = record_seconds(record, row_int(row, "t"));
        title_of(record, row, title, sizeof title);
        chart_rule_x(chart, x, "rule-loss", NULL);
        chart_mark(chart, audit_has_notice(row) ? CHART_NOTICE : CHART_LOSS, x, chart->y.high,
                   title);
    }
    for (uint32_t j = 0; j < record->restart_count; j++) {
        double x = record_seconds(record, record->restarts_us[j]);
        chart_rule_x(chart, x, "rule-restart", NULL);
        chart_mark(chart, CHART_RESTART, x, chart->y.high, "the server was killed and restarted");
    }
}

static double workers_of(const struct record *record, const json_t *step, uint32_t model)
{
    double count = 0;
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(step, "workers"), i, worker) count +=
        record_model_of(record, row_text(worker, "model")) == model;
    return count;
}

static double step_seconds(const struct record *record, size_t index)
{
    return record_seconds(record, row_int(json_array_get(record->steps, index), "t"));
}

void report_chart_workers(const struct record *record, struct text *page)
{
    size_t count = json_array_size(record->steps);
    double *x = mem_zalloc(3 * count + 1, sizeof *x), most = 1;
    if (x == NULL) {
        page->failed = true;
        return;
    }
    double *low = x + count, *high = low + count;
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(record->steps, i);
        x[i] = i == 0 ? step_seconds(record, 0) : step_seconds(record, i - 1);
        double all = (double)json_array_size(json_object_get(row, "workers"));
        if (all > most) most = all;
    }
    struct chart chart =
        chart_of(page, WIDE, TALL, time_range(record), (struct chart_range){0, ceil(most * 1.12)});
    chart_open(&chart, "Workers over time by device model, losses marked");
    chart_axes(&chart, "%.0f");
    double x_end = count == 0 ? 0 : step_seconds(record, count - 1);
    for (uint32_t model = record->model_count; model-- > 0;) { /* slowest at the bottom */
        for (size_t i = 0; i < count; i++) {
            low[i] = high[i];
            high[i] += workers_of(record, json_array_get(record->steps, i), model);
        }
        char css[24];
        (void)snprintf(css, sizeof css, "band m%u", model); /* fits */
        chart_band(&chart, x, low, high, count, x_end, css);
    }
    add_losses(record, &chart);
    chart_close(&chart);
    mem_free(x);
}

void report_chart_loss(const struct record *record, struct text *page)
{
    size_t count = json_array_size(record->steps);
    struct chart_point *points = mem_zalloc(count + 1, sizeof *points);
    if (points == NULL) {
        page->failed = true;
        return;
    }
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < count; i++) {
        double loss = row_real(json_array_get(record->steps, i), "loss");
        points[i] = (struct chart_point){step_seconds(record, i), loss};
        low = fmin(low, loss);
        high = fmax(high, loss);
    }
    if (count == 0) low = 0;
    double room = (high - low) * 0.14;
    struct chart chart = chart_of(page, WIDE, TALL, time_range(record),
                                  (struct chart_range){fmax(0, low - room), high + room});
    chart_open(&chart, "Training loss over time, losses of nodes marked");
    chart_axes(&chart, "%.1f");
    chart_line(&chart, points, count, "line accent");
    add_losses(record, &chart);
    chart_close(&chart);
    mem_free(points);
}

/* Dollars spent until `wall_us`: entries count in proportion to the part of them that is over. */
static double spent_until(const struct record *record, int64_t wall_us)
{
    double sum = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(record->entries, i, entry)
    {
        double from = (double)row_int(entry, "from_us"), to = (double)row_int(entry, "to_us");
        double share = to > from ? ((double)wall_us - from) / (to - from) : (double)wall_us >= to;
        sum += fmin(1, fmax(0, share)) * (double)row_int(entry, "usd_micros") / 1e6;
    }
    return sum;
}

void report_chart_cost(const struct record *record, const struct summary *summary,
                       struct text *page)
{
    struct chart_point points[COST_POINTS];
    double x_end = record_seconds(record, record->ended_us), most = 0;
    for (size_t i = 0; i < COST_POINTS; i++) {
        double x = x_end * (double)i / (COST_POINTS - 1);
        points[i].x = x;
        points[i].y = spent_until(record, record->submitted_us + (int64_t)(x * 1e6));
        most = fmax(most, points[i].y);
    }
    double fixed = (double)summary->static_cost_usd_micros / 1e6;
    double fixed_end = fmin(x_end, (double)summary->static_wall_us / 1e6);
    struct chart chart = chart_of(page, WIDE, TALL, time_range(record),
                                  (struct chart_range){0, fmax(most, fixed) * 1.12});
    struct chart_point line[2] = {{0, 0}, {fixed_end, fixed}};
    chart_open(&chart, "Cost over time, against a static on-demand cluster");
    chart_axes(&chart, chart.y.high < 1 ? "$%.2f" : "$%.1f");
    chart_line(&chart, line, 2, "line computed");
    chart_line(&chart, points, COST_POINTS, "line accent");
    chart_close(&chart);
}

static bool is_spot_of(const json_t *offer, const char *zone)
{
    return strcmp(row_text(offer, "zone"), zone) == 0 &&
           strcmp(row_text(offer, "capacity"), "spot") == 0;
}

/* Price as a share of the on-demand price, in percent: all models fit into one picture. */
static double share_of(const json_t *offer, double price)
{
    double on_demand = row_real(offer, "on_demand_usd_micros_per_hour");
    return on_demand > 0 ? price / on_demand * 100 : 0;
}

static double price_at(const json_t *offer, int64_t wall_us)
{
    const json_t *history = json_object_get(offer, "history");
    double price = row_real(offer, "usd_micros_per_hour");
    size_t i;
    json_t *pair;
    json_array_foreach(history, i, pair)
    {
        if (i > 0 && json_integer_value(json_array_get(pair, 0)) > wall_us) break;
        price = json_number_value(json_array_get(pair, 1));
    }
    return share_of(offer, price);
}

static void add_price_line(const struct record *record, const json_t *offer,
                           const struct chart *chart)
{
    const json_t *history = json_object_get(offer, "history");
    size_t count = json_array_size(history), used = 0, i;
    struct chart_point *points = mem_zalloc(count + 2, sizeof *points);
    if (points == NULL) {
        chart->out->failed = true;
        return;
    }
    json_t *pair;
    json_array_foreach(history, i, pair)
    {
        int64_t at_us = json_integer_value(json_array_get(pair, 0));
        if (at_us > record->ended_us) break;
        double share = share_of(offer, json_number_value(json_array_get(pair, 1)));
        double x = record_seconds(record, at_us);
        if (x < 0) used = 0; /* of what was before the job only the last price counts */
        points[used++] = (struct chart_point){x < 0 ? 0 : x, share};
    }
    double x_end = record_seconds(record, record->ended_us);
    double last = used > 0 ? points[used - 1].y : price_at(offer, record->ended_us);
    if (used == 0) points[used++] = (struct chart_point){0, last};
    points[used++] = (struct chart_point){x_end, last};
    char css[24];
    (void)snprintf(css, sizeof css, "line thin m%u",
                   record_model_of(record, row_text(offer, "model"))); /* fits */
    chart_steps(chart, points, used, css);
    mem_free(points);
}

/* Buys, drains for price and losses at the price of their moment. */
static void add_price_marks(const struct record *record, const char *zone,
                            const struct chart *chart)
{
    size_t i;
    json_t *row;
    char title[256];
    json_array_foreach(record->decisions, i, row)
    {
        bool is_buy = strcmp(row_text(row, "kind"), "buy") == 0;
        bool is_drain = audit_is_price_drain(row);
        bool is_loss = is_counted_loss(record, i);
        const json_t *offer = record_offer(record, row_int(row, "offer"));
        if ((!is_buy && !is_drain && !is_loss) || offer == NULL || !is_spot_of(offer, zone) ||
            !is_in_time(record, row_int(row, "t")))
            continue;
        enum chart_mark mark = is_buy                  ? CHART_BUY
                               : is_drain              ? CHART_DRAIN
                               : audit_has_notice(row) ? CHART_NOTICE
                                                       : CHART_LOSS;
        title_of(record, row, title, sizeof title);
        chart_mark(chart, mark, record_seconds(record, row_int(row, "t")),
                   price_at(offer, row_int(row, "t")), title);
    }
}

static double highest_share(const struct record *record)
{
    double most = record->price_threshold * 100;
    size_t i, j;
    json_t *offer, *pair;
    json_array_foreach(record->offers, i, offer)
    {
        if (strcmp(row_text(offer, "capacity"), "spot") != 0) continue;
        json_array_foreach(json_object_get(offer, "history"), j, pair) most =
            fmax(most, share_of(offer, json_number_value(json_array_get(pair, 1))));
    }
    return most;
}

void report_charts_price(const struct record *record, struct text *page)
{
    double most = fmax(100, highest_share(record)) * 1.06;
    for (uint32_t zone = 0; zone < record->zone_count; zone++) {
        const char *name = record->zones[zone];
        size_t i;
        json_t *offer;
        text_add(page, "<figure><figcaption>");
        text_add_html(page, name);
        text_add(page, "</figcaption>\n");
        struct chart chart = chart_of(page, SMALL_WIDE, SMALL_TALL, time_range(record),
                                      (struct chart_range){0, most});
        chart_open(&chart, name);
        chart_axes(&chart, "%.0f %%");
        if (record->price_threshold > 0)
            chart_rule_y(&chart, record->price_threshold * 100, "rule-threshold");
        json_array_foreach(record->offers, i, offer)
        {
            if (is_spot_of(offer, name)) add_price_line(record, offer, &chart);
        }
        add_price_marks(record, name, &chart);
        chart_close(&chart);
        text_add(page, "</figure>\n");
    }
}
