/* Who gets how many devices of which type: one choice per job so that the sum of values is largest.
 *
 * Role       Pure. Knows neither what a value means (goodput.h) nor nodes: a choice is a number of
 *            devices of one type, and counts per type are all that must fit.
 * Shapes     jobs[job_count], each a run of choices[] of its own; a choice of value 0 is never
 *            taken. A job may take none. ret_choice[job_count]: position in the job's own run, or
 *            ALLOT_NONE.
 * Exact      allot_table(): dynamic program over the devices used of each type, at most
 *            ALLOT_STATES_MAX states (product of capacity + 1). The sum is the optimum. Of choices
 *            with equal sums, the later job (from the last to the first) gives way first: none
 *            before its lower position before its higher.
 * Large      allot_price(): a price per device of each type, moved until demand meets capacity;
 *            each job takes its best value less price. Then repair (what is over is given up at the
 *            least loss a device), fill (the most gain a device) and windows: the jobs nearest to a
 *            change are chosen anew by the exact table. bound = the dual value of the best prices,
 *            which no choice can exceed, so every answer says how far from the optimum it can be at
 *            most.
 * Prices     prices[type_count] are in and out: those of the last round are a good start, 0 = none.
 *            Value units times ALLOT_PRICE_ONE per device.
 * Ownership  Borrows its arguments for the call. `memory` is scratch of at least allot_size()
 *            bytes, aligned as malloc() aligns; nothing is kept in it.
 * Bounds     Beyond ALLOT_* the sizes are 0 and the calls return false: wait or use the other form.
 *            A choice of a type that does not exist or of 0 devices is never taken.
 * Formula    Lagrangian relaxation of a multiple-choice knapsack; prices move by exp(step *
 *            excess), the multiplicative form of a subgradient step.
 * Tests      allot_test.c: table = brute force on random small cases; price within the gap it says.
 */
#ifndef SHOAL_CORE_ALLOT_H
#define SHOAL_CORE_ALLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ALLOT_TYPES_MAX = 16,
    ALLOT_STATES_MAX = 1 << 20,
    ALLOT_TABLE_JOBS_MAX = 2047, /* with ALLOT_VALUE_MAX a sum is below 2^31 */
    ALLOT_JOBS_MAX = 1 << 20,
    ALLOT_CHOICES_MAX = 255, /* of one job */
    ALLOT_VALUE_MAX = 1 << 20,
    ALLOT_COUNT_MAX = 1 << 20, /* devices of one type */
    ALLOT_PRICE_ONE = 256,
};
#define ALLOT_NONE UINT32_MAX

struct allot_choice {
    uint32_t type, count, value;
};

struct allot_job {
    uint32_t first, count; /* choices[first .. first + count) */
};

struct allot {
    uint32_t type_count, job_count;
    uint32_t capacity[ALLOT_TYPES_MAX];
    const struct allot_job *jobs;
    const struct allot_choice *choices;
};

struct allot_answer {
    uint64_t value, bound; /* value <= optimum <= bound */
    uint32_t used[ALLOT_TYPES_MAX];
    uint32_t rounds; /* price steps taken; 0 = exact */
};

/* Bytes of scratch for the exact table; 0: too many states, jobs or types. */
size_t allot_table_size(const struct allot *problem);
/* Bytes of scratch for prices with windows of at most `window_states` (0 = none); 0: too large. */
size_t allot_price_size(const struct allot *problem, uint32_t window_states);

/* False: out of bounds, or memory_bytes below the size; nothing is written then. */
bool allot_table(const struct allot *problem, void *memory, size_t memory_bytes,
                 uint32_t *ret_choice, struct allot_answer *ret_answer);
bool allot_price(const struct allot *problem, uint32_t window_states, uint64_t *prices,
                 void *memory, size_t memory_bytes, uint32_t *ret_choice,
                 struct allot_answer *ret_answer);

#endif
