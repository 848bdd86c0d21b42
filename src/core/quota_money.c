/* Dollars of a day and a month: set aside for a lease when it is made, spent as it runs. */
#include "core/gate.h"
#include "core/money.h"
#include "core/quota.h"
#include "core/quota_algebra.h"

#define DAY_US     INT64_C(86400000000)
#define RUN_US_MIN INT64_C(60000000)

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

void quota_reserve(pool *p, uint32_t lease, int64_t usd_micros)
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
    quota_reserve(p, lease, -least(usd_micros, l->reserved_usd_micros));
    if (!job_is_bound(j)) return;
    if (!quota_is_spent(p, l->job) && !gate_is_spent(p, l->job)) return;
    j->budget_check_us = p->now_us;
    heap_set(&p->timers, timer_of_job(p, l->job), j->budget_check_us);
}

int64_t quota_account_left(const pool *p, const struct account *a)
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
        left = least(left, quota_account_left(p, &p->accounts[at]));
    return left;
}

bool quota_is_spent(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (p->leases[l].reserved_usd_micros > 0) return false;
    for (uint32_t at = j->account; at != SLOT_NONE; at = p->accounts[at].parent)
        if (quota_account_left(p, &p->accounts[at]) <= 0) return true;
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
