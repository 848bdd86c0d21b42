#include "server/rerun.h"
#include "base/mem.h"
#include "server/lives.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the run ---- */

struct run {
    const struct facts *facts;
    const struct rerun_plan *plan;
    struct rerun_outcome *outcome;
    pool *pool;
    world *world;
    struct pool_output out;
    uint32_t next; /* event of the plan */
};

/* Nodes that could be had beside those held here. */
static void adjust(struct run *r, const struct fact_event *row, struct pool_event *event)
{
    if (event->kind != POOL_EVENT_OFFER_CHANGED) return;
    world_told(r->world, event->u.offer_changed.offer_id, row->total);
    event->u.offer_changed.stock_count = world_stock(r->world, event->u.offer_changed.offer_id);
}

static void step(struct run *r, struct pool_event *event, int64_t now_us)
{
    int64_t was_us = pool_now_us(r->pool);
    event->seq = pool_last_seq(r->pool) + 1;
    event->version = POOL_CORE_VERSION;
    event->now_us = now_us > was_us ? now_us : was_us;
    pool_step(r->pool, event, &r->out);
    tally_step(&r->outcome->tally, r->pool, event, &r->out);
    world_obey(r->world, r->pool, &r->out, event->now_us);
}

/* What comes next: recorded events first, as they belong together; then the world; then the time that
 * the core waits for. */
static bool take_next(struct run *r)
{
    const struct fact_event *row =
        r->next < r->plan->events.count ? array_at(&r->plan->events, r->next) : NULL;
    int64_t told_us = row == NULL ? INT64_MAX : row->event.now_us;
    int64_t world_us = world_next_us(r->world), wake_us = pool_next_wake_us(r->pool);
    struct pool_event event = {.kind = POOL_EVENT_TICK};
    if (told_us <= world_us && told_us <= wake_us) {
        if (row == NULL || told_us > r->facts->to_us) return false;
        event = row->event;
        adjust(r, row, &event);
        r->next++;
        step(r, &event, told_us);
        return true;
    }
    if ((world_us < wake_us ? world_us : wake_us) > r->facts->to_us) return false;
    if (world_us <= wake_us && world_next(r->world, world_us, &event))
        step(r, &event, world_us);
    else if (wake_us <= world_us)
        step(r, &event, wake_us);
    return true; /* else: what was due is not any more */
}

/* Classes have the policy of the change, and pools none of their own; their limits stay. */
static void set_policy(const struct rerun_change *change, struct pool_event *event)
{
    if (change->buying == 0 || event->kind != POOL_EVENT_BUYING_DEFINED) return;
    event->u.buying_defined.policy =
        event->u.buying_defined.scope == BUYING_OF_CLASS ? change->buying : 0;
}

/* What was defined before the stretch begins. */
static void begin_buying(struct run *r, const struct rerun_change *change)
{
    struct pool_event event;
    for (uint32_t scope = BUYING_OF_CLASS; scope < BUYING_SCOPE_END && change->buying != 0; scope++)
        for (uint32_t i = 0; pool_buying_read(r->pool, scope, i, &event); i++) {
            uint32_t was = event.u.buying_defined.policy;
            set_policy(change, &event);
            if (event.u.buying_defined.policy != was) step(r, &event, r->facts->from_us);
        }
}

static bool open_pool(struct run *r, const struct rerun_change *change, void **ret_memory,
                      struct error *ret_error)
{
    struct pool_config config = change->config == NULL ? r->facts->start.config : *change->config;
    size_t bytes = pool_size(&config.limits);
    *ret_memory = mem_zalloc(1, bytes);
    if (*ret_memory == NULL)
        return error_set(ret_error, "out of memory: the pool needs %zu bytes", bytes);
    r->pool = pool_init(*ret_memory, bytes, &config);
    return pool_snapshot_read(r->pool, r->facts->snapshot, r->facts->snapshot_bytes) ||
           error_set(ret_error, "the pool of that time does not fit the limits of the other file");
}

bool rerun_run(const struct facts *f, const struct rerun_change *change,
               const struct rerun_plan *plan, const struct survival_curve *curves, uint64_t seed,
               struct rerun_outcome *ret_outcome, struct error *ret_error)
{
    void *memory = NULL;
    struct run *r = mem_zalloc(1, sizeof *r);
    *ret_outcome = (struct rerun_outcome){0};
    if (r == NULL) return error_set(ret_error, "out of memory for a run");
    r->facts = f;
    r->plan = plan;
    r->outcome = ret_outcome;
    bool ok = open_pool(r, change, &memory, ret_error);
    if (ok) {
        tally_begin(&ret_outcome->tally, r->pool, f->from_us);
        r->world = world_open(f, curves, seed, r->pool);
        ok = r->world != NULL || error_set(ret_error, "out of memory for a modelled world");
    }
    if (ok) begin_buying(r, change);
    while (ok && !world_failed(r->world) && take_next(r)) {}
    if (ok) {
        struct pool_event last = {.kind = POOL_EVENT_TICK}; /* what has run up is counted */
        step(r, &last, f->to_us);
        tally_end(&ret_outcome->tally, r->pool, f->to_us);
        ret_outcome->fate = world_end(r->world, f->to_us);
        ret_outcome->digest = pool_digest(r->pool);
        if (world_failed(r->world) || ret_outcome->tally.failed)
            ok = error_set(ret_error, "out of memory for a modelled world");
    }
    world_close(r->world);
    mem_free(memory);
    mem_free(r);
    return ok;
}

/* ---- survival ---- */

struct survival_curve *rerun_curves(const struct facts *f, journal *j,
                                    struct survival_seen *ret_all, struct error *ret_error)
{
    uint32_t offers = f->offers.count;
    struct lives lives;
    struct survival_seen kinds[2] = {{{0}, {0}, 0, 0}, {{0}, {0}, 0, 0}};
    struct survival_seen *seen = mem_zalloc(offers + 1, sizeof *seen);
    struct survival_curve *curves = mem_zalloc(offers + 1, sizeof *curves);
    lives_init(&lives);
    bool ok = seen != NULL && curves != NULL;
    if (!ok) (void)error_set(ret_error, "out of memory for the lives of nodes");
    ok = ok && lives_refresh(&lives, j, ret_error);
    for (uint32_t i = 0; ok && i < lives.all.count; i++) {
        const struct life *life = array_at(&lives.all, i);
        if (life->offer_id >= offers || life->from_us >= f->to_us) continue;
        life_see(life, 0, &seen[life->offer_id]);
    }
    for (uint32_t pass = 0; ok && pass < 2; pass++)
        for (uint32_t i = 0; i < offers; i++) {
            const struct fact_offer *offer = facts_offer(f, i);
            bool spot = offer != NULL && offer->capacity == CAPACITY_SPOT;
            if (pass == 0)
                survival_join(&kinds[spot], &seen[i]);
            else
                survival_curve_of(&seen[i], &kinds[spot], spot, &curves[i]);
        }
    *ret_all = kinds[1];
    lives_free(&lives);
    mem_free(seen);
    if (!ok) {
        mem_free(curves);
        return NULL;
    }
    return curves;
}

/* ---- the plan ---- */

struct planner {
    const struct facts *facts;
    const struct rerun_change *change;
    const names *names;
    struct rerun_plan *plan;
    uint32_t *series; /* by offer: first point of its prices, +1; 0: none */
    bool failed;
};

static void push(struct planner *p, const struct pool_event *event, uint32_t total)
{
    struct fact_event *row = array_push(&p->plan->events);
    if (row == NULL) {
        p->failed = true;
        return;
    }
    row->event = *event;
    row->total = total;
}

static int64_t priced(double factor, int64_t usd_micros)
{
    double price = factor == 0 ? (double)usd_micros : round((double)usd_micros * factor);
    return price < 1e10 ? (int64_t)price : INT64_C(10000000000); /* PRICE_MAX of the core */
}

static double factor_of(const struct planner *p, uint32_t capacity)
{
    if (capacity == CAPACITY_SPOT) return p->change->spot_factor;
    return capacity == CAPACITY_ON_DEMAND ? p->change->on_demand_factor : 0;
}

static bool has_series(const struct planner *p, uint64_t offer_id)
{
    return offer_id < p->facts->offers.count && p->series[offer_id] != 0;
}

static void push_price(struct planner *p, uint64_t offer_id, int64_t usd_micros, int64_t at_us)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFERS_PRICED, .now_us = at_us};
    event.u.offers_priced.count = 1;
    event.u.offers_priced.prices[0].offer_id = offer_id;
    event.u.offers_priced.prices[0].usd_micros_per_hour = usd_micros;
    push(p, &event, 0);
}

static int64_t series_price(const struct planner *p, uint64_t offer_id, int64_t at_us)
{
    const struct price_feed *feed = p->change->prices;
    uint32_t first = p->series[offer_id] - 1, end = price_feed_series_end(feed, first), at = first;
    while (at + 1 < end && feed->points[at + 1].at_us <= at_us) at++;
    return feed->points[at].usd_micros_per_hour; /* before the first point: the first */
}

static void plan_offer(struct planner *p, struct pool_event *event, uint32_t total)
{
    uint64_t id = event->u.offer_changed.offer_id;
    int64_t *price = &event->u.offer_changed.usd_micros_per_hour;
    int64_t *on_demand = &event->u.offer_changed.on_demand_usd_micros_per_hour;
    *price = has_series(p, id) ? series_price(p, id, event->now_us)
                               : priced(factor_of(p, event->u.offer_changed.capacity), *price);
    *on_demand = event->u.offer_changed.capacity == CAPACITY_ON_DEMAND
                     ? *price
                     : priced(p->change->on_demand_factor, *on_demand);
    push(p, event, total);
}

/* What a file has prices of is not told from the record. All but the last say that more follow. */
static void plan_prices(struct planner *p, struct pool_event *event)
{
    struct told_price *prices = event->u.offers_priced.prices;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < event->u.offers_priced.count; i++) {
        const struct fact_offer *offer = facts_offer(p->facts, prices[i].offer_id);
        if (has_series(p, prices[i].offer_id)) continue;
        prices[kept] = prices[i];
        prices[kept++].usd_micros_per_hour = priced(
            offer == NULL ? 0 : factor_of(p, offer->capacity), prices[i].usd_micros_per_hour);
    }
    for (uint32_t i = kept; i < event->u.offers_priced.count; i++)
        prices[i] = (struct told_price){0, 0};
    event->u.offers_priced.count = kept;
    if (p->change->prices != NULL) event->u.offers_priced.more = 0; /* the next may be left out */
    if (kept > 0) push(p, event, 0);
}

static void plan_job(struct planner *p, struct pool_event *event)
{
    uint8_t *mask = &event->u.job_submitted.capacity_mask;
    uint32_t all = (1U << CAPACITY_KIND_END) - 2, allowed = *mask == 0 ? all : *mask;
    uint32_t left = allowed & ~p->change->forbidden_mask;
    if (p->change->forbidden_mask != 0 && left != 0) *mask = (uint8_t)left;
    p->plan->kept_jobs += left == 0;
    push(p, event, 0);
}

/* A recorded model that the other catalog does not have stays as it was: offers are of it. */
static bool is_model_told(const struct array *definitions, uint32_t model)
{
    for (uint32_t i = 0; i < definitions->count; i++) {
        const struct pool_event *event = array_at(definitions, i);
        if (event->kind == POOL_EVENT_MODEL_DEFINED && event->u.model_defined.model == model)
            return true;
    }
    return false;
}

/* The change says it in place of the record. */
static bool is_replaced(const struct rerun_change *change, const struct pool_event *event)
{
    uint32_t kind = event->kind;
    if (change->definitions == NULL) return false;
    if (kind == POOL_EVENT_MODEL_DEFINED)
        return is_model_told(change->definitions, event->u.model_defined.model);
    return kind == POOL_EVENT_POOL_DEFINED || kind == POOL_EVENT_ACCOUNT_DEFINED ||
           kind == POOL_EVENT_QUOTA_MODEL_DEFINED || kind == POOL_EVENT_CLASS_DEFINED ||
           kind == POOL_EVENT_MATCHING_DEFINED || kind == POOL_EVENT_GATE_DEFINED ||
           kind == POOL_EVENT_BUYING_DEFINED;
}

static void plan_event(struct planner *p, const struct fact_event *row)
{
    struct pool_event event = row->event;
    if (event.kind == POOL_EVENT_OFFER_CHANGED)
        plan_offer(p, &event, row->total);
    else if (event.kind == POOL_EVENT_OFFERS_PRICED)
        plan_prices(p, &event);
    else if (event.kind == POOL_EVENT_JOB_SUBMITTED)
        plan_job(p, &event);
    else if (!is_replaced(p->change, &event)) {
        set_policy(p->change, &event);
        push(p, &event, 0);
    }
}

/* Prices of the first moment, and definitions in place of the recorded ones. */
static void plan_beginning(struct planner *p)
{
    for (uint32_t i = 0; p->change->definitions != NULL && i < p->change->definitions->count; i++) {
        struct pool_event event = *(const struct pool_event *)array_at(p->change->definitions, i);
        event.now_us = p->facts->from_us;
        set_policy(p->change, &event);
        push(p, &event, 0);
    }
    for (uint32_t i = 0; i < p->facts->offers.count; i++) {
        const struct fact_offer *offer = facts_offer(p->facts, i);
        if (offer == NULL || offer->usd_micros_per_hour == 0) continue;
        int64_t now = has_series(p, i)
                          ? series_price(p, i, p->facts->from_us)
                          : priced(factor_of(p, offer->capacity), offer->usd_micros_per_hour);
        if (now != offer->usd_micros_per_hour) push_price(p, i, now, p->facts->from_us);
    }
}

/* The points of the file that lie before an event, of all offers it has a series of, in order. */
static bool next_point(const struct planner *p, uint32_t *cursors, int64_t until_us,
                       uint32_t *ret_offer)
{
    const struct price_feed *feed = p->change->prices;
    int64_t first_us = INT64_MAX;
    for (uint32_t i = 0; i < p->facts->offers.count; i++) {
        if (!has_series(p, i) || cursors[i] >= price_feed_series_end(feed, p->series[i] - 1))
            continue;
        int64_t at_us = feed->points[cursors[i]].at_us;
        if (at_us > until_us || at_us >= first_us) continue;
        first_us = at_us;
        *ret_offer = i;
    }
    return first_us != INT64_MAX;
}

static void plan_points(struct planner *p, uint32_t *cursors, int64_t until_us)
{
    uint32_t offer = 0;
    while (p->change->prices != NULL && next_point(p, cursors, until_us, &offer)) {
        const struct feed_point *point = &p->change->prices->points[cursors[offer]++];
        if (point->at_us > p->facts->from_us)
            push_price(p, offer, point->usd_micros_per_hour, point->at_us);
    }
}

/* "H100", or "H100 x8" of nodes of eight, as `shoal market record` writes it. */
static bool is_series_of(const struct planner *p, const struct fact_offer *offer,
                         const struct feed_point *point)
{
    char type[FEED_NAME_BYTES + 16];
    const char *model = names_text(p->names, NAME_MODEL, offer->model);
    (void)snprintf(type, sizeof type, offer->device_count > 1 ? "%.60s x%u" : "%.60s", model,
                   offer->device_count); /* longer names match nothing */
    return point->is_spot == (offer->capacity == CAPACITY_SPOT) &&
           strcmp(point->zone, names_text(p->names, ID_ZONE, offer->zone)) == 0 &&
           strcmp(point->instance, type) == 0;
}

static void find_series(struct planner *p)
{
    const struct price_feed *feed = p->change->prices;
    for (uint32_t first = 0; feed != NULL && first < feed->point_count;
         first = price_feed_series_end(feed, first))
        for (uint32_t i = 0; i < p->facts->offers.count; i++) {
            const struct fact_offer *offer = facts_offer(p->facts, i);
            if (offer == NULL || offer->capacity < CAPACITY_ON_DEMAND ||
                !is_series_of(p, offer, &feed->points[first]))
                continue;
            p->series[i] = first + 1;
            p->plan->priced_offers++;
        }
}

bool rerun_prepare(const struct facts *f, const struct rerun_change *change, const names *table,
                   struct rerun_plan *ret_plan, struct error *ret_error)
{
    struct planner p = {.facts = f, .change = change, .names = table, .plan = ret_plan};
    *ret_plan = (struct rerun_plan){0};
    array_init(&ret_plan->events, sizeof(struct fact_event));
    uint32_t *cursors = mem_zalloc(f->offers.count + 1, sizeof *cursors);
    p.series = mem_zalloc(f->offers.count + 1, sizeof *p.series);
    p.failed = cursors == NULL || p.series == NULL;
    if (!p.failed) {
        find_series(&p);
        for (uint32_t i = 0; i < f->offers.count; i++)
            cursors[i] = p.series[i] == 0 ? 0 : p.series[i] - 1;
        plan_beginning(&p);
        bool is_open = false; /* prices that follow at once must not be parted */
        for (uint32_t i = 0; i < f->events.count && !p.failed; i++) {
            const struct fact_event *row = array_at(&f->events, i);
            if (!is_open) plan_points(&p, cursors, row->event.now_us - 1);
            plan_event(&p, row);
            is_open =
                row->event.kind == POOL_EVENT_OFFERS_PRICED && row->event.u.offers_priced.more;
        }
        plan_points(&p, cursors, f->to_us);
    }
    mem_free(cursors);
    mem_free(p.series);
    return !p.failed || error_set(ret_error, "out of memory for the events of the stretch");
}

void rerun_plan_free(struct rerun_plan *plan)
{
    array_free(&plan->events);
}
