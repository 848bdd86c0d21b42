/* Progress of one job: the line that `shoal run` and the demo keep up to date.
 *
 * follow_estimate_us() uses only what was seen: steps made since the first look at the job, so a
 * resumed job is not flattered by the steps it had.
 */
#ifndef SHOAL_CLI_FOLLOW_H
#define SHOAL_CLI_FOLLOW_H

#include "cli/client.h"
#include "cli/term.h"
#include "base/text.h"
#include <stdint.h>

struct follow {
    int64_t first_us, first_step; /* first look at which the job had begun; 0: none yet */
};

/* Time left, in microseconds; -1: not known yet. */
int64_t follow_estimate_us(struct follow *follow, int64_t now_us, int64_t step, int64_t steps);

/* Until the job has ended; one updating line on a terminal, a line about every two seconds
 * otherwise. A server that is away for less than a minute is waited for. true: done. */
bool follow_job(struct client *client, int64_t job, const struct term *term,
                struct error *ret_error) WARN_UNUSED;

#endif
