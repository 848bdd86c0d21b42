#include "sim/queue.h"
#include "core/assert.h"
#include <stddef.h>

static bool before(const struct sim_occurrence *a, const struct sim_occurrence *b)
{
    if (a->at_us != b->at_us) return a->at_us < b->at_us;
    return a->tie < b->tie;
}

void sim_queue_init(struct sim_queue *queue, struct sim_occurrence *items, uint32_t capacity)
{
    ASSERT(items != NULL);
    *queue = (struct sim_queue){.items = items, .capacity = capacity};
}

bool sim_queue_push(struct sim_queue *queue, struct sim_occurrence occurrence)
{
    if (queue->count == queue->capacity) return false;
    occurrence.tie = queue->tie_next++;
    uint32_t hole = queue->count++;
    while (hole > 0) {
        uint32_t parent = (hole - 1) / 2;
        if (!before(&occurrence, &queue->items[parent])) break;
        queue->items[hole] = queue->items[parent];
        hole = parent;
    }
    queue->items[hole] = occurrence;
    return true;
}

bool sim_queue_pop(struct sim_queue *queue, struct sim_occurrence *ret_occurrence)
{
    if (queue->count == 0) return false;
    *ret_occurrence = queue->items[0];
    struct sim_occurrence last = queue->items[--queue->count];
    uint32_t hole = 0;
    for (;;) {
        uint32_t child = 2 * hole + 1;
        if (child >= queue->count) break;
        if (child + 1 < queue->count && before(&queue->items[child + 1], &queue->items[child]))
            child++;
        if (!before(&queue->items[child], &last)) break;
        queue->items[hole] = queue->items[child];
        hole = child;
    }
    if (queue->count > 0) queue->items[hole] = last;
    return true;
}
