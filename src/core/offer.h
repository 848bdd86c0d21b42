/* Offers, markets and regions: what can be had where, cheapest first.
 *
 * Role       Keeps each market (one model in one region) in the order of price per NCU-hour, counts
 *            what is left of a stock between two tellings, leaves refusing offers alone for a
 *            while, and marks regions whose supply got better so that the waiting are woken once.
 * Stock      stock_count is how many more nodes could be had when the provider last told; orders
 *            since, and orders it had not answered then, are taken off.
 */
#ifndef SHOAL_CORE_OFFER_H
#define SHOAL_CORE_OFFER_H

#include "core/state.h"

void offer_change(pool *p, const struct pool_event *event, struct pool_output *out);
/* OFFERS_PRICED: an on-demand offer's own price is also what its node costs on demand; that of others
 * stays as it was told. */
void offer_prices_told(pool *p, const struct pool_event *event);
uint32_t offer_stock(const pool *p, const struct offer *o);         /* that can be bought now */
bool offer_is_above(const struct offer *o, uint32_t threshold_ppm); /* spot above the threshold */
bool offer_is_above_bid(const struct offer *o, int64_t bid_usd_micros); /* per device-hour */
/* Spot became dearer than nodes of it were asked for at: until clearly below, no such bid is made. */
void offer_outbid(struct offer *o, int64_t node_bid_usd_micros);
struct meter offer_meter(const struct offer *o, int64_t now_us);
int64_t offer_due_us(const struct offer *o);
void offer_retime(pool *p, uint32_t slot);
void offer_reprice(pool *p, uint32_t slot); /* after its price, its model or its risk changed */
void offer_run(pool *p, uint32_t slot, struct pool_output *out); /* its timer */
/* An order is answered: the node is up. */
void offer_answered(pool *p, uint32_t node);
/* A node of it ended: unless the stock was told since it was ordered, there is one more again. */
void offer_give_back(pool *p, uint32_t slot);
void offer_refuse(pool *p, uint32_t slot, int64_t until_us);
/* A quota is the provider's word about all it sells in the region, not about one offer. */
void offer_refuse_quota(pool *p, uint32_t slot, int64_t until_us);
/* It costs this, whatever is quoted, until something else is quoted (bill.h). */
void offer_distrust(pool *p, uint32_t slot, int64_t billed_usd_micros_per_hour);
void offer_improve(pool *p, uint32_t slot); /* new supply: wakes who waits for such devices */
void region_improve(pool *p, uint32_t region_index, uint64_t models);
void offer_list_idle(pool *p, uint32_t slot); /* after its idle nodes changed */
void offer_reprice_all(pool *p);              /* after a model changed */

#endif
