/* What an offer's risk adds to its price.
 *
 * Role       A node that will be taken soon is dearer than its price says: of each life, the time
 *            until a replacement works is paid for nothing. The surcharge makes offers comparable:
 *            price per productive hour = price / (1 - hazard * changeover).
 * Hazard     What the provider tells, or what was seen, whichever is more. Seen: of offers that are
 *            watched (spot_watch.h), how often they were lost at the age they have now, little-known
 *            ones leaning on the others, once any was lost; of the rest, 0.6 / (time since the last
 *            loss + 13 minutes), the prior of spot_life.h. So right after an offer took a node it takes
 *            the next one soon, too, and the longer it has been quiet the longer it stays so. At first,
 *            for as long as an offer that refused is left alone, it counts double.
 * Changeover From the order of a node to its agent joining, measured for each offer.
 * Where      unit_usd_micros, by which markets are ordered and offers compared, holds the surcharge;
 *            budgets, ledgers and thresholds go by the price itself.
 */
#ifndef SHOAL_CORE_RISK_H
#define SHOAL_CORE_RISK_H

#include "core/state.h"

/* A node of it is taken by the provider. Returns how long it counts double, 0: it does not, being no
 * spot. */
int64_t risk_taken(pool *p, uint32_t offer);
void risk_joined(pool *p, uint32_t offer, int64_t changeover_us); /* order to agent */
void risk_weigh(pool *p, uint32_t offer); /* anew: it was told or time has passed; reprices */
/* By what its provider tells, a tenth of a node's life there is spent on its replacement. */
bool risk_is_told_high(const struct offer *o);
uint32_t risk_hazard_ppm(const pool *p,
                         uint32_t offer); /* per million node-hours, told or learned */
int64_t risk_up_us(const pool *p,
                   uint32_t offer); /* on sale without a loss; 0 = not watched, or not */
int64_t risk_weighed(const struct offer *o, int64_t usd_micros); /* with the surcharge */

#endif
