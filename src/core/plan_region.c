/* Which region a job starts in, or moves to. */
#include "core/act.h"
#include "core/data.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/predict.h"
#include "core/quota.h"

/* Least cost of its work, where its data has to come from counts; else more of its least on the baseline;
 * more NCU, then a lower price with its risk; then the region seen first. Who asks for NCU has them
 * anywhere: the lower price. */
static bool is_better(const struct mix *a, const struct mix *b, bool by_ncu)
{
    if (a->unit_cost != b->unit_cost) return a->unit_cost < b->unit_cost;
    if (by_ncu) return a->usd_micros_per_hour < b->usd_micros_per_hour;
    if (a->baseline_count != b->baseline_count) return a->baseline_count > b->baseline_count;
    if (a->ncu_milli != b->ncu_milli) return a->ncu_milli > b->ncu_milli;
    return a->weighed_usd_micros_per_hour < b->weighed_usd_micros_per_hour;
}

/* Where no data has to be brought, and for devices, not NCU: more of its least owned and reserved. */
static bool more_baseline(const struct mix *a, uint32_t home_baseline_count, bool by_ncu)
{
    return a->unit_cost == 0 && !by_ncu && a->baseline_count > home_baseline_count;
}

/* Worth leaving home for: more on the baseline; or as much NCU, clearly cheaper with the risk. */
static bool beats_home(const struct mix *a, const struct mix *home, bool by_ncu)
{
    if (home->unit_cost != 0 || a->unit_cost != 0)
        return a->unit_cost < money_share_floor(home->unit_cost, SWAP_GAIN_PPM, 1000000);
    if (more_baseline(a, home->baseline_count, by_ncu)) return true;
    return (by_ncu || a->ncu_milli >= home->ncu_milli) &&
           a->weighed_usd_micros_per_hour <=
               money_share_floor(home->weighed_usd_micros_per_hour, SWAP_GAIN_PPM, 1000000);
}

static int64_t lower_of(int64_t a, int64_t b)
{
    return a == 0 || b < a ? b : a;
}

/* What its work costs there, data included; false: more than it may spend on that. */
static bool weigh_data(const pool *p, const struct demand *demand, uint32_t region_index,
                       uint32_t devices_min, struct mix *mix)
{
    if (!data_is_set(demand->terms)) return true;
    struct staging staging = data_staging_of(p, demand, region_index);
    mix->data_usd_micros = staging.usd_micros;
    uint64_t ncu_milli = demand->terms->ncu_milli != 0 ? demand->terms->ncu_milli : mix->ncu_milli;
    mix->unit_cost =
        data_unit_cost(mix->weighed_usd_micros_per_hour, ncu_milli, demand->run_us, staging);
    if (!data_affords(p, demand, region_index)) return false;
    /* Its least has to be paid from the same dollars. */
    int64_t left = demand->job == SLOT_NONE || (demand->lifted & OBSTACLE_DATA) != 0
                       ? INT64_MAX
                       : quota_period_left(p, p->jobs[demand->job].account);
    if (left == INT64_MAX || staging.usd_micros == 0) return true;
    int64_t least =
        quota_price_of_run(mix->usd_micros_per_hour, quota_run_left_us(p, demand->job)) /
        mix->device_count * devices_min;
    return least <= left - staging.usd_micros;
}

/* The best region that reaches the gang's minimum; the one it was in before, if that does and no
 * other is clearly cheaper. In ret_best: what it could take there; without any, the cheapest node
 * that was too dear. */
static bool best_region(const pool *p, const struct shape *s, const struct demand *demand,
                        uint32_t home, bool stays, struct mix *ret_best)
{
    bool found = false;
    int64_t too_dear = 0;
    struct mix at_home = {0};
    uint32_t limited = 0, met = 0, hot_ppm = 0, gated_model = 0;
    int64_t gated = 0, data = 0, above_max = 0;
    uint64_t reach_milli = 0;
    bool by_ncu = demand->ncu_left_milli != 0;
    *ret_best = (struct mix){0};
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (s->region != 0 && s->region != p->regions[i].region) continue;
        if ((s->compat_mask & p->regions[i].model_mask) == 0) continue;
        if (stays && i != home) continue;
        struct mix mix;
        supply_best(p, demand, i, s->devices_min, &mix);
        limited |= mix.limited;
        met |= mix.met;
        if (mix.hot_ppm != 0 && (hot_ppm == 0 || mix.hot_ppm < hot_ppm)) hot_ppm = mix.hot_ppm;
        if (mix.above_max_usd_micros != 0 &&
            (above_max == 0 || mix.above_max_usd_micros < above_max))
            above_max = mix.above_max_usd_micros;
        if (mix.too_dear_usd_micros != 0 && (too_dear == 0 || mix.too_dear_usd_micros < too_dear))
            too_dear = mix.too_dear_usd_micros;
        if (mix.gated_usd_micros != 0 && (gated == 0 || mix.gated_usd_micros < gated)) {
            gated = mix.gated_usd_micros;
            gated_model = mix.gated_model;
        }
        if (mix.reach_ncu_milli > reach_milli) reach_milli = mix.reach_ncu_milli;
        if (mix.device_count < s->devices_min) continue;
        if (mix.baseline_count > s->devices_min) mix.baseline_count = s->devices_min;
        if (!weigh_data(p, demand, i, by_ncu ? mix.device_count : s->devices_min, &mix)) {
            met |= OBSTACLE_DATA;
            data = lower_of(data, mix.data_usd_micros);
            continue;
        }
        if (i == home) at_home = mix;
        if (!found || is_better(&mix, ret_best, by_ncu)) *ret_best = mix;
        found = true;
    }
    if (at_home.device_count > 0) {
        if (!beats_home(ret_best, &at_home, by_ncu)) *ret_best = at_home;
        ret_best->home_usd_micros_per_hour = at_home.weighed_usd_micros_per_hour;
        ret_best->home_baseline_count = at_home.baseline_count;
    }
    if (!found)
        *ret_best = (struct mix){.too_dear_usd_micros = too_dear,
                                 .gated_usd_micros = gated,
                                 .gated_model = gated_model,
                                 .limited = limited,
                                 .met = met,
                                 .reach_ncu_milli = reach_milli,
                                 .data_usd_micros = data,
                                 .hot_ppm = hot_ppm,
                                 .above_max_usd_micros = above_max};
    return found;
}

bool plan_best_region(const pool *p, const struct shape *s, const struct demand *demand,
                      uint32_t home, bool stays, struct mix *ret_best)
{
    if (best_region(p, s, demand, home, stays, ret_best)) return true;
    struct demand last = *demand;
    struct mix mix;
    last.compat_mask = demand->next_tier;
    if (last.compat_mask == 0 || !best_region(p, s, &last, home, stays, &mix)) return false;
    *ret_best = mix;
    ret_best->is_next_tier = 1;
    return true;
}

/* With the reason that best_region() had. A job that was matched there was told so. */
void plan_say_region_changed(pool *p, const struct job *j, const struct mix *mix,
                             struct pool_output *out)
{
    struct pool_decision decision = {.kind = DECISION_PLACE,
                                     .reason = REASON_REGION_CHANGED,
                                     .job_id = j->job_id,
                                     .a = j->devices_min};
    if (j->match_listed == MATCH_ASSIGNED) return;
    if (mix != NULL && mix->home_usd_micros_per_hour != 0) {
        decision.reason = REASON_REGION_CHEAPER;
        decision.a = mix->weighed_usd_micros_per_hour;
        decision.b = mix->home_usd_micros_per_hour;
        if (more_baseline(mix, mix->home_baseline_count, plan_is_ncu(p, j))) {
            decision.reason = REASON_REGION_BASELINE;
            decision.a = mix->baseline_count;
            decision.b = mix->home_baseline_count;
            decision.c = j->devices_min;
        }
    }
    act_decision(p, out, decision);
}

/* Nothing of it is left, so nothing is lost by beginning elsewhere. */
bool plan_leaves_region(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    if (s->region != 0 || j->promised_count > 0 || plan_works_still(p, j)) return false;
    struct demand demand = demand_of(s, terms_of(p, s), s->devices_max, /* committed */ 0);
    demand.job = job;
    demand.order = j->order;
    demand.run_us = predict_run_us(p, s, j->project);
    demand_limit(p, &demand, job);
    struct mix mix;
    return plan_best_region(p, s, &demand, j->region_index, /* stays */ false, &mix) &&
           mix.region_index != j->region_index;
}
