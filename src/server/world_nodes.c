/* Providers and agents: nodes that are ordered, come up, share the fate of recorded ones or meet a
 * modelled one. */
#include "server/keyed.h"
#include "server/world_parts.h"
#include <math.h>

#define SECOND_US       INT64_C(1000000)
#define HOUR_US_REAL    3.6e9
#define BOOT_DEFAULT_US (60 * SECOND_US) /* where no node was ever seen booting */
#define JOIN_DEFAULT_US (10 * SECOND_US)
#define NOTICE_US       (120 * SECOND_US)

static uint32_t *counter(const struct array *list, uint64_t offer_id)
{
    return offer_id < list->count ? array_at(list, (uint32_t)offer_id) : NULL;
}

static uint32_t held(const world *w, uint64_t offer_id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->nodes.count; i++)
        count += ((const struct world_node *)array_at(&w->nodes, i))->offer_id == offer_id;
    return count;
}

uint32_t world_stock(const world *w, uint64_t offer_id)
{
    const uint32_t *total = counter(&w->totals, offer_id);
    uint32_t used = held(w, offer_id);
    return total == NULL || *total <= used ? 0 : *total - used;
}

void world_told(world *w, uint64_t offer_id, uint32_t total)
{
    uint32_t *row = counter(&w->totals, offer_id);
    if (row != NULL) *row = total;
}

static void observe(world *w, uint64_t node_key, uint32_t phase, uint32_t reason, int64_t up_us,
                    int64_t now_us)
{
    struct pool_event *event = world_say(w, POOL_EVENT_NODE_OBSERVED, now_us);
    if (event == NULL) return;
    event->u.node_observed.node_key = node_key;
    event->u.node_observed.phase = phase;
    event->u.node_observed.reason = reason;
    event->u.node_observed.up_since_us = up_us;
    event->u.node_observed.billed_usd_micros = -1;
}

static void observe_up(world *w, const struct world_node *node, int64_t now_us)
{
    observe(w, node->node_key, NODE_PHASE_UP, NODE_REASON_NONE, node->up_us, now_us);
    if (!w->failed && node->is_noticed)
        ((struct pool_event *)array_at(&w->ready, w->ready.count - 1))->u.node_observed.notice_us =
            node->notice_us;
}

static void agent_says(world *w, const struct world_node *node, int64_t now_us)
{
    const struct fact_offer *offer = facts_offer(w->facts, node->offer_id);
    struct pool_event *event = world_say(w, POOL_EVENT_AGENT_REPORTED, now_us);
    if (event == NULL || offer == NULL) return;
    event->u.agent_reported.node_key = node->node_key;
    event->u.agent_reported.phase = AGENT_PHASE_JOINED;
    event->u.agent_reported.device_count = offer->device_count;
    event->u.agent_reported.model = offer->model;
}

static int64_t beat_us(const world *w)
{
    int64_t half = w->facts->start.config.agent_lease_us / 2;
    return half > 0 ? half : 1;
}

/* ---- fates ---- */

static struct fact_life *life_at(const world *w, uint32_t at)
{
    return array_at(&w->facts->lives, at);
}

/* A recorded life of the offer that runs now and serves nobody: of the same key, else the oldest. */
static uint32_t find_life(const world *w, const struct world_node *node, int64_t now_us)
{
    uint32_t found = FACT_NONE;
    for (uint32_t i = 0; i < w->facts->lives.count; i++) {
        const struct fact_life *life = life_at(w, i);
        if (life->offer_id != node->offer_id || w->taken[i] || life->to_us <= now_us) continue;
        if (life->node_key == node->node_key) return i;
        if (life->from_us > now_us) continue;
        if (found == FACT_NONE || life->from_us < life_at(w, found)->from_us) found = i;
    }
    return found;
}

static void leave_fate(world *w, struct world_node *node, int64_t now_us)
{
    if (node->fate_since_us != 0) {
        int64_t spent_us = now_us - node->fate_since_us;
        *(node->life == FACT_NONE ? &w->sums.modelled_us : &w->sums.known_us) += spent_us;
    }
    if (node->life != FACT_NONE) w->taken[node->life] = 0;
    node->life = FACT_NONE;
    node->fate_since_us = 0;
    node->fate++;
}

static void plan_loss(world *w, struct world_node *node, int64_t at_us, int64_t notice_us)
{
    if (notice_us > 0) {
        node->notice_us = at_us;
        world_plan(w, at_us - notice_us, DUE_NODE_NOTICE, node->node_key, node->fate);
    }
    world_plan(w, at_us, DUE_NODE_LOSS, node->node_key, node->fate);
}

/* How the losses of the record were: with what notice, one drawn from all of them. */
static int64_t draw_notice(world *w, struct world_node *node)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->facts->lives.count; i++) count += life_at(w, i)->is_lost;
    if (count == 0) return NOTICE_US;
    uint32_t pick = (uint32_t)(survival_uniform(&node->random) * count);
    for (uint32_t i = 0; i < w->facts->lives.count; i++)
        if (life_at(w, i)->is_lost && pick-- == 0) return life_at(w, i)->notice_us;
    return NOTICE_US;
}

static void model_fate(world *w, struct world_node *node, int64_t now_us)
{
    double age = (double)(now_us - node->up_us) / HOUR_US_REAL;
    double end = survival_age_after(&w->curves[node->offer_id], age > 0 ? age : 0,
                                    survival_uniform(&node->random));
    int64_t notice_us = draw_notice(w, node);
    if (!(end < 8.76e5)) return; /* not within a century */
    plan_loss(w, node, node->up_us + (int64_t)(end * HOUR_US_REAL), notice_us);
}

static void settle_fate(world *w, struct world_node *node, int64_t now_us)
{
    leave_fate(w, node, now_us);
    node->fate_since_us = now_us;
    node->life = find_life(w, node, now_us);
    if (node->life == FACT_NONE) {
        model_fate(w, node, now_us);
        return;
    }
    const struct fact_life *life = life_at(w, node->life);
    w->taken[node->life] = 1;
    if (life->is_lost)
        plan_loss(w, node, life->to_us, life->notice_us);
    else if (life->to_us < w->facts->to_us)
        world_plan(w, life->to_us, DUE_NODE_FATE, node->node_key, node->fate);
}

/* ---- commands ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    return z ^ z >> 29;
}

static struct world_node *make_node(world *w, uint64_t node_key, uint64_t offer_id)
{
    struct world_node *node = keyed_get(&w->nodes, node_key);
    if (node == NULL) {
        w->failed = true;
        return NULL;
    }
    uint32_t *ordinal = counter(&w->ordinals, offer_id);
    node->offer_id = offer_id;
    node->life = FACT_NONE;
    node->state = WORLD_ORDERED;
    node->random.state = mix(mix(w->seed, offer_id), ordinal == NULL ? 0 : (*ordinal)++);
    return node;
}

/* A recorded boot of the offer, else of any. */
static struct fact_boot draw_boot(const world *w, struct world_node *node)
{
    const struct fact_boot *boots = w->facts->boots.items;
    uint32_t all = w->facts->boots.count, own = 0;
    double draw = survival_uniform(&node->random);
    for (uint32_t i = 0; i < all; i++) own += boots[i].offer_id == node->offer_id;
    if (all == 0) return (struct fact_boot){node->offer_id, BOOT_DEFAULT_US, JOIN_DEFAULT_US};
    if (own == 0) return boots[(uint32_t)(draw * all)];
    uint32_t pick = (uint32_t)(draw * own);
    for (uint32_t i = 0; i < all; i++)
        if (boots[i].offer_id == node->offer_id && pick-- == 0) return boots[i];
    return boots[0];
}

void world_ensure_node(world *w, const struct pool_command *c, int64_t now_us)
{
    struct world_node *node = keyed_find(&w->nodes, c->node_key);
    if (node != NULL) {
        world_answer(w, c->node_key, now_us);
        return;
    }
    if (facts_offer(w->facts, c->offer_id) == NULL || world_stock(w, c->offer_id) == 0) {
        observe(w, c->node_key, NODE_PHASE_REFUSED, NODE_REASON_STOCKOUT, 0, now_us);
        return;
    }
    node = make_node(w, c->node_key, c->offer_id);
    if (node == NULL) return;
    struct fact_boot boot = draw_boot(w, node);
    node->up_us = now_us + boot.up_us;
    observe(w, c->node_key, NODE_PHASE_PENDING, NODE_REASON_NONE, 0, now_us);
    world_plan(w, node->up_us, DUE_NODE_UP, c->node_key, 0);
    world_plan(w, node->up_us + boot.join_us, DUE_NODE_JOIN, c->node_key, 0);
}

void world_release_node(world *w, uint64_t node_key, int64_t now_us)
{
    struct world_node *node = keyed_find(&w->nodes, node_key);
    if (node == NULL) {
        observe(w, node_key, NODE_PHASE_ABSENT, NODE_REASON_RELEASED, 0, now_us);
        return;
    }
    if (node->is_released) return;
    node->is_released = 1;
    world_plan(w, now_us + world_delay(w, &w->facts->releases, node_key, SECOND_US), DUE_NODE_GONE,
               node_key, 0);
}

void world_answer(world *w, uint64_t node_key, int64_t now_us)
{
    const struct world_node *node = keyed_find(&w->nodes, node_key);
    if (node == NULL)
        observe(w, node_key, NODE_PHASE_ABSENT, NODE_REASON_NONE, 0, now_us);
    else if (node->state == WORLD_ORDERED)
        observe(w, node_key, NODE_PHASE_PENDING, NODE_REASON_NONE, 0, now_us);
    else
        observe_up(w, node, now_us);
}

void world_take_over(world *w, const struct node_view *view, int64_t now_us)
{
    struct world_node *node = make_node(w, view->node_key, view->offer_id);
    if (node == NULL) return;
    struct fact_boot boot = draw_boot(w, node);
    bool is_up = view->up_since_us != 0;
    node->up_us = is_up ? view->up_since_us : now_us + boot.up_us;
    if (!is_up) world_plan(w, node->up_us, DUE_NODE_UP, view->node_key, 0);
    if (!view->agent_joined)
        world_plan(w, (is_up ? now_us : node->up_us) + boot.join_us, DUE_NODE_JOIN, view->node_key,
                   0);
    else
        world_plan(w, now_us, DUE_NODE_BEAT, view->node_key, 0);
    if (view->state == NODE_RELEASING) world_release_node(w, view->node_key, now_us);
    node->state = !is_up ? WORLD_ORDERED : view->agent_joined ? WORLD_READY : WORLD_BOOTING;
    if (is_up) settle_fate(w, node, now_us);
}

/* ---- what is due ---- */

static void end_node(world *w, uint64_t node_key, uint32_t reason, int64_t now_us)
{
    struct world_node *node = keyed_find(&w->nodes, node_key);
    leave_fate(w, node, now_us);
    world_lose_workers(w, node_key, now_us);
    observe(w, node_key, NODE_PHASE_GONE, reason, 0, now_us);
    node = keyed_find(&w->nodes, node_key);
    keyed_drop(&w->nodes, (uint32_t)(node - (struct world_node *)w->nodes.items));
}

static void beat(world *w, struct world_node *node, int64_t now_us)
{
    agent_says(w, node, now_us);
    world_beat_workers(w, node->node_key, now_us);
    world_plan(w, now_us + beat_us(w), DUE_NODE_BEAT, node->node_key, 0);
}

void world_node_due(world *w, const struct due *due)
{
    struct world_node *node = keyed_find(&w->nodes, due->key);
    if (node == NULL) return;
    bool is_current = due->stamp == node->fate;
    switch (due->kind) {
    case DUE_NODE_UP:
        node->state = WORLD_BOOTING;
        settle_fate(w, node, due->at_us);
        observe_up(w, node, due->at_us);
        return;
    case DUE_NODE_JOIN:
        node->state = WORLD_READY;
        beat(w, node, due->at_us);
        return;
    case DUE_NODE_BEAT: beat(w, node, due->at_us); return;
    case DUE_NODE_FATE:
        if (is_current) settle_fate(w, node, due->at_us);
        return;
    case DUE_NODE_NOTICE:
        if (!is_current) return;
        node->is_noticed = 1;
        observe_up(w, node, due->at_us);
        return;
    case DUE_NODE_LOSS:
        if (is_current) end_node(w, due->key, NODE_REASON_PREEMPTED, due->at_us);
        return;
    case DUE_NODE_GONE: end_node(w, due->key, NODE_REASON_RELEASED, due->at_us); return;
    default: return;
    }
}
