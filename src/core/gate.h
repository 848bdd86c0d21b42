/* Cost gates: how much of what is bought (spot and on-demand capacity) a class, a pool of devices or an
 * account may use. What is owned or reserved passes every gate.
 *
 * Limits     Dollars per hour, at the prices of purchase; dollars of a month (UTC); dollars of one job
 *            over its life. GATE_NONE: no limit; 0: nothing is bought at all.
 * Gates      Of a lease: its class's, its pool's (the first of the job's pools that allows the model),
 *            its account's and those of all accounts above.
 * Reserved   What a lease costs for the declared run time of its job (an hour if none is declared) is set
 *            aside in all its gates when it is made: concurrent submissions cannot spend it twice.
 *            Divided by the run time, what is left is the most a job may add per hour.
 * Above      A job that only a gate keeps from starting waits, or is refused if the gate that binds says
 *            so, or its own terms do (terms.gate), with the figures. A job that runs on beyond what was
 *            set aside lives on what is left and is stopped when that is gone: at most ENTRY_US_MAX and
 *            one drain late.
 * Errors     None: a pool or class that does not exist is refused by pool_event_check() or passed over.
 */
#ifndef SHOAL_CORE_GATE_H
#define SHOAL_CORE_GATE_H

#include "core/state.h"

/* Beside the levels of accounts (^c of a reason). ORDER: level_name() in codec/names.c */
enum { GATE_LEVEL_CLASS = ACCOUNT_LEVELS + 1, GATE_LEVEL_POOL };

/* What binds, for a reason: `left` and `needed` in the unit of the reason. */
struct gate_bound {
    uint32_t reason, scope; /* REASON_GATE_*; level of the account, or GATE_LEVEL_* */
    int64_t needed, left;
    bool refuses;
};

void gate_init(pool *p);
void gate_define(pool *p, const struct pool_event *event, struct pool_output *out);
void gate_forget(struct gate *gate); /* its limits; what was spent stays */

bool gate_is_bought(const struct offer *o); /* gates are about its kind of capacity */
/* SLOT_NONE: a device of the model is of none of these pools, or none was asked for. */
uint32_t gate_pool_of(const pool *p, uint64_t pool_mask, uint32_t model);

/* The most it may add per hour within the gates of its class and accounts, and within a pool's. */
int64_t gate_left(const pool *p, uint32_t job);
int64_t gate_pool_left(const pool *p, uint32_t job, uint32_t pool);
/* The tightest of all its gates for a device of `model` at this price. */
struct gate_bound gate_binds(const pool *p, uint32_t job, uint32_t model,
                             int64_t usd_micros_per_hour);

/* Called by quota.c, which keeps the amounts. */
void gate_take(pool *p, uint32_t lease);
void gate_give(pool *p, uint32_t lease);
void gate_reserve(pool *p, uint32_t lease, int64_t usd_micros); /* more, or less */
void gate_spend(pool *p, uint32_t lease, int64_t usd_micros);
/* It holds what was bought, has used up what was set aside for it, and a gate of it has no more. */
bool gate_is_spent(const pool *p, uint32_t job);
int64_t gate_spent_usd_micros(const pool *p, const struct gate *gate); /* this month */

#endif
