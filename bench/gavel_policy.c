/* Who runs where, by policy; their names are at the end. Ours is the core's own matching (core/match*.h),
 * called as a pool would each time a job arrives or ends; the peers are short enough to be read here. */
#include "base/mem.h"
#include "core/match.h"
#include "core/match_pair.h"
#include "core/match_size.h"
#include "core/match_weight.h"
#include "gavel_pool.h"
#include "gavel_sim.h"
#include "published.h"
#include <stdlib.h>
#include <string.h>

enum {
    AGE_SIZES = 3, /* a job ages when it is there longer than so many times its size */
    UNKNOWN_START_S = 10 * 3600, /* of unknown size: this much later */
    UNKNOWN_SPAN_S = 20 * 3600,
    TENANTS = 4,
    TENANT_DEVICES_DIVISOR = 2, /* a tenant holds at most half of the devices */
};

struct ours {
    struct match *match;
    void *memory;
    struct match_size size;
    struct match_pair_job *pair_jobs;
    uint32_t *order;
    bool *barred;            /* by their tenant's quota */
    int64_t *weight, *value; /* [ACTIVE_MAX], [ACTIVE_MAX * types] */
};

struct ours_options {
    bool unknown, sharing, tenants, last;
};

static void *ours_open(struct gavel_sim *sim)
{
    struct ours *s = published_alloc(1, sizeof *s);
    struct match_limits limits = {.jobs = ACTIVE_MAX,
                                  .types = sim->world->types,
                                  .devices = sim->world->types * DEVICES_PER_TYPE};
    s->memory = published_alloc(1, match_bytes(&limits));
    s->match = match_init(s->memory, &limits);
    match_size_clear(&s->size);
    s->pair_jobs = published_alloc(ACTIVE_MAX, sizeof *s->pair_jobs);
    s->order = published_alloc(ACTIVE_MAX, sizeof *s->order);
    s->barred = published_alloc(ACTIVE_MAX, sizeof *s->barred);
    s->weight = published_alloc(ACTIVE_MAX, sizeof *s->weight);
    s->value = published_alloc((size_t)ACTIVE_MAX * sim->world->types, sizeof *s->value);
    return s;
}

static void ours_close(struct gavel_sim *sim)
{
    struct ours *s = sim->state;
    mem_free(s->memory);
    mem_free(s->pair_jobs);
    mem_free(s->order);
    mem_free(s->barred);
    mem_free(s->weight);
    mem_free(s->value);
    mem_free(s);
}

static void ours_ended(struct gavel_sim *sim, const struct gavel_job *job)
{
    struct ours *s = sim->state;
    match_size_ended(&s->size, (int64_t)job->attained_s);
}

static int64_t weigh(const struct gavel_sim *sim, const struct gavel_job *job,
                     struct ours_options options)
{
    const struct ours *s = sim->state;
    const struct match_aim aim = options.last ? MATCH_AIM_LAST : MATCH_AIM_MEAN;
    double norm = sim->world->profile[job->profile].norm;
    int64_t age_s = (int64_t)(sim->now_s - job->arrival_s);
    int64_t attained_s = (int64_t)job->attained_s;
    if (options.last) return match_weight(&aim, (int64_t)(job->left / norm), 0, 0, 1);
    if (options.unknown) {
        int64_t left_s = match_size_expected_s(&s->size, attained_s);
        return match_weight(&aim, left_s * job->width, age_s,
                            AGE_SIZES * attained_s + UNKNOWN_START_S, UNKNOWN_SPAN_S);
    }
    int64_t start_s = (int64_t)(AGE_SIZES * job->steps / norm);
    return match_weight(&aim, (int64_t)(job->left / norm) * job->width, age_s, start_s, start_s);
}

struct ranked {
    int64_t key;
    uint32_t job;
};

static int by_key(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

/* order[]: places in active[], the greatest key first, then the oldest. */
static void rank(const struct gavel_sim *sim, const int64_t *key, uint32_t *order)
{
    static struct ranked ranked[ACTIVE_MAX];
    for (uint32_t i = 0; i < sim->active_count; i++) ranked[i] = (struct ranked){key[i], i};
    qsort(ranked, sim->active_count, sizeof ranked[0], by_key);
    for (uint32_t i = 0; i < sim->active_count; i++) order[i] = ranked[i].job;
}

/* The matching says where, pairs who joins whom, the oldest first. */
static void share(struct gavel_sim *sim)
{
    struct ours *s = sim->state;
    uint32_t free[TYPES_MAX];
    for (uint32_t type = 0; type < sim->world->types; type++)
        free[type] = match_free(s->match, type);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct gavel_job *job = &sim->active[i];
        s->pair_jobs[i] = (struct match_pair_job){.weight = s->weight[i],
                                                  .value = &s->value[i * sim->world->types],
                                                  .width = job->width,
                                                  .profile = job->profile,
                                                  .type = job->type,
                                                  .partner = MATCH_OUT};
    }
    struct match_pairs pairs = {.jobs = s->pair_jobs,
                                .job_count = sim->active_count,
                                .types = sim->world->types,
                                .profiles = sim->world->profiles,
                                .free = free,
                                .rates = sim->world->beside_value};
    match_pair(&pairs);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        sim->active[i].type = s->pair_jobs[i].type;
        sim->active[i].partner = s->pair_jobs[i].partner;
    }
}

static void bar(struct ours *s, uint32_t i)
{
    if (s->barred[i]) return;
    match_remove(s->match, i);
    s->barred[i] = true;
}

/* The tenant's jobs that wait do not come in, and those of the least weight leave until it is within its
 * quota; each that leaves makes room for somebody else. */
static void hold_quota(struct gavel_sim *sim, uint32_t tenant, uint32_t held, uint32_t quota)
{
    struct ours *s = sim->state;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        bool own = sim->active[i].number % TENANTS == tenant;
        if (own && match_type(s->match, i) == MATCH_OUT) bar(s, i);
    }
    for (uint32_t n = sim->active_count; n > 0 && held > quota; n--) {
        uint32_t i = s->order[n - 1];
        if (sim->active[i].number % TENANTS != tenant || s->barred[i]) continue;
        bar(s, i);
        held -= sim->active[i].width;
    }
}

/* A tenant that is within its quota stays there, unless others' devices fall to it: at most one more
 * look for each tenant. */
static void hold_quotas(struct gavel_sim *sim)
{
    struct ours *s = sim->state;
    uint32_t devices = 0;
    for (uint32_t type = 0; type < sim->world->types; type++) devices += sim->capacity[type];
    memset(s->barred, 0, sim->active_count * sizeof *s->barred);
    for (uint32_t look = 0; look < TENANTS; look++) {
        uint32_t held[TENANTS] = {0};
        for (uint32_t i = 0; i < sim->active_count; i++)
            if (match_type(s->match, i) != MATCH_OUT)
                held[sim->active[i].number % TENANTS] += sim->active[i].width;
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            uint32_t quota = devices / TENANT_DEVICES_DIVISOR;
            if (held[tenant] > quota) hold_quota(sim, tenant, held[tenant], quota);
        }
    }
}

static void ours_decide(struct gavel_sim *sim, struct ours_options options)
{
    struct ours *s = sim->state;
    bool gangs = false;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct profile *p = &sim->world->profile[sim->active[i].profile];
        s->weight[i] = weigh(sim, &sim->active[i], options);
        gangs = gangs || sim->active[i].width > 1;
        for (uint32_t type = 0; type < sim->world->types; type++)
            s->value[i * sim->world->types + type] = match_worth(s->weight[i], p->value[type]);
    }
    rank(sim, s->weight, s->order);
    match_clear(s->match, sim->capacity);
    for (uint32_t n = 0; n < sim->active_count; n++) {
        uint32_t i = s->order[n];
        match_add(s->match, i, sim->active[i].width, &s->value[i * sim->world->types]);
    }
    if (options.tenants) hold_quotas(sim);
    if (gangs) match_settle(s->match);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        sim->active[i].type = match_type(s->match, i);
        sim->active[i].partner = NOWHERE;
    }
    if (options.sharing) share(sim);
}

static void shoal(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){0});
}
static void shoal_unknown(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){.unknown = true});
}
static void shoal_sharing(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){.sharing = true});
}
static void shoal_sharing_unknown(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){.sharing = true, .unknown = true});
}
static void shoal_last(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){.last = true});
}
static void shoal_last_sharing(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){.last = true, .sharing = true});
}

static void *pool_open(struct gavel_sim *sim)
{
    return gavel_pool_open(sim, (struct gavel_pool_options){0});
}
static void *pool_unknown_open(struct gavel_sim *sim)
{
    return gavel_pool_open(sim, (struct gavel_pool_options){.unknown = true});
}
static void *pool_full_open(struct gavel_sim *sim)
{
    return gavel_pool_open(sim, (struct gavel_pool_options){.tenants = true});
}

/* ---- peers: an order of the jobs, each on the fastest type that is left ---- */

static void *order_open(struct gavel_sim *sim)
{
    (void)sim;
    return published_alloc(ACTIVE_MAX, sizeof(int64_t) + sizeof(uint32_t));
}

static void order_close(struct gavel_sim *sim)
{
    mem_free(sim->state);
}

static uint32_t fastest(const struct gavel_sim *sim, const struct gavel_job *job,
                        const uint32_t *free)
{
    const struct profile *p = &sim->world->profile[job->profile];
    uint32_t best = NOWHERE;
    for (uint32_t type = 0; type < sim->world->types; type++) {
        if (free[type] < job->width || p->rate[type] <= 0) continue;
        if (best == NOWHERE || p->rate[type] > p->rate[best]) best = type;
    }
    return best;
}

static void in_order(struct gavel_sim *sim,
                     int64_t (*key)(const struct gavel_sim *, const struct gavel_job *),
                     bool strict)
{
    int64_t *keys = sim->state;
    uint32_t *order = (uint32_t *)(keys + ACTIVE_MAX);
    uint32_t free[TYPES_MAX];
    memcpy(free, sim->capacity, sizeof free);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        keys[i] = key(sim, &sim->active[i]);
        sim->active[i].type = NOWHERE;
    }
    rank(sim, keys, order);
    for (uint32_t n = 0; n < sim->active_count; n++) {
        struct gavel_job *job = &sim->active[order[n]];
        job->type = fastest(sim, job, free);
        if (job->type != NOWHERE)
            free[job->type] -= job->width;
        else if (strict)
            return; /* nothing overtakes a gang that waits */
    }
}

static int64_t oldest(const struct gavel_sim *sim, const struct gavel_job *job)
{
    (void)sim;
    return -(int64_t)job->number;
}

static int64_t shortest(const struct gavel_sim *sim, const struct gavel_job *job)
{
    return -(int64_t)(1000 * job->left / sim->world->profile[job->profile].norm);
}

static int64_t least_served(const struct gavel_sim *sim, const struct gavel_job *job)
{
    (void)sim;
    return -(int64_t)(1000 * job->attained_s);
}

static void fifo_perf(struct gavel_sim *sim)
{
    in_order(sim, oldest, /* strict */ true);
}
static void srtf_perf(struct gavel_sim *sim)
{
    in_order(sim, shortest, /* strict */ false);
}
static void las_perf(struct gavel_sim *sim)
{
    in_order(sim, least_served, /* strict */ false);
}

/* The oldest first, types in turn, until it ends: the pool as if its devices were alike. */
static void fifo(struct gavel_sim *sim)
{
    uint32_t free[TYPES_MAX];
    memcpy(free, sim->capacity, sizeof free);
    for (uint32_t i = 0; i < sim->active_count; i++)
        if (sim->active[i].type != NOWHERE) free[sim->active[i].type] -= sim->active[i].width;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct gavel_job *job = &sim->active[i];
        for (uint32_t n = 0; n < sim->world->types && job->type == NOWHERE; n++) {
            uint32_t type = (uint32_t)((job->number + n) % sim->world->types);
            bool fits =
                free[type] >= job->width && sim->world->profile[job->profile].rate[type] > 0;
            if (fits) job->type = type;
            if (fits) free[type] -= job->width;
        }
        if (job->type == NOWHERE) return;
    }
}

static void shoal_full(struct gavel_sim *sim)
{
    ours_decide(sim, (struct ours_options){.tenants = true});
}

const struct gavel_policy gavel_policies[] = {
    {"fifo_perf", 720, false, order_open, fifo_perf, NULL, order_close},
    {"fifo", 720, false, order_open, fifo, NULL, order_close},
    {"srtf_perf", 0, false, order_open, srtf_perf, NULL, order_close},
    {"las_perf", 0, true, order_open, las_perf, NULL, order_close},
    {"shoal", 0, false, ours_open, shoal, ours_ended, ours_close},
    {"shoal_unknown", 0, false, ours_open, shoal_unknown, ours_ended, ours_close},
    {"shoal_sharing", 0, false, ours_open, shoal_sharing, ours_ended, ours_close},
    {"shoal_sharing_unknown", 0, false, ours_open, shoal_sharing_unknown, ours_ended, ours_close},
    {"shoal_full", 0, false, ours_open, shoal_full, ours_ended, ours_close},
    {"shoal_last", 0, true, ours_open, shoal_last, ours_ended, ours_close},
    {"shoal_last_sharing", 0, true, ours_open, shoal_last_sharing, ours_ended, ours_close},
    {"shoal_pool", 0, false, pool_open, gavel_pool_decide, gavel_pool_ended, gavel_pool_close},
    {"shoal_pool_unknown", 0, false, pool_unknown_open, gavel_pool_decide, gavel_pool_ended,
     gavel_pool_close},
    {"shoal_pool_full", 0, false, pool_full_open, gavel_pool_decide, gavel_pool_ended,
     gavel_pool_close},
};
const uint32_t gavel_policy_count = sizeof gavel_policies / sizeof gavel_policies[0];
