/* Draining: nodes we give up on while their workers can still hand over. */
#include "core/act.h"
#include "core/assert.h"
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
    uint32_t threshold_ppm = least_threshold_ppm(p, n);
    if (o->capacity != CAPACITY_SPOT || o->share_ppm <= threshold_ppm) return;
    if (threshold_ppm > o->hot_ppm) o->hot_ppm = threshold_ppm;
    node_drain(p, node, REASON_PRICE_ABOVE_THRESHOLD, p->now_us + p->config.drain_us,
               (struct numbers){.a = o->usd_micros_per_hour, .b = price_at(o, threshold_ppm)}, out);
}

void plan_drain_for_notice(pool *p, uint32_t node, struct pool_output *out)
{
    const struct node *n = &p->nodes[node];
    ASSERT(n->notice_us != 0);
    int64_t deadline_us = n->notice_us - NOTICE_MARGIN_US;
    if (deadline_us < p->now_us) deadline_us = p->now_us;
    node_drain(p, node, REASON_NOTICE, deadline_us,
               (struct numbers){.a = n->notice_us > p->now_us ? n->notice_us - p->now_us : 0}, out);
}

void plan_drain_asked(pool *p, uint32_t node, struct pool_output *out)
{
    if (!node_is_usable(&p->nodes[node])) return;
    node_drain(p, node, REASON_OPERATOR, p->now_us + p->config.drain_us, (struct numbers){0}, out);
}
