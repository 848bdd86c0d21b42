/* The cheapest mix of a region that reaches a number of NCU, for jobs that ask for NCU instead of devices.
 *
 * Role       The part of the supply iterator (plan_buy.h) for demands whose terms have ncu_milli: the same
 *            rules of what may be taken, but chosen together (ncu_mix.h), not one by one. A piece is
 *            an idle device of a node that is up, or a whole node that is to be bought or comes
 *            back to the job that it was bought for; at the same price idle devices go first.
 * Limits     Exact within stock, threshold, most price, and budget. Where quota, the share of its class, a
 *            cost gate or the pool's limits keep the job from the cheapest mix, a few others are tried:
 *            least is bought, only bought capacity, one kind of quota, only large nodes, new ones alone. Of more than
 *            NCU_TYPES_MAX kinds of pieces the cheapest per NCU are looked at.
 */
#ifndef SHOAL_CORE_SUPPLY_NCU_H
#define SHOAL_CORE_SUPPLY_NCU_H

#include "core/ncu_mix.h"
#include "core/supply.h"

enum ncu_piece { PIECE_IDLE_DEVICE, PIECE_IDLE_NODE, PIECE_NEW_NODE };

struct ncu_supply {
    struct supply supply; /* left: budget and devices of what was not handed out yet */
    struct ncu_type types[NCU_TYPES_MAX];
    uint32_t offers[NCU_TYPES_MAX], pieces[NCU_TYPES_MAX], count; /* pieces: enum ncu_piece */
    struct ncu_mix mix;
    uint64_t most_milli; /* NCU of all that may be taken */
    uint32_t at, node;   /* handed out next: type, idle node of it */
    uint32_t device_count;
};

/* False: no mix that it may take reaches it; what kept it is in supply.met. */
bool ncu_supply_begin(struct ncu_supply *n, const pool *p, const struct demand *demand,
                      uint32_t region_index);
/* Pieces of the mix, as picks of one node or of new nodes of one offer. */
bool ncu_supply_next(struct ncu_supply *n, struct pick *ret_pick);

/* NCU that the job holds on nodes that are coming or up. */
uint64_t ncu_held_milli(const pool *p, uint32_t job);

#endif
