#include "core/gate.h"
#include "core/assert.h"
#include "core/quota.h"

enum { GATES_PER_LEASE = ACCOUNT_LEVELS + 3, MONTH = 1 };

struct gates {
    uint32_t count;
    uint32_t scopes[GATES_PER_LEASE];
    struct gate *gates[GATES_PER_LEASE];
};

static void add(struct gates *all, struct gate *gate, uint32_t scope)
{
    ASSERT(all->count < GATES_PER_LEASE);
    all->scopes[all->count] = scope;
    all->gates[all->count++] = gate;
}

/* pool SLOT_NONE: without a pool's. */
static struct gates gates_of(pool *p, uint32_t job, uint32_t gate_pool)
{
    struct gates all = {0};
    add(&all, &p->class_gates[p->jobs[job].job_class], GATE_LEVEL_CLASS);
    if (gate_pool != SLOT_NONE) add(&all, &p->pool_gates[gate_pool], GATE_LEVEL_POOL);
    for (uint32_t at = p->jobs[job].account; at != SLOT_NONE; at = p->accounts[at].parent)
        add(&all, &p->accounts[at].gate, p->accounts[at].level);
    return all;
}

/* For those that only look. */
static struct gates gates_seen(const pool *p, uint32_t job, uint32_t gate_pool)
{
    return gates_of((pool *)(uintptr_t)p, job, gate_pool);
}

void gate_forget(struct gate *gate)
{
    gate->usd_micros_per_hour_max = gate->usd_micros_per_job_max = GATE_NONE;
    gate->usd_micros_per_month_max = GATE_NONE;
    gate->refuses = 0;
}

void gate_init(pool *p)
{
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        p->class_gates[i] = (struct gate){0};
        gate_forget(&p->class_gates[i]);
    }
    for (uint32_t i = 0; i < POOLS_MAX; i++) {
        p->pool_gates[i] = (struct gate){0};
        gate_forget(&p->pool_gates[i]);
    }
}

static struct gate *find(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t index = event->u.gate_defined.index;
    switch ((enum gate_scope)event->u.gate_defined.scope) {
    case GATE_OF_CLASS: return index < JOB_CLASS_END ? &p->class_gates[index] : NULL;
    case GATE_OF_POOL: return index < POOLS_MAX ? &p->pool_gates[index] : NULL;
    case GATE_OF_ACCOUNT:
        return &p->accounts[quota_find_or_make(p, event->u.gate_defined.names, out)].gate;
    case GATE_SCOPE_END: break;
    }
    return NULL;
}

void gate_define(pool *p, const struct pool_event *event, struct pool_output *out)
{
    struct gate *gate = find(p, event, out);
    if (gate == NULL) return;
    gate->usd_micros_per_hour_max = event->u.gate_defined.usd_micros_per_hour_max;
    gate->usd_micros_per_job_max = event->u.gate_defined.usd_micros_per_job_max;
    gate->usd_micros_per_month_max = event->u.gate_defined.usd_micros_per_month_max;
    gate->refuses = event->u.gate_defined.refuses;
    p->quota_freed = 1;
}

bool gate_is_bought(const struct offer *o)
{
    return o->capacity == CAPACITY_ON_DEMAND || o->capacity == CAPACITY_SPOT;
}

uint32_t gate_pool_of(const pool *p, uint64_t pool_mask, uint32_t model)
{
    for (uint64_t rest = pool_mask; rest != 0; rest &= rest - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(rest);
        if (index < p->config.limits.pools_max &&
            rule_allows(&p->rules[index], &p->models[model], model))
            return index;
    }
    return SLOT_NONE;
}

int64_t gate_spent_usd_micros(const pool *p, const struct gate *gate)
{
    return gate->month == p->period_now[MONTH] ? gate->spent_usd_micros : 0;
}

/* Most have none: no run time is reckoned for them. */
static bool limits_anything(const struct gate *gate)
{
    return gate->usd_micros_per_hour_max != GATE_NONE ||
           gate->usd_micros_per_job_max != GATE_NONE || gate->usd_micros_per_month_max != GATE_NONE;
}

static int64_t month_left(const pool *p, const struct gate *gate)
{
    if (gate->usd_micros_per_month_max == GATE_NONE) return INT64_MAX;
    return gate->usd_micros_per_month_max - gate_spent_usd_micros(p, gate) -
           gate->reserved_usd_micros;
}

static int64_t job_left(const struct gate *gate, const struct job *j)
{
    if (gate->usd_micros_per_job_max == GATE_NONE) return INT64_MAX;
    return gate->usd_micros_per_job_max - j->bought_usd_micros - j->bought_reserved_usd_micros;
}

/* Which limit of one gate leaves least per hour, with the figures of that limit. */
static struct gate_bound bound_of(const pool *p, const struct gate *gate, uint32_t job,
                                  int64_t usd_micros_per_hour, int64_t *ret_left)
{
    int64_t run_us = quota_run_left_us(p, job);
    int64_t run_usd_micros = quota_price_of_run(usd_micros_per_hour, run_us);
    struct gate_bound bound = {.reason = REASON_NONE, .refuses = gate->refuses != 0};
    *ret_left = INT64_MAX;
    if (gate->usd_micros_per_hour_max != GATE_NONE) {
        int64_t left = gate->usd_micros_per_hour_max - gate->usd_micros_per_hour;
        *ret_left = left > 0 ? left : 0;
        bound.reason = REASON_GATE_HOUR;
        bound.needed = usd_micros_per_hour;
        bound.left = *ret_left;
    }
    const int64_t lefts[] = {job_left(gate, &p->jobs[job]), month_left(p, gate)};
    static const uint32_t reasons[] = {REASON_GATE_JOB, REASON_GATE_MONTH};
    for (uint32_t i = 0; i < 2; i++) {
        int64_t left = quota_rate_within(lefts[i], run_us);
        if (left >= *ret_left) continue;
        *ret_left = left;
        bound.reason = reasons[i];
        bound.needed = run_usd_micros;
        bound.left = lefts[i] > 0 ? lefts[i] : 0;
    }
    return bound;
}

static int64_t tightest(const pool *p, const struct gates *all, uint32_t job,
                        int64_t usd_micros_per_hour, struct gate_bound *ret_bound)
{
    int64_t least = INT64_MAX;
    *ret_bound = (struct gate_bound){.reason = REASON_NONE};
    for (uint32_t i = 0; i < all->count; i++) {
        int64_t left;
        if (!limits_anything(all->gates[i])) continue;
        struct gate_bound bound = bound_of(p, all->gates[i], job, usd_micros_per_hour, &left);
        if (left >= least) continue;
        least = left;
        *ret_bound = bound;
        ret_bound->scope = all->scopes[i];
    }
    return least;
}

int64_t gate_left(const pool *p, uint32_t job)
{
    struct gates all = gates_seen(p, job, SLOT_NONE);
    struct gate_bound bound;
    return tightest(p, &all, job, 0, &bound);
}

int64_t gate_pool_left(const pool *p, uint32_t job, uint32_t gate_pool)
{
    int64_t left;
    if (!limits_anything(&p->pool_gates[gate_pool])) return INT64_MAX;
    (void)bound_of(p, &p->pool_gates[gate_pool], job, 0, &left);
    return left;
}

struct gate_bound gate_binds(const pool *p, uint32_t job, uint32_t model,
                             int64_t usd_micros_per_hour)
{
    uint64_t pools = p->shapes[p->jobs[job].shape].pool_mask;
    struct gates all = gates_seen(p, job, gate_pool_of(p, pools, model));
    struct gate_bound bound;
    (void)tightest(p, &all, job, usd_micros_per_hour, &bound);
    return bound;
}

/* ---- what leases do ---- */

void gate_take(pool *p, uint32_t lease)
{
    struct lease *l = &p->leases[lease];
    const struct offer *o = &p->offers[p->nodes[l->node].offer];
    l->gated = gate_is_bought(o);
    l->gate_pool = gate_pool_of(p, p->shapes[p->jobs[l->job].shape].pool_mask, o->model);
    if (!l->gated) return;
    struct gates all = gates_of(p, l->job, l->gate_pool);
    for (uint32_t i = 0; i < all.count; i++)
        all.gates[i]->usd_micros_per_hour += l->quota_usd_micros_per_hour;
}

void gate_give(pool *p, uint32_t lease)
{
    struct lease *l = &p->leases[lease];
    if (!l->gated) return;
    struct gates all = gates_of(p, l->job, l->gate_pool);
    for (uint32_t i = 0; i < all.count; i++)
        all.gates[i]->usd_micros_per_hour -= l->quota_usd_micros_per_hour;
}

void gate_reserve(pool *p, uint32_t lease, int64_t usd_micros)
{
    const struct lease *l = &p->leases[lease];
    if (!l->gated) return;
    struct gates all = gates_of(p, l->job, l->gate_pool);
    for (uint32_t i = 0; i < all.count; i++) all.gates[i]->reserved_usd_micros += usd_micros;
    p->jobs[l->job].bought_reserved_usd_micros += usd_micros;
}

void gate_spend(pool *p, uint32_t lease, int64_t usd_micros)
{
    const struct lease *l = &p->leases[lease];
    if (!l->gated) return;
    struct gates all = gates_of(p, l->job, l->gate_pool);
    for (uint32_t i = 0; i < all.count; i++) {
        struct gate *gate = all.gates[i];
        gate->spent_usd_micros = money_add(gate_spent_usd_micros(p, gate), usd_micros);
        gate->month = p->period_now[MONTH];
    }
    struct job *j = &p->jobs[l->job];
    j->bought_usd_micros = money_add(j->bought_usd_micros, usd_micros);
}

bool gate_is_spent(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    if (j->bought_reserved_usd_micros > 0) return false;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (!p->leases[l].gated || !p->leases[l].quota_counted) continue;
        struct gates all = gates_seen(p, job, p->leases[l].gate_pool);
        for (uint32_t i = 0; i < all.count; i++)
            if (job_left(all.gates[i], j) <= 0 || month_left(p, all.gates[i]) <= 0) return true;
    }
    return false;
}
