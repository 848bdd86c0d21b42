#include "base/text.h"
#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(struct text *text, size_t more)
{
    if (text->failed) return false;
    if (text->count + more + 1 <= text->capacity) return true;
    size_t capacity = text->capacity * 2 + more + 256;
    char *bytes = mem_realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
    if (!reserve(text, count)) return;
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !reserve(text, (size_t)length)) return;
    va_start(args, format);
    (void)vsnprintf(text->bytes + text->count, (size_t)length + 1, format, args); /* measured */
    va_end(args);
    text->count += (size_t)length;
}

void text_add_html(struct text *text, const char *plain)
{
    for (; *plain != '\0'; plain++) {
        switch (*plain) {
        case '&': text_add(text, "&amp;"); break;
        case '<': text_add(text, "&lt;"); break;
        case '>': text_add(text, "&gt;"); break;
        case '"': text_add(text, "&quot;"); break;
        default: text_add_bytes(text, plain, 1);
        }
    }
}

const char *text_get(const struct text *text)
{
    return text->bytes == NULL ? "" : text->bytes;
}

void text_free(struct text *text)
{
    mem_free(text->bytes);
    *text = (struct text){0};
}
