/* Instances of partitioned devices are moved so that another fits: consolidation inside devices.
 *
 * When       A job asks for an instance, no device has a place for it, and one has slices enough that are
 *            free in the wrong places (mig.h). Nobody is ended for an instance; others move.
 * Who        Workers of preemptible classes, not above that of the job that asks, that have worked
 *            REPACK_HOLD_S at least: each is told to stop, with notice, and starts again in another place of
 *            the device, or at most one of them on another device that has room.
 * Choice     Of all devices the moves that lose the least work: since the checkpoint, plus a restart, by the
 *            NCU of the instance. Exhaustive for each device. Only when that is no more than a
 *            REPACK_SHARE-th of the work that the job brings (its run time, declared or learnt; else an hour).
 * Kept       The slices that are emptied are kept for whoever asks for what the job asks for, and those where
 *            the movers go likewise, until they start, so nobody takes them in between. One repacking for what
 *            is asked for at a time, one on a device, MIG_KEEPS_MAX places in all.
 */
#ifndef SHOAL_CORE_PLAN_REPACK_H
#define SHOAL_CORE_PLAN_REPACK_H

#include "core/plan_buy.h"

enum {
    REPACK_HOLD_S = 600,
    REPACK_SHARE = 2,
    REPACK_RUN_S = 3600,
    REPACK_LOOKS_MAX = 4096 /* devices looked at for one job */
};

/* A queued job that does not start: true, somebody moves for it, now or already. */
bool plan_repack(pool *p, uint32_t job, const struct demand *demand, struct pool_output *out);
void repack_taken(pool *p, uint32_t lease); /* what was kept for whoever asks so is not any more */
void repack_left(pool *p,
                 uint64_t ask_hash); /* one who asks so ended: if it was the last, likewise */

#endif
