/* Which job is looked at next, and the life of a bound job: starting its gang, growing it. */
#include "core/plan.h"
#include "core/act.h"
#include "core/ask.h"
#include "core/assert.h"
#include "core/deadline.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/plan_buy.h"
#include "core/plan_match.h"
#include "core/prices.h"
#include "core/rate.h"

bool plan_is_pending(const pool *p)
{
    return p->improved || p->plans.count > 0 || (p->quota_freed && p->quota_waiting > 0);
}

void plan_room_made(pool *p)
{
    if (!p->starved) return;
    p->starved = 0;
    for (uint32_t i = 0; i < p->regions_end; i++) region_improve(p, i, UINT64_MAX);
}

void plan_class_changed(pool *p)
{
    for (uint32_t i = 0; i < p->regions_end; i++) region_improve(p, i, UINT64_MAX);
}

void plan_catalog_changed(pool *p)
{
    p->reach_changes++;
    const uint32_t heads[] = {p->shapes_idle.head, p->shapes_used.head, p->shapes_resting.head};
    for (uint32_t list = 0; list < 3; list++)
        for (uint32_t s = heads[list]; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
            shape_judge(p, &p->shapes[s]);
            plan_note_threshold(p, p->shapes[s].threshold_ppm);
        }
    offer_reprice_all(p);
}

/* It holds nothing and waits for the one device that was preempted for it. Of those that ask for the
 * same, the oldest may take whatever a younger one may (promises bind only those behind): if it finds
 * nothing, none does. Not so with backfill, which is a matter of each job's run time, nor with money. */
static bool waits_like_others(const pool *p, const struct job *j)
{
    const struct shape *s = &p->shapes[j->shape];
    return s->devices_max == 1 && s->budget_usd_micros_per_hour == 0 && j->leases.count == 0 &&
           j->promised_count > 0 && j->promise_until_us == 0 &&
           j->wait_reason == REASON_WAIT_PREEMPTED && !p->accounts_defined &&
           p->reservation_count == 0;
}

static void note_waiting(pool *p, uint32_t job)
{
    struct shape *s = &p->shapes[p->jobs[job].shape];
    if (s->first_waiting == 0 || p->jobs[job].order < p->jobs[s->first_waiting - 1].order)
        s->first_waiting = job + 1;
}

void plan_wake_next(pool *p, uint32_t region_index, uint32_t shape)
{
    struct shape *s = &p->shapes[shape];
    if (s->user_count == 0 || s->devices_max != 1) return;
    for (uint32_t j = p->regions[region_index].interested.head; j != SLOT_NONE;
         j = p->jobs[j].interested_link.next)
        if (p->jobs[j].shape == shape && waits_like_others(p, &p->jobs[j])) note_waiting(p, j);
    if (s->first_waiting != 0) job_touch(p, s->first_waiting - 1);
    s->first_waiting = 0;
}

/* Of those that wait alike only the first: when it has what it wants, it wakes the next. */
static void wake_bound(pool *p, const struct region *region, uint64_t models)
{
    for (uint32_t j = region->interested.head; j != SLOT_NONE; j = p->jobs[j].interested_link.next)
        if (waits_like_others(p, &p->jobs[j])) note_waiting(p, j);
    for (uint32_t j = region->interested.head; j != SLOT_NONE;
         j = p->jobs[j].interested_link.next) {
        struct shape *s = &p->shapes[p->jobs[j].shape];
        bool is_first = s->first_waiting == j + 1;
        if (is_first) s->first_waiting = 0;
        if (!is_first && waits_like_others(p, &p->jobs[j])) continue;
        if ((s->compat_mask & models) != 0) job_touch(p, j);
    }
}

static void wake_region(pool *p, struct region *region)
{
    uint64_t models = region->improved_mask;
    region->improved_mask = 0;
    wake_bound(p, region, models);
    for (uint32_t s = p->shapes_used.head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next)
        if ((p->shapes[s].compat_mask & models) != 0 &&
            (p->shapes[s].region == 0 || p->shapes[s].region == region->region))
            shape_wake(p, s);
    ask_wake(p, region, models);
}

/* Everyone whom the new supply could help is looked at again, in order. */
static void wake_waiting(pool *p)
{
    p->improved = 0;
    for (uint32_t word = 0; word < REGIONS_MAX / 64; word++) {
        uint64_t regions = p->improved_regions[word];
        p->improved_regions[word] = 0;
        for (; regions != 0; regions &= regions - 1)
            wake_region(p, &p->regions[word * 64 + (uint32_t)__builtin_ctzll(regions)]);
    }
}

static void start_gang(pool *p, uint32_t job, struct holding held, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_GANG_READY,
                                        .job_id = j->job_id,
                                        .a = held.up_count,
                                        .b = j->devices_min});
    j->state = JOB_RUNNING;
    deadline_begun(p, job);
    j->claim_until_us = 0;
    if (j->started_us == 0) j->started_us = p->now_us;
    if (p->quota_borrowers > 0) p->quota_freed = 1; /* what it borrows may be reclaimed now */
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        lease_retime(p, l);
}

static void plan_bound(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    heap_set(&p->plans, job, HEAP_KEY_NEVER);
    if (plan_preempted(p, job, out)) return;
    if (plan_match_leaves(p, job, out)) return;
    plan_ncu_count(p, job);
    struct holding held = job_holding(p, job);
    if (j->state == JOB_RUNNING && held.up_count == 0) { /* all gone: the gang forms anew */
        deadline_lost(p, job);
        j->state = JOB_STARTING;
        j->short_since_us = p->now_us;
        rate_settle(p, job);
        deadline_decide(p, job, out);
        if (plan_leaves_region(p, job)) {
            plan_requeue(p, job, out);
            return;
        }
    }
    if (j->state == JOB_STARTING && held.up_count >= j->devices_min) start_gang(p, job, held, out);
    deadline_decide(p, job, out);
    if (plan_shed(p, job, held, out)) { /* one node at a time: look again */
        job_touch(p, job);
        return;
    }
    if (!plan_grow(p, job, held, out)) {
        job_touch(p, job);
        return;
    }
    plan_review(p, job, out);
    rate_settle(p, job);
}

static void plan_asked(pool *p, uint32_t ask, struct pool_output *out)
{
    uint32_t shape = ask_next(p, ask);
    if (shape != SLOT_NONE) plan_queued(p, shape, out);
}

void plan_run(pool *p, struct pool_output *out)
{
    if (p->improved) {
        wake_waiting(p);
        return;
    }
    if (p->quota_freed && p->quota_waiting > 0) plan_quota_freed(p);
    if (p->plans.count == 0) return;
    prices_sort_large(p);
    uint32_t id = heap_first(&p->plans);
    if (id < p->config.limits.jobs_max && job_is_bound(&p->jobs[id]))
        plan_bound(p, id, out);
    else if (id < p->config.limits.jobs_max)
        plan_match_start(p, id, out);
    else if (id >= plan_of_ask(p, 0))
        plan_asked(p, id - plan_of_ask(p, 0), out);
    else if (id >= plan_of_class(p, 0))
        plan_match_class(p, id - plan_of_class(p, 0));
    else if (shape_is_ahead(p, id - p->config.limits.jobs_max))
        plan_queued(p, id - p->config.limits.jobs_max, out);
}
