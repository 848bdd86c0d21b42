/* What the parts of deadline.c share: the clock of a job, and what there is for it. */
#ifndef SHOAL_CORE_DEADLINE_VIEW_H
#define SHOAL_CORE_DEADLINE_VIEW_H

#include "core/deadline.h"
#include "core/state.h"

struct sight {
    const struct shape *s;
    const struct job_terms *terms;
    uint32_t guaranteed, has_stock; /* the cheapest offer, of those with stock if there are any */
    uint32_t zones;                 /* watched spot offers that it may use at all, */
    uint32_t zones_up;              /* and now */
    uint32_t unwatched;             /* the cheapest spot offer that it may use and is not; SLOT_NONE */
    bool any_spot;                  /* on sale now, watched or not */
    int64_t device_max, bid, slowest_us; /* device_max, bid: INT64_MAX = none */
    int64_t least_spot;                  /* per device-hour, of those that are up */
};

/* ---- deadline_clock.c ---- */

const struct job_terms *deadline_terms(const pool *p, const struct job *j);
/* Of its work; saved: as if all its nodes were lost now. */
int64_t deadline_left_us(const pool *p, const struct job *j, bool saved);
/* Work that a loss costs; beyond an hour, is_unsafe() sees to it. */
int64_t deadline_save_gap_us(const pool *p, const struct job *j);
uint32_t deadline_ticks_up(int64_t us);

/* ---- deadline_look.c ---- */

int64_t deadline_per_device(const struct offer *o);
/* terms: a plan's are not the pool's yet, so its shape has none. only_region: SLOT_NONE = any that the
 * job allows. */
struct sight deadline_look(const pool *p, const struct shape *s, const struct job_terms *terms,
                           uint32_t only_region);

#endif
