/* A week of FGD's trace in which pods leave: arrivals and lifetimes as recorded.
 *
 * Load     The recorded pods keep about 1 % of the nodes busy, so each arrives in many copies, shifted by
 *          up to 12 hours either way (the seed draws), until the devices asked for in the busiest week
 *          come to load_pct of all. What runs when the week begins arrives first.
 * Refused  A pod that fits nowhere when it arrives does not come back.
 */
#ifndef SHOAL_BENCH_FGD_WEEK_H
#define SHOAL_BENCH_FGD_WEEK_H

#include "fgd_world.h"

struct fgd_week {
    double alloc_pct;    /* devices in use, mean over time, of all */
    double fragment_pct; /* free devices that the usual pods cannot use (FGD's measure), of all */
    double refused_pct;  /* of the device time asked for */
    uint32_t arrivals;
};

bool fgd_week_told(const struct fgd_world *world); /* the list has lifetimes */
struct fgd_week fgd_week_run(struct fgd_world *world, const struct fgd_policy *policy,
                             double load_pct);

#endif
