/* Budgets and the ledger against the true bill of the clouds. */
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>
#include <string.h>

enum { LOOK_EVERY = 8 }; /* steps between two looks at what is held */

/* A job's share of what a node costs an hour, rounded down. */
static int64_t share(int64_t usd_micros, uint32_t part, uint32_t whole)
{
    return whole == 0 ? 0 : usd_micros / whole * part + usd_micros % whole * part / whole;
}

/* What the job pays for this node now: all of it while it has it since the purchase and nobody else
 * works there, its share otherwise. Who left the node and was placed there again may share it with a
 * gang that is not complete: it has devices, but no workers yet that could be seen here. A node that was
 * let go counts no more, although it may bill until it is gone: the core may count it longer, which only
 * makes it more careful. */
static int64_t committed_on(const struct sim *s, uint32_t node_index, uint64_t job_id)
{
    const struct sim_shadow *shadow = s->shadow;
    const struct shadow_node *node = &shadow->nodes[node_index];
    if (node->lost || node->closed || node->offer == UINT32_MAX) return 0;
    if (node->released) return 0;
    uint32_t own = 0, others = 0;
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++) {
        const struct shadow_worker *w = &shadow->workers[i];
        if (w->ended || w->node != node_index) continue;
        if (w->job_id == job_id)
            own += w->device_count;
        else
            others += w->device_count;
    }
    bool alone = others == 0 && !node->shared && (own > 0 || !node->joined);
    bool bought = node->job_id == job_id && alone;
    int64_t price = sim_shadow_price(s, node);
    return bought ? price : share(price, own, s->offers[node->offer].device_count);
}

static int64_t committed(const struct sim *s, uint64_t job_id)
{
    int64_t sum = 0;
    for (uint32_t i = s->shadow->first_open_node; i < s->shadow->node_count; i++)
        sum += committed_on(s, i, job_id);
    return sum;
}

/* Tolerance: none. At the moment of buying the core knows every price that it was told, so what it
 * commits then is within the budget exactly. */
static void budget_on_command(struct sim *s, const struct pool_command *c)
{
    if (c->kind != POOL_COMMAND_ENSURE_NODE || sim_shadow_node(s, c->node_key) != NULL) return;
    const struct sim_job *job = sim_job_find(s, c->job_id);
    if (job == NULL) return;
    int64_t budget = job->submit.u.job_submitted.budget_usd_micros_per_hour;
    if (budget == 0) return;
    int64_t price = 0;
    for (uint32_t i = 0; i < s->offer_count; i++)
        if (s->offers[i].id == c->offer_id) price = s->shadow->offers[i].usd_micros_per_hour;
    int64_t before = committed(s, c->job_id);
    if (before + price > budget)
        sim_fail(s, "budget",
                 "job %" PRIu64 " buys for %" PRId64 " with %" PRId64
                 " committed, its budget is %" PRId64 " micro-dollars an hour",
                 c->job_id, price, before, budget);
}

/* Spending is stopped, not prevented: it may go on while workers hand over, the server is down or
 * a lost node is still believed. All of that is bounded by the times below. */
static int64_t overrun_us(const struct sim *s)
{
    const struct pool_config *config = &s->options.pool;
    int64_t outage_us = 2 * SIM_MINUTE_US;
    return config->drain_us + 2 * config->agent_lease_us + 4 * config->ask_again_us +
           s->options.release_us_max + s->options.late_us_max + config->boot_timeout_us +
           outage_us + 2 * SIM_MINUTE_US;
}

/* What a job works on and what it costs: less than it pays for, so never a false alarm. */
struct held {
    int64_t usd_micros_per_hour;
    uint32_t device_count, least_count; /* the fewest devices of one node; 0 = none */
};

static void sum_held(const struct sim *s, struct held held[SIM_JOBS_MAX])
{
    const struct sim_shadow *shadow = s->shadow;
    memset(held, 0, SIM_JOBS_MAX * sizeof held[0]);
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++) {
        const struct shadow_worker *w = &shadow->workers[i];
        const struct shadow_node *node = &shadow->nodes[w->node];
        bool leaving = w->ended || w->stopping || node->released || node->lost || node->closed;
        if (leaving || node->offer == UINT32_MAX || w->job_id > s->job_count) continue;
        struct held *h = &held[w->job_id - 1];
        h->usd_micros_per_hour +=
            share(sim_shadow_price(s, node), w->device_count, s->offers[node->offer].device_count);
        h->device_count += w->device_count;
        if (h->least_count == 0 || w->device_count < h->least_count)
            h->least_count = w->device_count;
    }
}

/* Prices rise after buying. A job with a node to spare works above its budget no longer than the
 * minute that a wobble is given, and an outage of the server. */
static void budget_check_held(struct sim *s)
{
    struct held held[SIM_JOBS_MAX];
    sum_held(s, held);
    for (uint32_t i = 0; i < s->job_count; i++) {
        const struct pool_event *submit = &s->jobs[i].submit;
        struct shadow_job *job = &s->shadow->jobs[i];
        int64_t budget = submit->u.job_submitted.budget_usd_micros_per_hour;
        bool spare = /* the mix of a job that asks for NCU has none */
            sim_ncu_milli(&s->jobs[i]) == 0 &&
            held[i].device_count > submit->u.job_submitted.devices_min + held[i].least_count - 1;
        bool above = budget != 0 && spare && held[i].usd_micros_per_hour > budget;
        if (!above)
            job->over_budget_us = 0;
        else if (job->over_budget_us == 0)
            job->over_budget_us = s->now_us;
        int64_t allowed_us = 3 * SIM_MINUTE_US + 2 * s->options.pool.ask_again_us;
        if (above && s->now_us - job->over_budget_us > allowed_us)
            sim_fail(s, "budget",
                     "job %u works for %" PRId64 " with a node to spare since %" PRId64
                     " s, its budget is %" PRId64 " micro-dollars an hour",
                     i + 1, held[i].usd_micros_per_hour,
                     (s->now_us - job->over_budget_us) / SIM_SECOND_US, budget);
    }
}

static void budget_after_step(struct sim *s, const struct pool_event *event)
{
    if (event->seq % LOOK_EVERY == 0) budget_check_held(s);
    if (event->kind != POOL_EVENT_TICK) return;
    for (uint32_t i = 0; i < s->job_count; i++) {
        int64_t budget = s->jobs[i].submit.u.job_submitted.budget_usd_micros;
        if (budget == 0) continue;
        int64_t dearest = 0;
        for (uint32_t k = 0; k < s->offer_count; k++)
            if (s->offers[k].on_demand_usd_micros_per_hour > dearest)
                dearest = s->offers[k].on_demand_usd_micros_per_hour;
        uint32_t nodes = s->jobs[i].submit.u.job_submitted.devices_max;
        for (uint32_t k = 0; k < s->offer_count && sim_ncu_milli(&s->jobs[i]) != 0; k++) {
            uint32_t of_offer = sim_job_nodes(s, &s->jobs[i], &s->offers[k]);
            if (of_offer > nodes) nodes = of_offer;
        }
        int64_t tolerance = dearest * 2 * nodes / 3600 * (overrun_us(s) / SIM_SECOND_US);
        if (s->shadow->jobs[i].spent_usd_micros > budget + tolerance)
            sim_fail(s, "budget",
                     "job %u has spent %" PRId64 " of %" PRId64 " micro-dollars and goes on", i + 1,
                     s->shadow->jobs[i].spent_usd_micros, budget);
    }
}

const struct sim_checker sim_check_budget = {
    .name = "budget", .on_command = budget_on_command, .after_step = budget_after_step};

static void ledger_on_entry(struct sim *s, const struct ledger_entry *e)
{
    if (e->from_us > e->to_us || e->to_us > pool_now_us(s->server.pool))
        sim_fail(s, "ledger", "an entry of node %u ends before it begins or in the future",
                 sim_shadow_node_number(s, e->node_key));
    if (e->kind != ENTRY_ADJUSTMENT && e->usd_micros < 0)
        sim_fail(s, "ledger", "an entry of node %u is negative",
                 sim_shadow_node_number(s, e->node_key));
    if (e->kind == ENTRY_JOB) {
        const struct sim_job *job = sim_job_find(s, e->job_id);
        if (job == NULL || job->submit.u.job_submitted.tenant != e->tenant ||
            job->submit.u.job_submitted.project != e->project ||
            job->submit.u.job_submitted.team != e->team ||
            job->submit.u.job_submitted.experiment != e->experiment)
            sim_fail(s, "ledger", "an entry of job %" PRIu64 " has somebody else's tags",
                     e->job_id);
    }
}

/* A node that the core has closed: its entries are what the cloud bills, to the micro-dollar. */
static void close_node(struct sim *s, struct shadow_node *node)
{
    node->closed = true;
    int64_t found = sim_map_find(&s->machine_map, node->key);
    if (found == SIM_MAP_NONE) return;
    const struct sim_machine *m = &s->machines[found];
    bool runs = m->phase == NODE_PHASE_UP || m->phase == NODE_PHASE_PENDING;
    if (runs) {
        node->leaked_us = s->now_us;
        return;
    }
    if (s->options.meter_missing_ppm > 0 || m->ghost || node->leaked_us != 0) return;
    if (node->entries_usd_micros != m->billed_usd_micros)
        sim_fail(s, "ledger",
                 "node %u: the ledger says %" PRId64 ", the cloud bills %" PRId64 " micro-dollars",
                 sim_shadow_node_number(s, node->key), node->entries_usd_micros,
                 m->billed_usd_micros);
}

static void ledger_check_totals(struct sim *s, bool at_end)
{
    struct pool_totals totals;
    pool_totals_read(s->server.pool, &totals);
    const int64_t *sums = s->shadow->entries_usd_micros;
    if (totals.usd_micros_jobs != sums[ENTRY_JOB] ||
        totals.usd_micros_overhead != sums[ENTRY_OVERHEAD] ||
        totals.usd_micros_idle != sums[ENTRY_IDLE] ||
        totals.usd_micros_adjustment != sums[ENTRY_ADJUSTMENT])
        sim_fail(s, "ledger",
                 "totals are not the sum of the entries: jobs %" PRId64 "/%" PRId64
                 " overhead %" PRId64 "/%" PRId64 " idle %" PRId64 "/%" PRId64
                 " adjustment %" PRId64 "/%" PRId64,
                 totals.usd_micros_jobs, sums[ENTRY_JOB], totals.usd_micros_overhead,
                 sums[ENTRY_OVERHEAD], totals.usd_micros_idle, sums[ENTRY_IDLE],
                 totals.usd_micros_adjustment, sums[ENTRY_ADJUSTMENT]);
    for (uint32_t i = 0; i < s->job_count; i++) {
        struct job_view view;
        if (!pool_job_find(s->server.pool, i + 1, &view)) continue;
        /* The view also counts what no entry has closed yet; nothing is open at the end. */
        int64_t open = view.usd_micros - s->shadow->jobs[i].spent_usd_micros;
        if (open < 0 || (at_end && open != 0))
            sim_fail(s, "ledger",
                     "job %u has spent %" PRId64 ", the sum of its entries is %" PRId64, i + 1,
                     view.usd_micros, s->shadow->jobs[i].spent_usd_micros);
    }
}

static void ledger_after_step(struct sim *s, const struct pool_event *event)
{
    if (event->kind == POOL_EVENT_NODE_OBSERVED) { /* only the provider's word ends a node */
        struct shadow_node *node = sim_shadow_node(s, event->u.node_observed.node_key);
        struct node_view view;
        if (node != NULL && !node->closed && !pool_node_find(s->server.pool, node->key, &view))
            close_node(s, node);
    }
    if (event->seq % 16 == 0) ledger_check_totals(s, /* at end */ false);
}

/* When nothing leaked and every cloud tells its meter, provider bill = jobs + overhead + idle. */
static void ledger_at_end(struct sim *s)
{
    ledger_check_totals(s, /* at end */ true);
    int64_t billed = 0, booked = 0;
    for (uint32_t i = 0; i < s->machine_count; i++) {
        const struct shadow_node *node = sim_shadow_node(s, s->machines[i].key);
        bool comparable = node != NULL && node->closed && node->leaked_us == 0;
        if (!comparable || s->machines[i].ghost) continue;
        billed += s->machines[i].billed_usd_micros;
        booked += node->entries_usd_micros;
    }
    if (s->options.meter_missing_ppm == 0 && billed != booked)
        sim_fail(s, "ledger", "the clouds bill %" PRId64 " micro-dollars, the ledger has %" PRId64,
                 billed, booked);
}

const struct sim_checker sim_check_ledger = {.name = "ledger",
                                             .on_entry = ledger_on_entry,
                                             .after_step = ledger_after_step,
                                             .at_end = ledger_at_end};

/* Only who bills more than it quotes is distrusted; a price that rose and is not known yet looks the
 * same from within. */
static void bills_on_decision(struct sim *s, const struct pool_decision *d)
{
    if (d->kind != DECISION_DISTRUST) return;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct sim_offer *offer = &s->offers[i];
        if (offer->id != d->offer_id || offer->overbill_ppm > 0) continue;
        if (offer->usd_micros_per_hour <= d->b)
            sim_fail(s, "bills", "offer %" PRIu64 " bills what it quotes and is distrusted",
                     offer->id);
    }
}

const struct sim_checker sim_check_bills = {.name = "bills", .on_decision = bills_on_decision};
