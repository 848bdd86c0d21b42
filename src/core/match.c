#include "core/match.h"
#include "core/assert.h"
#include "core/match_state.h"
#include <string.h>

#define GAIN_NONE (-(INT64_C(1) << 62)) /* no way; far below any sum of values */

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

static size_t cells(const struct match_limits *limits)
{
    return (size_t)limits->jobs * limits->types;
}

size_t match_bytes(const struct match_limits *limits)
{
    ASSERT(limits->types > 0);
    ASSERT(limits->types <= MATCH_TYPES_MAX);
    ASSERT(limits->jobs <= MATCH_JOBS_MAX);
    return aligned(sizeof(struct match)) + aligned(cells(limits) * sizeof(int64_t)) +
           aligned(cells(limits) * sizeof(uint32_t)) +
           2 * aligned((size_t)limits->jobs * sizeof(uint32_t)) +
           aligned((size_t)limits->devices * sizeof(uint32_t));
}

static void *take(uint8_t **memory, size_t bytes)
{
    void *taken = *memory;
    *memory += aligned(bytes);
    return taken;
}

struct match *match_init(void *memory, const struct match_limits *limits)
{
    uint8_t *rest = memory;
    struct match *match = take(&rest, sizeof *match);
    memset(match, 0, sizeof *match);
    match->job_end = limits->jobs;
    match->type_end = limits->types;
    match->device_end = limits->devices;
    match->value = take(&rest, cells(limits) * sizeof *match->value);
    match->units = take(&rest, cells(limits) * sizeof *match->units);
    match->width = take(&rest, (size_t)limits->jobs * sizeof *match->width);
    match->waiting = take(&rest, (size_t)limits->jobs * sizeof *match->waiting);
    match->members = take(&rest, (size_t)limits->devices * sizeof *match->members);
    return match;
}

void match_clear(struct match *match, const uint32_t *capacity)
{
    uint32_t first = 0;
    for (uint32_t type = 0; type < match->type_end; type++) {
        ASSERT(capacity[type] <= MATCH_DEVICES_MAX);
        match->types[type] = (struct match_type){
            .capacity = capacity[type], .free = capacity[type], .first = first, .stale = true};
        first += capacity[type];
    }
    ASSERT(first <= match->device_end);
    memset(match->width, 0, (size_t)match->job_end * sizeof *match->width);
    match->stale = true;
    match->settled = false;
}

/* The best job to move from one type to each other, and to leave it. */
static void weigh_moves(struct match *match, uint32_t from)
{
    struct match_type *type = &match->types[from];
    for (uint32_t to = 0; to <= match->type_end; to++)
        type->moves[to] = (struct match_move){.gain = GAIN_NONE, .job = MATCH_OUT};
    for (uint32_t i = 0; i < type->members; i++) {
        uint32_t job = match->members[type->first + i];
        const int64_t *value = match_value(match, job);
        for (uint32_t to = 0; to <= match->type_end; to++) {
            bool leaves = to == match->type_end;
            if (to == from || (!leaves && value[to] <= 0)) continue;
            int64_t gain = (leaves ? 0 : value[to]) - value[from];
            struct match_move *best = &type->moves[to];
            if (gain > best->gain || (gain == best->gain && job < best->job))
                *best = (struct match_move){.gain = gain, .job = job};
        }
    }
    type->stale = false;
}

/* For each type what it costs to take one of its devices: 0 when one is free, else the best chain of
 * moves that ends at a free device or with a job that waits. No chain has a cycle of positive gain
 * (that would be a better matching of the same jobs), so types - 1 sweeps suffice. */
static void weigh_exits(struct match *match)
{
    uint32_t end = match->type_end;
    for (uint32_t type = 0; type < end; type++) {
        struct match_type *t = &match->types[type];
        if (t->stale) weigh_moves(match, type);
        t->exit_gain = t->moves[end].gain;
        t->exit_next = end;
        if (t->free > 0) {
            t->exit_gain = 0;
            t->exit_next = type;
        }
    }
    for (uint32_t sweep = 0; sweep < end; sweep++) {
        bool changed = false;
        for (uint32_t from = 0; from < end; from++) {
            struct match_type *f = &match->types[from];
            for (uint32_t to = 0; to < end; to++) {
                if (to == from || f->moves[to].job == MATCH_OUT) continue;
                if (match->types[to].exit_gain == GAIN_NONE) continue;
                int64_t gain = f->moves[to].gain + match->types[to].exit_gain;
                if (gain <= f->exit_gain) continue;
                f->exit_gain = gain;
                f->exit_next = to;
                changed = true;
            }
        }
        if (!changed) break;
    }
    match->stale = false;
}

void match_put(struct match *match, uint32_t job, uint32_t type, uint32_t units)
{
    struct match_type *t = &match->types[type];
    uint32_t *held = match_units(match, job);
    ASSERT(units > 0);
    ASSERT(t->free >= units);
    ASSERT(match->waiting[job] >= units);
    if (held[type] == 0) match->members[t->first + t->members++] = job;
    held[type] += units;
    match->waiting[job] -= units;
    t->free -= units;
    t->stale = true;
    match->stale = true;
}

void match_take(struct match *match, uint32_t job, uint32_t type, uint32_t units)
{
    struct match_type *t = &match->types[type];
    uint32_t *held = match_units(match, job);
    ASSERT(held[type] >= units);
    held[type] -= units;
    match->waiting[job] += units;
    t->free += units;
    t->stale = true;
    match->stale = true;
    if (held[type] > 0) return;
    uint32_t i = 0;
    while (match->members[t->first + i] != job) i++;
    ASSERT(i < t->members);
    match->members[t->first + i] = match->members[t->first + --t->members];
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct chain_step {
    uint32_t job, from, to; /* to = type_end: leaves */
};

/* The moves behind the entry to a type, and how many devices can go that way at once. */
static uint32_t follow_exit(const struct match *match, uint32_t type, struct chain_step *steps,
                            uint32_t *ret_units)
{
    uint32_t count = 0;
    uint32_t units = UINT32_MAX;
    uint32_t at = type;
    while (at != match->type_end) {
        const struct match_type *t = &match->types[at];
        if (t->exit_next == at) {
            units = least(units, t->free);
            break;
        }
        ASSERT(count < MATCH_TYPES_MAX);
        uint32_t job = t->moves[t->exit_next].job;
        steps[count++] = (struct chain_step){.job = job, .from = at, .to = t->exit_next};
        units = least(units, match->units[(size_t)job * match->type_end + at]);
        at = t->exit_next;
    }
    *ret_units = units;
    return count;
}

/* Makes room for at most `units` devices in the type; returns how many. The last step of the chain goes
 * first: it frees what the one before it takes. */
static uint32_t make_room(struct match *match, uint32_t type, uint32_t units_max)
{
    struct chain_step steps[MATCH_TYPES_MAX];
    uint32_t units;
    uint32_t count = follow_exit(match, type, steps, &units);
    units = least(units, units_max);
    ASSERT(units > 0);
    while (count > 0) {
        struct chain_step step = steps[--count];
        match_take(match, step.job, step.from, units);
        if (step.to != match->type_end) match_put(match, step.job, step.to, units);
    }
    return units;
}

/* The type where the waiting job gains most; MATCH_OUT: it gains nowhere. */
static uint32_t best_entry(const struct match *match, uint32_t job, int64_t *ret_gain)
{
    const int64_t *value = match_value(match, job);
    uint32_t best = MATCH_OUT;
    int64_t best_gain = 0;
    for (uint32_t type = 0; type < match->type_end; type++) {
        if (value[type] <= 0 || match->types[type].exit_gain == GAIN_NONE) continue;
        int64_t gain = value[type] + match->types[type].exit_gain;
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = type;
    }
    *ret_gain = best_gain;
    return best;
}

static void come_in(struct match *match, uint32_t job, uint32_t type)
{
    uint32_t units = make_room(match, type, match->waiting[job]);
    match_put(match, job, type, units);
}

void match_add(struct match *match, uint32_t job, uint32_t width, const int64_t *value)
{
    ASSERT(job < match->job_end);
    ASSERT(match->width[job] == 0);
    ASSERT(width > 0);
    ASSERT(width <= MATCH_DEVICES_MAX);
    ASSERT(!match->settled);
    match->width[job] = width;
    match->waiting[job] = width;
    for (uint32_t type = 0; type < match->type_end; type++) {
        ASSERT(value[type] <= MATCH_VALUE_MAX);
        bool fits = width <= match->types[type].capacity;
        match_value_row(match, job)[type] = fits ? value[type] : 0;
        match_units(match, job)[type] = 0;
    }
    while (match->waiting[job] > 0) {
        int64_t gain;
        if (match->stale) weigh_exits(match);
        uint32_t type = best_entry(match, job, &gain);
        if (type == MATCH_OUT) break;
        come_in(match, job, type);
    }
}

/* The waiting job that gains most, and where. */
static uint32_t best_waiting(const struct match *match, uint32_t *ret_type, int64_t *ret_gain)
{
    uint32_t best = MATCH_OUT;
    int64_t best_gain = 0;
    for (uint32_t job = 0; job < match->job_end; job++) {
        if (match->width[job] == 0 || match->waiting[job] == 0) continue;
        int64_t gain;
        uint32_t type = best_entry(match, job, &gain);
        if (type == MATCH_OUT || gain <= best_gain) continue;
        best_gain = gain;
        best = job;
        *ret_type = type;
    }
    *ret_gain = best_gain;
    return best;
}

/* Devices became free: until nobody gains, the best of a waiting job that comes in and a chain of moves
 * that ends at a free device. */
static void use_free(struct match *match)
{
    for (;;) {
        int64_t gain;
        uint32_t type = 0;
        weigh_exits(match);
        uint32_t job = best_waiting(match, &type, &gain);
        uint32_t mover = MATCH_OUT;
        for (uint32_t at = 0; at < match->type_end; at++) {
            if (match->types[at].members == 0 || match->types[at].exit_gain <= gain) continue;
            gain = match->types[at].exit_gain;
            mover = at;
        }
        if (mover != MATCH_OUT)
            (void)make_room(match, mover, MATCH_DEVICES_MAX); /* the room stays free */
        else if (job != MATCH_OUT)
            come_in(match, job, type);
        else
            return;
    }
}

void match_remove(struct match *match, uint32_t job)
{
    ASSERT(job < match->job_end);
    ASSERT(match->width[job] > 0);
    ASSERT(!match->settled);
    bool held = match->waiting[job] < match->width[job];
    for (uint32_t type = 0; type < match->type_end; type++) {
        uint32_t units = match_units(match, job)[type];
        if (units > 0) match_take(match, job, type, units);
    }
    match->width[job] = 0;
    if (held) use_free(match);
}

uint32_t match_type(const struct match *match, uint32_t job)
{
    ASSERT(job < match->job_end);
    if (match->width[job] == 0) return MATCH_OUT;
    const uint32_t *units = &match->units[(size_t)job * match->type_end];
    for (uint32_t type = 0; type < match->type_end; type++)
        if (units[type] > 0) return units[type] == match->width[job] ? type : MATCH_OUT;
    return MATCH_OUT;
}

uint32_t match_free(const struct match *match, uint32_t type)
{
    ASSERT(type < match->type_end);
    return match->types[type].free;
}

int64_t match_price(struct match *match, uint32_t type)
{
    ASSERT(type < match->type_end);
    if (match->stale) weigh_exits(match);
    int64_t gain = match->types[type].exit_gain;
    return gain == GAIN_NONE ? MATCH_VALUE_MAX : -gain; /* a type without devices is beyond price */
}

int64_t match_total(const struct match *match)
{
    int64_t total = 0;
    for (uint32_t type = 0; type < match->type_end; type++) {
        const struct match_type *t = &match->types[type];
        for (uint32_t i = 0; i < t->members; i++) {
            size_t cell = (size_t)match->members[t->first + i] * match->type_end + type;
            total += match->value[cell] * match->units[cell];
        }
    }
    return total;
}

int64_t match_bound(const struct match *match)
{
    return match->settled ? match->bound : match_total(match);
}

void match_check(const struct match *match)
{
    for (uint32_t type = 0; type < match->type_end; type++) {
        const struct match_type *t = &match->types[type];
        uint32_t used = 0;
        for (uint32_t i = 0; i < t->members; i++) {
            uint32_t job = match->members[t->first + i];
            size_t cell = (size_t)job * match->type_end + type;
            ASSERT(match->width[job] > 0);
            ASSERT(match->units[cell] > 0);
            ASSERT(match->value[cell] > 0);
            used += match->units[cell];
        }
        ASSERT(used + t->free == t->capacity);
    }
    for (uint32_t job = 0; job < match->job_end; job++) {
        if (match->width[job] == 0) continue;
        uint32_t units = match->waiting[job];
        for (uint32_t type = 0; type < match->type_end; type++)
            units += match->units[(size_t)job * match->type_end + type];
        ASSERT(units == match->width[job]);
        if (match->settled && match->waiting[job] != match->width[job])
            ASSERT(match_type(match, job) != MATCH_OUT);
    }
}
