/* The parts of allot_price() that allot_window.c builds on; see allot.h. */
#ifndef SHOAL_CORE_ALLOT_PRICE_H
#define SHOAL_CORE_ALLOT_PRICE_H

#include "core/allot.h"

bool allot_in_bounds(const struct allot *problem);
/* Sets the value of every choice that can never be taken, or never with gain, to 0; the calls below
 * want this done. Jobs share no choices. */
void allot_strike_useless(const struct allot *problem, struct allot_choice *choices);
/* Value less price, in 1/ALLOT_PRICE_ONE. */
int64_t allot_net(const struct allot_choice *choice, const uint64_t *prices);
/* Prices, repair and fill; the problem is within bounds, useless choices are struck. */
void allot_by_price(const struct allot *problem, uint64_t *prices, uint32_t *ret_choice,
                    struct allot_answer *ret_answer);

#endif
