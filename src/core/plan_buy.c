#include "core/plan_buy.h"
#include "core/assert.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/plan.h"

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
                            .node_devices_min = 1,
                            .job = SLOT_NONE,
                            .only_offer = SLOT_NONE,
                            .budget_left_usd_micros = INT64_MAX};
    if (s->kind == JOB_KIND_BATCH) {
        demand.single_node = 1;
        demand.node_devices_min = s->devices_min;
    }
    if (s->budget_usd_micros_per_hour > 0)
        demand.budget_left_usd_micros =
            budget_left(s->budget_usd_micros_per_hour, committed_usd_micros);
    return demand;
}

static void rewind_markets(struct supply *s)
{
    for (uint64_t rest = s->models; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        const struct market *market = market_of(s->p, s->region_index, model);
        s->heads[model] = s->buying ? market->offers.head : market->idle_offers.head;
    }
}

void supply_begin(struct supply *s, const pool *p, const struct demand *demand,
                  uint32_t region_index, enum supply_order order)
{
    ASSERT(region_index < p->regions_end);
    s->p = p;
    s->left = *demand;
    s->models = demand->compat_mask & p->regions[region_index].model_mask;
    s->region_index = region_index;
    s->order = order;
    s->buying = demand->ever;
    s->offer = s->node = s->partial = SLOT_NONE;
    s->nodes_left =
        p->config.limits.nodes_max > p->node_count ? p->config.limits.nodes_max - p->node_count : 0;
    s->leases_left = lease_room(p);
    if (demand->ever) s->nodes_left = s->leases_left = UINT32_MAX;
    s->too_dear_usd_micros = 0;
    s->kept = 0;
    rewind_markets(s);
}

static int64_t key_of(const struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    if (s->order == SUPPLY_BY_NCU) return o->unit_usd_micros;
    return o->usd_micros_per_hour / o->device_count;
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

static uint32_t pop_market(struct supply *s, uint32_t model)
{
    uint32_t offer = s->heads[model];
    const struct offer *o = &s->p->offers[offer];
    s->heads[model] = s->buying ? o->market_link.next : o->idle_link.next;
    return offer;
}

static bool is_allowed(const struct supply *s, const struct offer *o)
{
    if (s->left.only_offer != SLOT_NONE && o != &s->p->offers[s->left.only_offer]) return false;
    if (s->left.capacity_mask != 0 && (s->left.capacity_mask >> o->capacity & 1) == 0) return false;
    return s->left.ever || !offer_is_above(o, s->left.threshold_ppm);
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
    return false;
}

static void take(struct supply *s, struct pick pick, struct pick *ret_pick)
{
    ASSERT(pick.node_count > 0);
    ASSERT(pick.device_count * pick.node_count <= s->left.devices_left);
    s->left.devices_left -= pick.device_count * pick.node_count;
    if (s->left.single_node) s->left.devices_left = 0;
    if (s->left.budget_left_usd_micros != INT64_MAX)
        s->left.budget_left_usd_micros -= pick.usd_micros_per_hour * pick.node_count;
    if (pick.node == SLOT_NONE) s->nodes_left -= pick.node_count;
    s->leases_left -= pick.node_count;
    *ret_pick = pick;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool is_held(const struct supply *s, const struct node *n)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = s->p->leases[l].node_link.next)
        if (s->p->leases[l].job == s->left.job) return true;
    return false;
}

static bool next_idle(struct supply *s, struct pick *ret_pick)
{
    for (;;) {
        while (s->node == SLOT_NONE) {
            uint32_t model = first_market(s);
            if (model == MODELS_MAX) return false;
            s->offer = pop_market(s, model);
            if (is_allowed(s, &s->p->offers[s->offer]))
                s->node = s->p->offers[s->offer].idle_nodes.head;
        }
        uint32_t node = s->node;
        const struct node *n = &s->p->nodes[node];
        s->node = n->idle_link.next; /* before the taker takes it off the list */
        uint32_t count = smaller(n->devices_free, s->left.devices_left);
        if (n->devices_free < s->left.node_devices_min || is_held(s, n)) continue;
        if (s->left.single_node && count < s->left.node_devices_min) continue;
        int64_t usd_micros =
            money_share_ceil(s->p->offers[s->offer].usd_micros_per_hour, count, n->device_count);
        if (!fits_budget(s, usd_micros)) continue;
        take(s,
             (struct pick){.offer = s->offer,
                           .node = node,
                           .node_count = 1,
                           .device_count = count,
                           .paid_count = count,
                           .usd_micros_per_hour = usd_micros},
             ret_pick);
        return true;
    }
}

/* What a node costs per unit when only the devices still wanted are used. */
static int64_t partial_key(const struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    uint32_t used = smaller(o->device_count, s->left.devices_left);
    if (s->order == SUPPLY_BY_DEVICE) return o->usd_micros_per_hour / used;
    return o->usd_micros_per_hour * 1000 / ((int64_t)s->p->models[o->model].ncu_milli * used);
}

static uint32_t stock_of(const struct supply *s, const struct offer *o)
{
    return s->left.ever ? o->reach_count : offer_stock(s->p, o);
}

static struct pick pick_offer(struct supply *s, uint32_t offer)
{
    const struct offer *o = &s->p->offers[offer];
    uint32_t stock = smaller(stock_of(s, o), smaller(s->nodes_left, s->leases_left));
    struct pick pick = {.offer = offer,
                        .node = SLOT_NONE,
                        .node_count = 1,
                        .device_count = smaller(o->device_count, s->left.devices_left),
                        .paid_count = o->device_count,
                        .usd_micros_per_hour = o->usd_micros_per_hour};
    if (s->left.single_node || o->device_count > s->left.devices_left) return pick;
    pick.node_count = smaller(stock, s->left.devices_left / o->device_count);
    if (o->usd_micros_per_hour > 0 && s->left.budget_left_usd_micros != INT64_MAX) {
        int64_t affordable = s->left.budget_left_usd_micros / o->usd_micros_per_hour;
        if (affordable < pick.node_count) {
            pick.node_count = (uint32_t)affordable;
            s->too_dear_usd_micros = lower(s->too_dear_usd_micros, o->usd_micros_per_hour);
        }
    }
    return pick;
}

static bool is_kept(const struct supply *s, const struct offer *o)
{
    return !s->left.ever && plan_is_kept(s->p, s->left.job_class, o);
}

static bool is_offered(struct supply *s, const struct offer *o)
{
    bool fits = is_allowed(s, o) && stock_of(s, o) > 0 &&
                o->device_count >= s->left.node_devices_min &&
                fits_budget(s, o->usd_micros_per_hour);
    if (!fits || !is_kept(s, o)) return fits;
    s->kept = 1;
    return false;
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
            offer = pop_market(s, model);
            if (!is_offered(s, &s->p->offers[offer])) continue;
            if (s->p->offers[offer].device_count > s->left.devices_left) {
                keep_in_mind(s, offer);
                continue;
            }
        }
        struct pick pick = pick_offer(s, offer);
        bool more = stock_of(s, &s->p->offers[offer]) > pick.node_count;
        take(s, pick, ret_pick);
        /* One more of these may give the last few devices. */
        if (more && s->p->offers[offer].device_count > s->left.devices_left) keep_in_mind(s, offer);
        return true;
    }
    return false;
}

bool supply_next(struct supply *s, struct pick *ret_pick)
{
    if (s->left.devices_left == 0) return false;
    if (s->left.single_node && s->left.devices_left < s->left.node_devices_min) return false;
    if (s->leases_left == 0) return false;
    if (!s->buying) {
        if (next_idle(s, ret_pick)) return true;
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
        ret_mix->ncu_milli += (uint64_t)p->models[p->offers[pick.offer].model].ncu_milli * devices;
        ret_mix->usd_micros_per_hour += usd_micros;
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
    ret_mix->kept = supply.kept;
    ret_mix->limited = supply.nodes_left == 0 || supply.leases_left == 0;
}

/* What the job's least costs on nodes of this offer alone; -1 = it does not give that much. */
static int64_t cost_alone(const struct supply *s, const struct offer *o, uint32_t devices_min)
{
    uint32_t node_count = (devices_min + o->device_count - 1) / o->device_count;
    bool enough = is_allowed(s, o) && !is_kept(s, o) &&
                  o->device_count >= s->left.node_devices_min &&
                  node_count <= smaller(stock_of(s, o), smaller(s->nodes_left, s->leases_left));
    if (!enough || (s->left.single_node && node_count > 1)) return -1;
    int64_t usd_micros = o->usd_micros_per_hour * node_count;
    return usd_micros <= s->left.budget_left_usd_micros ? usd_micros : -1;
}

bool supply_alone(const pool *p, const struct demand *demand, uint32_t region_index,
                  uint32_t devices_min, struct mix *ret_mix)
{
    struct supply supply;
    struct demand alone = *demand;
    int64_t least = -1;
    supply_begin(&supply, p, demand, region_index, SUPPLY_BY_DEVICE);
    for (uint64_t rest = supply.models; rest != 0; rest &= rest - 1) {
        const struct market *market = market_of(p, region_index, (uint32_t)__builtin_ctzll(rest));
        for (uint32_t at = market->offers.head; at != SLOT_NONE;
             at = p->offers[at].market_link.next) {
            int64_t cost = cost_alone(&supply, &p->offers[at], devices_min);
            if (cost < 0 || (least >= 0 && cost >= least)) continue;
            least = cost;
            alone.only_offer = at;
        }
    }
    if (least < 0) return false;
    supply_mix(p, &alone, region_index, SUPPLY_BY_DEVICE, ret_mix);
    return ret_mix->device_count >= devices_min;
}

void supply_best(const pool *p, const struct demand *demand, uint32_t region_index,
                 uint32_t devices_min, struct mix *ret_mix)
{
    supply_mix(p, demand, region_index, SUPPLY_BY_NCU, ret_mix);
    if (ret_mix->device_count >= devices_min) return;
    struct mix by_device;
    supply_mix(p, demand, region_index, SUPPLY_BY_DEVICE, &by_device);
    if (by_device.device_count > ret_mix->device_count) *ret_mix = by_device;
    if (ret_mix->device_count >= devices_min) return;
    if (supply_alone(p, demand, region_index, devices_min, &by_device)) *ret_mix = by_device;
    if (ret_mix->device_count >= devices_min || !ret_mix->limited) return;
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
