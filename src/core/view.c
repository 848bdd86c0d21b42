#include "core/view.h"
#include "core/assert.h"
#include "core/deadline.h"
#include "core/job.h"
#include "core/ledger.h"
#include "core/mig.h"
#include "core/rate.h"
#include "core/risk.h"
#include "core/state.h"

uint32_t pool_jobs_end(const pool *p)
{
    return p->jobs_end;
}

uint32_t pool_nodes_end(const pool *p)
{
    return p->nodes_end;
}

uint32_t pool_leases_end(const pool *p)
{
    return p->leases_end;
}

uint32_t pool_offers_end(const pool *p)
{
    return p->offers_end;
}

bool pool_job_at(const pool *p, uint32_t index, struct job_view *ret_view)
{
    if (index >= p->jobs_end || p->jobs[index].state == 0) return false;
    const struct job *j = &p->jobs[index];
    struct holding held = job_holding(p, index);
    *ret_view = (struct job_view){
        .job_id = j->job_id,
        .spec_hash = j->spec_hash,
        .state = j->state,
        .job_class = j->job_class,
        .devices_min = j->devices_min,
        .devices_max = j->devices_max,
        .devices_up = held.up_count,
        .devices_wanted = job_is_live(j) ? j->devices_max : 0,
        .region = j->region_index == SLOT_NONE ? 0 : p->regions[j->region_index].region,
        .tenant = j->tenant,
        .project = j->project,
        .team = j->team,
        .experiment = j->experiment,
        .step = j->step,
        .ckpt_step = j->ckpt_step,
        .submitted_us = j->submitted_us,
        .deadline_us = j->deadline_us,
        .work_left_us = j->deadline_us != 0 && job_is_live(j) ? deadline_work_left_us(p, index) : 0,
        .started_us = j->started_us,
        .ended_us = j->ended_us,
        .usd_micros = job_spent_usd_micros(p, index) - j->egress_usd_micros,
        .usd_micros_per_hour = held.usd_micros_per_hour,
        .egress_usd_micros = j->egress_usd_micros,
        .last_kind = j->last_kind,
        .last_reason = j->last_reason,
        .last_a = j->last_a,
        .last_b = j->last_b,
        .last_c = j->last_c};
    return true;
}

static void fill_offer(const pool *p, const struct offer *o, struct node_view *view)
{
    view->offer_id = o->offer_id;
    view->model = o->model;
    view->zone = o->zone;
    view->rack = o->rack;
    view->region = p->regions[o->region_index].region;
    view->provider = o->provider;
    view->capacity = o->capacity;
    view->usd_micros_per_hour = o->usd_micros_per_hour;
}

bool pool_node_at(const pool *p, uint32_t index, struct node_view *ret_view)
{
    if (index >= p->nodes_end || p->nodes[index].state == 0) return false;
    const struct node *n = &p->nodes[index];
    struct node_view view = {.node_key = n->node_key,
                             .state = n->state,
                             .phase = n->phase,
                             .device_count = n->device_count,
                             .devices_free = n->devices_free,
                             .agent_joined = n->agent_joined,
                             .ordered_us = n->ordered_us,
                             .up_since_us = n->up_since_us,
                             .notice_us = n->notice_us,
                             .agent_heard_us = n->agent_joined ? n->agent_heard_us : 0,
                             .usd_micros = n->entered_usd_micros + ledger_node_pending(p, index),
                             .drain_reason = n->drain_reason};
    if (n->offer != SLOT_NONE) fill_offer(p, &p->offers[n->offer], &view);
    if (n->rack != 0) view.rack = n->rack;
    view.groups = n->groups;
    *ret_view = view;
    return true;
}

bool pool_lease_at(const pool *p, uint32_t index, struct lease_view *ret_view)
{
    if (index >= p->leases_end) return false;
    const struct lease *l = &p->leases[index];
    if (l->state == LEASE_FREE || l->worker_id == 0) return false; /* reserved: no worker yet */
    *ret_view = (struct lease_view){.job_id = p->jobs[l->job].job_id,
                                    .node_key = p->nodes[l->node].node_key,
                                    .worker_id = l->worker_id,
                                    .device_count = l->device_count,
                                    .device_milli = l->device_milli,
                                    .device_index = l->device_index,
                                    .device_mask = l->device_mask,
                                    .phase = l->phase,
                                    .stop_reason = l->stop_reason,
                                    .since_us = l->since_us,
                                    .deadline_us = l->deadline_us,
                                    .step = l->step};
    if (l->mig != 0) {
        const struct model *m = &p->models[p->offers[p->nodes[l->node].offer].model];
        ret_view->mig_compute =
            mig_geometry_of(m->mig_slices)->profiles[(l->mig & 0xff) - 1].compute;
        ret_view->mig_start = l->mig >> 8;
    }
    return true;
}

bool pool_offer_at(const pool *p, uint32_t index, struct offer_view *ret_view)
{
    if (index >= p->offers_end) return false;
    const struct offer *o = &p->offers[index];
    *ret_view =
        (struct offer_view){.offer_id = o->offer_id,
                            .usd_micros_per_hour = o->usd_micros_per_hour,
                            .on_demand_usd_micros_per_hour = o->on_demand_usd_micros_per_hour,
                            .provider = o->provider,
                            .region = p->regions[o->region_index].region,
                            .zone = o->zone,
                            .model = o->model,
                            .capacity = o->capacity,
                            .device_count = o->device_count,
                            .stock_count = o->stock_count,
                            .nodes_held = o->nodes.count,
                            .refused_until_us = o->refused_until_us,
                            .quoted_usd_micros_per_hour = o->quoted_usd_micros_per_hour,
                            .risk_ppm = o->risk_ppm,
                            .rank_ppm = o->rank_ppm,
                            .hazard_ppm = risk_hazard_ppm(p, index),
                            .up_us = risk_up_us(p, index),
                            .changeover_us = o->changeover_us,
                            .rack = o->rack,
                            .billing_s = o->billing_s};
    return true;
}

bool pool_job_find(const pool *p, uint64_t job_id, struct job_view *ret_view)
{
    uint32_t slot = table_find(&p->job_table, job_id);
    return slot != SLOT_NONE && pool_job_at(p, slot, ret_view);
}

bool pool_node_find(const pool *p, uint64_t node_key, struct node_view *ret_view)
{
    uint32_t slot = table_find(&p->node_table, node_key);
    return slot != SLOT_NONE && pool_node_at(p, slot, ret_view);
}

static void count_nodes(const pool *p, struct pool_totals *totals)
{
    for (uint32_t i = 0; i < p->nodes_end; i++) {
        const struct node *n = &p->nodes[i];
        if (n->state == 0) continue;
        totals->nodes++;
        totals->devices += n->device_count;
        totals->devices_busy += n->device_count - n->devices_free;
        if (n->billing) totals->usd_micros_per_hour += p->offers[n->offer].usd_micros_per_hour;
    }
}

uint32_t pool_model_ncu_milli(const pool *p, uint32_t model)
{
    return model < p->config.limits.models_max ? p->models[model].ncu_milli : 0;
}

void pool_totals_read(const pool *p, struct pool_totals *ret_totals)
{
    struct pool_totals totals = {.nodes_replaced = p->replaced_count,
                                 .usd_micros_jobs = p->usd_micros_jobs,
                                 .usd_micros_overhead = p->usd_micros_overhead,
                                 .usd_micros_idle = p->usd_micros_idle,
                                 .usd_micros_adjustment = p->usd_micros_adjustment};
    for (uint32_t i = 0; i < p->jobs_end; i++) {
        totals.jobs_queued += p->jobs[i].state == JOB_QUEUED;
        totals.jobs_running += job_is_bound(&p->jobs[i]);
    }
    count_nodes(p, &totals);
    *ret_totals = totals;
}

uint32_t pool_rates_of(const pool *p, uint64_t job_id, struct rate_view *ret_rates, uint32_t max)
{
    uint32_t slot = table_find(&p->job_table, job_id), count = 0;
    if (slot == SLOT_NONE || !job_is_live(&p->jobs[slot])) return 0;
    const struct shape *s = &p->shapes[p->jobs[slot].shape];
    uint64_t work_id = terms_of(p, s)->work_id;
    if (work_id == 0) return 0;
    const struct rate *row = rate_row(p, work_id);
    for (uint64_t rest = s->compat_mask; rest != 0 && count < max; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        struct rate_view *v = &ret_rates[count++];
        *v = (struct rate_view){.model = model};
        v->speed_ppm = (uint64_t)rate_speed(p, row, s->compat_mask, model) * 1000000 / RATE_ONE;
        if (row == NULL) continue;
        v->told = row[model].told;
        v->declared_milli = row[model].declared_micro / 1000;
        v->measured_milli = row[model].measured_micro / 1000;
    }
    return count;
}

bool pool_buying_read(const pool *p, uint32_t scope, uint32_t index, struct pool_event *ret_event)
{
    bool of_pool = scope == BUYING_OF_POOL;
    if (index >= (of_pool ? p->config.limits.pools_max : JOB_CLASS_END)) return false;
    const struct buying *rule = of_pool ? &p->pool_buying[index] : &p->class_buying[index];
    *ret_event = (struct pool_event){.kind = POOL_EVENT_BUYING_DEFINED};
    ret_event->u.buying_defined.scope = scope;
    ret_event->u.buying_defined.index = index;
    ret_event->u.buying_defined.policy = rule->policy;
    ret_event->u.buying_defined.price_threshold_ppm = rule->price_threshold_ppm;
    ret_event->u.buying_defined.device_usd_micros_max = rule->device_usd_micros_max;
    ret_event->u.buying_defined.bid_usd_micros = rule->bid_usd_micros;
    return true;
}
