/* Instances of partitioned devices: they lie where the vendor lets them lie, and apart. */
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>

/* A device of so many slices of memory: what has so many compute slices takes so many, from these. The same
 * list as the core's (mig.h) written down once more: a slip there is found here. */
static const struct profile {
    uint8_t slices, compute, size, starts; /* starts: bit = a legal first slice */
} profiles[] = {
    {8, 1, 1, 0x7f}, {8, 1, 2, 0x55}, {8, 2, 2, 0x15}, {8, 3, 4, 0x11}, {8, 4, 4, 0x01},
    {8, 7, 8, 0x01}, {4, 1, 1, 0x0f}, {4, 2, 2, 0x05}, {4, 4, 4, 0x01},
};
enum { PROFILES_COUNT = sizeof profiles / sizeof profiles[0] };

static bool is_instance(const struct sim_job *job)
{
    return job->submit.u.job_submitted.terms_id != 0 &&
           job->terms.u.terms_defined.terms.mig_profile != 0;
}

/* It has enough of both; the memory of an instance in whole GiB, rounded up as in its name. */
static bool suffices(const struct sim *s, const struct sim_job *job, uint32_t model,
                     const struct profile *profile)
{
    const struct job_terms *terms = &job->terms.u.terms_defined.terms;
    uint32_t slices = s->models[model].u.model_defined.mig_slices;
    uint64_t mib = (uint64_t)s->models[model].u.model_defined.vram_mib * profile->size;
    return profile->slices == slices && profile->compute >= terms->mig_profile &&
           (mib + 1024 * slices - 1) / (1024 * slices) >= (terms->device_memory_mib + 1023) / 1024;
}

bool sim_mig_suffices(const struct sim *s, const struct sim_job *job, uint32_t model)
{
    if (!is_instance(job)) return true;
    for (uint32_t i = 0; i < PROFILES_COUNT; i++)
        if (suffices(s, job, model, &profiles[i])) return true;
    return false;
}

bool sim_mig_of(const struct sim *s, const struct pool_command *c, struct sim_mig *ret_mig)
{
    struct lease_view lease;
    *ret_mig = (struct sim_mig){0};
    for (uint32_t i = 0; i < pool_leases_end(s->server.pool); i++) {
        if (!pool_lease_at(s->server.pool, i, &lease) || lease.worker_id != c->worker_id) continue;
        *ret_mig = (struct sim_mig){.compute = lease.mig_compute, .start = lease.mig_start};
        return lease.mig_compute != 0;
    }
    return false;
}

static bool is_legal(const struct sim *s, const struct sim_job *job, uint32_t model,
                     struct sim_mig mig, uint32_t size)
{
    for (uint32_t i = 0; i < PROFILES_COUNT; i++)
        if (suffices(s, job, model, &profiles[i]) && profiles[i].compute == mig.compute &&
            profiles[i].size == size && (profiles[i].starts >> mig.start & 1) != 0)
            return true;
    return false;
}

/* What an instance of a worker takes of its device, a bit each slice. */
static uint32_t slices_of(uint32_t slices, uint32_t device_milli, uint32_t start)
{
    return ((1U << device_milli * slices / 1000) - 1) << start;
}

static void mig_on_command(struct sim *s, const struct pool_command *c)
{
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    const struct sim_job *job = sim_job_find(s, c->job_id);
    struct sim_mig mig;
    if (c->kind != POOL_COMMAND_ENSURE_WORKER || sim_shadow_worker(s, c->worker_id) != NULL) return;
    if (node == NULL || job == NULL || node->offer == UINT32_MAX) return;
    if (!sim_mig_of(s, c, &mig)) {
        if (is_instance(job))
            sim_fail(s, "mig", "job %" PRIu64 " asked for an instance and gets devices", c->job_id);
        return;
    }
    uint32_t model = s->offers[node->offer].model;
    uint32_t slices = s->models[model].u.model_defined.mig_slices;
    uint32_t size = c->device_milli * slices / 1000;
    if (!is_legal(s, job, model, mig, size))
        sim_fail(s, "mig", "an instance of %u slices for job %" PRIu64 " may not lie at slice %u",
                 size, c->job_id, mig.start);
    for (uint32_t i = s->shadow->first_open_worker; i < s->shadow->worker_count; i++) {
        const struct shadow_worker *w = &s->shadow->workers[i];
        bool beside = !w->ended && &s->shadow->nodes[w->node] == node &&
                      (w->device_mask & c->device_mask) != 0;
        if (!beside) continue;
        if (w->mig.compute == 0 || (slices_of(slices, w->device_milli, w->mig.start) &
                                    slices_of(slices, c->device_milli, mig.start)) != 0)
            sim_fail(s, "mig", "the instances of jobs %" PRIu64 " and %" PRIu64 " overlap",
                     w->job_id, c->job_id);
    }
}

const struct sim_checker sim_check_mig = {.name = "mig", .on_command = mig_on_command};
