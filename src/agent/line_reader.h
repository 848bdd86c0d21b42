/* Cuts a stream of bytes into lines, whatever the bytes are.
 *
 * Role       For the output of workers and for what they say on their socket. A line longer than
 *            line_bytes_max is given cut at that length with `cut` set; its rest is skipped.
 * Lines      End with \n, which is not part of them (nor is a \r before it); the last one may lack
 *            it: line_reader_end() gives it. They are 0-terminated and may hold zero bytes.
 * Memory     At most line_bytes_max + 1, grown as needed. Out of memory cuts the line.
 */
#ifndef SHOAL_AGENT_LINE_READER_H
#define SHOAL_AGENT_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>

struct line_reader {
    size_t line_bytes_max; /* set by the owner; the rest starts as zero */
    char *buffer;
    size_t count, room;
    bool cut;
};

typedef void line_reader_fn(void *self, const char *line, size_t bytes, bool cut);

void line_reader_feed(struct line_reader *reader, const char *bytes, size_t count,
                      line_reader_fn *fn, void *self);
void line_reader_end(struct line_reader *reader, line_reader_fn *fn, void *self);
void line_reader_close(struct line_reader *reader);

#endif
