/* The site's own ranking of offers, as told.
 *
 * Role       A shell evaluates an expression or asks a program what each offer counts as, and tells it
 *            in quantised factors (OFFERS_RANKED): so a replay buys the same. A factor takes the place
 *            of the risk's surcharge in all comparisons (risk_weighed()), or counts beside it, as that of
 *            a learned ranking does; budgets, gates, thresholds and ledgers go by the price itself.
 * Outside    A learned ranking that was trained on nothing like an offer tells RANK_OUTSIDE: it counts as
 *            built in, and a purchase there says so.
 * Fallback   Any state but RANKING_OWN takes all factors back; unless it is RANKING_BUILT_IN the core
 *            says why, and says of each purchase that the ranking was not to be had.
 */
#ifndef SHOAL_CORE_RANKING_H
#define SHOAL_CORE_RANKING_H

#include "core/state.h"

void ranking_told(pool *p, const struct pool_event *event, struct pool_output *out);
/* How a purchase at this offer is said that would be CHEAPEST. */
uint32_t ranking_reason(const pool *p, uint32_t offer);

#endif
