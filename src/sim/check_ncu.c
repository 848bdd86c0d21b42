/* Jobs that ask for NCU: whole when they start, and never dearer than the cheapest mix on sale. */
#include "codec/names.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>

enum { NCU_MOST_MILLI = 16384, STOCK_MOST = 16 };

uint32_t sim_ncu_milli(const struct sim_job *job)
{
    return job->submit.u.job_submitted.terms_id == 0 ? 0
                                                     : job->terms.u.terms_defined.terms.ncu_milli;
}

uint32_t sim_job_nodes(const struct sim *s, const struct sim_job *job,
                       const struct sim_offer *offer)
{
    uint32_t least = sim_ncu_milli(job), each = offer->device_count;
    if (least == 0)
        least = job->submit.u.job_submitted.devices_min;
    else
        each *= s->models[offer->model].u.model_defined.ncu_milli;
    return (least + each - 1) / each;
}

/* ---- the cheapest mix of whole nodes, by a table over all numbers of milli-NCU ---- */

struct shelf {
    uint32_t region;
    bool ever;           /* the largest stock told so far, no threshold */
    uint64_t ordered_by; /* nodes that this job ordered in this step count as stock */
};

/* As the core reckons: what it bills, if that is more than it quotes. */
static int64_t price_of(const struct sim *s, uint32_t offer)
{
    struct offer_view view;
    for (uint32_t i = 0; i < pool_offers_end(s->server.pool); i++)
        if (pool_offer_at(s->server.pool, i, &view) && view.offer_id == s->offers[offer].id)
            return view.usd_micros_per_hour;
    return s->shadow->offers[offer].usd_micros_per_hour;
}

/* What the core was told, less what it ordered since or has no answer about. */
static uint32_t stock_of(const struct sim *s, const struct shelf *shelf, uint32_t offer)
{
    const struct sim_shadow *shadow = s->shadow;
    const struct shadow_offer *told = &shadow->offers[offer];
    struct offer_view view;
    uint32_t taken = 0, stock = 0;
    if (shelf->ever) return told->stock_count_max;
    for (uint32_t i = 0; i < pool_offers_end(s->server.pool); i++)
        if (pool_offer_at(s->server.pool, i, &view) && view.offer_id == s->offers[offer].id &&
            view.refused_until_us <= pool_now_us(s->server.pool))
            stock = view.stock_count;
    for (uint32_t i = shadow->first_open_node; i < shadow->node_count; i++) {
        const struct shadow_node *node = &shadow->nodes[i];
        bool now = node->first_us == s->now_us && node->job_id == shelf->ordered_by;
        taken +=
            node->offer == offer && !now && (node->first_us >= told->told_us || !node->heard_up);
    }
    stock = stock > taken ? stock - taken : 0;
    return stock < STOCK_MOST ? stock : STOCK_MOST;
}

/* -1: they do not reach it. */
static int64_t cheapest_mix(const struct sim *s, const struct sim_job *job,
                            const struct shelf *shelf, uint32_t wanted_milli)
{
    static const int64_t none = INT64_MAX / 2;
    int64_t least[NCU_MOST_MILLI + 1];
    ASSERT(wanted_milli <= NCU_MOST_MILLI);
    for (uint32_t i = 1; i <= wanted_milli; i++) least[i] = none;
    least[0] = 0;
    for (uint32_t k = 0; k < s->offer_count; k++) {
        const struct sim_offer *offer = &s->offers[k];
        const struct shadow_offer *told = &s->shadow->offers[k];
        if (offer->region != shelf->region || !sim_offer_fits(s, job, offer) ||
            !sim_offer_known(s, offer))
            continue;
        int64_t limit =
            sim_share_of(told->on_demand_usd_micros_per_hour, sim_threshold_ppm(s, job));
        if (!shelf->ever && offer->capacity == CAPACITY_SPOT &&
            told->usd_micros_per_hour > limit / 100 * 80)
            continue; /* maybe too dear, or not yet clearly cheap again */
        int64_t price = price_of(s, k);
        uint32_t each = s->models[offer->model].u.model_defined.ncu_milli * offer->device_count;
        for (uint32_t n = stock_of(s, shelf, k); n > 0; n--)
            for (uint32_t i = wanted_milli; i > 0; i--) {
                int64_t cost = least[i > each ? i - each : 0] + price;
                if (cost < least[i]) least[i] = cost;
            }
    }
    return least[wanted_milli] == none ? -1 : least[wanted_milli];
}

/* Nothing but prices and stock has a say: no limit of nodes or leases is near, and nobody of a higher class
 * waits, for whom stock may be kept. */
static bool is_free_to_choose(const struct sim *s, const struct job_view *view)
{
    const struct pool_limits *limits = &s->options.pool.limits;
    struct job_view other;
    struct node_view node;
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < pool_nodes_end(s->server.pool); i++)
        nodes += pool_node_at(s->server.pool, i, &node);
    if (nodes + STOCK_MOST > limits->nodes_max || 2 * nodes + STOCK_MOST > limits->leases_max)
        return false;
    for (uint32_t i = 0; i < s->job_count; i++)
        if (pool_job_find(s->server.pool, i + 1, &other) && other.state <= JOB_STARTING &&
            other.job_class < view->job_class)
            return false;
    return true;
}

static void check_mix(struct sim *s, const struct pool_decision *d, const struct sim_job *job)
{
    struct job_view view;
    if (d->c > (int64_t)sim_ncu_milli(job))
        sim_fail(s, "ncu", "job %" PRIu64 " buys %" PRId64 " milli-NCU and asked for %u", d->job_id,
                 d->c, sim_ncu_milli(job));
    if (!pool_job_find(s->server.pool, d->job_id, &view) || !is_free_to_choose(s, &view)) return;
    const struct shelf shelf = {.region = view.region, .ordered_by = d->job_id};
    int64_t least = cheapest_mix(s, job, &shelf, (uint32_t)d->c);
    if (least >= 0 && d->a > least)
        sim_fail(s, "ncu",
                 "job %" PRIu64 " takes %" PRId64 " milli-NCU for %" PRId64
                 " micro-dollars an hour, %" PRId64 " would do",
                 d->job_id, d->c, d->a, least);
}

/* The figure of the refusal is above the budget, and no mix ever told of was within it. */
static void check_refusal(struct sim *s, const struct pool_decision *d, const struct sim_job *job)
{
    int64_t budget = job->submit.u.job_submitted.budget_usd_micros_per_hour, least = -1;
    for (uint32_t region = 1; region <= 8; region++) {
        const struct shelf shelf = {.region = region, .ever = true};
        uint32_t asked = job->submit.u.job_submitted.region;
        if (asked != 0 && asked != region) continue;
        int64_t here = cheapest_mix(s, job, &shelf, sim_ncu_milli(job));
        if (here >= 0 && (least < 0 || here < least)) least = here;
    }
    if (d->reason == REASON_NCU_TOO_MANY && least >= 0)
        sim_fail(s, "ncu", "job %" PRIu64 " is refused, a mix of its NCU was on sale", d->job_id);
    if (d->reason != REASON_NCU_BUDGET) return;
    if (d->a <= budget || (least >= 0 && (least <= budget || d->a > least)))
        sim_fail(s, "ncu",
                 "job %" PRIu64 " is refused for %" PRId64 " with a budget of %" PRId64
                 ", the cheapest mix costs %" PRId64 " micro-dollars an hour",
                 d->job_id, d->a, budget, least);
}

static void ncu_on_decision(struct sim *s, const struct pool_decision *d)
{
    const struct sim_job *job = sim_job_find(s, d->job_id);
    if (job == NULL || sim_ncu_milli(job) == 0) return;
    /* Until something else is said of it, the gang that has just begun is whole. */
    s->shadow->jobs[d->job_id - 1].gang_began =
        d->kind == DECISION_PLACE && d->reason == REASON_GANG_READY;
    if (d->kind == DECISION_PLACE && d->reason == REASON_NCU_MIX) check_mix(s, d, job);
    if (d->kind == DECISION_REFUSE) check_refusal(s, d, job);
}

static uint64_t working_milli(const struct sim *s, uint64_t job_id)
{
    const struct sim_shadow *shadow = s->shadow;
    uint64_t ncu_milli = 0;
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++) {
        const struct shadow_worker *w = &shadow->workers[i];
        const struct shadow_node *node = &shadow->nodes[w->node];
        if (w->ended || w->stopping || w->job_id != job_id || node->offer == UINT32_MAX) continue;
        ncu_milli += (uint64_t)s->models[s->offers[node->offer].model].u.model_defined.ncu_milli *
                     w->device_count;
    }
    return ncu_milli;
}

/* As soon as a gang has begun and all of its commands are out: its workers have what it asked for. */
static void ncu_after_step(struct sim *s, const struct pool_event *event)
{
    (void)event;
    if (pool_next_wake_us(s->server.pool) <= pool_now_us(s->server.pool)) return;
    for (uint32_t i = 0; i < s->job_count; i++) {
        struct shadow_job *shadow = &s->shadow->jobs[i];
        if (!shadow->gang_began) continue;
        shadow->gang_began = false;
        uint64_t working = working_milli(s, i + 1);
        if (working < sim_ncu_milli(&s->jobs[i]))
            sim_fail(s, "ncu", "job %u begins with %" PRIu64 " of %u milli-NCU", i + 1, working,
                     sim_ncu_milli(&s->jobs[i]));
    }
}

const struct sim_checker sim_check_ncu = {
    .name = "ncu", .on_decision = ncu_on_decision, .after_step = ncu_after_step};
