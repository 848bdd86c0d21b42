/* What the output is: a terminal or a file, how wide, coloured or not; and text that redraws.
 *
 * Colours appear only on a terminal, never with NO_COLOR set (to anything but "") or TERM=dumb.
 * struct live is a block of lines at the end of the output that is drawn again in place:
 *
 *     struct live live = {.term = &term};
 *     live_show(&live, "step 3");      // on a terminal: replaces the block; else: prints the lines
 *     live_print(&live, "node lost");  // a line of its own above the block
 *     live_end(&live);                 // leaves the block standing
 *
 * A block higher than the terminal is drawn as far as it fits; live_end() prints the whole of it.
 * Without a terminal each live_show() prints its text, so callers show less often then.
 */
#ifndef SHOAL_CLI_TERM_H
#define SHOAL_CLI_TERM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum term_style {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_RED,
    TERM_GREEN,
    TERM_YELLOW,
    TERM_BLUE,
    TERM_MAGENTA,
    TERM_CYAN
};

struct term {
    FILE *stream;
    bool is_terminal, has_colour;
    uint32_t width, height; /* columns and lines; 0: not known, do not cut */
};

struct term term_open(FILE *stream);
/* The escape sequence, or "" without colours. term_style(t, TERM_PLAIN) switches off. */
const char *term_style(const struct term *term, enum term_style style);
/* Columns of UTF-8 text, escape sequences not counted; every character counts one. */
uint32_t term_columns(const char *text);
/* Bytes of text that fit into columns, escape sequences kept whole. */
uint32_t term_bytes_within(const char *text, uint32_t columns);

/* Breaks a line at its last " · " that still fits, where it is longer than the terminal. */
void term_wrap(const struct term *term, char *line);

struct live {
    const struct term *term;
    uint32_t line_count; /* lines of the block now on the screen */
    bool is_cut;         /* it has more than fit */
    char *shown;         /* the block, to draw it again after live_print() */
};

void live_show(struct live *live, const char *text); /* lines are cut to the terminal */
void live_print(struct live *live, const char *text);
void live_end(struct live *live);
void live_clear(struct live *live); /* takes the block away */

#endif
