/* Lines of a CSV text, split into cells.
 *
 * Role       Pure. The one reader of CSV: price feeds, traces of scenarios, recorded markets.
 * Cells      A cell points into the text; blanks around it, and quotes, are taken away. Between quotes
 *            commas and line ends are text, and a doubled quote is one; elsewhere a quote is text.
 * Begin      A byte order mark before the text is passed over.
 * Lines      End in \n or \r\n. Lines with nothing in them are passed over, and counted.
 * Limits     CSV_FIELDS_MAX: cells beyond are counted, and not kept.
 */
#ifndef SHOAL_CODEC_CSV_H
#define SHOAL_CODEC_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSV_FIELDS_MAX = 256 };

struct csv_field {
    const char *text;
    uint32_t bytes;
    bool quoted; /* it may hold doubled quotes */
};

struct csv {
    const char *at, *end;
    uint32_t line, next_line, field_count; /* line: where the row read last begins, from 1 */
    struct csv_field fields[CSV_FIELDS_MAX];
};

void csv_begin(struct csv *csv, const char *text, size_t bytes);
bool csv_next(struct csv *csv); /* false: no more rows */
/* Of the row read last; UINT32_MAX: there is none. */
uint32_t csv_find(const struct csv *csv, const char *name);
bool csv_is(const struct csv_field *field, const char *word);
/* With its end; a byte of 0 becomes "?". False: it does not fit, and is cut. */
bool csv_copy(const struct csv_field *field, char *ret_text, size_t bytes);
bool csv_integer(const struct csv_field *field, int64_t *ret_value);
bool csv_micros(const struct csv_field *field, int64_t *ret_micros); /* "1.25" is 1250000 */
/* A moment (codec/utc.h), or seconds with a fraction, in microseconds. */
bool csv_time_us(const struct csv_field *field, int64_t *ret_us);

#endif
