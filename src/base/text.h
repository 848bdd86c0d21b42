/* Text that grows: printf to the end. Running out of memory sticks and is asked once, at the end.
 *
 *     struct text page = {0};
 *     text_add(&page, "<p>%s</p>", name);
 *     if (page.failed) return error_set(ret_error, "no memory for the page");
 *     text_free(&page);
 *
 * Invariant  bytes is NULL (nothing added yet) or ends in a 0 byte at bytes[count].
 */
#ifndef SHOAL_BASE_TEXT_H
#define SHOAL_BASE_TEXT_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

struct text {
    char *bytes;
    size_t count, capacity;
    bool failed;
};

void text_add(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_add_html(struct text *text, const char *plain); /* & < > " escaped */
const char *text_get(const struct text *text);            /* "" when nothing was added */
void text_free(struct text *text);

#endif
