/* Exact money: price times time without floats and without losing a micro-dollar.
 *
 * Role       Pure arithmetic for offers (what a node of this offer has cost since it was first
 *            seen) and for the ledger (differences and shares of it).
 * Units      Money int64 micro-dollars, time int64 microseconds, prices micro-dollars per hour.
 * Rounding   A meter is exact: usd_micros + remainder / HOUR_US. Everything read from it is rounded
 *            down, and callers book "rounded total now minus booked so far", so rounding never adds
 *            up. Names say _floor or _ceil.
 * Errors     None: arguments outside limits.h are bugs and assert. Sums saturate at the ends of
 *            int64, which no configuration inside limits.h reaches in a century of one node.
 */
#ifndef SHOAL_CORE_MONEY_H
#define SHOAL_CORE_MONEY_H

#include <stdint.h>

/* Invariant: 0 <= remainder < HOUR_US. */
struct meter {
    int64_t usd_micros;
    uint64_t remainder; /* in 1 / HOUR_US micro-dollars */
};

void money_meter_add(struct meter *meter, int64_t usd_micros_per_hour, int64_t duration_us);
struct meter money_meter_minus(struct meter a, struct meter b);

/* amount * part / whole, rounded down, for 0 <= amount, part <= whole, 0 < whole < 2^32. */
int64_t money_share_floor(int64_t amount, uint32_t part, uint32_t whole);
int64_t money_share_ceil(int64_t amount, uint32_t part, uint32_t whole);

/* How long `usd_micros` lasts at a rate, rounded up; INT64_MAX if the rate is 0 or it lasts beyond
 * TIME_US_MAX. */
int64_t money_lasts_us(int64_t usd_micros, int64_t usd_micros_per_hour);

int64_t money_add(int64_t a, int64_t b); /* saturates */

#endif
