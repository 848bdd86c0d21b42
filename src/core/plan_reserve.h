/* Reservations: devices collected for a gang that waits, so that an endless stream of smaller jobs
 * cannot keep it waiting for ever.
 *
 * Rule       A job that needs more than one device, is first of its shape and cannot start, is promised
 *            (promise.h) the devices that come free soonest, all of its minimum or none: those idle and
 *            those whose jobs are expected to end (predict.h: declared or learned). From then on nobody
 *            behind it in order takes them, unless its run time is known and over before the last of
 *            them comes free (backfill).
 * Bound      Let T be that moment when the reservation is made. The gang starts when the jobs that held
 *            its devices then have ended, and at T at the earliest; backfill never delays it by more
 *            than drain_us + 2 ask_again_us: what is not over at T is sent back to the queue. Jobs that
 *            run longer than expected push T away; it is told anew then (each time as long again).
 * Place      same: in the place where they come free soonest. Of jobs spread over racks or zones nothing is
 *            reserved; over nodes, one device of each.
 * Not        Where ends are not known (services, first jobs of their kind) nothing is reserved: idle
 *            devices would be lost for nobody knows how long.
 * Limits     RESERVATIONS_MAX jobs at a time, in order; RESERVE_PARTS_MAX parts of nodes for one.
 */
#ifndef SHOAL_CORE_PLAN_RESERVE_H
#define SHOAL_CORE_PLAN_RESERVE_H

#include "core/plan_buy.h"

enum { RESERVATIONS_MAX = 16, RESERVE_PARTS_MAX = 1024 };

struct reserve_part {
    int64_t free_us; /* when these devices come free; now = they are idle */
    uint32_t node, device_count;
    uint32_t job, lease; /* who holds them; SLOT_NONE = nobody */
};

struct reservation {
    int64_t ready_us; /* when the last of them comes free */
    uint32_t region_index, part_count, device_count, last_job; /* last_job: whose end that is */
    struct reserve_part parts[RESERVE_PARTS_MAX];
};

/* Where the least of a waiting job comes free soonest by the run times that are declared or learned. False:
 * nowhere by known ends, or it is there now. */
bool plan_next_free(const pool *p, const struct shape *s, const struct demand *demand,
                    struct reservation *ret_best);
/* A waiting job gets one, or keeps the one it has. */
void plan_reserve(pool *p, uint32_t job, const struct demand *demand, struct pool_output *out);
/* Its moment has come and it still waits. */
void plan_reserve_due(pool *p, uint32_t job);

#endif
