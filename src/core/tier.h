/* The next tier: a pool that a job may fall back upon when the others that it asks for have nothing.
 *
 * Pools      All are in its pool_mask, so it is admitted, woken, gated and judged with all of them; `degrade` of
 *            its terms names the one that comes last.
 * Rule       A job that starts is looked for in its own tier first, in all regions; only when nothing there
 *            reaches its minimum, in the next. All of its devices are of one tier, that of the first it
 *            holds. Nobody is preempted and nothing reserved for it in the next tier. It comes back to
 *            its own when that has enough for it (plan_tier.c).
 */
#ifndef SHOAL_CORE_TIER_H
#define SHOAL_CORE_TIER_H

#include "core/plan_buy.h"

/* Models of the job's own tier, and only of the next; both 0: it has one tier. */
struct tiers {
    uint64_t own, next;
};

struct tiers tiers_of(const pool *p, const struct shape *s, const struct job_terms *terms);
/* What a job holds decides. False: it holds nothing, both tiers are open. */
bool tier_anchor(const pool *p, uint32_t job, const struct tiers *tiers, struct demand *demand);

#endif
