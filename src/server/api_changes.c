/* Every change of an offer, out of the journal's events: what `shoal market record` keeps. */
#include "codec/json.h"
#include "codec/names.h"
#include "server/server_state.h"
#include <sqlite3.h>

enum { EVENTS_MAX = 20000, EVENTS_DEFAULT = 5000 };

struct changes {
    struct server *server;
    json_t *rows;
    uint64_t first, last, scanned, limit; /* seq of the first and the last event looked at */
    int64_t last_us;
    bool failed, is_more;
};

static void add_row(struct changes *c, const struct pool_event *event, uint64_t offer_id,
                    int64_t usd_micros)
{
    const struct offer_info *info = offers_find(&c->server->offers, offer_id);
    if (info == NULL) return; /* of an entry that names nothing we know */
    json_t *row = json_object();
    json_set_u64(row, "event", event->seq, &c->failed);
    json_set_i64(row, "t", event->now_us, &c->failed);
    json_set_u64(row, "offer", offer_id, &c->failed);
    json_set_text(row, "provider", info->name.provider, &c->failed);
    json_set_text(row, "region", info->name.region, &c->failed);
    json_set_text(row, "zone", info->name.zone, &c->failed);
    json_set_text(row, "model", info->name.model, &c->failed);
    json_set_text(row, "capacity", name_capacity(info->name.capacity), &c->failed);
    json_set_u64(row, "devices", info->name.device_count, &c->failed);
    json_set_i64(row, "usd_micros_per_hour", usd_micros, &c->failed);
    if (event->kind == POOL_EVENT_OFFER_CHANGED)
        json_set_u64(row, "stock", event->u.offer_changed.stock_count, &c->failed);
    else
        json_set(row, "stock", json_null(), &c->failed); /* as told before */
    json_append(c->rows, row, &c->failed);
}

/* Events of one moment stay together: they were committed in one batch. */
static bool take_event(void *arg, const struct pool_event *event)
{
    struct changes *c = arg;
    if (c->scanned >= c->limit && event->now_us != c->last_us) {
        c->is_more = true;
        return false;
    }
    c->scanned++;
    c->last = event->seq;
    c->last_us = event->now_us;
    if (event->kind == POOL_EVENT_OFFER_CHANGED)
        add_row(c, event, event->u.offer_changed.offer_id,
                event->u.offer_changed.usd_micros_per_hour);
    if (event->kind == POOL_EVENT_OFFERS_PRICED)
        for (uint32_t i = 0; i < event->u.offers_priced.count; i++)
            add_row(c, event, event->u.offers_priced.prices[i].offer_id,
                    event->u.offers_priced.prices[i].usd_micros_per_hour);
    return !c->failed;
}

/* Before which event there is nothing any more: what snapshots hold is let go. */
static bool first_kept(struct server *s, uint64_t *ret_first, struct error *ret_error)
{
    struct sqlite3_stmt *query =
        journal_query(s->journal, "SELECT coalesce(min(seq), 0) FROM events", ret_error);
    if (query == NULL) return false;
    while (journal_row(query)) *ret_first = (uint64_t)sqlite3_column_int64(query, 0);
    return true;
}

void api_market_changes(struct server *s, request *r)
{
    uint64_t after, first = 0;
    struct error error;
    struct pool_config config;
    struct changes c = {.server = s};
    if (!request_query_u64(r, "after", 0, INT64_MAX, &after) ||
        !request_query_u64(r, "limit", EVENTS_DEFAULT, EVENTS_MAX, &c.limit))
        return;
    if (!journal_meta_get(s->journal, "pool_config", &config, sizeof config) ||
        !first_kept(s, &first, &error)) {
        request_fail(r, 503, "the journal has nothing to tell yet; try again");
        return;
    }
    if (first > after + 1) after = first - 1;
    c.rows = json_array();
    c.first = after + 1;
    c.last = after;
    if (!journal_read_events(s->journal, after, take_event, &c, &error)) {
        json_decref(c.rows);
        request_fail(r, 500, "%s", error.text);
        return;
    }
    json_t *answer = json_object();
    json_set_u64(answer, "journal", config.incarnation, &c.failed);
    json_set_u64(answer, "first", c.first, &c.failed);
    json_set_u64(answer, "next", c.last, &c.failed);
    json_set_u64(answer, "last", pump_seq(s->pump), &c.failed);
    json_set(answer, "more", json_boolean(c.is_more), &c.failed);
    json_set(answer, "changes", c.rows, &c.failed);
    request_reply_json(r, 200, json_finish(answer, c.failed));
}
