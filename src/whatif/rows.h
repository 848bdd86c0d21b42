/* Rows of a CSV file that a query picks, and columns by name. For series.c and lists.c only. */
#ifndef SHOAL_WHATIF_ROWS_H
#define SHOAL_WHATIF_ROWS_H

#include "codec/csv.h"
#include "whatif/series.h"

#define ROWS_TIME_MAX_US INT64_C(4102444800000000) /* the year 2100 */

enum { ROWS_NODES_MAX = 1000000 };

struct rows {
    const struct series_query *q;
    struct csv csv;
    uint32_t picks[SERIES_PICKS_MAX];
    struct error *error;
};

bool rows_begin(struct rows *r, const char *text, size_t bytes); /* its heads and picks */
/* Of the heads, so before the first rows_next(); "": UINT32_MAX. False: there is none, error is set. */
bool rows_column(struct rows *r, const char *name, uint32_t *ret_column);
bool rows_next(struct rows *r); /* the next row that is picked; false: no more */
/* Error FILE:LINE: what, not "cell"; false. */
bool rows_wrong(struct rows *r, const char *what, const struct csv_field *field);
bool rows_grow(void **rows, uint32_t count, uint32_t *room, size_t bytes, struct error *error);

#endif
