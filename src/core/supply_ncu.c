#include "core/supply_ncu.h"
#include "core/assert.h"
#include "core/gate.h"
#include "core/lease.h"
#include "core/limits.h"
#include "core/offer.h"
#include "core/plan.h"
#include "core/prices.h"
#include "core/promise.h"
#include "core/quota.h"

enum { NEW_NODE_WEIGHT = 1000 }; /* more than a node has devices: rather as many idle ones */

/* ---- what there is ---- */

static uint32_t piece_devices(const struct ncu_supply *n, uint32_t type)
{
    return n->pieces[type] == PIECE_IDLE_DEVICE ? 1
                                                : n->supply.p->offers[n->offers[type]].device_count;
}

static bool is_dearer(const struct ncu_type *a, const struct ncu_type *b)
{
    return (uint64_t)a->usd_micros_per_hour * b->ncu_milli >
           (uint64_t)b->usd_micros_per_hour * a->ncu_milli;
}

/* Kept in the order of the price per NCU, so that the dearest fall out. */
static void put(struct ncu_supply *n, uint32_t offer, uint32_t piece, uint32_t stock)
{
    const struct offer *o = &n->supply.p->offers[offer];
    uint32_t devices = piece == PIECE_IDLE_DEVICE ? 1 : o->device_count, at = n->count;
    struct ncu_type type = {.ncu_milli = n->supply.p->models[o->model].ncu_milli * devices,
                            .stock = stock,
                            .usd_micros_per_hour =
                                money_share_ceil(o->usd_micros_per_hour, devices, o->device_count),
                            .extra_weight = piece == PIECE_NEW_NODE ? NEW_NODE_WEIGHT : 0};
    if (stock == 0) return;
    n->most_milli += (uint64_t)type.ncu_milli * stock;
    while (at > 0 && is_dearer(&n->types[at - 1], &type)) at--;
    if (at == NCU_TYPES_MAX) return;
    if (n->count < NCU_TYPES_MAX) n->count++;
    for (uint32_t i = n->count - 1; i > at; i--) {
        n->types[i] = n->types[i - 1];
        n->offers[i] = n->offers[i - 1];
        n->pieces[i] = n->pieces[i - 1];
    }
    n->types[at] = type;
    n->offers[at] = offer;
    n->pieces[at] = piece;
}

/* Devices of an idle node that the demand may take; ret_piece: one by one, or all with the node. */
static uint32_t idle_devices(const struct supply *s, uint32_t node, uint32_t *ret_piece)
{
    const struct node *n = &s->p->nodes[node];
    *ret_piece = PIECE_IDLE_DEVICE;
    if (supply_has_lease(s, n) || n->leases.count >= NODE_LEASES_MAX) return 0;
    if (n->device_count != s->p->offers[n->offer].device_count) return 0; /* not what was bought */
    uint32_t gives = smaller(n->devices_free, promise_free(s->p, &s->left, n));
    if (!supply_comes_back(s, n)) return gives;
    *ret_piece = PIECE_IDLE_NODE;
    return gives == n->device_count ? gives : 0;
}

static void put_idle(struct ncu_supply *n, uint32_t offer)
{
    struct supply *s = &n->supply;
    const struct offer *o = &s->p->offers[offer];
    uint32_t devices = 0, nodes = 0, piece;
    if (!supply_allows(s, o)) {
        supply_note_hot(s, o);
        return;
    }
    for (uint32_t at = o->idle_nodes.head; at != SLOT_NONE; at = s->p->nodes[at].idle_link.next) {
        uint32_t gives = idle_devices(s, at, &piece);
        if (piece == PIECE_IDLE_DEVICE)
            devices += gives;
        else
            nodes += gives > 0;
    }
    devices = supply_within_class(s, o, /* is_idle */ true, devices);
    nodes = supply_within_class(s, o, /* is_idle */ true, nodes * o->device_count);
    put(n, offer, PIECE_IDLE_DEVICE, supply_within_quota(s, o->model, devices));
    put(n, offer, PIECE_IDLE_NODE, supply_within_quota(s, o->model, nodes) / o->device_count);
}

static void put_offer(struct ncu_supply *n, uint32_t offer)
{
    struct supply *s = &n->supply;
    const struct offer *o = &s->p->offers[offer];
    uint32_t stock = supply_stock(s, o);
    if (stock == 0) return;
    if (!supply_allows(s, o)) {
        supply_note_hot(s, o);
        return;
    }
    if (!supply_fits_gates(s, o, o->usd_micros_per_hour)) return;
    if (supply_keeps_out(s, o)) {
        s->met |= OBSTACLE_KEPT;
        return;
    }
    uint32_t room = smaller(s->nodes_left, s->leases_left);
    if (stock > room) s->met |= OBSTACLE_LIMIT | OBSTACLE_WORKERS;
    stock = smaller(stock, room);
    uint32_t devices = stock < UINT32_MAX / o->device_count ? stock * o->device_count : UINT32_MAX;
    devices = supply_within_class(s, o, /* is_idle */ false, devices);
    put(n, offer, PIECE_NEW_NODE, supply_within_quota(s, o->model, devices) / o->device_count);
}

static void collect(struct ncu_supply *n)
{
    const struct supply *s = &n->supply;
    for (uint64_t rest = s->models; rest != 0; rest &= rest - 1) {
        const struct market *market =
            market_of(s->p, s->region_index, (uint32_t)__builtin_ctzll(rest));
        for (uint32_t at = market->idle_offers.head; at != SLOT_NONE && !s->left.ever;
             at = s->p->offers[at].idle_link.next)
            put_idle(n, at);
        for (uint32_t at = prices_first(s->p, market, KINDS_ALL); at != SLOT_NONE;
             at = prices_next(s->p, market, at, KINDS_ALL))
            put_offer(n, at);
    }
}

/* ---- what the demand may take together ---- */

/* What a mix takes of each limit. */
struct taken {
    int64_t bought_usd_micros, quota_milli[QUOTA_KINDS];
    uint64_t class_milli;
    uint32_t nodes, leases;
};

/* Idle devices share the lease of their node, as they are handed out. */
static uint32_t leases_of(const struct ncu_supply *n, uint32_t type)
{
    const struct supply *s = &n->supply;
    uint32_t left = n->mix.counts[type], leases = 0, found;
    if (n->pieces[type] != PIECE_IDLE_DEVICE) return left;
    for (uint32_t at = s->p->offers[n->offers[type]].idle_nodes.head; left > 0 && at != SLOT_NONE;
         at = s->p->nodes[at].idle_link.next) {
        uint32_t gives = idle_devices(s, at, &found);
        if (gives == 0 || found != PIECE_IDLE_DEVICE) continue;
        left -= smaller(gives, left);
        leases++;
    }
    return leases;
}

static struct taken taken_by(const struct ncu_supply *n)
{
    const pool *p = n->supply.p;
    struct taken taken = {0};
    for (uint32_t i = 0; i < n->count; i++) {
        const struct offer *o = &p->offers[n->offers[i]];
        uint32_t count = n->mix.counts[i];
        if (gate_is_bought(o)) taken.bought_usd_micros += n->types[i].usd_micros_per_hour * count;
        if (n->pieces[i] != PIECE_NEW_NODE || !gate_is_bought(o))
            taken.class_milli += (uint64_t)n->types[i].ncu_milli * count;
        taken.quota_milli[p->quota_kind[o->model]] +=
            demand_quota_milli(p, &n->supply.left, o->model) * piece_devices(n, i) * count;
        taken.nodes += n->pieces[i] == PIECE_NEW_NODE ? count : 0;
        taken.leases += leases_of(n, i);
    }
    return taken;
}

/* All but the gates of single pools, which have been looked at piece by piece. */
static uint32_t exceeded(const struct ncu_supply *n)
{
    const struct supply *s = &n->supply;
    struct taken taken = taken_by(n);
    uint32_t met = 0;
    if (s->left.ever) return 0;
    if (taken.nodes > s->nodes_left || taken.leases > s->leases_left)
        met |= OBSTACLE_LIMIT | OBSTACLE_WORKERS;
    if (taken.class_milli > s->left.class_left_milli) met |= OBSTACLE_CLASS;
    if (taken.bought_usd_micros > s->left.bought_left_usd_micros) met |= OBSTACLE_GATE;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (taken.quota_milli[kind] > s->left.quota_left_milli[kind]) met |= OBSTACLE_QUOTA;
    return met;
}

enum attempt {
    ALL,
    LEAST_BOUGHT,
    ONLY_BOUGHT,
    ONLY_LARGE,
    LARGE_NEW,
    ONE_KIND,
    ATTEMPT_END = ONE_KIND + QUOTA_KINDS
};

/* As many of its nodes as there are places do not reach it. */
static bool is_small(const struct ncu_supply *n, uint32_t type)
{
    const struct supply *s = &n->supply;
    const struct offer *o = &s->p->offers[n->offers[type]];
    uint32_t room = s->leases_left;
    if (n->pieces[type] == PIECE_NEW_NODE) room = smaller(room, s->nodes_left);
    return (uint64_t)s->p->models[o->model].ncu_milli * o->device_count * room <
           s->left.ncu_left_milli;
}

static bool is_left_out(const struct ncu_supply *n, uint32_t type, uint32_t attempt)
{
    const struct supply *s = &n->supply;
    const struct offer *o = &s->p->offers[n->offers[type]];
    if (attempt == ONLY_BOUGHT) return n->pieces[type] != PIECE_NEW_NODE || !gate_is_bought(o);
    if (attempt == LARGE_NEW && n->pieces[type] != PIECE_NEW_NODE) return true;
    if (attempt == ONLY_LARGE || attempt == LARGE_NEW) return is_small(n, type);
    return attempt >= ONE_KIND && s->p->quota_kind[o->model] != attempt - ONE_KIND;
}

/* The real cost of a mix that was found at other prices. */
static void price_again(struct ncu_supply *n)
{
    n->mix.usd_micros_per_hour = 0;
    for (uint32_t i = 0; i < n->count; i++)
        n->mix.usd_micros_per_hour += n->types[i].usd_micros_per_hour * n->mix.counts[i];
}

static bool try_mix(struct ncu_supply *n, uint32_t attempt)
{
    struct ncu_type types[NCU_TYPES_MAX];
    for (uint32_t i = 0; i < n->count; i++) {
        types[i] = n->types[i];
        if (is_left_out(n, i, attempt)) types[i].stock = 0;
        if (attempt == LEAST_BOUGHT && !gate_is_bought(&n->supply.p->offers[n->offers[i]]))
            types[i].usd_micros_per_hour = 0;
    }
    if (!ncu_mix_cheapest(types, n->count, n->supply.left.ncu_left_milli, &n->mix)) return false;
    price_again(n);
    return true;
}

/* The cheapest mix decides what is in the way; the others only whether something else will do. */
static bool choose(struct ncu_supply *n)
{
    struct supply *s = &n->supply;
    int64_t least = 0;
    uint32_t met = 0;
    for (uint32_t attempt = ALL; attempt < ATTEMPT_END; attempt++) {
        if (!try_mix(n, attempt)) {
            if (attempt == ALL) return false;
            continue;
        }
        uint32_t beyond = exceeded(n);
        if (attempt == ALL) least = n->mix.usd_micros_per_hour;
        if (beyond == 0 && n->mix.usd_micros_per_hour <= s->left.budget_left_usd_micros)
            return true;
        if (least > s->left.budget_left_usd_micros) { /* no other mix costs less */
            s->met |= OBSTACLE_BUDGET | OBSTACLE_DOLLARS | beyond;
            s->too_dear_usd_micros = least;
            return false;
        }
        if (beyond == 0) met |= OBSTACLE_BUDGET | OBSTACLE_DOLLARS;
        met |= beyond;
        if ((beyond & OBSTACLE_GATE) != 0)
            for (uint32_t i = 0; i < n->count; i++)
                if (n->mix.counts[i] > 0 && gate_is_bought(&s->p->offers[n->offers[i]]))
                    supply_note_gated(s, &s->p->offers[n->offers[i]],
                                      taken_by(n).bought_usd_micros);
    }
    s->met |= met;
    if ((met & OBSTACLE_QUOTA) != 0) s->left.quota_short = 1;
    return false;
}

bool ncu_supply_begin(struct ncu_supply *n, const pool *p, const struct demand *demand,
                      uint32_t region_index)
{
    ASSERT(demand->ncu_left_milli > 0);
    n->count = n->at = n->device_count = 0;
    n->most_milli = 0;
    n->node = SLOT_NONE;
    struct demand one = *demand;
    one.devices_left = 1; /* packing is not asked */
    supply_open(&n->supply, p, &one, region_index, SUPPLY_BY_NCU);
    collect(n);
    if (!choose(n)) return false;
    for (uint32_t i = 0; i < n->count; i++)
        n->device_count += n->mix.counts[i] * piece_devices(n, i);
    n->supply.left.devices_left = n->device_count;
    return true;
}

/* ---- handed out ---- */

static bool pick_idle(struct ncu_supply *n, struct pick *ret_pick)
{
    const struct supply *s = &n->supply;
    uint32_t *left = &n->mix.counts[n->at], piece = n->pieces[n->at], found;
    const struct offer *o = &s->p->offers[n->offers[n->at]];
    if (n->node == SLOT_NONE) n->node = o->idle_nodes.head;
    while (n->node != SLOT_NONE) {
        uint32_t node = n->node, gives = idle_devices(s, node, &found);
        n->node = s->p->nodes[node].idle_link.next; /* before the taker takes it off the list */
        if (gives == 0 || found != piece) continue;
        uint32_t devices = piece == PIECE_IDLE_NODE ? gives : smaller(gives, *left);
        *left -= piece == PIECE_IDLE_NODE ? 1 : devices;
        *ret_pick = (struct pick){.offer = n->offers[n->at],
                                  .node = node,
                                  .node_count = 1,
                                  .device_count = devices,
                                  .paid_milli = devices * 1000,
                                  .usd_micros_per_hour = money_share_ceil(
                                      o->usd_micros_per_hour, devices, o->device_count)};
        return true;
    }
    return false;
}

static struct pick pick_new(struct ncu_supply *n)
{
    const struct offer *o = &n->supply.p->offers[n->offers[n->at]];
    struct pick pick = {.offer = n->offers[n->at],
                        .node = SLOT_NONE,
                        .node_count = n->mix.counts[n->at],
                        .device_count = o->device_count,
                        .paid_milli = o->device_count * 1000,
                        .usd_micros_per_hour = o->usd_micros_per_hour};
    n->mix.counts[n->at] = 0;
    return pick;
}

bool ncu_supply_next(struct ncu_supply *n, struct pick *ret_pick)
{
    struct demand *left = &n->supply.left;
    for (; n->at < n->count; n->at++, n->node = SLOT_NONE) {
        if (n->mix.counts[n->at] == 0) continue;
        if (n->pieces[n->at] == PIECE_NEW_NODE)
            *ret_pick = pick_new(n);
        else if (!pick_idle(n, ret_pick))
            continue;
        left->devices_left -= ret_pick->device_count * ret_pick->node_count;
        if (left->budget_left_usd_micros != INT64_MAX)
            left->budget_left_usd_micros -= ret_pick->usd_micros_per_hour * ret_pick->node_count;
        return true;
    }
    return false;
}

uint64_t ncu_held_milli(const pool *p, uint32_t job)
{
    uint64_t held = 0;
    for (uint32_t l = p->jobs[job].leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        const struct node *n = &p->nodes[p->leases[l].node];
        if (!node_is_usable(n) || !lease_holds(&p->leases[l])) continue;
        held +=
            (uint64_t)p->models[p->offers[n->offer].model].ncu_milli * p->leases[l].device_count;
    }
    return held;
}
