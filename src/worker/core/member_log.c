/* The steps that a member saw end, to be told to the server by whoever is the speaker.
 *
 * An hour of them is kept for a server that is away, in little memory: who computed what changes
 * rarely, so many steps share one turn. Both rings forget their oldest; a step whose turn is
 * forgotten is forgotten with it. */
#include "worker/core/member.h"
#include <string.h>

static bool same_work(const struct wire_turn *a, const struct wire_turn *b)
{
    return a->generation == b->generation && a->member_count == b->member_count &&
           a->slot_count == b->slot_count &&
           memcmp(a->member, b->member, a->member_count * sizeof a->member[0]) == 0 &&
           memcmp(a->owner, b->owner, a->slot_count * sizeof a->owner[0]) == 0;
}

static struct member_step *step_at(const struct member_log *log, uint64_t position)
{
    return &log->step[position % log->step_max];
}

static struct wire_turn *turn_at(const struct member_log *log, uint64_t position)
{
    return &log->turn[position % log->turn_max];
}

void member_log_append(struct member *m)
{
    struct member_log *log = &m->config.log;
    const struct member_commit *commit = &m->commit;
    if (log->turn_end == 0 || !same_work(turn_at(log, log->turn_end - 1), &commit->turn))
        *turn_at(log, log->turn_end++) = commit->turn;
    *step_at(log, log->end++) = (struct member_step){
        .step = commit->step,
        .turn = log->turn_end - 1,
        .attempt = commit->turn.attempt,
        .redone_slots = commit->turn.redone_slots,
        .loss = commit->loss,
        .not_finite = commit->not_finite,
    };
    if (log->end - log->first > log->step_max) log->first++;
    while (step_at(log, log->first)->turn + log->turn_max < log->turn_end) log->first++;
    if (m->speaker != m->config.id) m->log_next = log->end;
}

static void read_commit(const struct member_log *log, uint64_t position,
                        struct member_commit *ret_commit)
{
    const struct member_step *step = step_at(log, position);
    ret_commit->step = step->step;
    ret_commit->loss = step->loss;
    ret_commit->not_finite = step->not_finite;
    ret_commit->turn = *turn_at(log, step->turn);
    ret_commit->turn.attempt = step->attempt;
    ret_commit->turn.redone_slots = step->redone_slots;
}

void member_repeat_log(struct member *m, uint64_t count)
{
    const struct member_log *log = &m->config.log;
    uint64_t first = log->end > count ? log->end - count : 0;
    if (first < log->first) first = log->first;
    if (first < m->log_next) m->log_next = first;
}

void member_told(struct member *m, uint64_t steps)
{
    if (steps <= m->told && m->told_us != 0) return;
    m->told = steps;
    m->told_us = m->now_us;
    m->gap_filled = false;
}

/* Whoever reported a step is gone, and its report with it: the step stays missing. */
void member_fill_gap(struct member *m)
{
    if (m->told_us == 0 || m->gap_filled || m->now_us - m->told_us < MEMBER_GAP_US) return;
    const struct member_log *log = &m->config.log;
    uint64_t first = log->first;
    while (first < log->end && step_at(log, first)->step < m->told) first++;
    if (first == log->end) return; /* we know of nothing that is missing, yet */
    m->gap_filled = true;
    m->gap_next = first;
    m->gap_end = log->end - first > MEMBER_REPEAT_MAX ? first + MEMBER_REPEAT_MAX : log->end;
}

bool member_take_commit(struct member *m, struct member_commit *ret_commit)
{
    const struct member_log *log = &m->config.log;
    if (m->gap_next < log->first) m->gap_next = log->first;
    if (m->log_next < log->first) m->log_next = log->first;
    while (m->gap_next < m->gap_end || m->log_next < log->end) {
        uint64_t position = m->gap_next < m->gap_end ? m->gap_next++ : m->log_next++;
        if (step_at(log, position)->step < m->told) continue;
        read_commit(log, position, ret_commit);
        return true;
    }
    return false;
}
