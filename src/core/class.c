#include "core/class.h"
#include "core/assert.h"
#include "core/lease.h"

#define WHOLE_PPM UINT32_C(1000000)

void pool_class_default(uint32_t job_class, struct pool_event *ret_event)
{
    static const uint32_t reserved_ppm[JOB_CLASS_END] = {WHOLE_PPM, 700000, 0, 0};
    bool guaranteed = job_class <= JOB_CLASS_P1;
    *ret_event = (struct pool_event){
        .kind = POOL_EVENT_CLASS_DEFINED,
        .version = POOL_CORE_VERSION,
        .u.class_defined = {.job_class = job_class,
                            .reserved_ppm = reserved_ppm[job_class],
                            .burst_ppm = WHOLE_PPM - reserved_ppm[job_class],
                            .may_preempt_mask =
                                guaranteed ? 1U << JOB_CLASS_P2 | 1U << JOB_CLASS_P3 : 0,
                            .preemptible = !guaranteed,
                            .queues = job_class != JOB_CLASS_P0}};
}

void class_defaults(pool *p)
{
    struct pool_event event;
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        pool_class_default(i, &event);
        class_define(p, &event);
    }
}

void class_define(pool *p, const struct pool_event *event)
{
    uint32_t job_class = event->u.class_defined.job_class;
    uint32_t below = ((1U << JOB_CLASS_END) - 1) & ~((2U << job_class) - 1);
    p->classes[job_class] =
        (struct class_rule){.reserved_ppm = event->u.class_defined.reserved_ppm,
                            .burst_ppm = event->u.class_defined.burst_ppm,
                            .may_preempt_mask = event->u.class_defined.may_preempt_mask & below,
                            .preemptible = event->u.class_defined.preemptible,
                            .queues = event->u.class_defined.queues};
}

bool class_may_preempt(const pool *p, uint32_t job_class, uint32_t victim_class)
{
    if (victim_class <= job_class) return false;
    return p->classes[victim_class].preemptible &&
           (p->classes[job_class].may_preempt_mask >> victim_class & 1) != 0;
}

bool class_queues(const pool *p, uint32_t job_class)
{
    return p->classes[job_class].queues;
}

bool class_bursts(const pool *p, uint32_t job_class)
{
    return p->classes[job_class].burst_ppm > 0;
}

static uint64_t share(uint64_t ncu_milli, uint32_t ppm)
{
    /* No overflow: at most 2^26 nodes of 4096 devices of 10^6 milli-NCU; so whole parts first. */
    return ncu_milli / WHOLE_PPM * ppm + ncu_milli % WHOLE_PPM * ppm / WHOLE_PPM;
}

/* The models of its pools, not only those that fit it: a share is of the pool. */
static uint64_t pool_models(const pool *p, const struct shape *s)
{
    if (s->pool_mask == 0) return UINT64_MAX;
    uint64_t models = s->compat_mask;
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++)
        if ((s->pool_mask >> i & 1) != 0) models |= p->rules[i].hardware_mask;
    return models;
}

/* What owned and reserved capacity can reach, whether it is up or not. */
static uint64_t owned_ncu_milli(const pool *p, uint64_t models)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->regions_end; i++)
        for (uint64_t rest = models & p->regions[i].model_mask; rest != 0; rest &= rest - 1) {
            uint32_t model = (uint32_t)__builtin_ctzll(rest);
            const struct market *market = market_of(p, i, model);
            sum +=
                (market->reach_devices[CAPACITY_OWNED] + market->reach_devices[CAPACITY_RESERVED]) *
                p->models[model].ncu_milli;
        }
    return sum;
}

void class_share_of(const pool *p, const struct shape *s, uint64_t more_ncu_milli,
                    struct class_share *ret_share)
{
    uint64_t models = pool_models(p, s);
    *ret_share = (struct class_share){0};
    for (uint32_t model = 0; model < p->config.limits.models_max; model++) {
        if ((models >> model & 1) == 0) continue;
        uint64_t ncu_milli = p->models[model].ncu_milli;
        ret_share->total_ncu_milli += p->uses[model].device_count * ncu_milli;
        ret_share->held_ncu_milli += (p->uses[model].held_count[s->job_class] +
                                      p->uses[model].promised_count[s->job_class]) *
                                     ncu_milli;
    }
    ret_share->total_ncu_milli += more_ncu_milli;
    const struct class_rule *rule = &p->classes[s->job_class];
    uint64_t owned = owned_ncu_milli(p, models);
    if (owned < ret_share->total_ncu_milli) owned = ret_share->total_ncu_milli;
    ret_share->reserved_ncu_milli = share(owned, rule->reserved_ppm);
    ret_share->most_ncu_milli = UINT64_MAX;
    if (rule->reserved_ppm + rule->burst_ppm >= WHOLE_PPM) return;
    ret_share->most_ncu_milli = share(owned, rule->reserved_ppm + rule->burst_ppm);
}

uint64_t class_left_milli(const pool *p, const struct shape *s)
{
    const struct class_rule *rule = &p->classes[s->job_class];
    if (rule->reserved_ppm + rule->burst_ppm >= WHOLE_PPM) return UINT64_MAX;
    struct class_share share;
    class_share_of(p, s, /* more */ 0, &share);
    return share.held_ncu_milli < share.most_ncu_milli ? share.most_ncu_milli - share.held_ncu_milli
                                                       : 0;
}

static uint32_t model_of(const pool *p, uint32_t node)
{
    ASSERT(p->nodes[node].offer != SLOT_NONE);
    return p->offers[p->nodes[node].offer].model;
}

void class_hold(pool *p, uint32_t lease, bool holds)
{
    const struct lease *l = &p->leases[lease];
    if (l->device_milli == 0) return; /* a part of a host */
    struct model_use *use = &p->uses[model_of(p, l->node)];
    uint64_t *held = &use->held_count[p->jobs[l->job].job_class];
    ASSERT(holds || *held >= l->device_count);
    *held += holds ? l->device_count : -(uint64_t)l->device_count;
}

void class_promise(pool *p, uint32_t job, uint32_t node, uint32_t device_count, bool more)
{
    uint64_t *count = &p->uses[model_of(p, node)].promised_count[p->jobs[job].job_class];
    ASSERT(more || *count >= device_count);
    *count += more ? device_count : -(uint64_t)device_count;
}

void class_node(pool *p, uint32_t node, bool usable)
{
    uint64_t *count = &p->uses[model_of(p, node)].device_count;
    ASSERT(usable || *count >= p->nodes[node].device_count);
    *count += usable ? p->nodes[node].device_count : -(uint64_t)p->nodes[node].device_count;
}
