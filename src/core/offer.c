#include "core/offer.h"
#include "core/assert.h"
#include "core/job.h"
#include "core/node.h"
#include "core/plan_pack.h"
#include "core/prices.h"
#include "core/risk.h"
#include "core/spot_watch.h"
#include "core/victims.h"

static uint32_t find_region(const pool *p, uint32_t region)
{
    for (uint32_t i = 0; i < p->regions_end; i++)
        if (p->regions[i].region == region) return i;
    return SLOT_NONE;
}

static uint32_t region_make(pool *p, uint32_t region)
{
    uint32_t index = find_region(p, region);
    if (index != SLOT_NONE) return index;
    if ((p->regions_end + 1) * p->config.limits.models_max > p->markets_end) return SLOT_NONE;
    index = p->regions_end++;
    p->regions[index] = (struct region){.region = region};
    list_clear(&p->regions[index].interested);
    for (uint32_t model = 0; model < p->config.limits.models_max; model++) {
        *market_of(p, index, model) = (struct market){0};
        list_clear(&market_of(p, index, model)->idle_offers);
        victims_clear(market_of(p, index, model));
    }
    return index;
}

static bool goes_before(const pool *p, uint32_t a, uint32_t b)
{
    const struct offer *x = &p->offers[a], *y = &p->offers[b];
    if (x->unit_usd_micros != y->unit_usd_micros) return x->unit_usd_micros < y->unit_usd_micros;
    return x->offer_id < y->offer_id;
}

static void insert_idle(pool *p, struct market *market, uint32_t slot)
{
    uint32_t at = market->idle_offers.head;
    while (at != SLOT_NONE && goes_before(p, at, slot)) at = p->offers[at].idle_link.next;
    list_insert(&market->idle_offers, CHAIN(p->offers, idle_link), slot, at);
}

static int64_t unit_price(const pool *p, const struct offer *o)
{
    int64_t ncu_milli = (int64_t)p->models[o->model].ncu_milli * o->device_count;
    /* An undefined model fits no job; its offers wait at the end of their market. */
    return ncu_milli == 0 ? INT64_MAX : risk_weighed(o, o->usd_micros_per_hour) * 1000 / ncu_milli;
}

void offer_reprice(pool *p, uint32_t slot)
{
    struct offer *o = &p->offers[slot];
    int64_t unit = unit_price(p, o);
    if (unit == o->unit_usd_micros) return;
    struct market *market = market_of(p, o->region_index, o->model);
    o->unit_usd_micros = unit;
    prices_move(p, market, slot);
    if (!o->idle_listed) return;
    list_remove(&market->idle_offers, CHAIN(p->offers, idle_link), slot);
    insert_idle(p, market, slot);
}

void offer_reprice_all(pool *p)
{
    for (uint32_t slot = 0; slot < p->offers_end; slot++) {
        offer_reprice(p, slot);
        offer_improve(p, slot);
    }
}

void offer_list_idle(pool *p, uint32_t slot)
{
    struct offer *o = &p->offers[slot];
    struct market *market = market_of(p, o->region_index, o->model);
    bool wanted = o->idle_nodes.count + o->shared_nodes.count > 0;
    if (wanted == (o->idle_listed != 0)) return;
    o->idle_listed = wanted;
    if (wanted)
        insert_idle(p, market, slot);
    else
        list_remove(&market->idle_offers, CHAIN(p->offers, idle_link), slot);
}

uint32_t offer_stock(const pool *p, const struct offer *o)
{
    if (o->refused_until_us > p->now_us || o->stock_count <= o->taken_count) return 0;
    return o->stock_count - o->taken_count;
}

/* Once drained for its price, an offer is taken again only when clearly below the threshold: a
 * price that wavers around it would otherwise drain and buy all day. That concerns jobs with this
 * threshold or a lower one; a more patient job never left it. */
bool offer_is_above(const struct offer *o, uint32_t threshold_ppm)
{
    if (o->capacity != CAPACITY_SPOT) return false;
    return o->share_ppm > threshold_ppm || (o->hot_ppm != 0 && o->hot_ppm >= threshold_ppm);
}

/* A bid for a node as a share of on-demand. */
static uint32_t bid_ppm(const struct offer *o, int64_t node_bid_usd_micros)
{
    int64_t on_demand = o->on_demand_usd_micros_per_hour;
    if (on_demand == 0 || node_bid_usd_micros / on_demand >= THRESHOLD_PPM_MAX / 1000000)
        return THRESHOLD_PPM_MAX;
    return (uint32_t)(node_bid_usd_micros * 1000000 / on_demand);
}

bool offer_is_above_bid(const struct offer *o, int64_t bid_usd_micros)
{
    if (bid_usd_micros == INT64_MAX || o->capacity != CAPACITY_SPOT) return false;
    int64_t node_bid = bid_usd_micros * o->device_count;
    return o->usd_micros_per_hour > node_bid ||
           (o->hot_ppm != 0 && o->hot_ppm >= bid_ppm(o, node_bid));
}

void offer_outbid(struct offer *o, int64_t node_bid_usd_micros)
{
    uint32_t ppm = bid_ppm(o, node_bid_usd_micros);
    if (ppm > o->hot_ppm) o->hot_ppm = ppm;
}

struct meter offer_meter(const struct offer *o, int64_t now_us)
{
    ASSERT(now_us >= o->metered_us);
    struct meter meter = o->meter;
    money_meter_add(&meter, o->usd_micros_per_hour, now_us - o->metered_us);
    return meter;
}

int64_t offer_due_us(const struct offer *o)
{
    int64_t refused_us = o->refused_until_us == 0 ? INT64_MAX : o->refused_until_us;
    return o->weigh_us != 0 && o->weigh_us < refused_us ? o->weigh_us : refused_us;
}

void offer_retime(pool *p, uint32_t slot)
{
    heap_set(&p->timers, timer_of_offer(p, slot), offer_due_us(&p->offers[slot]));
}

void offer_run(pool *p, uint32_t slot, struct pool_output *out)
{
    (void)out; /* an offer whose time has come has nothing to say, its takers have */
    struct offer *o = &p->offers[slot];
    if (o->refused_until_us <= p->now_us) o->refused_until_us = 0;
    if (o->weigh_us != 0 && o->weigh_us <= p->now_us) risk_weigh(p, slot);
    offer_retime(p, slot);
    offer_improve(p, slot);
}

void offer_give_back(pool *p, uint32_t slot)
{
    struct offer *o = &p->offers[slot];
    if (o->taken_count == 0) return;
    o->taken_count--;
    if (offer_stock(p, o) > 0) offer_improve(p, slot);
}

void offer_refuse(pool *p, uint32_t slot, int64_t until_us)
{
    struct offer *o = &p->offers[slot];
    if (until_us <= o->refused_until_us || until_us <= p->now_us) return;
    if (o->refused_until_us <= p->now_us) { /* not one more answer of the same wave of orders */
        until_us = p->now_us + ((until_us - p->now_us) << o->refused_count);
        if (o->refused_count < REFUSED_DOUBLINGS_MAX) o->refused_count++;
    }
    o->refused_until_us = until_us;
    offer_retime(p, slot);
}

void offer_refuse_quota(pool *p, uint32_t slot, int64_t until_us)
{
    const struct offer *refused = &p->offers[slot];
    for (uint32_t model = 0; model < p->config.limits.models_max; model++) {
        const struct market *market = market_of(p, refused->region_index, model);
        for (uint32_t i = 0; i < market->count; i++) {
            uint32_t at = p->prices[market->first + i].offer;
            if (p->offers[at].provider == refused->provider) offer_refuse(p, at, until_us);
        }
    }
}

void offer_improve(pool *p, uint32_t slot)
{
    const struct offer *o = &p->offers[slot];
    region_improve(p, o->region_index, UINT64_C(1) << o->model);
}

void region_improve(pool *p, uint32_t region_index, uint64_t models)
{
    p->regions[region_index].improved_mask |= models;
    p->improved_regions[region_index / 64] |= UINT64_C(1) << region_index % 64;
    p->improved = 1;
    p->supply_changes++;
}

static uint32_t make(pool *p, const struct pool_event *event)
{
    if (event->u.offer_changed.model >= p->config.limits.models_max) return SLOT_NONE;
    if (p->offers_end >= p->config.limits.offers_max) return SLOT_NONE;
    uint32_t region_index = region_make(p, event->u.offer_changed.region);
    if (region_index == SLOT_NONE) return SLOT_NONE;
    uint32_t slot = p->offers_end++;
    struct offer *o = &p->offers[slot];
    *o = (struct offer){.offer_id = event->u.offer_changed.offer_id,
                        .metered_us = p->now_us,
                        .provider = event->u.offer_changed.provider,
                        .region_index = region_index,
                        .zone = event->u.offer_changed.zone,
                        .rack = event->u.offer_changed.rack,
                        .model = event->u.offer_changed.model,
                        .capacity = event->u.offer_changed.capacity,
                        .device_count = event->u.offer_changed.device_count,
                        .usd_micros_per_hour = event->u.offer_changed.usd_micros_per_hour,
                        .quoted_usd_micros_per_hour = event->u.offer_changed.usd_micros_per_hour};
    list_clear(&o->nodes);
    list_clear(&o->idle_nodes);
    list_clear(&o->shared_nodes);
    o->unit_usd_micros = unit_price(p, o);
    table_insert(&p->offer_table, o->offer_id, slot);
    packing_offer(p, slot);
    p->reach_changes++;
    spot_watch_offer(p, slot);
    p->regions[region_index].model_mask |= UINT64_C(1) << o->model;
    p->regions[region_index].racked |= o->rack != 0;
    prices_add(p, market_of(p, region_index, o->model), slot);
    return slot;
}

static uint32_t share_ppm(int64_t price, int64_t on_demand)
{
    if (on_demand == 0) return 0; /* nothing to compare with: never above */
    int64_t share = (price * 1000000 + on_demand - 1) / on_demand;
    return share > UINT32_MAX ? UINT32_MAX : (uint32_t)share;
}

/* What it costs: what is quoted, unless bills have shown otherwise. */
static void set_price(pool *p, uint32_t slot, int64_t quoted, int64_t on_demand)
{
    struct offer *o = &p->offers[slot];
    if (quoted != o->quoted_usd_micros_per_hour) o->billed_usd_micros_per_hour = 0;
    o->quoted_usd_micros_per_hour = quoted;
    int64_t price = o->billed_usd_micros_per_hour != 0 ? o->billed_usd_micros_per_hour : quoted;
    o->on_demand_usd_micros_per_hour = on_demand;
    o->share_ppm = share_ppm(price, on_demand);
    if (o->hot_ppm != 0 && o->share_ppm <= (uint64_t)o->hot_ppm * SWAP_GAIN_PPM / 1000000)
        o->hot_ppm = 0;
    if (price == o->usd_micros_per_hour) return;
    o->meter = offer_meter(o, p->now_us);
    o->metered_us = p->now_us;
    bool rose = price > o->usd_micros_per_hour;
    o->usd_micros_per_hour = price;
    offer_reprice(p, slot);
    node_price_moved(p, slot, rose);
}

void offer_distrust(pool *p, uint32_t slot, int64_t billed_usd_micros_per_hour)
{
    struct offer *o = &p->offers[slot];
    o->billed_usd_micros_per_hour = billed_usd_micros_per_hour;
    set_price(p, slot, o->quoted_usd_micros_per_hour, o->on_demand_usd_micros_per_hour);
}

/* Of orders that the provider has not answered nobody knows whether the stock it tells has them: they count
 * as taken until it answers. */
static uint32_t unanswered(pool *p, const struct offer *o)
{
    uint32_t count = 0;
    for (uint32_t n = o->nodes.tail; n != SLOT_NONE && count < o->taken_count;
         n = p->nodes[n].offer_link.previous) {
        p->nodes[n].taken_twice = p->nodes[n].state == NODE_ORDERED && p->nodes[n].phase == 0;
        count += p->nodes[n].taken_twice;
    }
    return count;
}

/* What was told had it by now, or another stock would have been told since. */
void offer_answered(pool *p, uint32_t node)
{
    struct node *n = &p->nodes[node];
    if (!n->taken_twice) return;
    n->taken_twice = 0;
    offer_give_back(p, n->offer);
}

static void note_reach(pool *p, struct offer *o)
{
    struct market *market = market_of(p, o->region_index, o->model);
    uint64_t reach = (uint64_t)o->stock_count + o->nodes.count - o->taken_count;
    if (reach > UINT32_MAX) reach = UINT32_MAX;
    if (reach <= o->reach_count) return;
    p->reach_changes++;
    market->reach_devices[o->capacity] += (reach - o->reach_count) * o->device_count;
    if (o->device_count > market->node_devices_max[o->capacity])
        market->node_devices_max[o->capacity] = o->device_count;
    o->reach_count = (uint32_t)reach;
}

/* What a price or a stock means to those who wait: taken before and after. */
struct appeal {
    int64_t usd_micros_per_hour;
    uint32_t stock, share_ppm, hot_ppm;
};

static struct appeal appeal_of(const pool *p, const struct offer *o)
{
    return (struct appeal){.usd_micros_per_hour = o->usd_micros_per_hour,
                           .stock = offer_stock(p, o),
                           .share_ppm = o->share_ppm,
                           .hot_ppm = o->hot_ppm};
}

static bool is_better(const struct appeal *now, const struct appeal *before)
{
    return now->usd_micros_per_hour < before->usd_micros_per_hour || now->stock > before->stock ||
           now->share_ppm < before->share_ppm || now->hot_ppm < before->hot_ppm;
}

/* Where the one after `previous` is, when prices come in the order in which the offers were told. */
static uint32_t find_next(const pool *p, uint64_t offer_id, uint32_t previous)
{
    uint32_t next = previous + 1; /* SLOT_NONE + 1 is the first */
    if (next < p->offers_end && p->offers[next].offer_id == offer_id) return next;
    return table_find(&p->offer_table, offer_id);
}

static void price_told(pool *p, uint32_t slot, int64_t price)
{
    struct offer *o = &p->offers[slot];
    struct appeal before = appeal_of(p, o);
    set_price(p, slot, price,
              o->capacity == CAPACITY_ON_DEMAND ? price : o->on_demand_usd_micros_per_hour);
    struct appeal now = appeal_of(p, o);
    if (is_better(&now, &before) && (now.stock > 0 || o->idle_nodes.count > 0))
        offer_improve(p, slot);
}

static void prefetch_offer(const pool *p, uint32_t slot)
{
    for (size_t at = 0; at < OFFER_FRONT_BYTES; at += LINE_BYTES)
        __builtin_prefetch((const uint8_t *)&p->offers[slot] + at);
}

/* They lie all over the memory: what is looked at next is fetched for all prices of an event before the
 * first of them is looked at, so that the waits overlap. */
static void find_priced(pool *p, const struct pool_event *event, uint32_t ret_slots[PRICED_MAX])
{
    const struct told_price *prices = event->u.offers_priced.prices;
    uint32_t count = event->u.offers_priced.count, next = p->offer_priced + 1;
    if (next >= p->offers_end || p->offers[next].offer_id != prices[0].offer_id)
        for (uint32_t i = 0; i < count; i++) table_prefetch(&p->offer_table, prices[i].offer_id);
    for (uint32_t i = 0; i < count; i++) {
        ret_slots[i] = find_next(p, prices[i].offer_id, p->offer_priced);
        if (ret_slots[i] == SLOT_NONE) continue;
        prefetch_offer(p, ret_slots[i]);
        if (ret_slots[i] == p->offer_priced + 1 && ret_slots[i] + 2 * PRICED_MAX < p->offers_end)
            prefetch_offer(p, ret_slots[i] + 2 * PRICED_MAX); /* the rest may follow in order */
        p->offer_priced = ret_slots[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ret_slots[i] == SLOT_NONE) continue;
        const struct offer *o = &p->offers[ret_slots[i]];
        const struct market *market = market_of(p, o->region_index, o->model);
        __builtin_prefetch(&market->sorted);
        __builtin_prefetch(&p->prices[market->first + o->place], /* to write */ 1);
    }
}

void offer_prices_told(pool *p, const struct pool_event *event)
{
    uint32_t slots[PRICED_MAX], count = event->u.offers_priced.count;
    find_priced(p, event, slots);
    for (uint32_t i = 0; i < count; i++)
        if (slots[i] != SLOT_NONE)
            price_told(p, slots[i], event->u.offers_priced.prices[i].usd_micros_per_hour);
}

/* Who works there may leave before it is taken. */
static void touch_holders(pool *p, const struct offer *o)
{
    for (uint32_t n = o->nodes.head; n != SLOT_NONE; n = p->nodes[n].offer_link.next)
        for (uint32_t l = p->nodes[n].leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
            job_touch(p, p->leases[l].job);
}

void offer_change(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = table_find(&p->offer_table, event->u.offer_changed.offer_id);
    bool is_new = slot == SLOT_NONE;
    if (is_new) slot = make(p, event);
    if (slot == SLOT_NONE) {
        MARK(out, CATALOG_LIMIT);
        return;
    }
    struct offer *o = &p->offers[slot];
    struct appeal before = appeal_of(p, o);
    set_price(p, slot, event->u.offer_changed.usd_micros_per_hour,
              event->u.offer_changed.on_demand_usd_micros_per_hour);
    if (o->hazard_ppm != event->u.offer_changed.hazard_ppm) {
        o->hazard_ppm = event->u.offer_changed.hazard_ppm;
        risk_weigh(p, slot);
        if (risk_is_told_high(o)) touch_holders(p, o);
    }
    o->host_cpu_milli = event->u.offer_changed.host_cpu_milli;
    o->host_memory_mib = event->u.offer_changed.host_memory_mib;
    o->billing_s = event->u.offer_changed.billing_s;
    o->stock_count = event->u.offer_changed.stock_count;
    o->taken_count = o->taken_count == 0 ? 0 : unanswered(p, o);
    note_reach(p, o);
    struct appeal now = appeal_of(p, o);
    bool better = is_new || is_better(&now, &before);
    if (better && now.stock + o->idle_nodes.count > 0) offer_improve(p, slot);
}
