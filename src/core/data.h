/* Data of jobs: what it costs in dollars and seconds to bring it where the job runs.
 *
 * Links      From a region to another, or to all others (region 0), told before the job that needs them
 *            (LINKS_TOLD): dollars per GB and MB a second. Nothing told: free, at once.
 * Counts     Regions are compared by what a job's work costs there: the price of its devices with their
 *            risk over its run and the staging before, and the egress, per NCU. The run is what is
 *            declared or learnt, else an hour, as for gates. A job without data is placed as ever.
 * Charged    Once for each region that its data is brought to: against its budget in all and the dollars of
 *            a day and month of its accounts. What these do not bear is not a place for it.
 * Limits     LINKS_MAX links; later ones are not taken, and their regions go by the link to all others.
 */
#ifndef SHOAL_CORE_DATA_H
#define SHOAL_CORE_DATA_H

#include "core/plan_buy.h"

#define DATA_GB UINT64_C(1000000000)
#define DATA_MB UINT64_C(1000000)

struct staging {
    int64_t usd_micros, us;
};

void data_links_told(pool *p, const struct pool_event *event, struct pool_output *out);

static inline bool data_is_set(const struct job_terms *terms)
{
    return terms->data_bytes > 0 && terms->data_region != 0;
}
/* For a job that has nothing there yet; links[]: LINKS_TOLD events that count before what was told. */
struct staging data_staging(const pool *p, const struct job_terms *terms, uint32_t region,
                            const struct pool_event *links, uint32_t link_count);
/* For this job, which may have its data there. */
struct staging data_staging_of(const pool *p, const struct demand *demand, uint32_t region_index);
/* What its budget and its accounts still bear. */
int64_t data_left_usd_micros(const pool *p, uint32_t job);
bool data_affords(const pool *p, const struct demand *demand, uint32_t region_index);
/* Micro-dollars for a unit of its work: the run and what comes before, per NCU-hour of the run. */
int64_t data_unit_cost(int64_t usd_micros_per_hour, uint64_t ncu_milli, int64_t run_us,
                       struct staging staging);
/* It starts there: charged, and said. */
void data_bring(pool *p, uint32_t job, uint32_t region_index, struct pool_output *out);

#endif
