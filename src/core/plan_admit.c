/* Admission: what can never run is refused at once, with the number that would make it possible.
 * "Ever" means: the largest stock each offer has shown, at today's prices. An offer that is out of
 * stock, refusing or above the threshold today makes a job wait, not impossible. */
#include "core/act.h"
#include "core/afford.h"
#include "core/assert.h"
#include "core/deadline.h"
#include "core/island.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/plan_pack.h"
#include "core/prices.h"
#include "core/quota.h"
#include "core/rate.h"

struct reach {
    uint64_t device_count;
    bool any_offer;
    int64_t usd_micros_per_hour; /* cheapest way to devices_min; -1 = not reached */
};

static void add_market(const struct shape *s, const struct market *market, struct reach *reach)
{
    for (uint32_t kind = CAPACITY_OWNED; kind < CAPACITY_KIND_END; kind++) {
        if (s->capacity_mask != 0 && (s->capacity_mask >> kind & 1) == 0) continue;
        if (market->reach_devices[kind] == 0) continue;
        reach->any_offer = true;
        if (s->kind != JOB_KIND_BATCH)
            reach->device_count += market->reach_devices[kind];
        else if (market->node_devices_max[kind] > reach->device_count) /* one node runs it */
            reach->device_count = market->node_devices_max[kind];
    }
}

/* The same where a node gives less than all its devices: offer by offer. */
static void add_special(const pool *p, const struct shape *s, const struct job_terms *terms,
                        const struct market *market, struct reach *reach)
{
    for (uint32_t at = prices_first(p, market, KINDS_ALL); at != SLOT_NONE;
         at = prices_next(p, market, at, KINDS_ALL)) {
        const struct offer *o = &p->offers[at];
        if (s->capacity_mask != 0 && (s->capacity_mask >> o->capacity & 1) == 0) continue;
        if (o->reach_count == 0) continue;
        reach->any_offer = true;
        uint32_t gives = part_offer_gives(p, o, terms);
        uint32_t group = island_offer_gives(o, terms->affinity);
        if (group < gives) gives = group;
        if (s->kind != JOB_KIND_BATCH)
            reach->device_count += (uint64_t)o->reach_count * gives;
        else if (gives > reach->device_count)
            reach->device_count = gives;
    }
}

/* Together or apart: not all of the region counts, and each device of its own may need its own node. */
static void add_places(const pool *p, const struct shape *s, const struct demand *demand,
                       uint32_t region_index, struct reach *reach)
{
    struct mix mix;
    struct demand within = *demand;
    const struct pool_limits *limits = &p->config.limits;
    if (s->budget_usd_micros_per_hour > 0)
        within.budget_left_usd_micros = s->budget_usd_micros_per_hour;
    supply_best(p, &within, region_index, s->devices_min, &mix);
    if (mix.device_count < s->devices_min && s->budget_usd_micros_per_hour > 0)
        supply_best(p, demand, region_index, s->devices_min, &mix);
    reach->device_count = mix.device_count;
    if (demand->near.spread != TOPOLOGY_ANY) {
        if (reach->device_count > limits->nodes_max) reach->device_count = limits->nodes_max;
        if (reach->device_count > limits->leases_max) reach->device_count = limits->leases_max;
    }
    if (reach->device_count >= s->devices_min) reach->usd_micros_per_hour = mix.usd_micros_per_hour;
}

/* What its least costs there on the way that is found first; -1: none within what the demand may spend. */
static int64_t cost_of(const pool *p, const struct demand *demand, uint32_t region_index,
                       uint32_t devices_min)
{
    struct mix mix;
    int64_t least = -1;
    supply_mix(p, demand, region_index, SUPPLY_CHEAPEST, &mix);
    if (mix.device_count >= devices_min) least = mix.usd_micros_per_hour;
    if (least >= 0 && demand->budget_left_usd_micros != INT64_MAX) return least;
    if (!supply_alone(p, demand, region_index, devices_min, &mix)) return least;
    return least < 0 || mix.usd_micros_per_hour < least ? mix.usd_micros_per_hour : least;
}

/* What its least costs there: within the budget, if there is a way. */
static int64_t price_of(const pool *p, const struct shape *s, const struct demand *demand,
                        uint32_t region_index)
{
    struct demand within = *demand;
    int64_t budget = s->budget_usd_micros_per_hour;
    if (budget == 0) return cost_of(p, demand, region_index, s->devices_min);
    within.budget_left_usd_micros = budget;
    int64_t least = cost_of(p, &within, region_index, s->devices_min);
    if (least >= 0) return least;
    if (afford_within(p, demand, region_index, s->devices_min, budget)) return budget;
    return cost_of(p, demand, region_index, s->devices_min);
}

/* prices: whether it can be had at all and what for is wanted, too. */
static struct reach reach_of(const pool *p, const struct shape *s, const struct job_terms *terms,
                             uint32_t region_index, bool prices)
{
    struct reach reach = {.usd_micros_per_hour = -1};
    uint64_t models = s->compat_mask & p->regions[region_index].model_mask;
    for (uint64_t rest = models; rest != 0; rest &= rest - 1) {
        const struct market *market = market_of(p, region_index, (uint32_t)__builtin_ctzll(rest));
        if (part_is_special(terms))
            add_special(p, s, terms, market, &reach);
        else
            add_market(s, market, &reach);
    }
    struct demand demand = demand_of(s, terms, s->devices_min, /* committed */ 0);
    demand.ever = 1;
    demand.budget_left_usd_micros = INT64_MAX;
    if (near_is_set(&demand.near))
        add_places(p, s, &demand, region_index, &reach);
    else if (prices)
        reach.usd_micros_per_hour = price_of(p, s, &demand, region_index);
    return reach;
}

static struct reach best_reach(const pool *p, const struct shape *s, const struct job_terms *terms)
{
    struct reach best = {.usd_micros_per_hour = -1};
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (s->region != 0 && s->region != p->regions[i].region) continue;
        if ((s->compat_mask & p->regions[i].model_mask) == 0) continue;
        bool prices = s->budget_usd_micros_per_hour > 0 || best.usd_micros_per_hour < 0;
        struct reach here = reach_of(p, s, terms, i, prices);
        best.any_offer |= here.any_offer;
        if (here.device_count > best.device_count) best.device_count = here.device_count;
        if (here.usd_micros_per_hour >= 0 &&
            (best.usd_micros_per_hour < 0 || here.usd_micros_per_hour < best.usd_micros_per_hour))
            best.usd_micros_per_hour = here.usd_micros_per_hour;
    }
    return best;
}

/* Too many for one place, or for so many places. */
static struct verdict near_verdict(const struct job_terms *terms, struct verdict verdict)
{
    if (terms->spread != TOPOLOGY_ANY) {
        verdict.reason = REASON_PLACES_TOO_FEW;
        verdict.numbers.c = terms->spread;
    } else if (terms->affinity != TOPOLOGY_ANY) {
        verdict.reason = REASON_PLACE_TOO_SMALL;
        verdict.numbers.c = terms->affinity;
    }
    return verdict;
}

/* The cheapest mix anywhere of all that could ever be had; parts of nodes can be had only while they idle. */
static struct verdict judge_ncu(const pool *p, const struct shape *s, const struct job_terms *terms)
{
    struct numbers numbers = {.a = terms->ncu_milli};
    struct demand demand = demand_of(s, terms, /* devices */ 1, /* committed */ 0);
    int64_t least = -1, budget = s->budget_usd_micros_per_hour;
    struct mix mix;
    demand.budget_left_usd_micros = INT64_MAX;
    for (uint32_t i = 0; i < 2 * p->regions_end; i++) {
        uint32_t region_index = i / 2;
        if (s->region != 0 && s->region != p->regions[region_index].region) continue;
        demand.ever = i % 2 == 0;
        supply_best(p, &demand, region_index, /* devices_min */ 1, &mix);
        if ((int64_t)mix.reach_ncu_milli > numbers.b) numbers.b = (int64_t)mix.reach_ncu_milli;
        if (mix.device_count == 0) continue;
        if (least < 0 || mix.usd_micros_per_hour < least) least = mix.usd_micros_per_hour;
    }
    if (numbers.b == 0) return (struct verdict){.reason = REASON_NO_OFFER};
    if (least < 0) return (struct verdict){.reason = REASON_NCU_TOO_MANY, .numbers = numbers};
    if (budget == 0 || least <= budget)
        return (struct verdict){.reason = REASON_FITS, .numbers = numbers};
    return (struct verdict){.reason = REASON_NCU_BUDGET,
                            .numbers = {.a = least, .b = budget, .c = terms->ncu_milli}};
}

struct verdict plan_judge(const pool *p, const struct shape *s, const struct job_terms *terms,
                          const struct rate *rates)
{
    struct shape able = *s; /* without the models on which the work never runs */
    struct verdict verdict = {.reason = REASON_BAD_REQUEST,
                              .numbers = {.a = s->devices_min, .b = s->devices_max}};
    if (s->devices_min == 0 || s->devices_min > s->devices_max) return verdict;
    if (terms == NULL)
        return (struct verdict){.reason = REASON_LIMIT_TERMS,
                                .numbers = {.a = p->config.limits.terms_max}};
    /* One device stands for those of its mix. */
    if (terms->ncu_milli != 0 && (s->devices_max != 1 || s->kind == JOB_KIND_BATCH)) return verdict;
    verdict = (struct verdict){.reason = REASON_NO_CAPABILITY};
    if (s->compat_mask == 0) return verdict;
    if (rates != NULL) able.compat_mask &= ~rate_never(p, rates, able.compat_mask);
    verdict.reason = REASON_RATES_ZERO;
    if (able.compat_mask == 0) return verdict;
    if (terms->ncu_milli != 0) return judge_ncu(p, &able, terms);
    struct reach reach = best_reach(p, &able, terms);
    verdict.reason = REASON_NO_OFFER;
    if (!reach.any_offer) return verdict;
    verdict.numbers = (struct numbers){.a = s->devices_min, .b = (int64_t)reach.device_count};
    verdict.reason = REASON_GANG_TOO_LARGE;
    if (reach.usd_micros_per_hour < 0) return near_verdict(terms, verdict);
    verdict.reason = REASON_FITS;
    struct verdict in_time = deadline_judge(p, &able, terms);
    if (in_time.reason != REASON_FITS) return in_time;
    if (s->budget_usd_micros_per_hour == 0) return verdict;
    if (reach.usd_micros_per_hour <= s->budget_usd_micros_per_hour) return verdict;
    return (struct verdict){.reason = REASON_BUDGET_TOO_SMALL,
                            .numbers = {.a = reach.usd_micros_per_hour,
                                        .b = s->budget_usd_micros_per_hour,
                                        .c = s->devices_min}};
}

/* Jobs of a shape that already waits were judged with the first of them; those of a shape that runs are
 * judged anew where prices, hosts or rates have a say, else when more has come within reach. */
static struct verdict judge_reach(pool *p, const struct shape *asked)
{
    struct shape shape = *asked;
    const struct job_terms *terms = terms_of(p, &shape);
    bool by_ncu = terms != NULL && terms->ncu_milli != 0;
    uint32_t like = terms == NULL || by_ncu ? SLOT_NONE : shape_find(p, &shape);
    if (like != SLOT_NONE && p->shapes[like].queue.count > 0)
        return (struct verdict){.reason = REASON_FITS,
                                .numbers = {.a = shape.devices_min, .b = shape.devices_max}};
    if (like != SLOT_NONE && p->shapes[like].fits_at == p->reach_changes)
        return (struct verdict){
            .reason = REASON_FITS,
            .numbers = {.a = shape.devices_min, .b = (int64_t)p->shapes[like].fits_devices}};
    const struct rate *rates = terms == NULL ? NULL : rate_row(p, terms->work_id);
    struct verdict verdict = plan_judge(p, &shape, terms, rates);
    if (like != SLOT_NONE && verdict.reason == REASON_FITS && shape.terms == TERMS_NONE &&
        shape.budget_usd_micros_per_hour == 0) {
        p->shapes[like].fits_at = p->reach_changes;
        p->shapes[like].fits_devices = (uint64_t)verdict.numbers.b;
    }
    return verdict;
}

/* The models of each kind that count least; each kind holds part of it at most. */
static bool is_ncu_above_quota(const pool *p, const struct shape *s, struct verdict *ret_verdict)
{
    const struct job_terms *terms = terms_of(p, s);
    struct demand demand = demand_of(s, terms, /* devices */ 1, /* committed */ 0);
    struct numbers numbers = {.a = INT64_MAX, .c = p->accounts[s->account].level};
    int64_t parts_ppm = 0;
    uint64_t sold = shape_sold(p, s);
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        int64_t least = INT64_MAX, ceiling = quota_ceiling(p, s->account, kind);
        for (uint64_t rest = sold; rest != 0; rest &= rest - 1) {
            uint32_t model = (uint32_t)__builtin_ctzll(rest);
            int64_t needed = demand_quota_of(p, &demand, model, 1);
            if (p->quota_kind[model] == kind && needed < least) least = needed;
        }
        if (least == INT64_MAX) continue;
        if (least == 0 || ceiling == INT64_MAX || least <= ceiling) return false;
        parts_ppm += (ceiling * 1000000 + least - 1) / least;
        if (least < numbers.a) numbers = (struct numbers){least, ceiling, numbers.c};
    }
    *ret_verdict = (struct verdict){.reason = REASON_ABOVE_QUOTA, .numbers = numbers};
    return parts_ppm < 1000000 && numbers.a != INT64_MAX;
}

/* Its least is above what its account could hold were nobody else there. Shares and parts of hosts are left
 * to wait: what they count is not said by their devices. */
static bool is_above_quota(const pool *p, const struct shape *s, struct verdict *ret_verdict)
{
    int64_t each[QUOTA_KINDS] = {0}, most = 0;
    struct numbers numbers = {.a = INT64_MAX, .c = p->accounts[s->account].level};
    uint64_t sold = shape_sold(p, s);
    if (!quota_is_defined(p) || part_is_special(terms_of(p, s))) return false;
    if (terms_of(p, s)->ncu_milli != 0) return is_ncu_above_quota(p, s, ret_verdict);
    for (uint64_t rest = sold; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest), kind = p->quota_kind[model];
        int64_t ncu_milli = quota_ncu_milli(p, model), ceiling = quota_ceiling(p, s->account, kind);
        if (ncu_milli == 0 || ceiling == INT64_MAX) return false;
        if (each[kind] == 0 || ncu_milli < each[kind]) each[kind] = ncu_milli;
        if (ncu_milli * s->devices_min >= numbers.a) continue;
        numbers.a = ncu_milli * s->devices_min;
        numbers.b = ceiling;
    }
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (each[kind] != 0) most += quota_ceiling(p, s->account, kind) / each[kind];
    *ret_verdict = (struct verdict){.reason = REASON_ABOVE_QUOTA, .numbers = numbers};
    return most < s->devices_min;
}

static struct verdict judge_event(pool *p, const struct pool_event *event)
{
    struct shape shape;
    struct verdict above;
    shape_fill(p, event, &shape);
    struct verdict verdict = judge_reach(p, &shape);
    if (verdict.reason == REASON_FITS && is_above_quota(p, &shape, &above)) return above;
    return verdict;
}

static bool is_known(const pool *p, uint64_t job_id, struct pool_output *out)
{
    uint32_t slot = table_find(&p->job_table, job_id);
    if (slot == SLOT_NONE) return false;
    MARK(out, JOB_RESUBMITTED);
    if (!job_is_live(&p->jobs[slot])) MARK(out, JOB_RESUBMITTED_AFTER_END);
    return true;
}

static void admit(pool *p, uint32_t job, const struct pool_event *event, struct verdict verdict,
                  struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    j->state = JOB_QUEUED;
    j->shape = shape_enter(p, event);
    bool by_ncu = plan_is_ncu(p, j);
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_ADMIT,
                                        .reason = by_ncu ? REASON_NCU_FITS : verdict.reason,
                                        .job_id = j->job_id,
                                        .a = verdict.numbers.a,
                                        .b = verdict.numbers.b});
    j->deadline_us = deadline_of(terms_of(p, &p->shapes[j->shape]), p->now_us);
    packing_arrived(p, job);
    quota_enter(p, j->account);
    if (job_has_budget(p, j)) p->budget_job_count++;
    shape_queue_insert(p, job);
    uint64_t before = plan_jobs_before(p, job);
    if (before > 0)
        plan_wait(p, job, REASON_WAIT_TURN, (struct numbers){.a = (int64_t)before}, out);
}

void plan_admit(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint64_t job_id = event->u.job_submitted.job_id;
    if (is_known(p, job_id, out)) return;
    struct pool_decision refusal = {.kind = DECISION_REFUSE, .job_id = job_id};
    uint32_t account = quota_account(p, event, out);
    int64_t numbers[3];
    refusal.reason = quota_door(p, account, numbers);
    if (refusal.reason != REASON_NONE) { /* not remembered: the same submit may be tried again */
        refusal.a = numbers[0];
        refusal.b = numbers[1];
        refusal.c = numbers[2];
        act_decision(p, out, refusal);
        return;
    }
    uint32_t job = job_make(p, event, out);
    if (job == SLOT_NONE) { /* nowhere to remember it: the same submit may be tried again */
        refusal.reason = REASON_LIMIT_JOBS;
        refusal.a = p->config.limits.jobs_max;
        act_decision(p, out, refusal);
        return;
    }
    p->jobs[job].account = account;
    quota_pace(p, account);
    prices_sort_large(p);
    struct verdict verdict = judge_event(p, event);
    if (verdict.reason == REASON_FITS)
        admit(p, job, event, verdict, out);
    else
        job_end(p, job, JOB_REFUSED, DECISION_REFUSE, verdict.reason, verdict.numbers, out);
}
