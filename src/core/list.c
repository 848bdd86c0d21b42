#include "core/list.h"
#include "core/assert.h"

void list_clear(struct list *list)
{
    *list = (struct list){.head = SLOT_NONE, .tail = SLOT_NONE, .count = 0};
}

struct link *list_link(struct chain chain, uint32_t slot)
{
    ASSERT(slot != SLOT_NONE);
    return (struct link *)(void *)((uint8_t *)chain.first + chain.stride * slot);
}

void list_append(struct list *list, struct chain chain, uint32_t slot)
{
    list_insert(list, chain, slot, SLOT_NONE);
}

void list_insert(struct list *list, struct chain chain, uint32_t slot, uint32_t before)
{
    struct link *link = list_link(chain, slot);
    link->next = before;
    link->previous = before == SLOT_NONE ? list->tail : list_link(chain, before)->previous;
    if (link->previous == SLOT_NONE)
        list->head = slot;
    else
        list_link(chain, link->previous)->next = slot;
    if (before == SLOT_NONE)
        list->tail = slot;
    else
        list_link(chain, before)->previous = slot;
    list->count++;
}

void list_remove(struct list *list, struct chain chain, uint32_t slot)
{
    struct link *link = list_link(chain, slot);
    ASSERT(list->count > 0);
    if (link->previous == SLOT_NONE)
        list->head = link->next;
    else
        list_link(chain, link->previous)->next = link->next;
    if (link->next == SLOT_NONE)
        list->tail = link->previous;
    else
        list_link(chain, link->next)->previous = link->previous;
    link->previous = link->next = SLOT_NONE;
    list->count--;
}
