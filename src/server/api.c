/* From a route to its call. */
#include "server/server_state.h"
#include "server/web.h"
#include <string.h>

static void api_page(struct server *s, request *r)
{
    (void)s; /* the page is the same for everyone: it asks for the token */
    request_reply_static(r, "text/html; charset=utf-8", web_index_text, web_index_bytes);
}

static void api_openapi(struct server *s, request *r)
{
    (void)s; /* fixed at build time */
    request_reply_static(r, "application/json", web_openapi_text, web_openapi_bytes);
}

static void api_health(struct server *s, request *r)
{
    const char *trouble = pump_trouble(s->pump);
    json_int_t seq = (json_int_t)pump_seq(s->pump);
    if (trouble == NULL)
        request_reply_json(r, 200, json_pack("{s:b,s:I}", "ok", 1, "seq", seq));
    else
        request_reply_json(r, 503,
                           json_pack("{s:b,s:I,s:s}", "ok", 0, "seq", seq, "error", trouble));
}

static void api_events(struct server *s, request *r)
{
    stream_add(s->stream, r);
}

typedef void api_call(struct server *s, request *r);

/* ORDER: route_id */
static api_call *const calls[ROUTE_END] = {
    [ROUTE_PAGE] = api_page,
    [ROUTE_OPENAPI] = api_openapi,
    [ROUTE_HEALTH] = api_health,
    [ROUTE_METRICS] = api_metrics,
    [ROUTE_EVENTS] = api_events,
    [ROUTE_PLAN] = api_plan,
    [ROUTE_PLAN_NCU] = api_plan_ncu,
    [ROUTE_JOB_SUBMIT] = api_job_submit,
    [ROUTE_JOBS] = api_jobs,
    [ROUTE_JOB] = api_job,
    [ROUTE_JOB_CANCEL] = api_job_cancel,
    [ROUTE_JOB_WHY] = api_job_why,
    [ROUTE_JOB_LOGS] = api_job_logs,
    [ROUTE_JOB_PROGRESS] = api_job_progress,
    [ROUTE_NODES] = api_nodes,
    [ROUTE_NODE_DRAIN] = api_node_drain,
    [ROUTE_OFFERS] = api_offers,
    [ROUTE_POOLS] = api_pools,
    [ROUTE_COST] = api_cost,
    [ROUTE_BUDGET] = api_budget,
    [ROUTE_LEDGER] = api_ledger,
    [ROUTE_DECISIONS] = api_decisions,
    [ROUTE_AGENT_REPORT] = api_agent_report,
    [ROUTE_MARKET] = api_market,
    [ROUTE_MARKET_CHANGES] = api_market_changes,
};

/* What the core has just said reaches the tables one commit later. A call that reads them waits
 * for that commit, so that nobody sees less than he was told before. */
static bool reads_outputs(enum route_id id)
{
    return id == ROUTE_JOB_WHY || id == ROUTE_COST || id == ROUTE_LEDGER || id == ROUTE_DECISIONS ||
           id == ROUTE_MARKET;
}

static void on_flushed(void *arg, const char *error)
{
    request *r = arg;
    (void)error; /* a full disk must not keep people from reading what there is */
    struct server *s = request_host(r);
    calls[request_route(r)->id](s, r);
}

void api_handle(void *host, request *r)
{
    struct server *s = host;
    enum route_id id = request_route(r)->id;
    if (s->is_stopping) {
        request_fail(r, 503, "the server is stopping; try again when it is back");
        return;
    }
    const struct batch *next = pump_batch(s->pump);
    bool has_unread = next->decisions.count > 0 || next->entries.count > 0;
    if (reads_outputs(id) && (has_unread || pump_is_busy(s->pump)) &&
        pump_wait(s->pump, on_flushed, r))
        return;
    calls[id](s, r);
}

static const char *name_of(void *self, enum id_kind kind, uint32_t id)
{
    const struct server *s = self;
    return names_text(s->names, kind, id);
}

/* For streams and lists. The view of an offer as far as its names tell: no price. */
static bool offer_view_of(void *self, uint64_t offer_id, struct offer_view *ret_offer)
{
    const struct server *s = self;
    const struct offer_info *info = offers_find(&s->offers, offer_id);
    if (info == NULL) return false;
    struct offer_view view = {.offer_id = offer_id,
                              .capacity = info->name.capacity,
                              .device_count = info->name.device_count};
    (void)names_find(s->names, ID_PROVIDER, info->name.provider, &view.provider); /* else 0: "" */
    (void)names_find(s->names, ID_REGION, info->name.region, &view.region);
    (void)names_find(s->names, ID_ZONE, info->name.zone, &view.zone);
    (void)names_find(s->names, ID_RACK, info->name.rack, &view.rack);
    if (!catalog_find_model(s->catalog, info->name.model, &view.model)) return false;
    *ret_offer = view;
    return true;
}

struct view_names server_view_names(struct server *s)
{
    return (struct view_names){
        .name_of = name_of, .offer_of = offer_view_of, .self = s, .catalog = s->catalog};
}

void api_commit_failed(struct server *s, request *r, const char *error)
{
    request_fail(r, pump_is_full(s->pump) ? 507 : 503, "nothing was changed: %s", error);
}

void api_wait(struct server *s, request *r, batch_done_fn *done, void *arg)
{
    if (pump_wait(s->pump, done, arg)) return;
    request_fail(r, 503,
                 "the server is stopping or out of memory; look whether it was done, then "
                 "try again");
}
