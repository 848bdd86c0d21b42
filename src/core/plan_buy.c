#include "core/plan_buy.h"
#include "core/assert.h"
#include "core/gate.h"
#include "core/island.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_pack.h"
#include "core/prices.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/rate.h"
#include "core/risk.h"
#include "core/supply.h"

static bool is_in_turn(const struct supply *s, const struct offer *o)
{
    return (s->kinds >> o->capacity & 1) != 0;
}

/* A kind that was never within reach there has nothing to give: its market is not walked for it. */
static bool has_kind(const struct supply *s, const struct market *market)
{
    for (uint32_t kind = CAPACITY_OWNED; kind < CAPACITY_KIND_END; kind++)
        if ((s->kinds >> kind & 1) != 0 && market->reach_devices[kind] > 0) return true;
    return false;
}

static uint32_t first_offer(const struct supply *s, uint32_t model)
{
    const pool *p = s->p;
    uint32_t only = s->left.only_offer;
    const struct market *market = market_of(p, s->region_index, model);
    if (only != SLOT_NONE) {
        bool here = p->offers[only].model == model && is_in_turn(s, &p->offers[only]);
        return here && (s->buying || p->offers[only].idle_listed) ? only : SLOT_NONE;
    }
    if (!s->buying) return market->idle_offers.head;
    return has_kind(s, market) ? prices_first(p, market, s->kinds) : SLOT_NONE;
}

static void rewind_markets(struct supply *s)
{
    for (uint64_t rest = s->models; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        s->heads[model] = first_offer(s, model);
    }
}

/* The baseline again, or all kinds at once. */
static void rewind_kinds(struct supply *s)
{
    s->kinds = s->order == SUPPLY_CHEAPEST ? KINDS_ALL : KINDS_BASELINE;
    rewind_markets(s);
}

static struct packing_ask packing_ask_of(const struct supply *s, uint32_t count)
{
    return (struct packing_ask){.terms = s->left.terms,
                                .compat_mask = s->left.compat_mask,
                                .region = s->left.region,
                                .region_index = s->region_index,
                                .count = count};
}

/* Nothing is kept out by a gate of what could ever be had. */
static void begin_gates(struct supply *s)
{
    s->gated_usd_micros = 0;
    s->gated_model = 0;
    if (s->left.ever || s->left.job == SLOT_NONE) s->left.gate_pools = 0;
    for (uint64_t rest = s->left.gate_pools; rest != 0; rest &= rest - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(rest);
        s->pool_left_usd_micros[index] = gate_pool_left(s->p, s->left.job, index);
    }
}

/* Where the job has devices already, which stay. */
static void begin_apart(struct supply *s)
{
    s->apart_count = 0;
    s->apart_key = -1;
    s->apart_offer_id = 0;
    uint32_t level = s->left.near.spread;
    if (s->left.ever || s->left.job == SLOT_NONE) return;
    if (level == TOPOLOGY_ANY || level >= TOPOLOGY_NODE) return;
    for (uint32_t l = s->p->jobs[s->left.job].leases.head; l != SLOT_NONE;
         l = s->p->leases[l].job_link.next) {
        const struct node *n = &s->p->nodes[s->p->leases[l].node];
        if (!lease_holds(&s->p->leases[l]) || !node_is_usable(n)) continue;
        if (s->apart_count < NEAR_PLACES_MAX)
            s->apart[s->apart_count++] = supply_apart_place(&s->p->offers[n->offer], level);
    }
}

void supply_open(struct supply *s, const pool *p, const struct demand *demand,
                 uint32_t region_index, enum supply_order order)
{
    ASSERT(region_index < p->regions_end);
    s->p = p;
    s->left = *demand;
    s->models = demand->compat_mask & p->regions[region_index].model_mask;
    s->region_index = region_index;
    s->order = order;
    s->buying = demand->ever;
    s->sharing = !s->buying && demand->part_milli < 1000;
    s->offer = s->node = s->partial = SLOT_NONE;
    s->nodes_left =
        p->config.limits.nodes_max > p->node_count ? p->config.limits.nodes_max - p->node_count : 0;
    if (demand->nodes_room != 0) s->nodes_left = demand->nodes_room;
    s->leases_left = lease_room(p);
    if (demand->ever || (demand->lifted & OBSTACLE_LIMIT))
        s->nodes_left = s->leases_left = UINT32_MAX;
    if (!demand->ever) s->leases_left = smaller(s->leases_left, demand->workers_left);
    s->too_dear_usd_micros = s->above_max_usd_micros = 0;
    s->met = s->hot_ppm = s->seen_count = 0;
    begin_apart(s);
    struct packing_ask ask = packing_ask_of(s, 0);
    uint32_t wanted = s->sharing ? 1 : demand->devices_left;
    if (demand->near.spread != TOPOLOGY_ANY) wanted = 1;
    s->packed_count = s->buying ? 0 : smaller(packing_most(p, &ask), wanted);
    begin_gates(s);
}

void supply_begin(struct supply *s, const pool *p, const struct demand *demand,
                  uint32_t region_index, enum supply_order order)
{
    supply_open(s, p, demand, region_index, order);
    rewind_kinds(s);
}

static int64_t key_of(const struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    if (s->order == SUPPLY_BY_NCU && s->left.rates == NULL) return o->unit_usd_micros;
    int64_t usd_micros = risk_weighed(o, o->usd_micros_per_hour);
    if (s->order != SUPPLY_BY_NCU) return usd_micros / o->device_count;
    return usd_micros * 1000000 / (supply_worth(s, o->model) * o->device_count);
}

/* The market whose cheapest remaining offer is cheapest of all; MODELS_MAX = none. Ties: the lower
 * offer id, as inside a market. */
static uint32_t first_market(const struct supply *s)
{
    uint32_t best = MODELS_MAX;
    for (uint64_t rest = s->models; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        if (s->heads[model] == SLOT_NONE) continue;
        if (best == MODELS_MAX) {
            best = model;
            continue;
        }
        int64_t mine = key_of(s, s->heads[model]), least = key_of(s, s->heads[best]);
        if (mine < least || (mine == least && s->p->offers[s->heads[model]].offer_id <
                                                  s->p->offers[s->heads[best]].offer_id))
            best = model;
    }
    return best;
}

static void advance(struct supply *s, uint32_t model)
{
    uint32_t offer = s->heads[model];
    if (s->left.only_offer != SLOT_NONE)
        s->heads[model] = SLOT_NONE;
    else if (s->buying)
        s->heads[model] =
            prices_next(s->p, market_of(s->p, s->region_index, model), offer, s->kinds);
    else
        s->heads[model] = s->p->offers[offer].idle_link.next;
}

static uint32_t pop_market(struct supply *s, uint32_t model)
{
    uint32_t offer = s->heads[model];
    advance(s, model);
    return offer;
}

static void take(struct supply *s, struct pick pick, struct pick *ret_pick)
{
    ASSERT(pick.node_count > 0);
    ASSERT(pick.device_count * pick.node_count <= s->left.devices_left);
    s->left.devices_left -= pick.device_count * pick.node_count;
    if (s->left.single_node) s->left.devices_left = 0;
    if (s->left.budget_left_usd_micros != INT64_MAX)
        s->left.budget_left_usd_micros -= pick.usd_micros_per_hour * pick.node_count;
    supply_use_class(s, &pick);
    supply_pass_gates(s, &s->p->offers[pick.offer], pick.usd_micros_per_hour * pick.node_count);
    int64_t *quota = &s->left.quota_left_milli[s->p->quota_kind[s->p->offers[pick.offer].model]];
    if (*quota != INT64_MAX)
        *quota -= demand_quota_milli(s->p, &s->left, s->p->offers[pick.offer].model) *
                  pick.device_count * pick.node_count;
    uint32_t spread = s->left.near.spread;
    if (spread == TOPOLOGY_ZONE || spread == TOPOLOGY_RACK)
        s->apart[s->apart_count++] = supply_apart_place(&s->p->offers[pick.offer], spread);
    if (pick.node == SLOT_NONE) s->nodes_left -= pick.node_count;
    s->leases_left -= pick.node_count;
    *ret_pick = pick;
}

bool supply_has_lease(const struct supply *s, const struct node *n)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = s->p->leases[l].node_link.next)
        if (s->p->leases[l].job == s->left.job) return true;
    return false;
}

static uint32_t node_gives(const struct supply *s, uint32_t node)
{
    uint32_t gives = s->left.special
                         ? part_node_gives(s->p, node, s->left.terms, part_asker(s->p, s->left.job))
                         : s->p->nodes[node].devices_free;
    if (s->left.special)
        gives = smaller(gives, island_node_gives(s->p, &s->p->nodes[node], s->left.near.same));
    return s->left.near.spread == TOPOLOGY_ANY
               ? gives
               : supply_apart_gives(s, &s->p->offers[s->p->nodes[node].offer], gives);
}

bool supply_comes_back(const struct supply *s, const struct node *n)
{
    return s->left.job != SLOT_NONE && n->leases.count == 0 && !s->sharing &&
           s->left.part_milli == 1000 && n->tag_job_id == s->p->jobs[s->left.job].job_id;
}

static int64_t part_price(const struct supply *s, const struct node *n, uint32_t paid_milli)
{
    return money_share_ceil(s->p->offers[n->offer].usd_micros_per_hour, paid_milli,
                            n->device_count * 1000);
}

static bool was_seen(const struct supply *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->seen_count; i++)
        if (s->seen[i] == node) return true;
    return false;
}

/* Packing only knows what is free: the rest of what a node must be. */
static bool takes_packed(void *context, uint32_t node)
{
    struct supply *s = context;
    const struct node *n = &s->p->nodes[node];
    const struct offer *o = &s->p->offers[n->offer];
    uint32_t count = s->packed_count;
    if (!supply_allows(s, o) || n->leases.count >= NODE_LEASES_MAX) return false;
    if (was_seen(s, node) || supply_has_lease(s, n) || node_gives(s, node) < count) return false;
    bool opens = s->left.part_milli > 0 &&
                 (!s->sharing || part_device(s->p, node, s->left.terms,
                                             part_asker(s->p, s->left.job)) == SLOT_NONE);
    if (opens && promise_free(s->p, &s->left, n) < count) return false;
    if (supply_within_quota(s, o->model, count) < count) return false;
    if (supply_within_class(s, o, /* is_idle */ true, count) < count) return false;
    int64_t usd_micros = part_price(s, n, count * supply_milli(s, o));
    return supply_fits_budget(s, usd_micros) && supply_fits_gates(s, o, usd_micros);
}

static bool next_packed(struct supply *s, struct pick *ret_pick)
{
    uint32_t node;
    s->packed_count = smaller(s->packed_count, s->left.devices_left);
    for (; s->packed_count >= s->left.node_devices_min && s->packed_count > 0; s->packed_count--) {
        if (s->seen_count == SUPPLY_PACKED_MAX) break;
        struct packing_ask ask = packing_ask_of(s, s->packed_count);
        if (!packing_best(s->p, &ask, takes_packed, s, &node)) continue;
        const struct node *n = &s->p->nodes[node];
        uint32_t paid_milli = s->packed_count * supply_milli(s, &s->p->offers[n->offer]);
        s->seen[s->seen_count++] = node;
        take(s,
             (struct pick){.offer = n->offer,
                           .node = node,
                           .node_count = 1,
                           .device_count = s->packed_count,
                           .paid_milli = paid_milli,
                           .usd_micros_per_hour = part_price(s, n, paid_milli)},
             ret_pick);
        return true;
    }
    s->packed_count = 0;
    return false;
}

/* Packing has seen all its nodes, unless the job took very many. */
static bool is_walked(const struct supply *s, const struct offer *o)
{
    return supply_allows(s, o) && (!packing_holds(o) || s->seen_count == SUPPLY_PACKED_MAX);
}

static bool next_idle(struct supply *s, struct pick *ret_pick)
{
    for (;;) {
        while (s->node == SLOT_NONE) {
            uint32_t model = first_market(s);
            if (model == MODELS_MAX) return false;
            s->offer = pop_market(s, model);
            if (!is_in_turn(s, &s->p->offers[s->offer])) continue;
            if (is_walked(s, &s->p->offers[s->offer]))
                s->node = s->sharing ? s->p->offers[s->offer].shared_nodes.head
                                     : s->p->offers[s->offer].idle_nodes.head;
            else
                supply_note_hot(s, &s->p->offers[s->offer]);
        }
        uint32_t node = s->node;
        const struct node *n = &s->p->nodes[node];
        /* Before the taker takes it off the list. */
        s->node = s->sharing ? n->shared_link.next : n->idle_link.next;
        uint32_t gives = node_gives(s, node);
        if (!s->sharing) gives = smaller(gives, promise_free(s->p, &s->left, n));
        uint32_t count = supply_within_quota(s, s->p->offers[s->offer].model,
                                             smaller(gives, s->left.devices_left));
        count = supply_within_class(s, &s->p->offers[s->offer], /* is_idle */ true, count);
        if (gives < s->left.node_devices_min || supply_has_lease(s, n) || was_seen(s, node))
            continue;
        if (count == 0 || (s->left.single_node && count < s->left.node_devices_min)) continue;
        uint32_t paid_milli = supply_comes_back(s, n)
                                  ? n->device_count * 1000
                                  : count * supply_milli(s, &s->p->offers[s->offer]);
        int64_t usd_micros = part_price(s, n, paid_milli);
        if (!supply_fits_budget(s, usd_micros) ||
            !supply_fits_gates(s, &s->p->offers[s->offer], usd_micros))
            continue;
        take(s,
             (struct pick){.offer = s->offer,
                           .node = node,
                           .node_count = 1,
                           .device_count = count,
                           .paid_milli = paid_milli,
                           .usd_micros_per_hour = usd_micros},
             ret_pick);
        return true;
    }
}

/* What a node costs per unit when only the devices still wanted are used. */
static int64_t partial_key(const struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    uint32_t used = smaller(supply_offer_gives(s, o), s->left.devices_left);
    int64_t usd_micros = risk_weighed(o, o->usd_micros_per_hour);
    if (s->order != SUPPLY_BY_NCU) return usd_micros / used;
    return usd_micros * 1000000 / (supply_worth(s, o->model) * used);
}

static struct pick pick_offer(struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    uint32_t stock = smaller(supply_stock(s, o), smaller(s->nodes_left, s->leases_left));
    uint32_t gives = supply_offer_gives(s, o);
    struct pick pick = {.offer = offer,
                        .node = SLOT_NONE,
                        .node_count = 1,
                        .device_count = smaller(gives, s->left.devices_left),
                        .paid_milli = o->device_count * 1000,
                        .usd_micros_per_hour = o->usd_micros_per_hour};
    if (s->left.single_node || gives > s->left.devices_left) return pick;
    pick.node_count = smaller(stock, s->left.devices_left / gives);
    if (s->left.near.spread == TOPOLOGY_ZONE || s->left.near.spread == TOPOLOGY_RACK)
        pick.node_count = 1; /* all of an offer are in one */
    pick.node_count = supply_within_quota(s, o->model, pick.node_count * gives) / gives;
    pick.node_count =
        supply_within_class(s, o, /* is_idle */ false, pick.node_count * gives) / gives;
    int64_t bought = supply_bought_left(s, o);
    if (o->usd_micros_per_hour > 0 && bought != INT64_MAX &&
        bought / o->usd_micros_per_hour < pick.node_count) {
        pick.node_count = (uint32_t)(bought / o->usd_micros_per_hour);
        supply_note_gated(s, o, o->usd_micros_per_hour);
    }
    if (o->usd_micros_per_hour > 0 && s->left.budget_left_usd_micros != INT64_MAX) {
        int64_t affordable = s->left.budget_left_usd_micros / o->usd_micros_per_hour;
        if (affordable < pick.node_count) {
            pick.node_count = (uint32_t)affordable;
            s->met |= OBSTACLE_BUDGET | OBSTACLE_DOLLARS;
            s->too_dear_usd_micros = supply_lower(s->too_dear_usd_micros, o->usd_micros_per_hour);
        }
    }
    return pick;
}

/* Of a node that is bought the job uses all it still wants, or it is not for this job. */
static bool fits_quota(struct supply *s, const struct offer *o)
{
    uint32_t used = smaller(supply_offer_gives(s, o), s->left.devices_left);
    return supply_within_quota(s, o->model, used) == used &&
           supply_within_class(s, o, false, used) == used;
}

static bool is_offered(struct supply *s, const struct offer *o)
{
    if (supply_stock(s, o) == 0 || supply_offer_gives(s, o) < s->left.node_devices_min)
        return false;
    if (!supply_allows(s, o)) {
        supply_note_hot(s, o);
        return false;
    }
    if (!fits_quota(s, o) || !supply_fits_budget(s, o->usd_micros_per_hour)) return false;
    if (!supply_fits_gates(s, o, o->usd_micros_per_hour)) return false;
    if (!supply_keeps_out(s, o)) return true;
    s->met |= OBSTACLE_KEPT;
    return false;
}

/* A node too large for what is left stands in for all that follow where every node is as large:
 * they are dearer. So a market of many offers is not walked for one device. */
static uint32_t pop_offer(struct supply *s, uint32_t model)
{
    const struct market *market = market_of(s->p, s->region_index, model);
    uint32_t offer = s->heads[model];
    if (!s->left.special && market->devices_least == market->devices_most &&
        market->devices_least > s->left.devices_left && is_offered(s, &s->p->offers[offer]))
        s->heads[model] = SLOT_NONE;
    else
        advance(s, model);
    return offer;
}

static void keep_in_mind(struct supply *s, uint32_t offer)
{
    if (s->left.devices_left == 0) return;
    if (s->partial == SLOT_NONE || partial_key(s, offer) < partial_key(s, s->partial))
        s->partial = offer;
}

/* The order in which a demand that is spread buys: it takes one device of each node, so what a whole
 * one costs counts, not its price per device. */
static bool is_behind(const struct supply *s, uint32_t offer, int64_t key, uint64_t offer_id)
{
    int64_t mine = partial_key(s, offer);
    return mine > key || (mine == key && s->p->offers[offer].offer_id > offer_id);
}

static void try_apart(struct supply *s, uint32_t offer, uint32_t *best)
{
    const struct offer *offers = s->p->offers;
    if (supply_offer_gives(s, &offers[offer]) == 0) return;
    if (!is_behind(s, offer, s->apart_key, s->apart_offer_id)) return; /* it was its turn before */
    if (*best != SLOT_NONE && is_behind(s, offer, partial_key(s, *best), offers[*best].offer_id))
        return;
    if (is_offered(s, &offers[offer])) *best = offer;
}

static bool next_apart(struct supply *s, struct pick *ret_pick)
{
    uint32_t best = SLOT_NONE;
    if (s->nodes_left == 0) return false;
    for (uint64_t rest = s->models; rest != 0; rest &= rest - 1) {
        const struct market *market =
            market_of(s->p, s->region_index, (uint32_t)__builtin_ctzll(rest));
        const struct price *prices = s->p->prices + market->first;
        for (uint32_t i = 0; i < market->count; i++)
            if ((s->kinds >> prices[i].capacity & 1) != 0) try_apart(s, prices[i].offer, &best);
    }
    if (best == SLOT_NONE) return false;
    s->apart_key = partial_key(s, best);
    s->apart_offer_id = s->p->offers[best].offer_id;
    take(s, pick_offer(s, best), ret_pick);
    return true;
}

static bool next_offer(struct supply *s, struct pick *ret_pick)
{
    while (s->nodes_left > 0) {
        uint32_t model = first_market(s), offer = SLOT_NONE;
        if (s->partial != SLOT_NONE &&
            (model == MODELS_MAX || key_of(s, s->heads[model]) >= partial_key(s, s->partial))) {
            offer = s->partial;
            s->partial = SLOT_NONE;
            if (!is_offered(s, &s->p->offers[offer])) continue; /* the budget has shrunk since */
        } else {
            if (model == MODELS_MAX) return false;
            offer = pop_offer(s, model);
            if (!is_offered(s, &s->p->offers[offer])) continue;
            if (supply_offer_gives(s, &s->p->offers[offer]) > s->left.devices_left) {
                keep_in_mind(s, offer);
                continue;
            }
        }
        struct pick pick = pick_offer(s, offer);
        bool more = supply_stock(s, &s->p->offers[offer]) > pick.node_count;
        take(s, pick, ret_pick);
        /* One more of these may give the last few devices. */
        if (more && supply_offer_gives(s, &s->p->offers[offer]) > s->left.devices_left)
            keep_in_mind(s, offer);
        return true;
    }
    return false;
}

/* The next walk: the burst after the baseline; whole devices where nothing opened has room; purchases. */
static bool next_walk(struct supply *s)
{
    if (s->kinds == KINDS_BASELINE) {
        s->kinds = KINDS_BURST;
        rewind_markets(s);
        s->apart_key = -1;
        s->apart_offer_id = 0;
        return true;
    }
    if (s->buying) return false;
    s->buying = !s->sharing;
    s->sharing = 0;
    rewind_kinds(s);
    return true;
}

bool supply_next(struct supply *s, struct pick *ret_pick)
{
    bool apart = s->left.near.spread != TOPOLOGY_ANY && s->left.only_offer == SLOT_NONE;
    if (s->left.devices_left == 0) return false;
    if (s->left.single_node && s->left.devices_left < s->left.node_devices_min) return false;
    if (s->leases_left == 0) return false;
    if (s->packed_count > 0 && next_packed(s, ret_pick)) return true;
    do {
        if (!s->buying ? next_idle(s, ret_pick)
            : apart    ? next_apart(s, ret_pick)
                       : next_offer(s, ret_pick))
            return true;
    } while (next_walk(s));
    return false;
}
