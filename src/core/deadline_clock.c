/* The clock of a job with a deadline: what of its work is left, what a loss would cost. */
#include "core/assert.h"
#include "core/deadline.h"
#include "core/deadline_view.h"
#include "core/lease.h"
#include "core/rate.h"
#include "core/spot_watch.h"

enum { PACE_STEPS_MIN = 10 };
#define PACE_US_MIN INT64_C(120000000)

const struct job_terms *deadline_terms(const pool *p, const struct job *j)
{
    return &p->terms[p->shapes[j->shape].terms].job;
}

int64_t deadline_of(const struct job_terms *terms, int64_t submitted_us)
{
    if (terms->deadline_us == 0 || terms->deadline_us > TERMS_US_MAX) return terms->deadline_us;
    return submitted_us + terms->deadline_us;
}

/* The newest step of what runs; with nothing running, that of its newest checkpoint. */
static uint64_t step_of(const pool *p, const struct job *j)
{
    uint64_t step = j->ckpt_step;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (p->leases[l].state == LEASE_ACTIVE && p->leases[l].step > step)
            step = p->leases[l].step;
    return step;
}

/* part <= whole: with 32 bits each, the product of the remainder fits 64 bits without a sign. */
static int64_t share_of(int64_t us, uint32_t part, uint32_t whole)
{
    ASSERT(us >= 0);
    ASSERT(part <= whole);
    uint64_t remainder = (uint64_t)us % whole;
    return us / whole * part + (int64_t)(remainder * part / whole);
}

/* saved: as if all its nodes were lost now. */
int64_t deadline_left_us(const pool *p, const struct job *j, bool saved)
{
    const struct job_terms *terms = deadline_terms(p, j);
    int64_t attained_us = rate_attained_us(p, j), left_us;
    if (terms->steps_total != 0) {
        uint64_t step = saved ? j->ckpt_step : step_of(p, j);
        uint64_t left = step < terms->steps_total ? terms->steps_total - step : 0;
        if (j->pace_us == 0) return share_of(terms->run_us, (uint32_t)left, terms->steps_total);
        return j->pace_us < TERMS_US_MAX / (int64_t)(left + 1) ? j->pace_us * (int64_t)left
                                                               : TERMS_US_MAX;
    }
    left_us = terms->run_us - (saved ? j->saved_us : attained_us - j->wasted_us);
    return left_us > 0 ? left_us : 0;
}

void deadline_stepped(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (j->deadline_us == 0 || !job_is_live(j) || deadline_terms(p, j)->steps_total == 0) return;
    uint64_t step = step_of(p, j);
    int64_t attained_us = rate_attained_us(p, j), took_us = attained_us - j->pace_from_us;
    bool measures = j->pace_step != 0 && step >= j->pace_step;
    if (measures && (took_us < PACE_US_MIN || step < j->pace_step + PACE_STEPS_MIN)) return;
    if (measures) {
        int64_t pace_us = took_us / (int64_t)(step - j->pace_step) + 1;
        j->pace_us = j->pace_us == 0 ? pace_us : j->pace_us + (pace_us - j->pace_us) / 4;
    }
    j->pace_from_us = attained_us;
    j->pace_step = step;
}

int64_t deadline_work_left_us(const pool *p, uint32_t job)
{
    return deadline_left_us(p, &p->jobs[job], /* saved */ false);
}

void deadline_saved(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (j->deadline_us == 0 || !job_is_live(j)) return;
    if (j->saved_from_us != 0) j->save_gap_us = p->now_us - j->saved_from_us;
    j->saved_from_us = p->now_us;
    j->wasted_us -= j->unsaved_us; /* workers that were told to go have saved it */
    j->unsaved_us = 0;
    j->saved_us = rate_attained_us(p, j) - j->wasted_us;
}

void deadline_lost(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (j->deadline_us == 0) return;
    int64_t wasted_us = rate_attained_us(p, j) - j->saved_us;
    j->unsaved_us = wasted_us - j->wasted_us;
    j->wasted_us = wasted_us;
    j->saved_from_us = 0;
    j->pace_step = 0;
}

void deadline_begun(pool *p, uint32_t job)
{
    p->jobs[job].unsaved_us = 0;
}

/* Work that a loss costs; beyond an hour, is_unsafe() sees to it. */
int64_t deadline_save_gap_us(const pool *p, const struct job *j)
{
    int64_t gap_us = deadline_terms(p, j)->ckpt_interval_us;
    if (j->save_gap_us > gap_us) gap_us = j->save_gap_us;
    return gap_us < HOUR_US ? gap_us : HOUR_US;
}

uint32_t deadline_ticks_up(int64_t us)
{
    int64_t ticks = (us + SPOT_TICK_US - 1) / SPOT_TICK_US;
    return ticks < INT32_MAX ? (uint32_t)ticks : INT32_MAX;
}
