/* What the files of quotas share: the algebra of one account (see quota.h, Borrowing). */
#ifndef SHOAL_CORE_QUOTA_ALGEBRA_H
#define SHOAL_CORE_QUOTA_ALGEBRA_H

#include "core/quota.h"

#define RUN_US_UNKNOWN HOUR_US /* money is set aside for it where a job declares no run time */

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t positive(int64_t a)
{
    return a > 0 ? a : 0;
}

/* The part of its quota that it does not lend. */
static inline int64_t kept(const struct account *a, uint32_t kind)
{
    return a->lend_milli[kind] < 0 ? 0 : positive(a->pool_milli[kind] - a->lend_milli[kind]);
}

/* What it takes from its parent's: all beyond what it keeps. */
static inline int64_t drawn_of(const struct account *a, uint32_t kind, int64_t used_milli)
{
    return positive(used_milli - kept(a, kind));
}

static inline int64_t drawn(const struct account *a, uint32_t kind)
{
    return drawn_of(a, kind, a->used_milli[kind]);
}

/* Of so much above it, what the borrow limits of its line let an account have, with what that keeps; once
 * what is freed (NULL: nothing) is there. */
int64_t quota_within_line(const pool *p, const struct quota_freed *freed, uint32_t account,
                          uint32_t kind, int64_t at_top_milli);

/* Dollars set aside for a lease (or, below zero, given back), in all its accounts. */
void quota_reserve(pool *p, uint32_t lease, int64_t usd_micros);
/* What its accounts have left of the dollars of a day and a month; INT64_MAX: no limit. */
int64_t quota_account_left(const pool *p, const struct account *a);

#endif
