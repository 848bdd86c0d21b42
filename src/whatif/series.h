/* What changes over time, from CSV: prices, nodes to be had, arrivals of jobs.
 *
 * Role       Pure readers of bytes, strict: a time that is negative or before the one above it, a price
 *            of zero, a number that is none, a missing column are errors with their line. A step holds
 *            until the next; a gap longer than `gap_max_us` in an availability series is an error,
 *            since nobody knows what was sold in it.
 * Times      `2020-03-02T11:00:00Z`, `2020-03-02`, or seconds. They are moved so that the first of all
 *            series of a file starts at 0.
 * Ownership  series_free(), arrivals_free().
 */
#ifndef SHOAL_WHATIF_SERIES_H
#define SHOAL_WHATIF_SERIES_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERIES_WORD_BYTES = 96, SERIES_ROWS_MAX = 1 << 21, SERIES_PICKS_MAX = 4 };

struct step {
    int64_t at_us, value; /* price in micro-dollars an hour, or nodes */
};

struct series {
    struct step *steps;
    uint32_t count;
};

struct arrival {
    int64_t at_us, run_us;
    uint32_t devices, line;
};

struct arrivals {
    struct arrival *rows;
    uint32_t count;
};

/* Rows whose column has this word. */
struct series_pick {
    char column[SERIES_WORD_BYTES], word[SERIES_WORD_BYTES];
};

struct series_query {
    const char *file; /* for messages */
    struct series_pick picks[SERIES_PICKS_MAX];
    uint32_t pick_count;
    char time[SERIES_WORD_BYTES], value[SERIES_WORD_BYTES]; /* columns; value: also steps' */
    char length
        [SERIES_WORD_BYTES]; /* "": `time` is a time; else runs: `time` counts steps, this many */
    char devices[SERIES_WORD_BYTES], duration[SERIES_WORD_BYTES]; /* arrivals */
    int64_t step_us;                                              /* of runs */
    int64_t from_us;    /* cut: the series begins here, moved to 0 */
    int64_t until_us;   /* arrivals: rows from here on are left out; 0: none */
    int64_t gap_max_us; /* 0: any */
    int64_t scale_ppm;  /* prices: times this */
    bool is_price;
};

bool series_read(const struct series_query *query, const char *text, size_t bytes,
                 struct series *ret_series, struct error *ret_error) WARN_UNUSED;
bool arrivals_read(const struct series_query *query, const char *text, size_t bytes,
                   struct arrivals *ret_arrivals, struct error *ret_error) WARN_UNUSED;
void series_free(struct series *series);
void arrivals_free(struct arrivals *arrivals);

#endif
