/* A priority queue of small numbers with a key each: timers, and jobs waiting to be planned.
 *
 * Role       Each id is in the heap at most once; its key can change. O(log n): four children each, and
 *            keys lie in the order of the heap, so a level costs one line of the cache.
 * Order      By key, ties by id: a total order, so what comes out does not depend on how it got in,
 *            and a heap rebuilt from a snapshot behaves as the one that was written.
 * Memory     The caller's: three arrays of id_end entries.
 */
#ifndef SHOAL_CORE_HEAP_H
#define SHOAL_CORE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_KEY_NEVER INT64_MAX

struct heap {
    uint32_t *ids;       /* the heap itself */
    uint32_t *positions; /* of each id; SLOT_NONE = not in */
    int64_t *keys;       /* of the heap's entries, not by id */
    uint32_t count, id_end;
};

void heap_clear(struct heap *heap);
void heap_set(struct heap *heap, uint32_t id, int64_t key); /* HEAP_KEY_NEVER takes it out */
int64_t heap_key(const struct heap *heap, uint32_t id);     /* HEAP_KEY_NEVER = not in */
int64_t heap_first_key(const struct heap *heap);            /* HEAP_KEY_NEVER = empty */
uint32_t heap_first(const struct heap *heap);               /* not empty */
void heap_check(const struct heap *heap);

#endif
