/* What would let a waiting job start now: the planner's own questions, asked again with one wish
 * changed at a time.
 *
 * Role       Pure, const, for `shoal why`. Nothing is guessed: a wish is named only if the planner,
 *            given the job with that one change, would find its gang's minimum in this very moment
 *            (plan_best_region, preempt_best), with its quota, promises to those before it and the
 *            pool's limits as they are.
 * Bounds     WISHES_MAX; further capabilities or regions are left out.
 */
#ifndef SHOAL_CORE_EXPLAIN_H
#define SHOAL_CORE_EXPLAIN_H

#include "core/pool.h"

enum { WISHES_MAX = 32 };

enum wish_kind {
    WISH_FEWER_DEVICES = 1,  /* value: with so many, the most that are to be had */
    WISH_WITHOUT_CAPABILITY, /* value: bit of the capability */
    WISH_LESS_MEMORY,        /* value: MiB a device, the most that would do */
    WISH_ANY_POOL,
    WISH_ANY_REGION,
    WISH_ANY_KIND,  /* of capacity: spot, on-demand, ... */
    WISH_ANY_PRICE, /* no threshold */
    WISH_BUDGET,    /* value: micro-dollars an hour that suffice */
    WISH_CLASS,     /* value: enum job_class */
    WISH_ANY_PLACE, /* without `same` and `spread` */
    WISH_KIND_END
};

struct wish {
    int64_t value;
    int64_t usd_micros_per_hour; /* of what it would hold at first; of what it pays for */
    uint32_t kind, region, device_count;
    uint32_t victim_count; /* workers of lower classes that would have to go; 0 = none */
};

struct explanation {
    uint32_t wish_count, reserved;
    struct wish wishes[WISHES_MAX];
};

/* False: no such job, or it does not wait in the queue. */
bool pool_explain(const pool *p, uint64_t job_id, struct explanation *ret_explanation);

#endif
