/* What is declared or learned, rather than held, in the walk over the state: catalog, accounts, work,
 * matching, buying. */
#include "core/deadline.h"
#include "core/mig.h"
#include "core/spot_watch.h"
#include "core/walk.h"

static_assert(sizeof(struct model) == 24, "walk the new field of model");
static_assert(sizeof(struct pool_rule) == 24, "walk the new field of pool_rule");
static_assert(sizeof(struct region) == 88, "walk the new field of region");
static_assert(sizeof(struct market) == 136, "walk the new field of market");
static_assert(sizeof(struct account) == 368, "walk the new field of account");
static_assert(sizeof(struct class_rule) == 24, "walk the new field of class_rule");
static_assert(sizeof(struct work) == 16, "walk the new field of work");
static_assert(sizeof(struct link_cost) == 16, "walk the new field of link_cost");
static_assert(sizeof(struct rate) == 32, "walk the new field of rate");
static_assert(sizeof(struct history) == 32, "walk the new field of history");
static_assert(sizeof(struct gate) == 64, "walk the new field of gate");
static_assert(sizeof(struct buying) == 24, "walk the new field of buying");
static_assert(offsetof(struct spot_plan, solved) == 40, "walk the new field of spot_plan");

static void walk_gate(struct walk *w, struct gate *gate)
{
    walk_i64(w, &gate->usd_micros_per_hour_max);
    walk_i64(w, &gate->usd_micros_per_job_max);
    walk_i64(w, &gate->usd_micros_per_month_max);
    walk_i64(w, &gate->usd_micros_per_hour);
    walk_i64(w, &gate->reserved_usd_micros);
    walk_i64(w, &gate->spent_usd_micros);
    walk_i64(w, &gate->month);
    walk_u32(w, &gate->refuses);
}

static void walk_account(struct walk *w, pool *p, struct account *a)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        walk_i64(w, &a->quota_milli[kind]);
        walk_i64(w, &a->borrow_milli[kind]);
        walk_i64(w, &a->lend_milli[kind]);
        walk_i64(w, &a->total_milli[kind]);
        walk_i64(w, &a->pool_milli[kind]);
        walk_i64(w, &a->used_milli[kind]);
        walk_i64(w, &a->own_milli[kind]);
        walk_i64(w, &a->held_milli[kind]);
        walk_u32(w, &a->has_quota[kind]);
    }
    walk_i64(w, &a->average);
    walk_i64(w, &a->average_us);
    walk_i64(w, &a->usd_micros_per_hour);
    walk_i64(w, &a->usd_micros_per_hour_max);
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++) {
        walk_i64(w, &a->usd_micros_max[i]);
        walk_i64(w, &a->spent_usd_micros[i]);
        walk_i64(w, &a->period[i]);
    }
    walk_i64(w, &a->reserved_usd_micros);
    walk_i64(w, &a->paced_us);
    walk_slot(w, &a->parent, p->accounts_end);
    walk_u32(w, &a->name);
    walk_u32(w, &a->level);
    walk_u32(w, &a->weight_milli);
    walk_u32(w, &a->jobs);
    walk_u32(w, &a->jobs_max);
    walk_u32(w, &a->workers);
    walk_u32(w, &a->workers_max);
    walk_u32(w, &a->submissions_per_minute_max);
    walk_gate(w, &a->gate);
}

void walk_quotas(struct walk *w, pool *p)
{
    walk_u32(w, &p->accounts_defined);
    walk_u32(w, &p->quota_freed);
    walk_u32(w, &p->quota_waiting);
    walk_i64(w, &p->quota_wake_us);
    walk_i64(w, &p->reclaim_until_us);
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) walk_gate(w, &p->class_gates[i]);
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++) walk_gate(w, &p->pool_gates[i]);
    for (uint32_t i = 0; i < p->config.limits.models_max; i++) {
        walk_u32(w, &p->quota_kind[i]);
        walk_u32(w, &p->quota_weight_milli[i]);
        if (p->quota_kind[i] >= QUOTA_KINDS) {
            w->bad = true;
            p->quota_kind[i] = 0;
        }
    }
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        walk_account(w, p, &p->accounts[i]);
        /* Parents come first: nobody walks in a circle. */
        if (i > 0 && p->accounts[i].parent >= i) w->bad = true;
    }
}

void walk_catalog(struct walk *w, pool *p)
{
    for (uint32_t i = 0; i < p->config.limits.models_max; i++) {
        walk_u64(w, &p->models[i].capability_mask);
        walk_u32(w, &p->models[i].ncu_milli);
        walk_u32(w, &p->models[i].vram_mib);
        walk_u32(w, &p->models[i].mig_slices);
        if (p->models[i].mig_slices != 0 && mig_geometry_of(p->models[i].mig_slices) == NULL)
            w->bad = true;
    }
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++) {
        walk_u64(w, &p->rules[i].capability_mask);
        walk_u64(w, &p->rules[i].hardware_mask);
        walk_u32(w, &p->rules[i].vram_min_mib);
        walk_u32(w, &p->rules[i].price_threshold_ppm);
    }
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        walk_u32(w, &p->classes[i].reserved_ppm);
        walk_u32(w, &p->classes[i].burst_ppm);
        walk_u32(w, &p->classes[i].may_preempt_mask);
        walk_u32(w, &p->classes[i].preemptible);
        walk_u32(w, &p->classes[i].queues);
    }
    for (uint32_t i = 0; i < HISTORY_MAX; i++) {
        walk_u64(w, &p->histories[i].key);
        walk_i64(w, &p->histories[i].mean_us);
        walk_i64(w, &p->histories[i].deviation_us);
        walk_u32(w, &p->histories[i].count);
    }
    for (uint32_t i = 0; i < p->regions_end; i++) {
        walk_u64(w, &p->regions[i].model_mask);
        walk_u64(w, &p->regions[i].improved_mask);
        for (uint32_t class = 0; class < JOB_CLASS_END; class ++) {
            walk_u64(w, &p->regions[i].kept_models[class]);
            walk_u32(w, &p->regions[i].kept_kinds[class]);
        }
        walk_u32(w, &p->regions[i].region);
        walk_list(w, &p->regions[i].interested, p->jobs_end);
    }
    for (uint32_t i = 0; i < p->regions_end * p->config.limits.models_max; i++) {
        if (w->mode == WALK_READ) p->markets[i] = (struct market){0};
        walk_list(w, &p->markets[i].idle_offers, p->offers_end);
        for (uint32_t kind = 0; kind < CAPACITY_KIND_END; kind++) {
            walk_u64(w, &p->markets[i].reach_devices[kind]);
            walk_u32(w, &p->markets[i].node_devices_max[kind]);
        }
    }
}

void walk_works(struct walk *w, pool *p)
{
    for (uint32_t i = 0; i < p->links_end; i++) {
        walk_u64(w, &p->links[i].key);
        walk_u32(w, &p->links[i].usd_micros_per_gb);
        walk_u32(w, &p->links[i].mb_per_s);
        if (i > 0 && p->links[i].key <= p->links[i - 1].key) w->bad = true;
    }
    for (uint32_t i = 0; i < p->works_end; i++) {
        walk_u64(w, &p->works[i].work_id);
        walk_link(w, &p->works[i].told_link, p->works_end);
        struct rate *row = &p->rates[(size_t)i * p->config.limits.models_max];
        for (uint32_t model = 0; model < p->config.limits.models_max; model++) {
            walk_u64(w, &row[model].declared_micro);
            walk_u64(w, &row[model].measured_micro);
            walk_u32(w, &row[model].told);
            walk_u32(w, &row[model].measured_count);
        }
    }
}

static void walk_sizes(struct walk *w, struct match_size *sizes)
{
    walk_u64(w, &sizes->ended);
    if (sizes->ended == 0) return; /* as match_size_clear() left it */
    walk_u64(w, &sizes->learn_next);
    for (uint32_t i = 0; i < MATCH_SIZE_BUCKETS; i++) {
        walk_u32(w, &sizes->count[i]);
        walk_i64(w, &sizes->expected_s[i]);
        if (sizes->expected_s[i] < 0) w->bad = true;
    }
}

void walk_matching(struct walk *w, pool *p)
{
    walk_u64(w, &p->supply_changes); /* who is barred is barred while it is this */
    walk_i64(w, &p->match_round_us);
    walk_i64(w, &p->match_restart_us);
    walk_i64(w, &p->match_last_us);
    walk_i64(w, &p->match_due_us);
    walk_u32(w, &p->match_rounds);
    walk_u32(w, &p->match_late);
    for (uint32_t list = MATCH_WAITING; list < MATCH_LIST_END; list++)
        for (uint32_t class = 0; class < JOB_CLASS_END; class ++)
            walk_list(w, &p->matched[list][class], p->jobs_end);
    walk_sizes(w, &p->match_size);
}

static void walk_buying(struct walk *w, struct buying *rule)
{
    walk_u32(w, &rule->policy);
    walk_u32(w, &rule->price_threshold_ppm);
    walk_i64(w, &rule->device_usd_micros_max);
    walk_i64(w, &rule->bid_usd_micros);
}

static void walk_plan_terms(struct walk *w, struct spot_plan *plan)
{
    walk_u32(w, &plan->terms.work);
    walk_u32(w, &plan->terms.window);
    walk_u32(w, &plan->terms.changeover);
    walk_u32(w, &plan->terms.spot_price);
    walk_u32(w, &plan->terms.on_demand_price);
    walk_u32(w, &plan->terms.cells);
    walk_u32(w, &plan->zones);
}

/* Tables are solved again at their first use. */
void walk_watch(struct walk *w, pool *p)
{
    struct spot_watch *watch = p->watch;
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) walk_buying(w, &p->class_buying[i]);
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++) walk_buying(w, &p->pool_buying[i]);
    walk_u32(w, &p->ranking_state);
    walk_i64(w, &watch->next_us);
    walk_u64(w, &watch->uses);
    walk_end(w, &watch->life.zone_count, SPOT_ZONES_MAX);
    walk_u32(w, &watch->life.ticks);
    walk_end(w, &watch->tick_count, SPOT_HISTORY);
    walk_u32(w, &watch->taken);
    for (uint32_t z = 0; z < watch->life.zone_count; z++) {
        walk_index(w, &watch->offer[z], p->offers_end);
        walk_i64(w, &watch->wanted_us[z]);
        walk_u32(w, &watch->life.age[z]);
        for (uint32_t bucket = 0; bucket < SPOT_AGES; bucket++) {
            walk_u32(w, &watch->life.seen[z][bucket]);
            walk_u32(w, &watch->life.lost[z][bucket]);
            if (watch->life.lost[z][bucket] > watch->life.seen[z][bucket]) w->bad = true;
        }
    }
    for (uint32_t t = 0; t < watch->tick_count; t++) walk_u32(w, &watch->history[t]);
    for (uint32_t i = 0; i < watch->plan_count; i++) {
        struct spot_plan *plan = &watch->plans[i];
        walk_plan_terms(w, plan);
        walk_end(w, &plan->learned_ticks, watch->tick_count);
        walk_u64(w, &plan->used);
        if (w->mode == WALK_READ && plan->zones != 0 && !spot_watch_fits(p, &plan->terms))
            w->bad = true;
    }
}
