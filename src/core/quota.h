/* Accounts: who may use how much, and who has used how much.
 *
 * Tree       The whole pool (slot 0) → tenants → projects → teams → users. An account is made by its
 *            definition or by the first job that names it; when ACCOUNTS_MAX are in use, jobs count
 *            for the deepest account above that exists.
 * Unit       NCU, in milli: devices × ncu of their model × the weight of the model in quotas. There
 *            are QUOTA_KINDS kinds of devices (0: accelerators, 1: whatever was put there, say CPUs),
 *            each with a quota of its own: to lack one is no lack of the other.
 * Quota      Of an account: its own, or the sum of its children's if that is more. An account without
 *            any in its whole line is limited by nothing.
 * Lending    What an account does not use, others under the same parent may, up to its lend limit;
 *            what lies above that limit is kept for it.
 * Borrowing  An account may use more than its quota while there is something to borrow, up to its
 *            borrow limit. Accounts without quota in a tree that has some live from borrowing alone.
 *            The sum under the pool is never above the sum of the quotas.
 *            available(a) = max(0, kept(a) - used(a)) + min(available(parent), what it may borrow):
 *            the algebra of hierarchical cohorts; quota_test.c holds it against the definition.
 * Share      (held now + average held, halved every half-life) / weight, in milli-NCU: who has least
 *            goes first. The average makes up for yesterday, what is held keeps one round fair.
 * Money      Dollars of a day and a month: the price of a lease for the run time its job declares (an
 *            hour if it declares none) is set aside in all its accounts when it is made, so no two
 *            can spend the same dollar. What is left, divided by the run time, is the most a job may
 *            cost per hour: so a cheaper kind of capacity is taken where a dearer one does not fit.
 *            A job that runs on beyond what it declared spends what others left, and is stopped when
 *            that is gone: at most ENTRY_US_MAX and one drain late.
 * Limits     Jobs alive, workers, dollars per hour (at the prices of purchase), submissions a minute:
 *            refused at the door or waited for, with the number, and when it will work again.
 * Errors     None: a definition out of order (no parent yet) makes the parent.
 */
#ifndef SHOAL_CORE_QUOTA_H
#define SHOAL_CORE_QUOTA_H

#include "core/state.h"

#define ACCOUNT_POOL 0

/* What is left for one more of an account; INT64_MAX and UINT32_MAX: no limit. */
struct allowance {
    int64_t ncu_milli[QUOTA_KINDS];
    int64_t usd_micros_per_hour;
    uint32_t workers;
};

/* What accounts would use less if some leases were over; beyond FREED_MAX accounts it is not counted. */
enum { FREED_MAX = 128 };
struct quota_freed {
    uint32_t kind, count, accounts[FREED_MAX];
    int64_t milli[FREED_MAX];
};

void quota_init(pool *p);
void quota_define(pool *p, const struct pool_event *event, struct pool_output *out);
void quota_define_model(pool *p, const struct pool_event *event);
/* The account of a submission, made if need be. */
uint32_t quota_account(pool *p, const struct pool_event *submitted, struct pool_output *out);
uint32_t quota_find_or_make(pool *p, const uint32_t names[ACCOUNT_LEVELS], struct pool_output *out);
/* The deepest account on the way to these names that exists. */
uint32_t quota_find(const pool *p, const uint32_t names[ACCOUNT_LEVELS]);
uint32_t quota_find_of(const pool *p, const struct pool_event *submitted);

/* REASON_NONE, or why the door is closed, with its numbers; no state changes. */
uint32_t quota_door(const pool *p, uint32_t account, int64_t numbers[3]);
void quota_pace(pool *p, uint32_t account);  /* a submission was taken in */
void quota_enter(pool *p, uint32_t account); /* its job was admitted */
void quota_leave(pool *p, uint32_t account); /* it ended */

void quota_take(pool *p, uint32_t lease); /* it holds devices from now on */
void quota_give(pool *p, uint32_t lease); /* it does not any more */

/* `job` may be one that is not placed yet. */
struct allowance quota_allowance(const pool *p, uint32_t job);
/* Of a job that is only asked about; run_us 0: not declared. */
struct allowance quota_allowance_of(const pool *p, uint32_t account, int64_t run_us);
/* A lease has cost `usd_micros` more: out of what was set aside for it first. */
void quota_spend(pool *p, uint32_t lease, int64_t usd_micros);
/* It has used up what was set aside, and its account's dollars of the day or month are gone. */
bool quota_is_spent(const pool *p, uint32_t job);
void quota_tick(pool *p); /* time has passed */
void quota_retime(pool *p);
void quota_run(pool *p); /* its timer: a new day */
/* Milli-NCU that one device of a model counts in quotas. */
int64_t quota_ncu_milli(const pool *p, uint32_t model);
int64_t quota_available(const pool *p, uint32_t account, uint32_t kind); /* INT64_MAX: no limit */
/* And once these leases are over. */
void quota_free(const pool *p, struct quota_freed *freed, uint32_t lease);
int64_t quota_available_then(const pool *p, const struct quota_freed *freed, uint32_t account);
/* Above what is its own: quota or, without one, nothing. */
int64_t quota_borrowed(const pool *p, uint32_t account, uint32_t kind);
/* What a job is reckoned to run yet, what a price comes to in that time (rounded up, saturates far above
 * any limit), and the most per hour that `left` lasts (INT64_MAX: no limit). */
int64_t quota_run_left_us(const pool *p, uint32_t job);
/* Dollars of a day and month that its accounts have left; and what a job costs beside its devices. */
int64_t quota_period_left(const pool *p, uint32_t account);
void quota_spend_beside(pool *p, uint32_t job, int64_t usd_micros);
int64_t quota_price_of_run(int64_t usd_micros_per_hour, int64_t run_us);
int64_t quota_rate_within(int64_t left, int64_t run_us);
int64_t quota_share(const pool *p, uint32_t account);                   /* at now; see Share */
int64_t quota_share_at(const pool *p, uint32_t account, int64_t at_us); /* if nothing changes */

/* For preemption, of a kind, if the claimant gets `needed_milli` (both are jobs). Compared are the two accounts
 * below the line they have in common: of one line, nobody takes quota from the other.
 * rank       0: it gets nothing back, it would itself go above its quota, or an account of the victim's on
 *            the way there borrows nothing. Else borrowed NCU over weight: the highest goes first.
 * protected  The victim's account is within its quota, and the claimant's would borrow. */
int64_t quota_victim_rank(const pool *p, uint32_t claimant, uint32_t victim, uint32_t kind,
                          int64_t needed_milli);
bool quota_is_protected(const pool *p, uint32_t claimant, uint32_t victim, uint32_t kind,
                        int64_t needed_milli);
/* What an account may hold more of its own: the most of its line, within the borrow limits below that;
 * INT64_MAX where nobody has quota. */
int64_t quota_own_left(const pool *p, uint32_t account, uint32_t kind);
/* Borrowed quota was asked back: until it is there, and its owner has had his turn, nobody borrows. */
void quota_reclaimed(pool *p);
/* The most it could ever have, were nothing held by anybody; INT64_MAX where nobody has quota. */
int64_t quota_ceiling(const pool *p, uint32_t account, uint32_t kind);
bool quota_may_reclaim(const pool *p,
                       uint32_t account);             /* it holds less than its own, others more */
bool quota_is_owner(const pool *p, uint32_t account); /* it, or one above it, has quota */
bool quota_is_defined(const pool *p);                 /* somebody has any */
void quota_rebuild(pool *p); /* what follows from the rest, after a snapshot was read */
/* Kinds (bits) of which the account lacks quota for `ncu_milli` more. */
uint32_t quota_lacks(const pool *p, uint32_t account, const int64_t ncu_milli[QUOTA_KINDS]);

#endif
