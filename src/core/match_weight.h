/* What a job is worth on a device type: its weight times its rate there, as integers.
 *
 * Role       The numbers match.h works with. Rates of a job on the types are normalised by the job's own
 *            rate, so a step of one job is not compared with a step of another.
 * Formula    norm = sqrt(best rate * mean rate over the types it can use)
 *            weight = ((remaining + offset) / offset)^exponent
 *                     * (1 + age_gain * max(0, (age - start) / span))
 *            value on type k = weight * rate_k / norm, per device
 *            An exponent near 0 leaves the decision to the match; -1 is shortest first, which fills the
 *            fast types with short jobs and loses throughput when load is high. Ageing lifts a job that
 *            waits much longer than its own size, so that nobody waits for ever.
 * Units      _s seconds; weight: MATCH_ONE = 1; rates: any unit, the same for all types of a job.
 * Bounds     Of any input the result is within [1, MATCH_WEIGHT_MAX]; the power is within 0.01 % of the
 *            real one.
 */
#ifndef SHOAL_CORE_MATCH_WEIGHT_H
#define SHOAL_CORE_MATCH_WEIGHT_H

#include <stdint.h>

enum {
    MATCH_ONE = 1 << 16,
    MATCH_RATE_ONE = 1 << 12,  /* a normalised rate of 1 */
    MATCH_RATIO_MAX = 1 << 10, /* a type is at most so much faster than the norm */
};
#define MATCH_WEIGHT_MAX (INT64_C(1) << 26)
#define MATCH_SIZE_S_MAX (INT64_C(1) << 40)

struct match_aim {
    int32_t exponent_milli; /* -100: the weight falls by a tenth of the logarithm of the size */
    uint32_t offset_s;      /* sizes below this hardly differ; > 0 */
    uint32_t age_gain_milli;
};

/* For the mean completion time, and for the end of the last of a fixed set of jobs. */
#define MATCH_AIM_MEAN                                                                             \
    ((struct match_aim){.exponent_milli = -100, .offset_s = 30 * 3600, .age_gain_milli = 300})
#define MATCH_AIM_LAST ((struct match_aim){.exponent_milli = 700, .offset_s = 5 * 3600})

/* ratio^exponent, MATCH_ONE = 1 on both sides; ratio > 0. */
int64_t match_power(int64_t ratio, int32_t exponent_milli);
/* remaining_s, age_s: of the job; start_s, span_s: from where on its age counts and in what measure. */
int64_t match_weight(const struct match_aim *aim, int64_t remaining_s, int64_t age_s,
                     int64_t start_s, int64_t span_s);
/* sqrt(best * mean) of the rates above 0; 0 when there is none. Rates up to 2^40. */
int64_t match_norm(const int64_t *rates, uint32_t types);
/* rate / norm, MATCH_RATE_ONE = 1. */
int64_t match_rate(int64_t rate, int64_t norm);
/* weight * normalised rate, within what match.h takes; a rate of 0 is 0. */
int64_t match_worth(int64_t weight, int64_t rate);

#endif
