/* What a demand may take of an offer: kinds, prices, budget, gates, quota, class. What keeps it out is
 * noted on the way (plan_wait.c). */
#include "core/gate.h"
#include "core/island.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/quota.h"
#include "core/rate.h"
#include "core/supply.h"

bool supply_is_kind(const pool *p, const struct demand *d, const struct offer *o)
{
    if (d->only_offer != SLOT_NONE && o != &p->offers[d->only_offer]) return false;
    if (o->capacity == CAPACITY_SPOT && d->spot_offer != SLOT_NONE &&
        o != &p->offers[d->spot_offer])
        return false;
    return d->capacity_mask == 0 || (d->capacity_mask >> o->capacity & 1) != 0;
}

static bool is_wanted(const struct supply *s, const struct offer *o)
{
    return near_allows(&s->left.near, o) && supply_is_kind(s->p, &s->left, o);
}

bool supply_is_above_max(const struct demand *d, const struct offer *o)
{
    if (offer_is_above_bid(o, d->bid_usd_micros)) return true;
    return d->device_usd_micros_max != INT64_MAX && gate_is_bought(o) &&
           o->usd_micros_per_hour / o->device_count > d->device_usd_micros_max;
}

bool supply_allows(const struct supply *s, const struct offer *o)
{
    if (!is_wanted(s, o)) return false;
    if (s->left.ever) return true;
    return !offer_is_above(o, s->left.threshold_ppm) && !supply_is_above_max(&s->left, o);
}

/* Not allowed for its price alone. */
void supply_note_hot(struct supply *s, const struct offer *o)
{
    if (!is_wanted(s, o)) return;
    s->met |= OBSTACLE_PRICE;
    if (supply_is_above_max(&s->left, o)) {
        s->above_max_usd_micros =
            supply_lower(s->above_max_usd_micros, o->usd_micros_per_hour / o->device_count);
        return;
    }
    if (s->hot_ppm == 0 || o->share_ppm < s->hot_ppm) s->hot_ppm = o->share_ppm;
}

/* The lower of two prices, 0 = none yet. */
int64_t supply_lower(int64_t a, int64_t b)
{
    return a == 0 || b < a ? b : a;
}

bool supply_fits_budget(struct supply *s, int64_t usd_micros)
{
    if (usd_micros <= s->left.budget_left_usd_micros) return true;
    s->too_dear_usd_micros = supply_lower(s->too_dear_usd_micros, usd_micros);
    s->met |= OBSTACLE_BUDGET | OBSTACLE_DOLLARS;
    return false;
}

/* What is left of its gates for capacity of this kind; INT64_MAX: no limit. */
int64_t supply_bought_left(const struct supply *s, const struct offer *o)
{
    if (s->left.ever || !gate_is_bought(o)) return INT64_MAX;
    uint32_t index = gate_pool_of(s->p, s->left.gate_pools, o->model);
    if (index == SLOT_NONE || s->pool_left_usd_micros[index] > s->left.bought_left_usd_micros)
        return s->left.bought_left_usd_micros;
    return s->pool_left_usd_micros[index];
}

void supply_note_gated(struct supply *s, const struct offer *o, int64_t usd_micros)
{
    s->met |= OBSTACLE_GATE;
    if (s->gated_usd_micros != 0 && usd_micros >= s->gated_usd_micros) return;
    s->gated_usd_micros = usd_micros;
    s->gated_model = o->model;
}

bool supply_fits_gates(struct supply *s, const struct offer *o, int64_t usd_micros)
{
    if (usd_micros <= supply_bought_left(s, o)) return true;
    supply_note_gated(s, o, usd_micros);
    return false;
}

void supply_pass_gates(struct supply *s, const struct offer *o, int64_t usd_micros)
{
    if (s->left.ever || !gate_is_bought(o)) return;
    uint32_t index = gate_pool_of(s->p, s->left.gate_pools, o->model);
    if (s->left.bought_left_usd_micros != INT64_MAX) s->left.bought_left_usd_micros -= usd_micros;
    if (index != SLOT_NONE && s->pool_left_usd_micros[index] != INT64_MAX)
        s->pool_left_usd_micros[index] -= usd_micros;
}

/* Devices of the model for which quota is left; fewer than `wanted`: said in quota_short. */
uint32_t supply_within_quota(struct supply *s, uint32_t model, uint32_t wanted)
{
    int64_t left = s->left.quota_left_milli[s->p->quota_kind[model]];
    int64_t each = demand_quota_milli(s->p, &s->left, model);
    if (left == INT64_MAX || each == 0 || left / each >= wanted) return wanted;
    s->left.quota_short = 1;
    s->met |= OBSTACLE_QUOTA;
    return (uint32_t)(left / each);
}

/* Of each device that is taken there. */
uint32_t supply_milli(const struct supply *s, const struct offer *o)
{
    return s->left.terms->mig_profile == 0 ? s->left.part_milli
                                           : part_milli_on(s->p, s->left.terms, o->model);
}

/* Of idle devices and owned stock: those that the share of its class lets it have. */
uint32_t supply_within_class(struct supply *s, const struct offer *o, bool is_idle, uint32_t wanted)
{
    if (s->left.ever || s->left.class_left_milli == UINT64_MAX) return wanted;
    if (!is_idle && gate_is_bought(o)) return wanted;
    uint64_t each = (uint64_t)s->p->models[o->model].ncu_milli * supply_milli(s, o) / 1000;
    if (each == 0 || s->left.class_left_milli / each >= wanted) return wanted;
    s->met |= OBSTACLE_CLASS;
    return (uint32_t)(s->left.class_left_milli / each);
}

void supply_use_class(struct supply *s, const struct pick *pick)
{
    const struct offer *o = &s->p->offers[pick->offer];
    if (s->left.class_left_milli == UINT64_MAX) return;
    uint64_t used = (uint64_t)s->p->models[o->model].ncu_milli * supply_milli(s, o) / 1000 *
                    pick->device_count * pick->node_count;
    s->left.class_left_milli -= used < s->left.class_left_milli ? used : s->left.class_left_milli;
}

/* Millionths of an NCU. */
int64_t supply_worth(const struct supply *s, uint32_t model)
{
    return (int64_t)rate_worth_micro(s->p, s->left.rates, model);
}

/* Of a node where the demand may have one device: none, if it has one there or near it. */
uint32_t supply_apart_gives(const struct supply *s, const struct offer *o, uint32_t gives)
{
    uint32_t level = s->left.near.spread;
    if (gives <= 1 && level >= TOPOLOGY_NODE) return gives;
    if (level >= TOPOLOGY_NODE) return 1;
    uint64_t place = supply_apart_place(o, level);
    for (uint32_t i = 0; i < s->apart_count; i++)
        if (s->apart[i] == place) return 0;
    return s->apart_count < NEAR_PLACES_MAX && gives > 0 ? 1 : 0;
}

uint32_t supply_offer_gives(const struct supply *s, const struct offer *o)
{
    uint32_t gives = s->left.special ? part_offer_gives(s->p, o, s->left.terms) : o->device_count;
    if (s->left.special) gives = smaller(gives, island_offer_gives(o, s->left.near.same));
    return s->left.near.spread == TOPOLOGY_ANY ? gives : supply_apart_gives(s, o, gives);
}

enum { STOCK_PLENTY = 1000000 };

uint32_t supply_stock(const struct supply *s, const struct offer *o)
{
    if (s->left.lifted & OBSTACLE_STOCK) return STOCK_PLENTY;
    if (s->left.ever) return o->reach_count;
    uint32_t stock = offer_stock(s->p, o);
    if (!s->left.probes || o->refused_count == 0) return stock;
    bool asked = o->nodes.tail != SLOT_NONE && s->p->nodes[o->nodes.tail].state == NODE_ORDERED;
    return asked ? 0 : smaller(stock, 1); /* until it answers, nobody knows */
}

bool supply_keeps_out(const struct supply *s, const struct offer *o)
{
    return !s->left.ever && !(s->left.lifted & OBSTACLE_KEPT) &&
           plan_is_kept(s->p, s->left.job_class, o);
}
