/* A guard beside random_test.c: what the core decides is checked on a copy of the pool.
 *
 * How        Linked with --wrap: preempt_best() and act_decision() come through here. A copy is made from
 *            a snapshot, changed by hand, and asked whether the job would start there. With a third argument
 *            (FIRST LAST alone) there is no twin, whose decisions would be checked once more: 20 times as
 *            fast, and no decision is left out.
 * Victims    With all of them gone (and whoever is on his way out) the job starts; without any one of
 *            them it does not: nobody goes in vain, nobody too many.
 * Reasons    Of a wait or refusal: with that obstacle taken away, and nothing else, the job starts; or,
 *            where several are in its way, it does not start when all but this one are gone.
 *            Of a wait for devices: as things are, it does not start.
 * Not        Whether devices alone are what such a job lacks (all of all offers would be the obstacle), and
 *            the pool's own limits (a copy has no room for more). */
#include "core/act.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/gate.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/node.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/plan_preempt.h"
#include "core/predict.h"
#include "core/promise.h"
#include "core/quota.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SNAPSHOT_BYTES = 1 << 20 };

bool __real_preempt_best(const pool *p, const struct shape *s, const struct demand *demand,
                         uint32_t held_count, uint32_t home, bool stays,
                         struct preemption *ret_plan);
bool __wrap_preempt_best(const pool *p, const struct shape *s, const struct demand *demand,
                         uint32_t held_count, uint32_t home, bool stays,
                         struct preemption *ret_plan);
void __real_act_decision(pool *p, struct pool_output *out, struct pool_decision decision);
void __wrap_act_decision(pool *p, struct pool_output *out, struct pool_decision decision);

static uint64_t victims_checked, reasons_checked;
static bool is_busy; /* with a copy: what is asked of it is not checked in turn */

static void fail_with(const pool *p, const char *what, uint64_t job_id, uint64_t detail)
{
    fprintf(stderr, "audit: %s: job %" PRIu64 ", %" PRIu64 ", after event %" PRIu64 "\n", what,
            job_id, detail, pool_last_seq(p));
    abort();
}

static pool *copy_of(const pool *p)
{
    static uint8_t bytes[SNAPSHOT_BYTES];
    size_t count = pool_snapshot_write(p, bytes, sizeof bytes);
    ASSERT(count <= sizeof bytes);
    void *memory = malloc(pool_size(&p->config.limits));
    ASSERT(memory != NULL);
    pool *copy = pool_init(memory, pool_size(&p->config.limits), &p->config);
    bool read = pool_snapshot_read(copy, bytes, count);
    ASSERT(read);
    return copy;
}

static void end_lease(pool *p, uint32_t lease)
{
    static struct pool_output out;
    act_clear(&out);
    lease_end(p, lease, &out);
}

static uint32_t held_by(const pool *p, uint32_t job)
{
    return job_is_bound(&p->jobs[job]) ? job_holding(p, job).device_count : 0;
}

/* Its least, or with `more` one device beyond what it holds, is to be had now without victims, of these
 * kinds of capacity. */
static bool starts(pool *p, uint32_t job, uint32_t home, bool stays, bool more, uint32_t kinds)
{
    const struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    struct holding held = job_holding(p, job);
    uint32_t has = held_by(p, job);
    if (has >= s->devices_min && !more) return true;
    uint32_t missing = has < s->devices_min ? s->devices_min - has : 0;
    struct demand demand = demand_of(s, terms_of(p, s), more ? s->devices_max - has : missing,
                                     held.usd_micros_per_hour);
    struct mix mix;
    demand.job = job;
    demand.order = missing > 0 ? j->order : UINT64_MAX;
    if (missing > 0) demand.run_us = predict_run_us(p, s, j->project);
    if (job_is_bound(j) && has > 0 && j->match_market != SLOT_NONE) /* all of one model */
        demand.compat_mask &= UINT64_C(1) << j->match_market % p->config.limits.models_max;
    demand_limit(p, &demand, job);
    if (!demand_keep_kinds(&demand, kinds)) return false;
    if (job_is_bound(j)) {
        supply_best(p, &demand, home, missing, &mix);
        return mix.device_count >= (missing > 0 ? missing : 1);
    }
    return plan_best_region(p, s, &demand, home, stays, &mix);
}

/* ---- victims ---- */

static void end_victim(pool *p, const struct victim *v)
{
    uint32_t next;
    if (v->target != SLOT_NONE) {
        uint32_t count = p->leases[v->lease].device_count;
        end_lease(p, v->lease);
        (void)lease_make(p, v->job, v->target, count, 0);
        return;
    }
    if (v->lease != SLOT_NONE) {
        end_lease(p, v->lease);
        return;
    }
    for (uint32_t l = p->jobs[v->job].leases.head; l != SLOT_NONE; l = next) {
        next = p->leases[l].job_link.next;
        if (lease_holds(&p->leases[l])) end_lease(p, l);
    }
}

static bool starts_without(const pool *p, const struct preemption *plan, uint32_t spared,
                           uint32_t job, uint32_t home, bool stays, uint32_t kinds)
{
    pool *copy = copy_of(p);
    promise_drop(copy, job); /* its reservation gives way to what is freed for it */
    for (uint32_t l = 0; spared == SLOT_NONE && l < copy->leases_end; l++)
        if (copy->leases[l].state == LEASE_STOPPING && copy->leases[l].job != job)
            end_lease(copy, l);
    for (uint32_t i = 0; i < plan->victim_count; i++)
        if (i != spared) end_victim(copy, &plan->victims[i]);
    bool found = starts(copy, job, home, stays, /* more */ false, kinds);
    free(copy);
    return found;
}

/* Whoever does not burst recalls the baseline although more could be bought; behind a gate it recalls that,
 * too, but besides buys what it may. */
static uint32_t kinds_of(const pool *p, const struct demand *demand)
{
    bool bursts = class_bursts(p, p->jobs[demand->job].job_class);
    uint32_t kinds = demand->gated ? demand->supply_mask : demand->capacity_mask;
    return bursts || kinds == 0 ? KINDS_ALL : kinds;
}

static void check_victims(const pool *p, const struct preemption *plan, const struct demand *demand,
                          uint32_t home, bool stays)
{
    uint32_t job = demand->job, kinds = kinds_of(p, demand);
    uint64_t id = p->jobs[job].job_id;
    if (plan->victim_count == 0) return; /* they come free by themselves */
    if (lease_room(p) < p->jobs[job].devices_min)
        return; /* a limit, of which those who leave give back by themselves */
    uint32_t region = job_is_bound(&p->jobs[job]) || stays ? home : plan->region_index;
    if (!starts_without(p, plan, SLOT_NONE, job, region, stays, kinds))
        fail_with(p, "victims go in vain", id, plan->victim_count);
    for (uint32_t i = 0; i < plan->victim_count; i++)
        if (starts_without(p, plan, i, job, region, stays, kinds))
            fail_with(p, "a victim is not needed", id, p->jobs[plan->victims[i].job].job_id);
    victims_checked += plan->victim_count;
}

bool __wrap_preempt_best(const pool *p, const struct shape *s, const struct demand *demand,
                         uint32_t held_count, uint32_t home, bool stays,
                         struct preemption *ret_plan)
{
    bool found = __real_preempt_best(p, s, demand, held_count, home, stays, ret_plan);
    bool is_own = demand->lifted == 0 && s == &p->shapes[p->jobs[demand->job].shape];
    if (!found || is_busy || !is_own) return found;
    is_busy = true;
    check_victims(p, ret_plan, demand, home, stays);
    is_busy = false;
    return found;
}

/* ---- reasons ---- */

enum bar {
    BAR_NONE,
    BAR_QUOTA,
    BAR_WORKERS,
    BAR_DOLLARS,
    BAR_GATE,
    BAR_BUDGET,
    BAR_PRICE,
    BAR_CLASS,
    BAR_END
};

static enum bar bar_of(uint32_t reason)
{
    switch (reason) {
    case REASON_WAIT_QUOTA: return BAR_QUOTA;
    case REASON_WAIT_WORKERS: return BAR_WORKERS;
    case REASON_WAIT_ACCOUNT_BUDGET: return BAR_DOLLARS;
    case REASON_GATE_HOUR:
    case REASON_GATE_JOB:
    case REASON_GATE_MONTH: return BAR_GATE;
    case REASON_WAIT_BUDGET: return BAR_BUDGET;
    case REASON_WAIT_PRICE: return BAR_PRICE;
    case REASON_WAIT_CLASS_SHARE: return BAR_CLASS;
    default: return BAR_NONE;
    }
}

static void lift_gate(struct gate *gate)
{
    gate->usd_micros_per_hour_max = gate->usd_micros_per_job_max = GATE_NONE;
    gate->usd_micros_per_month_max = GATE_NONE;
}

static void lift_gates(pool *p)
{
    for (uint32_t i = 0; i < p->accounts_end; i++) lift_gate(&p->accounts[i].gate);
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) lift_gate(&p->class_gates[i]);
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++) lift_gate(&p->pool_gates[i]);
}

static void lift_accounts(pool *p, enum bar bar)
{
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        struct account *a = &p->accounts[i];
        for (uint32_t kind = 0; bar == BAR_QUOTA && kind < QUOTA_KINDS; kind++)
            a->has_quota[kind] = 0;
        if (bar == BAR_WORKERS) a->workers_max = 0;
        if (bar != BAR_DOLLARS) continue;
        a->usd_micros_per_hour_max = 0;
        for (uint32_t k = 0; k < QUOTA_PERIODS; k++) a->usd_micros_max[k] = 0;
    }
}

static void lift_prices(pool *p, struct shape *s)
{
    s->threshold_ppm = UINT32_MAX;
    p->class_buying[s->job_class] = (struct buying){0};
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++)
        p->pool_buying[i] = (struct buying){0};
}

static void lift(pool *p, enum bar bar, uint32_t job)
{
    struct shape *s = &p->shapes[p->jobs[job].shape];
    lift_accounts(p, bar);
    if (bar == BAR_GATE) lift_gates(p);
    if (bar == BAR_BUDGET) {
        s->budget_usd_micros_per_hour = 0;
        p->jobs[job].quiet_until_us = 0;
    }
    if (bar == BAR_PRICE) lift_prices(p, s);
    if (bar == BAR_CLASS) p->classes[s->job_class].burst_ppm = 1000000;
}

static bool helps(const pool *p, uint32_t job, enum bar only, enum bar but)
{
    pool *copy = copy_of(p);
    const struct job *j = &copy->jobs[job];
    for (enum bar bar = BAR_QUOTA; bar < BAR_END; bar++)
        if (only != BAR_NONE ? bar == only : bar != but) lift(copy, bar, job);
    bool stays = job_is_bound(j) || plan_works_still(copy, j);
    bool found = starts(copy, job, j->region_index, stays, /* more */ true, KINDS_ALL);
    struct preemption plan;
    if (!found && held_by(copy, job) < j->devices_min) {
        const struct shape *s = &copy->shapes[j->shape];
        uint32_t has = held_by(copy, job);
        struct demand demand = demand_of(s, terms_of(copy, s), s->devices_min - has,
                                         job_holding(copy, job).usd_micros_per_hour);
        demand.job = job;
        demand.order = j->order;
        if (job_is_bound(j)) plan_stay_in_match(copy, j, &demand);
        demand_limit(copy, &demand, job);
        found = demand.workers_left > 0 && demand_free_of_gates(copy, &demand) &&
                __real_preempt_best(copy, s, &demand, has, j->region_index, stays, &plan);
    }
    free(copy);
    return found;
}

/* Who waits for devices to begin with has them neither without victims nor with. */
static void check_stock(const pool *p, uint32_t job)
{
    if (held_by(p, job) >= p->jobs[job].devices_min) return; /* more of them */
    reasons_checked++;
    if (helps(p, job, /* nothing */ BAR_END, BAR_NONE))
        fail_with(p, "it waits and could start", p->jobs[job].job_id, REASON_WAIT_CAPACITY);
}

static void check_reason(const pool *p, uint32_t job, uint32_t reason)
{
    enum bar bar = bar_of(reason);
    if (reason == REASON_WAIT_CAPACITY) check_stock(p, job);
    if (bar == BAR_NONE) return;
    reasons_checked++;
    if (helps(p, job, bar, BAR_NONE) || !helps(p, job, BAR_NONE, bar)) return;
    fail_with(p, "a reason is not true", p->jobs[job].job_id, reason);
}

void __wrap_act_decision(pool *p, struct pool_output *out, struct pool_decision decision)
{
    bool says = decision.kind == DECISION_WAIT || decision.kind == DECISION_REFUSE;
    uint32_t job = says && !is_busy ? table_find(&p->job_table, decision.job_id) : SLOT_NONE;
    if (job != SLOT_NONE && job_is_live(&p->jobs[job]) && p->jobs[job].shape != SLOT_NONE) {
        is_busy = true;
        check_reason(p, job, decision.reason);
        is_busy = false;
    }
    __real_act_decision(p, out, decision);
}

__attribute__((destructor)) static void tell(void)
{
    printf("audit: %" PRIu64 " victims and %" PRIu64 " reasons were true\n", victims_checked,
           reasons_checked);
}
