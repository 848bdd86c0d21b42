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
