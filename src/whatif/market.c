/* Prices and stock of the offers: drawn step by step from streams of their own, or from series. */
#include "core/assert.h"
#include "whatif/ranker.h"

enum { STREAM_PRICES = 1000, STREAM_UPS = 2000, STREAM_LIVES = 3000 };

void market_paid(struct world *w, uint32_t offer)
{
    struct live_offer *o = &w->offers[offer];
    o->paid += (double)o->usd_micros / 1e6 * ((double)(w->now_us - o->paid_at_us) / HOUR);
    o->paid_at_us = w->now_us;
}

bool market_told(const struct world *w, uint32_t offer)
{
    if (!scene_case_has_offer(w->c, offer)) return false;
    const struct scene_offer *o = &w->scene->offers[offer];
    if (w->c->policy == POLICY_ON_DEMAND) return o->capacity != CAPACITY_SPOT;
    if (w->c->policy == POLICY_ONE_ZONE)
        return o->capacity == CAPACITY_SPOT && (w->c->zone == 0 || o->zone == w->c->zone);
    return true;
}

static bool lost_for_price(const struct world *w, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    return o->bid_ppm > 0 &&
           w->offers[offer].usd_micros >= o->on_demand_usd_micros / 1000 * (o->bid_ppm / 1000);
}

static uint32_t could_be_had(const struct world *w, uint32_t offer)
{
    const struct live_offer *o = &w->offers[offer];
    if (o->down || o->unsold || lost_for_price(w, offer)) return 0;
    return o->up < w->scene->offers[offer].stock ? o->up : w->scene->offers[offer].stock;
}

uint32_t market_left(const struct world *w, uint32_t offer)
{
    uint32_t up = could_be_had(w, offer), held = w->offers[offer].held;
    return up > held ? up - held : 0;
}

bool market_is_above(const struct world *w, uint32_t offer, int64_t bid_usd_micros)
{
    return bid_usd_micros != 0 && w->offers[offer].usd_micros > bid_usd_micros;
}

/* Regions as the policy sees them: one for all without affinity, a zone where gangs stay in one. */
static uint32_t region_told(const struct world *w, const struct scene_offer *o)
{
    if (drive_is_fixed(w)) return o->zone;
    return w->c->no_affinity ? 1 : o->region;
}

static void tell(struct world *w, uint32_t offer)
{
    if (!market_told(w, offer)) return;
    ranker_before(w, offer);
    const struct scene_offer *o = &w->scene->offers[offer];
    struct pool_event event = feed_event(POOL_EVENT_OFFER_CHANGED);
    event.u.offer_changed.offer_id = offer + 1;
    event.u.offer_changed.usd_micros_per_hour = w->offers[offer].usd_micros;
    event.u.offer_changed.on_demand_usd_micros_per_hour = o->on_demand_usd_micros;
    event.u.offer_changed.provider = o->provider;
    event.u.offer_changed.region = region_told(w, o);
    event.u.offer_changed.zone = o->zone;
    event.u.offer_changed.model = o->model;
    event.u.offer_changed.capacity = o->capacity;
    event.u.offer_changed.device_count = o->device_count;
    event.u.offer_changed.stock_count = market_left(w, offer);
    feed_tell(w, &event);
}

/* Nodes that are held beyond what there is are taken, the youngest first. */
static void take_surplus(struct world *w, uint32_t offer)
{
    struct live_offer *o = &w->offers[offer];
    uint32_t had = could_be_had(w, offer), leaving = 0;
    for (uint32_t n = o->first_node; n != NONE; n = w->nodes[n].next)
        leaving += w->nodes[n].notice_us != 0;
    for (uint32_t n = o->first_node; n != NONE && o->held - leaving > had;) {
        uint32_t next = w->nodes[n].next;
        if (w->nodes[n].notice_us == 0) {
            uint32_t held = o->held;
            site_notice(w, n);
            leaving += o->held == held; /* it has a notice; without one it is gone already */
        }
        n = next;
    }
}

static void take_outbid(struct world *w, uint32_t offer)
{
    for (uint32_t n = w->offers[offer].first_node; n != NONE;) {
        uint32_t next = w->nodes[n].next;
        if (market_is_above(w, offer, w->nodes[n].bid_usd_micros)) site_notice(w, n);
        n = next;
    }
}

static void changed(struct world *w, uint32_t offer)
{
    take_outbid(w, offer);
    take_surplus(w, offer);
    tell(w, offer);
}

static void set_price(struct world *w, uint32_t offer, int64_t usd_micros)
{
    struct live_offer *o = &w->offers[offer];
    if (o->usd_micros == usd_micros) return;
    market_paid(w, offer);
    o->usd_micros = usd_micros;
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_PRICE,
                                                .offer = offer,
                                                .value = usd_micros});
    changed(w, offer);
}

static void price_of_spike(struct world *w, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    int64_t price = w->offers[offer].walk_usd_micros;
    if (w->offers[offer].spiking)
        price = o->on_demand_usd_micros / 1000 * (o->price.spike_ppm / 1000);
    set_price(w, offer, price < 1 ? 1 : price);
}

static void walk(struct world *w, uint32_t offer)
{
    const struct scene_price *p = &w->scene->offers[offer].price;
    struct live_offer *o = &w->offers[offer];
    int64_t move_ppm = sim_random_range(&o->prices, -p->step_ppm, p->step_ppm);
    int64_t price = o->walk_usd_micros;
    price += price * move_ppm / PPM;
    price += (p->usd_micros - price) / 1000 * (p->return_ppm / 1000);
    o->walk_usd_micros = price < 1 ? 1 : price;
    world_later(w, w->now_us + p->every_us, ON_PRICE, offer, 0);
    price_of_spike(w, offer);
}

/* When the step after this one begins, in the time of the world. */
static void plan_step(struct world *w, const struct series *s, uint32_t step, enum what what,
                      uint32_t offer)
{
    if (step + 1 < s->count)
        world_later(w, START_US + s->steps[step + 1].at_us - w->trace_us, what, offer, 0);
}

static uint32_t step_at(const struct series *s, int64_t at_us)
{
    uint32_t low = 0, high = s->count;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->steps[middle].at_us <= at_us)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void on_price(struct world *w, uint32_t offer)
{
    const struct series *s = &w->scene->offers[offer].price.series;
    struct live_offer *o = &w->offers[offer];
    if (s->count == 0) {
        walk(w, offer);
        return;
    }
    o->price_step = step_at(s, w->now_us - START_US + w->trace_us);
    o->walk_usd_micros = s->steps[o->price_step].value;
    plan_step(w, s, o->price_step, ON_PRICE, offer);
    price_of_spike(w, offer);
}

static void on_spike(struct world *w, uint32_t offer, bool ends)
{
    const struct scene_price *p = &w->scene->offers[offer].price;
    struct live_offer *o = &w->offers[offer];
    o->spiking = !ends;
    int64_t after_us = ends ? sim_random_exponential_us(&o->ups, p->spike_mean_us)
                            : sim_random_exponential_us(&o->ups, p->spike_us);
    world_later(w, w->now_us + after_us, ON_SPIKE, offer, ends ? 0 : 1);
    price_of_spike(w, offer);
}

static void on_market(struct world *w, uint32_t offer)
{
    const struct scene_offer *scene = &w->scene->offers[offer];
    struct live_offer *o = &w->offers[offer];
    if (scene->up.count > 0) {
        o->up_step = step_at(&scene->up, w->now_us - START_US + w->trace_us);
        int64_t up = scene->up.steps[o->up_step].value;
        o->up = up > UINT32_MAX ? UINT32_MAX : (uint32_t)up;
        plan_step(w, &scene->up, o->up_step, ON_MARKET, offer);
    } else {
        o->down = !o->down;
        int64_t mean_us = o->down ? scene->down_mean_us : scene->up_mean_us;
        o->turns_us = w->now_us + sim_random_exponential_us(&o->ups, mean_us);
        world_later(w, o->turns_us, ON_MARKET, offer, 0);
    }
    changed(w, offer);
}

static void on_sold(struct world *w, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    int64_t at_us = w->now_us - START_US;
    w->offers[offer].unsold = at_us < o->from_us || (o->until_us > 0 && at_us >= o->until_us);
    if (at_us < o->from_us)
        world_later(w, START_US + o->from_us, ON_SOLD, offer, 0);
    else if (o->until_us > at_us)
        world_later(w, START_US + o->until_us, ON_SOLD, offer, 0);
    changed(w, offer);
}

void market_on(struct world *w, enum what what, uint32_t offer, uint32_t version)
{
    if (what == ON_PRICE)
        on_price(w, offer);
    else if (what == ON_SPIKE)
        on_spike(w, offer, version == 1);
    else if (what == ON_MARKET)
        on_market(w, offer);
    else
        on_sold(w, offer);
}

/* Whether it is to be had at the beginning is drawn by the share of time that it is. */
static void open_up(struct world *w, uint32_t offer)
{
    const struct scene_offer *scene = &w->scene->offers[offer];
    struct live_offer *o = &w->offers[offer];
    o->up = scene->stock;
    if (scene->up.count == 0 && scene->up_mean_us == 0) return;
    if (scene->up.count == 0) {
        int64_t both_us = scene->up_mean_us + scene->down_mean_us;
        o->down =
            sim_random_range(&o->ups, 0, both_us - 1) < scene->up_mean_us; /* turned at once */
    }
    on_market(w, offer);
}

static void open_price(struct world *w, uint32_t offer)
{
    const struct scene_price *p = &w->scene->offers[offer].price;
    struct live_offer *o = &w->offers[offer];
    o->usd_micros = o->walk_usd_micros = p->usd_micros;
    if (p->series.count > 0) {
        o->price_step = step_at(&p->series, w->trace_us);
        o->usd_micros = o->walk_usd_micros = p->series.steps[o->price_step].value;
        plan_step(w, &p->series, o->price_step, ON_PRICE, offer);
    } else if (p->every_us > 0) {
        world_later(w, w->now_us + p->every_us, ON_PRICE, offer, 0);
    }
    if (p->spike_mean_us > 0)
        world_later(w, w->now_us + sim_random_exponential_us(&o->ups, p->spike_mean_us), ON_SPIKE,
                    offer, 0);
    record_add(w->recorder,
               (struct record_row){.kind = RECORD_PRICE, .offer = offer, .value = o->usd_micros});
}

void market_open(struct world *w)
{
    for (uint32_t i = 0; i < w->scene->offer_count; i++) {
        struct live_offer *o = &w->offers[i];
        const struct scene_offer *scene = &w->scene->offers[i];
        o->first_node = NONE;
        o->paid_at_us = w->now_us;
        o->prices = sim_random_fork(w->seed, STREAM_PRICES + i);
        o->ups = sim_random_fork(w->seed, STREAM_UPS + i);
        o->lives = sim_random_fork(w->seed, STREAM_LIVES + i);
        open_price(w, i);
        open_up(w, i);
        if (scene->from_us > 0 || scene->until_us > 0)
            on_sold(w, i);
        else
            tell(w, i);
    }
}
