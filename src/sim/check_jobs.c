/* Regions, thresholds, order, refusals and decisions. */
#include "codec/names.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>
#include <string.h>

#define PPM INT64_C(1000000)

enum { LOOK_EVERY = 8 }; /* steps between two looks at all nodes */

static void region_on_command(struct sim *s, const struct pool_command *c)
{
    if (c->kind != POOL_COMMAND_ENSURE_WORKER || sim_shadow_worker(s, c->worker_id) != NULL) return;
    const struct sim_shadow *shadow = s->shadow;
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    const struct sim_job *job = sim_job_find(s, c->job_id);
    if (node == NULL || job == NULL || node->offer == UINT32_MAX) return;
    uint32_t region = s->offers[node->offer].region;
    uint32_t asked = job->submit.u.job_submitted.region;
    if (asked != 0 && asked != region)
        sim_fail(s, "region", "job %" PRIu64 " asked for region %u and gets a worker in %u",
                 c->job_id, asked, region);
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++) {
        const struct shadow_worker *w = &shadow->workers[i];
        const struct shadow_node *other = &shadow->nodes[w->node];
        if (w->ended || w->job_id != c->job_id || other->offer == UINT32_MAX) continue;
        if (s->offers[other->offer].region != region)
            sim_fail(s, "region", "job %" PRIu64 " has workers in regions %u and %u", c->job_id,
                     s->offers[other->offer].region, region);
    }
}

const struct sim_checker sim_check_region = {.name = "region", .on_command = region_on_command};

int64_t sim_threshold_ppm(const struct sim *s, const struct sim_job *job)
{
    int64_t own = job->submit.u.job_submitted.price_threshold_ppm;
    if (own > 0) return own;
    int64_t highest = 0;
    for (uint32_t i = 0; i < s->pool_count; i++) {
        int64_t ppm = s->pools[i].u.pool_defined.price_threshold_ppm;
        if (ppm == 0) ppm = PPM;
        bool used =
            (job->submit.u.job_submitted.pool_mask >> s->pools[i].u.pool_defined.pool & 1) == 1;
        if (used && ppm > highest) highest = ppm;
    }
    return highest > 0 ? highest : PPM;
}

int64_t sim_bid(const struct sim *s, const struct sim_job *job)
{
    return s->buying[job->submit.u.job_submitted.job_class].u.buying_defined.bid_usd_micros;
}

int64_t sim_share_of(int64_t usd_micros, int64_t share_ppm)
{
    return usd_micros / PPM * share_ppm + usd_micros % PPM * share_ppm / PPM;
}

static bool in_pool(const struct sim *s, const struct pool_event *rule, uint32_t model)
{
    const struct pool_event *m = &s->models[model];
    uint64_t needed = rule->u.pool_defined.capability_mask;
    return (rule->u.pool_defined.hardware_mask >> model & 1) == 1 &&
           (m->u.model_defined.capability_mask & needed) == needed &&
           m->u.model_defined.vram_mib >= rule->u.pool_defined.vram_min_mib;
}

bool sim_offer_fits(const struct sim *s, const struct sim_job *job, const struct sim_offer *offer)
{
    const struct pool_event *m = &s->models[offer->model];
    uint64_t needed = job->submit.u.job_submitted.capability_mask;
    if ((m->u.model_defined.capability_mask & needed) != needed) return false;
    if (m->u.model_defined.vram_mib < job->submit.u.job_submitted.vram_min_mib) return false;
    uint32_t kinds = job->submit.u.job_submitted.capacity_mask;
    if (kinds != 0 && (kinds >> offer->capacity & 1) == 0) return false;
    uint32_t region = job->submit.u.job_submitted.region;
    if (region != 0 && region != offer->region) return false;
    if (!sim_mig_suffices(s, job, offer->model)) return false;
    uint64_t pools = job->submit.u.job_submitted.pool_mask;
    if (pools == 0) return true;
    for (uint32_t i = 0; i < s->pool_count; i++)
        if ((pools >> s->pools[i].u.pool_defined.pool & 1) == 1 &&
            in_pool(s, &s->pools[i], offer->model))
            return true;
    return false;
}

/* Buying: never above the threshold by the price last told, and only what fits the job. */
static void threshold_on_command(struct sim *s, const struct pool_command *c)
{
    if (c->kind != POOL_COMMAND_ENSURE_NODE || sim_shadow_node(s, c->node_key) != NULL) return;
    const struct sim_job *job = sim_job_find(s, c->job_id);
    if (job == NULL) return;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct sim_offer *offer = &s->offers[i];
        const struct shadow_offer *told = &s->shadow->offers[i];
        if (offer->id != c->offer_id) continue;
        if (!sim_offer_fits(s, job, offer))
            sim_fail(s, "threshold", "job %" PRIu64 " buys offer %" PRIu64 ", which it cannot use",
                     c->job_id, offer->id);
        if (offer->capacity != CAPACITY_SPOT) continue;
        int64_t limit =
            sim_share_of(told->on_demand_usd_micros_per_hour, sim_threshold_ppm(s, job));
        int64_t bid = sim_bid(s, job) * offer->device_count;
        if (c->bid_usd_micros != bid || (bid != 0 && told->usd_micros_per_hour > bid))
            sim_fail(s, "threshold",
                     "job %" PRIu64 " bids %" PRId64 " at a price of %" PRId64
                     ", its class bids %" PRId64,
                     c->job_id, c->bid_usd_micros, told->usd_micros_per_hour, bid);
        if (told->usd_micros_per_hour > limit)
            sim_fail(s, "threshold",
                     "job %" PRIu64 " buys at %" PRId64 ", its threshold is %" PRId64, c->job_id,
                     told->usd_micros_per_hour, limit);
    }
}

/* Holding: a spot node of one job whose price stays above is let go within the time that stopping
 * its workers may take. */
static void threshold_check_node(struct sim *s, struct shadow_node *node)
{
    const struct sim_job *job = sim_job_find(s, node->job_id);
    if (job == NULL || node->offer == UINT32_MAX || node->released || node->lost) return;
    const struct shadow_offer *told = &s->shadow->offers[node->offer];
    int64_t limit = sim_share_of(told->on_demand_usd_micros_per_hour, sim_threshold_ppm(s, job));
    bool works = false;
    uint32_t index = (uint32_t)(node - s->shadow->nodes);
    for (uint32_t i = s->shadow->first_open_worker; i < s->shadow->worker_count; i++) {
        const struct shadow_worker *w = &s->shadow->workers[i];
        works = works || (!w->ended && w->node == index && w->job_id == node->job_id);
    }
    bool above = works && s->offers[node->offer].capacity == CAPACITY_SPOT &&
                 told->usd_micros_per_hour > limit + limit / 100;
    if (!above)
        node->above_threshold_us = 0;
    else if (node->above_threshold_us == 0)
        node->above_threshold_us = s->now_us;
    const struct pool_config *config = &s->options.pool;
    int64_t allowed_us = config->drain_us + 2 * config->ask_again_us + 2 * SIM_MINUTE_US;
    if (above && s->now_us - node->above_threshold_us > allowed_us)
        sim_fail(s, "threshold", "node %u is kept %" PRId64 " s above its threshold",
                 sim_shadow_node_number(s, node->key),
                 (s->now_us - node->above_threshold_us) / SIM_SECOND_US);
}

static void threshold_after_step(struct sim *s, const struct pool_event *event)
{
    if (event->seq % LOOK_EVERY != 0) return;
    for (uint32_t i = s->shadow->first_open_node; i < s->shadow->node_count; i++)
        threshold_check_node(s, &s->shadow->nodes[i]);
}

const struct sim_checker sim_check_threshold = {
    .name = "threshold", .on_command = threshold_on_command, .after_step = threshold_after_step};

/* The same needs: every field of the request but whose it is and how urgent. */
static bool same_needs(const struct sim_job *a, const struct sim_job *b)
{
    struct pool_event x = a->submit, y = b->submit;
    y.u.job_submitted.job_id = x.u.job_submitted.job_id;
    y.u.job_submitted.job_class = x.u.job_submitted.job_class;
    y.u.job_submitted.spec_hash = x.u.job_submitted.spec_hash;
    y.u.job_submitted.tenant = x.u.job_submitted.tenant;
    y.u.job_submitted.project = x.u.job_submitted.project;
    y.u.job_submitted.team = x.u.job_submitted.team;
    y.u.job_submitted.experiment = x.u.job_submitted.experiment;
    return memcmp(&x.u, &y.u, sizeof x.u) == 0;
}

static bool goes_first(const struct job_view *a, const struct job_view *b)
{
    if (a->job_class != b->job_class) return a->job_class < b->job_class;
    return a->submitted_us < b->submitted_us;
}

/* Whether it still pays for nodes. */
static bool has_leases(const struct sim *s, uint64_t job_id)
{
    struct lease_view lease;
    for (uint32_t i = 0; i < pool_leases_end(s->server.pool); i++)
        if (pool_lease_at(s->server.pool, i, &lease) && lease.job_id == job_id) return true;
    return false;
}

/* A node bought for it is let go and not known to be gone. (Leases without a worker are not in the view.) */
static bool has_node_going(const struct sim *s, uint64_t job_id)
{
    for (uint32_t i = s->shadow->first_open_node; i < s->shadow->node_count; i++) {
        const struct shadow_node *n = &s->shadow->nodes[i];
        if (n->job_id == job_id && n->released && !n->closed) return true;
    }
    return false;
}

/* The matching weighs what is left of the work: who has run has less left than who asks for the same. */
static bool goes_first_by_weight(const struct sim *s, const struct job_view *a,
                                 const struct job_view *b)
{
    return a->job_class == b->job_class && a->started_us != 0 &&
           s->shadow->jobs[a->job_id - 1].matched;
}

/* A job that starts from the queue overtakes nobody who waited there for the very same and comes
 * first. (One that is bound already may buy again: it was served in its turn.) */
static void order_on_decision(struct sim *s, const struct pool_decision *d)
{
    const struct sim_job *job = sim_job_find(s, d->job_id);
    struct job_view view, other;
    if (d->kind != DECISION_BUY || job == NULL) return;
    if (s->shadow->jobs[d->job_id - 1].state != JOB_QUEUED) return;
    if (!pool_job_find(s->server.pool, d->job_id, &view)) return;
    for (uint32_t i = 0; i < s->job_count; i++) {
        if (i + 1 == d->job_id || !same_needs(job, &s->jobs[i])) continue;
        if (s->shadow->jobs[i].state != JOB_QUEUED) continue;
        if (!pool_job_find(s->server.pool, i + 1, &other) || other.state != JOB_QUEUED) continue;
        /* What it still pays for may keep the other one within its budget. */
        if (other.deadline_us != 0) continue; /* it may wait for spot by choice */
        if (sim_bid(s, job) != sim_bid(s, &s->jobs[i]))
            continue; /* spot above its bid is not for it */
        bool short_of_budget = has_leases(s, i + 1) || other.last_reason == REASON_WAIT_BUDGET;
        if (goes_first(&other, &view) && !short_of_budget &&
            !goes_first_by_weight(s, &view, &other))
            sim_fail(s, "order", "job %" PRIu64 " is served before job %u, which comes first",
                     d->job_id, i + 1);
    }
}

const struct sim_checker sim_check_order = {.name = "order", .on_decision = order_on_decision};

/* Devices of one kind of offer that could ever be had in its region, by what the core was told. */
static int64_t reachable(const struct sim *s, const struct sim_job *job, uint32_t region)
{
    int64_t devices = 0;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct sim_offer *offer = &s->offers[i];
        const struct shadow_offer *told = &s->shadow->offers[i];
        if (!sim_offer_known(s, offer) || offer->region != region || !sim_offer_fits(s, job, offer))
            continue;
        bool whole = job->submit.u.job_submitted.kind == JOB_KIND_BATCH; /* on one node */
        if (whole && offer->device_count < job->submit.u.job_submitted.devices_min) continue;
        devices += (int64_t)told->stock_count_max * offer->device_count;
    }
    return devices;
}

/* The cheapest way to run the job's least on nodes of one offer, by what the core was told; 0:
 * none. */
static int64_t cheapest_alone(const struct sim *s, const struct sim_job *job)
{
    int64_t cheapest = 0;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct shadow_offer *told = &s->shadow->offers[i];
        uint32_t nodes = sim_job_nodes(s, job, &s->offers[i]);
        bool whole = job->submit.u.job_submitted.kind == JOB_KIND_BATCH; /* on one node */
        if (!sim_offer_known(s, &s->offers[i]) || !sim_offer_fits(s, job, &s->offers[i])) continue;
        if (nodes > told->stock_count_max || (whole && nodes > 1)) continue;
        /* Distrusted: it counts as what it bills. */
        int64_t billed = told->billed_usd_micros_per_hour;
        int64_t cost = (billed != 0 ? billed : told->usd_micros_per_hour) * nodes;
        if (cheapest == 0 || cost < cheapest) cheapest = cost;
    }
    return cheapest;
}

static void refusals_check_budget(struct sim *s, const struct pool_decision *d,
                                  const struct sim_job *job)
{
    if (d->reason != REASON_BUDGET_TOO_SMALL || sim_is_near(job)) return;
    int64_t cheapest = cheapest_alone(s, job);
    if (cheapest > 0 && cheapest <= job->submit.u.job_submitted.budget_usd_micros_per_hour)
        sim_fail(s, "refusals",
                 "job %" PRIu64 " is refused for its budget, one offer alone costs %" PRId64
                 " micro-dollars an hour",
                 d->job_id, cheapest);
}

/* Only when as many different terms as there is room for belong to jobs that live. */
static void refusals_check_terms(struct sim *s, const struct pool_decision *d)
{
    struct job_view view;
    uint64_t ids[SIM_JOBS_MAX];
    uint32_t count = 0;
    if (d->reason != REASON_LIMIT_TERMS) return;
    for (uint32_t i = 0; i < s->job_count; i++) {
        uint64_t id = s->jobs[i].submit.u.job_submitted.terms_id;
        bool lives = pool_job_find(s->server.pool, i + 1, &view) && view.state <= JOB_RUNNING;
        bool seen = id == 0 || !lives;
        for (uint32_t k = 0; k < count; k++) seen |= ids[k] == id;
        if (!seen) ids[count++] = id;
    }
    if (count < s->options.pool.limits.terms_max)
        sim_fail(s, "refusals", "job %" PRIu64 " is refused for its terms, %u of %u are in use",
                 d->job_id, count, s->options.pool.limits.terms_max);
}

static void refusals_on_decision(struct sim *s, const struct pool_decision *d)
{
    const struct sim_job *job = sim_job_find(s, d->job_id);
    if (d->kind != DECISION_REFUSE || job == NULL) return;
    uint32_t nodes_max = s->options.pool.limits.nodes_max;
    uint32_t least = job->submit.u.job_submitted.devices_min;
    if (d->reason == REASON_NO_OFFER || d->reason == REASON_NO_CAPABILITY ||
        d->reason == REASON_GANG_TOO_LARGE) {
        for (uint32_t region = 1; region <= 8; region++) {
            bool possible = least <= nodes_max && least <= s->options.pool.limits.leases_max &&
                            reachable(s, job, region) >= least;
            if (possible)
                sim_fail(s, "refusals",
                         "job %" PRIu64 " is refused (%s), region %u has %" PRId64
                         " devices for it",
                         d->job_id, name_reason(d->reason), region, reachable(s, job, region));
        }
    }
    refusals_check_budget(s, d, job);
    refusals_check_terms(s, d);
    if (d->reason == REASON_LIMIT_JOBS) {
        /* An ended job whose nodes are still paid for keeps its place. */
        uint32_t kept = 0;
        struct job_view view;
        for (uint32_t i = 0; i < pool_jobs_end(s->server.pool); i++)
            kept += pool_job_at(s->server.pool, i, &view) &&
                    (view.state <= JOB_RUNNING || has_leases(s, view.job_id) ||
                     has_node_going(s, view.job_id));
        if (kept < s->options.pool.limits.jobs_max)
            sim_fail(s, "refusals",
                     "job %" PRIu64 " is refused for want of room, %u of %u are taken", d->job_id,
                     kept, s->options.pool.limits.jobs_max);
    }
}

const struct sim_checker sim_check_refusals = {.name = "refusals",
                                               .on_decision = refusals_on_decision};

static bool same_decision(const struct pool_decision *a, const struct pool_decision *b)
{
    return a->kind == b->kind && a->reason == b->reason && a->job_id == b->job_id &&
           a->node_key == b->node_key && a->offer_id == b->offer_id && a->a == b->a &&
           a->b == b->b && a->c == b->c;
}

/* Saying the very same about a job twice in a row tells nobody anything. (Two failures of workers
 * are two facts, and a refused submit that is sent again is refused again.) */
static void decisions_on_decision(struct sim *s, const struct pool_decision *d)
{
    const struct shadow_job *job = sim_shadow_job(s, d->job_id);
    if (job == NULL || job->last.kind == 0) return;
    bool once = d->kind == DECISION_WAIT || d->kind == DECISION_ADMIT || d->kind == DECISION_BUY ||
                d->kind == DECISION_PLACE || d->kind == DECISION_FINISH || d->kind == DECISION_STOP;
    if (once && same_decision(&job->last, d) && d->reason != REASON_WORKER_FAILED)
        sim_fail(s, "decisions", "job %" PRIu64 " is told \"%s\" twice in a row", d->job_id,
                 name_reason(d->reason));
}

const struct sim_checker sim_check_decisions = {.name = "decisions",
                                                .on_decision = decisions_on_decision};
