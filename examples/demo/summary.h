/* The figures at the end of the demo, and out/demo/summary.json.
 *
 * Measured   cost (the ledger), wall time, losses, hashes, samples.
 * Emulated   prices, and the time a slot takes on a device model (hence utilization).
 * Computed   the static cluster: the same job, never interrupted, on on-demand machines of the NCU
 *            that the swarm held on average, in the same mix of models, each at the lowest
 *            on-demand price that any cloud asks for it.
 *            time = steps * the swarm's median time of a step (most steps are undisturbed)
 *            cost = mean NCU * that time * the mix's price per NCU-hour
 * Utilization  useful work / work that the held devices could have done (NCU times time billed).
 */
#ifndef SHOAL_DEMO_SUMMARY_H
#define SHOAL_DEMO_SUMMARY_H

#include "demo/record.h"

struct summary {
    struct audit audit;
    struct churn churn;
    int64_t cost_usd_micros, static_cost_usd_micros, static_wall_us;
    int64_t swarm_wall_us, wall_us; /* the job; the whole demo */
    int64_t utilization_ppm, static_utilization_ppm, mean_ncu_milli;
    int64_t median_step_us;
    uint32_t workers_max;
};

/* wall_us: of the whole demo. record_index() was called. */
struct summary summary_of(const struct record *record, int64_t wall_us);
/* NULL: no memory. */
json_t *summary_json(const struct record *record, const struct summary *summary);
bool summary_write(const struct record *record, const struct summary *summary, const char *path,
                   struct error *ret_error) WARN_UNUSED;

#endif
