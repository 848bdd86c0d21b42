/* The market as a table: what every zone sells now, against on-demand, and where prices went. */
#ifndef SHOAL_CLI_MARKET_H
#define SHOAL_CLI_MARKET_H

#include "cli/table.h"
#include <jansson.h>

/* Offers of /v1/offers, cheapest share of on-demand first within a zone. NULL: no memory. */
struct table *market_table(const json_t *offers);

#endif
