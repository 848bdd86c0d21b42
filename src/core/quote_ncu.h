/* What a number of NCU costs now: the cheapest mix of whole nodes of one region (ncu_mix.h).
 *
 * Role       Pure, const: the offers of the market with their stock, prices and NCU of their models
 *            as measured or from the catalog. For `shoal plan --ncu`.
 * Limits     Of more than NCU_TYPES_MAX offers of a region the cheapest per NCU are looked at.
 */
#ifndef SHOAL_CORE_QUOTE_NCU_H
#define SHOAL_CORE_QUOTE_NCU_H

#include "core/pool.h"

enum { NCU_QUOTE_LINES_MAX = 16 };

struct ncu_need {
    uint64_t capability_mask, ncu_milli;
    uint32_t vram_min_mib, region;      /* region 0 = the cheapest one */
    int64_t budget_usd_micros_per_hour; /* 0 = none */
};

struct ncu_line {
    uint64_t offer_id;
    uint32_t node_count, device_count; /* device_count of all these nodes */
    uint64_t ncu_milli;
    int64_t usd_micros_per_hour; /* of all these nodes */
};

struct ncu_quote {
    uint32_t verdict; /* REASON_FITS, NO_OFFER, NCU_TOO_MANY, NCU_BUDGET; numbers below */
    uint32_t region, line_count, is_proven;
    int64_t a, b, c;
    uint64_t ncu_milli;
    int64_t usd_micros_per_hour; /* also of a mix above the budget: the cheapest there is */
    int64_t bound_usd_micros_per_hour;
    int64_t single_usd_micros_per_hour; /* with one offer alone; 0 = none does it */
    uint64_t single_offer_id;
    struct ncu_line lines[NCU_QUOTE_LINES_MAX];
};

void pool_quote_ncu(const pool *p, const struct ncu_need *need, struct ncu_quote *ret_quote);

#endif
