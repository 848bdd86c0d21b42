/* What a job asks of the supply of a region: from its shape, its terms and what limits leave of it. */
#include "core/buying.h"
#include "core/class.h"
#include "core/deadline.h"
#include "core/gate.h"
#include "core/part.h"
#include "core/plan_buy.h"
#include "core/quota.h"
#include "core/rate.h"
#include "core/tier.h"

/* Never below 0 when prices have risen: what costs nothing always fits. */
int64_t budget_left(int64_t budget_usd_micros, int64_t committed_usd_micros)
{
    return committed_usd_micros < budget_usd_micros ? budget_usd_micros - committed_usd_micros : 0;
}

struct demand demand_of(const struct shape *s, const struct job_terms *terms, uint32_t devices_left,
                        int64_t committed_usd_micros)
{
    struct demand demand = {.terms = terms,
                            .compat_mask = s->compat_mask,
                            .capacity_mask = s->capacity_mask,
                            .threshold_ppm = s->threshold_ppm,
                            .job_class = s->job_class,
                            .devices_left = devices_left,
                            .ncu_left_milli = terms->ncu_milli,
                            .special = part_is_special(terms),
                            .part_milli = part_milli(terms),
                            .node_devices_min = 1,
                            .region = s->region,
                            .job = SLOT_NONE,
                            .only_offer = SLOT_NONE,
                            .spot_offer = SLOT_NONE,
                            .device_usd_micros_max = INT64_MAX,
                            .bid_usd_micros = INT64_MAX,
                            .order = ((uint64_t)s->job_class + 1) << 56, /* the youngest */
                            .budget_left_usd_micros = INT64_MAX,
                            .bought_left_usd_micros = INT64_MAX,
                            .class_left_milli = UINT64_MAX,
                            .near = near_of(terms),
                            .workers_left = UINT32_MAX};
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) demand.quota_left_milli[kind] = INT64_MAX;
    if (s->kind == JOB_KIND_BATCH || demand.near.same >= TOPOLOGY_NODE) {
        demand.single_node = 1;
        demand.node_devices_min = s->devices_min;
    }
    if (s->budget_usd_micros_per_hour > 0)
        demand.budget_left_usd_micros =
            budget_left(s->budget_usd_micros_per_hour, committed_usd_micros);
    return demand;
}

/* What one device of the model counts in quotas, of the part that the demand takes of it. */
int64_t demand_quota_milli(const pool *p, const struct demand *demand, uint32_t model)
{
    uint32_t milli = demand->terms == NULL || demand->terms->mig_profile == 0
                         ? demand->part_milli
                         : part_milli_on(p, demand->terms, model);
    return quota_ncu_milli(p, model) * milli / 1000;
}

int64_t demand_quota_of(const pool *p, const struct demand *demand, uint32_t model,
                        uint32_t device_count)
{
    int64_t each = demand_quota_milli(p, demand, model);
    if (demand->terms->ncu_milli == 0) return each * device_count;
    return each * (int64_t)demand->ncu_left_milli / p->models[model].ncu_milli;
}

/* Devices that the quota lets a job have at most, were they all of the model that counts least. */
static uint32_t devices_within(const pool *p, const struct demand *demand)
{
    int64_t least[QUOTA_KINDS] = {0}, sum = 0;
    for (uint64_t rest = demand->compat_mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        int64_t each = demand_quota_milli(p, demand, model);
        int64_t *kind = &least[p->quota_kind[model]];
        if (each == 0 || demand->quota_left_milli[p->quota_kind[model]] == INT64_MAX)
            return UINT32_MAX;
        if (*kind == 0 || each < *kind) *kind = each;
    }
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (least[kind] != 0) sum += demand->quota_left_milli[kind] / least[kind];
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* Together and apart as its terms want it, unless that is not asked for just now. */
static void limit_place(const pool *p, struct demand *demand, uint32_t job)
{
    if (!(demand->lifted & OBSTACLE_PLACE)) {
        near_anchor(p, job, demand);
        return;
    }
    demand->near = (struct near){0};
    if (p->shapes[p->jobs[job].shape].kind == JOB_KIND_BATCH) return;
    demand->single_node = 0;
    demand->node_devices_min = 1;
}

void demand_within(const pool *p, struct demand *demand, const struct allowance *left)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS && !(demand->lifted & OBSTACLE_QUOTA); kind++)
        demand->quota_left_milli[kind] = left->ncu_milli[kind];
    if (!(demand->lifted & OBSTACLE_WORKERS)) demand->workers_left = left->workers;
    uint32_t devices = devices_within(p, demand);
    if (devices < demand->devices_left) {
        demand->devices_left = devices;
        demand->quota_short = 1;
    }
    if (demand->lifted & OBSTACLE_DOLLARS) return;
    if (left->usd_micros_per_hour < demand->budget_left_usd_micros)
        demand->budget_left_usd_micros = left->usd_micros_per_hour;
}

/* Its own tier; the next is kept in mind as long as it holds nothing. */
static void limit_tier(const pool *p, struct demand *demand, uint32_t job)
{
    struct tiers tiers = tiers_of(p, &p->shapes[p->jobs[job].shape], demand->terms);
    if (tier_anchor(p, job, &tiers, demand)) return;
    demand->next_tier = demand->compat_mask & tiers.next;
    demand->compat_mask &= tiers.own;
}

void demand_limit(const pool *p, struct demand *demand, uint32_t job)
{
    if (near_is_set(&demand->near)) limit_place(p, demand, job);
    if (demand->terms->degrade != 0) limit_tier(p, demand, job);
    demand->rates = rate_row(p, demand->terms->work_id);
    if (demand->rates != NULL)
        demand->compat_mask &= ~rate_never(p, demand->rates, demand->compat_mask);
    if (!(demand->lifted & OBSTACLE_GATE)) {
        demand->bought_left_usd_micros = gate_left(p, job);
        demand->gate_pools = p->shapes[p->jobs[job].shape].pool_mask;
    }
    if (!(demand->lifted & OBSTACLE_CLASS))
        demand->class_left_milli = class_left_milli(p, &p->shapes[p->jobs[job].shape]);
    deadline_limit(p, demand, job);
    if (!(demand->lifted & OBSTACLE_PRICE)) {
        demand->device_usd_micros_max = buying_device_max(p, &p->shapes[p->jobs[job].shape]);
        demand->bid_usd_micros = buying_bid(p, &p->shapes[p->jobs[job].shape]);
    }
    if (!p->accounts_defined) return;
    struct allowance left = quota_allowance(p, job);
    demand_within(p, demand, &left);
}

bool demand_free_of_gates(const pool *p, struct demand *demand)
{
    bool gated = demand->bought_left_usd_micros != INT64_MAX;
    for (uint64_t rest = demand->gate_pools; rest != 0 && !gated; rest &= rest - 1)
        gated = gate_pool_left(p, demand->job, (uint32_t)__builtin_ctzll(rest)) != INT64_MAX;
    if (!gated) return true;
    demand->gated = 1;
    demand->supply_mask = demand->capacity_mask;
    return demand_keep_kinds(demand, KINDS_BASELINE);
}

bool demand_keep_kinds(struct demand *demand, uint32_t kinds)
{
    if (kinds == KINDS_ALL) return true;
    demand->capacity_mask = demand->capacity_mask == 0 ? kinds : demand->capacity_mask & kinds;
    return demand->capacity_mask != 0;
}
