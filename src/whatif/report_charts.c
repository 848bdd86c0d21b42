#include "whatif/report_charts.h"
#include "base/mem.h"
#include "page/chart.h"
#include <stdio.h>
#include <string.h>

#define WIDTH  1030.0
#define SECOND 1e6

enum { MODEL_COLOURS = 8, ROW_PIXELS = 9, CHROME_PIXELS = 36, TITLE_BYTES = 160, BARS_MAX = 2000 };

static double x_end_of(const struct report_case *rc)
{
    return (double)rc->recorder.end_us / SECOND;
}

/* ---- nodes ---- */

struct bar {
    uint32_t id, offer, row;
    int64_t from_us, to_us;
    int64_t lost; /* as in record.h */
};

static struct bar *node_bars(const struct report_case *rc, uint32_t *ret_count)
{
    const struct recorder *r = &rc->recorder;
    struct bar *bars = mem_zalloc(BARS_MAX, sizeof *bars);
    *ret_count = 0;
    for (uint32_t i = 0; bars != NULL && i < r->count; i++) {
        const struct record_row *row = &r->rows[i];
        if (row->kind == RECORD_NODE_UP && *ret_count < BARS_MAX)
            bars[(*ret_count)++] = (struct bar){
                .id = row->node, .offer = row->offer, .from_us = row->at_us, .to_us = r->end_us};
        if (row->kind != RECORD_NODE_END) continue;
        for (uint32_t k = 0; k < *ret_count; k++)
            if (bars[k].id == row->node) {
                bars[k].to_us = row->at_us;
                bars[k].lost = row->value;
            }
    }
    return bars;
}

/* A row is used again by the next node that begins after its last one ended. Bars that find no row are
 * dropped; returns the rows. */
static uint32_t pack_rows(struct bar *bars, uint32_t *count)
{
    int64_t free_us[REPORT_ROWS_MAX];
    uint32_t rows = 0, kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t row = 0;
        while (row < rows && free_us[row] > bars[i].from_us) row++;
        if (row == REPORT_ROWS_MAX) continue;
        if (row == rows) rows++;
        free_us[row] = bars[i].to_us;
        bars[kept] = bars[i];
        bars[kept++].row = row;
    }
    *count = kept;
    return rows;
}

static const struct bar *bar_of(const struct bar *bars, uint32_t count, uint32_t node)
{
    for (uint32_t i = 0; i < count; i++)
        if (bars[i].id == node) return &bars[i];
    return NULL;
}

static void draw_span(struct chart *chart, double from_us, double to_us, double row, double low,
                      double high, const char *css)
{
    double x = from_us / SECOND, bottom = row + low, top = row + high;
    chart_band(chart, &x, &bottom, &top, 1, to_us / SECOND, css);
}

static void draw_workers(const struct scene *scene, const struct report_case *rc,
                         struct chart *chart, const struct bar *bars, uint32_t count)
{
    const struct recorder *r = &rc->recorder;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct record_row *row = &r->rows[i];
        if (row->kind != RECORD_WORKER) continue;
        const struct bar *bar = bar_of(bars, count, row->node);
        if (bar == NULL) continue;
        int64_t to_us = bar->to_us;
        for (uint32_t k = i + 1; k < r->count && r->rows[k].at_us <= to_us; k++)
            if (r->rows[k].kind == RECORD_WORKER_END && r->rows[k].node == row->node &&
                r->rows[k].job == row->job) {
                to_us = r->rows[k].at_us;
                break;
            }
        char css[16];
        (void)snprintf(css, sizeof css, "band m%u",
                       scene->offers[row->offer].model % MODEL_COLOURS);
        draw_span(chart, (double)row->at_us, (double)to_us, bar->row, 0.08, 0.92, css);
    }
}

void report_chart_nodes(const struct scene *scene, const struct report_case *rc, struct text *page)
{
    uint32_t count, rows;
    char title[TITLE_BYTES];
    struct bar *bars = node_bars(rc, &count);
    if (bars == NULL) {
        page->failed = true;
        return;
    }
    rows = pack_rows(bars, &count);
    struct chart chart = chart_of(page, WIDTH, CHROME_PIXELS + ROW_PIXELS * (rows + 1.0),
                                  (struct chart_range){0, x_end_of(rc)},
                                  (struct chart_range){0, rows == 0 ? 1 : rows});
    chart_open(&chart, "Nodes over time");
    chart_axes(&chart, "%.0f");
    for (uint32_t i = 0; i < count; i++)
        draw_span(&chart, (double)bars[i].from_us, (double)bars[i].to_us, bars[i].row, 0.4, 0.6,
                  "band m8");
    draw_workers(scene, rc, &chart, bars, count);
    for (uint32_t i = 0; i < count; i++) {
        if (bars[i].lost == 0) continue;
        (void)snprintf(title, sizeof title, "node %u of %s is taken%s", bars[i].id,
                       scene->offers[bars[i].offer].name,
                       bars[i].lost == 1 ? "" : " after a notice");
        chart_mark(&chart, bars[i].lost == 1 ? CHART_LOSS : CHART_NOTICE,
                   (double)bars[i].to_us / SECOND, bars[i].row + 0.5, title);
    }
    chart_close(&chart);
    mem_free(bars);
}

/* ---- jobs ---- */

static uint32_t job_rows(const struct recorder *r, uint32_t *jobs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count && count < REPORT_ROWS_MAX; i++) {
        if (r->rows[i].kind != RECORD_JOB_WAITS) continue;
        uint32_t k = 0;
        while (k < count && jobs[k] != r->rows[i].job) k++;
        if (k == count) jobs[count++] = r->rows[i].job;
    }
    return count;
}

static void draw_job(const struct report_case *rc, struct chart *chart, uint32_t job, uint32_t row)
{
    const struct recorder *r = &rc->recorder;
    int64_t since_us = -1;
    uint32_t stage = 0;
    for (uint32_t i = 0; i <= r->count; i++) {
        bool last = i == r->count;
        if (!last && r->rows[i].job != job) continue;
        uint32_t kind = last ? (uint32_t)RECORD_JOB_ENDS : r->rows[i].kind;
        if (kind != RECORD_JOB_WAITS && kind != RECORD_JOB_STARTS && kind != RECORD_JOB_ENDS)
            continue;
        int64_t at_us = last ? r->end_us : r->rows[i].at_us;
        if (stage == RECORD_JOB_WAITS)
            draw_span(chart, (double)since_us, (double)at_us, row, 0.4, 0.6, "band m3");
        if (stage == RECORD_JOB_STARTS)
            draw_span(chart, (double)since_us, (double)at_us, row, 0.1, 0.9, "band m0");
        stage = kind == RECORD_JOB_ENDS ? 0 : kind;
        since_us = at_us;
        if (kind == RECORD_JOB_ENDS) return;
    }
}

void report_chart_jobs(const struct scene *scene, const struct report_case *rc, struct text *page)
{
    uint32_t jobs[REPORT_ROWS_MAX];
    uint32_t count = job_rows(&rc->recorder, jobs);
    (void)scene;
    struct chart chart = chart_of(page, WIDTH, CHROME_PIXELS + ROW_PIXELS * (count + 1.0),
                                  (struct chart_range){0, x_end_of(rc)},
                                  (struct chart_range){0, count == 0 ? 1 : count});
    chart_open(&chart, "Jobs over time");
    chart_axes(&chart, "%.0f");
    for (uint32_t i = 0; i < count; i++) draw_job(rc, &chart, jobs[i], i);
    chart_close(&chart);
}

/* ---- prices ---- */

static uint32_t buys_of(const struct recorder *r, uint32_t offer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count; i++)
        count += r->rows[i].kind == RECORD_NODE_UP && r->rows[i].offer == offer;
    return count;
}

/* The offers bought most often, spot only; returns how many. */
static uint32_t most_bought(const struct scene *scene, const struct recorder *r, uint32_t *offers)
{
    uint32_t count = 0;
    for (; count < REPORT_OFFERS_MAX; count++) {
        uint32_t best = NONE, best_buys = 0;
        for (uint32_t o = 0; o < scene->offer_count; o++) {
            bool taken = false;
            for (uint32_t k = 0; k < count; k++) taken |= offers[k] == o;
            if (taken || scene->offers[o].capacity != CAPACITY_SPOT) continue;
            uint32_t buys = buys_of(r, o);
            if (buys > best_buys) {
                best = o;
                best_buys = buys;
            }
        }
        if (best == NONE) break;
        offers[count] = best;
    }
    return count;
}

static uint32_t price_points(const struct recorder *r, uint32_t offer, struct chart_point *points)
{
    uint32_t all = 0, count = 0, seen = 0;
    for (uint32_t i = 0; i < r->count; i++)
        all += r->rows[i].kind == RECORD_PRICE && r->rows[i].offer == offer;
    uint32_t every = 1 + all / (REPORT_POINTS_MAX - 2); /* more than pixels are of no use */
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rows[i].kind != RECORD_PRICE || r->rows[i].offer != offer || seen++ % every != 0)
            continue;
        points[count++] =
            (struct chart_point){(double)r->rows[i].at_us / SECOND, (double)r->rows[i].value / 1e6};
    }
    if (count > 0)
        points[count] = (struct chart_point){(double)r->end_us / SECOND, points[count - 1].y};
    return count == 0 ? 0 : count + 1;
}

static double price_then(const struct chart_point *points, uint32_t count, double x)
{
    double y = count > 0 ? points[0].y : 0;
    for (uint32_t i = 0; i < count && points[i].x <= x; i++) y = points[i].y;
    return y;
}

static void chart_price(const struct scene *scene, const struct report_case *rc, uint32_t offer,
                        struct chart_point *points, struct text *page)
{
    const struct scene_offer *o = &scene->offers[offer];
    const struct recorder *r = &rc->recorder;
    uint32_t count = price_points(r, offer, points);
    double high = (double)o->on_demand_usd_micros / 1e6 * 1.08;
    char css[24], title[TITLE_BYTES];
    for (uint32_t i = 0; i < count; i++)
        if (points[i].y > high) high = points[i].y * 1.05;
    text_add(page, "<figure><figcaption>");
    text_add_html(page, o->name);
    text_add(page, "</figcaption>");
    struct chart chart = chart_of(page, 500, 170, (struct chart_range){0, x_end_of(rc)},
                                  (struct chart_range){0, high});
    chart_open(&chart, o->name);
    chart_axes(&chart, "$%.2f");
    chart_rule_y(&chart, (double)o->on_demand_usd_micros / 1e6, "rule-threshold");
    (void)snprintf(css, sizeof css, "line thin m%u", o->model % MODEL_COLOURS);
    chart_steps(&chart, points, count, css);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct record_row *row = &r->rows[i];
        if (row->offer != offer) continue;
        double x = (double)row->at_us / SECOND;
        bool buys = row->kind == RECORD_NODE_UP;
        if (!buys && (row->kind != RECORD_NODE_END || row->value == 0)) continue;
        (void)snprintf(title, sizeof title, "node %u %s", row->node, buys ? "bought" : "taken");
        chart_mark(&chart,
                   buys              ? CHART_BUY
                   : row->value == 1 ? CHART_LOSS
                                     : CHART_NOTICE,
                   x, price_then(points, count, x), title);
    }
    chart_close(&chart);
    text_add(page, "</figure>\n");
}

void report_charts_price(const struct scene *scene, const struct report_case *rc, struct text *page)
{
    uint32_t offers[REPORT_OFFERS_MAX];
    struct chart_point *points = mem_alloc((REPORT_POINTS_MAX + 2) * sizeof *points);
    if (points == NULL) {
        page->failed = true;
        return;
    }
    uint32_t count = most_bought(scene, &rc->recorder, offers);
    for (uint32_t i = 0; i < count; i++) chart_price(scene, rc, offers[i], points, page);
    mem_free(points);
}

/* ---- over time ---- */

/* What is paid and done at each moment, from the rows. */
struct flow {
    double usd, usd_per_s, devices; /* spent so far; now; paid now */
    double done, ideal;             /* NCU of work; NCU of all that is paid */
    int64_t at_us;
};

/* Paid whether used or not, from the beginning. */
static struct flow flow_begin(const struct scene *scene, const struct scene_case *c)
{
    struct flow f = {0};
    for (uint32_t i = 0; i < scene->offer_count; i++) {
        const struct scene_offer *o = &scene->offers[i];
        if (!o->paid_always || !scene_case_has_offer(c, i)) continue;
        f.usd_per_s += (double)o->price.usd_micros / 1e6 / 3600 * o->stock;
        f.ideal += scene->catalog.models[o->model].ncu_milli / 1000.0 * o->device_count * o->stock;
    }
    return f;
}

struct tracks {     /* of one case, while its rows are read */
    int64_t *price; /* by offer */
    uint32_t *held; /* by offer */
    double *rate;   /* by job */
    uint32_t job_count;
};

static bool tracks_open(const struct scene *scene, const struct recorder *r, struct tracks *t)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->rows[i].job >= t->job_count) t->job_count = r->rows[i].job + 1;
    t->price = mem_zalloc(scene->offer_count, sizeof *t->price);
    t->held = mem_zalloc(scene->offer_count, sizeof *t->held);
    t->rate = mem_zalloc(t->job_count + 1, sizeof *t->rate);
    return t->price != NULL && t->held != NULL && t->rate != NULL;
}

static void tracks_close(struct tracks *t)
{
    mem_free(t->price);
    mem_free(t->held);
    mem_free(t->rate);
}

static void flow_take(const struct scene *scene, const struct record_row *row, struct tracks *t,
                      struct flow *f)
{
    const struct scene_offer *o = &scene->offers[row->offer < scene->offer_count ? row->offer : 0];
    double ncu = scene->catalog.models[o->model].ncu_milli / 1000.0 * o->device_count;
    f->usd += f->usd_per_s * (double)(row->at_us - f->at_us) / SECOND;
    f->at_us = row->at_us;
    if (row->kind == RECORD_RATE) {
        f->done += (double)row->value / 1000 - t->rate[row->job];
        t->rate[row->job] = (double)row->value / 1000;
    }
    if (o->paid_always) return;
    if (row->kind == RECORD_PRICE) {
        f->usd_per_s +=
            (double)(row->value - t->price[row->offer]) / 1e6 / 3600 * t->held[row->offer];
        t->price[row->offer] = row->value;
    }
    if (row->kind != RECORD_NODE_UP && row->kind != RECORD_NODE_END) return;
    int sign = row->kind == RECORD_NODE_UP ? 1 : -1;
    t->held[row->offer] += (uint32_t)sign;
    f->usd_per_s += sign * (double)t->price[row->offer] / 1e6 / 3600;
    f->ideal += sign * ncu;
}

/* Spent so far, or the useful share, at evenly spaced moments. False: out of memory. */
static bool follow(const struct scene *scene, const struct report_case *rc, bool cost,
                   struct chart_point *points, uint32_t *ret_count)
{
    const struct recorder *r = &rc->recorder;
    struct tracks t = {0};
    struct flow f = flow_begin(scene, rc->c);
    bool good = tracks_open(scene, r, &t);
    uint32_t next = 0, wanted = cost ? 240 : 400;
    *ret_count = 0;
    for (uint32_t p = 0; good && p <= wanted; p++) {
        int64_t at_us = r->end_us / wanted * p;
        for (; next < r->count && r->rows[next].at_us <= at_us; next++)
            flow_take(scene, &r->rows[next], &t, &f);
        double usd = f.usd + f.usd_per_s * (double)(at_us - f.at_us) / SECOND;
        double use = f.ideal > 0 ? f.done / f.ideal : 0;
        points[(*ret_count)++] =
            (struct chart_point){(double)at_us / SECOND, cost              ? usd
                                                         : use * 100 > 100 ? 100
                                                                           : use * 100};
    }
    tracks_close(&t);
    return good;
}

static void chart_over_time(const struct scene *scene, const struct report_case *cases,
                            uint32_t count, bool cost, struct text *page)
{
    struct chart_point *points = mem_alloc(512 * sizeof *points);
    double x_high = 0, y_high = cost ? 0 : 100;
    uint32_t n;
    bool good = points != NULL;
    for (uint32_t i = 0; good && i < count; i++) {
        good = follow(scene, &cases[i], cost, points, &n);
        if (x_end_of(&cases[i]) > x_high) x_high = x_end_of(&cases[i]);
        if (good && cost && points[n - 1].y > y_high) y_high = points[n - 1].y;
    }
    struct chart chart = chart_of(page, WIDTH, 260, (struct chart_range){0, x_high},
                                  (struct chart_range){0, y_high});
    chart_open(&chart, cost ? "Dollars spent" : "Useful share of what is paid");
    chart_axes(&chart, cost ? "$%.0f" : "%.0f%%");
    for (uint32_t i = 0; good && i < count; i++) {
        char css[24];
        good = follow(scene, &cases[i], cost, points, &n);
        (void)snprintf(css, sizeof css, "line %sm%u", cost ? "" : "thin ", i % MODEL_COLOURS);
        if (good) chart_steps(&chart, points, n, css);
    }
    chart_close(&chart);
    page->failed = page->failed || !good;
    mem_free(points);
}

void report_chart_cost(const struct scene *scene, const struct report_case *cases, uint32_t count,
                       struct text *page)
{
    chart_over_time(scene, cases, count, true, page);
}

void report_chart_use(const struct scene *scene, const struct report_case *cases, uint32_t count,
                      struct text *page)
{
    chart_over_time(scene, cases, count, false, page);
}
