/* Nodes: from the order to the provider's word that it is gone.
 *
 * States     ORDERED → BOOTING (up, agent not joined) → READY → DRAINING (workers hand over) →
 *            RELEASING (the provider is asked until it says ABSENT or GONE) → ended. An ended node
 *            keeps its slot until it is needed, oldest first, so that late answers are understood.
 * Keys       incarnation << 40 | counter, made here, never used again.
 * Invariants no slot with billing = 1 is ever forgotten; an adopted node (known to the provider,
 *            not to us) exists only to be released.
 */
#ifndef SHOAL_CORE_NODE_H
#define SHOAL_CORE_NODE_H

#include "core/state.h"

struct numbers { /* of a decision */
    int64_t a, b, c;
};

uint32_t node_order(pool *p, uint32_t offer, uint32_t job);
void node_adopt(pool *p, uint64_t node_key, struct pool_output *out);
void node_revive(pool *p, uint32_t slot, struct pool_output *out); /* ended, yet it runs */
void node_up(pool *p, uint32_t slot, int64_t up_since_us, struct pool_output *out);
void node_join(pool *p, uint32_t slot, struct pool_output *out);
void node_drain(pool *p, uint32_t slot, uint32_t reason, int64_t deadline_us,
                struct numbers numbers, struct pool_output *out);
void node_release(pool *p, uint32_t slot, uint32_t reason, int64_t a, struct pool_output *out);
/* It is lost to us; whether it still runs, the provider has to say. */
void node_lose(pool *p, uint32_t slot, uint32_t reason, int64_t a, struct pool_output *out);
void node_end(pool *p, uint32_t slot, int64_t billed_usd_micros, struct pool_output *out);
bool node_is_outbid(const pool *p, uint32_t slot); /* its price is above its bid */
void node_price_moved(pool *p, uint32_t offer, bool rose);
void node_list_idle(pool *p, uint32_t slot); /* after its state or free devices changed */
int64_t node_due_us(const pool *p, uint32_t slot);
void node_retime(pool *p, uint32_t slot);
void node_run(pool *p, uint32_t slot, struct pool_output *out);

#endif
