/* The door: limits on jobs and submissions, before a job is admitted. */
#include "core/assert.h"
#include "core/quota.h"

#define MINUTE_US INT64_C(60000000)

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
