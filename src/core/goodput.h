/* What a number of devices of one type is worth to a job that can run on many.
 *
 * Role       Pure. Turns what is known of a job (progress per second of each configuration, work
 *            left, cost of a restart) into the values allot.h adds up.
 * Units      rate: any unit of work per second, times any constant (2^20 serves); work: the same
 *            unit times the same constant, so work / rate is seconds. root: 4096 = 1. value:
 *            GOODPUT_ONE = a job at its end with the least it can run on.
 * Formula    value = weight * sqrt(rate / least rate) * keep
 *              weight = w / (left + w), left = work / best permitted rate, w = rule.weight_s
 *              keep   = 1 for the configuration the job has, else H / (H + restart)
 *              H      = min(time to finish there, max(rule.horizon_s, time since its last change))
 *            The root gives diminishing worth to more devices, so many jobs run at once; the weight
 *            lets short ones pass; `keep` spreads a restart over the time its gain can last, and a
 *            job that has just changed is moved for a large gain only. Rigid jobs: the plain ratio
 *            to the best rate in place of the root, and `keep` times rule.move_ppm on any change.
 * Unknown    A job that never ran is worth goodput_value_unknown() on one device of any type: as
 *            one with rule.unknown_s left. What it may use next is the caller's: at most twice the
 *            devices of a configuration it has run on.
 * Bounds     Values are in [1, GOODPUT_VALUE_MAX] for a rate above 0 and 0 for a rate of 0. Rates
 *            and work below 2^52; anything above counts as that.
 * Tests      goodput_test.c: against the formula in reals, monotone, limits.
 */
#ifndef SHOAL_CORE_GOODPUT_H
#define SHOAL_CORE_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GOODPUT_ONE = 1 << 15,
    GOODPUT_VALUE_MAX = 1 << 20,
    GOODPUT_ROOT_ONE = 1 << 12,
};
#define GOODPUT_RATE_MAX   ((UINT64_C(1) << 52) - 1)
#define GOODPUT_TIME_S_MAX INT64_C(1000000000) /* 31 years: as good as never */

struct goodput_rule {
    int64_t weight_s, horizon_s, unknown_s;
    uint32_t move_ppm; /* of the value, when a change costs more than its restart; 1,000,000 = no */
};

struct goodput_job {
    uint64_t work;      /* left */
    uint64_t rate_best; /* of the configurations permitted now */
    int64_t restart_s, since_change_s;
};

/* sqrt(rate / least) in 1/4096, at most 32: once per epoch and configuration, kept by the caller.
 *  */
uint32_t goodput_root(uint64_t rate, uint64_t least);
/* `root` of the configuration (or rigid: its ratio to the best), `rate` its rate. */
uint32_t goodput_value(const struct goodput_rule *rule, const struct goodput_job *job,
                       uint64_t rate, uint32_t root, bool is_current);
uint32_t goodput_value_unknown(const struct goodput_rule *rule);
/* Seconds until `work` is done, in [0, GOODPUT_TIME_S_MAX]. */
int64_t goodput_time_s(uint64_t work, uint64_t rate);

#endif
