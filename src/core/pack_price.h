/* The type price: what a worker pays for room on a model that others, who can go nowhere else, will need.
 *
 * Idea       Hall's condition: work confined to a set M of models fits only while the free devices of M
 *            cover what is still to come for M. The nearer a set is to that edge, the dearer its models
 *            are for everyone who may also go elsewhere; who is confined to M never pays for M.
 * Sets       What confines a worker is not only what it allows: the models with a node that could hold it
 *            when empty. Eight devices with 120 cores need the few nodes with 128.
 * Forecast   For each set q of allowed models: present_q = devices (milli) of workers that arrived and
 *            did not leave, lived_q = those that left lately, by the part of the window they lived.
 *            The pool is planned for being full: with shares s_q = (present_q + lived_q) / sum,
 *                future_q = max(0, s_q * capacity - present_q).
 *            While nothing leaves, this is demand in proportion to the demand so far until all devices
 *            are asked for; it vanishes as that point comes near.
 * Price      claim(M) = sum of future_q over q within M; slack(M) = free(M) - claim(M);
 *            z = slack(M) / (0.3 * capacity(M)); p(M) = 20 if z <= 0, 20 * (1 - z) if z < 1, else 0.
 *            price[q][model] = max of p(M) over proper sets M that hold the model and not all of q.
 *            In units of PACK_QUANTUM_MILLI (pack.h), so at most 1.2 devices.
 * Bounds     Sets M are unions of the sets that occur, at most PACK_UNIONS_MAX of them, small sets of
 *            early comers first; PACK_SETS_MAX different sets q, later ones neither claim nor pay.
 */
#ifndef SHOAL_CORE_PACK_PRICE_H
#define SHOAL_CORE_PACK_PRICE_H

#include "core/pack_form.h"

enum {
    PACK_SETS_MAX = 64,
    PACK_UNIONS_MAX = 1024,
    PACK_PRICE_MAX = 20,
    PACK_RAMP_PERCENT = 30,
};

struct pack_price {
    uint64_t sets[PACK_SETS_MAX]; /* allowed models that are in the pool */
    uint64_t present_milli[PACK_SETS_MAX], lived_milli[PACK_SETS_MAX];
    uint64_t free_milli[PACK_MODELS_MAX], capacity_milli[PACK_MODELS_MAX];
    uint64_t unions[PACK_UNIONS_MAX];
    uint64_t unions_pool; /* the models and the number of sets that the unions were made from */
    uint32_t set_count, union_count, unions_of;
    uint32_t none; /* no model has a price for anybody; follows from them */
    uint8_t price[PACK_SETS_MAX][PACK_MODELS_MAX];
};

void pack_price_init(struct pack_price *price);
uint32_t pack_price_set(struct pack_price *price, uint64_t models); /* SLOT_NONE: no room */
/* The future demand of each set, in milli. */
void pack_price_forecast(const struct pack_price *price, uint64_t ret_future[PACK_SETS_MAX]);
void pack_price_refresh(struct pack_price *price);

#endif
