/* Who gives quota back to whom. */
#include "core/quota.h"
#include "core/quota_algebra.h"

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
    return least(left, quota_within_line(p, NULL, account, kind, left));
}

bool quota_may_reclaim(const pool *p, uint32_t account)
{
    if (!p->accounts_defined || p->quota_borrowers == 0) return false;
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (p->accounts[ACCOUNT_POOL].has_quota[kind] && quota_own_left(p, account, kind) > 0)
            return true;
    return false;
}

void quota_reclaimed(pool *p)
{
    p->reclaim_until_us = p->now_us + p->config.drain_us + p->config.ask_again_us;
    if (p->quota_wake_us == 0) return;
    p->quota_wake_us = least(p->quota_wake_us, p->reclaim_until_us);
    quota_retime(p);
}
