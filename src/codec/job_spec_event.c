/* A spec as events of the core: names become numbers, terms get their id. */
#include "codec/job_spec.h"
#include "codec/job_work.h"
#include "codec/record.h"
#include <string.h>
#include <xxhash.h>

struct ids {
    id_of_name_fn *id_of;
    void *self;
    struct error *error;
};

/* 0 for no name */
static bool find_id(const struct ids *ids, enum id_kind kind, const char *name, uint32_t *ret_id)
{
    *ret_id = 0;
    if (name[0] == '\0' || ids->id_of(ids->self, kind, name, ret_id)) return true;
    return error_set(ids->error, "no number is left for the name \"%s\"; use one that is in use",
                     name);
}

static bool find_pool_mask(const struct ids *ids, const struct job_spec *spec, uint64_t *ret_mask)
{
    *ret_mask = 0;
    for (uint32_t i = 0; i < spec->pool_count; i++) {
        uint32_t pool_id;
        if (!find_id(ids, ID_POOL, spec->pools[i], &pool_id)) return false;
        if (pool_id > 63)
            return error_set(ids->error, "pool \"%s\" is beyond the first 64; merge some pools",
                             spec->pools[i]);
        *ret_mask |= UINT64_C(1) << pool_id;
    }
    return true;
}

/* One more of its pools, and the terms say that it comes last. */
static bool find_next_tier(const struct ids *ids, const struct job_spec *spec,
                           struct job_terms *terms, uint64_t *ret_mask)
{
    uint32_t pool_id;
    *ret_mask = 0;
    if (spec->next_tier[0] == '\0') return true;
    if (!find_id(ids, ID_POOL, spec->next_tier, &pool_id)) return false;
    if (pool_id > 63)
        return error_set(ids->error, "pool \"%s\" is beyond the first 64; merge some pools",
                         spec->next_tier);
    terms->degrade = (uint8_t)(pool_id + 1);
    *ret_mask = UINT64_C(1) << pool_id;
    return true;
}

/* The id comes from the bytes of the terms as they are journaled: equal on every machine. */
static struct pool_event terms_event(const struct job_terms *terms)
{
    static const struct job_terms none;
    struct pool_event event = {0};
    if (memcmp(terms, &none, sizeof none) == 0) return event;
    event = (struct pool_event){.kind = POOL_EVENT_TERMS_DEFINED, .version = POOL_CORE_VERSION};
    event.u.terms_defined.terms = *terms;
    uint8_t bytes[RECORD_BYTES];
    record_encode(&event, bytes);
    uint64_t id = XXH3_64bits(bytes, sizeof bytes);
    event.u.terms_defined.terms_id = id != 0 ? id : 1; /* 0 means none */
    return event;
}

bool job_spec_event(const struct job_spec *spec, const struct links *links, uint64_t job_id,
                    uint64_t spec_hash, id_of_name_fn *id_of, void *id_self,
                    struct job_events *ret_events, struct error *ret_error)
{
    struct ids ids = {id_of, id_self, ret_error};
    struct pool_event event = {.kind = POOL_EVENT_JOB_SUBMITTED, .version = POOL_CORE_VERSION};
    event.u.job_submitted.job_id = job_id;
    event.u.job_submitted.spec_hash = spec_hash;
    event.u.job_submitted.capability_mask = spec->need.capability_mask;
    event.u.job_submitted.vram_min_mib = spec->need.vram_min_mib;
    event.u.job_submitted.budget_usd_micros_per_hour = spec->budget_usd_micros_per_hour;
    event.u.job_submitted.budget_usd_micros = spec->budget_usd_micros;
    event.u.job_submitted.devices_min = spec->devices_min;
    event.u.job_submitted.devices_max = spec->devices_max;
    event.u.job_submitted.price_threshold_ppm = spec->price_threshold_ppm;
    event.u.job_submitted.job_class = (uint8_t)spec->job_class;
    event.u.job_submitted.kind = (uint8_t)spec->kind;
    event.u.job_submitted.capacity_mask = (uint8_t)spec->capacity_mask;
    if (!find_pool_mask(&ids, spec, &event.u.job_submitted.pool_mask) ||
        !find_id(&ids, ID_TENANT, spec->tenant, &event.u.job_submitted.tenant) ||
        !find_id(&ids, ID_PROJECT, spec->project, &event.u.job_submitted.project) ||
        !find_id(&ids, ID_TEAM, spec->team, &event.u.job_submitted.team) ||
        !find_id(&ids, ID_USER, spec->user, &event.u.job_submitted.user) ||
        !find_id(&ids, ID_EXPERIMENT, spec->experiment, &event.u.job_submitted.experiment) ||
        !find_id(&ids, ID_REGION, spec->region, &event.u.job_submitted.region))
        return false;
    struct job_terms terms = spec->terms;
    terms.work_id = job_work_id(spec);
    if (!find_id(&ids, ID_REGION, spec->data_region, &terms.data_region)) return false;
    uint64_t next_tier;
    if (!find_next_tier(&ids, spec, &terms, &next_tier)) return false;
    event.u.job_submitted.pool_mask |= next_tier;
    ret_events->link_count = 0;
    if (spec->data_region[0] != '\0' && links != NULL) {
        ret_events->link_count =
            links_events(links, spec->data_region, id_of, id_self, ret_events->links);
        if (ret_events->link_count == 0)
            return error_set(ret_error, "no number is left for a region of the catalog's links");
    }
    ret_events->rate_count = job_work_events(spec, ret_events->rates);
    ret_events->terms = terms_event(&terms);
    if (ret_events->terms.kind != 0)
        event.u.job_submitted.terms_id = ret_events->terms.u.terms_defined.terms_id;
    ret_events->submitted = event;
    return true;
}
