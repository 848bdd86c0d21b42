/* The policy that is the pool itself: jobs come and end as events, pool_step() decides who runs where. */
#ifndef SHOAL_BENCH_GAVEL_POOL_H
#define SHOAL_BENCH_GAVEL_POOL_H

#include "gavel_sim.h"

struct gavel_pool_options {
    bool unknown; /* run times are not declared */
    bool tenants; /* four, each at most half of the devices */
};

void *gavel_pool_open(struct gavel_sim *sim, struct gavel_pool_options options);
void gavel_pool_decide(struct gavel_sim *sim);
void gavel_pool_ended(struct gavel_sim *sim, const struct gavel_job *job);
void gavel_pool_close(struct gavel_sim *sim);

#endif
