/* What a provider bills against what it quotes.
 *
 * Role       While a node runs, its bill is compared with the price its offer was quoted at. A bill
 *            that no rounding to minutes explains makes the offer distrusted: from then on it costs
 *            what it bills, in every comparison, budget and threshold, until another price is
 *            quoted. Its nodes are looked at again as after a rise of the price.
 * Window     From one observation with a bill to a later one, a minute or more apart, between which
 *            the offer's price did not change.
 */
#ifndef SHOAL_CORE_BILL_H
#define SHOAL_CORE_BILL_H

#include "core/state.h"

struct pool_output;
/* The provider's word on a running node: billed so far; < 0 = it does not say. */
void bill_seen(pool *p, uint32_t node, int64_t billed_usd_micros, struct pool_output *out);

#endif
