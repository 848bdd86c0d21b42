#include "core/budget.h"
#include "core/gate.h"
#include "core/quota.h"

uint32_t pool_budgets_end(const pool *p)
{
    return p->accounts_end + JOB_CLASS_END + p->config.limits.pools_max;
}

static int64_t limit_or_none(int64_t limit)
{
    return limit > 0 ? limit : GATE_NONE;
}

static void fill_account(const pool *p, uint32_t slot, struct budget_line *line)
{
    const struct account *a = &p->accounts[slot];
    line->level = a->level;
    for (uint32_t at = slot; at != ACCOUNT_POOL; at = p->accounts[at].parent)
        line->names[p->accounts[at].level - 1] = p->accounts[at].name;
    line->all[BUDGET_HOUR] =
        (struct budget_amount){.limit_usd_micros = limit_or_none(a->usd_micros_per_hour_max),
                               .used_usd_micros = a->usd_micros_per_hour};
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++) {
        bool is_now = a->period[i] == p->period_now[i];
        line->all[BUDGET_DAY + i] =
            (struct budget_amount){.limit_usd_micros = limit_or_none(a->usd_micros_max[i]),
                                   .used_usd_micros = is_now ? a->spent_usd_micros[i] : 0,
                                   .reserved_usd_micros = a->reserved_usd_micros};
    }
}

static void fill_gate(const pool *p, const struct gate *gate, struct budget_line *line)
{
    line->refuses = gate->refuses;
    line->bought_job_limit_usd_micros = gate->usd_micros_per_job_max;
    line->bought[BUDGET_HOUR] =
        (struct budget_amount){.limit_usd_micros = gate->usd_micros_per_hour_max,
                               .used_usd_micros = gate->usd_micros_per_hour};
    line->bought[BUDGET_MONTH] =
        (struct budget_amount){.limit_usd_micros = gate->usd_micros_per_month_max,
                               .used_usd_micros = gate_spent_usd_micros(p, gate),
                               .reserved_usd_micros = gate->reserved_usd_micros};
}

static bool says_something(const struct budget_line *line)
{
    bool any = line->bought_job_limit_usd_micros != GATE_NONE;
    for (uint32_t i = 0; i < BUDGET_PERIODS; i++) {
        any |= line->all[i].limit_usd_micros != GATE_NONE || line->all[i].used_usd_micros != 0 ||
               line->all[i].reserved_usd_micros != 0;
        any |= line->bought[i].limit_usd_micros != GATE_NONE ||
               line->bought[i].used_usd_micros != 0 || line->bought[i].reserved_usd_micros != 0;
    }
    return any;
}

bool pool_budget_at(const pool *p, uint32_t index, struct budget_line *ret_line)
{
    const struct gate *gate = NULL;
    *ret_line = (struct budget_line){.scope = GATE_OF_ACCOUNT};
    for (uint32_t i = 0; i < BUDGET_PERIODS; i++)
        ret_line->all[i].limit_usd_micros = ret_line->bought[i].limit_usd_micros = GATE_NONE;
    if (index < p->accounts_end) {
        fill_account(p, index, ret_line);
        gate = &p->accounts[index].gate;
    } else if ((index -= p->accounts_end) < JOB_CLASS_END) {
        ret_line->scope = GATE_OF_CLASS;
        gate = &p->class_gates[index];
        ret_line->index = index;
    } else if ((index -= JOB_CLASS_END) < p->config.limits.pools_max) {
        ret_line->scope = GATE_OF_POOL;
        gate = &p->pool_gates[index];
        ret_line->index = index;
    } else
        return false;
    fill_gate(p, gate, ret_line);
    return says_something(ret_line);
}
