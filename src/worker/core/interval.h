/* How often to checkpoint: the trade between time spent on checkpoints and time lost by a failure.
 *
 * Role       Pure. The leader asks at every step boundary, see member_save.c.
 * Formula    interval = sqrt(2 * C * M); C = what one checkpoint costs training, M = mean time
 *            between losses. J. W. Young, "A first order approximation to the optimum checkpoint
 *            interval", CACM 17(9), 1974; the higher orders of Daly (2006) matter only where C is
 *            not small against M, which the clamps cover.
 * Cost       The wait for the snapshot as the program's thread measured it, plus INTERVAL_WRITE_SHARE
 *            of the time from order to manifest, in which memory and disk are shared.
 * Losses     Those seen, over the time of all members, on top of a prior of one in INTERVAL_PRIOR_US
 *            of one member's time: so nothing is divided by zero, and a first loss counts.
 * Tests      interval_test.c: table from the formula, monotone, clamps, no overflow at the limits.
 */
#ifndef SHOAL_WORKER_CORE_INTERVAL_H
#define SHOAL_WORKER_CORE_INTERVAL_H

#include <stdint.h>

#define INTERVAL_MIN_US   INT64_C(10000000)    /* 10 s: below, writing crowds out work */
#define INTERVAL_MAX_US   INT64_C(7200000000)  /* 2 h: bounds the loss even if the model is wrong */
#define INTERVAL_PRIOR_US INT64_C(86400000000) /* a spot machine lives for a day, more or less */
enum { INTERVAL_WRITE_SHARE = 20 };            /* one in 20: 5 % */

struct interval_facts {
    int64_t stall_us, write_us;    /* of the last checkpoint; both 0: none was written yet */
    int64_t member_us, loss_count; /* time of all members together; losses in it */
    uint32_t member_count;         /* now, 1 or more */
};

/* In [INTERVAL_MIN_US, INTERVAL_MAX_US], and not below the time a checkpoint takes to write. */
int64_t interval_us(const struct interval_facts *facts);

#endif
