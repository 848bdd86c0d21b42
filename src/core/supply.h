/* The parts of the supply iterator (plan_buy.h); used by plan_buy.c, its supply_*.c and preempt_*.c.
 *
 * Files      plan_buy.c    what is taken next
 *            supply_fit.c  what the demand may take of an offer, and what keeps it out
 *            supply_mix.c  all of it added up; the best way to a minimum
 *            supply_ncu.c  the cheapest way to a number of NCU (supply_ncu.h)
 */
#ifndef SHOAL_CORE_SUPPLY_H
#define SHOAL_CORE_SUPPLY_H

#include "core/plan_buy.h"

static inline uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void supply_open(struct supply *s, const pool *p, const struct demand *demand,
                 uint32_t region_index, enum supply_order order); /* its heads are not set */

int64_t supply_worth(const struct supply *s, uint32_t model); /* millionths of an NCU */
uint32_t supply_offer_gives(const struct supply *s, const struct offer *o);
/* Of `gives` devices: those that a demand takes that is spread; and the place that is taken then. */
uint32_t supply_apart_gives(const struct supply *s, const struct offer *o, uint32_t gives);
static inline uint64_t supply_apart_place(const struct offer *o, uint32_t level)
{
    uint64_t place = near_place(o, level); /* of a zone, those whose rack is not known are one */
    return place == NEAR_ALONE ? ((uint64_t)o->zone + 1) << 32 : place;
}
bool supply_has_lease(const struct supply *s, const struct node *n); /* of the demand's job */
/* Nobody else is on a node that was bought for the job: it pays for all of it, as when it was. */
bool supply_comes_back(const struct supply *s, const struct node *n);
uint32_t supply_milli(const struct supply *s, const struct offer *o); /* of each device there */
uint32_t supply_stock(const struct supply *s, const struct offer *o);

/* Of the kinds and offers that the demand takes at all; too dear for its job. Victims, too, are only looked
 * for where it would take what they leave. */
bool supply_is_kind(const pool *p, const struct demand *d, const struct offer *o);
bool supply_is_above_max(const struct demand *d, const struct offer *o);
bool supply_allows(const struct supply *s, const struct offer *o);
void supply_note_hot(struct supply *s, const struct offer *o); /* not allowed for its price alone */
bool supply_keeps_out(const struct supply *s, const struct offer *o); /* kept for gangs */
int64_t supply_lower(int64_t a, int64_t b); /* of two prices, 0 = none yet */
bool supply_fits_budget(struct supply *s, int64_t usd_micros);
/* What is left of its gates for capacity of this kind; INT64_MAX: no limit. */
int64_t supply_bought_left(const struct supply *s, const struct offer *o);
void supply_note_gated(struct supply *s, const struct offer *o, int64_t usd_micros);
bool supply_fits_gates(struct supply *s, const struct offer *o, int64_t usd_micros);
void supply_pass_gates(struct supply *s, const struct offer *o, int64_t usd_micros);
/* Of `wanted` devices: those for which quota is left, fewer are said in quota_short; and of idle devices
 * and owned stock those that the share of its class lets it have. */
uint32_t supply_within_quota(struct supply *s, uint32_t model, uint32_t wanted);
uint32_t supply_within_class(struct supply *s, const struct offer *o, bool is_idle,
                             uint32_t wanted);
void supply_use_class(struct supply *s, const struct pick *pick);

#endif
