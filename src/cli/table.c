#include "cli/table.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/assert.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct cell {
    char *text;
    enum term_style style; /* of its row */
};

struct table {
    const struct table_column *columns;
    uint32_t column_count, cell_count, cell_capacity;
    struct cell *cells;
    enum term_style row_style; /* of the cells added next, until the row ends */
    bool wraps; /* see table_wrap() */
    bool failed;
};

enum { WRAP_MIN = 30, WRAP_INDENT = 4 }; /* columns: a text with less than that begins a line */

struct table *table_open(const struct table_column *columns, uint32_t column_count)
{
    ASSERT(column_count > 0);
    ASSERT(column_count <= TABLE_COLUMNS_MAX);
    struct table *table = mem_zalloc(1, sizeof *table);
    if (table == NULL) return NULL;
    table->columns = columns;
    table->column_count = column_count;
    return table;
}

static bool reserve(struct table *table)
{
    if (table->cell_count < table->cell_capacity) return true;
    uint32_t capacity = table->cell_capacity * 2 + 64;
    struct cell *cells = mem_realloc(table->cells, capacity * sizeof *cells);
    if (cells == NULL) return false;
    table->cells = cells;
    table->cell_capacity = capacity;
    return true;
}

void table_cell(struct table *table, const char *format, ...)
{
    if (table == NULL || table->failed) return;
    char buffer[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(buffer, sizeof buffer, format, args); /* a longer cell is cut */
    va_end(args);
    char *text = reserve(table) ? mem_strdup(buffer) : NULL;
    if (text == NULL) {
        table->failed = true;
        return;
    }
    table->cells[table->cell_count++] = (struct cell){text, table->row_style};
    if (table->cell_count % table->column_count == 0) table->row_style = TERM_PLAIN;
}

void table_row_style(struct table *table, enum term_style style)
{
    if (table != NULL) table->row_style = style;
}

void table_wrap(struct table *table)
{
    if (table != NULL) table->wraps = true;
}

uint32_t table_rows(const struct table *table)
{
    return table == NULL ? 0 : table->cell_count / table->column_count;
}

static void measure(const struct table *table, uint32_t widths[TABLE_COLUMNS_MAX])
{
    for (uint32_t i = 0; i < table->column_count; i++)
        widths[i] = term_columns(table->columns[i].heading);
    for (uint32_t i = 0; i < table->cell_count; i++) {
        uint32_t columns = term_columns(table->cells[i].text);
        uint32_t *width = &widths[i % table->column_count];
        if (columns > *width) *width = columns;
    }
}

/* One cell with its padding. `room` 0: as long as it is; else cut to it, "…" at the end. */
static void add_cell(struct text *text, const char *cell, enum table_align align, uint32_t width,
                     bool is_last, uint32_t room)
{
    uint32_t columns = term_columns(cell), padding = width > columns ? width - columns : 0;
    if (align == TABLE_RIGHT) text_add(text, "%*s", (int)padding, "");
    if (room > 1 && columns > room) {
        text_add_bytes(text, cell, term_bytes_within(cell, room - 1));
        text_add(text, "…");
    } else {
        text_add(text, "%s", cell);
    }
    if (is_last) return;
    text_add(text, "%*s  ", align == TABLE_LEFT ? (int)padding : 0, "");
}

/* Bytes of the words that fit in so many columns, at least one word. */
static size_t words_within(const char *cell, uint32_t room)
{
    size_t fits = term_bytes_within(cell, room), end = fits;
    if (cell[fits] == '\0') return fits;
    while (end > 0 && cell[end] != ' ') end--;
    return end > 0 ? end : fits;
}

/* The last cell of a row, in lines below each other, each of `room` columns. */
static void add_wrapped(struct text *text, const char *cell, uint32_t width, uint32_t room)
{
    uint32_t indent = width > room ? width - room : 0;
    if (room < WRAP_MIN) {
        indent = WRAP_INDENT;
        room = width > 2 * WRAP_INDENT ? width - WRAP_INDENT : WRAP_INDENT;
        text_add(text, "\n%*s", (int)indent, "");
    }
    while (true) {
        size_t bytes = words_within(cell, room);
        text_add_bytes(text, cell, bytes);
        cell += bytes;
        while (*cell == ' ') cell++;
        if (*cell == '\0') return;
        text_add(text, "\n%*s", (int)indent, "");
    }
}

static uint32_t room_of_last(const struct table *table, const struct term *term,
                             const uint32_t *widths)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i + 1 < table->column_count; i++) before += widths[i] + 2;
    if (term->width == 0) return 0;
    return term->width > before + 8 ? term->width - before : 8; /* a few letters at least */
}

char *table_text(const struct table *table, const struct term *term)
{
    if (table == NULL || table->failed) return NULL;
    ASSERT(table->cell_count % table->column_count == 0);
    uint32_t widths[TABLE_COLUMNS_MAX], last = table->column_count - 1;
    measure(table, widths);
    uint32_t room = room_of_last(table, term, widths);
    struct text text = {0};
    text_add(&text, "%s", term_style(term, TERM_DIM));
    for (uint32_t i = 0; i <= last; i++)
        add_cell(&text, table->columns[i].heading, table->columns[i].align, widths[i], i == last,
                 i == last ? room : 0);
    text_add(&text, "%s\n", term_style(term, TERM_PLAIN));
    for (uint32_t i = 0; i < table->cell_count; i++) {
        const struct cell *cell = &table->cells[i];
        uint32_t column = i % table->column_count;
        bool has_style = cell->style != TERM_PLAIN;
        if (column == 0 && has_style) text_add(&text, "%s", term_style(term, cell->style));
        bool wraps = column == last && table->wraps && room > 0 && term_columns(cell->text) > room;
        if (wraps)
            add_wrapped(&text, cell->text, term->width, room);
        else
            add_cell(&text, cell->text, table->columns[column].align, widths[column],
                     column == last, column == last ? room : 0);
        if (column < last) continue;
        text_add(&text, "%s\n", has_style ? term_style(term, TERM_PLAIN) : "");
    }
    if (text.failed) text_free(&text);
    return text.bytes;
}

bool table_print(const struct table *table, const struct term *term, struct error *ret_error)
{
    char *text = table_text(table, term);
    if (text == NULL) return error_set(ret_error, "no memory for the table");
    fputs(text, term->stream);
    mem_free(text);
    return true;
}

void table_close(struct table *table)
{
    if (table == NULL) return;
    for (uint32_t i = 0; i < table->cell_count; i++) mem_free(table->cells[i].text);
    mem_free(table->cells);
    mem_free(table);
}

bool table_finish(struct table *table, const struct term *term, const char *empty,
                  struct error *ret_error)
{
    bool ok = true;
    if (table != NULL && table_rows(table) == 0)
        fprintf(term->stream, "%s\n", empty);
    else
        ok = table_print(table, term, ret_error);
    table_close(table);
    return ok;
}
