/* Every field of the state, named once (walk.h). */
#include "core/walk.h"
#include "core/deadline.h"

/* A struct that grows without its walk would be lost by a snapshot and missed by the digest. */
static_assert(sizeof(struct offer) == 256, "walk the new field of offer");
static_assert(sizeof(struct node) == 352, "walk the new field of node");
static_assert(sizeof(struct lease) == 184, "walk the new field of lease");
static_assert(sizeof(struct promise) == 32, "walk the new field of promise");
static_assert(sizeof(struct mig_keep) == 24, "walk the new field of mig_keep");
static_assert(sizeof(struct terms) == 112, "walk the new field of terms");
static_assert(sizeof(struct shape) == 192, "walk the new field of shape");
static_assert(sizeof(struct job) == 552, "walk the new field of job");

static void walk_offer(struct walk *w, pool *p, struct offer *o)
{
    walk_u64(w, &o->offer_id);
    walk_i64(w, &o->usd_micros_per_hour);
    walk_i64(w, &o->on_demand_usd_micros_per_hour);
    walk_i64(w, &o->unit_usd_micros);
    walk_i64(w, &o->metered_us);
    walk_i64(w, &o->refused_until_us);
    walk_i64(w, &o->taken_us);
    walk_i64(w, &o->weigh_us);
    walk_i64(w, &o->changeover_us);
    walk_i64(w, &o->slowest_us);
    walk_i64(w, &o->quoted_usd_micros_per_hour);
    walk_i64(w, &o->billed_usd_micros_per_hour);
    walk_meter(w, &o->meter);
    walk_u32(w, &o->provider);
    walk_index(w, &o->region_index, p->regions_end);
    walk_u32(w, &o->zone);
    walk_index(w, &o->model, p->config.limits.models_max);
    if (p->regions_end == 0) w->bad = true; /* an offer is somewhere */
    walk_u32(w, &o->capacity);
    walk_u32(w, &o->device_count);
    walk_u32(w, &o->hazard_ppm);
    walk_u32(w, &o->stock_count);
    walk_u32(w, &o->taken_count);
    walk_u32(w, &o->reach_count);
    walk_u32(w, &o->share_ppm);
    walk_u32(w, &o->hot_ppm);
    walk_u32(w, &o->idle_listed);
    walk_u8(w, &o->refused_count);
    walk_u8(w, &o->rank_beside);
    walk_u32(w, &o->risk_ppm);
    walk_u32(w, &o->rank_ppm);
    walk_list(w, &o->nodes, p->nodes_end);
    walk_list(w, &o->idle_nodes, p->nodes_end);
    walk_list(w, &o->shared_nodes, p->nodes_end);
    walk_u32(w, &o->host_cpu_milli);
    walk_u32(w, &o->host_memory_mib);
    walk_u32(w, &o->rack);
    walk_u32(w, &o->billing_s);
    walk_u8(w, &o->island_told);
    for (uint32_t i = 0; i < DEVICE_LEVELS; i++) walk_u8(w, &o->island_most[i]);
    walk_link(w, &o->idle_link, p->offers_end);
}

static void walk_groups(struct walk *w, struct device_groups *groups)
{
    walk_u32(w, &groups->form);
    for (uint32_t i = 0; i < DEVICE_GROUPS_DEVICES / 2; i++) {
        walk_u8(w, &groups->nvlink[i]);
        walk_u8(w, &groups->pcie[i]);
        walk_u8(w, &groups->numa[i]);
    }
}

static void walk_node(struct walk *w, pool *p, struct node *n)
{
    walk_u64(w, &n->node_key);
    walk_u64(w, &n->tag_job_id);
    walk_i64(w, &n->ordered_us);
    walk_i64(w, &n->boot_since_us);
    walk_i64(w, &n->up_since_us);
    walk_i64(w, &n->notice_us);
    walk_i64(w, &n->agent_heard_us);
    walk_i64(w, &n->ask_us);
    walk_i64(w, &n->deadline_us);
    walk_i64(w, &n->idle_since_us);
    walk_i64(w, &n->settled_us);
    walk_i64(w, &n->bid_usd_micros);
    walk_meter(w, &n->base);
    walk_i64(w, &n->entered_usd_micros);
    walk_i64(w, &n->bill_from_us);
    walk_i64(w, &n->bill_from_usd_micros);
    walk_slot(w, &n->offer, p->offers_end);
    walk_u32(w, &n->state);
    walk_u32(w, &n->phase);
    walk_u32(w, &n->device_count);
    walk_u32(w, &n->devices_free);
    walk_u32(w, &n->drain_reason);
    walk_u32(w, &n->agent_joined);
    walk_u32(w, &n->billing);
    walk_u32(w, &n->release_sent);
    walk_u32(w, &n->price_moved);
    walk_u32(w, &n->bill_closed);
    walk_u32(w, &n->idle_listed);
    walk_u32(w, &n->tenant);
    walk_u32(w, &n->project);
    walk_u32(w, &n->team);
    walk_u32(w, &n->experiment);
    walk_u32(w, &n->devices_shared);
    walk_u32(w, &n->device_memory_mib);
    walk_u32(w, &n->host_cpu_milli);
    walk_u32(w, &n->host_memory_mib);
    walk_u32(w, &n->shared_listed);
    walk_u32(w, &n->taken_twice);
    walk_link(w, &n->shared_link, p->nodes_end);
    walk_list(w, &n->leases, p->leases_end);
    walk_link(w, &n->offer_link, p->nodes_end);
    walk_link(w, &n->idle_link, p->nodes_end);
    walk_u32(w, &n->promised_count);
    walk_list(w, &n->promises, p->promises_end);
    walk_u32(w, &n->rack);
    walk_groups(w, &n->groups);
}

static void walk_lease(struct walk *w, pool *p, struct lease *l)
{
    walk_u64(w, &l->worker_id);
    walk_u64(w, &l->step);
    walk_i64(w, &l->since_us);
    walk_i64(w, &l->deadline_us);
    walk_i64(w, &l->ask_us);
    walk_index(w, &l->job, p->jobs_end);
    walk_index(w, &l->node, p->nodes_end);
    walk_u32(w, &l->device_count);
    walk_u32(w, &l->paid_milli);
    walk_u32(w, &l->device_milli);
    walk_u32(w, &l->device_index);
    walk_u32(w, &l->device_mask);
    walk_u32(w, &l->mig);
    walk_u32(w, &l->memory_mib);
    walk_u32(w, &l->host_cpu_milli);
    walk_u32(w, &l->host_memory_mib);
    walk_u32(w, &l->state);
    walk_u32(w, &l->phase);
    walk_u32(w, &l->stop_reason);
    walk_u32(w, &l->fallback);
    walk_u32(w, &l->backfill);
    walk_link(w, &l->job_link, p->leases_end);
    walk_link(w, &l->node_link, p->leases_end);
    walk_i64(w, &l->quota_ncu_milli);
    walk_i64(w, &l->quota_usd_micros_per_hour);
    walk_i64(w, &l->reserved_usd_micros);
    walk_u32(w, &l->quota_kind);
    walk_u32(w, &l->quota_counted);
    walk_u32(w, &l->gated);
    walk_slot(w, &l->gate_pool, p->config.limits.pools_max);
    walk_i64(w, &l->stall_since_us);
    walk_i64(w, &l->stall_heard_us);
    walk_u32(w, &l->stall_kind);
    if (l->quota_kind >= QUOTA_KINDS) w->bad = true;
}

static void walk_promise(struct walk *w, pool *p, struct promise *promise)
{
    walk_index(w, &promise->job, p->jobs_end);
    walk_index(w, &promise->node, p->nodes_end);
    walk_u32(w, &promise->device_count);
    walk_link(w, &promise->job_link, p->promises_end);
    walk_link(w, &promise->node_link, p->promises_end);
}

static void walk_shape(struct walk *w, pool *p, struct shape *s)
{
    walk_u64(w, &s->hash);
    walk_u64(w, &s->capability_mask);
    walk_u64(w, &s->pool_mask);
    walk_u64(w, &s->compat_mask);
    walk_i64(w, &s->budget_usd_micros_per_hour);
    walk_u32(w, &s->vram_min_mib);
    walk_u32(w, &s->devices_min);
    walk_u32(w, &s->devices_max);
    walk_u32(w, &s->price_threshold_ppm);
    walk_u32(w, &s->region);
    walk_u32(w, &s->job_class);
    walk_u32(w, &s->kind);
    walk_u32(w, &s->capacity_mask);
    walk_u32(w, &s->threshold_ppm);
    walk_u32(w, &s->user_count);
    walk_index(w, &s->terms, p->terms_end);
    walk_index(w, &s->account, p->accounts_end);
    walk_u64(w, &s->ask_hash);
    walk_u32(w, &s->quota_waits);
    walk_u64(w, &s->only_job_id);
    walk_list(w, &s->queue, p->jobs_end);
    walk_link(w, &s->shapes_link, p->shapes_end);
    walk_slot(w, &s->ask, p->asks_end);
}

/* Every byte: terms are compared as bytes. */
static void walk_job_terms(struct walk *w, struct job_terms *t)
{
    walk_i64(w, &t->run_us);
    walk_i64(w, &t->notice_us);
    walk_i64(w, &t->ckpt_interval_us);
    walk_u64(w, &t->data_bytes);
    walk_u32(w, &t->data_region);
    walk_u32(w, &t->device_milli);
    walk_u32(w, &t->device_memory_mib);
    walk_u32(w, &t->mig_profile);
    walk_u32(w, &t->host_cpu_milli);
    walk_u32(w, &t->host_memory_mib);
    walk_u32(w, &t->ncu_milli);
    walk_u8(w, &t->topology_required);
    walk_u8(w, &t->topology_preferred);
    walk_u8(w, &t->degrade);
    walk_u8(w, &t->affinity);
    walk_u8(w, &t->spread);
    walk_u8(w, &t->gate);
    walk_u8(w, &t->host_only);
    walk_u8(w, &t->reserved_byte);
    walk_u32(w, &t->steps_total);
    walk_u64(w, &t->work_id);
    walk_i64(w, &t->deadline_us);
}

static void walk_terms(struct walk *w, pool *p, struct terms *t)
{
    walk_u64(w, &t->terms_id);
    walk_job_terms(w, &t->job);
    walk_u32(w, &t->user_count);
    walk_link(w, &t->unused_link, p->terms_end);
}

static void walk_job_matching(struct walk *w, pool *p, struct job *j)
{
    walk_i64(w, &j->attained_us);
    walk_i64(w, &j->attained_at_us);
    walk_u32(w, &j->speed);
    walk_slot(w, &j->rate_market, p->markets_end);
    walk_i64(w, &j->rate_since_us);
    walk_u64(w, &j->rate_step);
    walk_u64(w, &j->match_barred);
    walk_slot(w, &j->match_market, p->markets_end);
    walk_u32(w, &j->match_leaves);
    walk_u32(w, &j->match_listed);
    bool nowhere = j->match_listed == MATCH_ASSIGNED && j->match_market == SLOT_NONE;
    if (j->match_listed >= MATCH_LIST_END || nowhere) w->bad = true;
    walk_link(w, &j->match_link, p->jobs_end);
}

static void walk_job_deadline(struct walk *w, pool *p, struct job *j)
{
    walk_i64(w, &j->deadline_us);
    walk_i64(w, &j->wasted_us);
    walk_i64(w, &j->saved_us);
    walk_i64(w, &j->unsaved_us);
    walk_i64(w, &j->saved_from_us);
    walk_i64(w, &j->save_gap_us);
    walk_i64(w, &j->pace_us);
    walk_i64(w, &j->pace_from_us);
    walk_u64(w, &j->pace_step);
    walk_u32(w, &j->choice);
    walk_slot(w, &j->choice_offer, p->offers_end);
    walk_u32(w, &j->changeover_ticks);
    walk_u32(w, &j->deadline_missed);
    if (j->choice >= DEADLINE_CHOICE_END) w->bad = true;
}

static void walk_job(struct walk *w, pool *p, struct job *j)
{
    walk_u64(w, &j->job_id);
    walk_u64(w, &j->spec_hash);
    walk_u64(w, &j->order);
    walk_u64(w, &j->step);
    walk_u64(w, &j->ckpt_step);
    walk_u64(w, &j->round_worker_id);
    walk_i64(w, &j->submitted_us);
    walk_i64(w, &j->started_us);
    walk_i64(w, &j->ended_us);
    walk_i64(w, &j->short_since_us);
    walk_i64(w, &j->budget_usd_micros);
    walk_i64(w, &j->usd_micros);
    walk_i64(w, &j->budget_check_us);
    walk_i64(w, &j->review_us);
    walk_i64(w, &j->claim_until_us);
    walk_i64(w, &j->over_since_us);
    walk_i64(w, &j->quiet_until_us);
    walk_i64(w, &j->last_a);
    walk_i64(w, &j->last_b);
    walk_i64(w, &j->last_c);
    walk_u32(w, &j->state);
    walk_u32(w, &j->job_class);
    walk_u32(w, &j->devices_min);
    walk_u32(w, &j->devices_max);
    walk_slot(w, &j->shape, p->shapes_end);
    walk_slot(w, &j->region_index, p->regions_end);
    walk_u32(w, &j->interested);
    walk_u32(w, &j->tenant);
    walk_u32(w, &j->project);
    walk_u32(w, &j->team);
    walk_u32(w, &j->experiment);
    walk_u32(w, &j->failures);
    walk_u32(w, &j->last_kind);
    walk_u32(w, &j->last_reason);
    walk_u32(w, &j->wait_reason);
    walk_u32(w, &j->wait_count);
    walk_index(w, &j->account, p->accounts_end);
    walk_u32(w, &j->tier_returns);
    walk_u32(w, &j->over_said);
    walk_slot(w, &j->pack_set, pack_sets(p->pack));
    walk_u32(w, &j->pack_milli);
    walk_u32(w, &j->claims);
    walk_i64(w, &j->replace_from_us);
    walk_u32(w, &j->replaced_count);
    walk_u32(w, &j->reclaims);
    walk_i64(w, &j->bought_usd_micros);
    walk_i64(w, &j->bought_reserved_usd_micros);
    walk_i64(w, &j->egress_usd_micros);
    walk_u32(w, &j->data_at);
    walk_i64(w, &j->ckpt_us);
    walk_i64(w, &j->promise_until_us);
    walk_u64(w, &j->preempted_by);
    walk_u64(w, &j->preempted_cost);
    walk_u32(w, &j->preempted_count);
    walk_u32(w, &j->preempted_ends);
    walk_u32(w, &j->promised_count);
    walk_u32(w, &j->promise_late);
    walk_list(w, &j->promises, p->promises_end);
    walk_job_matching(w, p, j);
    walk_job_deadline(w, p, j);
    walk_list(w, &j->leases, p->leases_end);
    walk_link(w, &j->queue_link, p->jobs_end);
    walk_link(w, &j->interested_link, p->jobs_end);
    walk_link(w, &j->ended_link, p->jobs_end);
}

static void walk_head(struct walk *w, pool *p)
{
    const struct pool_limits *limits = &p->config.limits;
    uint32_t models_max = limits->models_max, pools_max = limits->pools_max;
    walk_u32(w, &models_max);
    walk_u32(w, &pools_max);
    if (models_max != limits->models_max || pools_max != limits->pools_max) w->bad = true;
    walk_u64(w, &p->last_seq);
    walk_u64(w, &p->next_key);
    walk_u64(w, &p->next_worker);
    walk_i64(w, &p->now_us);
    walk_i64(w, &p->usd_micros_jobs);
    walk_i64(w, &p->usd_micros_overhead);
    walk_i64(w, &p->usd_micros_idle);
    walk_i64(w, &p->usd_micros_adjustment);
    walk_i64(w, &p->usd_micros_forgotten);
    walk_u64(w, &p->replaced_count);
    walk_end(w, &p->nodes_end, p->node_slots);
    walk_end(w, &p->jobs_end, limits->jobs_max);
    walk_end(w, &p->leases_end, limits->leases_max);
    walk_end(w, &p->promises_end, limits->leases_max);
    walk_end(w, &p->offers_end, limits->offers_max);
    walk_end(w, &p->shapes_end, limits->jobs_max);
    walk_end(w, &p->regions_end, models_max == 0 ? 0 : p->markets_end / models_max);
    walk_end(w, &p->terms_end, limits->terms_max + 1);
    walk_end(w, &p->accounts_end, p->accounts_max);
    walk_end(w, &p->works_end, p->works_max);
    walk_end(w, &p->links_end, LINKS_MAX);
    walk_list(w, &p->works_told, p->works_end);
    walk_end(w, &p->node_count, p->node_slots);
    walk_u32(w, &p->starved);
    walk_u32(w, &p->improved);
    walk_u32(w, &p->budget_job_count);
    walk_u32(w, &p->bids_defined);
    walk_u32(w, &p->least_threshold_ppm);
    walk_u32(w, &p->reservation_count);
    walk_list(w, &p->nodes_free, p->nodes_end);
    walk_list(w, &p->leases_free, p->leases_end);
    walk_list(w, &p->promises_free, p->promises_end);
    walk_list(w, &p->shapes_free, p->shapes_end);
    walk_list(w, &p->ended, p->jobs_end);
    walk_list(w, &p->shapes_idle, p->shapes_end);
    walk_list(w, &p->shapes_used, p->shapes_end);
    walk_list(w, &p->shapes_resting, p->shapes_end);
    walk_end(w, &p->asks_end, p->asks_max);
    walk_list(w, &p->asks_used, p->asks_end);
    walk_list(w, &p->asks_free, p->asks_end);
    walk_list(w, &p->terms_unused, p->terms_end);
}

static void walk_keeps(struct walk *w, pool *p)
{
    walk_end(w, &p->mig_keep_count, MIG_KEEPS_MAX);
    for (uint32_t i = 0; i < p->mig_keep_count && !w->bad; i++) {
        struct mig_keep *keep = &p->mig_keeps[i];
        walk_u64(w, &keep->node_key);
        walk_u64(w, &keep->ask_hash);
        walk_u32(w, &keep->device_index);
        walk_u32(w, &keep->slices);
    }
}

/* Who is to be planned: jobs by slot, shapes by slot behind jobs_max, then classes, then asks. Put back in the order of
 * the heap's array, the array comes out the same. */
static void walk_plans(struct walk *w, pool *p)
{
    uint32_t count = p->plans.count, jobs_max = p->config.limits.jobs_max;
    walk_end(w, &count, p->plans.id_end);
    for (uint32_t i = 0; i < count && !w->bad; i++) {
        uint32_t kind = 0, slot = 0; /* kind: 0 job, 1 shape, 2 class, 3 ask */
        const uint32_t ends[] = {p->jobs_end, p->shapes_end, JOB_CLASS_END, p->asks_end};
        const uint32_t begins[] = {0, jobs_max, plan_of_class(p, 0), plan_of_ask(p, 0)};
        int64_t key = 0;
        if (w->mode != WALK_READ) {
            while (kind < 3 && p->plans.ids[i] >= begins[kind + 1]) kind++;
            slot = p->plans.ids[i] - begins[kind];
            key = p->plans.keys[i];
        }
        walk_end(w, &kind, 3);
        walk_index(w, &slot, ends[kind]);
        walk_i64(w, &key);
        if (w->mode == WALK_READ && !w->bad) heap_set(&p->plans, begins[kind] + slot, key);
    }
}

void walk_pool(struct walk *w, pool *p)
{
    walk_head(w, p);
    if (w->bad) return; /* the counts below cannot be trusted */
    walk_catalog(w, p);
    walk_quotas(w, p);
    walk_works(w, p);
    walk_matching(w, p);
    walk_keeps(w, p);
    walk_watch(w, p);
    walk_i64(w, &p->pack_half_us);
    pack_walk(w, p->pack);
    for (uint32_t i = 0; i < p->offers_end; i++) walk_offer(w, p, &p->offers[i]);
    for (uint32_t i = 0; i < p->nodes_end; i++) walk_node(w, p, &p->nodes[i]);
    for (uint32_t i = 0; i < p->leases_end; i++) walk_lease(w, p, &p->leases[i]);
    for (uint32_t i = 0; i < p->promises_end; i++) walk_promise(w, p, &p->promises[i]);
    for (uint32_t i = TERMS_NONE + 1; i < p->terms_end; i++) walk_terms(w, p, &p->terms[i]);
    for (uint32_t i = 0; i < p->shapes_end; i++) walk_shape(w, p, &p->shapes[i]);
    for (uint32_t i = 0; i < p->asks_end; i++) walk_link(w, &p->asks[i].link, p->asks_end);
    for (uint32_t i = 0; i < p->jobs_end; i++) walk_job(w, p, &p->jobs[i]);
    walk_plans(w, p);
}
