/* Gangs made whole after the relaxation: those that run in part leave, what is free is filled by value,
 * then jobs that wait trade places with cheaper ones while that gains. match.h is the manual.
 *
 * Why so: at most a few gangs are in part, about one a type, so nearly all of the matching stands as it
 * is; whole assignment is NP-hard, and match_bound() tells what the shortcut cost. */
#include "core/assert.h"
#include "core/match.h"
#include "core/match_state.h"

enum { TRADES_MAX = 64 }; /* each gains at least 1, so this only bounds the time */

static bool is_known(const struct match *match, uint32_t job)
{
    return match->width[job] > 0;
}

static bool is_whole(const struct match *match, uint32_t job)
{
    return match->waiting[job] == match->width[job] || match_type(match, job) != MATCH_OUT;
}

static void leave(struct match *match, uint32_t job)
{
    for (uint32_t type = 0; type < match->type_end; type++) {
        uint32_t units = match_units(match, job)[type];
        if (units > 0) match_take(match, job, type, units);
    }
}

/* The waiting job with the highest value a device that fits as a whole; wider first on ties. */
static bool best_fit(const struct match *match, uint32_t *ret_job, uint32_t *ret_type)
{
    int64_t best = 0;
    uint32_t best_width = 0;
    for (uint32_t job = 0; job < match->job_end; job++) {
        uint32_t width = match->width[job];
        if (width == 0 || match->waiting[job] != width) continue;
        const int64_t *value = match_value(match, job);
        for (uint32_t type = 0; type < match->type_end; type++) {
            if (match->types[type].free < width) continue;
            if (value[type] < best || value[type] <= 0) continue;
            if (value[type] == best && width <= best_width) continue;
            best = value[type];
            best_width = width;
            *ret_job = job;
            *ret_type = type;
        }
    }
    return best > 0;
}

static void fill(struct match *match)
{
    uint32_t job = 0;
    uint32_t type = 0;
    while (best_fit(match, &job, &type)) match_put(match, job, type, match->width[job]);
}

/* The member with the least value a device that is worth at least `above` (ties: the next job number). */
static uint32_t next_cheapest(const struct match *match, uint32_t type, int64_t above,
                              uint32_t after)
{
    const struct match_type *t = &match->types[type];
    uint32_t best = MATCH_OUT;
    for (uint32_t i = 0; i < t->members; i++) {
        uint32_t job = match->members[t->first + i];
        int64_t value = match_value(match, job)[type];
        if (value < above || (value == above && after != MATCH_OUT && job <= after)) continue;
        if (best != MATCH_OUT) {
            int64_t least = match_value(match, best)[type];
            if (value > least || (value == least && job > best)) continue;
        }
        best = job;
    }
    return best;
}

/* What the job gains on the type after the cheapest members, taken in order, made room for it. A member
 * that alone is wide enough for what is still missing ends the search. *ret_last: the last to go. */
static int64_t trade_gain(const struct match *match, uint32_t job, uint32_t type,
                          uint32_t *ret_last)
{
    uint32_t width = match->width[job];
    uint32_t room = match->types[type].free;
    int64_t gain = match_value(match, job)[type] * width;
    int64_t above = 0;
    uint32_t last = MATCH_OUT;
    while (room < width && gain > 0) {
        last = next_cheapest(match, type, above, last);
        if (last == MATCH_OUT) return 0;
        above = match_value(match, last)[type];
        gain -= above * match->width[last];
        room += match->width[last];
    }
    *ret_last = last;
    return gain;
}

static void trade(struct match *match, uint32_t job, uint32_t type)
{
    uint32_t width = match->width[job];
    while (match->types[type].free < width) leave(match, next_cheapest(match, type, 0, MATCH_OUT));
    match_put(match, job, type, width);
}

/* The trade that gains most over all waiting jobs and types. */
static bool best_trade(const struct match *match, uint32_t *ret_job, uint32_t *ret_type)
{
    int64_t best = 0;
    for (uint32_t job = 0; job < match->job_end; job++) {
        if (!is_known(match, job) || match->waiting[job] == 0) continue;
        const int64_t *value = match_value(match, job);
        for (uint32_t type = 0; type < match->type_end; type++) {
            if (value[type] <= 0) continue;
            uint32_t last;
            int64_t gain = trade_gain(match, job, type, &last);
            if (gain <= best) continue;
            best = gain;
            *ret_job = job;
            *ret_type = type;
        }
    }
    return best > 0;
}

void match_settle(struct match *match)
{
    ASSERT(!match->settled);
    match->bound = match_total(match);
    for (uint32_t job = 0; job < match->job_end; job++)
        if (is_known(match, job) && !is_whole(match, job)) leave(match, job);
    match->settled = true;
    fill(match);
    for (uint32_t trades = 0; trades < TRADES_MAX; trades++) {
        uint32_t job = 0;
        uint32_t type = 0;
        if (!best_trade(match, &job, &type)) break;
        trade(match, job, type);
        fill(match);
    }
    ASSERT(match_total(match) <= match->bound);
}
