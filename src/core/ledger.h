/* The ledger: who pays for each stretch of a node's time.
 *
 * Rule       An interval closes when the holder or the state of the node changes, and at least
 *            every ENTRY_US_MAX. Its amount is the exact integral of the offer's price over it,
 *            split by devices, the remainder of the division to the first holder. A price change
 *            therefore needs no cut: entries add up to the micro-dollar whatever the price did.
 * Invariants sum of a node's entries = node.entered_usd_micros = floor(price * time) so far; after
 *            the provider's final bill an ADJUSTMENT makes it equal the bill; sum of ENTRY_JOB of a
 *            job = job.usd_micros; sums of kinds = pool totals.
 */
#ifndef SHOAL_CORE_LEDGER_H
#define SHOAL_CORE_LEDGER_H

#include "core/state.h"

void ledger_open(pool *p, uint32_t node, int64_t up_since_us); /* billing begins */
int64_t ledger_usd_micros(const pool *p, uint32_t node); /* all it has cost so far, booked or not */
void ledger_settle(pool *p, uint32_t node, struct pool_output *out);
void ledger_close(pool *p, uint32_t node, struct pool_output *out);
/* The provider's final word; -1 = it does not know. */
void ledger_bill(pool *p, uint32_t node, int64_t billed_usd_micros, struct pool_output *out);

int64_t ledger_node_pending(const pool *p, uint32_t node); /* since its last entry */
/* What a lease has cost since the last entry of its node. */
int64_t ledger_pending_usd_micros(const pool *p, uint32_t lease);
int64_t ledger_lease_rate(const pool *p, uint32_t lease); /* micro-dollars per hour, rounded up */

#endif
