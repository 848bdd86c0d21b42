/* A bounded list of texts in one flat struct: arguments, environment, names.
 *
 * Rules      text holds the entries one after the other, each with its 0 byte; starts[i] < used.
 *            Plain data: may be copied.
 */
#ifndef SHOAL_CODEC_TEXT_LIST_H
#define SHOAL_CODEC_TEXT_LIST_H

#include <stdbool.h>
#include <stdint.h>

enum { TEXT_LIST_ITEMS_MAX = 128, TEXT_LIST_BYTES_MAX = 16384 };

struct text_list {
    uint32_t count, used_bytes;
    uint32_t starts[TEXT_LIST_ITEMS_MAX];
    char text[TEXT_LIST_BYTES_MAX];
};

bool text_list_add(struct text_list *list, const char *text); /* false: it does not fit */
const char *text_list_at(const struct text_list *list, uint32_t index);

#endif
