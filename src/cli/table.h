/* Aligned tables for people: cells in, columns as wide as their widest cell.
 *
 * Cells are added row by row; the row ends by itself after the last column. Running out of memory
 * sticks and is told by table_print(). On a terminal the last column is cut to fit, with "…".
 * Rows may carry a style; headings are dim on a terminal.
 */
#ifndef SHOAL_CLI_TABLE_H
#define SHOAL_CLI_TABLE_H

#include "base/error.h"
#include "cli/term.h"
#include <stdbool.h>
#include <stdint.h>

enum table_align { TABLE_LEFT, TABLE_RIGHT };
enum { TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *heading;
    enum table_align align;
};

struct table;

/* Borrows the columns. NULL: no memory (table_cell and table_print accept NULL). */
struct table *table_open(const struct table_column *columns, uint32_t column_count);
void table_cell(struct table *table, const char *format, ...) PRINTF_LIKE(2, 3);
void table_row_style(struct table *table, enum term_style style); /* of the row being filled */
/* On a terminal the last column goes on below itself, by words, instead of being cut. */
void table_wrap(struct table *table);
/* The text of the whole table, lines ending in newlines, mem_alloc()ed; NULL: no memory. */
char *table_text(const struct table *table, const struct term *term);
bool table_print(const struct table *table, const struct term *term,
                 struct error *ret_error) WARN_UNUSED;
uint32_t table_rows(const struct table *table);
void table_close(struct table *table);
/* Prints and closes; `empty` is the line that stands for a table without rows. */
bool table_finish(struct table *table, const struct term *term, const char *empty,
                  struct error *ret_error) WARN_UNUSED;

#endif
