#include "core/promise.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan_buy.h"
#include "core/predict.h"
#include "core/victims.h"

static uint64_t order_of(const pool *p, uint32_t promise)
{
    return promise_order(p, p->promises[promise].job);
}

static uint32_t find(const pool *p, uint32_t job, uint32_t node)
{
    uint32_t at = p->nodes[node].promises.head;
    while (at != SLOT_NONE && p->promises[at].job != job) at = p->promises[at].node_link.next;
    return at;
}

static uint32_t make(pool *p, uint32_t job, uint32_t node)
{
    uint32_t slot = p->promises_free.head;
    if (slot != SLOT_NONE)
        list_remove(&p->promises_free, CHAIN(p->promises, job_link), slot);
    else if (p->promises_end < p->config.limits.leases_max)
        slot = p->promises_end++;
    else
        return SLOT_NONE;
    p->promises[slot] = (struct promise){.job = job, .node = node};
    uint32_t before = p->nodes[node].promises.head;
    while (before != SLOT_NONE && order_of(p, before) < promise_order(p, job))
        before = p->promises[before].node_link.next;
    list_insert(&p->nodes[node].promises, CHAIN(p->promises, node_link), slot, before);
    list_append(&p->jobs[job].promises, CHAIN(p->promises, job_link), slot);
    return slot;
}

static void add(pool *p, uint32_t promise, uint32_t device_count)
{
    struct promise *made = &p->promises[promise];
    class_promise(p, made->job, made->node, device_count, true);
    made->device_count += device_count;
    p->nodes[made->node].promised_count += device_count;
    p->jobs[made->job].promised_count += device_count;
    victims_promised(p, made->node);
}

static void cut(pool *p, uint32_t promise, uint32_t device_count)
{
    struct promise *made = &p->promises[promise];
    uint32_t job = made->job, node = made->node;
    ASSERT(device_count <= made->device_count);
    ASSERT(device_count <= p->nodes[node].promised_count);
    ASSERT(device_count <= p->jobs[job].promised_count);
    class_promise(p, job, node, device_count, false);
    made->device_count -= device_count;
    p->nodes[node].promised_count -= device_count;
    p->jobs[job].promised_count -= device_count;
    if (made->device_count == 0) {
        list_remove(&p->nodes[node].promises, CHAIN(p->promises, node_link), promise);
        list_remove(&p->jobs[job].promises, CHAIN(p->promises, job_link), promise);
        *made = (struct promise){0};
        list_append(&p->promises_free, CHAIN(p->promises, job_link), promise);
    }
    victims_promised(p, node);
}

/* What it kept is there for others again. */
static void open_up(pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    if (n->idle_listed) offer_improve(p, n->offer);
}

static void break_it(pool *p, uint32_t promise)
{
    uint32_t job = p->promises[promise].job, node = p->promises[promise].node;
    cut(p, promise, p->promises[promise].device_count);
    open_up(p, node);
    job_touch(p, job);
}

/* Promised to others whose turn is before that. */
static uint32_t ahead_of(const pool *p, const struct node *n, uint32_t job, uint64_t order)
{
    uint32_t count = 0;
    for (uint32_t at = n->promises.head; at != SLOT_NONE && order_of(p, at) < order;
         at = p->promises[at].node_link.next)
        if (p->promises[at].job != job) count += p->promises[at].device_count;
    return count;
}

uint32_t promise_make(pool *p, uint32_t job, uint32_t node, uint32_t device_count)
{
    struct node *n = &p->nodes[node];
    uint32_t own = find(p, job, node);
    uint32_t kept = ahead_of(p, n, job, promise_order(p, job));
    kept += own == SLOT_NONE ? 0 : p->promises[own].device_count;
    if (device_count > n->device_count - kept) device_count = n->device_count - kept;
    if (device_count == 0) return 0;
    if (own == SLOT_NONE) own = make(p, job, node);
    if (own == SLOT_NONE) return 0;
    while (n->promised_count + device_count > n->device_count) break_it(p, n->promises.tail);
    add(p, own, device_count);
    return device_count;
}

/* Devices that a promise may count on: free, on their way out, or expected to be free in time. */
static uint32_t cover_of(const pool *p, const struct node *n, int64_t until_us)
{
    uint32_t count = n->devices_free;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *lease = &p->leases[l];
        bool comes = !lease_holds(lease) || lease->backfill ||
                     (until_us != 0 && predict_end_us(p, lease->job) <= until_us);
        if (comes && lease->device_index == SLOT_NONE) count += part_devices(lease);
        if (lease->device_index != SLOT_NONE) count += part_closes(p, n, l);
    }
    return count;
}

/* Of those behind the taker; those before it lost nothing. */
static void uphold(pool *p, uint32_t node, uint64_t order)
{
    const struct node *n = &p->nodes[node];
    uint32_t count = 0, next;
    for (uint32_t at = n->promises.head; at != SLOT_NONE; at = next) {
        next = p->promises[at].node_link.next;
        count += p->promises[at].device_count;
        if (order_of(p, at) < order) continue;
        if (count <= cover_of(p, n, p->jobs[p->promises[at].job].promise_until_us)) continue;
        count -= p->promises[at].device_count;
        break_it(p, at);
    }
}

void promise_taken(pool *p, uint32_t job, uint32_t node, uint32_t device_count)
{
    if (p->nodes[node].promised_count == 0 || device_count == 0) return;
    uint32_t own = find(p, job, node);
    if (own != SLOT_NONE) {
        uint32_t promised = p->promises[own].device_count;
        cut(p, own, promised); /* with less, too: it has its one lease there */
        if (device_count < promised) open_up(p, node);
        if (device_count <= promised) return;
    }
    uphold(p, node, promise_order(p, job));
}

void promise_uphold(pool *p, uint32_t job)
{
    for (uint32_t at = p->jobs[job].promises.head; at != SLOT_NONE;
         at = p->promises[at].job_link.next)
        uphold(p, p->promises[at].node, promise_order(p, job) + 1);
}

void promise_break_all(pool *p, uint32_t node)
{
    while (p->nodes[node].promises.head != SLOT_NONE) break_it(p, p->nodes[node].promises.head);
}

void promise_drop(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    while (j->promises.head != SLOT_NONE) {
        uint32_t promise = j->promises.head, node = p->promises[promise].node;
        cut(p, promise, p->promises[promise].device_count);
        open_up(p, node);
    }
    ASSERT(j->promised_count == 0);
    j->reclaims = 0;
    promise_until(p, job, 0);
}

void promise_until(pool *p, uint32_t job, int64_t until_us)
{
    struct job *j = &p->jobs[job];
    p->reservation_count += until_us != 0;
    p->reservation_count -= j->promise_until_us != 0;
    j->promise_until_us = until_us;
    j->promise_late = 0;
    job_retime(p, job);
}

static bool is_back_in_time(const pool *p, const struct demand *demand, const struct job *owner)
{
    if (owner->promise_until_us == 0 || owner->promise_late || demand->run_us <= 0) return false;
    return demand->run_us <= owner->promise_until_us - p->now_us;
}

uint32_t promise_free(const pool *p, const struct demand *demand, const struct node *n)
{
    if (n->promised_count == 0) return n->devices_free;
    uint32_t kept = 0, own = 0;
    for (uint32_t at = n->promises.head; at != SLOT_NONE; at = p->promises[at].node_link.next) {
        const struct promise *promise = &p->promises[at];
        if (promise->job == demand->job)
            own = promise->device_count;
        else if (order_of(p, at) < demand->order &&
                 !is_back_in_time(p, demand, &p->jobs[promise->job]))
            kept += promise->device_count;
    }
    uint32_t free_count = n->devices_free > kept ? n->devices_free - kept : 0;
    return free_count < own ? 0 : free_count; /* all of its own at once */
}

uint32_t promise_room(const pool *p, const struct demand *demand, const struct node *n)
{
    return n->device_count - ahead_of(p, n, demand->job, demand->order);
}

bool promise_is_ahead(const pool *p, const struct node *n, uint64_t order)
{
    return ahead_of(p, n, SLOT_NONE, order) > n->devices_free;
}

bool promise_is_coming(const pool *p, const struct demand *demand)
{
    for (uint32_t at = p->jobs[demand->job].promises.head; at != SLOT_NONE;
         at = p->promises[at].job_link.next)
        if (promise_free(p, demand, &p->nodes[p->promises[at].node]) < p->promises[at].device_count)
            return true;
    return false;
}
