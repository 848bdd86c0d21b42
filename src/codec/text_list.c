#include "codec/text_list.h"
#include "core/assert.h"
#include <string.h>

bool text_list_add(struct text_list *list, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (list->count == TEXT_LIST_ITEMS_MAX) return false;
    if (bytes > TEXT_LIST_BYTES_MAX - list->used_bytes) return false;
    memcpy(list->text + list->used_bytes, text, bytes);
    list->starts[list->count++] = list->used_bytes;
    list->used_bytes += (uint32_t)bytes;
    return true;
}

const char *text_list_at(const struct text_list *list, uint32_t index)
{
    ASSERT(index < list->count);
    return list->text + list->starts[index];
}

bool text_list_equal(const struct text_list *a, const struct text_list *b)
{
    /* Starts follow from the texts, since each text ends with its 0 byte. */
    return a->count == b->count && a->used_bytes == b->used_bytes &&
           memcmp(a->text, b->text, a->used_bytes) == 0;
}
