/* What changes over time, from CSV: prices, nodes to be had, arrivals of jobs.
 *
 * Role       Pure readers of bytes, strict: a time that is negative or before the one above it, a price
 *            of zero, a number that is none, a missing column are errors with their line. A step holds
 *            until the next; a gap longer than `gap_max_us` in an availability series is an error,
 *            since nobody knows what was sold in it. Lists of jobs and of nodes are as clusters wrote
 *            them: rows that cannot be used are left out, and counted by kind (struct series_tally);
 *            jobs that are out of order are sorted.
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

enum {
    SERIES_WORD_BYTES = 96,
    SERIES_ROWS_MAX = 1 << 21,
    SERIES_PICKS_MAX = 4,
    SERIES_MODELS_MAX = 128,
    SERIES_MODEL_BYTES = 32,
    SERIES_FIRST_BYTES = 128,
    SERIES_SHAPES_MAX = 256,
};

struct step {
    int64_t at_us, value; /* price in micro-dollars an hour, or nodes */
};

struct series {
    struct step *steps;
    uint32_t count;
};

struct arrival {
    int64_t at_us, run_us;
    uint64_t model_mask; /* 0: any */
    uint32_t devices, line;
};

/* Nodes of one kind. */
struct shape_row {
    uint32_t model, devices, count;
};

struct shapes {
    struct shape_row rows[SERIES_SHAPES_MAX];
    uint32_t count;
};

/* Every row is kept or of one of these; unsorted and shares are of those kept. */
struct series_tally {
    uint32_t rows, kept, outside, without_devices, without_time, negative, unknown_model, wide,
        lasting, malformed;
    uint32_t unsorted, shares;
    char first[SERIES_FIRST_BYTES]; /* of those malformed, with its line */
};

/* How a file calls models. */
struct series_words {
    uint32_t count;
    char words[SERIES_MODELS_MAX][SERIES_MODEL_BYTES];
    uint32_t models[SERIES_MODELS_MAX];
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
    /* Arrivals: duration, or begin and end; share: thousandths of a device; model: one or several
     * words with "|" between. Nodes: model, devices, nodes. "": no such column. */
    char devices[SERIES_WORD_BYTES], duration[SERIES_WORD_BYTES], begin[SERIES_WORD_BYTES],
        end[SERIES_WORD_BYTES], share[SERIES_WORD_BYTES], model[SERIES_WORD_BYTES],
        nodes[SERIES_WORD_BYTES];
    const struct series_words *words; /* of `model` */
    uint32_t devices_max;             /* arrivals with more are left out; 0: any */
    int64_t run_max_us;               /* or that run longer */
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
                   struct arrivals *ret_arrivals, struct series_tally *ret_tally,
                   struct error *ret_error) WARN_UNUSED;
/* By model and devices, in the order in which they first come. */
bool shapes_read(const struct series_query *query, const char *text, size_t bytes,
                 struct shapes *ret_shapes, struct series_tally *ret_tally,
                 struct error *ret_error) WARN_UNUSED;
void series_free(struct series *series);
void arrivals_free(struct arrivals *arrivals);

#endif
