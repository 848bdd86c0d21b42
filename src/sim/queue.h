/* What will happen next: a heap of occurrences ordered by (at_us, tie).
 *
 * Role       The only clock of the simulator. `tie` is the order of insertion, so two things at the
 *            same microsecond happen in the order in which they were planned: one total order, the
 *            same on every machine.
 * Ownership  The caller gives the array; nothing is allocated.
 */
#ifndef SHOAL_SIM_QUEUE_H
#define SHOAL_SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_occurrence {
    int64_t at_us;
    uint64_t tie;
    uint32_t actor, what; /* enum sim_actor, and a number of that actor's own */
    uint64_t key, value;
};

struct sim_queue {
    struct sim_occurrence *items;
    uint32_t count, capacity;
    uint64_t tie_next;
};

void sim_queue_init(struct sim_queue *queue, struct sim_occurrence *items, uint32_t capacity);
/* False when the queue is full: the world plans without bound, which is a failure of its own. */
bool sim_queue_push(struct sim_queue *queue, struct sim_occurrence occurrence);
bool sim_queue_pop(struct sim_queue *queue, struct sim_occurrence *ret_occurrence);

#endif
