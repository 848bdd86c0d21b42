/* Every policy bench/sia knows; each is one file or one knowledge of a file. */
#ifndef SHOAL_BENCH_SIA_POLICIES_H
#define SHOAL_BENCH_SIA_POLICIES_H

#include "sia_sim.h"

extern const struct sia_policy sia_shoal, sia_shoal_predicted, sia_shoal_shared,
    sia_sia;                                    /* sia_elastic.c */
extern const struct sia_policy sia_shoal_rigid; /* sia_rigid.c */
extern const struct sia_policy sia_gavel;       /* sia_gavel.c */
extern const struct sia_policy sia_shoal_pool;  /* sia_pool.c */

/* Fills job->best_rigid[] with the tightest placements of each type; 0 = does not fit one cluster.
 *  */
void sia_rigid_rates(struct sia_job *job);

/* 64 devices are solved whole (25 * 17 * 25 states); where that cannot be, small windows do. */
static inline uint32_t sia_window_states(const struct sia_sim *sim)
{
    return sim->copies == 1 ? 16384 : 4096;
}

#endif
