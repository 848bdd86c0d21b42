/* Many modelled worlds in a few numbers: means, and between which nine of ten lie. */
#ifndef SHOAL_SERVER_RERUN_SUMS_H
#define SHOAL_SERVER_RERUN_SUMS_H

#include "server/rerun.h"

struct rerun_spread {
    double mean, low, high; /* low, high: the 5th and the 95th of a hundred */
};

enum rerun_sum { SUM_COST, SUM_WAITED, SUM_LOST, SUM_PREEMPTED, SUM_DONE, SUM_BOUGHT, SUM_KINDS };

/* Of one tally: cost in micro-dollars, waiting in microseconds, else counts. */
double rerun_sum_of(const struct tally *t, enum rerun_sum kind);
/* Of values[0 .. count), which are sorted by it. */
struct rerun_spread rerun_spread_of(double *values, uint32_t count);

#endif
