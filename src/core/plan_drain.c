/* Draining: nodes we give up on while their workers can still hand over. */
#include "core/act.h"
#include "core/assert.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/plan.h"

static uint32_t least_threshold_ppm(const pool *p, const struct node *n)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct job *j = &p->jobs[p->leases[l].job];
        if (j->shape == SLOT_NONE) continue;
        uint32_t threshold_ppm = p->shapes[j->shape].threshold_ppm;
        if (threshold_ppm < least) least = threshold_ppm;
    }
    return least;
}

static int64_t price_at(const struct offer *o, uint32_t threshold_ppm)
{
    return o->on_demand_usd_micros_per_hour * (int64_t)threshold_ppm / 1000000;
}

void plan_drain_for_price(pool *p, uint32_t node, struct pool_output *out)
{
    struct node *n = &p->nodes[node];
    ASSERT(n->price_moved);
    n->price_moved = 0;
    node_retime(p, node);
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        uint32_t job = p->leases[l].job;
        if (p->jobs[job].budget_usd_micros > 0) job_rearm_budget(p, job);
    }
    if (!node_is_usable(n)) return;
    struct offer *o = &p->offers[n->offer];
    if (node_is_outbid(p, node)) {
        offer_outbid(o, n->bid_usd_micros);
        node_drain(p, node, REASON_PRICE_ABOVE_BID, p->now_us + p->config.drain_us,
                   (struct numbers){.a = o->usd_micros_per_hour, .b = n->bid_usd_micros}, out);
        return;
    }
    uint32_t threshold_ppm = least_threshold_ppm(p, n);
    if (o->capacity != CAPACITY_SPOT || o->share_ppm <= threshold_ppm) return;
    if (threshold_ppm > o->hot_ppm) o->hot_ppm = threshold_ppm;
    node_drain(p, node, REASON_PRICE_ABOVE_THRESHOLD, p->now_us + p->config.drain_us,
               (struct numbers){.a = o->usd_micros_per_hour, .b = price_at(o, threshold_ppm)}, out);
}

void plan_drain_for_notice(pool *p, uint32_t node, int64_t double_us, struct pool_output *out)
{
    const struct node *n = &p->nodes[node];
    ASSERT(n->notice_us != 0);
    int64_t deadline_us = n->notice_us - NOTICE_MARGIN_US;
    if (deadline_us < p->now_us) deadline_us = p->now_us;
    node_drain(p, node, REASON_NOTICE, deadline_us,
               (struct numbers){.a = n->notice_us > p->now_us ? n->notice_us - p->now_us : 0,
                                .b = double_us},
               out);
}

void plan_drain_asked(pool *p, uint32_t node, struct pool_output *out)
{
    if (!node_is_usable(&p->nodes[node])) return;
    node_drain(p, node, REASON_OPERATOR, p->now_us + p->config.drain_us, (struct numbers){0}, out);
}

/* Without it the gang is still complete: as counted, and as running. */
static bool can_spare(const pool *p, const struct job *j, struct holding held, uint32_t lease)
{
    const struct lease *l = &p->leases[lease];
    const struct node *n = &p->nodes[l->node];
    if (!lease_holds(l) || !node_is_usable(n)) return false;
    if (lease_usd_micros_per_hour(p, lease) == 0) return false;
    if (held.device_count - l->device_count < j->devices_min) return false;
    return n->state != NODE_READY || held.up_count < j->devices_min ||
           held.up_count - l->device_count >= j->devices_min;
}

/* The dearest per NCU that the job can spare, of equals the youngest; SLOT_NONE: there is none. */
static uint32_t dearest_to_spare(const pool *p, const struct job *j, struct holding held)
{
    uint32_t dearest = SLOT_NONE;
    int64_t dearest_unit = 0;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (!can_spare(p, j, held, l)) continue;
        int64_t unit = p->offers[p->nodes[p->leases[l].node].offer].unit_usd_micros;
        if (dearest != SLOT_NONE && unit < dearest_unit) continue;
        dearest = l;
        dearest_unit = unit;
    }
    return dearest;
}

void plan_leave(pool *p, uint32_t lease, uint32_t reason, struct numbers numbers,
                struct pool_output *out)
{
    const struct lease *l = &p->leases[lease];
    const struct node *n = &p->nodes[l->node];
    int64_t deadline_us = p->now_us + p->config.drain_us;
    if (n->leases.count == 1) {
        node_drain(p, l->node, reason, deadline_us, numbers, out);
        return;
    }
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_DRAIN,
                                        .reason = reason,
                                        .job_id = p->jobs[l->job].job_id,
                                        .node_key = n->node_key,
                                        .offer_id = p->offers[n->offer].offer_id,
                                        .a = numbers.a,
                                        .b = numbers.b,
                                        .c = numbers.c});
    lease_stop(p, lease, reason, deadline_us);
}

static void say_at_minimum(pool *p, struct job *j, int64_t budget, struct holding held,
                           struct pool_output *out)
{
    /* What is still booting will make others dispensable. */
    if (j->over_said || held.up_count < held.device_count) return;
    j->over_said = 1;
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_WAIT,
                                        .reason = REASON_BUDGET_AT_MINIMUM,
                                        .job_id = j->job_id,
                                        .a = held.kept_usd_micros_per_hour,
                                        .b = budget,
                                        .c = held.device_count});
}

/* Prices rose after buying: the hourly budget binds what is held, too. The why of the slack and of
 * the times is in limits.h. True: something was given up. */
bool plan_shed(pool *p, uint32_t job, struct holding held, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    int64_t budget = p->shapes[j->shape].budget_usd_micros_per_hour;
    int64_t kept = held.kept_usd_micros_per_hour;
    if (budget == 0 || kept <= budget) {
        j->over_since_us = 0;
        return false;
    }
    if (j->over_since_us == 0) j->over_since_us = p->now_us;
    bool lasts = p->now_us >= j->over_since_us + BUDGET_HOLD_US;
    if (kept <= budget + budget / BUDGET_SLACK_DIVISOR && !lasts) return false;
    uint32_t lease = dearest_to_spare(p, j, held);
    if (lease == SLOT_NONE) {
        say_at_minimum(p, j, budget, held, out);
        return false;
    }
    j->quiet_until_us = p->now_us + BUDGET_QUIET_US;
    plan_leave(p, lease, REASON_BUDGET_EXCEEDED,
               (struct numbers){.a = kept, .b = budget, .c = lease_usd_micros_per_hour(p, lease)},
               out);
    return true;
}
