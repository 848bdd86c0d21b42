/* The cheapest mix of device types that reaches a number of NCU: exact, within stock.
 *
 * Role       Pure function over a list of types, each so many NCU for so much an hour, any whole
 *            number of each up to its stock. A type may be a device or a whole node of them.
 * Method     Branch and bound over the types in the order of their price per NCU: the first branch
 *            is the greedy one, a branch is cut when what it has spent, plus the rest at the best
 *            fractional prices that are left, rounded up to a multiple of what all prices are
 *            multiples of, does not beat the best whole mix known. States met before at no higher
 *            cost are not entered again. Of mixes met at the same price the one of the
 *            fewest pieces is taken, each counting 1 + its extra_weight. So many of a type as make a whole number of a better one without
 *            a limit of stock are never tried.
 * Bounds     NCU_TYPES_MAX types, NCU_WANTED_MAX milli; a search that takes more than NCU_VISITS_MAX
 *            steps stops with the best it has and says so (`is_proven`), with the bound below which
 *            nothing can lie. The tests compare with an exhaustive table.
 */
#ifndef SHOAL_CORE_NCU_MIX_H
#define SHOAL_CORE_NCU_MIX_H

#include <stdbool.h>
#include <stdint.h>

enum { NCU_TYPES_MAX = 64, NCU_VISITS_MAX = 60000 };
#define NCU_WANTED_MAX UINT64_C(100000000) /* 100,000 NCU */

struct ncu_type {
    uint32_t ncu_milli; /* above 0 */
    uint32_t stock;     /* how many can be had; UINT32_MAX = any number */
    int64_t usd_micros_per_hour;
    uint32_t extra_weight, reserved; /* above 0: at the same price others are taken rather */
};

struct ncu_mix {
    uint32_t counts[NCU_TYPES_MAX]; /* as the types were given */
    uint64_t ncu_milli;             /* of the mix; without a mix: of all that can be had */
    int64_t usd_micros_per_hour;
    int64_t bound_usd_micros_per_hour; /* no mix is cheaper; equal to the price when proven */
    uint32_t visits;
    bool is_proven;
};

/* false: even all the stock does not reach it; wanted_milli 0 is the empty mix. */
bool ncu_mix_cheapest(const struct ncu_type *types, uint32_t type_count, uint64_t wanted_milli,
                      struct ncu_mix *ret_mix);
/* The cheapest way with a single type, for comparison; false: none reaches it alone. */
bool ncu_mix_single(const struct ncu_type *types, uint32_t type_count, uint64_t wanted_milli,
                    struct ncu_mix *ret_mix);

#endif
