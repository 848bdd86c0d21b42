/* Claims: stock is kept for a gang that is short, or smaller jobs of lower classes would eat it as
 * it comes, piece by piece, and the gang would never start.
 *
 * While a job of a higher class waits for its gang minimum and only stock is missing, lower classes
 * buy no offer of a model and a capacity kind that it could use in that region (idle devices are
 * free to all: somebody pays for them already). A gang that never gets there must not block
 * everybody: after boot_timeout_us its claim is spent until it has been complete once.
 *
 * A region holds the union of its claims per class. One that ends clears the union of its class and
 * wakes everyone: who still claims is planned before those whom it keeps off, and says so again. */
#include "core/job.h"
#include "core/offer.h"
#include "core/plan.h"

static bool can_claim(const struct shape *s)
{
    /* One node is enough for a batch job, and one device for a minimum of one: nothing to collect.
     */
    return s->kind != JOB_KIND_BATCH && s->devices_min > 1 && s->job_class + 1 < JOB_CLASS_END;
}

void plan_claim(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    if (!can_claim(s)) return;
    if (j->claim_until_us == 0) j->claim_until_us = p->now_us + p->config.boot_timeout_us;
    if (p->now_us >= j->claim_until_us) {
        plan_claim_drop(p, job);
        return;
    }
    j->claims = 1;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        struct region *region = &p->regions[i];
        if (job_is_bound(j) ? i != j->region_index : s->region != 0 && s->region != region->region)
            continue;
        region->kept_models[s->job_class] |= s->compat_mask & region->model_mask;
        region->kept_kinds[s->job_class] |= s->capacity_mask != 0 ? s->capacity_mask : UINT32_MAX;
    }
    job_retime(p, job);
}

void plan_claim_drop(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (!j->claims) return;
    j->claims = 0;
    job_retime(p, job);
    for (uint32_t i = 0; i < p->regions_end; i++) {
        struct region *region = &p->regions[i];
        if (region->kept_models[j->job_class] == 0) continue;
        region_improve(p, i, region->kept_models[j->job_class]);
        region->kept_models[j->job_class] = 0;
        region->kept_kinds[j->job_class] = 0;
    }
}

bool plan_is_kept(const pool *p, uint32_t job_class, const struct offer *o)
{
    const struct region *region = &p->regions[o->region_index];
    for (uint32_t higher = 0; higher < job_class; higher++)
        if ((region->kept_models[higher] >> o->model & 1) != 0 &&
            (region->kept_kinds[higher] >> o->capacity & 1) != 0)
            return true;
    return false;
}
