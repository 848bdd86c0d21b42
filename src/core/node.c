#include "core/node.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/buying.h"
#include "core/class.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/ledger.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_pack.h"
#include "core/promise.h"
#include "core/risk.h"

static bool can_order(const pool *p)
{
    return p->node_count < p->config.limits.nodes_max && lease_can_make(p);
}

/* A slot never used, else the one that ended longest ago. */
static uint32_t take_slot(pool *p)
{
    if (p->nodes_end < p->node_slots) return p->nodes_end++;
    uint32_t slot = p->nodes_free.head;
    ASSERT(slot != SLOT_NONE);
    list_remove(&p->nodes_free, CHAIN(p->nodes, offer_link), slot);
    table_remove(&p->node_table, p->nodes[slot].node_key);
    return slot;
}

static uint32_t make(pool *p, uint64_t node_key, uint32_t state)
{
    uint32_t slot = take_slot(p);
    p->nodes[slot] = (struct node){.node_key = node_key,
                                   .state = state,
                                   .offer = SLOT_NONE,
                                   .pack_node = SLOT_NONE,
                                   .ordered_us = p->now_us,
                                   .boot_since_us = p->now_us,
                                   .ask_us = p->now_us};
    list_clear(&p->nodes[slot].leases);
    list_clear(&p->nodes[slot].promises);
    table_insert(&p->node_table, node_key, slot);
    p->node_count++;
    return slot;
}

uint32_t node_order(pool *p, uint32_t offer, uint32_t job)
{
    ASSERT(can_order(p));
    struct offer *o = &p->offers[offer];
    const struct job *j = &p->jobs[job];
    ASSERT(offer_stock(p, o) > 0);
    uint32_t slot = make(p, p->config.incarnation << KEY_SHIFT | p->next_key++, NODE_ORDERED);
    struct node *n = &p->nodes[slot];
    n->offer = offer;
    n->device_count = n->devices_free = o->device_count;
    n->device_memory_mib = p->models[o->model].vram_mib;
    n->host_cpu_milli = o->host_cpu_milli;
    n->host_memory_mib = o->host_memory_mib;
    int64_t bid = buying_bid(p, &p->shapes[j->shape]);
    if (o->capacity == CAPACITY_SPOT && bid != INT64_MAX) n->bid_usd_micros = bid * o->device_count;
    n->tag_job_id = j->job_id;
    n->tenant = j->tenant;
    n->project = j->project;
    n->team = j->team;
    n->experiment = j->experiment;
    o->taken_count++;
    list_append(&o->nodes, CHAIN(p->nodes, offer_link), slot);
    class_node(p, slot, true);
    node_retime(p, slot);
    return slot;
}

void node_adopt(pool *p, uint64_t node_key, struct pool_output *out)
{
    uint64_t incarnation = node_key >> KEY_SHIFT;
    uint64_t counter = node_key & ((UINT64_C(1) << KEY_SHIFT) - 1);
    bool ours = incarnation == p->config.incarnation && counter < p->next_key && counter > 0;
    bool older = incarnation < p->config.incarnation;
    if ((!ours && !older) || p->node_count >= p->node_slots) {
        MARK(out, NODE_NOT_ADOPTED);
        return;
    }
    MARK(out, NODE_ADOPTED);
    uint32_t slot = make(p, node_key, NODE_RELEASING);
    p->nodes[slot].phase = NODE_PHASE_UP;
    /* One of ours was booked before its slot was needed: its bill must not be booked twice. */
    p->nodes[slot].bill_closed = ours;
    node_retime(p, slot);
}

void node_revive(pool *p, uint32_t slot, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    ASSERT(n->state == 0);
    MARK(out, ANSWER_FOR_ENDED_NODE);
    list_remove(&p->nodes_free, CHAIN(p->nodes, offer_link), slot);
    n->offer = SLOT_NONE; /* what it cost since is only known to the provider, who bills it */
    n->state = NODE_RELEASING;
    n->phase = NODE_PHASE_UP;
    n->release_sent = 0;
    n->ask_us = p->now_us;
    p->node_count++;
    node_retime(p, slot);
}

static bool is_boot_state(const struct node *n)
{
    return n->state == NODE_ORDERED || n->state == NODE_BOOTING;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static uint32_t leases_alive(const pool *p, const struct node *n)
{
    uint32_t count = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        count += p->leases[l].state != LEASE_OVER;
    return count;
}

static bool idles(const pool *p, const struct node *n)
{
    return n->leases.count == 0 && p->offers[n->offer].capacity != CAPACITY_OWNED;
}

static int64_t entry_us(const pool *p)
{
    return p->config.entry_us > 0 ? p->config.entry_us : ENTRY_US_MAX;
}

int64_t node_due_us(const pool *p, uint32_t slot)
{
    const struct node *n = &p->nodes[slot];
    if (n->state == 0) return INT64_MAX;
    if (n->price_moved) return 0;
    int64_t due_us = n->ask_us;
    if (n->billing) due_us = earlier(due_us, n->settled_us + entry_us(p));
    if (n->agent_joined && n->state != NODE_RELEASING)
        due_us = earlier(due_us, n->agent_heard_us + p->config.agent_lease_us + 1);
    switch ((enum node_state)n->state) {
    case NODE_ORDERED:
    case NODE_BOOTING:
        if (n->leases.count == 0) return 0;
        return earlier(due_us, n->boot_since_us + p->config.boot_timeout_us + 1);
    case NODE_READY:
        return idles(p, n) ? earlier(due_us, n->idle_since_us + p->config.idle_release_us) : due_us;
    case NODE_DRAINING:
        if (leases_alive(p, n) == 0) return 0;
        return earlier(due_us, n->deadline_us + p->config.ask_again_us);
    case NODE_RELEASING: return due_us;
    case NODE_STATE_END: break;
    }
    UNREACHABLE();
}

void node_retime(pool *p, uint32_t slot)
{
    heap_set(&p->timers, timer_of_node(slot), node_due_us(p, slot));
}

/* Nodes with room on devices opened for shares have a list of their own: who wants whole devices does
 * not meet them. */
static void list_shared(pool *p, uint32_t slot)
{
    struct node *n = &p->nodes[slot];
    bool wanted = n->devices_shared > 0 && n->state == NODE_READY &&
                  n->leases.count < NODE_LEASES_MAX && part_has_room(p, slot);
    if (wanted == (n->shared_listed != 0)) return;
    struct offer *o = &p->offers[n->offer];
    n->shared_listed = wanted;
    if (wanted)
        list_append(&o->shared_nodes, CHAIN(p->nodes, shared_link), slot);
    else
        list_remove(&o->shared_nodes, CHAIN(p->nodes, shared_link), slot);
    offer_list_idle(p, n->offer);
    if (wanted) offer_improve(p, n->offer);
}

void node_list_idle(pool *p, uint32_t slot)
{
    struct node *n = &p->nodes[slot];
    bool wanted =
        n->state == NODE_READY && n->devices_free > 0 && n->leases.count < NODE_LEASES_MAX;
    list_shared(p, slot);
    packing_node(p, slot);
    if (wanted == (n->idle_listed != 0)) return;
    struct offer *o = &p->offers[n->offer];
    n->idle_listed = wanted;
    if (wanted)
        list_append(&o->idle_nodes, CHAIN(p->nodes, idle_link), slot);
    else
        list_remove(&o->idle_nodes, CHAIN(p->nodes, idle_link), slot);
    offer_list_idle(p, n->offer);
    if (wanted) offer_improve(p, n->offer);
}

/* Its leases wait for other things now, and their jobs should look again. */
static void state_changed(pool *p, uint32_t slot)
{
    node_list_idle(p, slot);
    node_retime(p, slot);
    for (uint32_t l = p->nodes[slot].leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        lease_retime(p, l);
        job_touch(p, p->leases[l].job);
    }
}

void node_up(pool *p, uint32_t slot, int64_t up_since_us, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    MAYBE(out != NULL);
    ASSERT(n->state == NODE_ORDERED);
    n->state = NODE_BOOTING;
    offer_answered(p, slot);
    p->offers[n->offer].refused_count = 0;
    n->phase = NODE_PHASE_UP;
    n->ask_us = p->now_us + REFRESH_LEASES * p->config.agent_lease_us;
    ledger_open(p, slot, up_since_us);
    state_changed(p, slot);
}

void node_join(pool *p, uint32_t slot, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    ASSERT(n->state == NODE_BOOTING);
    ledger_settle(p, slot, out);
    n->state = NODE_READY;
    n->agent_joined = 1;
    n->agent_heard_us = n->idle_since_us = p->now_us;
    risk_joined(p, n->offer, p->now_us - n->ordered_us);
    state_changed(p, slot);
}

static struct pool_decision decision_of(const pool *p, const struct node *n, uint32_t kind,
                                        uint32_t reason)
{
    struct pool_decision decision = {.kind = kind, .reason = reason, .node_key = n->node_key};
    if (n->offer != SLOT_NONE) decision.offer_id = p->offers[n->offer].offer_id;
    return decision;
}

static uint64_t first_job_id(const pool *p, const struct node *n)
{
    return n->leases.head == SLOT_NONE ? 0 : p->jobs[p->leases[n->leases.head].job].job_id;
}

void node_drain(pool *p, uint32_t slot, uint32_t reason, int64_t deadline_us,
                struct numbers numbers, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    if (n->state == NODE_DRAINING) { /* only a closer end changes anything */
        if (deadline_us >= n->deadline_us) return;
    } else {
        ASSERT(node_is_usable(n));
        ledger_settle(p, slot, out);
        struct pool_decision decision = decision_of(p, n, DECISION_DRAIN, reason);
        decision.job_id = first_job_id(p, n);
        decision.a = numbers.a;
        decision.b = numbers.b;
        decision.c = numbers.c;
        act_decision(p, out, decision);
        class_node(p, slot, false);
        promise_break_all(p, slot);
        n->state = NODE_DRAINING;
        n->drain_reason = reason;
    }
    n->deadline_us = deadline_us;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        if (p->leases[l].worker_id == 0)
            lease_over(p, l);
        else
            lease_stop(p, l, reason, deadline_us);
    }
    state_changed(p, slot);
}

static void begin_release(pool *p, uint32_t slot, uint32_t reason, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    ledger_settle(p, slot, out);
    if (node_is_usable(n)) {
        class_node(p, slot, false);
        promise_break_all(p, slot);
    }
    n->state = NODE_RELEASING;
    if (n->drain_reason == REASON_NONE) n->drain_reason = reason;
    n->ask_us = p->now_us;
    n->price_moved = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        lease_over(p, l);
    state_changed(p, slot);
}

void node_release(pool *p, uint32_t slot, uint32_t reason, int64_t a, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    ASSERT(n->state != NODE_RELEASING);
    struct pool_decision decision = decision_of(p, n, DECISION_RELEASE, reason);
    decision.job_id = first_job_id(p, n);
    decision.a = a;
    act_decision(p, out, decision);
    begin_release(p, slot, reason, out);
}

void node_lose(pool *p, uint32_t slot, uint32_t reason, int64_t a, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    ASSERT(n->state != NODE_RELEASING);
    struct pool_decision decision = decision_of(p, n, DECISION_LOST, reason);
    decision.a = a;
    if (n->leases.head == SLOT_NONE) act_decision(p, out, decision);
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        decision.job_id = p->jobs[p->leases[l].job].job_id;
        act_decision(p, out, decision);
    }
    begin_release(p, slot, reason, out);
}

void node_end(pool *p, uint32_t slot, int64_t billed_usd_micros, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    ASSERT(n->state == NODE_RELEASING);
    ledger_close(p, slot, out);
    ledger_bill(p, slot, billed_usd_micros, out);
    while (n->leases.head != SLOT_NONE) lease_drop(p, n->leases.head);
    if (n->offer != SLOT_NONE) {
        list_remove(&p->offers[n->offer].nodes, CHAIN(p->nodes, offer_link), slot);
        offer_give_back(p, n->offer);
    }
    n->state = 0;
    n->agent_joined = 0;
    list_append(&p->nodes_free, CHAIN(p->nodes, offer_link), slot);
    p->node_count--;
    node_retime(p, slot);
    plan_room_made(p);
}

static bool has_budget_job(const pool *p, const struct node *n)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->jobs[p->leases[l].job].budget_usd_micros > 0) return true;
    return false;
}

/* Jobs whose hourly budget it may break, or may keep again. */
static void touch_hourly(pool *p, const struct node *n, bool rose)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct job *j = &p->jobs[p->leases[l].job];
        if (!job_is_bound(j) || p->shapes[j->shape].budget_usd_micros_per_hour == 0) continue;
        if (rose || j->over_since_us != 0) job_touch(p, p->leases[l].job);
    }
}

bool node_is_outbid(const pool *p, uint32_t slot)
{
    const struct node *n = &p->nodes[slot];
    return n->bid_usd_micros != 0 && p->offers[n->offer].usd_micros_per_hour > n->bid_usd_micros;
}

/* Most price changes concern nobody, and an offer may have very many nodes: no look at them then.
 */
void node_price_moved(pool *p, uint32_t offer, bool rose)
{
    const struct offer *o = &p->offers[offer];
    bool above = o->capacity == CAPACITY_SPOT && o->share_ppm > p->least_threshold_ppm;
    bool bids = o->capacity == CAPACITY_SPOT && p->bids_defined;
    if (!above && !bids && p->budget_job_count == 0) return;
    for (uint32_t n = o->nodes.head; n != SLOT_NONE; n = p->nodes[n].offer_link.next) {
        if (p->nodes[n].leases.count == 0 || p->nodes[n].state == NODE_RELEASING) continue;
        touch_hourly(p, &p->nodes[n], rose);
        if (!above && !node_is_outbid(p, n) && !has_budget_job(p, &p->nodes[n])) continue;
        p->nodes[n].price_moved = 1;
        node_retime(p, n);
    }
}

static void ask(pool *p, uint32_t slot, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    struct pool_command command = {.node_key = n->node_key, .job_id = n->tag_job_id};
    if (n->offer != SLOT_NONE) command.offer_id = p->offers[n->offer].offer_id;
    int64_t again_us = p->config.ask_again_us;
    if (n->state == NODE_ORDERED) {
        command.kind = POOL_COMMAND_ENSURE_NODE;
        command.bid_usd_micros = n->bid_usd_micros;
        command.reason = REASON_CHEAPEST;
    } else if (n->state == NODE_RELEASING) {
        command.kind = POOL_COMMAND_RELEASE_NODE;
        command.reason = n->drain_reason;
        n->release_sent = 1;
    } else {
        command.kind = POOL_COMMAND_OBSERVE_NODE;
        again_us = REFRESH_LEASES * p->config.agent_lease_us;
    }
    act_command(p, out, command);
    n->ask_us = p->now_us + again_us;
    node_retime(p, slot);
}

/* A place that did not deliver is left alone for a while, or we would order there again at once. */
static void give_up_boot(pool *p, uint32_t slot, struct pool_output *out)
{
    const struct node *n = &p->nodes[slot];
    offer_refuse(p, n->offer, p->now_us + p->config.refused_backoff_us);
    node_lose(p, slot, REASON_BOOT_TIMEOUT, p->now_us - n->ordered_us, out);
}

void node_run(pool *p, uint32_t slot, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    int64_t silent_us = p->now_us - n->agent_heard_us;
    if (n->price_moved)
        plan_drain_for_price(p, slot, out);
    else if (n->agent_joined && n->state != NODE_RELEASING && silent_us > p->config.agent_lease_us)
        node_lose(p, slot, REASON_AGENT_SILENT, silent_us, out);
    else if (is_boot_state(n) && n->leases.count == 0)
        node_release(p, slot, REASON_JOB_ENDED, /* a */ 0, out);
    else if (is_boot_state(n) && p->now_us - n->boot_since_us > p->config.boot_timeout_us)
        give_up_boot(p, slot, out);
    else if (n->state == NODE_DRAINING &&
             (leases_alive(p, n) == 0 || p->now_us >= n->deadline_us + p->config.ask_again_us))
        node_release(p, slot, REASON_DRAINED, /* a */ 0, out);
    else if (n->state == NODE_READY && idles(p, n) &&
             p->now_us >= n->idle_since_us + p->config.idle_release_us)
        node_release(p, slot, REASON_IDLE, p->now_us - n->idle_since_us, out);
    else if (p->now_us >= n->ask_us)
        ask(p, slot, out);
    else {
        ledger_settle(p, slot, out);
        node_retime(p, slot);
    }
}
