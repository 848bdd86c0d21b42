/* Mixes: all that a demand would take in a region, added up, and the best way to its minimum. */
#include "core/gate.h"
#include "core/lease.h"
#include "core/prices.h"
#include "core/quota.h"
#include "core/risk.h"
#include "core/supply.h"

void supply_mix(const pool *p, const struct demand *demand, uint32_t region_index,
                enum supply_order order, struct mix *ret_mix)
{
    struct supply supply;
    struct pick pick;
    supply_begin(&supply, p, demand, region_index, order);
    *ret_mix = (struct mix){.region_index = region_index,
                            .order = order,
                            .node_devices_min = demand->node_devices_min,
                            .only_offer = demand->only_offer};
    while (supply_next(&supply, &pick)) {
        uint32_t devices = pick.device_count * pick.node_count;
        int64_t usd_micros = pick.usd_micros_per_hour * pick.node_count;
        ret_mix->node_count += pick.node_count;
        ret_mix->device_count += devices;
        ret_mix->ncu_milli += (uint64_t)supply_worth(&supply, p->offers[pick.offer].model) *
                              devices / 1000 * demand->part_milli / 1000;
        ret_mix->usd_micros_per_hour += usd_micros;
        ret_mix->weighed_usd_micros_per_hour += risk_weighed(&p->offers[pick.offer], usd_micros);
        if (gate_is_bought(&p->offers[pick.offer])) {
            ret_mix->bought_usd_micros_per_hour += usd_micros;
            ret_mix->bought_model = p->offers[pick.offer].model;
        }
        uint32_t line = ret_mix->line_count;
        if (line > 0 && ret_mix->lines[line - 1].offer == pick.offer)
            line--;
        else if (line == SUPPLY_LINES_MAX)
            continue;
        else
            ret_mix->lines[ret_mix->line_count++] = (struct mix_line){.offer = pick.offer};
        ret_mix->lines[line].node_count += pick.node_count;
        ret_mix->lines[line].device_count += devices;
        ret_mix->lines[line].usd_micros_per_hour += usd_micros;
    }
    ret_mix->too_dear_usd_micros = supply.too_dear_usd_micros;
    ret_mix->gated_usd_micros = supply.gated_usd_micros;
    ret_mix->gated_model = supply.gated_model;
    ret_mix->limited = supply.nodes_left == 0 || supply.leases_left == 0;
    ret_mix->hot_ppm = supply.hot_ppm;
    ret_mix->met = supply.met;
    if (ret_mix->limited) ret_mix->met |= OBSTACLE_LIMIT | OBSTACLE_WORKERS;
}

/* What the job's least costs on nodes of this offer alone, with its risk; -1 = it does not give that
 * much. */
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
    if (quota != INT64_MAX && quota_ncu_milli(s->p, o->model) * devices_min > quota) return -1;
    if (usd_micros > supply_bought_left(s, o)) return -1;
    return usd_micros <= s->left.budget_left_usd_micros ? risk_weighed(o, usd_micros) : -1;
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
        if (prices[i].unit_usd_micros > bound) continue;
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

void supply_best(const pool *p, const struct demand *demand, uint32_t region_index,
                 uint32_t devices_min, struct mix *ret_mix)
{
    supply_mix(p, demand, region_index, SUPPLY_BY_NCU, ret_mix);
    if (ret_mix->device_count >= devices_min) return;
    if (ret_mix->device_count == 0) return; /* nothing by any order */
    struct mix by_device;
    uint32_t met = ret_mix->met;
    supply_mix(p, demand, region_index, SUPPLY_BY_DEVICE, &by_device);
    if (by_device.device_count > ret_mix->device_count) *ret_mix = by_device;
    ret_mix->met = met | by_device.met;
    if (ret_mix->device_count >= devices_min) return;
    if (supply_alone(p, demand, region_index, devices_min, &by_device)) *ret_mix = by_device;
    if (ret_mix->device_count >= devices_min || !ret_mix->limited) return;
    if (demand->lifted & OBSTACLE_LIMIT) return;
    /* Cheap small nodes used up the room: only those so large that the room suffices. */
    struct demand large = *demand;
    uint32_t room = lease_room(p);
    if (p->node_count < p->config.limits.nodes_max)
        room = smaller(room, p->config.limits.nodes_max - p->node_count);
    if (room == 0) return;
    large.node_devices_min = (devices_min + room - 1) / room;
    if (large.node_devices_min <= demand->node_devices_min) return;
    supply_mix(p, &large, region_index, SUPPLY_BY_DEVICE, &by_device);
    if (by_device.device_count >= devices_min) *ret_mix = by_device;
}
