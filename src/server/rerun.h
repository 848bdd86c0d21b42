/* What would have happened in a recorded stretch of time under another policy, price or pool.
 *
 * Role       Drives the very core once more from where the stretch begins, with the recorded events
 *            that no decision had a part in (changed as asked), and a modelled world that answers
 *            (server/world.h). Same facts, change and seed: same outcome, to the bit.
 * Change     What jobs submitted in the stretch may be bought, prices, definitions of models, pools, classes
 *            and accounts, and the timing of the core. The empty change is the model's own account of
 *            what happened: what it is off by there, it may be off by elsewhere.
 */
#ifndef SHOAL_SERVER_RERUN_H
#define SHOAL_SERVER_RERUN_H

#include "codec/price_feed.h"
#include "server/facts.h"
#include "server/names.h"
#include "server/world.h"

struct rerun_change {
    uint32_t forbidden_mask; /* bit = enum capacity_kind: jobs of the stretch do without it */
    uint32_t buying;         /* enum buying_policy of all classes and pools; 0: as recorded */
    double spot_factor, on_demand_factor; /* of prices; 0: as recorded */
    const struct price_feed *prices;      /* instead of recorded ones, where it has a series */
    const struct array *definitions;      /* struct pool_event, instead of recorded ones */
    const struct pool_config *config;     /* timing; NULL: as recorded */
};

/* The events of the stretch under a change; struct fact_event. */
struct rerun_plan {
    struct array events;
    uint32_t priced_offers, kept_jobs; /* with a series of `prices`; jobs that allow only what is
                                          forbidden, and keep it */
};

struct rerun_outcome {
    struct tally tally;
    struct world_sums fate;
    uint64_t digest; /* of the pool at the end */
};

/* table: zones and models of the journal, for `prices`. */
bool rerun_prepare(const struct facts *f, const struct rerun_change *change, const names *table,
                   struct rerun_plan *ret_plan, struct error *ret_error) WARN_UNUSED;
void rerun_plan_free(struct rerun_plan *plan);
/* curves: survival by offer number. The outcome's tally is the caller's to tally_free(). */
bool rerun_run(const struct facts *f, const struct rerun_change *change,
               const struct rerun_plan *plan, const struct survival_curve *curves, uint64_t seed,
               struct rerun_outcome *ret_outcome, struct error *ret_error) WARN_UNUSED;
/* Survival of every offer out of all lives of the journal up to the end of the stretch;
 * mem_alloc()ed, by offer number. ret_all: of spot. NULL: the sentence tells. */
struct survival_curve *rerun_curves(const struct facts *f, journal *j,
                                    struct survival_seen *ret_all, struct error *ret_error);

#endif
