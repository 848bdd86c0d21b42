/* Calls that read rows of the journal: why, logs, progress, ledger, decisions, cost. */
#include "codec/explain_json.h"
#include "codec/json.h"
#include "codec/names.h"
#include "codec/rates_json.h"
#include "server/server_state.h"
#include <sqlite3.h>
#include <string.h>

enum { ROWS_LIMIT = 10000, ROWS_LIMIT_DEFAULT = 1000 };

static struct sqlite3_stmt *begin(struct server *s, request *r, const char *sql)
{
    struct error error;
    struct sqlite3_stmt *query = journal_query(s->journal, sql, &error);
    if (query == NULL) request_fail(r, 500, "%s", error.text);
    return query;
}

static void bind_u64(struct sqlite3_stmt *query, int at, uint64_t value)
{
    (void)sqlite3_bind_int64(query, at, (sqlite3_int64)value); /* fails only for a bad position */
}

static uint64_t column_u64(struct sqlite3_stmt *query, int at)
{
    return (uint64_t)sqlite3_column_int64(query, at);
}

static bool read_page(request *r, uint64_t *ret_after, uint64_t *ret_limit)
{
    return request_query_u64(r, "after", 0, INT64_MAX, ret_after) &&
           request_query_u64(r, "limit", ROWS_LIMIT_DEFAULT, ROWS_LIMIT, ret_limit);
}

static bool is_known_job(struct server *s, request *r)
{
    unsigned long long id = request_id(r);
    if (jobs_find(&s->jobs, id) != NULL) return true;
    request_fail(r, 404, "there is no job %llu; see: shoal jobs (GET /v1/jobs)", id);
    return false;
}

/* Decisions. ORDER: the columns of both queries. */

static json_t *decision_row(struct server *s, struct sqlite3_stmt *query)
{
    const struct pool_decision decision = {.id = column_u64(query, 0),
                                           .kind = (uint32_t)column_u64(query, 2),
                                           .reason = (uint32_t)column_u64(query, 3),
                                           .job_id = column_u64(query, 4),
                                           .node_key = column_u64(query, 5),
                                           .offer_id = column_u64(query, 6),
                                           .a = sqlite3_column_int64(query, 7),
                                           .b = sqlite3_column_int64(query, 8),
                                           .c = sqlite3_column_int64(query, 9)};
    struct view_names view_names = server_view_names(s);
    return decision_json(&view_names, &decision, sqlite3_column_int64(query, 1));
}

typedef json_t *row_fn(struct server *s, struct sqlite3_stmt *query);

static json_t *rows_of(struct server *s, struct sqlite3_stmt *query, row_fn *row)
{
    json_t *rows = json_array();
    while (journal_row(query)) {
        if (json_array_append_new(rows, row(s, query)) == 0) continue;
        journal_reset(query);
        json_decref(rows); /* out of memory: the whole answer, not a part that looks whole */
        return NULL;
    }
    return rows;
}

static void reply_rows(struct server *s, request *r, struct sqlite3_stmt *query, const char *name,
                       row_fn *row)
{
    json_t *rows = rows_of(s, query, row);
    request_reply_json(r, 200, rows == NULL ? NULL : json_pack("{s:o}", name, rows));
}

static uint64_t node_of(void *self, uint64_t job_id, uint64_t worker_id)
{
    struct server *s = self;
    struct lease_range range = leases_of_job(&s->leases, job_id);
    for (uint32_t i = 0; i < range.count; i++)
        if (range.items[i].worker_id == worker_id) return range.items[i].node_key;
    return 0;
}

static json_t *wishes_of(struct server *s, uint64_t job_id, json_t **ret_next)
{
    struct explanation explanation;
    (void)pool_explain(s->pool, job_id, &explanation); /* false: nothing is wished */
    struct view_names view_names = server_view_names(s);
    *ret_next = next_free_json(&view_names, &explanation.next);
    return explanation_json(&view_names, &explanation);
}

static json_t *rates_of(struct server *s, uint64_t job_id)
{
    struct rate_view rates[CATALOG_MODELS_MAX];
    struct view_names view_names = server_view_names(s);
    return rates_json(&view_names, rates,
                      pool_rates_of(s->pool, job_id, rates, CATALOG_MODELS_MAX));
}

static json_t *deadline_of(struct server *s, uint64_t job_id)
{
    struct job_view view;
    if (!pool_job_find(s->pool, job_id, &view)) return json_null();
    return deadline_json(&view, pump_now_us(s->pump));
}

/* What holds it up now, what would let it start, then everything that was decided. */
void api_job_why(struct server *s, request *r)
{
    uint64_t limit;
    if (!request_query_u64(r, "limit", ROWS_LIMIT_DEFAULT, ROWS_LIMIT, &limit)) return;
    if (!is_known_job(s, r)) return;
    struct sqlite3_stmt *query =
        begin(s, r,
              "SELECT id, t_us, kind, reason, job, node, offer, a, b, c FROM decisions"
              " WHERE job = ?1 AND job != 0 ORDER BY id DESC LIMIT ?2");
    if (query == NULL) return;
    bind_u64(query, 1, request_id(r));
    bind_u64(query, 2, limit);
    json_t *rows = rows_of(s, query, decision_row);
    (void)leases_refresh(&s->leases, s->pool); /* no memory: culprits without their nodes */
    json_t *stall = stalls_json(&s->stalls, request_id(r), node_of, s);
    json_t *next = NULL, *wishes = wishes_of(s, request_id(r), &next);
    json_t *rates = rates_of(s, request_id(r));
    json_t *deadline = deadline_of(s, request_id(r));
    bool failed = rows == NULL || stall == NULL || wishes == NULL || rates == NULL ||
                  next == NULL || deadline == NULL;
    json_t *answer =
        failed ? NULL
               : json_pack("{s:O,s:O,s:O,s:O,s:O,s:O}", "stall", stall, "deadline", deadline,
                           "next_free", next, "wishes", wishes, "rates", rates, "decisions", rows);
    json_decref(deadline);
    json_decref(next);
    json_decref(rows);
    json_decref(rates);
    json_decref(wishes);
    json_decref(stall);
    request_reply_json(r, 200, answer);
}

void api_decisions(struct server *s, request *r)
{
    uint64_t after, limit;
    if (!read_page(r, &after, &limit)) return;
    struct sqlite3_stmt *query =
        begin(s, r,
              "SELECT id, t_us, kind, reason, job, node, offer, a, b, c FROM decisions"
              " WHERE id > ?1 ORDER BY id LIMIT ?2");
    if (query == NULL) return;
    bind_u64(query, 1, after);
    bind_u64(query, 2, limit);
    reply_rows(s, r, query, "decisions", decision_row);
}

/* Ledger. */

static json_t *entry_row(struct server *s, struct sqlite3_stmt *query)
{
    const struct ledger_entry entry = {.id = column_u64(query, 0),
                                       .node_key = column_u64(query, 1),
                                       .job_id = column_u64(query, 2),
                                       .offer_id = column_u64(query, 3),
                                       .from_us = sqlite3_column_int64(query, 4),
                                       .to_us = sqlite3_column_int64(query, 5),
                                       .usd_micros = sqlite3_column_int64(query, 6),
                                       .kind = (uint32_t)column_u64(query, 7),
                                       .tenant = (uint32_t)column_u64(query, 8),
                                       .project = (uint32_t)column_u64(query, 9),
                                       .team = (uint32_t)column_u64(query, 10),
                                       .experiment = (uint32_t)column_u64(query, 11),
                                       .device_count = (uint32_t)column_u64(query, 12)};
    struct view_names view_names = server_view_names(s);
    return entry_json(&view_names, &entry);
}

void api_ledger(struct server *s, request *r)
{
    uint64_t after, limit;
    if (!read_page(r, &after, &limit)) return;
    struct sqlite3_stmt *query =
        begin(s, r,
              "SELECT id, node, job, offer, from_us, to_us, usd_micros, kind, tenant, project,"
              " team, experiment, device_count FROM entries WHERE id > ?1 ORDER BY id LIMIT ?2");
    if (query == NULL) return;
    bind_u64(query, 1, after);
    bind_u64(query, 2, limit);
    reply_rows(s, r, query, "entries", entry_row);
}

/* Logs. */

static json_t *log_row(struct server *s, struct sqlite3_stmt *query)
{
    (void)s; /* a log line holds no numbers to name */
    return json_pack("{s:I,s:I,s:I,s:I,s:s,s:s}", "n", (json_int_t)column_u64(query, 0), "t",
                     (json_int_t)column_u64(query, 1), "node", (json_int_t)column_u64(query, 2),
                     "worker", (json_int_t)column_u64(query, 3), "stream",
                     sqlite3_column_int(query, 4) != 0 ? "err" : "out", "line",
                     (const char *)sqlite3_column_text(query, 5));
}

void api_job_logs(struct server *s, request *r)
{
    uint64_t after, limit;
    if (!read_page(r, &after, &limit) || !is_known_job(s, r)) return;
    struct sqlite3_stmt *query = begin(s, r,
                                       "SELECT n, t_us, node, worker, is_error, line FROM logs"
                                       " WHERE job = ?1 AND n > ?2 ORDER BY n LIMIT ?3");
    if (query == NULL) return;
    bind_u64(query, 1, request_id(r));
    bind_u64(query, 2, after);
    bind_u64(query, 3, limit);
    json_t *rows = rows_of(s, query, log_row);
    const json_t *last = json_array_get(rows, json_array_size(rows) - 1); /* NULL when empty */
    json_int_t next =
        last == NULL ? (json_int_t)after : json_integer_value(json_object_get(last, "n"));
    request_reply_json(r, 200,
                       rows == NULL ? NULL : json_pack("{s:o,s:I}", "lines", rows, "next", next));
}

/* Progress. */

static json_t *step_row(struct server *s, struct sqlite3_stmt *query)
{
    (void)s; /* names were put in when the row was stored */
    const char *text = (const char *)sqlite3_column_text(query, 5);
    json_t *workers = json_loads(text == NULL ? "[]" : text, 0, NULL);
    bool failed = false;
    json_t *row = json_object();
    json_set_i64(row, "step", sqlite3_column_int64(query, 0), &failed);
    json_set_i64(row, "t", sqlite3_column_int64(query, 1), &failed);
    json_set_real(row, "loss", journal_column_real(query, 2), &failed);
    json_set_i64(row, "generation", sqlite3_column_int64(query, 3), &failed);
    json_set_i64(row, "attempt", sqlite3_column_int64(query, 4), &failed);
    json_set_i64(row, "redone_slots", sqlite3_column_int64(query, 6), &failed);
    const char *not_finite = (const char *)sqlite3_column_text(query, 7);
    if (not_finite != NULL) json_set_text(row, "not_finite", not_finite, &failed);
    json_set(row, "workers", workers, &failed);
    return json_finish(row, failed);
}

/* Steps count from 0, so "after" is a step that is not wanted and absent means all. */
void api_job_progress(struct server *s, request *r)
{
    uint64_t after, limit;
    bool from_start = request_query(r, "after") == NULL;
    if (!read_page(r, &after, &limit) || !is_known_job(s, r)) return;
    struct sqlite3_stmt *query =
        begin(s, r,
              "SELECT step, t_us, loss, generation, attempt, workers, redone_slots, not_finite"
              " FROM progress"
              " WHERE job = ?1 AND step > ?2 ORDER BY step LIMIT ?3");
    if (query == NULL) return;
    bind_u64(query, 1, request_id(r));
    (void)sqlite3_bind_int64(query, 2, from_start ? -1 : (sqlite3_int64)after);
    bind_u64(query, 3, limit);
    reply_rows(s, r, query, "steps", step_row);
}

/* Cost: one query for each way to group. Idle and overhead belong to no owner and are rows of
 * their own, except by node. */

/* Adjustments (kind 4) correct the money of intervals whose time other entries hold. */
#define COST_SUMS                                                                                  \
    "sum(usd_micros), sum(CASE WHEN kind = 4 THEN 0 ELSE (to_us - from_us) * device_count END)"

static const char *const cost_sql[] = {
    "SELECT kind IN (2, 3), CASE WHEN kind IN (2, 3) THEN kind ELSE job END, " COST_SUMS
    " FROM entries GROUP BY 1, 2 ORDER BY 3 DESC",
    "SELECT kind IN (2, 3), CASE WHEN kind IN (2, 3) THEN kind ELSE tenant END, " COST_SUMS
    " FROM entries GROUP BY 1, 2 ORDER BY 3 DESC",
    "SELECT kind IN (2, 3), CASE WHEN kind IN (2, 3) THEN kind ELSE project END, " COST_SUMS
    " FROM entries GROUP BY 1, 2 ORDER BY 3 DESC",
    "SELECT kind IN (2, 3), CASE WHEN kind IN (2, 3) THEN kind ELSE team END, " COST_SUMS
    " FROM entries GROUP BY 1, 2 ORDER BY 3 DESC",
    "SELECT kind IN (2, 3), CASE WHEN kind IN (2, 3) THEN kind ELSE experiment END, " COST_SUMS
    " FROM entries GROUP BY 1, 2 ORDER BY 3 DESC",
    "SELECT 0, node, " COST_SUMS " FROM entries GROUP BY 1, 2 ORDER BY 3 DESC",
};
static const char *const cost_groups[] = {"job", "tenant", "project", "team", "experiment", "node"};
enum { COST_BY_JOB, COST_BY_TENANT, COST_BY_NODE = 5, COST_GROUPS = 6 };
_Static_assert(ENTRY_OVERHEAD == 2 && ENTRY_IDLE == 3 && ENTRY_ADJUSTMENT == 4,
               "ORDER: the kinds in cost_sql");

static json_t *cost_name(struct server *s, int by, bool is_shared, uint64_t key)
{
    if (is_shared) return json_string(name_entry_kind((uint32_t)key));
    if (by == COST_BY_NODE) return json_sprintf("%llu", (unsigned long long)key);
    if (by == COST_BY_JOB) {
        const struct job_info *info = jobs_find(&s->jobs, key);
        if (info == NULL) return json_string(key == 0 ? "adjustment" : "");
        return json_sprintf("%s (%llu)", info->name, (unsigned long long)key);
    }
    static const uint32_t kinds[] = {0, ID_TENANT, ID_PROJECT, ID_TEAM, ID_EXPERIMENT};
    const char *name = names_text(s->names, kinds[by], (uint32_t)key);
    return json_string(name[0] == '\0' ? "(none)" : name);
}

static json_t *cost_rows(struct server *s, int by, struct sqlite3_stmt *query, int64_t *ret_total)
{
    json_t *rows = json_array();
    int64_t total = 0;
    while (journal_row(query)) {
        json_t *name = cost_name(s, by, sqlite3_column_int(query, 0) != 0, column_u64(query, 1));
        int64_t usd_micros = sqlite3_column_int64(query, 2);
        json_t *row = json_pack("{s:o,s:I,s:I}", "name", name, "usd_micros", (json_int_t)usd_micros,
                                "device_us", (json_int_t)sqlite3_column_int64(query, 3));
        total += usd_micros;
        if (json_array_append_new(rows, row) == 0) continue;
        journal_reset(query);
        json_decref(rows); /* out of memory */
        return NULL;
    }
    *ret_total = total;
    return rows;
}

static int64_t billed_usd_micros(struct server *s)
{
    struct sqlite3_stmt *query =
        journal_query(s->journal, "SELECT coalesce(sum(usd_micros), 0) FROM bills", NULL);
    if (query == NULL || !journal_row(query)) return 0;
    int64_t sum = sqlite3_column_int64(query, 0);
    journal_reset(query);
    return sum;
}

/* What the nodes that run now have cost since their last entry: an interval is entered when it
 * ends. */
static int64_t open_usd_micros(struct server *s)
{
    struct sqlite3_stmt *query =
        journal_query(s->journal, "SELECT sum(usd_micros) FROM entries WHERE node = ?1", NULL);
    int64_t sum = 0;
    for (uint32_t i = 0; query != NULL && i < pool_nodes_end(s->pool); i++) {
        struct node_view node;
        if (!pool_node_at(s->pool, i, &node)) continue;
        bind_u64(query, 1, node.node_key);
        int64_t entered = journal_row(query) ? sqlite3_column_int64(query, 0) : 0;
        journal_reset(query);
        sum += node.usd_micros - entered;
    }
    return sum;
}

void api_cost(struct server *s, request *r)
{
    const char *text = request_query(r, "by");
    int by = 0;
    if (text != NULL)
        while (by < COST_GROUPS && strcmp(text, cost_groups[by]) != 0) by++;
    if (by == COST_GROUPS) {
        request_fail(r, 400,
                     "query by=%.40s: expected job, tenant, project, team, experiment or node",
                     text);
        return;
    }
    struct sqlite3_stmt *query = begin(s, r, cost_sql[by]);
    if (query == NULL) return;
    int64_t total = 0;
    json_t *rows = cost_rows(s, by, query, &total);
    if (rows != NULL)
        rows = json_pack("{s:o,s:I,s:I,s:I}", "rows", rows, "total_usd_micros", (json_int_t)total,
                         "billed_usd_micros", (json_int_t)billed_usd_micros(s), "open_usd_micros",
                         (json_int_t)open_usd_micros(s));
    request_reply_json(r, 200, rows);
}
