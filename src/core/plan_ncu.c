/* Jobs that ask for NCU: the cheapest mix of devices of a region that reaches them.
 *
 * Rule       Such a job is a gang of as many devices as its mix has: devices_min and devices_max of the job are
 *            what it holds while that reaches its NCU, and one more while it does not. It is bound where
 *            the mix is cheapest and takes all of it at once (supply_ncu.h); what is lost is made up
 *            by the cheapest mix of the NCU that are missing, within what is left of its budget.
 * Limits     Nobody is preempted and nothing reserved or claimed for it; it does not change what it holds
 *            for something cheaper. */
#include "core/act.h"
#include "core/plan.h"
#include "core/predict.h"
#include "core/supply_ncu.h"

bool plan_is_ncu(const pool *p, const struct job *j)
{
    return terms_of(p, &p->shapes[j->shape])->ncu_milli != 0;
}

void plan_ncu_count(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (!plan_is_ncu(p, j)) return;
    uint32_t held = job_holding(p, job).device_count;
    bool whole = ncu_held_milli(p, job) >= terms_of(p, &p->shapes[j->shape])->ncu_milli;
    j->devices_min = j->devices_max = held + !whole;
}

static struct demand missing(const pool *p, uint32_t job, const struct holding *held)
{
    const struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    uint64_t has_milli = ncu_held_milli(p, job);
    struct demand demand = demand_of(s, terms_of(p, s), /* devices */ 1, held->usd_micros_per_hour);
    demand.job = job;
    demand.order = j->order;
    demand.run_us = predict_run_us(p, s, j->project);
    demand_limit(p, &demand, job);
    demand.ncu_left_milli -= has_milli < demand.ncu_left_milli ? has_milli : demand.ncu_left_milli;
    return demand;
}

static void say_mix(pool *p, uint32_t job, const struct ncu_supply *n, struct pool_output *out)
{
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_NCU_MIX,
                                        .job_id = p->jobs[job].job_id,
                                        .a = n->mix.usd_micros_per_hour,
                                        .b = n->device_count,
                                        .c = (int64_t)n->supply.left.ncu_left_milli});
}

bool plan_grow_ncu(pool *p, uint32_t job, struct holding held, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    struct demand demand = missing(p, job, &held);
    struct ncu_supply n;
    struct pick pick;
    bool done = true;
    if (demand.ncu_left_milli == 0) {
        j->wait_reason = REASON_NONE;
        return true;
    }
    if (!act_has_room(out)) return false;
    if (!ncu_supply_begin(&n, p, &demand, j->region_index)) {
        plan_say_short(p, job, out);
        return true;
    }
    say_mix(p, job, &n, out);
    while (done && ncu_supply_next(&n, &pick)) done = plan_take(p, job, &n.supply, &pick, out);
    plan_ncu_count(p, job);
    return done;
}
