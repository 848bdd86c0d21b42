#include "core/allot_price.h"
#include "core/allot.h"
#include "core/assert.h"
#include <string.h>

enum {
    STEPS_MAX = 40,
    STEP_START = 19661, /* 0.3 in 1/65536 */
    STEP_KEEP = 60948,  /* 0.93: each step is 7 % smaller */
    SHARE_ONE = 65536,
    CLOSE_DIVISOR = 200, /* demand within 0.5 % of capacity ends the search */
};
#define PRICE_MAX ((uint64_t)ALLOT_VALUE_MAX * ALLOT_PRICE_ONE)

bool allot_in_bounds(const struct allot *problem)
{
    if (problem->type_count > ALLOT_TYPES_MAX || problem->job_count > ALLOT_JOBS_MAX) return false;
    for (uint32_t type = 0; type < problem->type_count; type++) {
        if (problem->capacity[type] > ALLOT_COUNT_MAX) return false;
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].count > ALLOT_CHOICES_MAX) return false;
    }
    return true;
}

static bool takes(const struct allot *problem, const struct allot_choice *choice)
{
    return choice->value > 0 && choice->value <= ALLOT_VALUE_MAX && choice->count > 0 &&
           choice->type < problem->type_count && choice->count <= problem->capacity[choice->type];
}

/* No fewer devices of the same type for no more value; of equal ones the first stays. */
static bool is_dominated(const struct allot_choice *all, uint32_t at, uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        if (all[c].value == 0 || all[c].type != all[at].type || c == at) continue;
        if (all[c].count > all[at].count || all[c].value < all[at].value) continue;
        if (c < at || all[c].count < all[at].count || all[c].value > all[at].value) return true;
    }
    return false;
}

void allot_strike_useless(const struct allot *problem, struct allot_choice *choices)
{
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct allot_choice *all = choices + problem->jobs[j].first;
        uint32_t count = problem->jobs[j].count;
        for (uint32_t c = 0; c < count; c++) {
            if (!takes(problem, &all[c])) all[c].value = 0;
        }
        for (uint32_t c = 0; c < count; c++) {
            if (all[c].value > 0 && is_dominated(all, c, count)) all[c].value = 0;
        }
    }
}

int64_t allot_net(const struct allot_choice *choice, const uint64_t *prices)
{
    return (int64_t)choice->value * ALLOT_PRICE_ONE -
           (int64_t)(prices[choice->type] * choice->count);
}

/* ---- prices ---- */

/* What each job takes at these prices. Returns the dual value, in 1/ALLOT_PRICE_ONE. */
static uint64_t respond(const struct allot *problem, const uint64_t *prices, uint32_t *ret_choice,
                        uint64_t *ret_used)
{
    uint64_t dual = 0;
    for (uint32_t type = 0; type < problem->type_count; type++) {
        dual += prices[type] * problem->capacity[type];
        ret_used[type] = 0;
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct allot_choice *choice = problem->choices + problem->jobs[j].first;
        int64_t best = 0;
        uint32_t taken = ALLOT_NONE;
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            if (choice[c].value == 0) continue;
            int64_t net = allot_net(&choice[c], prices);
            if (net <= best) continue;
            best = net;
            taken = c;
        }
        ret_choice[j] = taken;
        if (taken != ALLOT_NONE) ret_used[choice[taken].type] += choice[taken].count;
        dual += (uint64_t)best;
    }
    return dual;
}

/* price * exp(step * excess), excess in [-1, 1]: three terms are within 0.04 % for steps up to 0.3.
 *  */
static uint64_t moved(uint64_t price, uint64_t used, uint32_t capacity, int64_t step)
{
    int64_t excess = ((int64_t)used - capacity) * SHARE_ONE / (capacity > 0 ? capacity : 1);
    if (excess > SHARE_ONE) excess = SHARE_ONE;
    int64_t y = step * excess / SHARE_ONE;
    int64_t factor =
        SHARE_ONE + y + y * y / (2 * SHARE_ONE) + y * y / SHARE_ONE * y / (6 * SHARE_ONE);
    ASSERT(factor > 0);
    uint64_t next = (price * (uint64_t)factor + SHARE_ONE / 2) / SHARE_ONE;
    if (next == price && excess > 0) next++; /* small prices must not stick */
    if (next == 0) return 1;
    return next < PRICE_MAX ? next : PRICE_MAX;
}

static void start_prices(const struct allot *problem, uint64_t *prices)
{
    uint64_t values = 0, devices = 1;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        uint32_t most = 0;
        const struct allot_choice *choice = problem->choices + problem->jobs[j].first;
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            if (choice[c].value > most) most = choice[c].value;
        }
        values += most;
    }
    for (uint32_t type = 0; type < problem->type_count; type++) devices += problem->capacity[type];
    uint64_t price = values * ALLOT_PRICE_ONE / devices + 1;
    for (uint32_t type = 0; type < problem->type_count; type++) {
        if (prices[type] == 0) prices[type] = price;
        if (prices[type] > PRICE_MAX) prices[type] = PRICE_MAX;
    }
}

static bool is_close(const struct allot *problem, const uint64_t *used)
{
    for (uint32_t type = 0; type < problem->type_count; type++) {
        uint64_t capacity = problem->capacity[type];
        uint64_t apart = used[type] > capacity ? used[type] - capacity : capacity - used[type];
        if (apart * CLOSE_DIVISOR > capacity) return false;
    }
    return true;
}

/* Leaves the prices of the lowest dual value in `prices` and what is taken there in ret_choice. */
static void find_prices(const struct allot *problem, uint64_t *prices, uint32_t *ret_choice,
                        struct allot_answer *answer)
{
    uint64_t now[ALLOT_TYPES_MAX], used[ALLOT_TYPES_MAX], best_dual = UINT64_MAX;
    memcpy(now, prices, problem->type_count * sizeof *now);
    int64_t step = STEP_START;
    for (uint32_t i = 0; i < STEPS_MAX; i++, step = step * STEP_KEEP / SHARE_ONE) {
        uint64_t dual = respond(problem, now, ret_choice, used);
        answer->rounds = i + 1;
        if (dual < best_dual) {
            best_dual = dual;
            memcpy(prices, now, problem->type_count * sizeof *now);
        }
        if (is_close(problem, used)) break;
        for (uint32_t type = 0; type < problem->type_count; type++) {
            now[type] = moved(now[type], used[type], problem->capacity[type], step);
        }
    }
    (void)respond(problem, prices, ret_choice, used);
    answer->bound = best_dual / ALLOT_PRICE_ONE;
    for (uint32_t type = 0; type < problem->type_count; type++) {
        answer->used[type] = (uint32_t)used[type];
    }
}

/* ---- from prices to a choice that fits ---- */

struct change {
    uint32_t job, choice;
    int64_t gain, devices; /* ranked by gain / devices */
};

static const struct allot_choice *held(const struct allot *problem, const uint32_t *choice,
                                       uint32_t j)
{
    static const struct allot_choice nothing = {0};
    if (choice[j] == ALLOT_NONE) return &nothing;
    return &problem->choices[problem->jobs[j].first + choice[j]];
}

static void apply(const struct allot *problem, uint32_t j, uint32_t next, uint32_t *choice,
                  struct allot_answer *answer)
{
    const struct allot_choice *from = held(problem, choice, j);
    answer->used[from->type] -= from->count;
    choice[j] = next;
    const struct allot_choice *to = held(problem, choice, j);
    answer->used[to->type] += to->count;
}

static bool is_better(const struct change *a, const struct change *b)
{
    return b->job == ALLOT_NONE || a->gain * b->devices > b->gain * a->devices;
}

/* Of the jobs on `type`, the change that loses least for each device it frees there. */
static struct change least_loss(const struct allot *problem, const uint32_t *choice,
                                const struct allot_answer *answer, uint32_t type)
{
    struct change best = {.job = ALLOT_NONE};
    uint32_t over = answer->used[type] - problem->capacity[type];
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct allot_choice *from = held(problem, choice, j);
        if (from->count == 0 || from->type != type) continue;
        const struct allot_choice *all = problem->choices + problem->jobs[j].first;
        for (uint32_t c = 0; c <= problem->jobs[j].count; c++) {
            bool none = c == problem->jobs[j].count;
            struct change change = {.job = j, .choice = none ? ALLOT_NONE : c};
            uint32_t freed = from->count, value = 0;
            if (!none) {
                const struct allot_choice *to = &all[c];
                if (to->value == 0) continue;
                if (to->type == type && to->count >= from->count) continue;
                if (to->type != type &&
                    (uint64_t)answer->used[to->type] + to->count > problem->capacity[to->type]) {
                    continue;
                }
                if (to->type == type) freed -= to->count;
                value = to->value;
            }
            change.gain = (int64_t)value - (int64_t)from->value;
            change.devices = freed < over ? freed : over;
            if (is_better(&change, &best)) best = change;
        }
    }
    return best;
}

static void repair(const struct allot *problem, uint32_t *choice, struct allot_answer *answer)
{
    for (uint32_t type = 0; type < problem->type_count; type++) {
        while (answer->used[type] > problem->capacity[type]) {
            struct change change = least_loss(problem, choice, answer, type);
            ASSERT(change.job != ALLOT_NONE); /* giving up always frees */
            apply(problem, change.job, change.choice, choice, answer);
        }
    }
}

/* The change into free devices that gains most for each device more; none: .job = ALLOT_NONE. */
static struct change most_gain(const struct allot *problem, const uint32_t *choice,
                               const struct allot_answer *answer)
{
    struct change best = {.job = ALLOT_NONE};
    uint32_t room[ALLOT_TYPES_MAX], most = 0;
    for (uint32_t type = 0; type < problem->type_count; type++) {
        room[type] = problem->capacity[type] - answer->used[type];
        most |= room[type];
    }
    for (uint32_t j = 0; most > 0 && j < problem->job_count; j++) {
        const struct allot_choice *from = held(problem, choice, j);
        const struct allot_choice *all = problem->choices + problem->jobs[j].first;
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            const struct allot_choice *to = &all[c];
            if (to->value <= from->value) continue;
            uint32_t kept = to->type == from->type ? from->count : 0;
            uint32_t more = to->count > kept ? to->count - kept : 0;
            if (more > room[to->type]) continue;
            struct change change = {.job = j, .choice = c};
            change.gain = (int64_t)to->value - (int64_t)from->value;
            change.devices = more > 0 ? more : 1;
            if (is_better(&change, &best)) best = change;
        }
    }
    return best;
}

static void fill(const struct allot *problem, uint32_t *choice, struct allot_answer *answer)
{
    for (;;) { /* ends: the sum of values grows each time */
        struct change change = most_gain(problem, choice, answer);
        if (change.job == ALLOT_NONE) return;
        apply(problem, change.job, change.choice, choice, answer);
    }
}

static void add_up(const struct allot *problem, const uint32_t *choice, struct allot_answer *answer)
{
    answer->value = 0;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        answer->value += held(problem, choice, j)->value;
    }
    for (uint32_t type = 0; type < problem->type_count; type++) {
        ASSERT(answer->used[type] <= problem->capacity[type]);
    }
    ASSERT(answer->value <= answer->bound);
}

void allot_by_price(const struct allot *problem, uint64_t *prices, uint32_t *ret_choice,
                    struct allot_answer *ret_answer)
{
    *ret_answer = (struct allot_answer){0};
    start_prices(problem, prices);
    find_prices(problem, prices, ret_choice, ret_answer);
    repair(problem, ret_choice, ret_answer);
    fill(problem, ret_choice, ret_answer);
    add_up(problem, ret_choice, ret_answer);
}
