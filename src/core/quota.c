#include "core/quota.h"
#include "core/ask.h"
#include "core/assert.h"
#include "core/gate.h"
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
    list_clear(&a->resting);
    list_clear(&a->ask_tenants);
    gate_forget(&a->gate);
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

uint32_t quota_find_or_make(pool *p, const uint32_t names[ACCOUNT_LEVELS], struct pool_output *out)
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
    return quota_find_or_make(p, names, out);
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

static void retotal(pool *p)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) retotal_kind(p, kind);
    quota_rebuild(p);
    ask_stir_owners(p);
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

#define DAY_US         INT64_C(86400000000)
#define RUN_US_UNKNOWN HOUR_US /* set aside for a job that declares no run time */
#define RUN_US_MIN     INT64_C(60000000)

/* Days, and months of the proleptic Gregorian calendar, since 1970-01-01 UTC. The year is counted
 * from March, so that the odd day comes last: 153 days are five months from there. */
static int64_t period_of(uint32_t period, int64_t now_us)
{
    int64_t days = now_us / DAY_US;
    if (period == 0) return days;
    int64_t since = days + 719468, era = since / 146097, of_era = since % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0 = March */
    return (era * 400 + year) * 12 + month;
}

void quota_tick(pool *p)
{
    if (p->now_us < p->period_end_us) return;
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++) p->period_now[i] = period_of(i, p->now_us);
    p->period_end_us = (p->now_us / DAY_US + 1) * DAY_US;
}

static int64_t spent(const pool *p, const struct account *a, uint32_t period)
{
    return a->period[period] == p->period_now[period] ? a->spent_usd_micros[period] : 0;
}

int64_t quota_run_left_us(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    const struct job_terms *terms =
        j->shape == SLOT_NONE ? NULL : terms_of(p, &p->shapes[j->shape]);
    if (terms == NULL || terms->run_us <= 0) return RUN_US_UNKNOWN;
    int64_t left_us = terms->run_us - (j->started_us == 0 ? 0 : p->now_us - j->started_us);
    if (left_us > TIME_US_MAX) left_us = TIME_US_MAX;
    return left_us > RUN_US_MIN ? left_us : RUN_US_MIN;
}

int64_t quota_price_of_run(int64_t usd_micros_per_hour, int64_t run_us)
{
    struct meter meter = {0};
    money_meter_add(&meter, usd_micros_per_hour, run_us);
    return meter.usd_micros + (meter.remainder != 0);
}

static void add_reserved(pool *p, uint32_t lease, int64_t usd_micros)
{
    struct lease *l = &p->leases[lease];
    l->reserved_usd_micros += usd_micros;
    for (uint32_t at = p->jobs[l->job].account; at != SLOT_NONE; at = p->accounts[at].parent)
        p->accounts[at].reserved_usd_micros += usd_micros;
    gate_reserve(p, lease, usd_micros);
}

void quota_spend_beside(pool *p, uint32_t job, int64_t usd_micros)
{
    for (uint32_t at = p->jobs[job].account; at != SLOT_NONE; at = p->accounts[at].parent) {
        struct account *a = &p->accounts[at];
        for (uint32_t i = 0; i < QUOTA_PERIODS; i++) {
            a->spent_usd_micros[i] = money_add(spent(p, a, i), usd_micros);
            a->period[i] = p->period_now[i];
        }
    }
}

void quota_spend(pool *p, uint32_t lease, int64_t usd_micros)
{
    struct lease *l = &p->leases[lease];
    struct job *j = &p->jobs[l->job];
    quota_spend_beside(p, l->job, usd_micros);
    gate_spend(p, lease, usd_micros);
    add_reserved(p, lease, -least(usd_micros, l->reserved_usd_micros));
    if (!job_is_bound(j)) return;
    if (!quota_is_spent(p, l->job) && !gate_is_spent(p, l->job)) return;
    j->budget_check_us = p->now_us;
    heap_set(&p->timers, timer_of_job(p, l->job), j->budget_check_us);
}

static int64_t period_left(const pool *p, const struct account *a)
{
    int64_t left = INT64_MAX;
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++)
        if (a->usd_micros_max[i] > 0)
            left = least(left, a->usd_micros_max[i] - spent(p, a, i) - a->reserved_usd_micros);
    return left;
}

int64_t quota_period_left(const pool *p, uint32_t account)
{
    int64_t left = INT64_MAX;
    for (uint32_t at = account; at != SLOT_NONE; at = p->accounts[at].parent)
        left = least(left, period_left(p, &p->accounts[at]));
    return left;
}

bool quota_is_spent(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (p->leases[l].reserved_usd_micros > 0) return false;
    for (uint32_t at = j->account; at != SLOT_NONE; at = p->accounts[at].parent)
        if (period_left(p, &p->accounts[at]) <= 0) return true;
    return false;
}

int64_t quota_rate_within(int64_t left, int64_t run_us)
{
    if (left == INT64_MAX) return INT64_MAX;
    if (left <= 0) return 0;
    int64_t whole = left / run_us, rest = left % run_us;
    if (whole >= PRICE_MAX) return INT64_MAX / 2; /* beyond any job */
    while (rest >= INT64_MAX / HOUR_US) { /* the product would not fit: never too much is allowed */
        rest /= 2;
        run_us = run_us / 2 + 1;
    }
    return whole * HOUR_US + rest * HOUR_US / run_us;
}

void quota_retime(pool *p)
{
    heap_set(&p->timers, timer_of_quota(p),
             p->quota_wake_us == 0 ? HEAP_KEY_NEVER : p->quota_wake_us);
}

void quota_run(pool *p)
{
    p->quota_wake_us = (p->now_us / DAY_US + 1) * DAY_US;
    if (p->now_us < p->reclaim_until_us)
        p->quota_wake_us = least(p->quota_wake_us, p->reclaim_until_us);
    p->quota_freed = 1;
    quota_retime(p);
}

void quota_reclaimed(pool *p)
{
    p->reclaim_until_us = p->now_us + p->config.drain_us + p->config.ask_again_us;
    if (p->quota_wake_us == 0) return;
    p->quota_wake_us = least(p->quota_wake_us, p->reclaim_until_us);
    quota_retime(p);
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
    add_reserved(p, lease,
                 quota_price_of_run(l->quota_usd_micros_per_hour, quota_run_left_us(p, l->job)));
}

void quota_give(pool *p, uint32_t lease)
{
    struct lease *l = &p->leases[lease];
    if (!l->quota_counted) return;
    add_held(p, p->jobs[l->job].account, l, -1);
    add_reserved(p, lease, -l->reserved_usd_micros);
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
            least(left.usd_micros_per_hour, quota_rate_within(period_left(p, a), run_us));
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

/* Up to the line they have in common; slots grow downwards, so the higher one moves. False: they are of
 * one line. */
static bool part(const pool *p, uint32_t *mine, uint32_t *theirs)
{
    uint32_t mine_below = SLOT_NONE, theirs_below = SLOT_NONE, a = *mine, b = *theirs;
    while (a != b) {
        if (a > b) {
            mine_below = a;
            a = p->accounts[a].parent;
        } else {
            theirs_below = b;
            b = p->accounts[b].parent;
        }
    }
    *mine = mine_below;
    *theirs = theirs_below;
    return mine_below != SLOT_NONE && theirs_below != SLOT_NONE;
}

static bool would_borrow(const struct account *a, uint32_t kind, int64_t needed_milli)
{
    return a->held_milli[kind] + needed_milli > a->total_milli[kind];
}

int64_t quota_victim_rank(const pool *p, uint32_t claimant, uint32_t victim, uint32_t kind,
                          int64_t needed_milli)
{
    uint32_t mine = p->jobs[claimant].account, theirs = p->jobs[victim].account, at = theirs;
    if (!part(p, &mine, &theirs) || would_borrow(&p->accounts[mine], kind, needed_milli)) return 0;
    for (;; at = p->accounts[at].parent) { /* what is within its own quota gives nothing back */
        if (quota_borrowed(p, at, kind) == 0) return 0;
        if (at == theirs) break;
    }
    int64_t rank = quota_borrowed(p, theirs, kind) * 1000 / p->accounts[theirs].weight_milli;
    return rank > 0 ? rank : 1;
}

bool quota_is_protected(const pool *p, uint32_t claimant, uint32_t victim, uint32_t kind,
                        int64_t needed_milli)
{
    uint32_t mine = p->jobs[claimant].account, theirs = p->jobs[victim].account;
    if (!p->accounts[ACCOUNT_POOL].has_quota[kind] || !part(p, &mine, &theirs)) return false;
    return would_borrow(&p->accounts[mine], kind, needed_milli) &&
           quota_borrowed(p, theirs, kind) == 0;
}

int64_t quota_own_left(const pool *p, uint32_t account, uint32_t kind)
{
    int64_t left = 0;
    if (!p->accounts[ACCOUNT_POOL].has_quota[kind]) return INT64_MAX;
    for (uint32_t at = account; at != ACCOUNT_POOL; at = p->accounts[at].parent) {
        const struct account *a = &p->accounts[at];
        if (a->total_milli[kind] - a->held_milli[kind] > left)
            left = a->total_milli[kind] - a->held_milli[kind];
    }
    return left;
}

bool quota_is_defined(const pool *p)
{
    bool has = false;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        has = has || p->accounts[ACCOUNT_POOL].has_quota[kind];
    return has && p->accounts_defined;
}

bool quota_may_reclaim(const pool *p, uint32_t account)
{
    if (!p->accounts_defined || p->quota_borrowers == 0) return false;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (p->accounts[ACCOUNT_POOL].has_quota[kind] && quota_own_left(p, account, kind) > 0)
            return true;
    return false;
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

/* ---- definitions ---- */

/* The definition of the pool begins them anew: accounts that are defined no more limit nobody. */
static void forget_definitions(pool *p)
{
    ask_forget(p);
    p->accounts_defined = 0;
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        struct account *a = &p->accounts[i];
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            a->quota_milli[kind] = a->borrow_milli[kind] = a->lend_milli[kind] = -1;
        a->weight_milli = 1000;
        gate_forget(&a->gate);
        a->usd_micros_per_hour_max = 0;
        for (uint32_t k = 0; k < QUOTA_PERIODS; k++) a->usd_micros_max[k] = 0;
        a->jobs_max = a->workers_max = a->submissions_per_minute_max = 0;
    }
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        p->quota_kind[i] = 0;
        p->quota_weight_milli[i] = 1000;
    }
}

static bool limits_anything(const struct account *a)
{
    return a->quota_milli[0] >= 0 || a->quota_milli[1] >= 0 || a->usd_micros_per_hour_max > 0 ||
           a->usd_micros_max[0] > 0 || a->usd_micros_max[1] > 0 || a->jobs_max > 0 ||
           a->workers_max > 0 || a->submissions_per_minute_max > 0;
}

void quota_define(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = quota_find_or_make(p, event->u.account_defined.names, out);
    const uint32_t *names = event->u.account_defined.names;
    uint32_t deepest = 0;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++)
        if (names[level] != 0) deepest = level + 1;
    if (deepest == 0) forget_definitions(p);
    struct account *a = &p->accounts[slot];
    if (a->level != deepest) return; /* no room for it: quota_find_or_make() has marked it */
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        a->quota_milli[kind] = event->u.account_defined.quota_milli[kind];
        a->borrow_milli[kind] = event->u.account_defined.borrow_milli[kind];
        a->lend_milli[kind] = event->u.account_defined.lend_milli[kind];
    }
    a->weight_milli =
        event->u.account_defined.weight_milli != 0 ? event->u.account_defined.weight_milli : 1000;
    a->usd_micros_per_hour_max = event->u.account_defined.usd_micros_per_hour_max;
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++)
        a->usd_micros_max[i] = event->u.account_defined.usd_micros_max[i];
    a->jobs_max = event->u.account_defined.jobs_max;
    a->workers_max = event->u.account_defined.workers_max;
    a->submissions_per_minute_max = event->u.account_defined.submissions_per_minute_max;
    p->accounts_defined |= deepest != 0 || limits_anything(a);
    ask_share_moved(p, slot);
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
