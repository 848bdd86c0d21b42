#include "core/plan_buy.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/gate.h"
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

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Never below 0 when prices have risen: what costs nothing always fits. */
int64_t budget_left(int64_t budget_usd_micros, int64_t committed_usd_micros)
{
    return committed_usd_micros < budget_usd_micros ? budget_usd_micros - committed_usd_micros : 0;
}

struct demand demand_of(const struct shape *s, const struct job_terms *terms, uint32_t devices_left,
                        int64_t committed_usd_micros)
{
    struct demand demand = {.terms = terms,
                            .compat_mask = s->compat_mask,
                            .capacity_mask = s->capacity_mask,
                            .threshold_ppm = s->threshold_ppm,
                            .job_class = s->job_class,
                            .devices_left = devices_left,
                            .special = part_is_special(terms),
                            .part_milli = part_milli(terms),
                            .node_devices_min = 1,
                            .region = s->region,
                            .job = SLOT_NONE,
                            .only_offer = SLOT_NONE,
                            .order = ((uint64_t)s->job_class + 1) << 56, /* the youngest */
                            .budget_left_usd_micros = INT64_MAX,
                            .bought_left_usd_micros = INT64_MAX,
                            .class_left_milli = UINT64_MAX,
                            .workers_left = UINT32_MAX};
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) demand.quota_left_milli[kind] = INT64_MAX;
    if (s->kind == JOB_KIND_BATCH) {
        demand.single_node = 1;
        demand.node_devices_min = s->devices_min;
    }
    if (s->budget_usd_micros_per_hour > 0)
        demand.budget_left_usd_micros =
            budget_left(s->budget_usd_micros_per_hour, committed_usd_micros);
    return demand;
}

/* Devices that the quota lets a job have at most, were they all of the model that counts least. */
static uint32_t devices_within(const pool *p, const struct demand *demand)
{
    int64_t least[QUOTA_KINDS] = {0}, sum = 0;
    for (uint64_t rest = demand->compat_mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        int64_t each = quota_ncu_milli(p, model);
        int64_t *kind = &least[p->quota_kind[model]];
        if (each == 0 || demand->quota_left_milli[p->quota_kind[model]] == INT64_MAX)
            return UINT32_MAX;
        if (*kind == 0 || each < *kind) *kind = each;
    }
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (least[kind] != 0) sum += demand->quota_left_milli[kind] / least[kind];
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

void demand_limit(const pool *p, struct demand *demand, uint32_t job)
{
    demand->rates = rate_row(p, demand->terms->work_id);
    if (demand->rates != NULL)
        demand->compat_mask &= ~rate_never(p, demand->rates, demand->compat_mask);
    if (!(demand->lifted & OBSTACLE_GATE)) {
        demand->bought_left_usd_micros = gate_left(p, job);
        demand->gate_pools = p->shapes[p->jobs[job].shape].pool_mask;
    }
    if (!(demand->lifted & OBSTACLE_CLASS))
        demand->class_left_milli = class_left_milli(p, &p->shapes[p->jobs[job].shape]);
    if (!p->accounts_defined) return;
    struct allowance left = quota_allowance(p, job);
    for (uint32_t kind = 0; kind < QUOTA_KINDS && !(demand->lifted & OBSTACLE_QUOTA); kind++)
        demand->quota_left_milli[kind] = left.ncu_milli[kind];
    if (!(demand->lifted & OBSTACLE_WORKERS)) demand->workers_left = left.workers;
    uint32_t devices = devices_within(p, demand);
    if (devices < demand->devices_left) {
        demand->devices_left = devices;
        demand->quota_short = 1;
    }
    if (demand->lifted & OBSTACLE_DOLLARS) return;
    if (left.usd_micros_per_hour < demand->budget_left_usd_micros)
        demand->budget_left_usd_micros = left.usd_micros_per_hour;
}

bool demand_free_of_gates(const pool *p, struct demand *demand)
{
    bool gated = demand->bought_left_usd_micros != INT64_MAX;
    for (uint64_t rest = demand->gate_pools; rest != 0 && !gated; rest &= rest - 1)
        gated = gate_pool_left(p, demand->job, (uint32_t)__builtin_ctzll(rest)) != INT64_MAX;
    if (!gated) return true;
    uint32_t kinds = 1U << CAPACITY_OWNED | 1U << CAPACITY_RESERVED;
    demand->capacity_mask = demand->capacity_mask == 0 ? kinds : demand->capacity_mask & kinds;
    return demand->capacity_mask != 0;
}

static void rewind_markets(struct supply *s)
{
    const pool *p = s->p;
    uint32_t only = s->left.only_offer;
    for (uint64_t rest = s->models; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        const struct market *market = market_of(p, s->region_index, model);
        if (only != SLOT_NONE)
            s->heads[model] =
                p->offers[only].model == model && (s->buying || p->offers[only].idle_listed)
                    ? only
                    : SLOT_NONE;
        else
            s->heads[model] = s->buying ? prices_first(p, market) : market->idle_offers.head;
    }
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

static void begin(struct supply *s, const pool *p, const struct demand *demand,
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
    s->leases_left = lease_room(p);
    if (demand->ever || (demand->lifted & OBSTACLE_LIMIT))
        s->nodes_left = s->leases_left = UINT32_MAX;
    if (!demand->ever) s->leases_left = smaller(s->leases_left, demand->workers_left);
    s->too_dear_usd_micros = 0;
    s->met = s->hot_ppm = s->seen_count = 0;
    struct packing_ask ask = packing_ask_of(s, 0);
    uint32_t wanted = s->sharing ? 1 : demand->devices_left;
    s->packed_count = s->buying ? 0 : smaller(packing_most(p, &ask), wanted);
    begin_gates(s);
}

void supply_begin(struct supply *s, const pool *p, const struct demand *demand,
                  uint32_t region_index, enum supply_order order)
{
    begin(s, p, demand, region_index, order);
    rewind_markets(s);
}

/* Millionths of an NCU. */
static int64_t worth_of(const struct supply *s, uint32_t model)
{
    return (int64_t)rate_worth_micro(s->p, s->left.rates, model);
}

static int64_t key_of(const struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    if (s->order == SUPPLY_BY_NCU && s->left.rates == NULL) return o->unit_usd_micros;
    int64_t usd_micros = risk_weighed(o, o->usd_micros_per_hour);
    if (s->order == SUPPLY_BY_DEVICE) return usd_micros / o->device_count;
    return usd_micros * 1000000 / (worth_of(s, o->model) * o->device_count);
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
        s->heads[model] = prices_next(s->p, market_of(s->p, s->region_index, model), offer);
    else
        s->heads[model] = s->p->offers[offer].idle_link.next;
}

static uint32_t pop_market(struct supply *s, uint32_t model)
{
    uint32_t offer = s->heads[model];
    advance(s, model);
    return offer;
}

static bool is_wanted(const struct supply *s, const struct offer *o)
{
    if (s->left.only_offer != SLOT_NONE && o != &s->p->offers[s->left.only_offer]) return false;
    return s->left.capacity_mask == 0 || (s->left.capacity_mask >> o->capacity & 1) != 0;
}

static bool is_allowed(const struct supply *s, const struct offer *o)
{
    return is_wanted(s, o) && (s->left.ever || !offer_is_above(o, s->left.threshold_ppm));
}

/* Not allowed for its price alone. */
static void note_hot(struct supply *s, const struct offer *o)
{
    if (!is_wanted(s, o)) return;
    s->met |= OBSTACLE_PRICE;
    if (s->hot_ppm == 0 || o->share_ppm < s->hot_ppm) s->hot_ppm = o->share_ppm;
}

/* The lower of two prices, 0 = none yet. */
static int64_t lower(int64_t a, int64_t b)
{
    return a == 0 || b < a ? b : a;
}

static bool fits_budget(struct supply *s, int64_t usd_micros)
{
    if (usd_micros <= s->left.budget_left_usd_micros) return true;
    s->too_dear_usd_micros = lower(s->too_dear_usd_micros, usd_micros);
    s->met |= OBSTACLE_BUDGET | OBSTACLE_DOLLARS;
    return false;
}

/* What is left of its gates for capacity of this kind; INT64_MAX: no limit. */
static int64_t bought_left(const struct supply *s, const struct offer *o)
{
    if (s->left.ever || !gate_is_bought(o)) return INT64_MAX;
    uint32_t index = gate_pool_of(s->p, s->left.gate_pools, o->model);
    if (index == SLOT_NONE || s->pool_left_usd_micros[index] > s->left.bought_left_usd_micros)
        return s->left.bought_left_usd_micros;
    return s->pool_left_usd_micros[index];
}

static void note_gated(struct supply *s, const struct offer *o, int64_t usd_micros)
{
    s->met |= OBSTACLE_GATE;
    if (s->gated_usd_micros != 0 && usd_micros >= s->gated_usd_micros) return;
    s->gated_usd_micros = usd_micros;
    s->gated_model = o->model;
}

static bool fits_gates(struct supply *s, const struct offer *o, int64_t usd_micros)
{
    if (usd_micros <= bought_left(s, o)) return true;
    note_gated(s, o, usd_micros);
    return false;
}

static void pass_gates(struct supply *s, const struct offer *o, int64_t usd_micros)
{
    if (s->left.ever || !gate_is_bought(o)) return;
    uint32_t index = gate_pool_of(s->p, s->left.gate_pools, o->model);
    if (s->left.bought_left_usd_micros != INT64_MAX) s->left.bought_left_usd_micros -= usd_micros;
    if (index != SLOT_NONE && s->pool_left_usd_micros[index] != INT64_MAX)
        s->pool_left_usd_micros[index] -= usd_micros;
}

/* Devices of the model for which quota is left; fewer than `wanted`: said in quota_short. */
static uint32_t within_quota(struct supply *s, uint32_t model, uint32_t wanted)
{
    int64_t left = s->left.quota_left_milli[s->p->quota_kind[model]];
    int64_t each = quota_ncu_milli(s->p, model);
    if (left == INT64_MAX || each == 0 || left / each >= wanted) return wanted;
    s->left.quota_short = 1;
    s->met |= OBSTACLE_QUOTA;
    return (uint32_t)(left / each);
}

/* Of each device that is taken there. */
static uint32_t milli_of(const struct supply *s, const struct offer *o)
{
    return s->left.terms->mig_profile == 0 ? s->left.part_milli
                                           : part_milli_on(s->p, s->left.terms, o->model);
}

/* Of idle devices and owned stock: those that the share of its class lets it have. */
static uint32_t within_class(struct supply *s, const struct offer *o, bool is_idle, uint32_t wanted)
{
    if (s->left.ever || s->left.class_left_milli == UINT64_MAX) return wanted;
    if (!is_idle && gate_is_bought(o)) return wanted;
    uint64_t each = (uint64_t)s->p->models[o->model].ncu_milli * milli_of(s, o) / 1000;
    if (each == 0 || s->left.class_left_milli / each >= wanted) return wanted;
    s->met |= OBSTACLE_CLASS;
    return (uint32_t)(s->left.class_left_milli / each);
}

static void use_class(struct supply *s, const struct pick *pick)
{
    const struct offer *o = &s->p->offers[pick->offer];
    if (s->left.class_left_milli == UINT64_MAX) return;
    uint64_t used = (uint64_t)s->p->models[o->model].ncu_milli * milli_of(s, o) / 1000 *
                    pick->device_count * pick->node_count;
    s->left.class_left_milli -= used < s->left.class_left_milli ? used : s->left.class_left_milli;
}

static void take(struct supply *s, struct pick pick, struct pick *ret_pick)
{
    ASSERT(pick.node_count > 0);
    ASSERT(pick.device_count * pick.node_count <= s->left.devices_left);
    s->left.devices_left -= pick.device_count * pick.node_count;
    if (s->left.single_node) s->left.devices_left = 0;
    if (s->left.budget_left_usd_micros != INT64_MAX)
        s->left.budget_left_usd_micros -= pick.usd_micros_per_hour * pick.node_count;
    use_class(s, &pick);
    pass_gates(s, &s->p->offers[pick.offer], pick.usd_micros_per_hour * pick.node_count);
    int64_t *quota = &s->left.quota_left_milli[s->p->quota_kind[s->p->offers[pick.offer].model]];
    if (*quota != INT64_MAX)
        *quota -= quota_ncu_milli(s->p, s->p->offers[pick.offer].model) * pick.device_count *
                  pick.node_count;
    if (pick.node == SLOT_NONE) s->nodes_left -= pick.node_count;
    s->leases_left -= pick.node_count;
    *ret_pick = pick;
}

static bool is_held(const struct supply *s, const struct node *n)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = s->p->leases[l].node_link.next)
        if (s->p->leases[l].job == s->left.job) return true;
    return false;
}

static uint32_t node_gives(const struct supply *s, uint32_t node)
{
    return s->left.special ? part_node_gives(s->p, node, s->left.terms)
                           : s->p->nodes[node].devices_free;
}

static uint32_t offer_gives(const struct supply *s, const struct offer *o)
{
    return s->left.special ? part_offer_gives(s->p, o, s->left.terms) : o->device_count;
}

/* Nobody else is on a node that was bought for the job: it pays for all of it, as when it was. */
static bool comes_back(const struct supply *s, const struct node *n)
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
    if (!is_allowed(s, o) || n->leases.count >= NODE_LEASES_MAX) return false;
    if (was_seen(s, node) || is_held(s, n) || node_gives(s, node) < count) return false;
    bool opens = s->left.part_milli > 0 &&
                 (!s->sharing || part_device(s->p, node, s->left.terms) == SLOT_NONE);
    if (opens && promise_free(s->p, &s->left, n) < count) return false;
    if (within_quota(s, o->model, count) < count) return false;
    if (within_class(s, o, /* is_idle */ true, count) < count) return false;
    int64_t usd_micros = part_price(s, n, count * milli_of(s, o));
    return fits_budget(s, usd_micros) && fits_gates(s, o, usd_micros);
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
        uint32_t paid_milli = s->packed_count * milli_of(s, &s->p->offers[n->offer]);
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
    return is_allowed(s, o) && (!packing_holds(o) || s->seen_count == SUPPLY_PACKED_MAX);
}

static bool next_idle(struct supply *s, struct pick *ret_pick)
{
    for (;;) {
        while (s->node == SLOT_NONE) {
            uint32_t model = first_market(s);
            if (model == MODELS_MAX) return false;
            s->offer = pop_market(s, model);
            if (is_walked(s, &s->p->offers[s->offer]))
                s->node = s->sharing ? s->p->offers[s->offer].shared_nodes.head
                                     : s->p->offers[s->offer].idle_nodes.head;
            else
                note_hot(s, &s->p->offers[s->offer]);
        }
        uint32_t node = s->node;
        const struct node *n = &s->p->nodes[node];
        /* Before the taker takes it off the list. */
        s->node = s->sharing ? n->shared_link.next : n->idle_link.next;
        uint32_t gives = node_gives(s, node);
        if (!s->sharing) gives = smaller(gives, promise_free(s->p, &s->left, n));
        uint32_t count =
            within_quota(s, s->p->offers[s->offer].model, smaller(gives, s->left.devices_left));
        count = within_class(s, &s->p->offers[s->offer], /* is_idle */ true, count);
        if (gives < s->left.node_devices_min || is_held(s, n) || was_seen(s, node)) continue;
        if (count == 0 || (s->left.single_node && count < s->left.node_devices_min)) continue;
        uint32_t paid_milli = comes_back(s, n) ? n->device_count * 1000
                                               : count * milli_of(s, &s->p->offers[s->offer]);
        int64_t usd_micros = part_price(s, n, paid_milli);
        if (!fits_budget(s, usd_micros) || !fits_gates(s, &s->p->offers[s->offer], usd_micros))
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
    uint32_t used = smaller(offer_gives(s, o), s->left.devices_left);
    int64_t usd_micros = risk_weighed(o, o->usd_micros_per_hour);
    if (s->order == SUPPLY_BY_DEVICE) return usd_micros / used;
    return usd_micros * 1000000 / (worth_of(s, o->model) * used);
}

enum { STOCK_PLENTY = 1000000 };

static uint32_t stock_of(const struct supply *s, const struct offer *o)
{
    if (s->left.lifted & OBSTACLE_STOCK) return STOCK_PLENTY;
    return s->left.ever ? o->reach_count : offer_stock(s->p, o);
}

static struct pick pick_offer(struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    uint32_t stock = smaller(stock_of(s, o), smaller(s->nodes_left, s->leases_left));
    uint32_t gives = offer_gives(s, o);
    struct pick pick = {.offer = offer,
                        .node = SLOT_NONE,
                        .node_count = 1,
                        .device_count = smaller(gives, s->left.devices_left),
                        .paid_milli = o->device_count * 1000,
                        .usd_micros_per_hour = o->usd_micros_per_hour};
    if (s->left.single_node || gives > s->left.devices_left) return pick;
    pick.node_count = smaller(stock, s->left.devices_left / gives);
    pick.node_count = within_quota(s, o->model, pick.node_count * gives) / gives;
    pick.node_count = within_class(s, o, /* is_idle */ false, pick.node_count * gives) / gives;
    int64_t bought = bought_left(s, o);
    if (o->usd_micros_per_hour > 0 && bought != INT64_MAX &&
        bought / o->usd_micros_per_hour < pick.node_count) {
        pick.node_count = (uint32_t)(bought / o->usd_micros_per_hour);
        note_gated(s, o, o->usd_micros_per_hour);
    }
    if (o->usd_micros_per_hour > 0 && s->left.budget_left_usd_micros != INT64_MAX) {
        int64_t affordable = s->left.budget_left_usd_micros / o->usd_micros_per_hour;
        if (affordable < pick.node_count) {
            pick.node_count = (uint32_t)affordable;
            s->met |= OBSTACLE_BUDGET | OBSTACLE_DOLLARS;
            s->too_dear_usd_micros = lower(s->too_dear_usd_micros, o->usd_micros_per_hour);
        }
    }
    return pick;
}

static bool is_kept(const struct supply *s, const struct offer *o)
{
    return !s->left.ever && !(s->left.lifted & OBSTACLE_KEPT) &&
           plan_is_kept(s->p, s->left.job_class, o);
}

/* Of a node that is bought the job uses all it still wants, or it is not for this job. */
static bool fits_quota(struct supply *s, const struct offer *o)
{
    uint32_t used = smaller(offer_gives(s, o), s->left.devices_left);
    return within_quota(s, o->model, used) == used && within_class(s, o, false, used) == used;
}

static bool is_offered(struct supply *s, const struct offer *o)
{
    if (stock_of(s, o) == 0 || offer_gives(s, o) < s->left.node_devices_min) return false;
    if (!is_allowed(s, o)) {
        note_hot(s, o);
        return false;
    }
    if (!fits_quota(s, o) || !fits_budget(s, o->usd_micros_per_hour)) return false;
    if (!fits_gates(s, o, o->usd_micros_per_hour)) return false;
    if (!is_kept(s, o)) return true;
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
            if (offer_gives(s, &s->p->offers[offer]) > s->left.devices_left) {
                keep_in_mind(s, offer);
                continue;
            }
        }
        struct pick pick = pick_offer(s, offer);
        bool more = stock_of(s, &s->p->offers[offer]) > pick.node_count;
        take(s, pick, ret_pick);
        /* One more of these may give the last few devices. */
        if (more && offer_gives(s, &s->p->offers[offer]) > s->left.devices_left)
            keep_in_mind(s, offer);
        return true;
    }
    return false;
}

bool supply_next(struct supply *s, struct pick *ret_pick)
{
    if (s->left.devices_left == 0) return false;
    if (s->left.single_node && s->left.devices_left < s->left.node_devices_min) return false;
    if (s->leases_left == 0) return false;
    if (s->packed_count > 0 && next_packed(s, ret_pick)) return true;
    if (!s->buying) {
        if (next_idle(s, ret_pick)) return true;
        if (s->sharing) { /* nothing opened has room: whole devices, still before any purchase */
            s->sharing = 0;
            rewind_markets(s);
            return supply_next(s, ret_pick);
        }
        s->buying = 1;
        rewind_markets(s);
    }
    return next_offer(s, ret_pick);
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
                            .only_offer = demand->only_offer};
    while (supply_next(&supply, &pick)) {
        uint32_t devices = pick.device_count * pick.node_count;
        int64_t usd_micros = pick.usd_micros_per_hour * pick.node_count;
        ret_mix->node_count += pick.node_count;
        ret_mix->device_count += devices;
        ret_mix->ncu_milli += (uint64_t)worth_of(&supply, p->offers[pick.offer].model) * devices /
                              1000 * demand->part_milli / 1000;
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
    uint32_t gives = offer_gives(s, o);
    if (gives == 0) return -1;
    uint32_t node_count = (devices_min + gives - 1) / gives;
    bool enough = is_allowed(s, o) && !is_kept(s, o) && gives >= s->left.node_devices_min &&
                  node_count <= smaller(stock_of(s, o), smaller(s->nodes_left, s->leases_left));
    if (!enough || (s->left.single_node && node_count > 1)) return -1;
    int64_t usd_micros = o->usd_micros_per_hour * node_count;
    if (!gate_is_bought(o) &&
        s->left.class_left_milli / s->p->models[o->model].ncu_milli < devices_min)
        return -1;
    int64_t quota = s->left.quota_left_milli[s->p->quota_kind[o->model]];
    if (quota != INT64_MAX && quota_ncu_milli(s->p, o->model) * devices_min > quota) return -1;
    if (usd_micros > bought_left(s, o)) return -1;
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
    begin(&supply, p, demand, region_index, SUPPLY_BY_DEVICE);
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
