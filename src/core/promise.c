#include "core/promise.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/job.h"
#include "core/offer.h"
#include "core/plan_buy.h"
#include "core/victims.h"

static void cut(pool *p, uint32_t node, uint32_t device_count)
{
    struct node *n = &p->nodes[node];
    struct job *j = &p->jobs[n->promise_job];
    ASSERT(device_count <= n->promise_count);
    ASSERT(device_count <= j->promised_count);
    class_promise(p, n->promise_job, node, device_count, false);
    n->promise_count -= device_count;
    victims_promised(p, node);
    j->promised_count -= device_count;
    if (n->promise_count > 0) return;
    list_remove(&j->promises, CHAIN(p->nodes, promise_link), node);
}

/* What it kept is there for others again. */
static void open_up(pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    if (n->idle_listed) offer_improve(p, n->offer);
}

bool promise_make(pool *p, uint32_t job, uint32_t node, uint32_t device_count)
{
    struct node *n = &p->nodes[node];
    if (n->promise_count > 0 && n->promise_job != job) {
        if (p->jobs[n->promise_job].order < p->jobs[job].order) return false;
        promise_break(p, node);
    }
    uint32_t room = n->device_count - n->promise_count;
    if (device_count > room) device_count = room;
    if (device_count == 0) return true;
    if (n->promise_count == 0)
        list_append(&p->jobs[job].promises, CHAIN(p->nodes, promise_link), node);
    n->promise_job = job;
    n->promise_count += device_count;
    victims_promised(p, node);
    class_promise(p, job, node, device_count, true);
    p->jobs[job].promised_count += device_count;
    return true;
}

void promise_taken(pool *p, uint32_t job, uint32_t node, uint32_t device_count)
{
    struct node *n = &p->nodes[node];
    if (n->promise_count == 0 || device_count == 0) return;
    if (n->promise_job == job) {
        cut(p, node, device_count < n->promise_count ? device_count : n->promise_count);
        return;
    }
    /* Somebody with more right took of it: the set of its owner is not complete any more. */
    if (p->jobs[job].order < p->jobs[n->promise_job].order) promise_break(p, node);
}

void promise_break(pool *p, uint32_t node)
{
    struct node *n = &p->nodes[node];
    if (n->promise_count == 0) return;
    uint32_t job = n->promise_job;
    cut(p, node, n->promise_count);
    open_up(p, node);
    job_touch(p, job);
}

void promise_drop(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    while (j->promises.head != SLOT_NONE) {
        uint32_t node = j->promises.head;
        cut(p, node, p->nodes[node].promise_count);
        open_up(p, node);
    }
    ASSERT(j->promised_count == 0);
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

bool promise_blocks(const pool *p, const struct demand *demand, const struct node *n)
{
    if (n->promise_count == 0 || n->promise_job == demand->job) return false;
    return demand->order > p->jobs[n->promise_job].order;
}

static bool is_back_in_time(const pool *p, const struct demand *demand, const struct node *n)
{
    int64_t until_us = p->jobs[n->promise_job].promise_until_us;
    if (until_us == 0 || p->jobs[n->promise_job].promise_late || demand->run_us <= 0) return false;
    return demand->run_us <= until_us - p->now_us;
}

uint32_t promise_free(const pool *p, const struct demand *demand, const struct node *n)
{
    if (!promise_blocks(p, demand, n) || is_back_in_time(p, demand, n)) return n->devices_free;
    return n->devices_free > n->promise_count ? n->devices_free - n->promise_count : 0;
}
