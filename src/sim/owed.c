/* After the heal: what is still owed, and what must hold when nothing is. */
#include "codec/names.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>

/* The core takes a spot offer (back) only when clearly below the threshold. */
#define CLEARLY_BELOW_PERCENT 85

bool sim_offer_known(const struct sim *s, const struct sim_offer *offer)
{
    struct offer_view view;
    for (uint32_t i = 0; i < pool_offers_end(s->server.pool); i++)
        if (pool_offer_at(s->server.pool, i, &view) && view.offer_id == offer->id) return true;
    return false;
}

/* One offer alone is enough: devices, stock, limits, threshold and budget. */
static bool offer_suffices(const struct sim *s, const struct sim_job *job,
                           const struct sim_offer *offer)
{
    if (!sim_offer_fits(s, job, offer) || !sim_offer_known(s, offer)) return false;
    const struct pool_limits *limits = &s->options.pool.limits;
    uint32_t least = job->submit.u.job_submitted.devices_min;
    bool whole = job->submit.u.job_submitted.kind == JOB_KIND_BATCH; /* on one node */
    if (whole && offer->device_count < least) return false;
    uint32_t nodes = sim_job_nodes(s, job, offer);
    if (!sim_near_suffices(job, offer, &nodes)) return false;
    /* Owned machines that nobody uses make room. */
    if (nodes > offer->stock || nodes > limits->nodes_max || nodes > limits->leases_max)
        return false;
    int64_t price = offer->base_usd_micros_per_hour; /* and what its bills show in the end */
    price += sim_share_of(price, offer->overbill_ppm);
    int64_t threshold =
        sim_share_of(offer->on_demand_usd_micros_per_hour, sim_threshold_ppm(s, job));
    if (offer->capacity == CAPACITY_SPOT && price > threshold / 100 * CLEARLY_BELOW_PERCENT)
        return false;
    int64_t bid = sim_bid(s, job) * offer->device_count;
    if (offer->capacity == CAPACITY_SPOT && bid != 0 && price > bid / 100 * CLEARLY_BELOW_PERCENT)
        return false;
    int64_t budget = job->submit.u.job_submitted.budget_usd_micros_per_hour;
    return budget == 0 || price * nodes <= budget;
}

bool sim_job_possible(const struct sim *s, const struct sim_job *job)
{
    if (!s->server.up) return true;
    for (uint32_t i = 0; i < s->offer_count; i++)
        if (offer_suffices(s, job, &s->offers[i])) return true;
    return false;
}

static bool owes_job(const struct sim *s, uint32_t index, char *ret_text, size_t bytes)
{
    const struct shadow_job *shadow = &s->shadow->jobs[index];
    if (shadow->ended || shadow->refused) return false;
    struct job_view view;
    if (!s->jobs[index].acknowledged) {
        (void)snprintf(ret_text, bytes, "job %u was never acknowledged", index + 1);
    } else if (!pool_job_find(s->server.pool, index + 1, &view)) {
        (void)snprintf(ret_text, bytes, "job %u is forgotten before it ended", index + 1);
    } else {
        char why[NAMES_SENTENCE_BYTES];
        (void)snprintf(ret_text, bytes, "job %u is %s: %s", index + 1, name_job_state(view.state),
                       reason_format(view.last_reason, view.last_a, view.last_b, view.last_c, why,
                                     sizeof why));
    }
    return true;
}

/* Owned machines that the core knows may stay: nobody saves anything by giving them back. */
static bool owes_machine(const struct sim *s, char *ret_text, size_t bytes)
{
    for (uint32_t i = 0; i < s->machine_count; i++) {
        const struct sim_machine *m = &s->machines[i];
        if (m->phase != NODE_PHASE_UP && m->phase != NODE_PHASE_PENDING) continue;
        struct node_view view;
        bool known = pool_node_find(s->server.pool, m->key, &view);
        if (known && sim_machine_may_stay(s, i)) continue;
        (void)snprintf(ret_text, bytes, "node %u still runs and bills, the core %s",
                       sim_shadow_node_number(s, m->key), known ? "keeps it" : "forgot it");
        return true;
    }
    return false;
}

static bool owes_node(const struct sim *s, char *ret_text, size_t bytes)
{
    for (uint32_t i = 0; i < pool_nodes_end(s->server.pool); i++) {
        struct node_view view;
        if (!pool_node_at(s->server.pool, i, &view)) continue;
        if (view.state == NODE_READY && view.capacity == CAPACITY_OWNED) continue;
        (void)snprintf(ret_text, bytes, "the core still believes in node %u (%s)",
                       sim_shadow_node_number(s, view.node_key), name_node_state(view.state));
        return true;
    }
    return false;
}

bool sim_machine_may_stay(const struct sim *s, uint32_t machine)
{
    return s->offers[s->machines[machine].offer].capacity == CAPACITY_OWNED;
}

bool sim_owes(struct sim *s, char *ret_text, size_t text_bytes)
{
    if (!s->server.up) {
        (void)snprintf(ret_text, text_bytes, "the server is down");
        return true;
    }
    for (uint32_t i = 0; i < s->job_count; i++)
        if (owes_job(s, i, ret_text, text_bytes)) return true;
    return owes_machine(s, ret_text, text_bytes) || owes_node(s, ret_text, text_bytes);
}

void sim_finish(struct sim *s)
{
    if (s->failed) return;
    pool_check(s->server.pool);
    sim_shadow_end(s);
    /* The digest of a run covers what was said all along; now also the state it ended in. */
    s->summary.digest ^= pool_digest(s->server.pool);
}
