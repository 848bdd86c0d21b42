#include "core/apply.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/bill.h"
#include "core/buying.h"
#include "core/class.h"
#include "core/data.h"
#include "core/deadline.h"
#include "core/gate.h"
#include "core/island.h"
#include "core/lease.h"
#include "core/ledger.h"
#include "core/offer.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/quota.h"
#include "core/ranking.h"
#include "core/rate.h"
#include "core/risk.h"
#include "core/terms.h"

static void define_model(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t model = event->u.model_defined.model;
    if (model >= p->config.limits.models_max) {
        MARK(out, CATALOG_LIMIT);
        return;
    }
    /* How a model is cut never changes: instances lie there. */
    uint32_t mig_slices = p->models[model].mig_slices;
    if (mig_slices == 0) mig_slices = event->u.model_defined.mig_slices;
    p->models[model] = (struct model){.capability_mask = event->u.model_defined.capability_mask,
                                      .ncu_milli = event->u.model_defined.ncu_milli,
                                      .vram_mib = event->u.model_defined.vram_mib,
                                      .mig_slices = mig_slices};
    rate_rebuild(p);
    plan_catalog_changed(p);
}

static void define_pool(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t index = event->u.pool_defined.pool;
    if (index >= p->config.limits.pools_max) {
        MARK(out, CATALOG_LIMIT);
        return;
    }
    uint32_t threshold_ppm = event->u.pool_defined.price_threshold_ppm;
    p->rules[index] = (struct pool_rule){
        .capability_mask = event->u.pool_defined.capability_mask,
        .hardware_mask = event->u.pool_defined.hardware_mask,
        .vram_min_mib = event->u.pool_defined.vram_min_mib,
        .price_threshold_ppm = threshold_ppm != 0 ? threshold_ppm : THRESHOLD_PPM_NONE};
    plan_catalog_changed(p);
}

static void cancel(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = table_find(&p->job_table, event->u.job_cancelled.job_id);
    if (slot == SLOT_NONE || !job_is_live(&p->jobs[slot])) return;
    job_end(p, slot, JOB_CANCELLED, DECISION_STOP, REASON_CANCELLED, (struct numbers){0}, out);
}

static uint32_t loss_reason(const struct node *n, uint32_t reason)
{
    if (reason == NODE_REASON_CRASHED) return REASON_CRASHED;
    if (reason == NODE_REASON_ERROR) return REASON_PROVIDER_ERROR;
    return n->notice_us != 0 ? REASON_PREEMPTED_NOTICED : REASON_PREEMPTED;
}

static uint32_t refusal_reason(uint32_t reason)
{
    if (reason == NODE_REASON_STOCKOUT) return REASON_STOCKOUT;
    return reason == NODE_REASON_QUOTA ? REASON_QUOTA : REASON_PROVIDER_ERROR;
}

/* The provider's word that it runs no more. ABSENT about a node that was never up may have been
 * said before our order arrived; while we release, it counts only once a release was sent. */
static void observe_end(pool *p, uint32_t slot, const struct pool_event *event,
                        struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    bool gone = event->u.node_observed.phase == NODE_PHASE_GONE;
    if (n->state == NODE_ORDERED) {
        if (!gone) return;
        MARK(out, NODE_GONE_WHILE_ORDERED);
    }
    if (n->state != NODE_RELEASING) {
        uint32_t reason = loss_reason(n, event->u.node_observed.reason);
        int64_t double_us = reason == REASON_PREEMPTED ? risk_taken(p, n->offer) : 0;
        node_lose(p, slot, reason, double_us, out);
    }
    if (!gone && !n->release_sent) return; /* an old list may lack it: ask before believing */
    node_end(p, slot, event->u.node_observed.billed_usd_micros, out);
}

static void observe_refused(pool *p, uint32_t slot, const struct pool_event *event,
                            struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    /* It never ran, so it is released; of one that was seen up this is an old answer, or a lie. */
    if (n->state == NODE_RELEASING && n->release_sent && n->phase != NODE_PHASE_UP) {
        node_end(p, slot, event->u.node_observed.billed_usd_micros, out);
        return;
    }
    if (n->state != NODE_ORDERED) return;
    n->phase = NODE_PHASE_REFUSED;
    int64_t until_us = p->now_us + p->config.refused_backoff_us;
    if (event->u.node_observed.reason == NODE_REASON_QUOTA)
        offer_refuse_quota(p, n->offer, until_us);
    else
        offer_refuse(p, n->offer, until_us);
    /* Released all the same: a provider that refuses may have started it after all. */
    node_lose(p, slot, refusal_reason(event->u.node_observed.reason),
              p->offers[n->offer].refused_until_us - p->now_us, out);
}

static void observe_up(pool *p, uint32_t slot, const struct pool_event *event,
                       struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    if (n->state == NODE_RELEASING) {
        MARK(out, ANSWER_FOR_RELEASED_NODE);
        n->phase = NODE_PHASE_UP;
        return; /* the release is asked again at its time */
    }
    if (n->state == NODE_ORDERED)
        node_up(p, slot, event->u.node_observed.up_since_us, out);
    else
        n->ask_us = p->now_us + REFRESH_LEASES * p->config.agent_lease_us;
    node_retime(p, slot);
    const struct bill bill = {.usd_micros = event->u.node_observed.billed_usd_micros,
                              .up_since_us = event->u.node_observed.up_since_us};
    bill_seen(p, slot, &bill, out);
    int64_t notice_us = event->u.node_observed.notice_us;
    if (notice_us == 0 || (n->notice_us != 0 && notice_us >= n->notice_us)) return;
    int64_t double_us = n->notice_us == 0 ? risk_taken(p, n->offer) : 0;
    n->notice_us = notice_us;
    plan_drain_for_notice(p, slot, double_us, out);
}

static void observe_unknown(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t phase = event->u.node_observed.phase;
    if (phase == NODE_PHASE_UP || phase == NODE_PHASE_PENDING)
        node_adopt(p, event->u.node_observed.node_key, out);
}

static void observe_ended(pool *p, uint32_t slot, const struct pool_event *event,
                          struct pool_output *out)
{
    uint32_t phase = event->u.node_observed.phase;
    if (phase == NODE_PHASE_UP || phase == NODE_PHASE_PENDING)
        node_revive(p, slot, out);
    else
        ledger_bill(p, slot, event->u.node_observed.billed_usd_micros, out);
}

static void observe(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = table_find(&p->node_table, event->u.node_observed.node_key);
    if (slot == SLOT_NONE) {
        observe_unknown(p, event, out);
        return;
    }
    struct node *n = &p->nodes[slot];
    if (n->state == 0) {
        observe_ended(p, slot, event, out);
        return;
    }
    switch ((enum node_phase)event->u.node_observed.phase) {
    case NODE_PHASE_PENDING:
        if (n->state == NODE_ORDERED) n->phase = NODE_PHASE_PENDING;
        return;
    case NODE_PHASE_UP: observe_up(p, slot, event, out); return;
    case NODE_PHASE_ABSENT:
    case NODE_PHASE_GONE: observe_end(p, slot, event, out); return;
    case NODE_PHASE_REFUSED: observe_refused(p, slot, event, out); return;
    case NODE_PHASE_END: break;
    }
    UNREACHABLE();
}

static void join(pool *p, uint32_t slot, const struct pool_event *event, struct pool_output *out)
{
    struct node *n = &p->nodes[slot];
    if (n->state == NODE_ORDERED) { /* it runs, so it is up, whatever got lost */
        MARK(out, AGENT_BEFORE_PROVIDER);
        node_up(p, slot, /* up_since */ 0, out);
        n->ask_us = p->now_us; /* the provider knows since when it bills */
    }
    uint32_t found = event->u.agent_reported.device_count;
    if (n->state == NODE_BOOTING && found != 0 && found < n->device_count) {
        MARK(out, AGENT_FOUND_LESS);
        node_lose(p, slot, REASON_CRASHED, /* a */ 0, out);
        return;
    }
    if (event->u.agent_reported.rack != 0) n->rack = event->u.agent_reported.rack;
    if (n->state == NODE_BOOTING) {
        node_join(p, slot, out);
        island_told(p, slot, &event->u.agent_reported.groups);
    }
    n->agent_heard_us = p->now_us;
    node_retime(p, slot);
}

static void agent_report(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = table_find(&p->node_table, event->u.agent_reported.node_key);
    bool joined = event->u.agent_reported.phase == AGENT_PHASE_JOINED;
    if (slot == SLOT_NONE) {
        if (joined) node_adopt(p, event->u.agent_reported.node_key, out);
    } else if (p->nodes[slot].state == 0) {
        if (joined) node_revive(p, slot, out);
    } else if (p->nodes[slot].state == NODE_RELEASING) {
        MARK(out, ANSWER_FOR_RELEASED_NODE);
    } else if (joined)
        join(p, slot, event, out);
    else
        node_lose(p, slot, REASON_CRASHED, /* a */ 0, out);
}

static uint32_t find_lease(const pool *p, uint32_t node, uint64_t worker_id)
{
    for (uint32_t l = p->nodes[node].leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->leases[l].worker_id == worker_id) return l;
    return SLOT_NONE;
}

static void stop_stray(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t phase = event->u.worker_reported.phase;
    if (phase != WORKER_PHASE_STARTING && phase != WORKER_PHASE_RUNNING) return;
    MARK(out, WORKER_UNKNOWN);
    act_command(p, out,
                (struct pool_command){.kind = POOL_COMMAND_STOP_WORKER,
                                      .reason = REASON_JOB_ENDED,
                                      .job_id = event->u.worker_reported.job_id,
                                      .node_key = event->u.worker_reported.node_key,
                                      .worker_id = event->u.worker_reported.worker_id});
}

static void worker_alive(pool *p, uint32_t lease, const struct pool_event *event)
{
    struct lease *l = &p->leases[lease];
    struct job *j = &p->jobs[l->job];
    l->phase = event->u.worker_reported.phase;
    if (event->u.worker_reported.step > l->step) l->step = event->u.worker_reported.step;
    if (l->step > j->step) {
        j->step = l->step;
        j->failures = 0;
        rate_observe(p, l->job);
    }
    deadline_stepped(p, l->job);
    if (l->state != LEASE_ACTIVE) return;
    l->ask_us = p->now_us + REFRESH_LEASES * p->config.agent_lease_us;
    lease_retime(p, lease);
}

static void worker_finished(pool *p, uint32_t lease, struct pool_output *out)
{
    uint32_t job = p->leases[lease].job;
    if (job_is_live(&p->jobs[job]))
        job_end(p, job, JOB_DONE, DECISION_FINISH, REASON_DONE,
                (struct numbers){.a = (int64_t)p->jobs[job].step}, out);
    lease_end(p, lease, out);
}

/* Workers that share a cause fail together: all that were running when one failed count once, or one
 * blow to a gang of twelve would look like twelve failures in a row. Worker ids only grow. */
static void count_failure(pool *p, struct job *j, uint64_t worker_id)
{
    if (worker_id < j->round_worker_id) return;
    j->failures++;
    j->round_worker_id = lease_next_worker_id(p);
}

static void worker_failed(pool *p, uint32_t lease, const struct pool_event *event,
                          struct pool_output *out)
{
    struct lease *l = &p->leases[lease];
    struct job *j = &p->jobs[l->job];
    if (l->state != LEASE_ACTIVE) {
        lease_end(p, lease, out);
        return;
    }
    count_failure(p, j, l->worker_id);
    if (j->failures > p->config.worker_failures_max) {
        job_end(p, l->job, JOB_FAILED, DECISION_STOP, REASON_TOO_MANY_FAILURES,
                (struct numbers){.a = j->failures}, out);
        lease_end(p, lease, out);
        return;
    }
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_WORKER_FAILED,
                                        .job_id = j->job_id,
                                        .node_key = p->nodes[l->node].node_key,
                                        .a = event->u.worker_reported.exit_code,
                                        .b = j->failures,
                                        .c = p->config.worker_failures_max});
    lease_restart(p, lease);
}

static void worker_report(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t node = table_find(&p->node_table, event->u.worker_reported.node_key);
    if (node == SLOT_NONE || p->nodes[node].state == 0) return;
    uint64_t worker_id = event->u.worker_reported.worker_id;
    uint32_t lease = worker_id == 0 ? SLOT_NONE : find_lease(p, node, worker_id);
    if (lease == SLOT_NONE ||
        p->jobs[p->leases[lease].job].job_id != event->u.worker_reported.job_id) {
        stop_stray(p, event, out);
        return;
    }
    if (p->leases[lease].state == LEASE_OVER) return; /* its node is on its way out */
    if (event->u.worker_reported.step > p->jobs[p->leases[lease].job].step &&
        event->u.worker_reported.phase == WORKER_PHASE_FINISHED)
        p->jobs[p->leases[lease].job].step = event->u.worker_reported.step;
    switch ((enum worker_phase)event->u.worker_reported.phase) {
    case WORKER_PHASE_STARTING:
    case WORKER_PHASE_RUNNING: worker_alive(p, lease, event); return;
    case WORKER_PHASE_FINISHED: worker_finished(p, lease, out); return;
    case WORKER_PHASE_FAILED: worker_failed(p, lease, event, out); return;
    case WORKER_PHASE_STOPPED:
        if (p->leases[lease].state == LEASE_STOPPING)
            lease_end(p, lease, out);
        else {
            MARK(out, WORKER_STOPPED_UNASKED);
            lease_restart(p, lease);
        }
        return;
    case WORKER_PHASE_END: break;
    }
    UNREACHABLE();
}

static void checkpoint(pool *p, const struct pool_event *event)
{
    uint32_t slot = table_find(&p->job_table, event->u.ckpt_durable.job_id);
    if (slot == SLOT_NONE) return;
    struct job *j = &p->jobs[slot];
    if (event->u.ckpt_durable.step <= j->ckpt_step) return;
    j->ckpt_step = event->u.ckpt_durable.step;
    j->ckpt_us = p->now_us;
    deadline_saved(p, slot);
    if (plan_is_degraded(p, slot)) job_touch(p, slot); /* it may leave now */
}

static void drain_asked(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = table_find(&p->node_table, event->u.node_drain_asked.node_key);
    if (slot != SLOT_NONE && p->nodes[slot].state != 0) plan_drain_asked(p, slot, out);
}

static struct pool_decision stall_decision(const struct pool_event *event)
{
    uint32_t kind = event->u.worker_stalled.kind;
    struct pool_decision decision = {.kind = DECISION_STALL,
                                     .reason = REASON_STALL_OVER + kind - STALL_OVER,
                                     .job_id = event->u.worker_stalled.job_id,
                                     .node_key = event->u.worker_stalled.node_key,
                                     .a = (int64_t)event->u.worker_stalled.step,
                                     .b = (int64_t)event->u.worker_stalled.worker_id,
                                     .c = event->u.worker_stalled.lasted_us};
    if (kind == STALL_LINK || kind == SLOW_LINK)
        decision.c = (int64_t)event->u.worker_stalled.peer_id;
    else if (kind >= SLOW_DATA)
        decision.c = (int64_t)event->u.worker_stalled.slow_ppm;
    return decision;
}

/* Kept as a decision, so that it can be asked for; the same again is not said again. */
static void stalled(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = table_find(&p->job_table, event->u.worker_stalled.job_id);
    if (slot == SLOT_NONE) return;
    const struct job *j = &p->jobs[slot];
    uint32_t kind = event->u.worker_stalled.kind;
    uint64_t worker_id = event->u.worker_stalled.worker_id;
    uint32_t lease = plan_lease_of_worker(p, j, worker_id);
    struct pool_decision decision = stall_decision(event);
    bool said = j->last_kind == decision.kind && j->last_reason == decision.reason &&
                j->last_b == decision.b;
    bool over_without = kind == STALL_OVER && j->last_kind != DECISION_STALL;
    bool is_news = true;
    if (kind == STALL_OVER)
        plan_unname(p, slot, worker_id);
    else if (lease != SLOT_NONE)
        is_news = plan_name(p, lease, kind) || j->last_reason == REASON_STALL_OVER;
    if (is_news && !said && !over_without) act_decision(p, out, decision);
    if (kind != STALL_OVER && lease != SLOT_NONE) plan_replace(p, lease, out);
}

/* Silence while we were down is nobody's fault: leases count from now, and everyone is asked. */
static void restarted(pool *p)
{
    for (uint32_t n = 0; n < p->nodes_end; n++) {
        if (p->nodes[n].state == 0) continue;
        p->nodes[n].ask_us = p->now_us;
        p->nodes[n].agent_heard_us = p->nodes[n].boot_since_us = p->now_us;
        node_retime(p, n);
    }
    for (uint32_t l = 0; l < p->leases_end; l++) lease_ask_now(p, l);
}

void apply_event(pool *p, const struct pool_event *event, struct pool_output *out)
{
    switch ((enum pool_event_kind)event->kind) {
    case POOL_EVENT_TICK: return;
    case POOL_EVENT_RESTARTED: restarted(p); return;
    case POOL_EVENT_CLASS_DEFINED:
        class_define(p, event);
        plan_class_changed(p);
        return;
    case POOL_EVENT_MODEL_DEFINED: define_model(p, event, out); return;
    case POOL_EVENT_POOL_DEFINED: define_pool(p, event, out); return;
    case POOL_EVENT_OFFER_CHANGED: offer_change(p, event, out); return;
    case POOL_EVENT_JOB_SUBMITTED: plan_admit(p, event, out); return;
    case POOL_EVENT_JOB_CANCELLED: cancel(p, event, out); return;
    case POOL_EVENT_NODE_OBSERVED: observe(p, event, out); return;
    case POOL_EVENT_AGENT_REPORTED: agent_report(p, event, out); return;
    case POOL_EVENT_WORKER_REPORTED: worker_report(p, event, out); return;
    case POOL_EVENT_CKPT_DURABLE: checkpoint(p, event); return;
    case POOL_EVENT_NODE_DRAIN_ASKED: drain_asked(p, event, out); return;
    case POOL_EVENT_WORKER_STALLED: stalled(p, event, out); return;
    case POOL_EVENT_TERMS_DEFINED: terms_define(p, event, out); return;
    case POOL_EVENT_ACCOUNT_DEFINED: quota_define(p, event, out); return;
    case POOL_EVENT_QUOTA_MODEL_DEFINED: quota_define_model(p, event); return;
    case POOL_EVENT_GATE_DEFINED: gate_define(p, event, out); return;
    case POOL_EVENT_LINKS_TOLD: data_links_told(p, event, out); return;
    case POOL_EVENT_BUYING_DEFINED: buying_define(p, event, out); return;
    case POOL_EVENT_OFFERS_RANKED: ranking_told(p, event, out); return;
    case POOL_EVENT_OFFERS_PRICED: offer_prices_told(p, event); return;
    case POOL_EVENT_RATE_TOLD: rate_told(p, event, out); return;
    case POOL_EVENT_MATCHING_DEFINED: match_define(p, event); return;
    case POOL_EVENT_KIND_END: break;
    }
    UNREACHABLE();
}
