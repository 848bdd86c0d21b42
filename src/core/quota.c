#include "core/quota.h"
#include "core/ask.h"
#include "core/assert.h"
#include "core/gate.h"
#include "core/money.h"
#include "core/part.h"
#include "core/quota_algebra.h"
#include "core/share.h"

/* ---- what an account has left ---- */

/* Above its quota, where one beside it has some to lend. */
static bool is_borrower(const pool *p, uint32_t account, uint32_t kind)
{
    const struct account *a = &p->accounts[account];
    return account != ACCOUNT_POOL && p->accounts[a->parent].owners_below[kind] &&
           a->held_milli[kind] > a->total_milli[kind];
}

/* From the first who borrows on, owners have something to get back. */
static void note_borrower(pool *p, bool before, bool after)
{
    if (!before && after && p->quota_borrowers++ == 0) ask_stir_owners(p);
    if (before && !after) p->quota_borrowers--;
}

void quota_rebuild(pool *p)
{
    p->quota_borrowers = 0;
    for (uint32_t i = 0; i < p->accounts_end; i++)
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) p->accounts[i].owners_below[kind] = 0;
    for (uint32_t i = ACCOUNT_POOL + 1; i < p->accounts_end; i++)
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            if (p->accounts[i].total_milli[kind] > 0)
                p->accounts[p->accounts[i].parent].owners_below[kind] = 1;
    for (uint32_t i = 0; i < p->accounts_end; i++)
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            p->quota_borrowers += is_borrower(p, i, kind);
}

/* Where it is counted what of an account is freed; NULL: there is no more room. */
static int64_t *freed_at(struct quota_freed *freed, uint32_t account)
{
    uint32_t i = 0;
    while (i < freed->count && freed->accounts[i] != account) i++;
    if (i == FREED_MAX) return NULL;
    if (i == freed->count) {
        freed->accounts[freed->count++] = account;
        freed->milli[i] = 0;
    }
    return &freed->milli[i];
}

static int64_t used_then(const pool *p, const struct quota_freed *freed, uint32_t account,
                         uint32_t kind)
{
    int64_t used_milli = p->accounts[account].used_milli[kind];
    for (uint32_t i = 0; freed != NULL && i < freed->count; i++)
        if (freed->accounts[i] == account) used_milli -= freed->milli[i];
    return used_milli;
}

/* As add_used() would take it off. */
void quota_free(const pool *p, struct quota_freed *freed, uint32_t lease)
{
    const struct lease *l = &p->leases[lease];
    int64_t ncu_milli = l->quota_ncu_milli;
    if (!l->quota_counted || l->quota_kind != freed->kind) return;
    for (uint32_t at = p->jobs[l->job].account; at != SLOT_NONE && ncu_milli > 0;
         at = p->accounts[at].parent) {
        const struct account *a = &p->accounts[at];
        int64_t *less = freed_at(freed, at), used = used_then(p, freed, at, freed->kind);
        if (less == NULL) return;
        *less += ncu_milli;
        ncu_milli = drawn_of(a, freed->kind, used) - drawn_of(a, freed->kind, used - ncu_milli);
    }
}

int64_t quota_within_line(const pool *p, const struct quota_freed *freed, uint32_t account,
                          uint32_t kind, int64_t at_top_milli)
{
    uint32_t path[ACCOUNT_LEVELS + 1], depth = 0;
    int64_t available = at_top_milli;
    for (uint32_t at = account; at != ACCOUNT_POOL; at = p->accounts[at].parent) path[depth++] = at;
    while (depth-- > 0) {
        const struct account *a = &p->accounts[path[depth]];
        int64_t used = used_then(p, freed, path[depth], kind);
        int64_t lent = a->pool_milli[kind] - kept(a, kind) - drawn_of(a, kind, used);
        if (a->borrow_milli[kind] >= 0) available = least(available, lent + a->borrow_milli[kind]);
        available += positive(kept(a, kind) - used);
    }
    return positive(available);
}

static int64_t available_then(const pool *p, const struct quota_freed *freed, uint32_t account,
                              uint32_t kind)
{
    const struct account *top = &p->accounts[ACCOUNT_POOL];
    if (!top->has_quota[kind]) return INT64_MAX;
    return quota_within_line(p, freed, account, kind,
                             top->pool_milli[kind] - used_then(p, freed, ACCOUNT_POOL, kind));
}

int64_t quota_available(const pool *p, uint32_t account, uint32_t kind)
{
    return available_then(p, NULL, account, kind);
}

int64_t quota_available_then(const pool *p, const struct quota_freed *freed, uint32_t account)
{
    return available_then(p, freed, account, freed->kind);
}

int64_t quota_borrowed(const pool *p, uint32_t account, uint32_t kind)
{
    const struct account *a = &p->accounts[account];
    return positive(a->held_milli[kind] - a->total_milli[kind]);
}

int64_t quota_ncu_milli(const pool *p, uint32_t model)
{
    return (int64_t)p->models[model].ncu_milli * p->quota_weight_milli[model] / 1000;
}

/* `ncu_milli` more (or less) of jobs of the account itself. */
static void add_used(pool *p, uint32_t account, uint32_t kind, int64_t ncu_milli)
{
    p->accounts[account].own_milli[kind] += ncu_milli;
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        struct account *a = &p->accounts[at];
        int64_t before = drawn(a, kind);
        a->used_milli[kind] += ncu_milli;
        ncu_milli = drawn(a, kind) - before;
    }
}

bool quota_is_defined(const pool *p)
{
    bool has = false;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        has = has || p->accounts[ACCOUNT_POOL].has_quota[kind];
    return has && p->accounts_defined;
}

int64_t quota_ceiling(const pool *p, uint32_t account, uint32_t kind)
{
    uint32_t path[ACCOUNT_LEVELS + 1], depth = 0;
    const struct account *top = &p->accounts[ACCOUNT_POOL];
    if (!top->has_quota[kind]) return INT64_MAX;
    for (uint32_t at = account; at != ACCOUNT_POOL; at = p->accounts[at].parent) path[depth++] = at;
    int64_t most = top->pool_milli[kind];
    while (depth-- > 0) {
        const struct account *a = &p->accounts[path[depth]];
        int64_t lent = a->pool_milli[kind] - kept(a, kind);
        if (a->borrow_milli[kind] >= 0) most = least(most, lent + a->borrow_milli[kind]);
        most += kept(a, kind);
    }
    return most;
}

bool quota_is_owner(const pool *p, uint32_t account)
{
    for (uint32_t at = account; at != ACCOUNT_POOL; at = p->accounts[at].parent)
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            if (p->accounts[at].total_milli[kind] > 0) return true;
    return false;
}

/* ---- what jobs do ---- */

static int64_t held(const struct account *a)
{
    int64_t sum = 0;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) sum += a->held_milli[kind];
    return sum;
}

static int64_t average_at(const struct account *a, int64_t at_us)
{
    return share_average(a->average, held(a), at_us - a->average_us, SHARE_HALF_LIFE_US);
}

int64_t quota_share_at(const pool *p, uint32_t account, int64_t at_us)
{
    const struct account *a = &p->accounts[account];
    return (held(a) + average_at(a, at_us) / SHARE_FRACTION) * 1000 / a->weight_milli;
}

int64_t quota_share(const pool *p, uint32_t account)
{
    return quota_share_at(p, account, p->now_us);
}

static void add_held(pool *p, uint32_t account, const struct lease *l, int64_t sign)
{
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        struct account *a = &p->accounts[at];
        if (p->accounts_defined && a->average_us != p->now_us) {
            a->average = average_at(a, p->now_us);
            a->average_us = p->now_us;
        }
        bool before = is_borrower(p, at, l->quota_kind);
        a->held_milli[l->quota_kind] += sign * l->quota_ncu_milli;
        note_borrower(p, before, is_borrower(p, at, l->quota_kind));
        a->usd_micros_per_hour += sign * l->quota_usd_micros_per_hour;
        a->workers += (uint32_t)sign;
        ask_share_moved(p, at);
    }
    add_used(p, account, l->quota_kind, sign * l->quota_ncu_milli);
}

void quota_take(pool *p, uint32_t lease)
{
    struct lease *l = &p->leases[lease];
    const struct offer *o = &p->offers[p->nodes[l->node].offer];
    ASSERT(!l->quota_counted);
    l->quota_counted = 1;
    l->quota_kind = p->quota_kind[o->model];
    l->quota_ncu_milli = quota_ncu_milli(p, o->model) * part_of_lease(l) / 1000;
    l->quota_usd_micros_per_hour = money_share_ceil(o->usd_micros_per_hour, l->paid_milli,
                                                    p->nodes[l->node].device_count * 1000);
    add_held(p, p->jobs[l->job].account, l, 1);
    gate_take(p, lease);
    quota_reserve(p, lease,
                  quota_price_of_run(l->quota_usd_micros_per_hour, quota_run_left_us(p, l->job)));
}

void quota_give(pool *p, uint32_t lease)
{
    struct lease *l = &p->leases[lease];
    if (!l->quota_counted) return;
    add_held(p, p->jobs[l->job].account, l, -1);
    quota_reserve(p, lease, -l->reserved_usd_micros);
    gate_give(p, lease);
    l->quota_counted = 0;
    p->quota_freed = 1;
}

struct allowance quota_allowance(const pool *p, uint32_t job)
{
    return quota_allowance_of(p, p->jobs[job].account, quota_run_left_us(p, job));
}

struct allowance quota_allowance_of(const pool *p, uint32_t account, int64_t run_us)
{
    if (run_us <= 0) run_us = RUN_US_UNKNOWN;
    struct allowance left = {.usd_micros_per_hour = INT64_MAX, .workers = UINT32_MAX};
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        left.ncu_milli[kind] = quota_available(p, account, kind);
        if (p->now_us < p->reclaim_until_us)
            left.ncu_milli[kind] = least(left.ncu_milli[kind], quota_own_left(p, account, kind));
    }
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        const struct account *a = &p->accounts[at];
        if (a->usd_micros_per_hour_max > 0)
            left.usd_micros_per_hour =
                least(left.usd_micros_per_hour,
                      positive(a->usd_micros_per_hour_max - a->usd_micros_per_hour));
        left.usd_micros_per_hour =
            least(left.usd_micros_per_hour, quota_rate_within(quota_account_left(p, a), run_us));
        if (a->workers_max == 0) continue;
        uint32_t workers = a->workers < a->workers_max ? a->workers_max - a->workers : 0;
        if (workers < left.workers) left.workers = workers;
    }
    return left;
}

uint32_t quota_lacks(const pool *p, uint32_t account, const int64_t ncu_milli[QUOTA_KINDS])
{
    uint32_t lacks = 0;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (ncu_milli[kind] > quota_available(p, account, kind)) lacks |= UINT32_C(1) << kind;
    return lacks;
}
