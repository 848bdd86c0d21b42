/* Mixes: all that a demand would take in a region, added up, and the best way to its minimum. */
#include "core/gate.h"
#include "core/lease.h"
#include "core/prices.h"
#include "core/quota.h"
#include "core/risk.h"
#include "core/supply_ncu.h"

static void add_pick(const struct supply *s, const struct pick *pick, struct mix *mix)
{
    const struct offer *o = &s->p->offers[pick->offer];
    uint32_t devices = pick->device_count * pick->node_count, line = mix->line_count;
    int64_t usd_micros = pick->usd_micros_per_hour * pick->node_count;
    mix->node_count += pick->node_count;
    mix->device_count += devices;
    mix->ncu_milli +=
        (uint64_t)supply_worth(s, o->model) * devices / 1000 * s->left.part_milli / 1000;
    if (pick->node == SLOT_NONE)
        mix->new_ncu_milli +=
            (uint64_t)s->p->models[o->model].ncu_milli * o->device_count * pick->node_count;
    mix->usd_micros_per_hour += usd_micros;
    mix->weighed_usd_micros_per_hour += risk_weighed(o, usd_micros);
    if (!gate_is_bought(o)) mix->baseline_count += devices;
    if (gate_is_bought(o)) {
        mix->bought_usd_micros_per_hour += usd_micros;
        mix->bought_model = o->model;
    }
    if (line > 0 && mix->lines[line - 1].offer == pick->offer)
        line--;
    else if (line == SUPPLY_LINES_MAX)
        return;
    else
        mix->lines[mix->line_count++] = (struct mix_line){.offer = pick->offer};
    mix->lines[line].node_count += pick->node_count;
    mix->lines[line].device_count += devices;
    mix->lines[line].usd_micros_per_hour += usd_micros;
}

static void note_met(const struct supply *s, bool limited, struct mix *mix)
{
    mix->too_dear_usd_micros = s->too_dear_usd_micros;
    mix->gated_usd_micros = s->gated_usd_micros;
    mix->gated_model = s->gated_model;
    mix->limited = limited;
    mix->hot_ppm = s->hot_ppm;
    mix->above_max_usd_micros = s->above_max_usd_micros;
    mix->met = s->met;
    if (limited) mix->met |= OBSTACLE_LIMIT | OBSTACLE_WORKERS;
}

void supply_mix(const pool *p, const struct demand *demand, uint32_t region_index,
                enum supply_order order, struct mix *ret_mix)
{
    struct supply supply;
    struct pick pick;
    supply_begin(&supply, p, demand, region_index, order);
    *ret_mix = (struct mix){.region_index = region_index,
                            .order = order,
                            .node_devices_min = demand->node_devices_min,
                            .only_offer = demand->only_offer,
                            .near = demand->near,
                            .single_node = demand->single_node};
    while (supply_next(&supply, &pick)) add_pick(&supply, &pick, ret_mix);
    note_met(&supply, supply.nodes_left == 0 || supply.leases_left == 0, ret_mix);
}

/* Whole, or nothing. */
static void mix_ncu(const pool *p, const struct demand *demand, uint32_t region_index,
                    struct mix *ret_mix)
{
    struct ncu_supply n;
    struct pick pick;
    *ret_mix = (struct mix){.region_index = region_index,
                            .order = SUPPLY_BY_NCU,
                            .node_devices_min = 1,
                            .only_offer = SLOT_NONE};
    bool found = ncu_supply_begin(&n, p, demand, region_index);
    while (found && ncu_supply_next(&n, &pick)) add_pick(&n.supply, &pick, ret_mix);
    ret_mix->ncu_milli = found ? n.mix.ncu_milli : 0;
    ret_mix->reach_ncu_milli = n.most_milli;
    note_met(&n.supply, (n.supply.met & OBSTACLE_LIMIT) != 0, ret_mix);
}

/* What the job's least costs on nodes of this offer alone, with its risk, but not where the question is
 * what it could ever be had for; -1 = it does not give that much. */
static int64_t cost_alone(const struct supply *s, const struct offer *o, uint32_t devices_min)
{
    uint32_t gives = supply_offer_gives(s, o);
    if (gives == 0) return -1;
    uint32_t node_count = (devices_min + gives - 1) / gives;
    bool enough = supply_allows(s, o) && !supply_keeps_out(s, o) &&
                  gives >= s->left.node_devices_min &&
                  node_count <= smaller(supply_stock(s, o), smaller(s->nodes_left, s->leases_left));
    if (!enough || (s->left.single_node && node_count > 1)) return -1;
    int64_t usd_micros = o->usd_micros_per_hour * node_count;
    if (!gate_is_bought(o) &&
        s->left.class_left_milli / s->p->models[o->model].ncu_milli < devices_min)
        return -1;
    int64_t quota = s->left.quota_left_milli[s->p->quota_kind[o->model]];
    if (quota != INT64_MAX && demand_quota_milli(s->p, &s->left, o->model) * devices_min > quota)
        return -1;
    if (usd_micros > supply_bought_left(s, o)) return -1;
    if (usd_micros > s->left.budget_left_usd_micros) return -1;
    return s->left.ever ? usd_micros : risk_weighed(o, usd_micros);
}

/* The order of a market: what decides between equal costs. */
static bool is_cheaper_unit(const pool *p, uint32_t a, uint32_t b)
{
    const struct offer *x = &p->offers[a], *y = &p->offers[b];
    if (x->model != y->model) return false; /* the market looked at first */
    if (x->unit_usd_micros != y->unit_usd_micros) return x->unit_usd_micros < y->unit_usd_micros;
    return x->offer_id < y->offer_id;
}

/* Above this price per NCU-hour no offer of the market gives the devices for `least` or less: it is
 * paid for in whole nodes. */
static int64_t unit_bound(const pool *p, const struct market *market, uint32_t model,
                          uint32_t devices_min, int64_t least)
{
    if (least < 0) return INT64_MAX;
    uint32_t paid = market->devices_least > devices_min ? market->devices_least : devices_min;
    uint64_t ncu_milli = (uint64_t)p->models[model].ncu_milli * paid;
    return (int64_t)((uint64_t)least * 1000 / ncu_milli);
}

/* The cheapest of one market that does it, if it costs less than `*least` (-1: nothing yet). */
static void alone_in_market(const struct supply *s, uint32_t model, uint32_t devices_min,
                            int64_t *least, uint32_t *ret_offer)
{
    const struct market *market = market_of(s->p, s->region_index, model);
    const struct price *prices = s->p->prices + market->first;
    int64_t bound = unit_bound(s->p, market, model, devices_min, *least);
    for (uint32_t i = 0; i < market->count; i++) {
        uint32_t at = prices[i].offer;
        if (prices[i].unit_usd_micros > bound && !s->left.ever) continue;
        int64_t cost = cost_alone(s, &s->p->offers[at], devices_min);
        if (cost < 0 || (*least >= 0 && cost > *least)) continue;
        if (cost == *least && !is_cheaper_unit(s->p, at, *ret_offer)) continue;
        *least = cost;
        *ret_offer = at;
        bound = unit_bound(s->p, market, model, devices_min, cost);
    }
}

bool supply_alone(const pool *p, const struct demand *demand, uint32_t region_index,
                  uint32_t devices_min, struct mix *ret_mix)
{
    struct supply supply;
    struct demand alone = *demand;
    int64_t least = -1;
    supply_open(&supply, p, demand, region_index, SUPPLY_BY_DEVICE);
    for (uint64_t rest = supply.models; rest != 0; rest &= rest - 1)
        alone_in_market(&supply, (uint32_t)__builtin_ctzll(rest), devices_min, &least,
                        &alone.only_offer);
    if (least < 0) return false;
    supply_mix(p, &alone, region_index, SUPPLY_BY_DEVICE, ret_mix);
    return ret_mix->device_count >= devices_min;
}

static bool mix_least(const pool *p, const struct demand *demand, uint32_t region_index,
                      uint32_t devices_min, struct mix *ret_mix)
{
    struct demand least = *demand;
    struct mix mix;
    least.devices_left = devices_min;
    for (uint32_t order = SUPPLY_BY_NCU; order < SUPPLY_ORDER_END; order++) {
        supply_mix(p, &least, region_index, (enum supply_order)order, &mix);
        if (mix.device_count < devices_min) continue;
        mix.met |= ret_mix->met;
        mix.devices_most = devices_min;
        *ret_mix = mix;
        return true;
    }
    return false;
}

uint32_t supply_largest(const pool *p, uint64_t models)
{
    uint32_t best = (uint32_t)__builtin_ctzll(models);
    for (uint64_t rest = models; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        if (p->models[model].ncu_milli > p->models[best].ncu_milli) best = model;
    }
    return best;
}

/* What is idle or cheap may use up the quota, or the share of the class, on a few large models: without the
 * largest of them, and the next, there may be enough. */
static bool mix_smaller(const pool *p, const struct demand *demand, uint32_t region_index,
                        uint32_t devices_min, struct mix *ret_mix)
{
    struct demand smaller = *demand;
    if (devices_min < 2 || (ret_mix->met & (OBSTACLE_QUOTA | OBSTACLE_CLASS)) == 0) return false;
    smaller.compat_mask &= p->regions[region_index].model_mask;
    while ((smaller.compat_mask & (smaller.compat_mask - 1)) != 0) {
        smaller.compat_mask &= ~(UINT64_C(1) << supply_largest(p, smaller.compat_mask));
        if (!mix_least(p, &smaller, region_index, devices_min, ret_mix)) continue;
        ret_mix->models = smaller.compat_mask;
        return true;
    }
    return false;
}

/* Nodes that it may yet have. */
static uint32_t room_for(const pool *p, const struct demand *demand)
{
    if (demand->lifted & OBSTACLE_LIMIT) return demand->workers_left;
    uint32_t room = smaller(lease_room(p), demand->workers_left);
    if (p->node_count == p->config.limits.nodes_max) return room;
    return smaller(room, p->config.limits.nodes_max - p->node_count);
}

static void best_at(const pool *p, const struct demand *demand, uint32_t region_index,
                    uint32_t devices_min, struct mix *ret_mix)
{
    supply_mix(p, demand, region_index, SUPPLY_BY_NCU, ret_mix);
    if (ret_mix->device_count >= devices_min) return;
    if (ret_mix->device_count == 0 && ret_mix->met == 0) return; /* nothing by any order */
    struct mix by_device;
    for (uint32_t order = SUPPLY_BY_DEVICE; order < SUPPLY_ORDER_END; order++) {
        uint32_t met = ret_mix->met;
        supply_mix(p, demand, region_index, (enum supply_order)order, &by_device);
        if (by_device.device_count > ret_mix->device_count) *ret_mix = by_device;
        ret_mix->met = met | by_device.met;
        if (ret_mix->device_count >= devices_min) return;
    }
    if (supply_alone(p, demand, region_index, devices_min, &by_device)) *ret_mix = by_device;
    if (ret_mix->device_count >= devices_min) return;
    /* Whoever asks for more takes whole large nodes, or the cheap ones first, until a limit leaves too little
     * for its least; the least alone may still be had. */
    if (demand->devices_left > devices_min &&
        mix_least(p, demand, region_index, devices_min, ret_mix))
        return;
    if (mix_smaller(p, demand, region_index, devices_min, ret_mix) || !ret_mix->limited) return;
    /* Small nodes used up the room, or the workers of its account: only those so large that it suffices. */
    struct demand large = *demand;
    uint32_t room = room_for(p, demand);
    if (room == 0 || room >= devices_min) return;
    large.node_devices_min = (devices_min + room - 1) / room;
    if (large.node_devices_min <= demand->node_devices_min) return;
    supply_mix(p, &large, region_index, SUPPLY_CHEAPEST, &by_device);
    if (by_device.device_count >= devices_min) *ret_mix = by_device;
}

/* ---- together ---- */

static bool is_as_good(const struct mix *tight, const struct mix *mix)
{
    return tight->device_count >= mix->device_count && tight->ncu_milli >= mix->ncu_milli &&
           tight->baseline_count >= mix->baseline_count &&
           tight->weighed_usd_micros_per_hour <= mix->weighed_usd_micros_per_hour;
}

static bool take_if_as_good(const pool *p, const struct demand *tight, uint32_t region_index,
                            struct mix *mix)
{
    struct mix found;
    supply_mix(p, tight, region_index, (enum supply_order)mix->order, &found);
    if (!is_as_good(&found, mix)) return false;
    uint32_t met = mix->met;
    *mix = found;
    mix->met |= met;
    return true;
}

/* Models with nodes so large. */
static uint64_t models_of_size(const pool *p, uint64_t models, uint32_t region_index, uint32_t size)
{
    uint64_t large = 0;
    models &= p->regions[region_index].model_mask;
    for (; models != 0; models &= models - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(models);
        if (market_of(p, region_index, model)->devices_most >= size) large |= UINT64_C(1) << model;
    }
    return large;
}

/* A gang that is as well off on one node, or in one rack, goes there. */
static void draw_together(const pool *p, const struct demand *demand, uint32_t region_index,
                          uint32_t devices_min, struct mix *mix)
{
    if (devices_min < 2 || mix->device_count < devices_min || mix->node_count < 2) return;
    if (near_is_set(&demand->near) || demand->single_node || demand->ever) return;
    struct demand tight = *demand;
    tight.only_offer = mix->only_offer;
    if (mix->models != 0) tight.compat_mask = mix->models;
    tight.compat_mask = models_of_size(p, tight.compat_mask, region_index, mix->device_count);
    if (tight.compat_mask != 0) {
        tight.single_node = 1;
        tight.node_devices_min = mix->device_count;
        if (take_if_as_good(p, &tight, region_index, mix)) return;
    }
    if (!p->regions[region_index].racked) return;
    tight = *demand;
    tight.only_offer = mix->only_offer;
    tight.node_devices_min = mix->node_devices_min;
    tight.near.same = TOPOLOGY_RACK;
    while (near_next_place(p, region_index, demand->compat_mask, TOPOLOGY_RACK, tight.near.place,
                           &tight.near.place))
        if (take_if_as_good(p, &tight, region_index, mix)) return;
}

/* Reaches the minimum; more NCU; cheaper. */
static bool is_better_place(const struct mix *a, const struct mix *b, uint32_t devices_min)
{
    bool mine = a->device_count >= devices_min, other = b->device_count >= devices_min;
    if (mine != other) return mine;
    if (!mine) return a->device_count > b->device_count;
    if (a->ncu_milli != b->ncu_milli) return a->ncu_milli > b->ncu_milli;
    return a->weighed_usd_micros_per_hour < b->weighed_usd_micros_per_hour;
}

/* What was too dear, too hot or gated is said of all places. */
static void join_mix(struct mix *into, const struct mix *from)
{
    into->met |= from->met;
    into->limited |= from->limited;
    if (from->hot_ppm != 0 && (into->hot_ppm == 0 || from->hot_ppm < into->hot_ppm))
        into->hot_ppm = from->hot_ppm;
    if (from->above_max_usd_micros != 0)
        into->above_max_usd_micros =
            supply_lower(into->above_max_usd_micros, from->above_max_usd_micros);
    if (from->too_dear_usd_micros != 0)
        into->too_dear_usd_micros =
            supply_lower(into->too_dear_usd_micros, from->too_dear_usd_micros);
    if (from->gated_usd_micros == 0) return;
    if (into->gated_usd_micros != 0 && into->gated_usd_micros <= from->gated_usd_micros) return;
    into->gated_usd_micros = from->gated_usd_micros;
    into->gated_model = from->gated_model;
}

static void best_place(const pool *p, const struct demand *demand, uint32_t region_index,
                       uint32_t devices_min, struct mix *ret_mix)
{
    struct demand one;
    struct mix mix;
    struct near_walk walk = near_walk(p, demand, region_index, devices_min);
    bool found = false;
    while (near_next(&walk, &one)) {
        best_at(p, &one, region_index, devices_min, &mix);
        if (!found || is_better_place(&mix, ret_mix, devices_min)) {
            if (found) join_mix(&mix, ret_mix);
            *ret_mix = mix;
        } else
            join_mix(ret_mix, &mix);
        found = true;
    }
    if (!found)
        *ret_mix = (struct mix){.region_index = region_index,
                                .only_offer = SLOT_NONE,
                                .node_devices_min = 1,
                                .near = demand->near};
}

void supply_best(const pool *p, const struct demand *demand, uint32_t region_index,
                 uint32_t devices_min, struct mix *ret_mix)
{
    if (demand->ncu_left_milli != 0) {
        mix_ncu(p, demand, region_index, ret_mix);
        return;
    }
    if (demand->near.open)
        best_place(p, demand, region_index, devices_min, ret_mix);
    else
        best_at(p, demand, region_index, devices_min, ret_mix);
    if (near_is_set(&demand->near) &&
        (ret_mix->device_count == 0 || ret_mix->device_count < devices_min))
        ret_mix->met |= OBSTACLE_PLACE; /* maybe */
    draw_together(p, demand, region_index, devices_min, ret_mix);
}
