#include "agent/line_reader.h"
#include "base/mem.h"
#include <string.h>

static bool make_room(struct line_reader *reader, size_t wanted)
{
    if (wanted + 1 <= reader->room) return true;
    size_t room = reader->room == 0 ? 256 : reader->room;
    while (room < wanted + 1) room *= 2;
    char *buffer = mem_realloc(reader->buffer, room);
    if (buffer == NULL) return false;
    reader->buffer = buffer;
    reader->room = room;
    return true;
}

static void append(struct line_reader *reader, const char *bytes, size_t count)
{
    size_t left = reader->line_bytes_max - reader->count;
    if (count > left) {
        count = left;
        reader->cut = true;
    }
    if (!make_room(reader, reader->count + count)) {
        reader->cut = true;
        return;
    }
    memcpy(reader->buffer + reader->count, bytes, count);
    reader->count += count;
}

static void emit(struct line_reader *reader, line_reader_fn *fn, void *self)
{
    if (make_room(reader, reader->count)) {
        if (!reader->cut && reader->count > 0 && reader->buffer[reader->count - 1] == '\r')
            reader->count--;
        reader->buffer[reader->count] = '\0';
        fn(self, reader->buffer, reader->count, reader->cut);
    }
    reader->count = 0;
    reader->cut = false;
}

void line_reader_feed(struct line_reader *reader, const char *bytes, size_t count,
                      line_reader_fn *fn, void *self)
{
    while (count > 0) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline == NULL ? count : (size_t)(newline - bytes);
        append(reader, bytes, part);
        if (newline == NULL) return;
        emit(reader, fn, self);
        bytes += part + 1;
        count -= part + 1;
    }
}

void line_reader_end(struct line_reader *reader, line_reader_fn *fn, void *self)
{
    if (reader->count > 0 || reader->cut) emit(reader, fn, self);
}

void line_reader_close(struct line_reader *reader)
{
    mem_free(reader->buffer);
    *reader = (struct line_reader){.line_bytes_max = reader->line_bytes_max};
}
