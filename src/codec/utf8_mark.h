/* The byte order mark that some editors and tables put before a UTF-8 text. It says nothing. */
#ifndef SHOAL_CODEC_UTF8_MARK_H
#define SHOAL_CODEC_UTF8_MARK_H

#include <stddef.h>
#include <string.h>

static inline void utf8_skip_mark(const char **text, size_t *bytes)
{
    if (*bytes < 3 || memcmp(*text, "\xef\xbb\xbf", 3) != 0) return;
    *text += 3;
    *bytes -= 3;
}

#endif
