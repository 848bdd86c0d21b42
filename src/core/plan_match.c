#include "core/plan_match.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/match_weight.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/rate.h"
#include <string.h>

bool plan_match_owns(const pool *p, const struct shape *s)
{
    const struct job_terms *terms = terms_of(p, s);
    return terms != NULL && terms->work_id != 0 && terms->deadline_us == 0 &&
           p->config.limits.matched_max > 0 && s->devices_min == s->devices_max &&
           !part_is_special(terms) && terms->ncu_milli == 0 && terms->degrade == 0 &&
           terms->affinity == TOPOLOGY_ANY && terms->spread == TOPOLOGY_ANY;
}

static bool owns_job(const pool *p, const struct job *j)
{
    return job_is_live(j) && plan_match_owns(p, &p->shapes[j->shape]);
}

void plan_match_init(pool *p)
{
    heap_clear(&p->match_order);
    match_size_clear(&p->match_size);
    p->match_due_us = INT64_MAX;
    for (uint32_t list = 0; list < MATCH_LIST_END; list++)
        for (uint32_t class = 0; class < JOB_CLASS_END; class ++)
            list_clear(&p->matched[list][class]);
}

static void retime(pool *p)
{
    heap_set(&p->timers, timer_of_match(p), p->match_due_us);
}

void match_define(pool *p, const struct pool_event *event)
{
    p->match_round_us = event->u.matching_defined.round_us;
    p->match_restart_us = event->u.matching_defined.restart_us;
    p->match_due_us = INT64_MAX;
    p->match_rounds = p->match_late = 0;
    retime(p);
    for (uint32_t class = 0; class < JOB_CLASS_END; class ++) plan_match_touch(p, class);
}

static bool has_any(const pool *p, uint32_t job_class, uint32_t list)
{
    return p->matched[list][job_class].count > 0;
}

static void want_round(pool *p, uint32_t job_class)
{
    if (p->match_round_us == 0) return;
    if (p->match_due_us <= p->now_us && !p->match_late) { /* others may come with this one */
        p->match_late = 1;
        p->match_due_us = p->now_us + MATCH_SETTLE_US;
        retime(p);
    }
    if (p->match_due_us != INT64_MAX) return;
    if (!p->classes[job_class].preemptible) return;
    if (!has_any(p, job_class, MATCH_WAITING) && !has_any(p, job_class, MATCH_RUNNING)) return;
    p->match_due_us = p->now_us + MATCH_SETTLE_US;
    if (p->match_last_us + p->match_round_us > p->match_due_us)
        p->match_due_us = p->match_last_us + p->match_round_us;
    retime(p);
}

/* The turn of the oldest of its jobs that wait for a device. */
static int64_t turn_of(const pool *p, uint32_t job_class)
{
    int64_t first = HEAP_KEY_NEVER;
    for (uint32_t list = MATCH_WAITING; list <= MATCH_ASSIGNED; list++) {
        uint32_t job = p->matched[list][job_class].head;
        if (job != SLOT_NONE && plan_key(p, job) < first) first = plan_key(p, job);
    }
    return first;
}

void plan_match_touch(pool *p, uint32_t job_class)
{
    if (p->config.limits.matched_max == 0) return;
    want_round(p, job_class);
    uint32_t id = plan_of_class(p, job_class);
    int64_t turn = turn_of(p, job_class);
    if (turn < heap_key(&p->plans, id)) heap_set(&p->plans, id, turn);
}

void plan_match_due(pool *p)
{
    p->match_late = 1; /* what follows is no change that it would wait for */
    p->match_last_us = p->now_us;
    for (uint32_t class = 0; class < JOB_CLASS_END; class ++) {
        if (!p->classes[class].preemptible || !has_any(p, class, MATCH_RUNNING)) {
            plan_match_touch(p, class);
            continue;
        }
        p->match_rounds |= 1U << class;
        heap_set(&p->plans, plan_of_class(p, class), (int64_t)((uint64_t) class << 56));
    }
    p->match_late = 0;
    p->match_due_us = INT64_MAX;
    retime(p);
}

static void count_assigned(pool *p, const struct job *j, bool comes)
{
    uint64_t *count = &p->markets[j->match_market].match_assigned;
    *count = comes ? *count + j->devices_min : *count - j->devices_min;
}

static uint32_t list_of(const pool *p, const struct job *j)
{
    if (!owns_job(p, j)) return MATCH_NOT;
    if (j->state != JOB_QUEUED) return MATCH_RUNNING;
    return j->match_market == SLOT_NONE ? MATCH_WAITING : MATCH_ASSIGNED;
}

static void leave_list(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (j->match_listed == MATCH_NOT) return;
    if (j->match_listed == MATCH_ASSIGNED) count_assigned(p, j, false);
    list_remove(&p->matched[j->match_listed][j->job_class], CHAIN(p->jobs, match_link), job);
    j->match_listed = MATCH_NOT;
}

void plan_match_list(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    uint32_t to = list_of(p, j);
    if (to == j->match_listed) return;
    leave_list(p, job);
    j->match_listed = to;
    if (to == MATCH_NOT) return;
    if (to == MATCH_ASSIGNED) count_assigned(p, j, true);
    struct list *list = &p->matched[to][j->job_class];
    uint32_t before = SLOT_NONE; /* by age; those who come back are among the oldest */
    if (to == MATCH_WAITING && list->tail != SLOT_NONE && p->jobs[list->tail].order > j->order)
        for (before = list->head; p->jobs[before].order < j->order;)
            before = p->jobs[before].match_link.next;
    list_insert(list, CHAIN(p->jobs, match_link), job, before);
}

void plan_match_drop(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    leave_list(p, job);
    j->match_market = SLOT_NONE;
    plan_match_list(p, job);
}

void plan_match_ended(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    uint32_t job_class = j->job_class;
    if (j->match_listed == MATCH_NOT) return;
    leave_list(p, job);
    j->match_market = SLOT_NONE;
    j->match_leaves = 0;
    if (j->state == JOB_DONE) match_size_ended(&p->match_size, j->attained_us / 1000000);
    plan_match_touch(p, job_class);
}

uint32_t plan_match_first(const pool *p, const struct shape *s)
{
    uint32_t job = s->queue.head;
    while (job != SLOT_NONE && p->jobs[job].match_listed == MATCH_ASSIGNED)
        job = p->jobs[job].queue_link.next;
    return job;
}

bool plan_match_whole(pool *p, uint32_t job, const struct demand *demand, bool stays,
                      struct mix *ret_best)
{
    struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    bool found = plan_best_region(p, s, demand, j->region_index, stays, ret_best);
    if (!found || s->devices_min == 1 || !plan_match_owns(p, s)) return found;
    found = false;
    for (uint64_t rest = demand->compat_mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        struct demand one = *demand;
        struct mix mix;
        one.compat_mask = UINT64_C(1) << model;
        if (!plan_best_region(p, s, &one, j->region_index, stays, &mix)) continue;
        if (found && mix.ncu_milli <= ret_best->ncu_milli) continue;
        *ret_best = mix;
        j->match_market = mix.region_index * p->config.limits.models_max + model;
        found = true;
    }
    return found;
}

void plan_match_next(pool *p, uint32_t shape)
{
    uint32_t job = plan_match_first(p, &p->shapes[shape]);
    if (job != SLOT_NONE && plan_match_owns(p, &p->shapes[shape]))
        heap_set(&p->plans, p->config.limits.jobs_max + shape, plan_key(p, job));
}

void plan_match_rebuild(pool *p)
{
    for (uint32_t i = 0; i < p->works_end; i++)
        table_insert(&p->work_table, p->works[i].work_id, i);
    rate_rebuild(p);
    retime(p);
    for (uint32_t j = 0; j < p->jobs_end; j++)
        if (p->jobs[j].match_listed == MATCH_ASSIGNED) count_assigned(p, &p->jobs[j], true);
}

bool plan_match_pending(const pool *p)
{
    return p->match_last_us != 0 && p->now_us <= p->match_last_us + p->config.drain_us;
}

/* It cannot start where it was matched: who asks for the same and comes later does not start before it, but
 * leaves it the other market. */
static bool takes_over(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    uint32_t other = p->matched[MATCH_ASSIGNED][j->job_class].head;
    if (plan_works_still(p, j)) return false;
    while (other != SLOT_NONE &&
           (p->jobs[other].shape != j->shape || p->jobs[other].order < j->order ||
            p->jobs[other].match_market == j->match_market))
        other = p->jobs[other].match_link.next;
    if (other == SLOT_NONE) return false;
    uint32_t market = p->jobs[other].match_market;
    heap_set(&p->plans, other, HEAP_KEY_NEVER);
    p->jobs[other].match_barred = p->supply_changes + 1;
    plan_match_drop(p, other);
    plan_match_drop(p, job);
    j->match_market = market;
    plan_match_list(p, job);
    heap_set(&p->plans, job, plan_key(p, job));
    return true;
}

void plan_match_start(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    uint32_t region = j->match_market / p->config.limits.models_max;
    uint32_t model = j->match_market % p->config.limits.models_max;
    heap_set(&p->plans, job, HEAP_KEY_NEVER);
    struct demand demand;
    struct mix mix;
    plan_demand(p, job, &demand);
    demand.compat_mask &= UINT64_C(1) << model;
    if (plan_best_region(p, s, &demand, region, /* stays */ true, &mix)) {
        const struct rate *row = rate_row(p, terms_of(p, s)->work_id);
        int64_t best = 0;
        for (uint64_t rest = s->compat_mask; rest != 0; rest &= rest - 1) {
            int64_t speed = rate_speed(p, row, s->compat_mask, (uint32_t)__builtin_ctzll(rest));
            if (speed > best) best = speed;
        }
        act_decision(p, out,
                     (struct pool_decision){.kind = DECISION_PLACE,
                                            .reason = REASON_MATCHED,
                                            .job_id = j->job_id,
                                            .a = rate_speed(p, row, s->compat_mask, model) *
                                                 1000000 / RATE_ONE,
                                            .b = best * 1000000 / RATE_ONE});
        plan_bind(p, job, region, &mix, out);
        heap_set(&p->plans, job, 0); /* it takes them next: until then they are nobody's */
    } else if (plan_match_pending(p)) {
        plan_wait(p, job, REASON_WAIT_PREEMPTED,
                  (struct numbers){.a = j->devices_min, .b = p->config.drain_us}, out);
        j->review_us = p->match_last_us + p->config.drain_us + 1; /* who was to go may have ended */
        job_retime(p, job);
    } else if (!takes_over(p, job)) {
        j->match_barred = p->supply_changes + 1;
        plan_match_drop(p, job);
        plan_match_touch(p, j->job_class);
    }
}

bool plan_match_leaves(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    if (!j->match_leaves) return false;
    const struct shape *s = &p->shapes[j->shape];
    uint32_t model = j->match_market % p->config.limits.models_max;
    int64_t speed =
        j->match_market == SLOT_NONE
            ? 0
            : rate_speed(p, rate_row(p, terms_of(p, s)->work_id), s->compat_mask, model);
    MARK(out, JOB_REMATCHED);
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PREEMPT,
                                        .reason = speed > 0 ? REASON_REMATCHED : REASON_OUTMATCHED,
                                        .job_id = j->job_id,
                                        .a = speed * 1000000 / RATE_ONE});
    plan_requeue(p, job, out);
    return true;
}
