#include "server/keyed.h"
#include <string.h>

static uint64_t key_at(const struct array *table, uint32_t at)
{
    uint64_t key;
    memcpy(&key, array_at(table, at), sizeof key);
    return key;
}

static uint32_t place_of(const struct array *table, uint32_t count, uint64_t key)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key_at(table, middle) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *keyed_find(const struct array *table, uint64_t key)
{
    uint32_t at = place_of(table, table->count, key);
    return at < table->count && key_at(table, at) == key ? array_at(table, at) : NULL;
}

void *keyed_get(struct array *table, uint64_t key)
{
    void *found = keyed_find(table, key);
    if (found != NULL) return found;
    if (array_push(table) == NULL) return NULL;
    uint32_t last = table->count - 1, at = place_of(table, last, key);
    char *row = array_at(table, at);
    memmove(row + table->item_bytes, row, (last - at) * table->item_bytes);
    memset(row, 0, table->item_bytes);
    memcpy(row, &key, sizeof key);
    return row;
}

void keyed_drop(struct array *table, uint32_t at)
{
    char *row = array_at(table, at);
    memmove(row, row + table->item_bytes, (table->count - 1 - at) * table->item_bytes);
    table->count--;
}
