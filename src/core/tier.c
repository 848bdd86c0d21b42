#include "core/tier.h"
#include "core/near.h"

struct tiers tiers_of(const pool *p, const struct shape *s, const struct job_terms *terms)
{
    struct tiers tiers = {0};
    if (terms->degrade == 0) return tiers;
    uint64_t pools = s->pool_mask & ~(UINT64_C(1) << (terms->degrade - 1));
    for (uint64_t rest = s->compat_mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        bool own = false;
        for (uint32_t i = 0; i < p->config.limits.pools_max && !own; i++)
            own = (pools >> i & 1) != 0 && rule_allows(&p->rules[i], &p->models[model], model);
        if (own)
            tiers.own |= UINT64_C(1) << model;
        else
            tiers.next |= UINT64_C(1) << model;
    }
    return tiers;
}

bool tier_anchor(const pool *p, uint32_t job, const struct tiers *tiers, struct demand *demand)
{
    for (uint32_t l = p->jobs[job].leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (!near_counts(p, &p->leases[l])) continue;
        uint32_t model = p->offers[p->nodes[p->leases[l].node].offer].model;
        demand->compat_mask &= (tiers->own >> model & 1) != 0 ? tiers->own : tiers->next;
        return true;
    }
    return false;
}
