/* What would let a waiting job start now: the planner's own questions, asked again with one wish
 * changed at a time.
 *
 * Role       Pure, const, for `shoal why`. Nothing is guessed: a wish is named only if the planner,
 *            given the job with that one change, would find its gang's minimum in this very moment
 *            (plan_best_region, preempt_best), with its quota, promises to those before it and the
 *            pool's limits as they are.
 * Next       Without any change: when what its least takes is expected to be free (plan_reserve.h).
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
    WISH_GATE,      /* value: micro-dollars an hour within its cost gates that suffice */
    WISH_FEWER_NCU, /* value: milli, the most that are to be had, in tenths of an NCU */
    WISH_KIND_END
};

struct wish {
    int64_t value;
    int64_t usd_micros_per_hour; /* of what it would hold at first; of what it pays for */
    uint32_t kind, region, device_count;
    uint32_t victim_count; /* workers of lower classes that would have to go; 0 = none */
    /* What its least would cost an hour more so than as it asks, were that in stock; has_extra 0: not known,
     * nothing that it asks for is sold, or others have to go. */
    int64_t extra_usd_micros_per_hour;
    uint32_t has_extra, reserved;
};

/* When devices for its least come free without any change: by the run times that jobs declare, or that
 * were learned from jobs like them. Who comes first may take them, more may come free before. */
struct next_free {
    int64_t at_us;   /* 0: not known, or devices are not what it waits for */
    uint64_t job_id; /* whose end is the last it takes; 0 = a worker that hands over */
    uint32_t region;
    uint32_t device_count; /* of devices_min: there already */
    uint32_t devices_min, reserved;
};

struct explanation {
    uint32_t wish_count, reserved;
    uint64_t capability_mask; /* that it asks for */
    struct next_free next;
    struct wish wishes[WISHES_MAX];
};

/* False: no such job, or it does not wait in the queue. */
bool pool_explain(const pool *p, uint64_t job_id, struct explanation *ret_explanation);

#endif
