/* Lines of a CSV text, split into fields. Pure; a field points into the text, quotes around it taken
 * away; no doubled quotes inside. */
#ifndef SHOAL_WHATIF_CSV_H
#define SHOAL_WHATIF_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSV_FIELDS_MAX = 64 };

struct csv_field {
    const char *text;
    uint32_t bytes;
};

struct csv {
    const char *at, *end;
    uint32_t line, field_count; /* line: of the row read last, from 1 */
    struct csv_field fields[CSV_FIELDS_MAX];
};

void csv_begin(struct csv *csv, const char *text, size_t bytes);
bool csv_next(struct csv *csv); /* false: no more rows; empty lines are passed over */
/* Of the row read last; UINT32_MAX: there is none. */
uint32_t csv_find(const struct csv *csv, const char *name);
bool csv_is(const struct csv_field *field, const char *word);
bool csv_integer(const struct csv_field *field, int64_t *ret_value);
bool csv_micros(const struct csv_field *field, int64_t *ret_micros); /* "1.25" is 1250000 */
/* A moment (codec/utc.h), or seconds with a fraction, in microseconds. */
bool csv_time_us(const struct csv_field *field, int64_t *ret_us);

#endif
