/* What it costs to end a job by its deadline, for any work and time left: one backward pass.
 *
 * Role       Pure. A job of one node, on spot zones (spot_model.h) or on capacity that is always to
 *            be had (on-demand here; owned and reserved capacity alike).
 * World      `work` ticks of progress within `window` ticks. The first `changeover` ticks after any
 *            start are paid and bring nothing. A loss costs the start that follows.
 * Cells      Work left n = 0, U, 2U, ...; slack s = time left - n = 2 changeover + 1 + jU. Row 0
 *            stands for all slack at or below 2 changeover + 1: there the rule of spot_policy.h
 *            forces on-demand. U is the least for which at most `cells` cells are needed.
 * Values     Price units: a tick on spot costs spot_price, on-demand on_demand_price. The expected
 *            cost from a cell on, per state of the market (SPOT_ENV) or of the node in it
 *            (SPOT_ON), per what is done next. A spot start below row 1 is SPOT_NEVER: in between
 *            it is interpolated, so no spot start is made there.
 * Exact      For its grid and its model; progress or time always moves, so one pass is enough.
 *            Between cells: bilinear.
 * Memory     spot_table_bytes(), the caller's, as aligned as malloc(); the table points into it.
 * Tests      spot_table_test.c: against recursion without tables on tiny worlds.
 */
#ifndef SHOAL_CORE_SPOT_TABLE_H
#define SHOAL_CORE_SPOT_TABLE_H

#include "core/spot_model.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    SPOT_NEVER = 1 << 30,
    SPOT_VALUE_MAX = 1 << 28, /* of (window + changeover) * the dearer price */
    SPOT_CELLS = 16000,
};

struct spot_terms {
    uint32_t work, window, changeover; /* ticks */
    uint32_t spot_price, on_demand_price;
    uint32_t cells;
};

/* What a cell holds, per state. ORDER: offsets in the cell. */
enum spot_value {
    SPOT_WAIT = 0,                        /* idle, and no start now; by market */
    SPOT_OD_START = SPOT_WAIT + SPOT_ENV, /* idle, start on demand */
    SPOT_OD_STAY = SPOT_OD_START + SPOT_ENV,
    SPOT_START = SPOT_OD_STAY + SPOT_ENV, /* start on this spot zone; by node */
    SPOT_STAY = SPOT_START + SPOT_ON,
    SPOT_CELL = SPOT_STAY + SPOT_ON,
};

struct spot_table {
    struct spot_terms terms;
    uint32_t grain; /* U */
    uint32_t work_rows, slack_rows;
    int32_t *values; /* [work_rows][slack_rows][SPOT_CELL] */
};

/* Lag of the two steps that solving takes: the grain, and the longer of it and the changeover. */
uint32_t spot_table_grain(const struct spot_terms *terms);
uint32_t spot_table_lag(const struct spot_terms *terms);
/* 0: a price, the work or the window is 0 or too large, or the work does not fit the window. */
size_t spot_table_bytes(const struct spot_terms *terms);
/* `short_step` of lag spot_table_grain(), `long_step` of spot_table_lag(). */
void spot_table_solve(struct spot_table *ret_table, const struct spot_terms *terms,
                      const struct spot_step *short_step, const struct spot_step *long_step,
                      void *memory);
/* `value` is SPOT_WAIT + a market state, ... ; beyond the grid: as at its edge. */
int64_t spot_table_at(const struct spot_table *table, uint32_t value, uint32_t work, int64_t slack);

#endif
