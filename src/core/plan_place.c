/* Placement: a job starts in its region (plan_region.c), takes nodes there and grows. */
#include "core/act.h"
#include "core/ask.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/data.h"
#include "core/deadline.h"
#include "core/gate.h"
#include "core/lease.h"
#include "core/ledger.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/plan_match.h"
#include "core/plan_preempt.h"
#include "core/plan_repack.h"
#include "core/plan_reserve.h"
#include "core/predict.h"
#include "core/prices.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/ranking.h"
#include "core/risk.h"
#include "core/spot_watch.h"

static bool buys_fallback(const pool *p, const struct shape *s, const struct supply *supply,
                          const struct offer *o)
{
    if (o->capacity != CAPACITY_ON_DEMAND) return false;
    if (s->capacity_mask != 0 && (s->capacity_mask >> CAPACITY_SPOT & 1) == 0) return false;
    for (uint64_t rest = supply->models; rest != 0; rest &= rest - 1) {
        const struct market *market =
            market_of(p, supply->region_index, (uint32_t)__builtin_ctzll(rest));
        for (uint32_t i = 0; i < market->count; i++) {
            const struct offer *other = &p->offers[p->prices[market->first + i].offer];
            if (other->capacity == CAPACITY_SPOT && offer_stock(p, other) > 0 &&
                !offer_is_above(other, s->threshold_ppm))
                return false; /* spot can be had: on demand was simply cheaper */
        }
    }
    return true;
}

static void take_idle(pool *p, uint32_t job, const struct pick *pick, int64_t devices_left,
                      struct pool_output *out)
{
    struct node *n = &p->nodes[pick->node];
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_FITS,
                                        .job_id = p->jobs[job].job_id,
                                        .node_key = n->node_key,
                                        .offer_id = p->offers[pick->offer].offer_id,
                                        .a = devices_left,
                                        .b = n->devices_free});
    ledger_settle(p, pick->node, out);
    (void)lease_make(p, job, pick->node, pick->device_count, pick->paid_milli);
    job_touch(p, job); /* no node has to come up first: the gang may be complete already */
}

static void buy(pool *p, uint32_t job, const struct pick *pick, bool fallback, int64_t budget_left,
                struct pool_output *out)
{
    const struct offer *o = &p->offers[pick->offer];
    uint32_t node = node_order(p, pick->offer, job);
    uint32_t lease = lease_make(p, job, node, pick->device_count, pick->paid_milli);
    p->leases[lease].fallback = fallback;
    struct pool_decision decision = {
        .reason = fallback ? REASON_FALLBACK : ranking_reason(p, pick->offer),
        .a = o->usd_micros_per_hour,
        .b = budget_left == INT64_MAX ? 0 : budget_left,
        .c = (int64_t)p->models[o->model].ncu_milli * part_of_lease(&p->leases[lease]) / 1000};
    if (plan_is_ncu(p, &p->jobs[job])) decision.reason = REASON_NCU_PART;
    if (decision.reason == REASON_RANKED) decision.b = risk_weighed(o, o->usd_micros_per_hour);
    if (p->jobs[job].deadline_us != 0 && p->jobs[job].choice != DEADLINE_ANY)
        decision = deadline_purchase(p, job, pick->offer);
    decision.kind = DECISION_BUY;
    decision.job_id = p->jobs[job].job_id;
    decision.node_key = p->nodes[node].node_key;
    decision.offer_id = o->offer_id;
    act_decision(p, out, decision);
}

bool plan_take(pool *p, uint32_t job, const struct supply *supply, const struct pick *pick,
               struct pool_output *out)
{
    const struct shape *s = &p->shapes[p->jobs[job].shape];
    bool fallback = pick->node == SLOT_NONE && !plan_is_ncu(p, &p->jobs[job]) &&
                    buys_fallback(p, s, supply, &p->offers[pick->offer]);
    int64_t devices = supply->left.devices_left + (int64_t)pick->device_count * pick->node_count;
    int64_t budget = supply->left.budget_left_usd_micros;
    if (budget != INT64_MAX) budget += pick->usd_micros_per_hour * pick->node_count;
    for (uint32_t i = 0; i < pick->node_count; i++) {
        if (!act_has_room(out)) return false;
        if (!lease_can_make(p)) return true;
        if (pick->node != SLOT_NONE)
            take_idle(p, job, pick, devices, out);
        else
            buy(p, job, pick, fallback, budget, out);
        devices -= pick->device_count;
        if (budget != INT64_MAX) budget -= pick->usd_micros_per_hour;
    }
    return true;
}

static void say_next_tier(pool *p, const struct job *j, const struct mix *mix,
                          struct pool_output *out)
{
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_NEXT_TIER,
                                        .job_id = j->job_id,
                                        .a = j->devices_min,
                                        .b = mix->device_count,
                                        .c = (int64_t)mix->ncu_milli});
}

/* mix: what it takes there, NULL = devices of lower classes. */
void plan_bind(pool *p, uint32_t job, uint32_t region_index, const struct mix *mix,
               struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    if (j->region_index != SLOT_NONE && j->region_index != region_index)
        plan_say_region_changed(p, j, mix, out);
    plan_claim_drop(p, job); /* what it could not take now it claims again where it is */
    shape_queue_remove(p, job);
    j->region_index = region_index;
    j->state = JOB_STARTING;
    j->wait_reason = REASON_NONE;
    j->over_said = 0;
    j->over_since_us = 0;
    j->short_since_us = p->now_us;
    data_bring(p, job, region_index, out);
    if (mix != NULL && mix->is_next_tier) say_next_tier(p, j, mix, out);
    plan_match_list(p, job);
    job_touch(p, job);
}

void plan_stay_in_match(const pool *p, const struct job *j, struct demand *demand)
{
    if (j->match_market != SLOT_NONE)
        demand->compat_mask &= UINT64_C(1) << j->match_market % p->config.limits.models_max;
}

/* Short of its minimum with all that is idle or can be bought: devices of lower classes, of these kinds of
 * capacity. True: done. */
static bool preempt_for(pool *p, uint32_t job, uint32_t kinds, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    struct preemption plan;
    if (j->promised_count > 0 && j->promise_until_us == 0) return false; /* on its way */
    if (plan_is_ncu(p, j)) return false;
    struct holding held = job_holding(p, job);
    uint32_t held_count = job_is_bound(j) ? held.device_count : 0;
    if (held_count >= s->devices_min) return false;
    struct demand demand =
        demand_of(s, terms_of(p, s), s->devices_min - held_count, held.usd_micros_per_hour);
    demand.job = job;
    demand.order = j->order;
    if (job_is_bound(j)) plan_stay_in_match(p, j, &demand);
    demand_limit(p, &demand, job); /* no victims for what its account may not hold */
    if (demand.workers_left == 0) return false;
    if (!demand_keep_kinds(&demand, kinds) || !demand_free_of_gates(p, &demand)) return false;
    if (!preempt_best(p, s, &demand, held_count, j->region_index,
                      job_is_bound(j) || plan_works_still(p, j), &plan))
        return false;
    demand.near = plan.near;
    demand.single_node = plan.single_node;
    promise_drop(p, job);
    if (!job_is_bound(j)) plan_bind(p, job, plan.region_index, NULL, out);
    if (plan.reclaims) {
        preempt_widen(p, s->devices_min - held_count, &demand);
        quota_reclaimed(p);
        j->reclaims = 1;
    }
    plan_preempt(p, job, &demand, &plan, out);
    return true;
}

/* What it would take more: up to its most. */
static struct demand growth(const pool *p, uint32_t job, const struct holding *held)
{
    const struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    bool has_least = held->device_count >= j->devices_min;
    struct demand demand = demand_of(s, terms_of(p, s), j->devices_max - held->device_count,
                                     held->usd_micros_per_hour);
    demand.job = job;
    plan_stay_in_match(p, j, &demand);
    /* Beyond its minimum it takes nothing that is promised to anybody. */
    demand.order = has_least ? UINT64_MAX : j->order;
    if (!has_least) demand.run_us = predict_run_us(p, s, j->project);
    if (has_least && p->now_us < j->quiet_until_us)
        demand.budget_left_usd_micros =
            budget_left(s->budget_usd_micros_per_hour / 10 * 9, held->usd_micros_per_hour);
    demand.probes = has_least;
    demand_limit(p, &demand, job);
    return demand;
}

/* Devices of the baseline that are promised to it. */
static uint32_t promised_baseline(const pool *p, const struct job *j)
{
    uint32_t count = 0;
    for (uint32_t at = j->promises.head; at != SLOT_NONE; at = p->promises[at].job_link.next)
        if (!gate_is_bought(&p->offers[p->nodes[p->promises[at].node].offer]))
            count += p->promises[at].device_count;
    return count;
}

/* Where it found its least without purchases, it takes that. */
static void keep_on_baseline(const pool *p, uint32_t job, uint32_t missing, struct demand *demand)
{
    const struct job *j = &p->jobs[job];
    struct demand baseline = *demand;
    struct mix mix;
    if (class_bursts(p, j->job_class) || missing == 0 || plan_is_ncu(p, j)) return;
    if (!demand_keep_kinds(&baseline, KINDS_BASELINE)) return;
    supply_best(p, &baseline, j->region_index, missing, &mix);
    if (mix.device_count >= missing || promised_baseline(p, j) >= missing) *demand = baseline;
}

bool plan_grow(pool *p, uint32_t job, struct holding held, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    ASSERT(job_is_bound(j));
    if (plan_is_ncu(p, j)) return plan_grow_ncu(p, job, held, out);
    if (held.up_count >= j->devices_max) j->wait_reason = REASON_NONE; /* it waits for nothing */
    if (held.device_count >= j->devices_min) plan_claim_drop(p, job);
    if (held.device_count >= j->devices_max) return true;
    uint32_t missing = j->devices_min > held.device_count ? j->devices_min - held.device_count : 0;
    struct demand demand = growth(p, job, &held);
    keep_on_baseline(p, job, missing, &demand);
    if (demand.single_node && held.device_count > 0) return true; /* nowhere but there */
    struct near asked = demand.near;
    bool is_single = demand.single_node, least = false;
    enum supply_order order = SUPPLY_BY_NCU;
    if (demand.near.open || demand.next_tier != 0 ||
        (missing > 0 && demand.devices_left > 1)) { /* else by any order */
        struct mix mix;
        supply_best(p, &demand, j->region_index, missing, &mix);
        if (mix.device_count < missing && demand.next_tier != 0) { /* it holds nothing yet */
            demand.compat_mask = demand.next_tier;
            supply_best(p, &demand, j->region_index, missing, &mix);
        }
        demand.node_devices_min = mix.node_devices_min;
        demand.only_offer = mix.only_offer;
        demand.near = mix.near;
        demand.single_node = mix.single_node;
        if (mix.models != 0) demand.compat_mask = mix.models;
        least = mix.devices_most != 0;
        if (least) demand.devices_left = mix.devices_most;
        order = (enum supply_order)mix.order;
    }
    struct supply supply;
    struct pick pick;
    supply_begin(&supply, p, &demand, j->region_index, order);
    for (uint64_t rest = supply.models; rest != 0; rest &= rest - 1)
        prices_sort(p, market_of(p, j->region_index, (uint32_t)__builtin_ctzll(rest)));
    bool took = false;
    for (; supply_next(&supply, &pick); took = true)
        if (!plan_take(p, job, &supply, &pick, out)) return false;
    /* Its least was to be had in a special way only: what else there is, is looked for anew. */
    bool special = demand.node_devices_min > 1 || demand.only_offer != SLOT_NONE ||
                   (near_is_set(&demand.near) != near_is_set(&asked)) || demand.single_node ||
                   least;
    if (took && special && !is_single) {
        job_touch(p, job);
        return true;
    }
    if (!took && missing > 0 && held.device_count == 0 && j->match_market != SLOT_NONE) {
        plan_match_drop(p, job); /* its match is gone: what there is elsewhere, before victims */
        job_touch(p, job);
        return true;
    }
    if (job_holding(p, job).device_count >= j->devices_min) {
        plan_claim_drop(p, job);
        if (j->promised_count > 0) job_touch(p, job); /* what was kept for it is for anybody now */
        promise_drop(p, job);
    }
    if (missing > 0 && act_has_room(out) && preempt_for(p, job, KINDS_ALL, out)) return true;
    if (supply.left.quota_short && j->promised_count == 0)
        return true; /* the gang is reviewed, more than it is a favour */
    if (supply.left.devices_left > 0 && act_has_room(out)) plan_say_short(p, job, out);
    return true;
}

/* Its class starts at once or not at all: what there is, said with the refusal. */
static void refuse_to_queue(pool *p, uint32_t job, const struct demand *demand,
                            struct pool_output *out)
{
    const struct shape *s = &p->shapes[p->jobs[job].shape];
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (s->region != 0 && s->region != p->regions[i].region) continue;
        if ((s->compat_mask & p->regions[i].model_mask) == 0) continue;
        struct mix mix;
        supply_best(p, demand, i, s->devices_min, &mix);
        if (mix.device_count > most) most = mix.device_count;
    }
    job_end(p, job, JOB_REFUSED, DECISION_REFUSE, REASON_NO_QUEUE,
            (struct numbers){.a = most, .b = s->devices_min}, out);
}

/* Many accounts ask for the same. Once one of them was told that nothing is to be had, the others
 * need not look before supply improves: if all has been said to them, and they claim nothing. */
static bool is_plain(const pool *p, const struct shape *s, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    return s->devices_min == 1 && s->only_job_id == 0 && j->region_index == SLOT_NONE &&
           j->leases.count == 0;
}

bool plan_has_failed(const pool *p, const struct shape *s)
{
    return p->failed_hash == s->ask_hash && p->failed_at == p->supply_changes &&
           p->failed_hash != 0;
}

static bool has_failed(const pool *p, const struct shape *s, uint32_t job)
{
    return plan_has_failed(p, s) && is_plain(p, s, job) &&
           !quota_may_reclaim(p, p->jobs[job].account) &&
           p->jobs[job].wait_reason == REASON_WAIT_CAPACITY;
}

/* Not if limits of its account or a gate had a say, or quotas in who may go for it: they are not those of
 * the others. */
static void note_failed(pool *p, const struct shape *s, const struct demand *demand,
                        const struct mix *mix)
{
    struct demand taking = *demand;
    if (!is_plain(p, s, demand->job) || mix->met != 0 || demand->quota_short) return;
    if (quota_is_defined(p) && p->classes[s->job_class].may_preempt_mask != 0) return;
    if (!demand_free_of_gates(p, &taking) || taking.capacity_mask != demand->capacity_mask) return;
    p->failed_hash = s->ask_hash;
    p->failed_at = p->supply_changes;
}

void plan_demand(const pool *p, uint32_t job, struct demand *ret_demand)
{
    const struct shape *s = &p->shapes[p->jobs[job].shape];
    struct holding held = job_holding(p, job); /* a gang given up may still be paid for */
    *ret_demand = demand_of(s, terms_of(p, s), s->devices_max, held.usd_micros_per_hour);
    ret_demand->job = job;
    ret_demand->order = p->jobs[job].order;
    ret_demand->run_us = predict_run_us(p, s, p->jobs[job].project);
    demand_limit(p, ret_demand, job);
}

/* A gang that is matched waits for devices of one model; but before it takes those of others, or is refused,
 * it starts on what there is of several. */
static bool takes_any_mix(const pool *p, const struct shape *s, uint32_t job)
{
    return p->classes[s->job_class].may_preempt_mask != 0 || !class_queues(p, s->job_class) ||
           quota_may_reclaim(p, p->jobs[job].account);
}

static void start(pool *p, uint32_t shape, uint32_t job, const struct mix *mix,
                  struct pool_output *out)
{
    plan_bind(p, job, mix->region_index, mix, out);
    promise_drop(p, job); /* it is planned next: nobody behind it comes before */
    plan_match_next(p, shape);
}

/* Whoever does not burst is put on the baseline, and recalls what is lent of it, before anything is bought
 * for him. */
static bool start_on_baseline(pool *p, uint32_t shape, uint32_t job, struct pool_output *out)
{
    struct demand demand;
    struct mix mix;
    if (class_bursts(p, p->shapes[shape].job_class) || !act_has_room(out)) return false;
    if (plan_is_ncu(p, &p->jobs[job])) return false;
    plan_demand(p, job, &demand);
    if (!demand_keep_kinds(&demand, KINDS_BASELINE)) return false;
    if (!plan_match_whole(p, job, &demand, plan_works_still(p, &p->jobs[job]), &mix))
        return preempt_for(p, job, KINDS_BASELINE, out);
    start(p, shape, job, &mix, out);
    return true;
}

void plan_queued(pool *p, uint32_t shape, struct pool_output *out)
{
    const struct shape *s = &p->shapes[shape];
    uint32_t job = plan_match_first(p, s);
    ASSERT(job != SLOT_NONE);
    deadline_decide(p, job, out);
    if (p->jobs[job].deadline_us != 0) {
        p->jobs[job].review_us = p->now_us + SPOT_TICK_US;
        job_retime(p, job);
    }
    if (has_failed(p, s, job)) {
        heap_set(&p->plans, plan_of_shape(p, shape), HEAP_KEY_NEVER);
        ask_rest(p, shape);
        return;
    }
    if (start_on_baseline(p, shape, job, out)) return;
    struct demand demand;
    plan_demand(p, job, &demand);
    struct mix mix;
    bool found = plan_match_whole(p, job, &demand, plan_works_still(p, &p->jobs[job]), &mix);
    if (found || (mix.device_count >= s->devices_min && takes_any_mix(p, s, job))) {
        start(p, shape, job, &mix, out);
        return;
    }
    if (!act_has_room(out)) return;
    if (preempt_for(p, job, KINDS_ALL, out)) return;
    heap_set(&p->plans, plan_of_shape(p, shape), HEAP_KEY_NEVER);
    if (plan_repack(p, job, &demand, out)) {
        ask_stir(p, shape);
        return;
    }
    if (!class_queues(p, s->job_class) && p->jobs[job].started_us == 0) {
        if (plan_refuse_gated(p, job, out)) return;
        refuse_to_queue(p, job, &demand, out);
        return;
    }
    note_failed(p, s, &demand, &mix);
    if (plan_say_waits(p, job, &demand, &mix, out)) plan_reserve(p, job, &demand, out);
    if (s->queue.head == job && has_failed(p, s, job))
        ask_rest(p, shape);
    else
        ask_stir(p, shape);
}
