/* What a seed contains: models, pools, zones, offers and jobs. Each thing draws from its own
 * stream, so a world with fewer jobs has the same first ones. */
#include "core/assert.h"
#include "sim/world.h"

#define DOLLAR INT64_C(1000000)

enum { CAPABILITIES_COUNT = 5, REGIONS_COUNT = 3, CAPABILITY_NOWHERE = 40 };

static void draw_models(struct sim *s)
{
    s->model_count = (uint32_t)s->options.models_count;
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct sim_random random = sim_random_fork(s->seed, 3000 + i);
        struct pool_event *event = &s->models[i];
        event->kind = POOL_EVENT_MODEL_DEFINED;
        event->u.model_defined.model = i;
        event->u.model_defined.ncu_milli = (uint32_t)sim_random_range(&random, 200, 3000);
        event->u.model_defined.vram_mib = 1024u << sim_random_range(&random, 3, 7);
        /* Every model has the first capability; the rest come and go. */
        event->u.model_defined.capability_mask =
            1 | (uint64_t)sim_random_range(&random, 0, (1 << CAPABILITIES_COUNT) - 1);
        static const uint32_t slices[] = {0, 8, 8, 4}; /* of memory, when partitioned */
        struct sim_random mig = sim_random_fork(s->seed, 4600 + i);
        event->u.model_defined.mig_slices = slices[sim_random_range(&mig, 0, 3)];
    }
}

static void draw_pools(struct sim *s)
{
    s->pool_count = SIM_POOLS_COUNT;
    for (uint32_t i = 0; i < s->pool_count; i++) {
        struct sim_random random = sim_random_fork(s->seed, 3100 + i);
        struct pool_event *event = &s->pools[i];
        event->kind = POOL_EVENT_POOL_DEFINED;
        event->u.pool_defined.pool = i;
        event->u.pool_defined.capability_mask = 1;
        event->u.pool_defined.hardware_mask =
            (uint64_t)sim_random_range(&random, 1, (1 << s->model_count) - 1);
        if (sim_random_chance(&random, 500000))
            event->u.pool_defined.price_threshold_ppm =
                (uint32_t)sim_random_range(&random, 500, 1000) * 1000;
    }
}

/* In one world of four some classes bid for spot: between what it costs when it is cheap and dear. */
static void draw_bids(struct sim *s)
{
    struct sim_random random = sim_random_fork(s->seed, 3150);
    if (!sim_random_chance(&random, 250000)) return;
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        if (!sim_random_chance(&random, 600000)) continue;
        struct pool_event *event = &s->buying[i];
        event->kind = POOL_EVENT_BUYING_DEFINED;
        event->u.buying_defined.scope = BUYING_OF_CLASS;
        event->u.buying_defined.index = i;
        event->u.buying_defined.bid_usd_micros = DOLLAR / 10 * sim_random_range(&random, 2, 20);
    }
}

/* Kinds of work; what runs faster on which model has nothing to do with NCU. */
static void draw_rates(struct sim *s)
{
    for (uint32_t work = 0; work < SIM_WORKS_COUNT; work++)
        for (uint32_t model = 0; model < s->model_count; model++) {
            struct sim_random random = sim_random_fork(s->seed, 3500 + 100 * work + model);
            struct pool_event *event = &s->rates[work * s->model_count + model];
            event->kind = POOL_EVENT_RATE_TOLD;
            event->u.rate_told.work_id = 1 + work;
            event->u.rate_told.model = model;
            event->u.rate_told.source = RATE_DECLARED;
            event->u.rate_told.rate_micro = (uint64_t)sim_random_range(&random, 100000, 9000000);
        }
}

/* Egress and speed from each region to the others; free inside. */
static void draw_links(struct sim *s)
{
    for (uint32_t from = 1; from <= REGIONS_COUNT; from++) {
        struct sim_random random = sim_random_fork(s->seed, 4100 + from);
        struct pool_event *event = &s->links[from - 1];
        event->kind = POOL_EVENT_LINKS_TOLD;
        event->u.links_told.from = from;
        event->u.links_told.count = REGIONS_COUNT;
        for (uint32_t to = 1; to <= REGIONS_COUNT; to++) {
            struct told_link *link = &event->u.links_told.links[to - 1];
            link->to = to;
            if (to == from) continue;
            link->usd_micros_per_gb = (uint32_t)sim_random_range(&random, 0, 100000);
            link->mb_per_s = (uint32_t)sim_random_range(&random, 50, 500);
        }
    }
}

static void draw_offer(struct sim *s, uint32_t index)
{
    struct sim_random random = sim_random_fork(s->seed, 3200 + index);
    struct sim_offer *o = &s->offers[index];
    o->id = 101 + index;
    o->cloud = (uint32_t)sim_random_range(&random, 0, s->options.clouds_count - 1);
    o->zone = 1 + (uint32_t)sim_random_range(&random, 0, s->options.zones_count - 1);
    o->region = 1 + o->zone % REGIONS_COUNT;
    o->model = (uint32_t)sim_random_range(&random, 0, s->model_count - 1);
    o->device_count =
        UINT32_C(1) << (sim_random_chance(&random, 600000) ? 0 : sim_random_range(&random, 1, 3));
    static const uint32_t kinds[] = {CAPACITY_SPOT,      CAPACITY_SPOT,     CAPACITY_SPOT,
                                     CAPACITY_ON_DEMAND, CAPACITY_RESERVED, CAPACITY_OWNED};
    o->capacity = kinds[sim_random_range(&random, 0, 5)];
    uint32_t ncu_milli = s->models[o->model].u.model_defined.ncu_milli;
    o->on_demand_usd_micros_per_hour =
        DOLLAR * ncu_milli / 1000 * o->device_count * sim_random_range(&random, 15, 25) / 10;
    int64_t share_percent = o->capacity == CAPACITY_SPOT       ? sim_random_range(&random, 20, 60)
                            : o->capacity == CAPACITY_RESERVED ? 60
                            : o->capacity == CAPACITY_OWNED    ? 5
                                                               : 100;
    o->base_usd_micros_per_hour = o->on_demand_usd_micros_per_hour / 100 * share_percent;
    o->usd_micros_per_hour = o->base_usd_micros_per_hour;
    o->stock = (uint32_t)sim_random_range(&random, 1, 8);
    struct sim_random rack = sim_random_fork(s->seed, 4000 + index);
    o->rack = (uint32_t)sim_random_range(&rack, 0, 2);
    o->hazard_ppm = (uint32_t)sim_random_range(&random, 0, 500000);
    if (sim_random_chance(&random, s->options.overbill_ppm))
        o->overbill_ppm = (uint32_t)sim_random_range(&random, 100000, 1000000);
}

static void draw_impossible(struct sim_random *random, struct pool_event *submit)
{
    switch (sim_random_range(random, 0, 3)) {
    case 0: submit->u.job_submitted.capability_mask |= UINT64_C(1) << CAPABILITY_NOWHERE; return;
    case 1:
        submit->u.job_submitted.devices_min = 1000;
        submit->u.job_submitted.devices_max = 1000;
        return;
    case 2: submit->u.job_submitted.budget_usd_micros_per_hour = 100; return;
    default: submit->u.job_submitted.vram_min_mib = 1 << 20; return;
    }
}

static void draw_needs(struct sim *s, struct sim_random *random, struct pool_event *submit)
{
    bool batch = sim_random_chance(random, 200000);
    uint32_t least = (uint32_t)sim_random_range(random, 1, batch ? 2 : 6);
    submit->u.job_submitted.kind = batch ? JOB_KIND_BATCH : JOB_KIND_ELASTIC;
    submit->u.job_submitted.devices_min = least;
    submit->u.job_submitted.devices_max =
        batch ? least : least + (uint32_t)sim_random_range(random, 0, 6);
    submit->u.job_submitted.capability_mask = 1;
    if (sim_random_chance(random, 300000))
        submit->u.job_submitted.capability_mask |= UINT64_C(1) << sim_random_range(random, 1, 4);
    if (sim_random_chance(random, 200000)) submit->u.job_submitted.vram_min_mib = 16384;
    if (sim_random_chance(random, 250000))
        submit->u.job_submitted.pool_mask =
            (uint64_t)sim_random_range(random, 1, (1 << SIM_POOLS_COUNT) - 1);
    if (sim_random_chance(random, 300000))
        submit->u.job_submitted.capacity_mask =
            (uint8_t)(sim_random_range(random, 1, 15) << CAPACITY_OWNED);
    if (sim_random_chance(random, 150000))
        submit->u.job_submitted.region = 1 + (uint32_t)sim_random_range(random, 0, 2);
    if (sim_random_chance(random, 250000))
        submit->u.job_submitted.price_threshold_ppm =
            (uint32_t)sim_random_range(random, 400, 1000) * 1000;
    if (sim_random_chance(random, 350000))
        submit->u.job_submitted.budget_usd_micros_per_hour =
            DOLLAR * least * sim_random_range(random, 5, 80) / 10;
    if (sim_random_chance(random, 200000))
        submit->u.job_submitted.budget_usd_micros =
            DOLLAR * least * sim_random_range(random, 1, 40) / 10;
    if (sim_random_chance(random, s->options.impossible_ppm)) draw_impossible(random, submit);
}

/* Few different ones, so that jobs share them. */
static void draw_terms(struct sim *s, uint32_t index)
{
    struct sim_random random = sim_random_fork(s->seed, 3400 + index);
    struct sim_job *job = &s->jobs[index];
    if (!sim_random_chance(&random, 400000)) return;
    uint64_t terms_id = (uint64_t)sim_random_range(&random, 1, 5);
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = terms_id;
    job->terms.u.terms_defined.terms.run_us = (int64_t)terms_id * 10 * SIM_MINUTE_US;
    /* Time for losses, or hardly any. */
    if (terms_id == 2) job->terms.u.terms_defined.terms.deadline_us = 180 * SIM_MINUTE_US;
    if (terms_id == 5) job->terms.u.terms_defined.terms.deadline_us = 65 * SIM_MINUTE_US;
    if (terms_id > SIM_WORKS_COUNT) return;
    job->terms.u.terms_defined.terms.work_id = terms_id; /* and mostly a fixed number of devices */
    if (sim_random_chance(&random, 800000))
        job->submit.u.job_submitted.devices_max = job->submit.u.job_submitted.devices_min;
    job->submit.u.job_submitted.terms_id = terms_id;
}

/* Together or apart, by a job's terms; few different ones, so that jobs share them. */
static void draw_nearness(struct sim *s, uint32_t index)
{
    static const uint8_t pairs[][2] = {
        {TOPOLOGY_ZONE, TOPOLOGY_ANY}, {TOPOLOGY_RACK, TOPOLOGY_ANY},
        {TOPOLOGY_NODE, TOPOLOGY_ANY}, {TOPOLOGY_ANY, TOPOLOGY_NODE},
        {TOPOLOGY_ANY, TOPOLOGY_RACK}, {TOPOLOGY_ZONE, TOPOLOGY_NODE}};
    struct sim_random random = sim_random_fork(s->seed, 3900 + index);
    struct sim_job *job = &s->jobs[index];
    if (job->terms.kind != 0 || job->submit.u.job_submitted.kind == JOB_KIND_BATCH) return;
    if (!sim_random_chance(&random, 300000)) return;
    uint32_t pair = (uint32_t)sim_random_range(&random, 0, sizeof pairs / sizeof pairs[0] - 1);
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = 11 + pair;
    job->terms.u.terms_defined.terms.affinity = pairs[pair][0];
    job->terms.u.terms_defined.terms.spread = pairs[pair][1];
    job->submit.u.job_submitted.terms_id = 11 + pair;
}

/* Data somewhere; of jobs without a budget in all, which may not bear it. */
static void draw_data(struct sim *s, uint32_t index)
{
    struct sim_random random = sim_random_fork(s->seed, 4200 + index);
    struct sim_job *job = &s->jobs[index];
    if (job->terms.kind != 0 || job->submit.u.job_submitted.budget_usd_micros != 0) return;
    if (!sim_random_chance(&random, 300000)) return;
    uint32_t kind = (uint32_t)sim_random_range(&random, 0, 2 * REGIONS_COUNT - 1);
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = 21 + kind;
    job->terms.u.terms_defined.terms.data_region = 1 + kind % REGIONS_COUNT;
    job->terms.u.terms_defined.terms.data_bytes = UINT64_C(100000000000)
                                                  << 2 * (kind / REGIONS_COUNT);
    job->submit.u.job_submitted.terms_id = 21 + kind;
}

/* The first pool, and the second when that has nothing. */
static void draw_tier(struct sim *s, uint32_t index)
{
    struct sim_random random = sim_random_fork(s->seed, 4400 + index);
    struct sim_job *job = &s->jobs[index];
    if (job->terms.kind != 0 || !sim_random_chance(&random, 200000)) return;
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = 29;
    job->terms.u.terms_defined.terms.degrade = 2;
    job->submit.u.job_submitted.terms_id = 29;
    job->submit.u.job_submitted.pool_mask = (1 << SIM_POOLS_COUNT) - 1;
}

/* NCU instead of devices, at a price per NCU that is often just enough. */
static void draw_ncu(struct sim *s, uint32_t index)
{
    struct sim_random random = sim_random_fork(s->seed, 4300 + index);
    struct sim_job *job = &s->jobs[index];
    if (job->terms.kind != 0 || job->submit.u.job_submitted.kind == JOB_KIND_BATCH) return;
    if (!sim_random_chance(&random, 200000)) return;
    uint32_t ncu_milli = UINT32_C(700) << sim_random_range(&random, 0, 4);
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = 31 + ncu_milli;
    job->terms.u.terms_defined.terms.ncu_milli = ncu_milli;
    job->submit.u.job_submitted.terms_id = 31 + ncu_milli;
    job->submit.u.job_submitted.devices_min = job->submit.u.job_submitted.devices_max = 1;
    if (job->submit.u.job_submitted.budget_usd_micros_per_hour > 0)
        job->submit.u.job_submitted.budget_usd_micros_per_hour =
            DOLLAR * ncu_milli / 1000 * sim_random_range(&random, 4, 30) / 10;
}

/* An instance of a partitioned device; of a few profiles, so that jobs share them and fill devices. */
static void draw_instance(struct sim *s, uint32_t index)
{
    static const uint32_t compute[] = {1, 1, 2, 3, 4, 7};
    struct sim_random random = sim_random_fork(s->seed, 4700 + index);
    struct sim_job *job = &s->jobs[index];
    if (job->terms.kind != 0 || !sim_random_chance(&random, s->options.mig_ppm)) return;
    uint32_t kind = (uint32_t)sim_random_range(&random, 0, 5);
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = 31 + kind;
    job->terms.u.terms_defined.terms.mig_profile = compute[kind];
    if (kind == 1) job->terms.u.terms_defined.terms.device_memory_mib = 10240;
    job->submit.u.job_submitted.terms_id = 31 + kind;
    job->submit.u.job_submitted.devices_min = job->submit.u.job_submitted.devices_max = 1;
}

static void draw_job(struct sim *s, uint32_t index)
{
    struct sim_random random = sim_random_fork(s->seed, 3300 + index);
    struct sim_job *job = &s->jobs[index];
    job->random = random;
    job->submit.kind = POOL_EVENT_JOB_SUBMITTED;
    if (index > 0 && sim_random_chance(&random, 300000)) {
        job->submit = s->jobs[index - 1].submit;
        job->terms = s->jobs[index - 1].terms;
    } else {
        draw_needs(s, &random, &job->submit);
        draw_terms(s, index);
        draw_nearness(s, index);
        draw_data(s, index);
        draw_ncu(s, index);
        draw_tier(s, index);
        draw_instance(s, index);
    }
    job->submit.u.job_submitted.job_id = index + 1;
    job->submit.u.job_submitted.spec_hash = sim_random_next(&random);
    job->submit.u.job_submitted.tenant = 1 + (uint32_t)sim_random_range(&random, 0, 2);
    job->submit.u.job_submitted.project = 1 + index % 2;
    job->submit.u.job_submitted.team = 1 + index % 3;
    job->submit.u.job_submitted.experiment = 1 + index;
    job->submit.u.job_submitted.job_class = (uint8_t)sim_random_range(&random, 0, 3);
    job->submit_us = sim_random_range(&random, SIM_SECOND_US, s->options.safety_us * 2 / 3);
    job->work_us = (int64_t)job->submit.u.job_submitted.devices_min *
                   sim_random_range(&random, 60, 1500) * SIM_SECOND_US;
    if (sim_random_chance(&random, s->options.cancel_ppm))
        job->cancel_us =
            job->submit_us + sim_random_range(&random, SIM_SECOND_US, 20 * SIM_MINUTE_US);
    if (sim_random_chance(&random, s->options.repeat_ppm))
        job->repeat_us = job->submit_us + sim_random_range(&random, SIM_MINUTE_US, SIM_HOUR_US);
}

/* One job as large as the crowd, and the stock for it. */
static void draw_crowd(struct sim *s)
{
    if (s->options.crowd_count == 0 || s->job_count == 0) return;
    struct sim_job *job = &s->jobs[s->job_count - 1];
    if (job->terms.u.terms_defined.terms.mig_profile != 0) {
        job->terms = (struct pool_event){0};
        job->submit.u.job_submitted.terms_id = 0;
    }
    job->submit.u.job_submitted.capacity_mask = 0;
    job->submit.u.job_submitted.kind = JOB_KIND_ELASTIC;
    job->submit.u.job_submitted.capability_mask = 1;
    job->submit.u.job_submitted.budget_usd_micros = 0;
    job->submit.u.job_submitted.budget_usd_micros_per_hour = 0;
    job->submit.u.job_submitted.devices_min = 2;
    job->submit.u.job_submitted.devices_max = (uint32_t)s->options.crowd_count;
    job->work_us = s->options.crowd_count * 10 * SIM_MINUTE_US;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        s->offers[i].device_count = 1;
        s->offers[i].stock = (uint32_t)s->options.crowd_count;
    }
}

/* A few devices for many instances: what is left of them lies in the wrong places sooner or later. */
static void draw_narrow(struct sim *s)
{
    static const uint32_t compute[] = {1, 2, 1, 3, 1, 4};
    struct sim_random random = sim_random_fork(s->seed, 4500);
    bool narrow = sim_random_chance(&random, s->options.mig_ppm / 4);
    if (s->options.crowd_count > 0 || !narrow) return;
    s->models[0].u.model_defined.mig_slices = 8;
    s->models[0].u.model_defined.vram_mib = 81920;
    if (s->offer_count > 2) s->offer_count = 2;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        s->offers[i].model = 0;
        s->offers[i].device_count = s->offers[i].stock = 1;
        s->offers[i].capacity = i == 0 ? CAPACITY_OWNED : CAPACITY_ON_DEMAND;
    }
    for (uint32_t i = 0; i < s->job_count; i++) {
        struct sim_job *job = &s->jobs[i];
        uint32_t kind = (uint32_t)sim_random_range(&random, 0, 5);
        job->terms = (struct pool_event){.kind = POOL_EVENT_TERMS_DEFINED};
        job->terms.u.terms_defined.terms_id = 41 + compute[kind];
        job->terms.u.terms_defined.terms.mig_profile = compute[kind];
        job->submit =
            (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                .u.job_submitted = {.job_id = i + 1,
                                                    .spec_hash = i + 1,
                                                    .capability_mask = 1,
                                                    .devices_min = 1,
                                                    .devices_max = 1,
                                                    .terms_id = 41 + compute[kind],
                                                    .job_class = (uint8_t)sim_random_range(
                                                        &random, JOB_CLASS_P1, JOB_CLASS_P3),
                                                    .kind = JOB_KIND_BATCH}};
        job->work_us = sim_random_range(&random, 2, 40) * SIM_MINUTE_US;
    }
}

void sim_draw_world(struct sim *s)
{
    ASSERT(s->options.jobs_count <= SIM_JOBS_MAX);
    ASSERT(s->options.offers_count <= SIM_OFFERS_MAX);
    draw_models(s);
    draw_pools(s);
    draw_bids(s);
    draw_rates(s);
    draw_links(s);
    s->offer_count = (uint32_t)s->options.offers_count;
    for (uint32_t i = 0; i < s->offer_count; i++) draw_offer(s, i);
    s->job_count = (uint32_t)s->options.jobs_count;
    for (uint32_t i = 0; i < s->job_count; i++) draw_job(s, i);
    draw_crowd(s);
    draw_narrow(s);
}
