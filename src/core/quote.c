#include "core/quote.h"
#include "core/assert.h"
#include "core/data.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/quota.h"
#include "core/rate.h"
#include "core/tier.h"

struct asking {
    const pool *p;
    struct shape shape;
    const struct job_terms *terms;
    const struct rate *rates; /* NULL: NCU count */
    const struct quote_ask *ask;
    struct allowance left; /* of its account */
    bool limited;          /* somebody has limits */
    struct quote *quote;
};

static uint32_t kinds_spot(void)
{
    return 1U << CAPACITY_SPOT;
}

static uint32_t kinds_guaranteed(void)
{
    return 1U << CAPACITY_OWNED | 1U << CAPACITY_RESERVED | 1U << CAPACITY_ON_DEMAND;
}

static uint32_t restrict_kinds(uint32_t asked, uint32_t kinds)
{
    return asked == 0 ? kinds : asked & kinds;
}

static void fill_lines(const pool *p, const struct mix *mix, struct quote_option *option)
{
    static_assert((int)SUPPLY_LINES_MAX <= (int)QUOTE_LINES_MAX,
                  "every line of a mix fits an option");
    option->line_count = mix->line_count;
    for (uint32_t i = 0; i < mix->line_count; i++)
        option->lines[i] =
            (struct quote_line){.offer_id = p->offers[mix->lines[i].offer].offer_id,
                                .node_count = mix->lines[i].node_count,
                                .device_count = mix->lines[i].device_count,
                                .usd_micros_per_hour = mix->lines[i].usd_micros_per_hour};
}

/* Without `same` or `spread` there would be enough. */
static bool place_is_in_the_way(const struct asking *a, const struct mix *mix)
{
    struct demand demand = demand_of(&a->shape, a->terms, a->shape.devices_max, /* committed */ 0);
    struct mix loose;
    if (!near_is_set(&demand.near)) return false;
    demand.rates = a->rates;
    demand.near = (struct near){0};
    demand.single_node = 0;
    demand.node_devices_min = 1;
    supply_best(a->p, &demand, mix->region_index, a->shape.devices_min, &loose);
    return loose.device_count >= a->shape.devices_min;
}

/* Its account has not enough left: quota, dollars or workers. */
static bool fill_limit(const struct asking *a, const struct mix *mix, struct quote_option *option)
{
    const struct shape *s = &a->shape;
    struct demand demand = demand_of(s, a->terms, s->devices_max, /* committed */ 0);
    demand_within(a->p, &demand, &a->left);
    if ((mix->met & OBSTACLE_QUOTA) != 0 || demand.devices_left < s->devices_min) {
        option->reason = REASON_WAIT_QUOTA;
        option->a = INT64_MAX;
        for (uint64_t rest = shape_sold(a->p, s); rest != 0; rest &= rest - 1) {
            uint32_t model = (uint32_t)__builtin_ctzll(rest);
            int64_t needed = demand_quota_of(a->p, &demand, model, s->devices_min);
            if (needed >= option->a) continue;
            option->a = needed;
            option->b = a->left.ncu_milli[a->p->quota_kind[model]];
        }
        return true;
    }
    if (mix->too_dear_usd_micros != 0 &&
        (s->budget_usd_micros_per_hour == 0 ||
         a->left.usd_micros_per_hour < s->budget_usd_micros_per_hour)) {
        option->reason = REASON_WAIT_ACCOUNT_BUDGET;
        option->a = mix->too_dear_usd_micros;
        option->b = a->left.usd_micros_per_hour;
        return true;
    }
    if ((mix->met & OBSTACLE_WORKERS) == 0 || a->left.workers >= s->devices_min) return false;
    option->reason = REASON_WAIT_WORKERS;
    option->b = a->left.workers;
    return true;
}

static void fill_reason(const struct asking *a, const struct mix *mix, struct quote_option *option)
{
    const struct shape *s = &a->shape;
    option->reason = REASON_FITS;
    option->a = s->devices_min;
    option->b = mix->device_count;
    if (mix->device_count >= s->devices_min) return;
    if (a->limited && fill_limit(a, mix, option)) return;
    if (mix->too_dear_usd_micros != 0) {
        option->reason = REASON_WAIT_BUDGET;
        option->a = mix->too_dear_usd_micros;
        option->b = s->budget_usd_micros_per_hour - mix->usd_micros_per_hour;
        return;
    }
    if ((mix->met & OBSTACLE_KEPT) != 0) {
        option->reason = REASON_KEPT_FOR_GANG;
        option->a = a->p->config.boot_timeout_us;
        return;
    }
    if (a->terms->ncu_milli != 0) {
        option->reason = REASON_WAIT_NCU;
        option->a = a->terms->ncu_milli;
        option->b = (int64_t)mix->reach_ncu_milli;
        return;
    }
    option->reason = REASON_WAIT_CAPACITY;
    option->a = mix->device_count;
    option->b = s->devices_min;
    if (!place_is_in_the_way(a, mix)) return;
    option->reason = a->terms->spread != TOPOLOGY_ANY ? REASON_WAIT_SPREAD : REASON_WAIT_SAME;
    option->c = a->terms->spread != TOPOLOGY_ANY ? a->terms->spread : a->terms->affinity;
}

static void fill_data(const struct asking *a, const struct mix *mix, struct quote_option *option)
{
    if (!data_is_set(a->terms)) return;
    struct staging staging =
        data_staging(a->p, a->terms, option->region, a->ask->links, a->ask->link_count);
    option->egress_usd_micros = staging.usd_micros;
    option->staging_us = staging.us;
    option->unit_cost =
        data_unit_cost(mix->weighed_usd_micros_per_hour, mix->ncu_milli, a->terms->run_us, staging);
    if (option->reason != REASON_FITS || staging.usd_micros == 0) return;
    int64_t budget = a->ask->submitted->u.job_submitted.budget_usd_micros;
    if (budget == 0 || staging.usd_micros <= budget) return;
    option->reason = REASON_WAIT_DATA;
    option->a = staging.usd_micros;
    option->b = budget;
}

static struct quote_option make_option(const struct asking *a, const struct mix *mix,
                                       uint32_t strategy)
{
    struct quote_option option = {.strategy = strategy,
                                  .region = a->p->regions[mix->region_index].region,
                                  .device_count = mix->device_count,
                                  .ncu_milli = mix->ncu_milli,
                                  .usd_micros_per_hour = mix->usd_micros_per_hour};
    fill_lines(a->p, mix, &option);
    fill_reason(a, mix, &option);
    fill_data(a, mix, &option);
    return option;
}

/* Possible before not; the planner's own rule before the variations on it, which only make sense
 * where it applies; then more NCU (unless that is what it asks for), lower price, strategy, region: a
 * total order. */
static bool goes_before(const struct quote_option *a, const struct quote_option *b, bool by_ncu)
{
    bool a_fits = a->reason == REASON_FITS, b_fits = b->reason == REASON_FITS;
    if (a_fits != b_fits) return a_fits;
    bool a_mix = a->strategy == QUOTE_CHEAPEST_MIX, b_mix = b->strategy == QUOTE_CHEAPEST_MIX;
    if (a_mix != b_mix) return a_mix;
    if (a->unit_cost != b->unit_cost) return a->unit_cost < b->unit_cost;
    if (!by_ncu && a->ncu_milli != b->ncu_milli) return a->ncu_milli > b->ncu_milli;
    if (a->usd_micros_per_hour != b->usd_micros_per_hour)
        return a->usd_micros_per_hour < b->usd_micros_per_hour;
    if (a->strategy != b->strategy) return a->strategy < b->strategy;
    return false; /* regions come in order: the earlier one stays ahead */
}

static void insert(const struct asking *a, const struct quote_option *option)
{
    struct quote *quote = a->quote;
    bool by_ncu = a->terms->ncu_milli != 0;
    uint32_t at = quote->option_count;
    while (at > 0 && goes_before(option, &quote->options[at - 1], by_ncu)) at--;
    if (at == QUOTE_OPTIONS_MAX) return;
    if (quote->option_count < QUOTE_OPTIONS_MAX) quote->option_count++;
    for (uint32_t i = quote->option_count - 1; i > at; i--)
        quote->options[i] = quote->options[i - 1];
    quote->options[at] = *option;
}

static void offer_strategy(struct asking *a, uint32_t region_index, uint32_t strategy,
                           uint32_t capacity_mask, uint64_t compat_mask)
{
    struct demand demand = demand_of(&a->shape, a->terms, a->shape.devices_max, /* committed */ 0);
    struct mix mix;
    demand.rates = a->rates;
    demand.capacity_mask = capacity_mask;
    demand.compat_mask = compat_mask;
    struct tiers tiers = tiers_of(a->p, &a->shape, a->terms);
    if (tiers.own != 0) demand.compat_mask &= tiers.own;
    if (a->limited) demand_within(a->p, &demand, &a->left);
    supply_best(a->p, &demand, region_index, a->shape.devices_min, &mix);
    if (mix.device_count < a->shape.devices_min && (compat_mask & tiers.next) != 0) {
        demand.compat_mask = compat_mask & tiers.next;
        supply_best(a->p, &demand, region_index, a->shape.devices_min, &mix);
    }
    if (mix.device_count == 0 && strategy != QUOTE_CHEAPEST_MIX) return;
    struct quote_option option = make_option(a, &mix, strategy);
    insert(a, &option);
}

static bool is_better_model(const struct asking *a, const struct mix *mix, const struct mix *best)
{
    if (a->terms->ncu_milli != 0) return mix->usd_micros_per_hour < best->usd_micros_per_hour;
    return mix->ncu_milli > best->ncu_milli;
}

/* The one model that gives most NCU on its own, or those that are asked for at the lowest price. */
static void offer_single_model(struct asking *a, uint32_t region_index)
{
    const struct shape *s = &a->shape;
    uint64_t models = s->compat_mask & a->p->regions[region_index].model_mask, best = 0;
    struct mix best_mix = {0};
    if ((models & (models - 1)) == 0) return; /* the mix is of one model anyway */
    for (uint64_t rest = models; rest != 0; rest &= rest - 1) {
        struct demand demand = demand_of(s, a->terms, s->devices_max, /* committed */ 0);
        struct mix mix;
        demand.rates = a->rates;
        demand.compat_mask = rest & ~(rest - 1);
        if (a->limited) demand_within(a->p, &demand, &a->left);
        supply_best(a->p, &demand, region_index, s->devices_min, &mix);
        bool fits = mix.device_count >= s->devices_min;
        bool best_fits = best != 0 && best_mix.device_count >= s->devices_min;
        if (best != 0 && fits == best_fits && !is_better_model(a, &mix, &best_mix)) continue;
        if (best != 0 && !fits && best_fits) continue;
        best = demand.compat_mask;
        best_mix = mix;
    }
    if (best_mix.device_count == 0) return;
    struct quote_option option = make_option(a, &best_mix, QUOTE_SINGLE_MODEL);
    insert(a, &option);
}

static void quote_region(struct asking *a, uint32_t region_index)
{
    const struct shape *s = &a->shape;
    offer_strategy(a, region_index, QUOTE_CHEAPEST_MIX, s->capacity_mask, s->compat_mask);
    uint32_t spot = restrict_kinds(s->capacity_mask, kinds_spot());
    uint32_t guaranteed = restrict_kinds(s->capacity_mask, kinds_guaranteed());
    if (spot != 0) offer_strategy(a, region_index, QUOTE_SPOT_ONLY, spot, s->compat_mask);
    if (guaranteed != 0)
        offer_strategy(a, region_index, QUOTE_GUARANTEED_ONLY, guaranteed, s->compat_mask);
    offer_single_model(a, region_index);
}

/* What is known of the work; else what the request declares, in the caller's row. */
static const struct rate *rates_of(const pool *p, const struct quote_ask *ask,
                                   const struct job_terms *terms, struct rate row[MODELS_MAX])
{
    const struct rate *known = rate_row(p, terms->work_id);
    if (known != NULL || ask->rate_count == 0) return known;
    rate_declared(p, ask->rates, ask->rate_count, row);
    return row;
}

/* As its account would be limited; at the door, too. */
static void limit(struct asking *a)
{
    const pool *p = a->p;
    a->limited = p->accounts_defined;
    if (!a->limited) return;
    uint32_t account = quota_find_of(p, a->ask->submitted);
    int64_t numbers[3] = {0};
    a->left = quota_allowance_of(p, account, a->terms->run_us);
    uint32_t reason = quota_door(p, account, numbers);
    if (reason == REASON_NONE || a->quote->verdict != REASON_FITS) return;
    a->quote->verdict = reason;
    a->quote->a = numbers[0];
    a->quote->b = numbers[1];
    a->quote->c = numbers[2];
}

void pool_quote(const pool *p, const struct quote_ask *ask, struct quote *ret_quote)
{
    static const struct job_terms none;
    struct rate row[MODELS_MAX];
    struct asking a = {
        .p = p, .terms = ask->terms != NULL ? ask->terms : &none, .quote = ret_quote, .ask = ask};
    ASSERT(ask->submitted->kind == POOL_EVENT_JOB_SUBMITTED);
    *ret_quote = (struct quote){0};
    shape_fill(p, ask->submitted, &a.shape);
    a.rates = rates_of(p, ask, a.terms, row);
    struct verdict verdict = plan_judge(p, &a.shape, a.terms, a.rates);
    ret_quote->verdict = verdict.reason;
    ret_quote->a = verdict.numbers.a;
    ret_quote->b = verdict.numbers.b;
    ret_quote->c = verdict.numbers.c;
    if (verdict.reason == REASON_BAD_REQUEST) return;
    limit(&a);
    if (a.rates != NULL) a.shape.compat_mask &= ~rate_never(p, a.rates, a.shape.compat_mask);
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (a.shape.region != 0 && a.shape.region != p->regions[i].region) continue;
        if ((a.shape.compat_mask & p->regions[i].model_mask) == 0) continue;
        quote_region(&a, i);
    }
}
