#include "core/allot.h"
#include "core/assert.h"
#include <string.h>

/* sums[job][state]: the largest value of the first `job` jobs with at most `state` devices used.
 * The whole history is kept, so walking back needs no record of choices: it looks for the one that
 * fits. */

struct table {
    const struct allot *problem;
    uint32_t state_count;
    uint32_t stride[ALLOT_TYPES_MAX], extent[ALLOT_TYPES_MAX]; /* extent = devices + 1 */
    int32_t *sums;
};

static uint32_t wanted_most(const struct allot *problem, uint32_t type)
{
    uint64_t wanted = 0;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        uint32_t most = 0;
        const struct allot_choice *choice = problem->choices + problem->jobs[j].first;
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            if (choice[c].type == type && choice[c].count > most &&
                choice[c].count <= problem->capacity[type] && choice[c].value > 0) {
                most = choice[c].count;
            }
        }
        wanted += most;
    }
    return wanted < problem->capacity[type] ? (uint32_t)wanted : problem->capacity[type];
}

/* Devices that nobody could use make no states. False: out of bounds. */
static bool shape(struct table *t, const struct allot *problem)
{
    *t = (struct table){.problem = problem, .state_count = 1};
    if (problem->type_count > ALLOT_TYPES_MAX) return false;
    if (problem->job_count > ALLOT_TABLE_JOBS_MAX) return false;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].count > ALLOT_CHOICES_MAX) return false;
    }
    for (uint32_t type = problem->type_count; type-- > 0;) {
        if (problem->capacity[type] > ALLOT_COUNT_MAX) return false;
        t->stride[type] = t->state_count;
        t->extent[type] = wanted_most(problem, type) + 1;
        if ((uint64_t)t->state_count * t->extent[type] > ALLOT_STATES_MAX) return false;
        t->state_count *= t->extent[type];
    }
    return true;
}

size_t allot_table_size(const struct allot *problem)
{
    struct table t;
    if (!shape(&t, problem)) return 0;
    return ((size_t)problem->job_count + 1) * t.state_count * sizeof *t.sums;
}

static bool takes(const struct table *t, const struct allot_choice *choice)
{
    return choice->value > 0 && choice->value <= ALLOT_VALUE_MAX && choice->count > 0 &&
           choice->type < t->problem->type_count && choice->count < t->extent[choice->type];
}

/* A choice of the same type that gives more for no more devices: this one is never better. */
static bool is_dominated(const struct table *t, const struct allot_choice *choice,
                         const struct allot_choice *all, uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        if (all[c].type != choice->type || all[c].count > choice->count) continue;
        if (!takes(t, &all[c])) continue;
        if (all[c].value > choice->value) return true;
        if (all[c].value == choice->value && all[c].count < choice->count) return true;
    }
    return false;
}

/* States with one type's use below `count` are left alone; the rest of each block is one run. */
static void offer(const struct table *t, const int32_t *restrict before, int32_t *restrict after,
                  const struct allot_choice *choice)
{
    uint32_t block = t->stride[choice->type] * t->extent[choice->type];
    uint32_t shift = t->stride[choice->type] * choice->count;
    int32_t value = (int32_t)choice->value;
    for (uint32_t start = 0; start < t->state_count; start += block) {
        const int32_t *from = before + start;
        int32_t *to = after + start + shift;
        for (uint32_t i = 0; i < block - shift; i++) {
            int32_t sum = from[i] + value;
            to[i] = sum > to[i] ? sum : to[i];
        }
    }
}

static void fill(const struct table *t)
{
    const struct allot *problem = t->problem;
    memset(t->sums, 0, t->state_count * sizeof *t->sums);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const int32_t *before = t->sums + (size_t)j * t->state_count;
        int32_t *after = t->sums + ((size_t)j + 1) * t->state_count;
        memcpy(after, before, t->state_count * sizeof *after);
        const struct allot_choice *choice = problem->choices + problem->jobs[j].first;
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            if (!takes(t, &choice[c])) continue;
            if (is_dominated(t, &choice[c], choice, problem->jobs[j].count)) continue;
            offer(t, before, after, &choice[c]);
        }
    }
}

static uint32_t walk_back_one(const struct table *t, uint32_t j, uint32_t state,
                              const uint32_t *left)
{
    const int32_t *before = t->sums + (size_t)j * t->state_count;
    int32_t sum = before[t->state_count + state];
    if (before[state] == sum) return ALLOT_NONE;
    const struct allot_choice *choice = t->problem->choices + t->problem->jobs[j].first;
    for (uint32_t c = 0; c < t->problem->jobs[j].count; c++) {
        if (!takes(t, &choice[c]) || choice[c].count > left[choice[c].type]) continue;
        uint32_t from = state - choice[c].count * t->stride[choice[c].type];
        if (before[from] + (int32_t)choice[c].value == sum) return c;
    }
    UNREACHABLE();
}

static void walk_back(const struct table *t, uint32_t *ret_choice, struct allot_answer *ret_answer)
{
    uint32_t left[ALLOT_TYPES_MAX] = {0}, state = t->state_count - 1;
    for (uint32_t type = 0; type < t->problem->type_count; type++) {
        left[type] = t->extent[type] - 1;
    }
    for (uint32_t j = t->problem->job_count; j-- > 0;) {
        uint32_t c = walk_back_one(t, j, state, left);
        ret_choice[j] = c;
        if (c == ALLOT_NONE) continue;
        const struct allot_choice *choice = &t->problem->choices[t->problem->jobs[j].first + c];
        left[choice->type] -= choice->count;
        state -= choice->count * t->stride[choice->type];
        ret_answer->used[choice->type] += choice->count;
        ret_answer->value += choice->value;
    }
    ASSERT(ret_answer->value ==
           (uint64_t)t->sums[((size_t)t->problem->job_count + 1) * t->state_count - 1]);
}

bool allot_table(const struct allot *problem, void *memory, size_t memory_bytes,
                 uint32_t *ret_choice, struct allot_answer *ret_answer)
{
    struct table t;
    size_t bytes = allot_table_size(problem);
    if (bytes == 0 || bytes > memory_bytes) return false;
    bool fits = shape(&t, problem);
    ASSERT(fits);
    t.sums = memory;
    fill(&t);
    *ret_answer = (struct allot_answer){0};
    walk_back(&t, ret_choice, ret_answer);
    ret_answer->bound = ret_answer->value;
    return true;
}
