#include "core/quota.h"
#include "core/assert.h"
#include "core/money.h"
#include "core/part.h"
#include "core/share.h"

#define MINUTE_US INT64_C(60000000)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t positive(int64_t a)
{
    return a > 0 ? a : 0;
}

static void clear(struct account *a)
{
    *a = (struct account){.parent = SLOT_NONE, .weight_milli = 1000};
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        a->quota_milli[kind] = a->borrow_milli[kind] = a->lend_milli[kind] = -1;
}

void quota_init(pool *p)
{
    p->accounts_end = 1;
    clear(&p->accounts[ACCOUNT_POOL]);
    table_clear(&p->account_table);
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        p->quota_kind[i] = 0;
        p->quota_weight_milli[i] = 1000;
    }
}

static uint64_t id_of(uint32_t parent, uint32_t name)
{
    return (uint64_t)parent << 32 | name;
}

static uint32_t find_or_make(pool *p, const uint32_t names[ACCOUNT_LEVELS], struct pool_output *out)
{
    uint32_t at = ACCOUNT_POOL;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++) {
        if (names[level] == 0) continue;
        uint32_t child = table_find(&p->account_table, id_of(at, names[level]));
        if (child == SLOT_NONE) {
            if (p->accounts_end == p->accounts_max) {
                MARK(out, CATALOG_LIMIT);
                return at;
            }
            child = p->accounts_end++;
            clear(&p->accounts[child]);
            p->accounts[child].parent = at;
            p->accounts[child].name = names[level];
            p->accounts[child].level = level + 1;
            table_insert(&p->account_table, id_of(at, names[level]), child);
        }
        at = child;
    }
    return at;
}

uint32_t quota_find(const pool *p, const uint32_t names[ACCOUNT_LEVELS])
{
    uint32_t at = ACCOUNT_POOL;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++) {
        if (names[level] == 0) continue;
        uint32_t child = table_find(&p->account_table, id_of(at, names[level]));
        if (child == SLOT_NONE) return at;
        at = child;
    }
    return at;
}

uint32_t quota_find_of(const pool *p, const struct pool_event *submitted)
{
    const uint32_t names[ACCOUNT_LEVELS] = {
        submitted->u.job_submitted.tenant, submitted->u.job_submitted.project,
        submitted->u.job_submitted.team, submitted->u.job_submitted.user};
    return quota_find(p, names);
}

uint32_t quota_account(pool *p, const struct pool_event *submitted, struct pool_output *out)
{
    const uint32_t names[ACCOUNT_LEVELS] = {
        submitted->u.job_submitted.tenant, submitted->u.job_submitted.project,
        submitted->u.job_submitted.team, submitted->u.job_submitted.user};
    return find_or_make(p, names, out);
}

/* ---- the algebra: see quota.h ---- */

/* The part of its quota that it does not lend. */
static int64_t kept(const struct account *a, uint32_t kind)
{
    return a->lend_milli[kind] < 0 ? 0 : positive(a->pool_milli[kind] - a->lend_milli[kind]);
}

/* What it takes from its parent's: all beyond what it keeps. */
static int64_t drawn(const struct account *a, uint32_t kind)
{
    return positive(a->used_milli[kind] - kept(a, kind));
}

static void retotal_kind(pool *p, uint32_t kind)
{
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        struct account *a = &p->accounts[i];
        a->total_milli[kind] = a->pool_milli[kind] = 0;
        a->used_milli[kind] = a->own_milli[kind];
        a->has_quota[kind] = a->quota_milli[kind] >= 0;
    }
    /* Children have higher slots than their parents: from the leaves to the pool. Until its turn
     * comes, total and pool hold the sums of its children's. */
    for (uint32_t i = p->accounts_end; i-- > 0;) {
        struct account *a = &p->accounts[i];
        int64_t more = positive(a->quota_milli[kind] - a->total_milli[kind]);
        a->total_milli[kind] += more;
        a->pool_milli[kind] += more;
        if (i == ACCOUNT_POOL) continue;
        struct account *parent = &p->accounts[a->parent];
        parent->total_milli[kind] += a->total_milli[kind];
        parent->pool_milli[kind] += a->pool_milli[kind] - kept(a, kind);
        parent->used_milli[kind] += drawn(a, kind);
        parent->has_quota[kind] |= a->has_quota[kind];
    }
}

static void retotal(pool *p)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) retotal_kind(p, kind);
}

int64_t quota_available(const pool *p, uint32_t account, uint32_t kind)
{
    uint32_t path[ACCOUNT_LEVELS + 1], depth = 0;
    const struct account *top = &p->accounts[ACCOUNT_POOL];
    if (!top->has_quota[kind]) return INT64_MAX;
    for (uint32_t at = account; at != ACCOUNT_POOL; at = p->accounts[at].parent) path[depth++] = at;
    int64_t available = top->pool_milli[kind] - top->used_milli[kind];
    while (depth-- > 0) {
        const struct account *a = &p->accounts[path[depth]];
        int64_t lent = a->pool_milli[kind] - kept(a, kind) - drawn(a, kind);
        if (a->borrow_milli[kind] >= 0) available = least(available, lent + a->borrow_milli[kind]);
        available += positive(kept(a, kind) - a->used_milli[kind]);
    }
    return positive(available);
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

/* ---- what jobs do ---- */

static int64_t held(const struct account *a)
{
    int64_t sum = 0;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) sum += a->held_milli[kind];
    return sum;
}

static int64_t average_now(const pool *p, const struct account *a)
{
    return share_average(a->average, held(a), p->now_us - a->average_us, SHARE_HALF_LIFE_US);
}

int64_t quota_share(const pool *p, uint32_t account)
{
    const struct account *a = &p->accounts[account];
    return (held(a) + average_now(p, a) / SHARE_FRACTION) * 1000 / a->weight_milli;
}

static void add_held(pool *p, uint32_t account, const struct lease *l, int64_t sign)
{
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        struct account *a = &p->accounts[at];
        a->average = average_now(p, a);
        a->average_us = p->now_us;
        a->held_milli[l->quota_kind] += sign * l->quota_ncu_milli;
        a->usd_micros_per_hour += sign * l->quota_usd_micros_per_hour;
        a->workers += (uint32_t)sign;
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
}

void quota_give(pool *p, uint32_t lease)
{
    struct lease *l = &p->leases[lease];
    if (!l->quota_counted) return;
    add_held(p, p->jobs[l->job].account, l, -1);
    l->quota_counted = 0;
    p->quota_freed = 1;
}

struct allowance quota_allowance(const pool *p, uint32_t account)
{
    struct allowance left = {.usd_micros_per_hour = INT64_MAX, .workers = UINT32_MAX};
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        left.ncu_milli[kind] = quota_available(p, account, kind);
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        const struct account *a = &p->accounts[at];
        if (a->usd_micros_per_hour_max > 0)
            left.usd_micros_per_hour =
                least(left.usd_micros_per_hour,
                      positive(a->usd_micros_per_hour_max - a->usd_micros_per_hour));
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

/* ---- the door ---- */

/* Submissions are spaced: the n-th of a full minute's allowance may come at once, the next when the
 * first is a minute old. `paced_us` is when all that were taken would have been due one by one. */
static int64_t pace_us(const struct account *a)
{
    return MINUTE_US / a->submissions_per_minute_max;
}

uint32_t quota_door(const pool *p, uint32_t account, int64_t numbers[3])
{
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        const struct account *a = &p->accounts[at];
        numbers[2] = a->level;
        if (a->jobs_max > 0 && a->jobs >= a->jobs_max) {
            numbers[0] = a->jobs;
            numbers[1] = a->jobs_max;
            return REASON_ACCOUNT_JOBS;
        }
        if (a->submissions_per_minute_max == 0) continue;
        int64_t free_us = a->paced_us + pace_us(a) - MINUTE_US;
        if (free_us <= p->now_us) continue;
        numbers[0] = a->submissions_per_minute_max;
        numbers[1] = free_us - p->now_us;
        return REASON_ACCOUNT_SUBMISSIONS;
    }
    return REASON_NONE;
}

void quota_enter(pool *p, uint32_t account)
{
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent)
        p->accounts[at].jobs++;
}

void quota_pace(pool *p, uint32_t account)
{
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        struct account *a = &p->accounts[at];
        if (a->submissions_per_minute_max == 0) continue;
        if (a->paced_us < p->now_us) a->paced_us = p->now_us;
        a->paced_us += pace_us(a);
    }
}

void quota_leave(pool *p, uint32_t account)
{
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent) {
        ASSERT(p->accounts[at].jobs > 0);
        p->accounts[at].jobs--;
    }
}

/* ---- who gives back ---- */

int64_t quota_victim_rank(const pool *p, uint32_t claimant, uint32_t victim, uint32_t kind)
{
    uint32_t mine = p->jobs[claimant].account, theirs = p->jobs[victim].account;
    /* Up to the line they have in common; slots grow downwards, so the higher one moves. */
    uint32_t mine_below = SLOT_NONE, theirs_below = SLOT_NONE;
    while (mine != theirs) {
        if (mine > theirs) {
            mine_below = mine;
            mine = p->accounts[mine].parent;
        } else {
            theirs_below = theirs;
            theirs = p->accounts[theirs].parent;
        }
    }
    if (mine_below == SLOT_NONE || theirs_below == SLOT_NONE) return 0;
    const struct account *a = &p->accounts[mine_below];
    if (a->held_milli[kind] >= a->total_milli[kind]) return 0;
    int64_t borrowed = quota_borrowed(p, theirs_below, kind);
    return borrowed * 1000 / p->accounts[theirs_below].weight_milli;
}

/* ---- definitions ---- */

void quota_define(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = find_or_make(p, event->u.account_defined.names, out);
    const uint32_t *names = event->u.account_defined.names;
    uint32_t deepest = 0;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++)
        if (names[level] != 0) deepest = level + 1;
    struct account *a = &p->accounts[slot];
    if (a->level != deepest) return; /* no room for it: find_or_make() has marked it */
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        a->quota_milli[kind] = event->u.account_defined.quota_milli[kind];
        a->borrow_milli[kind] = event->u.account_defined.borrow_milli[kind];
        a->lend_milli[kind] = event->u.account_defined.lend_milli[kind];
    }
    a->weight_milli =
        event->u.account_defined.weight_milli != 0 ? event->u.account_defined.weight_milli : 1000;
    a->usd_micros_per_hour_max = event->u.account_defined.usd_micros_per_hour_max;
    a->jobs_max = event->u.account_defined.jobs_max;
    a->workers_max = event->u.account_defined.workers_max;
    a->submissions_per_minute_max = event->u.account_defined.submissions_per_minute_max;
    p->accounts_defined = 1;
    retotal(p);
    p->quota_freed = 1;
}

void quota_define_model(pool *p, const struct pool_event *event)
{
    uint32_t model = event->u.quota_model_defined.model;
    if (model >= MODELS_MAX) return;
    p->quota_kind[model] = event->u.quota_model_defined.kind;
    p->quota_weight_milli[model] = event->u.quota_model_defined.weight_milli;
}
