#include "cli/term.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

struct term term_open(FILE *stream)
{
    struct term term = {.stream = stream, .is_terminal = isatty(fileno(stream)) == 1};
    if (!term.is_terminal) return term;
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0) {
        term.width = size.ws_col;
        term.height = size.ws_row;
    }
    const char *columns = getenv("COLUMNS"); /* of a terminal that does not tell its size */
    if (term.width == 0 && columns != NULL) term.width = (uint32_t)strtoul(columns, NULL, 10);
    if (term.width == 0) term.width = 80;
    if (term.height == 0) term.height = 24;
    const char *kind = getenv("TERM");
    bool is_dumb = kind == NULL || strcmp(kind, "dumb") == 0;
    if (is_dumb) term.is_terminal = false; /* cannot move its cursor */
    term.has_colour = !is_dumb && !is_set("NO_COLOR");
    return term;
}

const char *term_style(const struct term *term, enum term_style style)
{
    if (!term->has_colour) return "";
    switch (style) {
    case TERM_PLAIN: return "\033[0m";
    case TERM_BOLD: return "\033[1m";
    case TERM_DIM: return "\033[2m";
    case TERM_RED: return "\033[31m";
    case TERM_GREEN: return "\033[32m";
    case TERM_YELLOW: return "\033[33m";
    case TERM_BLUE: return "\033[34m";
    case TERM_MAGENTA: return "\033[35m";
    case TERM_CYAN: return "\033[36m";
    }
    return "";
}

/* Bytes of the escape sequence at text: ESC [ ... final byte. 0: none here. */
static uint32_t escape_bytes(const char *text)
{
    if (text[0] != '\033' || text[1] != '[') return 0;
    uint32_t i = 2;
    while (text[i] != '\0' && (text[i] < '@' || text[i] > '~')) i++;
    return text[i] == '\0' ? i : i + 1;
}

uint32_t term_bytes_within(const char *text, uint32_t columns)
{
    uint32_t used = 0, seen = 0;
    while (text[used] != '\0') {
        uint32_t escape = escape_bytes(text + used);
        if (escape > 0) {
            used += escape;
            continue;
        }
        if (seen == columns) return used;
        seen++;
        used++;
        while (((unsigned char)text[used] & 0xC0) == 0x80) used++; /* rest of the character */
    }
    return used;
}

uint32_t term_columns(const char *text)
{
    uint32_t columns = 0;
    while (*text != '\0') {
        uint32_t escape = escape_bytes(text);
        if (escape == 0) columns += ((unsigned char)*text & 0xC0) != 0x80;
        text += escape > 0 ? escape : 1;
    }
    return columns;
}

static void rewind_block(struct live *live)
{
    if (!live->term->is_terminal || live->line_count == 0) return;
    fputs("\r", live->term->stream);
    if (live->line_count > 1) fprintf(live->term->stream, "\033[%uA", live->line_count - 1);
    fputs("\033[J", live->term->stream);
    live->line_count = 0;
}

/* One line, cut; the last one without newline so that the cursor stays inside the block. */
static void draw_line(struct live *live, const char *line, size_t bytes, bool is_last)
{
    const struct term *term = live->term;
    char text[1024];
    size_t kept = bytes < sizeof text - 1 ? bytes : sizeof text - 1;
    memcpy(text, line, kept);
    text[kept] = '\0';
    if (term->width > 1) text[term_bytes_within(text, term->width - 1)] = '\0';
    fprintf(term->stream, "%s%s%s", text, term_style(term, TERM_PLAIN), is_last ? "" : "\n");
    live->line_count++;
}

void term_wrap(const struct term *term, char *line)
{
    static const char mark[] = " · ";
    while (term->width > 1 && term_columns(line) >= term->width) {
        char *last = NULL, *end = line + term_bytes_within(line, term->width - 1);
        for (char *at = strstr(line, mark); at != NULL && at < end; at = strstr(at + 1, mark))
            last = at;
        if (last == NULL) return; /* no place to break: it is cut */
        *last = '\n';
        memmove(last + 1, last + sizeof mark - 1, strlen(last + sizeof mark - 1) + 1);
        line = last + 1;
    }
}

/* `lines_max` 0: all of it. */
static void draw_block(struct live *live, const char *text, uint32_t lines_max)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        bool is_end = text[bytes] == '\0' || text[bytes + 1] == '\0';
        live->is_cut = !is_end && live->line_count + 1 == lines_max;
        draw_line(live, text, bytes, is_end || live->is_cut);
        if (live->is_cut) return;
        text += bytes + (text[bytes] == '\n');
    }
}

static uint32_t lines_max(const struct live *live)
{
    return live->term->height > 2 ? live->term->height - 1 : 0;
}

void live_show(struct live *live, const char *text)
{
    FILE *stream = live->term->stream;
    if (!live->term->is_terminal) {
        size_t bytes = strlen(text);
        fprintf(stream, "%s%s", text, bytes > 0 && text[bytes - 1] == '\n' ? "" : "\n");
        (void)fflush(stream); /* output that nobody reads is no fault of ours */
        return;
    }
    rewind_block(live);
    draw_block(live, text, lines_max(live));
    (void)fflush(stream);
    char *copy = mem_strdup(text); /* without memory the block is just not drawn again */
    mem_free(live->shown);
    live->shown = copy;
}

void live_print(struct live *live, const char *text)
{
    bool had_block = live->line_count > 0;
    rewind_block(live);
    fprintf(live->term->stream, "%s\n", text);
    if (had_block && live->shown != NULL) draw_block(live, live->shown, lines_max(live));
    (void)fflush(live->term->stream);
}

void live_end(struct live *live)
{
    if (live->line_count > 0 && live->is_cut && live->shown != NULL) {
        rewind_block(live);
        draw_block(live, live->shown, 0);
    }
    if (live->line_count > 0) fputs("\n", live->term->stream);
    (void)fflush(live->term->stream);
    live->line_count = 0;
    live->is_cut = false;
    mem_free(live->shown);
    live->shown = NULL;
}

void live_clear(struct live *live)
{
    rewind_block(live);
    live_end(live);
}
