#include "core/lease.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/job.h"
#include "core/ledger.h"
#include "core/node.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_pack.h"
#include "core/plan_repack.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/victims.h"

bool lease_can_make(const pool *p)
{
    return p->leases_free.count > 0 || p->leases_end < p->config.limits.leases_max;
}

uint32_t lease_room(const pool *p)
{
    return p->leases_free.count + (p->config.limits.leases_max - p->leases_end);
}

/* Where packing would have it, unless that opens a device which is promised to somebody. */
static uint32_t device_for(const pool *p, uint32_t node, const struct job_terms *terms,
                           uint64_t asker)
{
    const struct node *n = &p->nodes[node];
    uint32_t packed = n->promised_count == 0 ? packing_device(p, node, terms) : SLOT_NONE;
    if (packed != SLOT_NONE && part_takes(p, n, packed, terms, asker)) return packed;
    uint32_t opened = part_device(p, node, terms, asker);
    return opened != SLOT_NONE ? opened : part_new_index(p, node);
}

/* Where it is on the node and what it takes of it; the node's counts follow. */
static void place(pool *p, uint32_t slot, const struct job_terms *terms)
{
    struct lease *l = &p->leases[slot];
    struct node *n = &p->nodes[l->node];
    uint32_t model = p->offers[n->offer].model;
    l->device_milli = part_milli_on(p, terms, model);
    l->host_cpu_milli = terms->host_cpu_milli * l->device_count;
    l->host_memory_mib = terms->host_memory_mib * l->device_count;
    l->device_index = SLOT_NONE;
    if (terms->host_only) return;
    if (!part_is_share(terms)) {
        ASSERT(l->device_count <= n->devices_free);
        l->device_mask = part_free_devices(p, l, terms);
        n->devices_free -= l->device_count;
        return;
    }
    ASSERT(l->device_count == 1);
    l->memory_mib = part_memory_mib(terms, n->device_memory_mib);
    uint64_t asker = part_asker(p, l->job);
    l->device_index = device_for(p, l->node, terms, asker);
    struct part_mig mig = part_mig_on(p, terms, model);
    if (mig.geometry != NULL) {
        uint32_t start = part_mig_start(p, n, l->device_index, mig, asker);
        ASSERT(start < MIG_SLICES_MAX);
        l->mig = (mig.profile + 1) | start << 8;
        l->memory_mib = (uint32_t)((uint64_t)n->device_memory_mib * l->device_milli / 1000);
    }
    if (!part_is_opened(p, n, l->device_index)) {
        ASSERT(n->devices_free > 0);
        n->devices_free--;
        n->devices_shared++;
    }
    if (n->device_count <= DEVICES_NAMED_MAX) l->device_mask = UINT32_C(1) << l->device_index;
}

/* Before it leaves the lists. */
static void unplace(pool *p, uint32_t slot)
{
    const struct lease *l = &p->leases[slot];
    struct node *n = &p->nodes[l->node];
    if (l->device_milli == 0) return;
    if (l->device_index == SLOT_NONE) {
        n->devices_free += l->device_count;
    } else if (part_is_alone(p, slot)) {
        n->devices_shared--;
        n->devices_free++;
    }
}

uint32_t lease_make(pool *p, uint32_t job, uint32_t node, uint32_t device_count,
                    uint32_t paid_milli)
{
    struct node *n = &p->nodes[node];
    ASSERT(lease_can_make(p));
    ASSERT(device_count > 0);
    ASSERT(n->leases.count < NODE_LEASES_MAX);
    uint32_t slot = p->leases_free.head;
    if (slot == SLOT_NONE)
        slot = p->leases_end++;
    else
        list_remove(&p->leases_free, CHAIN(p->leases, job_link), slot);
    p->leases[slot] = (struct lease){.job = job,
                                     .node = node,
                                     .device_count = device_count,
                                     .paid_milli = paid_milli,
                                     .since_us = p->now_us,
                                     .state = LEASE_RESERVED};
    place(p, slot, terms_of(p, &p->shapes[p->jobs[job].shape]));
    list_append(&n->leases, CHAIN(p->leases, node_link), slot);
    list_append(&p->jobs[job].leases, CHAIN(p->leases, job_link), slot);
    if (p->mig_keep_count > 0) repack_taken(p, slot);
    p->leases[slot].backfill = promise_is_ahead(p, n, p->jobs[job].order);
    promise_taken(p, job, node, part_devices(&p->leases[slot]));
    class_hold(p, slot, true);
    if (victims_counts(p, &p->leases[slot])) victims_count(p, slot, true);
    quota_take(p, slot);
    node_list_idle(p, node);
    node_retime(p, node);
    lease_retime(p, slot);
    return slot;
}

bool lease_holds(const struct lease *l)
{
    return l->state == LEASE_RESERVED || l->state == LEASE_ACTIVE;
}

int64_t lease_usd_micros_per_hour(const pool *p, uint32_t slot)
{
    const struct lease *l = &p->leases[slot];
    const struct node *n = &p->nodes[l->node];
    if (n->offer == SLOT_NONE) return 0;
    if (l->paid_milli == n->device_count * 1000) return p->offers[n->offer].usd_micros_per_hour;
    return money_share_ceil(p->offers[n->offer].usd_micros_per_hour, l->paid_milli,
                            n->device_count * 1000);
}

int64_t lease_due_us(const pool *p, uint32_t slot)
{
    const struct lease *l = &p->leases[slot];
    const struct node *n = &p->nodes[l->node];
    switch ((enum lease_state)l->state) {
    case LEASE_RESERVED:
        return n->state == NODE_READY && p->jobs[l->job].state == JOB_RUNNING ? 0 : INT64_MAX;
    case LEASE_ACTIVE: return n->state == NODE_READY ? l->ask_us : INT64_MAX;
    case LEASE_STOPPING: {
        if (l->worker_id == 0) return 0;
        int64_t end_us = l->deadline_us + p->config.ask_again_us;
        return l->ask_us < end_us ? l->ask_us : end_us;
    }
    case LEASE_FREE:
    case LEASE_OVER: return INT64_MAX;
    }
    UNREACHABLE();
}

void lease_retime(pool *p, uint32_t slot)
{
    heap_set(&p->timers, timer_of_lease(p, slot), lease_due_us(p, slot));
}

/* What its class holds follows what counts for a gang. */
static void set_state(pool *p, uint32_t slot, uint32_t state)
{
    struct lease *l = &p->leases[slot];
    bool held = lease_holds(l), counted = victims_counts(p, l);
    l->state = state;
    if (held && !lease_holds(l)) class_hold(p, slot, false);
    if (counted != victims_counts(p, l)) victims_count(p, slot, !counted);
}

void lease_stop(pool *p, uint32_t slot, uint32_t reason, int64_t deadline_us)
{
    struct lease *l = &p->leases[slot];
    if (l->state == LEASE_OVER) return;
    if (l->state != LEASE_STOPPING || deadline_us < l->deadline_us) {
        if (l->state != LEASE_STOPPING) l->stop_reason = reason;
        l->deadline_us = deadline_us;
        l->ask_us = p->now_us; /* told at once, also when the deadline moves closer */
    }
    set_state(p, slot, LEASE_STOPPING);
    lease_retime(p, slot);
}

void lease_over(pool *p, uint32_t slot)
{
    struct lease *l = &p->leases[slot];
    ASSERT(l->state != LEASE_FREE);
    set_state(p, slot, LEASE_OVER);
    quota_give(p, slot);
    if (l->stop_reason == REASON_NONE) l->stop_reason = p->nodes[l->node].drain_reason;
    lease_retime(p, slot);
    node_retime(p, l->node);
    job_touch(p, l->job);
}

void lease_drop(pool *p, uint32_t slot)
{
    struct lease *l = &p->leases[slot];
    uint32_t node = l->node, job = l->job;
    ASSERT(l->state != LEASE_FREE);
    quota_give(p, slot);
    set_state(p, slot, LEASE_OVER); /* what it may have held it holds no more */
    unplace(p, slot);
    list_remove(&p->nodes[node].leases, CHAIN(p->leases, node_link), slot);
    list_remove(&p->jobs[job].leases, CHAIN(p->leases, job_link), slot);
    *l = (struct lease){.state = LEASE_FREE};
    list_append(&p->leases_free, CHAIN(p->leases, job_link), slot);
    heap_set(&p->timers, timer_of_lease(p, slot), HEAP_KEY_NEVER);
    job_touch(p, job);
    plan_room_made(p);
}

void lease_end(pool *p, uint32_t slot, struct pool_output *out)
{
    uint32_t node = p->leases[slot].node;
    struct node *n = &p->nodes[node];
    ledger_settle(p, node, out);
    if (!node_is_usable(n)) {
        lease_over(p, slot);
        return;
    }
    bool was_share = p->leases[slot].device_index != SLOT_NONE || p->leases[slot].device_milli == 0;
    lease_drop(p, slot);
    if (was_share) offer_improve(p, n->offer); /* also when the node was in its list before */
    n->idle_since_us = p->now_us;
    bool was_listed = n->idle_listed;
    node_list_idle(p, node);
    if (was_listed && n->idle_listed) offer_improve(p, n->offer); /* more than before */
    if (n->leases.count == 0) plan_room_made(p); /* a lease less, and it may go (plan_room.c) */
    node_retime(p, node);
}

uint64_t lease_next_worker_id(const pool *p)
{
    return p->config.incarnation << KEY_SHIFT | p->next_worker;
}

static uint64_t make_worker_id(pool *p)
{
    uint64_t worker_id = lease_next_worker_id(p);
    p->next_worker++;
    return worker_id;
}

void lease_restart(pool *p, uint32_t slot)
{
    struct lease *l = &p->leases[slot];
    ASSERT(l->state == LEASE_ACTIVE);
    l->worker_id = make_worker_id(p);
    l->phase = l->stall_kind = 0;
    l->ask_us = p->now_us;
    lease_retime(p, slot);
}

void lease_ask_now(pool *p, uint32_t slot)
{
    struct lease *l = &p->leases[slot];
    if (l->state != LEASE_ACTIVE && l->state != LEASE_STOPPING) return;
    l->ask_us = p->now_us;
    /* It may have stopped in time: who was down hears of it first, and forces afterwards. */
    if (l->state == LEASE_STOPPING && l->deadline_us < p->now_us) l->deadline_us = p->now_us;
    lease_retime(p, slot);
}

static void start(pool *p, uint32_t slot, struct pool_output *out)
{
    struct lease *l = &p->leases[slot];
    ledger_settle(p, l->node, out);
    l->state = LEASE_ACTIVE;
    l->since_us = p->now_us;
    lease_restart(p, slot);
    job_rearm_budget(p, l->job); /* from here on it costs the job */
    job_retime(p, l->job);
}

static struct pool_command command_of(const pool *p, const struct lease *l, uint32_t kind)
{
    return (struct pool_command){.kind = kind,
                                 .reason = l->stop_reason,
                                 .job_id = p->jobs[l->job].job_id,
                                 .node_key = p->nodes[l->node].node_key,
                                 .worker_id = l->worker_id,
                                 .device_count = l->device_count,
                                 .device_milli = l->device_milli,
                                 .device_mask = l->device_mask};
}

static void ask_to_run(pool *p, uint32_t slot, struct pool_output *out)
{
    struct lease *l = &p->leases[slot];
    struct pool_command command = command_of(p, l, POOL_COMMAND_ENSURE_WORKER);
    command.reason = REASON_GANG_READY;
    act_command(p, out, command);
    bool heard = l->phase == WORKER_PHASE_STARTING || l->phase == WORKER_PHASE_RUNNING;
    l->ask_us =
        p->now_us + (heard ? REFRESH_LEASES * p->config.agent_lease_us : p->config.ask_again_us);
    lease_retime(p, slot);
}

static void ask_to_stop(pool *p, uint32_t slot, struct pool_output *out)
{
    struct lease *l = &p->leases[slot];
    struct pool_command command = command_of(p, l, POOL_COMMAND_STOP_WORKER);
    command.deadline_us = l->deadline_us;
    act_command(p, out, command);
    l->ask_us = p->now_us + p->config.ask_again_us;
    lease_retime(p, slot);
}

/* The devices of a worker that would not stop cannot be given to anyone: the node goes. */
static void force(pool *p, uint32_t slot, struct pool_output *out)
{
    uint32_t node = p->leases[slot].node;
    int64_t worker = (int64_t)p->leases[slot].worker_id;
    MARK(out, WORKER_STOP_FORCED);
    ledger_settle(p, node, out);
    lease_over(p, slot);
    if (!node_is_usable(&p->nodes[node])) return;
    if (p->nodes[node].leases.count == 1)
        node_release(p, node, REASON_NOT_STOPPED, worker, out);
    else
        node_drain(p, node, REASON_NOT_STOPPED, p->now_us + p->config.drain_us,
                   (struct numbers){.a = worker}, out);
}

void lease_run(pool *p, uint32_t slot, struct pool_output *out)
{
    struct lease *l = &p->leases[slot];
    switch ((enum lease_state)l->state) {
    case LEASE_RESERVED: start(p, slot, out); return;
    case LEASE_ACTIVE: ask_to_run(p, slot, out); return;
    case LEASE_STOPPING:
        if (l->worker_id == 0)
            lease_end(p, slot, out);
        else if (p->now_us >= l->deadline_us + p->config.ask_again_us)
            force(p, slot, out);
        else
            ask_to_stop(p, slot, out);
        return;
    case LEASE_FREE:
    case LEASE_OVER: break;
    }
    UNREACHABLE();
}
