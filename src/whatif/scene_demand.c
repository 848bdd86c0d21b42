/* Demand that can never be met, whatever prices, losses and arrivals are drawn. */
#include "whatif/scene_get.h"
#include <inttypes.h>

/* What is on offer to a job in a case (NULL: to all, under any policy), of one region or of all. */
struct reach {
    uint64_t devices; /* at once, if ever all of it is to be had */
    uint32_t widest;  /* devices of a node */
    double device_usd_micros, ncu; /* the least that one may ever cost an hour; the fastest */
};

/* A walk may go anywhere, but stays about its mean. */
static double least_price(const struct scene_offer *o)
{
    int64_t least = o->price.usd_micros;
    for (uint32_t i = 0; i < o->price.series.count; i++)
        if (o->price.series.steps[i].value < least) least = o->price.series.steps[i].value;
    return (double)least / (o->price.every_us > 0 ? 10 : 1) / o->device_count;
}

static bool is_for(const struct scene_case *c, const struct scene_job *j,
                   const struct scene_offer *o, uint32_t offer)
{
    if (c != NULL && !scene_case_has_offer(c, offer)) return false;
    if (j->model_mask != 0 && (j->model_mask >> o->model & 1) == 0) return false;
    if (j->capacity_mask != 0 && (j->capacity_mask >> o->capacity & 1) == 0) return false;
    if (j->region != 0 && j->region != o->region) return false;
    if (c == NULL || o->capacity == CAPACITY_SPOT) return c == NULL || c->policy != POLICY_ON_DEMAND;
    return c->policy != POLICY_ONE_ZONE;
}

static struct reach reach_of(const struct scene *s, const struct scene_case *c,
                             const struct scene_job *j, uint32_t region)
{
    struct reach reach = {.device_usd_micros = -1};
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct scene_offer *o = &s->offers[i];
        if (!is_for(c, j, o, i) || (region != 0 && o->region != region)) continue;
        double usd_micros = least_price(o), ncu = scene_speed_milli(s, j, o->model) / 1000.0;
        reach.devices += (uint64_t)o->stock * o->device_count;
        if (o->device_count > reach.widest) reach.widest = o->device_count;
        if (ncu > reach.ncu) reach.ncu = ncu;
        if (reach.device_usd_micros < 0 || usd_micros < reach.device_usd_micros)
            reach.device_usd_micros = usd_micros;
    }
    return reach;
}

/* Of the region with the most devices. */
static struct reach best_reach(const struct scene *s, const struct scene_case *c,
                               const struct scene_job *j)
{
    struct reach best = reach_of(s, c, j, 0);
    if (c != NULL && c->no_affinity) return best;
    best.devices = 0;
    for (uint32_t region = 1; region < s->regions.count; region++) {
        struct reach here = reach_of(s, c, j, region);
        if (here.devices > best.devices) best.devices = here.devices;
    }
    return best;
}

static bool never(struct error *ret_error, const struct scene_job *j, const struct scene_case *c,
                  const char *why)
{
    return error_set(ret_error, "job %s can never run%s%s: %s", j->name,
                     c == NULL ? "" : " in case ", c == NULL ? "" : c->name, why);
}

static bool has_devices(const struct scene_job *j, const struct scene_case *c,
                        const struct reach *reach, uint32_t devices, struct error *ret_error)
{
    struct error why;
    bool one_node = j->kind == JOB_KIND_BATCH;
    uint64_t most = one_node ? reach->widest : reach->devices;
    if (most >= devices) return true;
    if (most == 0)
        return never(ret_error, j, c,
                     "nothing on offer is of a model, kind and region that it allows");
    (void)error_set(&why, "it needs %u devices at once%s, %s has more than %" PRIu64 " that it allows",
                    devices, one_node ? " in one node" : "", one_node ? "no node" : "no region",
                    most);
    return never(ret_error, j, c, why.text);
}

static bool has_budget(const struct scene_job *j, const struct scene_case *c,
                       const struct reach *reach, uint32_t devices, struct error *ret_error)
{
    struct error why;
    double usd_micros = reach->device_usd_micros * devices;
    if (j->budget_usd_micros == 0 || usd_micros <= (double)j->budget_usd_micros) return true;
    (void)error_set(&why,
                    "its budget is $%.2f an hour, %u device%s that it allows cost $%.2f at the least",
                    (double)j->budget_usd_micros / 1e6, devices, devices == 1 ? "" : "s",
                    usd_micros / 1e6);
    return never(ret_error, j, c, why.text);
}

/* All its devices of the fastest model from its submission on; work that is drawn may be less. */
static bool has_time(const struct scene_job *j, const struct scene_case *c,
                     const struct reach *reach, struct error *ret_error)
{
    struct error why;
    double ncu = reach->ncu * j->devices_max;
    double hours = (double)j->work_milli_h / 1000 / ncu;
    if (j->deadline_us == 0 || j->spread_ppm > 0 || j->arrivals.count > 0) return true;
    if (hours * 3600e6 <= (double)j->deadline_us) return true;
    (void)error_set(&why,
                    "its work takes %.1f h on %u of the fastest devices that it allows, its "
                    "deadline is %.1f h after it comes",
                    hours, j->devices_max, (double)j->deadline_us / 3600e6);
    return never(ret_error, j, c, why.text);
}

static bool comes(const struct scene *s, const struct scene_job *j, struct error *ret_error)
{
    int64_t at_us = j->at_us + (j->arrivals.count > 0 ? j->arrivals.rows[0].at_us : 0);
    return at_us < s->horizon_us ||
           error_set(ret_error,
                     "job %s never comes: its first is after %.1f h, the horizon is %.1f h", j->name,
                     (double)at_us / 3600e6, (double)s->horizon_us / 3600e6);
}

static bool check_job(const struct scene *s, const struct scene_case *c, const struct scene_job *j,
                      struct error *ret_error)
{
    struct reach reach = best_reach(s, c, j);
    uint32_t least = j->devices_min, widest = j->devices_min;
    if (j->arrivals.count > 0) least = widest = j->arrivals.rows[0].devices;
    for (uint32_t i = 0; i < j->arrivals.count; i++) {
        if (j->arrivals.rows[i].devices > widest) widest = j->arrivals.rows[i].devices;
        if (j->arrivals.rows[i].devices < least) least = j->arrivals.rows[i].devices;
    }
    return has_devices(j, c, &reach, widest, ret_error) &&
           has_budget(j, c, &reach, least, ret_error) && has_time(j, c, &reach, ret_error);
}

bool scene_check_demand(const struct scene *scene, struct error *ret_error)
{
    if (scene->offer_count == 0) return error_set(ret_error, "%s has no offers", scene->name);
    if (scene->job_count == 0) return error_set(ret_error, "%s has no jobs", scene->name);
    for (uint32_t j = 0; j < scene->job_count; j++) {
        const struct scene_job *job = &scene->jobs[j];
        if (!comes(scene, job, ret_error)) return false;
        if (scene->case_count == 0 && !check_job(scene, NULL, job, ret_error)) return false;
        for (uint32_t c = 0; c < scene->case_count; c++)
            if (scene_case_has_job(&scene->cases[c], j) &&
                !check_job(scene, &scene->cases[c], job, ret_error))
                return false;
    }
    return true;
}
