/* What was decided about victims, carried out: they are told to stop at once, with notice; each says
 * why when it is planned next, which is in the same round. */
#include "core/act.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/ledger.h"
#include "core/plan.h"
#include "core/plan_preempt.h"
#include "core/promise.h"
#include "core/victims.h"

void plan_evict(pool *p, uint32_t job, uint32_t lease, uint32_t for_job, uint64_t cost)
{
    struct job *v = &p->jobs[job];
    int64_t notice_us = terms_of(p, &p->shapes[v->shape])->notice_us;
    /* The preemptor waits no longer than a boot: half of that is the most anybody gets. */
    if (notice_us == 0) notice_us = p->config.drain_us;
    if (notice_us > p->config.boot_timeout_us / 2) notice_us = p->config.boot_timeout_us / 2;
    int64_t deadline_us = p->now_us + notice_us;
    v->preempted_by = p->jobs[for_job].job_id;
    v->preempted_cost =
        v->preempted_cost > UINT64_MAX - cost ? UINT64_MAX : v->preempted_cost + cost;
    if (lease != SLOT_NONE) {
        v->preempted_count += p->leases[lease].device_count;
        lease_stop(p, lease, REASON_PREEMPTED_FOR, deadline_us);
    } else {
        v->preempted_ends = 1;
        for (uint32_t l = v->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
            if (lease_holds(&p->leases[l])) v->preempted_count += p->leases[l].device_count;
            lease_stop(p, l, REASON_PREEMPTED_FOR, deadline_us);
        }
    }
    job_touch(p, job);
}

bool plan_preempted(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    if (j->preempted_by == 0) return false;
    bool ends = j->preempted_ends;
    act_decision(
        p, out,
        (struct pool_decision){
            .kind = DECISION_PREEMPT,
            .reason = ends ? REASON_PREEMPTED_FOR : REASON_SHRUNK_FOR,
            .job_id = j->job_id,
            .a = (int64_t)j->preempted_by,
            .b = j->preempted_count,
            .c = (int64_t)(j->preempted_cost > INT64_MAX ? INT64_MAX : j->preempted_cost)});
    j->preempted_by = j->preempted_cost = 0;
    j->preempted_count = j->preempted_ends = 0;
    if (!ends) return false;
    MARK(out, JOB_PREEMPTED);
    plan_requeue(p, job, out);
    return true;
}

/* One device, if no other that is promised to the job is too near (near.h). */
static uint32_t promise_apart(pool *p, const struct demand *demand, uint32_t node)
{
    const struct job *j = &p->jobs[demand->job];
    for (uint32_t at = j->promises.head; at != SLOT_NONE; at = p->promises[at].job_link.next)
        if (!near_are_apart(p, demand->near.spread, node, p->promises[at].node)) return 0;
    return promise_make(p, demand->job, node, 1);
}

/* Devices of a node become the preemptor's, and with the first of them those that are free there: it
 * takes all of them at once. */
static uint32_t promise_at(pool *p, const struct demand *demand, uint32_t node, uint32_t count,
                           uint32_t left)
{
    if (demand->near.spread != TOPOLOGY_ANY) return promise_apart(p, demand, node);
    uint32_t before = p->jobs[demand->job].promises.count;
    uint32_t free_count = promise_free(p, demand, &p->nodes[node]);
    uint32_t made = promise_make(p, demand->job, node, count < left ? count : left);
    if (p->jobs[demand->job].promises.count > before && free_count > 0 && made < left)
        made +=
            promise_make(p, demand->job, node, free_count < left - made ? free_count : left - made);
    return made;
}

static void move(pool *p, const struct victim *v, uint32_t for_job, struct pool_output *out)
{
    const struct lease *l = &p->leases[v->lease];
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_MOVED_FOR,
                                        .job_id = p->jobs[v->job].job_id,
                                        .node_key = p->nodes[v->target].node_key,
                                        .a = (int64_t)p->jobs[for_job].job_id,
                                        .b = l->device_count});
    ledger_settle(p, v->target, out);
    uint32_t device_count = l->device_count;
    lease_stop(p, v->lease, REASON_MOVED_FOR, p->now_us + p->config.drain_us);
    (void)lease_make(p, v->job, v->target, device_count, device_count * 1000);
    job_touch(p, v->job);
}

static uint32_t promise_leased(pool *p, const struct demand *demand, uint32_t lease, uint32_t left)
{
    return promise_at(p, demand, p->leases[lease].node, p->leases[lease].device_count, left);
}

enum { COMING_MAX = 64 };

/* Nodes with devices on their way out, the lowest from `from` on: the order of the walk decides nothing. */
static uint32_t coming_nodes(const pool *p, const struct demand *demand,
                             const struct preemption *plan, uint32_t from,
                             uint32_t nodes[COMING_MAX])
{
    struct victim_walk walk =
        victims_walk(p, plan->region_index, demand->compat_mask, demand->order, demand->job);
    uint32_t node, count = 0;
    while (victims_next(&walk, &node)) {
        if (node < from || (count == COMING_MAX && node > nodes[count - 1])) continue;
        if (preempt_coming(p, demand, plan->region_index, plan->need, node) == 0) continue;
        if (count == COMING_MAX) count--;
        uint32_t at = count++;
        for (; at > 0 && nodes[at - 1] > node; at--) nodes[at] = nodes[at - 1];
        nodes[at] = node;
    }
    return count;
}

/* What comes free by itself; the number of devices that it leaves to be freed. */
static uint32_t promise_coming(pool *p, const struct demand *demand, const struct preemption *plan)
{
    uint32_t nodes[COMING_MAX], count, from = 0, left = demand->devices_left;
    do {
        count = coming_nodes(p, demand, plan, from, nodes);
        for (uint32_t i = 0; i < count && left > 0; i++) {
            from = nodes[i] + 1;
            uint32_t coming = preempt_coming(p, demand, plan->region_index, plan->need, nodes[i]);
            left -= promise_at(p, demand, nodes[i], coming, left);
        }
    } while (count == COMING_MAX && left > 0);
    return left;
}

static void promise_freed(pool *p, uint32_t job, const struct demand *demand,
                          const struct preemption *plan)
{
    if (plan->node != SLOT_NONE) {
        (void)promise_make(p, job, plan->node, demand->devices_left);
        return;
    }
    uint32_t left = promise_coming(p, demand, plan);
    for (uint32_t i = 0; i < plan->victim_count && left > 0; i++) {
        const struct victim *v = &plan->victims[i];
        if (v->lease != SLOT_NONE) {
            left -= promise_leased(p, demand, v->lease, left);
            continue;
        }
        for (uint32_t l = p->jobs[v->job].leases.head; l != SLOT_NONE && left > 0;
             l = p->leases[l].job_link.next)
            if (lease_holds(&p->leases[l]) &&
                preempt_is_place(p, demand, plan->region_index, plan->need, p->leases[l].node))
                left -= promise_leased(p, demand, l, left);
    }
}

void plan_preempt(pool *p, uint32_t job, const struct demand *demand, const struct preemption *plan,
                  struct pool_output *out)
{
    uint64_t moves = 0, loss = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        moves += plan->victims[i].target != SLOT_NONE;
        loss =
            loss > UINT64_MAX - plan->victims[i].loss ? UINT64_MAX : loss + plan->victims[i].loss;
    }
    if (plan->victim_count > 0) /* else they come free by themselves */
        act_decision(
            p, out,
            (struct pool_decision){.kind = DECISION_PREEMPT,
                                   .reason = moves > 0 ? REASON_CONSOLIDATES : REASON_PREEMPTS,
                                   .job_id = p->jobs[job].job_id,
                                   .a = plan->need,
                                   .b = plan->victim_count,
                                   .c = (int64_t)(loss > INT64_MAX ? INT64_MAX : loss)});
    promise_freed(p, job, demand, plan); /* first: whoever leaves still holds what is promised */
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        const struct victim *v = &plan->victims[i];
        if (v->target != SLOT_NONE)
            move(p, v, job, out);
        else
            plan_evict(p, v->job, v->lease, job, v->loss);
    }
    promise_uphold(p, job);
}
