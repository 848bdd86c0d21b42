/* The invariants of money and quotas: what is counted is what is held. */
#include "core/assert.h"
#include "core/check_parts.h"
#include "core/job.h"

static bool account_is_under(const pool *p, uint32_t account, uint32_t above)
{
    while (account != SLOT_NONE && account != above) account = p->accounts[account].parent;
    return account == above;
}

/* What accounts say they hold is what their jobs' leases hold. */
static void check_account(const pool *p, uint32_t slot)
{
    const struct account *a = &p->accounts[slot];
    int64_t held_milli[QUOTA_KINDS] = {0}, usd_micros_per_hour = 0, reserved_usd_micros = 0;
    uint32_t workers = 0, jobs = 0;
    for (uint32_t i = 0; i < p->leases_end; i++) {
        const struct lease *l = &p->leases[i];
        if (l->state == LEASE_FREE || !l->quota_counted) continue;
        if (!account_is_under(p, p->jobs[l->job].account, slot)) continue;
        held_milli[l->quota_kind] += l->quota_ncu_milli;
        usd_micros_per_hour += l->quota_usd_micros_per_hour;
        reserved_usd_micros += l->reserved_usd_micros;
        workers++;
    }
    for (uint32_t j = 0; j < p->jobs_end; j++)
        jobs += job_is_live(&p->jobs[j]) && account_is_under(p, p->jobs[j].account, slot);
    ASSERT(reserved_usd_micros == a->reserved_usd_micros);
    ASSERT(workers == a->workers);
    ASSERT(jobs == a->jobs);
    ASSERT(usd_micros_per_hour == a->usd_micros_per_hour);
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        ASSERT(held_milli[kind] == a->held_milli[kind]);
}

/* What a gate counts is what leases of bought capacity under it hold and have set aside. */
void check_gates(const pool *p)
{
    int64_t hour[JOB_CLASS_END] = {0}, pool_hour = 0, pools = 0, reserved = 0, all_reserved = 0;
    for (uint32_t i = 0; i < p->leases_end; i++) {
        const struct lease *l = &p->leases[i];
        if (l->state == LEASE_FREE || !l->quota_counted || !l->gated) continue;
        hour[p->jobs[l->job].job_class] += l->quota_usd_micros_per_hour;
        reserved += l->reserved_usd_micros;
        if (l->gate_pool != SLOT_NONE) pool_hour += l->quota_usd_micros_per_hour;
    }
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        ASSERT(p->class_gates[i].usd_micros_per_hour == hour[i]);
        all_reserved += p->class_gates[i].reserved_usd_micros;
    }
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++)
        pools += p->pool_gates[i].usd_micros_per_hour;
    ASSERT(all_reserved == reserved);
    ASSERT(p->accounts[0].gate.reserved_usd_micros == reserved);
    ASSERT(pools == pool_hour);
}

void check_accounts(const pool *p)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < p->accounts_end; i++) check_account(p, i);
    for (uint32_t s = p->shapes_used.head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next)
        waiting += p->shapes[s].quota_waits;
    ASSERT(waiting == p->quota_waiting);
    uint32_t borrowers = 0;
    for (uint32_t i = 1; i < p->accounts_end; i++)
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            borrowers += p->accounts[p->accounts[i].parent].owners_below[kind] &&
                         p->accounts[i].held_milli[kind] > p->accounts[i].total_milli[kind];
    ASSERT(borrowers == p->quota_borrowers);
}
