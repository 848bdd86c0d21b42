#include "core/allot.h"
#include "core/allot_price.h"
#include "core/assert.h"
#include <string.h>

/* What prices leave open is closed by the exact table. At the best prices a choice whose net lies
 * further below its job's best net than bound - value cannot be part of anything better than what
 * is held: it is struck out. What remains is often small enough to be solved whole; otherwise
 * windows of the jobs whose two best choices are nearest to each other are solved one after the
 * other. */

enum {
    WINDOWS_MAX = 8,
    WINDOW_JOBS_MAX = 64,
};

struct window {
    const struct allot *problem;
    uint32_t state_limit;
    struct allot_choice *choices; /* the problem's; what is struck out has value 0 */
    uint64_t *order;              /* distance << 20 | job, ascending */
    struct allot_job jobs[WINDOW_JOBS_MAX];
    uint32_t members[WINDOW_JOBS_MAX];
    void *table;
    size_t table_bytes;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

static size_t choices_end(const struct allot *problem)
{
    size_t end = 0;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        size_t last = (size_t)problem->jobs[j].first + problem->jobs[j].count;
        if (last > end) end = last;
    }
    return end;
}

static size_t table_bytes(uint32_t window_states)
{
    return aligned((size_t)(WINDOW_JOBS_MAX + 1) * window_states * sizeof(int32_t));
}

size_t allot_price_size(const struct allot *problem, uint32_t window_states)
{
    if (!allot_in_bounds(problem) || window_states > ALLOT_STATES_MAX) return 0;
    return aligned(sizeof(struct window)) +
           aligned(choices_end(problem) * sizeof(struct allot_choice)) +
           aligned(problem->job_count * sizeof(uint64_t)) + table_bytes(window_states);
}

static struct window *lay_out(const struct allot *problem, uint32_t window_states, void *memory)
{
    struct window *w = memory;
    uint8_t *at = (uint8_t *)memory + aligned(sizeof *w);
    size_t count = choices_end(problem);
    w->problem = problem;
    w->state_limit = window_states;
    w->choices = (struct allot_choice *)(void *)at;
    at += aligned(count * sizeof *w->choices);
    w->order = (uint64_t *)(void *)at;
    at += aligned(problem->job_count * sizeof *w->order);
    w->table = at;
    w->table_bytes = table_bytes(window_states);
    if (count > 0) memcpy(w->choices, problem->choices, count * sizeof *w->choices);
    return w;
}

static void sift(uint64_t *keys, uint32_t at, uint32_t count)
{
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && keys[child + 1] > keys[child]) child++;
        if (keys[at] >= keys[child]) return;
        uint64_t key = keys[at];
        keys[at] = keys[child];
        keys[child] = key;
    }
}

static void sort(uint64_t *keys, uint32_t count)
{
    for (uint32_t at = count / 2; at-- > 0;) sift(keys, at, count);
    for (uint32_t end = count; end-- > 1;) {
        uint64_t key = keys[0];
        keys[0] = keys[end];
        keys[end] = key;
        sift(keys, 0, end);
    }
}

/* Strikes out what cannot help; sorts the jobs by how little the held choice is the only one. */
static void strike_out(struct window *w, const uint64_t *prices, const uint32_t *choice,
                       const struct allot_answer *answer)
{
    const struct allot *problem = w->problem;
    int64_t open = (int64_t)(answer->bound - answer->value + 1) * ALLOT_PRICE_ONE;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct allot_choice *all = w->choices + problem->jobs[j].first;
        int64_t best = 0, second = INT64_MIN; /* taking nothing has net 0 */
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            if (all[c].value == 0) continue;
            int64_t net = allot_net(&all[c], prices);
            if (net > best) {
                second = best;
                best = net;
            } else if (net > second) {
                second = net;
            }
        }
        if (best > 0 && second < 0) second = 0;
        for (uint32_t c = 0; c < problem->jobs[j].count; c++) {
            if (c == choice[j] || all[c].value == 0) continue;
            if (best - allot_net(&all[c], prices) > open) all[c].value = 0;
        }
        uint64_t apart = second == INT64_MIN ? (UINT64_C(1) << 43) : (uint64_t)(best - second);
        if (apart > UINT64_C(1) << 43) apart = UINT64_C(1) << 43;
        w->order[j] = apart << 20 | j;
    }
    sort(w->order, problem->job_count);
}

/* Takes jobs from `first` on while the table of what they hold and what is free stays small. */
static uint32_t take_jobs(struct window *w, uint32_t first, const uint32_t *choice,
                          const struct allot_answer *answer, struct allot *ret_part)
{
    const struct allot *problem = w->problem;
    *ret_part =
        (struct allot){.type_count = problem->type_count, .jobs = w->jobs, .choices = w->choices};
    for (uint32_t type = 0; type < problem->type_count; type++) {
        ret_part->capacity[type] = problem->capacity[type] - answer->used[type];
    }
    for (uint32_t i = first; i < problem->job_count; i++) {
        if (ret_part->job_count == WINDOW_JOBS_MAX) break;
        uint32_t j = (uint32_t)(w->order[i] & ((1 << 20) - 1));
        const struct allot_choice *now =
            choice[j] == ALLOT_NONE ? NULL : &w->choices[problem->jobs[j].first + choice[j]];
        if (now != NULL) ret_part->capacity[now->type] += now->count;
        uint64_t states = 1;
        for (uint32_t type = 0; type < problem->type_count && states <= w->state_limit; type++) {
            states *= (uint64_t)ret_part->capacity[type] + 1;
        }
        if (states > w->state_limit) {
            if (now != NULL) ret_part->capacity[now->type] -= now->count;
            break;
        }
        w->jobs[ret_part->job_count] = problem->jobs[j];
        w->members[ret_part->job_count++] = j;
    }
    return ret_part->job_count;
}

static void solve_part(struct window *w, const struct allot *part, uint32_t *choice,
                       struct allot_answer *answer)
{
    uint32_t chosen[WINDOW_JOBS_MAX];
    struct allot_answer exact;
    bool solved = allot_table(part, w->table, w->table_bytes, chosen, &exact);
    ASSERT(solved);
    uint64_t before = 0;
    for (uint32_t i = 0; i < part->job_count; i++) {
        uint32_t j = w->members[i];
        if (choice[j] == ALLOT_NONE) continue;
        const struct allot_choice *now = &w->choices[w->problem->jobs[j].first + choice[j]];
        before += now->value;
        answer->used[now->type] -= now->count;
    }
    ASSERT(exact.value >= before);
    for (uint32_t type = 0; type < part->type_count; type++) {
        answer->used[type] += exact.used[type];
    }
    for (uint32_t i = 0; i < part->job_count; i++) choice[w->members[i]] = chosen[i];
    answer->value += exact.value - before;
}

bool allot_price(const struct allot *problem, uint32_t window_states, uint64_t *prices,
                 void *memory, size_t memory_bytes, uint32_t *ret_choice,
                 struct allot_answer *ret_answer)
{
    size_t bytes = allot_price_size(problem, window_states);
    if (bytes == 0 || bytes > memory_bytes) return false;
    struct window *w = lay_out(problem, window_states, memory);
    allot_strike_useless(problem, w->choices);
    struct allot useful = *problem;
    useful.choices = w->choices;
    allot_by_price(&useful, prices, ret_choice, ret_answer);
    if (window_states == 0 || ret_answer->value == ret_answer->bound) return true;
    strike_out(w, prices, ret_choice, ret_answer);
    uint32_t first = 0;
    for (uint32_t i = 0; i < WINDOWS_MAX && first < problem->job_count; i++) {
        struct allot part;
        uint32_t taken = take_jobs(w, first, ret_choice, ret_answer, &part);
        if (taken > 1) solve_part(w, &part, ret_choice, ret_answer);
        if (taken == problem->job_count) ret_answer->bound = ret_answer->value; /* solved whole */
        first += taken > 1 ? (taken + 1) / 2 : 1;
    }
    ASSERT(ret_answer->value <= ret_answer->bound);
    return true;
}
