#include "core/job.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/gate.h"
#include "core/lease.h"
#include "core/ledger.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/plan_pack.h"
#include "core/plan_repack.h"
#include "core/plan_reserve.h"
#include "core/predict.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/rate.h"

/* The oldest ended job that no node is paid for any more makes room. */
static uint32_t forget_one(pool *p)
{
    for (uint32_t slot = p->ended.head; slot != SLOT_NONE; slot = p->jobs[slot].ended_link.next) {
        struct job *j = &p->jobs[slot];
        if (j->leases.count > 0) continue;
        list_remove(&p->ended, CHAIN(p->jobs, ended_link), slot);
        table_remove(&p->job_table, j->job_id);
        p->usd_micros_forgotten = money_add(p->usd_micros_forgotten, j->usd_micros);
        return slot;
    }
    return SLOT_NONE;
}

uint32_t job_make(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = SLOT_NONE;
    if (p->jobs_end < p->config.limits.jobs_max)
        slot = p->jobs_end++;
    else {
        slot = forget_one(p);
        if (slot == SLOT_NONE) return SLOT_NONE;
        MARK(out, JOB_FORGOTTEN);
    }
    struct job *j = &p->jobs[slot];
    *j = (struct job){.job_id = event->u.job_submitted.job_id,
                      .spec_hash = event->u.job_submitted.spec_hash,
                      .order = (uint64_t)event->u.job_submitted.job_class << 56 | p->last_seq,
                      .submitted_us = p->now_us,
                      .budget_usd_micros = event->u.job_submitted.budget_usd_micros,
                      .budget_check_us = INT64_MAX,
                      .review_us = INT64_MAX,
                      .job_class = event->u.job_submitted.job_class,
                      .devices_min = event->u.job_submitted.devices_min,
                      .devices_max = event->u.job_submitted.devices_max,
                      .shape = SLOT_NONE,
                      .rate_market = SLOT_NONE,
                      .match_market = SLOT_NONE,
                      .region_index = SLOT_NONE,
                      .pack_set = SLOT_NONE,
                      .choice_offer = SLOT_NONE,
                      .tenant = event->u.job_submitted.tenant,
                      .project = event->u.job_submitted.project,
                      .team = event->u.job_submitted.team,
                      .experiment = event->u.job_submitted.experiment};
    list_clear(&j->leases);
    list_clear(&j->promises);
    table_insert(&p->job_table, j->job_id, slot);
    return slot;
}

void job_touch(pool *p, uint32_t slot)
{
    const struct job *j = &p->jobs[slot];
    if (job_is_bound(j))
        heap_set(&p->plans, slot, plan_key(p, slot));
    else if (j->state == JOB_QUEUED)
        shape_wake(p, j->shape);
}

void job_end(pool *p, uint32_t slot, uint32_t state, uint32_t kind, uint32_t reason,
             struct numbers numbers, struct pool_output *out)
{
    struct job *j = &p->jobs[slot];
    ASSERT(state > JOB_RUNNING);
    act_decision(p, out,
                 (struct pool_decision){.kind = kind,
                                        .reason = reason,
                                        .job_id = j->job_id,
                                        .a = numbers.a,
                                        .b = numbers.b,
                                        .c = numbers.c});
    if (state == JOB_DONE) predict_learn(p, slot);
    rate_settle(p, slot);
    j->speed = 0;
    promise_drop(p, slot);
    j->preempted_by = 0;
    if (j->state == JOB_QUEUED) shape_queue_remove(p, slot);
    if (p->mig_keep_count > 0) repack_left(p, part_asker(p, slot));
    if (job_is_live(j)) quota_leave(p, j->account);
    if (job_has_budget(p, j)) p->budget_job_count--;
    packing_left(p, slot);
    if (j->shape != SLOT_NONE) shape_leave(p, j->shape);
    plan_claim_drop(p, slot);
    job_interest(p, slot, false);
    heap_set(&p->plans, slot, HEAP_KEY_NEVER);
    j->state = state;
    plan_match_ended(p, slot);
    j->shape = SLOT_NONE;
    j->ended_us = p->now_us;
    j->budget_check_us = j->review_us = INT64_MAX;
    job_retime(p, slot);
    list_append(&p->ended, CHAIN(p->jobs, ended_link), slot);
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        lease_stop(p, l, reason, p->now_us + p->config.drain_us);
}

bool job_has_budget(const pool *p, const struct job *j)
{
    if (!job_is_live(j)) return false;
    return j->budget_usd_micros > 0 || p->shapes[j->shape].budget_usd_micros_per_hour > 0;
}

struct holding job_holding(const pool *p, uint32_t slot)
{
    struct holding held = {0};
    for (uint32_t at = p->jobs[slot].leases.head; at != SLOT_NONE;
         at = p->leases[at].job_link.next) {
        const struct lease *l = &p->leases[at];
        const struct node *n = &p->nodes[l->node];
        int64_t usd_micros_per_hour = lease_usd_micros_per_hour(p, at);
        held.usd_micros_per_hour += usd_micros_per_hour;
        if (!node_is_usable(n) || !lease_holds(l)) continue;
        held.kept_usd_micros_per_hour += usd_micros_per_hour;
        held.device_count += l->device_count;
        if (n->state == NODE_READY) held.up_count += l->device_count;
        if (n->state == NODE_BOOTING) held.booting_count += l->device_count;
        held.fallback_count += l->fallback;
    }
    return held;
}

int64_t job_spent_usd_micros(const pool *p, uint32_t slot)
{
    int64_t spent = money_add(p->jobs[slot].usd_micros, p->jobs[slot].egress_usd_micros);
    for (uint32_t l = p->jobs[slot].leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        spent = money_add(spent, ledger_pending_usd_micros(p, l));
    return spent;
}

void job_interest(pool *p, uint32_t slot, bool wanted)
{
    struct job *j = &p->jobs[slot];
    if (wanted == (j->interested != 0)) return;
    j->interested = wanted;
    struct list *interested = &p->regions[j->region_index].interested;
    if (wanted)
        list_append(interested, CHAIN(p->jobs, interested_link), slot);
    else
        list_remove(interested, CHAIN(p->jobs, interested_link), slot);
    if (!wanted) plan_wake_next(p, j->region_index, j->shape);
}

int64_t job_due_us(const struct job *j)
{
    int64_t due_us = j->budget_check_us < j->review_us ? j->budget_check_us : j->review_us;
    if (j->promise_until_us != 0 && j->promise_until_us < due_us) due_us = j->promise_until_us;
    return j->claims && j->claim_until_us < due_us ? j->claim_until_us : due_us;
}

void job_retime(pool *p, uint32_t slot)
{
    heap_set(&p->timers, timer_of_job(p, slot), job_due_us(&p->jobs[slot]));
}

void job_rearm_budget(pool *p, uint32_t slot)
{
    struct job *j = &p->jobs[slot];
    if (j->budget_usd_micros == 0 || !job_is_bound(j)) return;
    int64_t rate = 0;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        rate += ledger_lease_rate(p, l);
    int64_t left_us = money_lasts_us(j->budget_usd_micros - job_spent_usd_micros(p, slot), rate);
    j->budget_check_us = left_us > TIME_US_MAX ? INT64_MAX : p->now_us + left_us;
    job_retime(p, slot);
}

void job_run(pool *p, uint32_t slot, struct pool_output *out)
{
    struct job *j = &p->jobs[slot];
    if (p->now_us >= j->budget_check_us) {
        if (quota_is_spent(p, slot)) {
            job_end(p, slot, JOB_FAILED, DECISION_STOP, REASON_ACCOUNT_SPENT, (struct numbers){0},
                    out);
            return;
        }
        if (gate_is_spent(p, slot)) {
            job_end(p, slot, JOB_FAILED, DECISION_STOP, REASON_GATE_SPENT, (struct numbers){0},
                    out);
            return;
        }
        if (j->budget_usd_micros > 0 && job_spent_usd_micros(p, slot) >= j->budget_usd_micros) {
            job_end(p, slot, JOB_FAILED, DECISION_STOP, REASON_BUDGET_SPENT,
                    (struct numbers){.a = j->budget_usd_micros}, out);
            return;
        }
        if (j->budget_usd_micros == 0) j->budget_check_us = INT64_MAX;
        job_rearm_budget(p, slot);
        if (j->budget_check_us <= p->now_us) j->budget_check_us = p->now_us + 1;
    }
    if (j->claims && p->now_us >= j->claim_until_us) plan_claim_drop(p, slot);
    if (j->promise_until_us != 0 && p->now_us >= j->promise_until_us) plan_reserve_due(p, slot);
    if (p->now_us >= j->review_us) {
        j->review_us = INT64_MAX;
        p->failed_hash = 0; /* time has passed: what was not to be had may be */
        job_touch(p, slot);
    }
    job_retime(p, slot);
}
