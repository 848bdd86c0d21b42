/* Asks: shapes that differ by the account alone. Many projects that ask for the same are looked at in
 * the order of their shares without looking at each of them.
 *
 * Rest       The oldest job of a shape was told that nothing is to be had, and nothing but supply can
 *            help it: the shape rests in its ask. Supply wakes the ask, not its shapes: the one whose
 *            turn it is is looked at, then the next, until one of them was told again that nothing is
 *            to be had; then all others would hear the same (plan_place.c) and nobody asks.
 * Owners     While anybody borrows, accounts with quota of their own do not rest: what they may reclaim
 *            is theirs alone (plan_preempt.h).
 * Order      That of plan_key(): a tree of the tenants by share, in each a tree of its shapes by the
 *            share of their account, then age. Age does not change, shares do: an account whose share
 *            moved is marked, and its places are put right before the next one is looked for. Shares
 *            also fall with time: each has a time until which its step is known to be the same.
 * Cost       Of a device that comes free: O(asks + log accounts), not O(shapes).
 * Bounds     ASKS_MAX asks, ASK_TENANTS_MAX pairs of ask and tenant; the shapes of others do not rest,
 *            each is woken by itself. What is decided is the same.
 */
#ifndef SHOAL_CORE_ASK_H
#define SHOAL_CORE_ASK_H

#include "core/state.h"

void ask_init(pool *p);
void ask_enter(pool *p, uint32_t shape); /* a new shape; equal but for the account: the same ask */
void ask_leave(pool *p, uint32_t shape); /* it is no more */

/* What plan_order.c finds equal; accounts may differ. */
bool ask_is_same(const struct shape *a, const struct shape *b);

void ask_rest(pool *p, uint32_t shape); /* it does, if it can */
void ask_stir(pool *p, uint32_t shape); /* it does not any more; nor does it wake */
void ask_share_moved(pool *p, uint32_t account);
void ask_stir_owners(pool *p); /* accounts with quota: each may reclaim by itself (quota.h) */
/* Definitions begin anew: none rests; those of asks that are awake wake. */
void ask_forget(pool *p);

void ask_wake(pool *p, const struct region *region, uint64_t models);
/* A piece of planning: the shape whose turn it is; SLOT_NONE: not now. It rests on unless it starts or
 * waits for something else. */
uint32_t ask_next(pool *p, uint32_t ask);

void ask_rebuild(pool *p); /* what follows from the rest, after a snapshot was read */
void ask_check(const pool *p);

#endif
