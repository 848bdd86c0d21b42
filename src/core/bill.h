/* What a provider bills against what it quotes.
 *
 * Role       While a node runs, its bill is compared with the price its offer was quoted at. A bill
 *            that no rounding to minutes, or to the longer unit that its provider bills by
 *            (billing_s of the offer), explains makes the offer distrusted: from then on it costs
 *            what it bills, in every comparison, budget and threshold, until another price is
 *            quoted. Its nodes are looked at again as after a rise of the price.
 * Window     From one observation with a bill to a later one, a minute or more apart, between which
 *            the offer's price did not change. A bill may be an old one: it begins a window as it is only
 *            if it has all that may be owed by then, since its provider saw the node up. Who bills by more than a minute is compared from the
 *            start of the node on, where that is known, since its first bill is the one to look at.
 */
#ifndef SHOAL_CORE_BILL_H
#define SHOAL_CORE_BILL_H

#include "core/state.h"

struct pool_output;
/* The provider's word on a running node. */
struct bill {
    int64_t usd_micros;  /* billed so far; < 0 = it does not say */
    int64_t up_since_us; /* it counts from then on; 0 = it does not say */
};
void bill_seen(pool *p, uint32_t node, const struct bill *bill, struct pool_output *out);

#endif
