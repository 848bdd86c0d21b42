#include "core/buying.h"
#include "core/act.h"
#include "core/plan.h"

void buying_define(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t index = event->u.buying_defined.index;
    if (event->u.buying_defined.scope == BUYING_OF_POOL && index >= p->config.limits.pools_max) {
        MARK(out, CATALOG_LIMIT);
        return;
    }
    struct buying *rule = event->u.buying_defined.scope == BUYING_OF_POOL ? &p->pool_buying[index]
                                                                          : &p->class_buying[index];
    *rule = (struct buying){.policy = event->u.buying_defined.policy,
                            .price_threshold_ppm = event->u.buying_defined.price_threshold_ppm,
                            .device_usd_micros_max = event->u.buying_defined.device_usd_micros_max,
                            .bid_usd_micros = event->u.buying_defined.bid_usd_micros};
    if (rule->bid_usd_micros != 0) p->bids_defined = 1;
    plan_catalog_changed(p);
}

static int64_t lower(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Of its class and its pools, the lower of each. */
static struct buying limits_of(const pool *p, const struct shape *s)
{
    struct buying least = p->class_buying[s->job_class];
    for (uint64_t rest = s->pool_mask; rest != 0; rest &= rest - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(rest);
        if (index >= p->config.limits.pools_max) continue;
        const struct buying *rule = &p->pool_buying[index];
        least.device_usd_micros_max =
            lower(least.device_usd_micros_max, rule->device_usd_micros_max);
        least.bid_usd_micros = lower(least.bid_usd_micros, rule->bid_usd_micros);
    }
    return least;
}

int64_t buying_device_max(const pool *p, const struct shape *s)
{
    int64_t most = limits_of(p, s).device_usd_micros_max;
    return most == 0 ? INT64_MAX : most;
}

int64_t buying_bid(const pool *p, const struct shape *s)
{
    int64_t bid = limits_of(p, s).bid_usd_micros;
    return bid == 0 ? INT64_MAX : bid;
}

uint32_t buying_policy(const pool *p, const struct shape *s)
{
    for (uint64_t rest = s->pool_mask; rest != 0; rest &= rest - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(rest);
        if (index < p->config.limits.pools_max && p->pool_buying[index].policy != 0)
            return p->pool_buying[index].policy;
    }
    uint32_t policy = p->class_buying[s->job_class].policy;
    return policy != 0 ? policy : BUYING_TABLE;
}
