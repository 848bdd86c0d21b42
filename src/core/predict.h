/* How long jobs run: declared, else learned from jobs of the same shape and project that ended well.
 *
 * Rule       Mean and mean deviation, both moving (gains 1/8 and 1/4, as TCP estimates round trips:
 *            Jacobson 1988, RFC 6298); predicted = mean + 4 deviations, after PREDICT_MIN_COUNT ends.
 *            A job that has run longer than that is expected to run as long again, and again.
 * Memory     HISTORY_MAX entries, the newer shape takes the place of one with the same hash.
 * Units      Microseconds; 0 = not known.
 */
#ifndef SHOAL_CORE_PREDICT_H
#define SHOAL_CORE_PREDICT_H

#include "core/state.h"

enum { PREDICT_MIN_COUNT = 3 };

void predict_learn(pool *p, uint32_t job); /* it has ended well; its shape is still known */
int64_t predict_run_us(const pool *p, const struct shape *s, uint32_t project);
/* When a job that runs is expected to end, from now on; INT64_MAX = not known. */
int64_t predict_end_us(const pool *p, uint32_t job);

#endif
