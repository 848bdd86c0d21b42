/* The offers of one market by price: (price per NCU-hour, offer id), the cheapest first.
 *
 * Role       An order that costs nothing while prices rain and little while one drips. The entries
 *            of a market lie together. A price that moves past a few neighbours is moved there at
 *            once; one that moves farther only marks the market as unsorted.
 * Reading    Exact either way: of a sorted market the next entry, of an unsorted one the least that
 *            is greater than the last, found by looking at all of them. Planning sorts the market
 *            it takes from, and large ones before it looks at any.
 * Memory     The caller's: PRICES_PER_OFFER entries for each offer of the pool. A market that grows
 *            out of its place moves to one of twice the size; the places left behind add up to less
 *            than the last one, so the sum of all is below PRICES_PER_OFFER times the offers.
 * Not stored Follows from the offers: a snapshot rebuilds it, no digest sees it.
 */
#ifndef SHOAL_CORE_PRICES_H
#define SHOAL_CORE_PRICES_H

#include "core/state.h"

enum {
    PRICES_ROOM_MIN = 4,   /* of a market with one offer */
    PRICES_PER_OFFER = 4,  /* see Memory */
    PRICES_SCAN_MAX = 128, /* an unsorted market of up to 2 KiB is read faster than sorted */
    PRICES_STEPS_MAX = 16, /* neighbours a price moves past before the market counts as unsorted */
};

void prices_add(pool *p, struct market *market, uint32_t offer);
void prices_move(pool *p, struct market *market, uint32_t offer); /* its price has changed */
void prices_sort(pool *p, struct market *market);
void prices_sort_large(pool *p); /* all that are longer than PRICES_SCAN_MAX */

/* Of these kinds of capacity, a bit each; SLOT_NONE: none. */
uint32_t prices_first(const pool *p, const struct market *market, uint32_t kinds);
uint32_t prices_next(const pool *p, const struct market *market, uint32_t offer, uint32_t kinds);

#endif
