/* GET /metrics: the text format of Prometheus. Names begin with shoal_; units last, as everywhere.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "codec/names.h"
#include "server/server_state.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct page {
    char *text;
    size_t used, capacity;
    bool failed;
};

static void put(struct page *page, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(struct page *page, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (page->failed || length < 0 || (size_t)length >= sizeof line) return;
    size_t count = (size_t)length;
    if (page->used + count + 1 > page->capacity) {
        size_t capacity = 2 * (page->used + count + 1) + 4096;
        char *text = mem_realloc(page->text, capacity);
        page->failed = text == NULL;
        if (page->failed) return;
        page->text = text;
        page->capacity = capacity;
    }
    memcpy(page->text + page->used, line, count + 1);
    page->used += count;
}

static void head(struct page *page, const char *name, const char *type, const char *help)
{
    put(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct page *page, const char *name, const char *type, const char *help,
                int64_t value)
{
    head(page, name, type, help);
    put(page, "%s %" PRId64 "\n", name, value);
}

static void put_jobs(struct server *s, struct page *page)
{
    uint64_t counts[JOB_STATE_END] = {0};
    for (uint32_t i = 0; i < pool_jobs_end(s->pool); i++) {
        struct job_view view;
        if (pool_job_at(s->pool, i, &view) && view.state < JOB_STATE_END) counts[view.state]++;
    }
    head(page, "shoal_jobs", "gauge", "Jobs the core holds, by state.");
    for (uint32_t state = 1; state < JOB_STATE_END; state++)
        put(page, "shoal_jobs{state=\"%s\"} %" PRIu64 "\n", name_job_state(state), counts[state]);
}

/* Nodes by state, model and kind: a small table in memory instead of one pass for each cell. */
enum { NODE_CELLS = NODE_STATE_END * CATALOG_MODELS_MAX * CAPACITY_KIND_END };

static void put_nodes(struct server *s, struct page *page)
{
    uint32_t *cells = mem_zalloc(NODE_CELLS, sizeof *cells);
    if (cells == NULL) {
        page->failed = true;
        return;
    }
    for (uint32_t i = 0; i < pool_nodes_end(s->pool); i++) {
        struct node_view v;
        if (!pool_node_at(s->pool, i, &v)) continue;
        if (v.state >= NODE_STATE_END || v.model >= CATALOG_MODELS_MAX) continue;
        if (v.capacity >= CAPACITY_KIND_END) continue;
        cells[(v.state * CATALOG_MODELS_MAX + v.model) * CAPACITY_KIND_END + v.capacity]++;
    }
    head(page, "shoal_nodes", "gauge", "Nodes, by state, device model and capacity kind.");
    for (uint32_t cell = 0; cell < NODE_CELLS; cell++) {
        uint32_t model = cell / CAPACITY_KIND_END % CATALOG_MODELS_MAX;
        if (cells[cell] == 0 || model >= s->catalog->model_count) continue;
        put(page, "shoal_nodes{state=\"%s\",model=\"%s\",kind=\"%s\"} %u\n",
            name_node_state(cell / CAPACITY_KIND_END / CATALOG_MODELS_MAX),
            s->catalog->models[model].name, name_capacity(cell % CAPACITY_KIND_END), cells[cell]);
    }
    mem_free(cells);
}

static void put_totals(struct server *s, struct page *page)
{
    struct pool_totals totals;
    pool_totals_read(s->pool, &totals);
    one(page, "shoal_devices", "gauge", "Devices of all nodes.", (int64_t)totals.devices);
    one(page, "shoal_devices_busy", "gauge", "Devices held by jobs.", (int64_t)totals.devices_busy);
    one(page, "shoal_nodes_replaced_total", "counter",
        "Nodes replaced because their workers held jobs up.", (int64_t)totals.nodes_replaced);
    one(page, "shoal_rate_usd_micros_per_hour", "gauge", "What all nodes cost now.",
        totals.usd_micros_per_hour);
    head(page, "shoal_cost_usd_micros", "gauge", "Money so far, by what it was for.");
    put(page, "shoal_cost_usd_micros{kind=\"job\"} %" PRId64 "\n", totals.usd_micros_jobs);
    put(page, "shoal_cost_usd_micros{kind=\"overhead\"} %" PRId64 "\n", totals.usd_micros_overhead);
    put(page, "shoal_cost_usd_micros{kind=\"idle\"} %" PRId64 "\n", totals.usd_micros_idle);
    put(page, "shoal_cost_usd_micros{kind=\"adjustment\"} %" PRId64 "\n",
        totals.usd_micros_adjustment);
}

static void put_journal(struct server *s, struct page *page)
{
    struct pump_stats stats;
    pump_stats_read(s->pump, &stats);
    one(page, "shoal_journal_seq", "gauge", "Number of the last committed event.",
        (int64_t)pump_seq(s->pump));
    one(page, "shoal_journal_commits_total", "counter", "Commits since the start.",
        (int64_t)stats.commits);
    one(page, "shoal_journal_commits_failed_total", "counter", "Commits that failed.",
        (int64_t)stats.commits_failed);
    one(page, "shoal_journal_commit_us_total", "counter", "Time spent in commits.",
        (int64_t)stats.commit_us_sum);
    one(page, "shoal_restart_us", "gauge", "How long snapshot and replay took at the start.",
        s->restart_us);
    head(page, "shoal_journal_batch_events", "histogram", "Events in one commit.");
    uint64_t sum = 0;
    for (uint32_t i = 0; i < PUMP_BATCH_BUCKETS; i++) {
        sum += stats.batch_counts[i];
        if (i < PUMP_BATCH_BUCKETS - 1)
            put(page, "shoal_journal_batch_events_bucket{le=\"%u\"} %" PRIu64 "\n", 1u << i, sum);
    }
    put(page, "shoal_journal_batch_events_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    put(page, "shoal_journal_batch_events_sum %" PRIu64 "\n", stats.events);
    put(page, "shoal_journal_batch_events_count %" PRIu64 "\n", sum);
}

static void put_ranking(struct server *s, struct page *page)
{
    static const char *const causes[RANKING_STATE_END] = {[RANKING_LATE] = "late",
                                                          [RANKING_FAILED] = "failed",
                                                          [RANKING_NONSENSE] = "nonsense"};
    one(page, "shoal_ranking_own", "gauge", "1: the site's own ranking of offers counts.",
        s->ranking.state == RANKING_OWN);
    one(page, "shoal_ranking_rounds_total", "counter", "Times that offers were ranked anew.",
        (int64_t)s->ranking.rounds);
    head(page, "shoal_ranking_fallbacks_total", "counter",
         "Times that the built-in ranking stepped in for the site's program, by cause.");
    for (uint32_t state = 0; state < RANKING_STATE_END; state++)
        if (causes[state] != NULL)
            put(page, "shoal_ranking_fallbacks_total{cause=\"%s\"} %" PRIu64 "\n", causes[state],
                s->ranking.failures[state]);
}

static void put_http(struct server *s, struct page *page)
{
    struct http_stats stats;
    struct stream_stats streams;
    http_stats_read(s->http, &stats);
    stream_stats_read(s->stream, &streams);
    head(page, "shoal_http_responses_total", "counter", "Answers, by class of status.");
    for (int i = 2; i <= 5; i++)
        put(page, "shoal_http_responses_total{class=\"%dxx\"} %" PRIu64 "\n", i, stats.by_class[i]);
    one(page, "shoal_http_connections", "gauge", "Open connections.", (int64_t)stats.connections);
    one(page, "shoal_http_streams", "gauge", "Listeners on /v1/events.", (int64_t)streams.clients);
    one(page, "shoal_http_streams_dropped_total", "counter", "Listeners that read too slowly.",
        (int64_t)streams.dropped_total);
    head(page, "shoal_http_request_us", "histogram", "From request to answer, commits included.");
    uint64_t sum = 0;
    for (uint32_t i = 0; i < HTTP_LATENCY_BUCKETS - 1; i++) {
        sum += stats.latency_counts[i];
        put(page, "shoal_http_request_us_bucket{le=\"%" PRId64 "\"} %" PRIu64 "\n",
            http_latency_bounds_us[i], sum);
    }
    sum += stats.latency_counts[HTTP_LATENCY_BUCKETS - 1];
    put(page, "shoal_http_request_us_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    put(page, "shoal_http_request_us_sum %" PRIu64 "\n", stats.latency_sum_us);
    put(page, "shoal_http_request_us_count %" PRIu64 "\n", sum);
}

void api_metrics(struct server *s, request *r)
{
    struct page page = {0};
    one(&page, "shoal_up_us", "gauge", "Time since the server started.",
        clock_monotonic_us() - s->started_us);
    put_jobs(s, &page);
    put_nodes(s, &page);
    put_totals(s, &page);
    put_journal(s, &page);
    put_ranking(s, &page);
    put_http(s, &page);
    if (page.failed) {
        mem_free(page.text);
        request_fail(r, 503, "out of memory; try again");
        return;
    }
    request_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", page.text, page.used);
}
