/* What a job would cost before anything is bought: the options of `shoal plan`, and admission's yes
 * or no.
 *
 * Role       Pure, const: uses the same offers and the same buying rule as plan_buy.c, on a copy of
 *            the numbers.
 * Rates      As the pool knows them of the work; those that are declared until it does.
 * Options    One per (region, strategy): cheapest mix of all kinds, spot only, guaranteed only
 *            (owned, reserved, on-demand), the best single model. Sorted best first; options[0] is
 *            what the planner would do.
 */
#ifndef SHOAL_CORE_QUOTE_H
#define SHOAL_CORE_QUOTE_H

#include "core/pool.h"

enum { QUOTE_OPTIONS_MAX = 32, QUOTE_LINES_MAX = 16 };

enum quote_strategy {
    QUOTE_CHEAPEST_MIX = 1,
    QUOTE_SPOT_ONLY,
    QUOTE_GUARANTEED_ONLY,
    QUOTE_SINGLE_MODEL,
    QUOTE_STRATEGY_END
};

struct quote_line {
    uint64_t offer_id;
    uint32_t node_count, device_count;
    int64_t usd_micros_per_hour; /* of all these nodes */
};

struct quote_option {
    uint32_t strategy, region, device_count, line_count;
    uint64_t ncu_milli;
    int64_t usd_micros_per_hour;
    uint32_t reason,
        reserved;    /* why it is not possible (enum decision_reason); REASON_FITS if it is */
    int64_t a, b, c; /* the reason's numbers */
    /* To bring its data there; and what its work costs with that, per NCU-hour (data.h). */
    int64_t egress_usd_micros, staging_us, unit_cost;
    struct quote_line lines[QUOTE_LINES_MAX];
};

struct quote {
    uint32_t option_count,
        verdict; /* verdict: reason of admission, REASON_FITS = would be admitted */
    int64_t a, b, c;
    struct quote_option options[QUOTE_OPTIONS_MAX];
};

/* A request: a JOB_SUBMITTED event (seq, now and terms_id are not looked at), its terms (NULL = none)
 * rate_count RATE_TOLD and link_count LINKS_TOLD events, as they would come before it. */
struct quote_ask {
    const struct pool_event *submitted;
    const struct job_terms *terms;
    const struct pool_event *rates;
    const struct pool_event *links; /* LINKS_TOLD, likewise */
    uint32_t rate_count, link_count;
};

void pool_quote(const pool *p, const struct quote_ask *ask, struct quote *ret_quote);

#endif
