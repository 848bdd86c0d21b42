#include "server/rerun_sums.h"
#include <stdlib.h>

double rerun_sum_of(const struct tally *t, enum rerun_sum kind)
{
    double sum = 0;
    if (kind == SUM_COST) return (double)t->usd_micros;
    if (kind == SUM_BOUGHT) return t->bought;
    if (kind == SUM_LOST) return t->lost;
    for (uint32_t i = 0; i < t->jobs.count; i++) {
        const struct tally_job *job = array_at(&t->jobs, i);
        if (kind == SUM_WAITED) sum += (double)job->waited_us;
        if (kind == SUM_PREEMPTED) sum += job->preempted;
        if (kind == SUM_DONE) sum += job->state == JOB_DONE;
    }
    return sum;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct rerun_spread rerun_spread_of(double *values, uint32_t count)
{
    struct rerun_spread spread = {0, 0, 0};
    if (count == 0) return spread;
    qsort(values, count, sizeof *values, by_value);
    for (uint32_t i = 0; i < count; i++) spread.mean += values[i] / count;
    spread.low = values[(count - 1) * 5 / 100];
    spread.high = values[count - 1 - (count - 1) * 5 / 100];
    return spread;
}
