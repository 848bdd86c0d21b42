#include "server/array.h"
#include "base/mem.h"
#include "core/assert.h"
#include <string.h>

void array_init(struct array *a, size_t item_bytes)
{
    *a = (struct array){.item_bytes = item_bytes};
}

bool array_reserve(struct array *a, uint32_t more)
{
    if (a->capacity - a->count >= more) return true;
    if (more > UINT32_MAX / 4 || a->capacity > UINT32_MAX / 4) return false;
    uint32_t capacity = a->capacity == 0 ? 16 : a->capacity * 2;
    while (capacity - a->count < more) capacity *= 2;
    void *items = mem_realloc(a->items, capacity * a->item_bytes);
    if (items == NULL) return false;
    a->items = items;
    a->capacity = capacity;
    return true;
}

void *array_push(struct array *a)
{
    if (!array_reserve(a, 1)) return NULL;
    void *item = (char *)a->items + a->count * a->item_bytes;
    memset(item, 0, a->item_bytes);
    a->count++;
    return item;
}

void *array_at(const struct array *a, uint32_t index)
{
    ASSERT(index < a->count);
    return (char *)a->items + index * a->item_bytes;
}

void array_clear(struct array *a)
{
    a->count = 0;
}

void array_free(struct array *a)
{
    mem_free(a->items);
    a->items = NULL;
    a->count = a->capacity = 0;
}
