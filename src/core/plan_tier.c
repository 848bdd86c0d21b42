/* From the next tier (tier.h) back to its own.
 *
 * Rule       A job that runs in the next tier leaves it when its own tier has its least at once, by all that limits
 *            it and within its budget beside what it pays now, with no fewer NCU than it holds; right
 *            after a checkpoint, so that next to nothing is done twice. It is queued with its age and
 *            starts in its own tier in the same round.
 * Hysteresis It has been there for TIER_HOLD_US, twice as long after each return; and is not expected to
 *            end before it would have stayed as long again.
 * Limits     Jobs that never save stay, and those with a deadline (deadline.h). In another region the devices may
 *            be gone when its workers have handed over: then it takes what there is, and the hold
 *            counts. */
#include "core/act.h"
#include "core/deadline.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/predict.h"
#include "core/rate.h"
#include "core/tier.h"

bool plan_is_degraded(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    if (!job_is_bound(j)) return false;
    const struct shape *s = &p->shapes[j->shape];
    const struct job_terms *terms = terms_of(p, s);
    if (terms->degrade == 0) return false;
    struct tiers tiers = tiers_of(p, s, terms);
    struct demand demand = {.compat_mask = tiers.own};
    return tier_anchor(p, job, &tiers, &demand) && demand.compat_mask == 0;
}

/* Of what it holds, as mixes count it. */
static uint64_t held_ncu_milli(const pool *p, uint32_t job, const struct demand *demand)
{
    uint64_t milli = 0;
    for (uint32_t l = p->jobs[job].leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (!near_counts(p, &p->leases[l])) continue;
        uint32_t model = p->offers[p->nodes[p->leases[l].node].offer].model;
        milli += rate_worth_micro(p, demand->rates, model) * p->leases[l].device_count / 1000 *
                 demand->part_milli / 1000;
    }
    return milli;
}

/* All that its own tier would give it now, were it in the queue. */
static bool has_own(const pool *p, uint32_t job, uint64_t *ret_own_milli, uint64_t *ret_held_milli)
{
    const struct shape *s = &p->shapes[p->jobs[job].shape];
    struct tiers tiers = tiers_of(p, s, terms_of(p, s));
    struct demand demand;
    struct mix mix;
    plan_demand(p, job, &demand);
    demand.compat_mask = tiers.own;
    demand.next_tier = 0;
    if (demand.rates != NULL) demand.compat_mask &= ~rate_never(p, demand.rates, tiers.own);
    *ret_held_milli = held_ncu_milli(p, job, &demand);
    if (!plan_best_region(p, s, &demand, SLOT_NONE, /* stays */ false, &mix)) return false;
    *ret_own_milli = mix.ncu_milli;
    return true;
}

static int64_t hold_us(const struct job *j)
{
    uint32_t doublings =
        j->tier_returns < TIER_DOUBLINGS_MAX ? j->tier_returns : TIER_DOUBLINGS_MAX;
    return TIER_HOLD_US << doublings;
}

bool plan_climb(pool *p, uint32_t job, struct holding held, int64_t *ret_look_us,
                struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    uint64_t own_milli = 0, held_milli = 0;
    int64_t from_us = j->short_since_us + hold_us(j), end_us;
    *ret_look_us = INT64_MAX;
    if (j->state != JOB_RUNNING || j->deadline_us != 0 || !plan_is_degraded(p, job)) return false;
    *ret_look_us = from_us > p->now_us ? from_us : p->now_us + TIER_HOLD_US;
    if (p->now_us < from_us || held.up_count < held.device_count || !act_has_room(out))
        return false;
    if (j->ckpt_us == 0 || p->now_us - j->ckpt_us > TIER_SAVED_US) return false;
    end_us = predict_end_us(p, job);
    if (end_us != INT64_MAX && end_us - p->now_us < hold_us(j)) return false;
    if (!has_own(p, job, &own_milli, &held_milli) || own_milli < held_milli) return false;
    j->tier_returns++;
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_TIER_BACK,
                                        .job_id = j->job_id,
                                        .a = p->now_us - j->ckpt_us,
                                        .b = (int64_t)own_milli,
                                        .c = (int64_t)held_milli});
    plan_requeue(p, job, out);
    return true;
}
