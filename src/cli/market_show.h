/* The answer of /v1/market for people: a row an offer with its survival and price of late, a row a
 * model with spot against on-demand, and the last nodes that were lost.
 *
 * On a terminal columns are left out, the least telling first, until the rows fit its width. */
#ifndef SHOAL_CLI_MARKET_SHOW_H
#define SHOAL_CLI_MARKET_SHOW_H

#include "base/error.h"
#include "cli/term.h"
#include <jansson.h>

/* Of the offers of /v1/offers, which tell no survival: the rows alone. NULL: no memory. */
char *market_text(const json_t *offers, int64_t now_us, const struct term *term);

bool market_show(const json_t *answer, const struct term *term,
                 struct error *ret_error) WARN_UNUSED;

#endif
