/* Giving back: gangs that cannot be completed, and capacity on demand when spot is cheap again. */
#include "core/act.h"
#include "core/assert.h"
#include "core/buying.h"
#include "core/deadline.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/prices.h"
#include "core/promise.h"
#include "core/rate.h"
#include "core/risk.h"
#include "core/supply.h"

/* Back into the queue with its age; the nodes go to others or home. */
void plan_requeue(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    MARK(out, JOB_REQUEUED);
    if (j->state == JOB_RUNNING) deadline_lost(p, job);
    promise_drop(p, job);
    job_interest(p, job, false);
    heap_set(&p->plans, job, HEAP_KEY_NEVER);
    j->state = JOB_QUEUED;
    if (j->last_kind != DECISION_WAIT || j->last_reason != j->wait_reason)
        j->wait_reason = REASON_NONE; /* other things were said since */
    j->review_us = j->budget_check_us = INT64_MAX;
    job_retime(p, job);
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        lease_stop(p, l, REASON_WAIT_CAPACITY, p->now_us + p->config.drain_us);
    if (!j->match_leaves) j->match_market = SLOT_NONE;
    j->match_leaves = 0;
    plan_ncu_count(p, job);
    rate_settle(p, job);
    shape_queue_insert(p, job);
}

/* A gang that is short and cannot be completed here: at once if nothing is up here, otherwise after
 * a boot's time, so that two gangs never wait for each other's halves. */
static bool is_hopeless(const pool *p, const struct job *j, struct holding held)
{
    if (j->state != JOB_STARTING || held.device_count >= j->devices_min) return false;
    bool late = p->now_us >= j->short_since_us + p->config.boot_timeout_us;
    if (j->promised_count > 0 && !late) return false; /* its devices are being freed */
    if (held.up_count + held.booting_count == 0) return true;
    return late;
}

/* Capacity on demand taken for want of spot, or spot that its provider says it will soon take. */
static bool wants_out(const pool *p, const struct lease *lease)
{
    return lease->fallback || risk_is_told_high(&p->offers[p->nodes[lease->node].offer]);
}

static bool has_one_that_wants_out(const pool *p, const struct job *j)
{
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (wants_out(p, &p->leases[l])) return true;
    return false;
}

/* The dearest node, with its risk, of those that want out and have been held long enough; SLOT_NONE if
 * none yet, then ret_ready_us is when there will be one. */
static uint32_t oldest_fallback(const pool *p, const struct job *j, int64_t *ret_ready_us)
{
    uint32_t dearest = SLOT_NONE;
    *ret_ready_us = INT64_MAX;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        const struct lease *lease = &p->leases[l];
        if (lease->state != LEASE_ACTIVE || !wants_out(p, lease)) continue;
        if (p->nodes[lease->node].leases.count > 1) continue; /* another job works there */
        int64_t ready_us = lease->since_us + SWAP_HOLD_US;
        if (ready_us > p->now_us) {
            if (ready_us < *ret_ready_us) *ret_ready_us = ready_us;
            continue;
        }
        if (dearest == SLOT_NONE ||
            p->offers[p->nodes[lease->node].offer].unit_usd_micros >
                p->offers[p->nodes[p->leases[dearest].node].offer].unit_usd_micros)
            dearest = l;
    }
    return dearest;
}

/* Spot that is clearly cheaper than what is paid, and clearly below the threshold, with all the
 * devices that would be given up for it. */
static uint32_t clearly_cheaper_spot(const pool *p, const struct shape *s,
                                     const struct demand *demand, uint32_t region_index,
                                     int64_t unit_usd_micros, uint32_t device_count)
{
    uint64_t models = demand->compat_mask & p->regions[region_index].model_mask;
    uint32_t threshold_ppm = (uint32_t)((int64_t)s->threshold_ppm * SWAP_GAIN_PPM / 1000000);
    for (uint64_t rest = models; rest != 0; rest &= rest - 1) {
        const struct market *market = market_of(p, region_index, (uint32_t)__builtin_ctzll(rest));
        for (uint32_t at = prices_first(p, market, 1U << CAPACITY_SPOT); at != SLOT_NONE;
             at = prices_next(p, market, at, 1U << CAPACITY_SPOT)) {
            const struct offer *o = &p->offers[at];
            if (o->unit_usd_micros > unit_usd_micros * SWAP_GAIN_PPM / 1000000) break;
            uint64_t devices = (uint64_t)offer_stock(p, o) * o->device_count;
            if (devices >= device_count && near_allows(&demand->near, o) &&
                o->share_ppm <= threshold_ppm && !supply_is_above_max(demand, o))
                return at;
        }
    }
    return SLOT_NONE;
}

/* Models that plan_grow() would buy for it, or it would give up one node after the other for nothing. */
static uint64_t bought_again(const pool *p, uint32_t job, struct demand demand)
{
    uint32_t market = p->jobs[job].match_market;
    demand.job = job;
    demand_limit(p, &demand, job);
    if (market == SLOT_NONE) return demand.compat_mask;
    return demand.compat_mask & UINT64_C(1) << market % p->config.limits.models_max;
}

/* Micro-dollars per NCU-hour, without the risk. */
static int64_t paid_per_ncu(const pool *p, uint32_t offer)
{
    const struct offer *o = &p->offers[offer];
    return o->usd_micros_per_hour * 1000 /
           ((int64_t)p->models[o->model].ncu_milli * o->device_count);
}

/* One node at a time, and only while nothing else of the job is on its way: a job never trades all
 * it has for promises. Returns when to look again. */
static int64_t swap_back(pool *p, uint32_t job, struct holding held, struct pool_output *out)
{
    const struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    int64_t ready_us = INT64_MAX;
    if (j->state != JOB_RUNNING || plan_is_ncu(p, j) || !has_one_that_wants_out(p, j))
        return INT64_MAX;
    uint32_t lease = oldest_fallback(p, j, &ready_us);
    if (lease == SLOT_NONE || held.up_count < held.device_count) return ready_us;
    uint32_t node = p->leases[lease].node;
    int64_t unit = p->offers[p->nodes[node].offer].unit_usd_micros;
    struct demand demand = demand_of(s, terms_of(p, s), /* devices */ 1, /* committed */ 0);
    demand.compat_mask = bought_again(p, job, demand);
    demand.device_usd_micros_max = buying_device_max(p, s);
    demand.bid_usd_micros = buying_bid(p, s);
    near_anchor(p, job, &demand);
    uint32_t spot =
        clearly_cheaper_spot(p, s, &demand, j->region_index, unit, p->leases[lease].device_count);
    if (spot == SLOT_NONE || !act_has_room(out)) return p->now_us + SWAP_HOLD_US;
    const struct offer *held_offer = &p->offers[p->nodes[node].offer];
    int64_t ncu_milli = (int64_t)p->models[held_offer->model].ncu_milli * held_offer->device_count;
    MARK(out, SWAP_TO_SPOT);
    /* No overflow: the unit price of spot is below the held one, whose product is the node's price.
     */
    struct numbers numbers = {.a = paid_per_ncu(p, spot) * ncu_milli / 1000,
                              .b = held_offer->usd_micros_per_hour,
                              .c = held_offer->hazard_ppm};
    bool risky = held_offer->capacity == CAPACITY_SPOT;
    if (!risky) numbers.c = 0;
    node_drain(p, node, risky ? REASON_HAZARD_TOLD : REASON_CHEAPER_SPOT,
               p->now_us + p->config.drain_us, numbers, out);
    return p->now_us + SWAP_HOLD_US;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When its hourly budget is the concern again: a node has to go, or more may be bought. */
static int64_t budget_due_us(const pool *p, const struct job *j)
{
    int64_t due_us = INT64_MAX;
    if (j->over_since_us != 0 && p->now_us < j->over_since_us + BUDGET_HOLD_US)
        due_us = j->over_since_us + BUDGET_HOLD_US;
    if (p->now_us < j->quiet_until_us) due_us = earlier(due_us, j->quiet_until_us);
    return due_us;
}

/* After growing: what is the job's next concern, and when. */
void plan_review(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    struct holding held = job_holding(p, job);
    if (is_hopeless(p, j, held)) {
        plan_requeue(p, job, out);
        return;
    }
    int64_t climb_us;
    if (plan_climb(p, job, held, &climb_us, out)) return;
    job_interest(p, job,
                 held.device_count < j->devices_max || held.fallback_count > 0 ||
                     climb_us != INT64_MAX);
    int64_t moves_us =
        j->deadline_us != 0 ? deadline_review(p, job, held, out) : swap_back(p, job, held, out);
    j->review_us = earlier(earlier(moves_us, climb_us), budget_due_us(p, j));
    if (j->state == JOB_STARTING && held.device_count < j->devices_min)
        j->review_us = j->short_since_us + p->config.boot_timeout_us;
    job_rearm_budget(p, job);
    job_retime(p, job);
}
