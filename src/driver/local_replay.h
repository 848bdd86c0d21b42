/* Recorded markets: price and availability traces in CSV, instead of the random processes.
 *
 * Role       Reads the two files a scenario names and answers for one series at one moment of the
 *            trace. Time before the first row takes the first row, after the last the last.
 * Prices     A header with at least `zone, instance_type, t_utc, usd_per_hour` in any order; a row
 *            holds until the next of the same (zone, type). Series are named ZONE/TYPE.
 * Available  A header with at least `series_id, start_step, n_steps, value`: run-length coded
 *            numbers of nodes that could be held. The length of a step is the scenario's.
 * Errors     FILE:LINE: what is wrong; what to do. Unreadable files and series that do not occur
 *            likewise. Nothing is guessed or skipped.
 * Memory     Only rows of the series that offers name are kept.
 */
#ifndef SHOAL_DRIVER_LOCAL_REPLAY_H
#define SHOAL_DRIVER_LOCAL_REPLAY_H

#include "driver/local_scenario.h"

enum { LOCAL_REPLAY_FILE_BYTES_MAX = 256 << 20, LOCAL_REPLAY_ROWS_MAX = 1 << 20 };

struct local_replay;

struct local_replay *local_replay_open(const struct local_scenario *scenario,
                                       struct error *ret_error) WARN_UNUSED;
void local_replay_close(struct local_replay *replay); /* NULL is fine */

/* trace_us: microseconds after the start of the trace (its first row of any kept series). */
int64_t local_replay_price(const struct local_replay *replay, uint32_t offer_index,
                           int64_t trace_us); /* -1: this offer has no series */
int64_t local_replay_available(const struct local_replay *replay, uint32_t offer_index,
                               int64_t trace_us); /* -1: likewise */

#endif
