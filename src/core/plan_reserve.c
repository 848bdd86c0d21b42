#include "core/plan_reserve.h"
#include "core/assert.h"
#include "core/data.h"
#include "core/island.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/predict.h"
#include "core/promise.h"

static bool is_place(const pool *p, const struct demand *d, uint32_t region_index, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    if (n->state != NODE_READY || n->offer == SLOT_NONE || n->devices_shared > 0) return false;
    const struct offer *o = &p->offers[n->offer];
    if (o->region_index != region_index || (d->compat_mask >> o->model & 1) == 0) return false;
    if (d->capacity_mask != 0 && (d->capacity_mask >> o->capacity & 1) == 0) return false;
    if (!near_allows(&d->near, o)) return false;
    return !offer_is_above(o, d->threshold_ppm) && promise_room(p, d, n) == n->device_count;
}

static int64_t free_us_of(const pool *p, const struct lease *l)
{
    if (lease_holds(l)) return predict_end_us(p, l->job);
    int64_t end_us = l->deadline_us + p->config.ask_again_us;
    return end_us > p->now_us ? end_us : p->now_us;
}

/* The parts of one node in the order in which they come free; at most 17. */
static uint32_t parts_in_order(const pool *p, uint32_t node, struct reserve_part *ret_parts)
{
    const struct node *n = &p->nodes[node];
    uint32_t count = 0;
    if (n->devices_free > 0)
        ret_parts[count++] = (struct reserve_part){.free_us = p->now_us,
                                                   .node = node,
                                                   .device_count = n->devices_free,
                                                   .job = SLOT_NONE,
                                                   .lease = SLOT_NONE};
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        struct reserve_part part = {.free_us = free_us_of(p, &p->leases[l]),
                                    .node = node,
                                    .device_count = part_devices(&p->leases[l]),
                                    .job = p->leases[l].job,
                                    .lease = l};
        if (part.free_us == INT64_MAX || part.device_count == 0) continue;
        uint32_t at = count++;
        for (; at > 0 && ret_parts[at - 1].free_us > part.free_us; at--)
            ret_parts[at] = ret_parts[at - 1];
        ret_parts[at] = part;
    }
    return count;
}

/* Where the host limits, or groups of devices, a part is as large as what it adds to what the demand can
 * use there. */
static uint32_t parts_of(const pool *p, const struct demand *d, uint32_t node,
                         struct reserve_part *ret_parts)
{
    uint32_t count = parts_in_order(p, node, ret_parts), devices = 0, given = 0;
    struct part_use gone = {0};
    uint32_t free = d->special ? part_free_mask(p, &p->nodes[node]) : 0;
    for (uint32_t i = 0; i < count && d->special; i++) {
        struct reserve_part *part = &ret_parts[i];
        if (part->lease != SLOT_NONE) {
            gone.cpu_milli += p->leases[part->lease].host_cpu_milli;
            gone.memory_mib += p->leases[part->lease].host_memory_mib;
            free |= p->leases[part->lease].device_mask;
        }
        devices += part->device_count;
        uint32_t host = part_host_gives(p, &p->nodes[node], d->terms, &gone);
        uint32_t gives = devices < host ? devices : host;
        uint32_t most = island_gives(&p->nodes[node], d->near.same, free);
        if (most < gives) gives = most;
        part->device_count = gives - given;
        given = gives;
    }
    if (d->near.spread == TOPOLOGY_ANY) return count;
    uint32_t first = 0; /* one device of each node: the one that is there soonest */
    while (first < count && ret_parts[first].device_count == 0) first++;
    if (first == count) return 0;
    ret_parts[0] = ret_parts[first];
    ret_parts[0].device_count = 1;
    return 1;
}

static bool is_later(const struct reserve_part *a, const struct reserve_part *b)
{
    if (a->free_us != b->free_us) return a->free_us > b->free_us;
    return a->node > b->node;
}

static void sink(struct reservation *r, uint32_t at)
{
    for (;;) {
        uint32_t top = at, left = 2 * at + 1, right = 2 * at + 2;
        if (left < r->part_count && is_later(&r->parts[left], &r->parts[top])) top = left;
        if (right < r->part_count && is_later(&r->parts[right], &r->parts[top])) top = right;
        if (top == at) return;
        struct reserve_part kept = r->parts[at];
        r->parts[at] = r->parts[top];
        r->parts[top] = kept;
        at = top;
    }
}

/* A heap with the latest on top; what is not needed leaves it. False: too many small parts. */
static bool add_part(struct reservation *r, const struct reserve_part *part, uint32_t need)
{
    while (r->part_count > 0 && r->device_count >= need && is_later(&r->parts[0], part) &&
           r->device_count - r->parts[0].device_count + part->device_count >= need) {
        r->device_count -= r->parts[0].device_count;
        r->parts[0] = r->parts[--r->part_count];
        sink(r, 0);
    }
    if (r->device_count >= need && !is_later(&r->parts[0], part)) return true;
    if (r->part_count == RESERVE_PARTS_MAX) return false;
    uint32_t at = r->part_count++;
    r->parts[at] = *part;
    r->device_count += part->device_count;
    while (at > 0 && is_later(&r->parts[at], &r->parts[(at - 1) / 2])) {
        struct reserve_part kept = r->parts[at];
        r->parts[at] = r->parts[(at - 1) / 2];
        r->parts[(at - 1) / 2] = kept;
        at = (at - 1) / 2;
    }
    return true;
}

static void finish(const pool *p, struct reservation *r)
{
    r->ready_us = p->now_us;
    r->last_job = SLOT_NONE;
    for (uint32_t i = 0; i < r->part_count; i++) {
        if (r->parts[i].free_us < r->ready_us || r->parts[i].job == SLOT_NONE) continue;
        r->ready_us = r->parts[i].free_us;
        r->last_job = r->parts[i].job;
    }
}

/* The node that has so many devices soonest. */
static bool find_node(const pool *p, const struct demand *d, uint32_t region_index, uint32_t need,
                      struct reservation *r)
{
    bool found = false;
    struct reserve_part parts[NODE_LEASES_MAX + 1];
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        if (p->nodes[node].device_count < need || !is_place(p, d, region_index, node)) continue;
        uint32_t count = parts_of(p, d, node, parts), devices = 0, used = 0;
        while (used < count && devices < need) devices += parts[used++].device_count;
        if (devices < need) continue;
        if (found && parts[used - 1].free_us >= r->ready_us) continue;
        for (uint32_t i = 0; i < used; i++) r->parts[i] = parts[i];
        r->part_count = used;
        r->device_count = devices;
        finish(p, r);
        found = true;
    }
    return found;
}

/* Which devices come free soonest for the demand in that region. False: not `need` of them with a
 * known end. */
static bool reserve_find(const pool *p, const struct demand *d, uint32_t region_index,
                         uint32_t need, struct reservation *r)
{
    struct reserve_part parts[NODE_LEASES_MAX + 1];
    r->region_index = region_index;
    r->part_count = r->device_count = 0;
    if (d->single_node) return find_node(p, d, region_index, need, r);
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        if (!is_place(p, d, region_index, node)) continue;
        uint32_t count = parts_of(p, d, node, parts);
        for (uint32_t i = 0; i < count; i++)
            if (!add_part(r, &parts[i], need)) return false;
    }
    finish(p, r);
    return r->device_count >= need;
}

static void promise_parts(pool *p, uint32_t job, const struct reservation *r, uint32_t need)
{
    for (uint32_t i = 0; i < r->part_count && need > 0; i++) {
        uint32_t count = r->parts[i].device_count < need ? r->parts[i].device_count : need;
        need -= promise_make(p, job, r->parts[i].node, count);
    }
}

bool plan_next_free(const pool *p, const struct shape *s, const struct demand *demand,
                    struct reservation *ret_best)
{
    struct reservation found;
    ret_best->part_count = 0;
    if (demand->part_milli < 1000) return false;
    if (demand->near.spread != TOPOLOGY_ANY && demand->near.spread < TOPOLOGY_NODE) return false;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (s->region != 0 && s->region != p->regions[i].region) continue;
        if ((s->compat_mask & p->regions[i].model_mask) == 0) continue;
        if (!data_affords(p, demand, i)) continue;
        struct demand one;
        struct near_walk walk = near_walk(p, demand, i, s->devices_min);
        while (near_next(&walk, &one)) {
            if (!reserve_find(p, &one, i, s->devices_min, &found)) continue;
            if (ret_best->part_count == 0 || found.ready_us < ret_best->ready_us) *ret_best = found;
        }
    }
    /* All idle, and still it did not start: something else is missing. */
    return ret_best->part_count > 0 && ret_best->ready_us > p->now_us;
}

void plan_reserve(pool *p, uint32_t job, const struct demand *demand, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    struct reservation best;
    if (s->devices_min <= 1 || j->state != JOB_QUEUED) return;
    if (j->promised_count >= s->devices_min) return;
    promise_drop(p, job);
    if (p->reservation_count >= RESERVATIONS_MAX) return;
    if (!plan_next_free(p, s, demand, &best)) return;
    promise_parts(p, job, &best, s->devices_min);
    int64_t soonest_us = p->now_us + p->config.ask_again_us;
    promise_until(p, job, best.ready_us > soonest_us ? best.ready_us : soonest_us);
    MARK(out, GANG_RESERVED);
    struct numbers numbers = {.a = s->devices_min, .b = best.ready_us - p->now_us};
    if (best.last_job != SLOT_NONE) numbers.c = (int64_t)p->jobs[best.last_job].job_id;
    plan_wait(p, job, REASON_RESERVED, numbers, out);
}

/* Backfill that is not over in time goes back to the queue. */
static void send_back(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    for (uint32_t at = j->promises.head; at != SLOT_NONE; at = p->promises[at].job_link.next)
        for (uint32_t l = p->nodes[p->promises[at].node].leases.head; l != SLOT_NONE;
             l = p->leases[l].node_link.next) {
            struct job *v = &p->jobs[p->leases[l].job];
            if (!p->leases[l].backfill || p->leases[l].job == job) continue;
            if (!lease_holds(&p->leases[l]) || v->preempted_by != 0) continue;
            plan_evict(p, p->leases[l].job, SLOT_NONE, job, /* cost */ 0);
        }
}

void plan_reserve_due(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (!j->promise_late) { /* the last few get as long as a notice */
        send_back(p, job);
        promise_until(p, job, p->now_us + p->config.drain_us + 2 * p->config.ask_again_us);
        j->promise_late = 1;
        return;
    }
    promise_drop(p, job); /* those it waited for run longer than expected: told anew */
    job_touch(p, job);
}
