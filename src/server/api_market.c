/* The market as the pool sees it: prices now and of late, and how long what is sold stays up. */
#include "base/mem.h"
#include "codec/json.h"
#include "codec/names.h"
#include "server/server_state.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HOURS_DEFAULT = 24, HOURS_MAX = 8760, POINTS_MAX = 240, LOSSES_SHOWN = 5, NAMES_SHOWN_BYTES = 400 };
#define HORIZON_HOURS 24.0
#define SURVIVAL_HOUR_US INT64_C(3600000000)

/* What was seen of one offer. */
struct seen {
    struct survival_seen survival;
    const struct life *losses[LOSSES_SHOWN]; /* newest first */
    uint32_t loss_count;
};

struct market {
    struct server *server;
    const char *model, *zone, *region; /* NULL: any */
    int64_t now_us, since_us;
    struct seen *seen; /* by offer number */
    uint32_t seen_count;
    struct survival_seen kinds[2]; /* not spot, spot */
};

static void note_loss(struct seen *seen, const struct life *life)
{
    uint32_t at = seen->loss_count < LOSSES_SHOWN ? seen->loss_count++ : LOSSES_SHOWN;
    while (at > 0 && seen->losses[at - 1]->ended_us < life->ended_us) {
        if (at < LOSSES_SHOWN) seen->losses[at] = seen->losses[at - 1];
        at--;
    }
    if (at < LOSSES_SHOWN) seen->losses[at] = life;
}

static bool is_spot(const struct server *s, uint64_t offer_id)
{
    const struct offer_info *info = offers_find(&s->offers, offer_id);
    return info != NULL && info->name.capacity == CAPACITY_SPOT;
}

static bool see_lives(struct market *m, struct error *ret_error)
{
    struct server *s = m->server;
    if (!lives_refresh(&s->lives, s->journal, ret_error)) return false;
    m->seen_count = s->offers.infos.count;
    m->seen = mem_zalloc(m->seen_count + 1, sizeof *m->seen);
    if (m->seen == NULL) return error_set(ret_error, "out of memory for the market");
    for (uint32_t i = 0; i < s->lives.all.count; i++) {
        const struct life *life = array_at(&s->lives.all, i);
        struct node_view node;
        if (life->offer_id >= m->seen_count) continue;
        struct seen *seen = &m->seen[life->offer_id];
        bool runs = pool_node_find(s->pool, life->node_key, &node);
        life_see(life, runs ? m->now_us : 0, &seen->survival);
        if (life_is_lost(life) && life->from_us != 0) note_loss(seen, life);
    }
    for (uint32_t i = 0; i < m->seen_count; i++)
        survival_join(&m->kinds[is_spot(s, i)], &m->seen[i].survival);
    return true;
}

/* Up to POINTS_MAX of the prices since then, the newest always, the one that held at the beginning
 * too. */
static json_t *history_json(const struct market *m, uint64_t offer_id)
{
    bool failed = false;
    json_t *points = json_array();
    const struct offer_info *info = offers_find(&m->server->offers, offer_id);
    uint32_t count = info == NULL ? 0 : info->prices.count, first = 0;
    const struct offer_price *prices = info == NULL ? NULL : info->prices.items;
    while (first + 1 < count && prices[first + 1].at_us <= m->since_us) first++;
    uint32_t have = count - first, used = have < POINTS_MAX ? have : POINTS_MAX;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t at = first + (used < 2 ? 0 : (uint32_t)((uint64_t)i * (have - 1) / (used - 1)));
        int64_t at_us = prices[at].at_us > m->since_us ? prices[at].at_us : m->since_us;
        json_append(points,
                    json_pack("[I,I]", (json_int_t)at_us,
                              (json_int_t)prices[at].usd_micros_per_hour),
                    &failed);
    }
    return json_finish(points, failed);
}

static json_t *losses_json(const struct seen *seen)
{
    static const char *const ends[] = {[LIFE_GOES_ON] = "",
                                       [LIFE_TAKEN] = "taken",
                                       [LIFE_NOTICED] = "taken_after_notice",
                                       [LIFE_FAILED] = "failed"};
    bool failed = false;
    json_t *rows = json_array();
    for (uint32_t i = 0; i < seen->loss_count; i++) {
        const struct life *life = seen->losses[i];
        json_t *row = json_object();
        json_set_u64(row, "node", life->node_key, &failed);
        json_set_i64(row, "t", life->ended_us, &failed);
        json_set_i64(row, "up_us", life->ended_us - life->from_us, &failed);
        json_set_text(row, "end", ends[life->end], &failed);
        json_append(rows, row, &failed);
    }
    return json_finish(rows, failed);
}

static void set_us(json_t *object, const char *key, double hours, bool *failed)
{
    if (isfinite(hours) && hours < 876000) /* a century */
        json_set_i64(object, key, (int64_t)(hours * (double)SURVIVAL_HOUR_US), failed);
    else
        json_set(object, key, json_null(), failed);
}

static json_t *survival_json(const struct market *m, const struct seen *seen, bool spot)
{
    bool failed = false;
    double hours = 0;
    struct survival_curve curve;
    json_t *object = json_object();
    survival_curve_of(&seen->survival, &m->kinds[spot], spot, &curve);
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++) hours += seen->survival.hours[i];
    json_set_u64(object, "nodes", seen->survival.lives, &failed);
    json_set_u64(object, "lost", seen->survival.losses, &failed);
    set_us(object, "up_us", hours, &failed);
    set_us(object, "median_us", survival_age_of(&curve, 0.5), &failed);
    set_us(object, "expected_day_us", survival_mean(&curve, HORIZON_HOURS), &failed);
    json_set_i64(object, "hour_ppm", (int64_t)(survival_at(&curve, 1) * 1e6), &failed);
    json_set_i64(object, "day_ppm", (int64_t)(survival_at(&curve, HORIZON_HOURS) * 1e6), &failed);
    json_set(object, "losses", losses_json(seen), &failed);
    return json_finish(object, failed);
}

static bool is_wanted(const char *wanted, const char *is)
{
    return wanted == NULL || strcmp(wanted, is) == 0;
}

static const char *model_name(const struct server *s, const struct offer_view *view)
{
    return view->model < s->catalog->model_count ? s->catalog->models[view->model].name : "";
}

static const char *zone_name(const struct server *s, const struct offer_view *view)
{
    return names_text(s->names, ID_ZONE, view->zone);
}

static const char *region_name(const struct server *s, const struct offer_view *view)
{
    return names_text(s->names, ID_REGION, view->region);
}

static bool add_row(const struct market *m, const struct offer_view *view, json_t *rows)
{
    static const struct seen nothing;
    struct server *s = m->server;
    struct view_names view_names = server_view_names(s);
    if (!is_wanted(m->zone, zone_name(s, view)) || !is_wanted(m->region, region_name(s, view)) ||
        !is_wanted(m->model, model_name(s, view)))
        return true;
    bool failed = false;
    const struct seen *seen = view->offer_id < m->seen_count ? &m->seen[view->offer_id] : &nothing;
    json_t *row = offer_view_json(&view_names, view);
    json_set(row, "history", history_json(m, view->offer_id), &failed);
    json_set(row, "survival", survival_json(m, seen, view->capacity == CAPACITY_SPOT), &failed);
    json_append(rows, json_finish(row, failed), &failed);
    return !failed;
}

static json_t *market_json(const struct market *m)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < pool_offers_end(m->server->pool); i++) {
        struct offer_view view;
        if (!pool_offer_at(m->server->pool, i, &view) || add_row(m, &view, rows)) continue;
        json_decref(rows); /* out of memory: no half answer */
        return NULL;
    }
    bool failed = false;
    json_t *answer = json_object();
    json_set_i64(answer, "t", m->now_us, &failed);
    json_set_i64(answer, "since", m->since_us, &failed);
    json_set(answer, "offers", rows, &failed);
    return json_finish(answer, failed);
}

static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(list, name); at != NULL; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

/* Names of one kind that offers have, for whoever asked for another one. */
static bool is_on_sale(const struct market *m, request *r, const char *what, const char *wanted,
                       const char *(*name_of)(const struct server *s, const struct offer_view *view))
{
    char known[NAMES_SHOWN_BYTES] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < pool_offers_end(m->server->pool); i++) {
        struct offer_view view;
        if (!pool_offer_at(m->server->pool, i, &view)) continue;
        const char *name = name_of(m->server, &view);
        if (wanted == NULL || strcmp(name, wanted) == 0) return true;
        if (is_listed(known, name) || used + strlen(name) + 3 > sizeof known) continue;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used == 0 ? "" : ", ",
                                 name);
    }
    if (wanted == NULL) return true; /* nothing is on sale */
    request_fail(r, 404, "no offer has the %s \"%.60s\"%s%s", what, wanted,
                 used == 0 ? "" : "; there are: ", known);
    return false;
}

void api_market(struct server *s, request *r)
{
    uint64_t hours;
    struct error error;
    struct market m = {.server = s,
                       .model = request_query(r, "model"),
                       .zone = request_query(r, "zone"),
                       .region = request_query(r, "region"),
                       .now_us = pump_now_us(s->pump)};
    if (!request_query_u64(r, "hours", HOURS_DEFAULT, HOURS_MAX, &hours)) return;
    if (!is_on_sale(&m, r, "model", m.model, model_name) ||
        !is_on_sale(&m, r, "zone", m.zone, zone_name) ||
        !is_on_sale(&m, r, "region", m.region, region_name))
        return;
    m.since_us = m.now_us - (int64_t)hours * SURVIVAL_HOUR_US;
    if (!see_lives(&m, &error))
        request_fail(r, 500, "%s", error.text);
    else
        request_reply_json(r, 200, market_json(&m));
    mem_free(m.seen);
}
