/* Intrusive lists over fixed slots, in the order in which things were put in.
 *
 * Role       A link lives inside the slot it chains; a chain says where. Links are slot numbers, so
 *            a list survives a snapshot as it is.
 * Rules      A slot is in a list at most once; whoever removes knows that it is in.
 */
#ifndef SHOAL_CORE_LIST_H
#define SHOAL_CORE_LIST_H

#include <stddef.h>
#include <stdint.h>

#define SLOT_NONE UINT32_MAX

struct link {
    uint32_t previous, next;
};

struct list {
    uint32_t head, tail, count;
};

/* Where the links are: the link of slot 0, and the distance to the next slot's. */
struct chain {
    struct link *first;
    size_t stride;
};

void list_clear(struct list *list);
struct link *list_link(struct chain chain, uint32_t slot);
void list_append(struct list *list, struct chain chain, uint32_t slot);
/* before = SLOT_NONE: at the end. */
void list_insert(struct list *list, struct chain chain, uint32_t slot, uint32_t before);
void list_remove(struct list *list, struct chain chain, uint32_t slot);

#endif
