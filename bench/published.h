/* What bench/fgd, bench/gavel, bench/sia and bench/spot share: their options, the files of $SHOAL_DATA, their rows.
 *
 * Options   --seeds A..B (or one seed), --json, --help, and the lists the program names: each takes
 *           one or more words up to the next option, and may be repeated. What a list may hold is told
 *           when it is known (often only after the folder was read): published_check() says the known
 *           names in one line.
 * Data      published_data() is the folder of one data set in $SHOAL_DATA (default ../shared/data). When
 *           it is not there the program says so and ends with PUBLISHED_SKIPPED, as tests that cannot run.
 * CSV       Whole file in memory; cells may be quoted; columns are found by name, so files may have
 *           more of them. Memory of mem_alloc(), given back by csv_close().
 * Rows      {"rows":[{...},...]} with --json, else aligned columns. A row has the same fields each time.
 * Failure   Bad data and no memory are one line on standard error and the end of the program: these are
 *           measurements, half a result is none.
 */
#ifndef SHOAL_BENCH_PUBLISHED_H
#define SHOAL_BENCH_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PUBLISHED_OK = 0,
    PUBLISHED_FAILED = 1,
    PUBLISHED_USAGE = 2,
    PUBLISHED_SKIPPED = 77, /* what Meson takes for a test that was skipped */
    PUBLISHED_WORDS_MAX = 256,
    PUBLISHED_LISTS_MAX = 16,
};

struct published_list {
    const char *option; /* "--policy" */
    const char
        *word; /* of the help text: "NAME"; NULL: the option stands alone, count says how often */
    const char *meaning;                    /* one line of the help text */
    const char *words[PUBLISHED_WORDS_MAX]; /* as given; count 0 = not given */
    uint32_t count;
};

struct published {
    const char *program, *purpose, *example;           /* for --help */
    struct published_list *lists[PUBLISHED_LISTS_MAX]; /* up to the first NULL */
    uint64_t seed_first, seed_last;                    /* set before: the default */
    bool seeds_given, json;
};

/* Ends the program: help with 0, a bad command line with one line and 2. */
void published_parse(struct published *options, int argc, char **argv);
/* Every word of the list is one of known[], or the program ends as published_parse() does. */
void published_check(const struct published *options, const struct published_list *list,
                     const char *const *known, uint32_t known_count);
bool published_has(const struct published_list *list, const char *word);

/* One line on standard error, then exit(PUBLISHED_FAILED). */
_Noreturn void published_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "$SHOAL_DATA/folder"; valid for good. Not there: says so, exit(PUBLISHED_SKIPPED). */
const char *published_data(const char *folder);
/* Names of the files "<prefix>NAME<suffix>" in the folder without prefix and suffix, sorted. Returns
 * how many; *ret_names lives for good. */
uint32_t published_names(const char *folder, const char *prefix, const char *suffix,
                         const char *const **ret_names);
/* A whole file, 0 behind it; mem_free() it. */
char *published_read(const char *folder, const char *name, size_t *ret_bytes);
void *published_alloc(size_t count, size_t bytes); /* zeroed, never NULL; mem_free() it */

struct csv {
    char *text, *name;
    const char **cells; /* rows * columns, behind one line of heads */
    uint32_t rows, columns;
};

void csv_open(struct csv *csv, const char *folder, const char *name, char separator);
void csv_close(struct csv *csv);
uint32_t csv_column(const struct csv *csv, const char *head);     /* must be there */
uint32_t csv_column_any(const struct csv *csv, const char *head); /* UINT32_MAX = not there */
const char *csv_text(const struct csv *csv, uint32_t row, uint32_t column);
int64_t csv_integer(const struct csv *csv, uint32_t row, uint32_t column); /* empty = 0 */
double csv_real(const struct csv *csv, uint32_t row, uint32_t column);     /* empty = 0 */

struct rows {
    bool json;
    uint32_t count, length, head_length;
    char row[2048], head[2048];
};

void rows_open(struct rows *rows, bool json);
void rows_text(struct rows *rows, const char *field, const char *value); /* no control characters */
void rows_integer(struct rows *rows, const char *field, int64_t value);
void rows_real(struct rows *rows, const char *field, double value, int decimals);
void rows_end(struct rows *rows); /* of one row: printed and flushed */
void rows_close(struct rows *rows);

#endif
