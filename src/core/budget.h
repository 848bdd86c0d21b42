/* What each account, class and pool of devices has spent, set aside and left: the answer of `shoal
 * budget`.
 *
 * Role       Pure, const: the very amounts that quota.c and gate.c decide by.
 * Lines      Accounts (the whole pool first, parents before children), then classes, then pools. What
 *            neither has a limit nor spent anything has no line.
 */
#ifndef SHOAL_CORE_BUDGET_H
#define SHOAL_CORE_BUDGET_H

#include "core/pool.h"

struct budget_amount {
    int64_t limit_usd_micros; /* GATE_NONE = none */
    int64_t used_usd_micros;  /* spent in the period; of an hour: what is held now costs so much */
    int64_t reserved_usd_micros;
};

enum { BUDGET_HOUR, BUDGET_DAY, BUDGET_MONTH, BUDGET_PERIODS };

struct budget_line {
    uint32_t scope, index;          /* enum gate_scope; class or pool */
    uint32_t names[ACCOUNT_LEVELS]; /* of an account; all 0: the whole pool */
    uint32_t level, refuses;        /* of an account: 0 = the pool; refuses: above its gate */
    struct budget_amount all[BUDGET_PERIODS];    /* accounts only: everything */
    struct budget_amount bought[BUDGET_PERIODS]; /* spot and on demand; no day */
    int64_t bought_job_limit_usd_micros;         /* GATE_NONE = none */
};

uint32_t pool_budgets_end(const pool *p);
bool pool_budget_at(const pool *p, uint32_t index,
                    struct budget_line *ret_line); /* false: no line */

#endif
