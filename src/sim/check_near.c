/* Together and apart: where a job's workers are, and where it could have been. */
#include "codec/names.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>

bool sim_is_near(const struct sim_job *job)
{
    const struct job_terms *terms = &job->terms.u.terms_defined.terms;
    return job->submit.u.job_submitted.terms_id != 0 &&
           (terms->affinity != TOPOLOGY_ANY || terms->spread != TOPOLOGY_ANY);
}

bool sim_near_suffices(const struct sim_job *job, const struct sim_offer *offer,
                       uint32_t *ret_nodes)
{
    const struct job_terms *terms = &job->terms.u.terms_defined.terms;
    uint32_t least = job->submit.u.job_submitted.devices_min;
    if (!sim_is_near(job)) return true;
    if (terms->spread == TOPOLOGY_NODE) *ret_nodes = least;
    bool one =
        terms->affinity >= TOPOLOGY_NODE || (terms->affinity == TOPOLOGY_RACK && offer->rack == 0);
    if (one && *ret_nodes > 1) return false;
    return terms->spread == TOPOLOGY_ANY || terms->spread == TOPOLOGY_NODE || least == 1;
}

/* Nodes whose rack is not known: never in one, and never apart in a zone. */
static bool is_in_one(const struct sim_offer *a, const struct sim_offer *b, uint32_t level,
                      bool unknown)
{
    if (level >= TOPOLOGY_NODE || a->zone != b->zone) return false;
    return level == TOPOLOGY_ZONE || (a->rack == b->rack && (a->rack != 0 || unknown));
}

/* A new worker beside those that stay. Of one node there is one worker. */
static void near_on_command(struct sim *s, const struct pool_command *c)
{
    if (c->kind != POOL_COMMAND_ENSURE_WORKER || sim_shadow_worker(s, c->worker_id) != NULL) return;
    const struct sim_shadow *shadow = s->shadow;
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    const struct sim_job *job = sim_job_find(s, c->job_id);
    if (node == NULL || job == NULL || node->offer == UINT32_MAX || !sim_is_near(job)) return;
    const struct job_terms *terms = &job->terms.u.terms_defined.terms;
    if (terms->spread != TOPOLOGY_ANY && c->device_count > 1)
        sim_fail(s, "near", "job %" PRIu64 " is spread and has %u devices on one node", c->job_id,
                 c->device_count);
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++) {
        const struct shadow_worker *w = &shadow->workers[i];
        const struct shadow_node *other = &shadow->nodes[w->node];
        if (w->ended || w->stopping || w->job_id != c->job_id || other->offer == UINT32_MAX)
            continue;
        if (other->lost || other->released || other == node) continue;
        const struct sim_offer *a = &s->offers[node->offer], *b = &s->offers[other->offer];
        if (terms->affinity != TOPOLOGY_ANY && !is_in_one(a, b, terms->affinity, false))
            sim_fail(s, "near", "job %" PRIu64 " asked for one %s and has workers in two",
                     c->job_id, name_topology(terms->affinity));
        if (terms->spread != TOPOLOGY_ANY && is_in_one(a, b, terms->spread, true))
            sim_fail(s, "near",
                     "job %" PRIu64 " asked for different %ss and has two workers in one",
                     c->job_id, name_topology(terms->spread));
    }
}

static bool is_usable(const struct sim *s, const struct sim_job *job, uint32_t offer)
{
    return sim_offer_known(s, &s->offers[offer]) && sim_offer_fits(s, job, &s->offers[offer]) &&
           s->shadow->offers[offer].stock_count_max > 0;
}

/* The most devices of all that was ever told, in the place of one offer. */
static int64_t most_at(const struct sim *s, const struct sim_job *job, uint32_t at)
{
    const struct job_terms *terms = &job->terms.u.terms_defined.terms;
    int64_t devices = 0;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct sim_offer *a = &s->offers[at], *b = &s->offers[i];
        if (!is_usable(s, job, i) || a->region != b->region) continue;
        bool here = terms->affinity == TOPOLOGY_ANY || is_in_one(a, b, terms->affinity, false);
        int64_t nodes = s->shadow->offers[i].stock_count_max;
        if (!here && i == at) nodes = 1, here = true; /* one node of it */
        if (!here) continue;
        bool first = true; /* of the offers in its rack or zone */
        for (uint32_t k = 0; k < i; k++)
            first = first && !(is_usable(s, job, k) && b->region == s->offers[k].region &&
                               is_in_one(b, &s->offers[k], terms->spread, true));
        if (terms->spread == TOPOLOGY_ANY)
            devices += nodes * b->device_count;
        else if (terms->spread == TOPOLOGY_NODE)
            devices += nodes;
        else
            devices += first;
    }
    return devices;
}

static void near_on_decision(struct sim *s, const struct pool_decision *d)
{
    const struct sim_job *job = sim_job_find(s, d->job_id);
    if (d->kind != DECISION_REFUSE || job == NULL) return;
    if (d->reason != REASON_PLACE_TOO_SMALL && d->reason != REASON_PLACES_TOO_FEW) return;
    int64_t least = job->submit.u.job_submitted.devices_min;
    if (least > s->options.pool.limits.nodes_max || least > s->options.pool.limits.leases_max)
        return;
    for (uint32_t i = 0; i < s->offer_count; i++)
        if (is_usable(s, job, i) && most_at(s, job, i) >= least)
            sim_fail(s, "near",
                     "job %" PRIu64 " is refused (%s), %" PRId64 " devices could be had so",
                     d->job_id, name_reason(d->reason), most_at(s, job, i));
}

const struct sim_checker sim_check_near = {
    .name = "near", .on_command = near_on_command, .on_decision = near_on_decision};
