/* Where a demand could work if others went, who they are, and what their going costs. */
#include "core/assert.h"
#include "core/class.h"
#include "core/island.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/preempt.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/share.h"
#include "core/supply.h"
#include "core/victims.h"
#include <string.h>

/* ---- what a victim costs ---- */

static uint64_t ncu_of(const pool *p, const struct lease *l)
{
    return (uint64_t)p->models[p->offers[p->nodes[l->node].offer].model].ncu_milli *
           l->device_count;
}

uint64_t victim_lost_s(const pool *p, const struct lease *l)
{
    const struct job *j = &p->jobs[l->job];
    int64_t since_us = j->ckpt_us > l->since_us ? j->ckpt_us : l->since_us;
    if (l->state != LEASE_ACTIVE || p->now_us <= since_us) return 0;
    uint64_t seconds = (uint64_t)(p->now_us - since_us) / 1000000;
    return seconds < LOST_S_MAX ? seconds : LOST_S_MAX;
}

uint64_t victim_move_cost(const pool *p, uint32_t lease)
{
    return ncu_of(p, &p->leases[lease]) * HANDOVER_S;
}

static uint32_t model_at(const pool *p, uint32_t node)
{
    return p->offers[p->nodes[node].offer].model;
}

static int64_t quota_needed(const struct search *s, uint32_t model)
{
    return quota_ncu_milli(s->p, model) * (int64_t)s->bears;
}

/* Above any loss, per NCU: an octave less borrowed counts more than all work. */
static uint64_t standing(const struct search *s, const struct lease *l)
{
    const pool *p = s->p;
    uint32_t model = model_at(p, l->node), kind = p->quota_kind[model];
    if (!p->accounts_defined || !p->accounts[ACCOUNT_POOL].has_quota[kind]) return 0;
    int64_t rank = quota_victim_rank(p, s->demand->job, l->job, kind, quota_needed(s, model));
    uint64_t octaves = (uint64_t)(SHARE_STEPS - share_coarse(rank)) / 8;
    return ncu_of(p, l) * (2 * LOST_S_MAX) * octaves;
}

uint64_t victim_worker_cost(const struct search *s, uint32_t lease)
{
    return add_capped(victim_move_cost(s->p, lease), standing(s, &s->p->leases[lease]));
}

static void cost_of_end(const struct search *s, struct victim *v)
{
    const pool *p = s->p;
    for (uint32_t at = p->jobs[v->job].leases.head; at != SLOT_NONE;
         at = p->leases[at].job_link.next) {
        const struct lease *l = &p->leases[at];
        if (!lease_holds(l)) continue;
        uint64_t loss = ncu_of(p, l) * (victim_lost_s(p, l) + RESTART_S);
        v->loss = add_capped(v->loss, loss);
        v->cost = add_capped(v->cost, add_capped(loss, standing(s, l)));
    }
}

bool victim_can_shrink(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    return j->state == JOB_RUNNING && p->shapes[j->shape].kind == JOB_KIND_ELASTIC;
}

uint32_t victim_spare(const pool *p, uint32_t job)
{
    uint32_t held = 0, least = p->jobs[job].devices_min;
    if (!victim_can_shrink(p, job)) return 0;
    for (uint32_t at = p->jobs[job].leases.head; at != SLOT_NONE; at = p->leases[at].job_link.next)
        if (lease_holds(&p->leases[at]) && node_is_usable(&p->nodes[p->leases[at].node]))
            held += p->leases[at].device_count;
    return held > least ? held - least : 0;
}

struct victim victim_job(const struct search *s, uint32_t job)
{
    struct victim v = {.job = job, .lease = SLOT_NONE, .target = SLOT_NONE};
    cost_of_end(s, &v);
    for (uint32_t l = s->p->jobs[job].leases.head; l != SLOT_NONE;
         l = s->p->leases[l].job_link.next)
        if (lease_holds(&s->p->leases[l]) && search_is_place(s, s->p->leases[l].node))
            v.device_count += s->p->leases[l].device_count;
    return v;
}

bool victim_worker(const struct search *s, uint32_t lease, uint32_t more, struct victim *ret_victim)
{
    const struct lease *l = &s->p->leases[lease];
    *ret_victim = (struct victim){.job = l->job,
                                  .lease = lease,
                                  .target = SLOT_NONE,
                                  .device_count = l->device_count,
                                  .loss = victim_move_cost(s->p, lease),
                                  .cost = victim_worker_cost(s, lease)};
    return victim_spare(s->p, l->job) >= l->device_count + more;
}

/* ---- where the demand could work ---- */

/* Its account, its class and its budget would bear all of the need there. */
static bool bears(const struct search *s, const struct node *n)
{
    const struct offer *o = &s->p->offers[n->offer];
    const struct demand *d = s->demand;
    int64_t quota = d->quota_left_milli[s->p->quota_kind[o->model]];
    if (quota != INT64_MAX &&
        quota_ncu_milli(s->p, o->model) * (int64_t)(s->bears - s->supplied) > quota)
        return false;
    if ((uint64_t)s->p->models[o->model].ncu_milli * s->need > s->ncu_left) return false;
    return d->budget_left_usd_micros == INT64_MAX ||
           money_share_ceil(o->usd_micros_per_hour, 1, n->device_count) * (int64_t)s->need <=
               d->budget_left_usd_micros;
}

/* Reserved devices come free with their jobs: who they are kept for would get what a victim leaves. */
static bool is_reserved(const struct search *s, const struct node *n)
{
    for (uint32_t at = n->promises.head; at != SLOT_NONE; at = s->p->promises[at].node_link.next) {
        const struct job *owner = &s->p->jobs[s->p->promises[at].job];
        if (owner->promise_until_us != 0 && owner->order < s->demand->order &&
            s->p->promises[at].job != s->demand->job)
            return true;
    }
    return false;
}

bool search_is_place(const struct search *s, uint32_t node)
{
    const pool *p = s->p;
    const struct node *n = &p->nodes[node];
    if (n->state != NODE_READY || n->offer == SLOT_NONE) return false;
    const struct offer *o = &p->offers[n->offer];
    const struct demand *d = s->demand;
    if (o->region_index != s->region_index || (d->compat_mask >> o->model & 1) == 0) return false;
    if (!near_allows(&d->near, o) || !near_is_apart(p, &d->near, d->job, node)) return false;
    if (!supply_is_kind(p, d, o) || supply_is_above_max(d, o)) return false;
    if (offer_is_above(o, d->threshold_ppm) || !bears(s, n)) return false;
    if (promise_room(p, d, n) == 0 || is_reserved(s, n)) return false;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->leases[l].job == d->job) return false; /* no second lease on a node */
    return true;
}

static bool may_take(const struct search *s, const struct lease *l)
{
    const pool *p = s->p;
    const struct job *j = &p->jobs[l->job];
    bool by_class = class_may_preempt(p, s->demand->job_class, j->job_class);
    if (!s->reclaims && !by_class) return false;
    if (!p->accounts_defined) return !s->reclaims;
    uint32_t model = model_at(p, l->node), kind = p->quota_kind[model];
    int64_t needed = quota_needed(s, model);
    if (!s->reclaims) return !quota_is_protected(p, s->demand->job, l->job, kind, needed);
    return j->job_class >= s->demand->job_class && p->classes[j->job_class].preemptible &&
           quota_victim_rank(p, s->demand->job, l->job, kind, needed) > 0;
}

bool search_is_victim(const struct search *s, uint32_t lease)
{
    const struct lease *l = &s->p->leases[lease];
    const struct job *j = &s->p->jobs[l->job];
    return lease_holds(l) && l->device_milli > 0 && l->device_index == SLOT_NONE &&
           job_is_bound(j) && j->preempted_by == 0 && l->job != s->demand->job && may_take(s, l);
}

struct victim_walk search_walk(const struct search *s)
{
    return victims_walk(s->p, s->region_index, s->demand->compat_mask, s->demand->order,
                        s->demand->job);
}

static bool goes(const struct preemption *plan, const pool *p, uint32_t lease)
{
    if (plan == NULL) return false;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        const struct victim *v = &plan->victims[i];
        if (v->lease == SLOT_NONE ? v->job == p->leases[lease].job && lease_holds(&p->leases[lease])
                                  : v->lease == lease)
            return true;
    }
    return false;
}

uint32_t search_gives(const struct search *s, uint32_t node, const struct preemption *plan)
{
    const pool *p = s->p;
    const struct node *n = &p->nodes[node];
    uint32_t devices = n->devices_free, kept = n->device_count - promise_room(p, s->demand, n);
    struct part_use gone = {0};
    uint32_t left = 0; /* devices that come free, by name */
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *lease = &p->leases[l];
        if (lease->state != LEASE_STOPPING && !goes(plan, p, l)) continue;
        bool whole = lease->device_index == SLOT_NONE, closes = !whole && part_closes(p, n, l);
        devices += whole ? part_devices(lease) : closes;
        if (whole || closes) left |= lease->device_mask;
        gone.cpu_milli += lease->host_cpu_milli;
        gone.memory_mib += lease->host_memory_mib;
    }
    devices = devices > kept ? devices - kept : 0;
    if (!s->demand->special) return devices;
    uint32_t host = part_host_gives(p, n, s->demand->terms, &gone);
    uint32_t most = island_gives(n, s->demand->near.same, part_free_mask(p, n) | left);
    if (host < devices) devices = host;
    return most < devices ? most : devices;
}

uint32_t search_coming(const struct search *s, uint32_t node)
{
    const struct node *n = &s->p->nodes[node];
    uint32_t now = promise_free(s->p, s->demand, n), soon = search_gives(s, node, NULL);
    if (s->demand->special) {
        uint32_t host = part_host_gives(s->p, n, s->demand->terms, &(struct part_use){0});
        uint32_t most = island_gives(n, s->demand->near.same, part_free_mask(s->p, n));
        if (most < host) host = most;
        if (host < now) now = host;
    }
    return soon > now ? soon - now : 0;
}

/* ---- plans ---- */

void plan_clear(struct preemption *plan, const struct search *s, uint32_t node)
{
    plan->region_index = s->region_index;
    plan->node = node;
    plan->near = s->demand->near;
    plan->single_node = s->demand->single_node;
    plan->need = s->need;
    plan->gain = plan->victim_count = plan->reclaims = 0;
    plan->cost = 0;
}

void plan_add(struct preemption *plan, const struct victim *victim)
{
    ASSERT(plan->victim_count < VICTIMS_MAX);
    plan->victims[plan->victim_count++] = *victim;
    plan->gain += victim->device_count;
    plan->cost = add_capped(plan->cost, victim->cost);
}

void plan_leave_out(struct preemption *plan, uint32_t at)
{
    plan->gain -= plan->victims[at].device_count;
    plan->cost -= plan->victims[at].cost;
    memmove(&plan->victims[at], &plan->victims[at + 1],
            (plan->victim_count - at - 1) * sizeof plan->victims[0]);
    plan->victim_count--;
}

/* What a lease of the plan adds to its node's, counted at the first of the plan's leases there. */
static uint32_t gain_at(const struct search *s, const struct preemption *plan, uint32_t lease)
{
    uint32_t node = s->p->leases[lease].node, first = s->p->nodes[node].leases.head;
    if (!search_is_place(s, node)) return 0;
    while (!goes(plan, s->p, first)) first = s->p->leases[first].node_link.next;
    if (first != lease) return 0;
    return search_gives(s, node, plan) - search_gives(s, node, NULL);
}

/* Devices that the plan frees; where hosts limit them that is not the sum over its victims. */
static uint32_t gain_of(const struct search *s, const struct preemption *plan)
{
    if (plan->node != SLOT_NONE) return search_gives(s, plan->node, plan);
    if (!s->demand->special) return plan->gain;
    uint32_t gain = 0;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        const struct victim *v = &plan->victims[i];
        if (v->lease != SLOT_NONE) {
            gain += gain_at(s, plan, v->lease);
            continue;
        }
        for (uint32_t l = s->p->jobs[v->job].leases.head; l != SLOT_NONE;
             l = s->p->leases[l].job_link.next)
            if (lease_holds(&s->p->leases[l])) gain += gain_at(s, plan, l);
    }
    return gain;
}

static uint32_t dearest_below(const struct preemption *plan, uint64_t cost, uint32_t at)
{
    uint32_t worst = SLOT_NONE;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        const struct victim *v = &plan->victims[i];
        if (v->cost > cost || (v->cost == cost && i >= at)) continue;
        if (worst == SLOT_NONE || v->cost >= plan->victims[worst].cost) worst = i;
    }
    return worst;
}

bool plan_suffices(const struct search *s, const struct preemption *plan)
{
    return gain_of(s, plan) >= s->need;
}

void plan_prune(const struct search *s, struct preemption *plan)
{
    uint64_t cost = UINT64_MAX;
    uint32_t at = plan->victim_count;
    for (;;) {
        at = dearest_below(plan, cost, at);
        if (at == SLOT_NONE) return;
        struct victim kept = plan->victims[at];
        cost = kept.cost;
        plan_leave_out(plan, at);
        if (gain_of(s, plan) >= s->need) continue;
        /* Needed after all: back to its place. */
        memmove(&plan->victims[at + 1], &plan->victims[at],
                (plan->victim_count - at) * sizeof plan->victims[0]);
        plan->victims[at] = kept;
        plan->victim_count++;
        plan->gain += kept.device_count;
        plan->cost = add_capped(plan->cost, kept.cost);
    }
}
