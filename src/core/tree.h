/* A priority queue inside slots that are somewhere anyway: a pairing heap.
 *
 * Role       Like heap.h without arrays of its own: any number of small queues share the slots of one
 *            table. Insert O(1), take out O(log n) amortised.
 * Order      By key, ties by slot: what is first does not depend on the order in which they came.
 * Rules      A slot is in one tree at most. Its key is set before it goes in, and stays until it is out.
 */
#ifndef SHOAL_CORE_TREE_H
#define SHOAL_CORE_TREE_H

#include "core/list.h"
#include <stddef.h>
#include <stdint.h>

struct tree_link {
    int64_t key;
    uint32_t child, next, previous; /* previous of the first child: its parent */
    uint32_t reserved;
};

/* Where the links are: the link of slot 0, and the distance to the next slot's. */
struct tree_chain {
    struct tree_link *first;
    size_t stride;
};

#define TREE_CHAIN(array, field)                                                                   \
    ((struct tree_chain){.first = &(array)[0].field, .stride = sizeof((array)[0])})

/* *root: the first; SLOT_NONE = empty. */
void tree_insert(uint32_t *root, struct tree_chain chain, uint32_t slot);
void tree_remove(uint32_t *root, struct tree_chain chain, uint32_t slot);

#endif
