#include "server/survival.h"
#include <math.h>

#define FIRST_HOURS (5.0 / 60)
#define SPOT_PRIOR 0.6
#define SPOT_PRIOR_HOURS (13.0 / 60)
#define OTHER_PRIOR (1.0 / 5000)
/* Losses that the priors weigh. Little for what is said to be guaranteed: one real loss tells more. */
#define SPOT_PRIOR_LOSSES  1.0
#define OTHER_PRIOR_LOSSES 0.01

/* Bucket i spans [begin(i), begin(i + 1)): 0, 5 min, 10 min, 20 min ... 85 h and beyond. */
static double begin_of(uint32_t bucket)
{
    return bucket == 0 ? 0 : FIRST_HOURS * (double)(UINT32_C(1) << (bucket - 1));
}

static double end_of(uint32_t bucket)
{
    return bucket + 1 == SURVIVAL_AGES ? INFINITY : begin_of(bucket + 1);
}

static uint32_t bucket_of(double age_hours)
{
    uint32_t bucket = 0;
    while (bucket + 1 < SURVIVAL_AGES && age_hours >= begin_of(bucket + 1)) bucket++;
    return bucket;
}

void survival_add(struct survival_seen *seen, double lived_hours, bool is_lost)
{
    if (!(lived_hours >= 0)) return; /* a clock that was set back */
    seen->lives++;
    for (uint32_t i = 0; i < SURVIVAL_AGES && begin_of(i) < lived_hours; i++)
        seen->hours[i] += fmin(lived_hours, end_of(i)) - begin_of(i);
    if (!is_lost) return;
    seen->losses++;
    seen->lost[bucket_of(lived_hours)]++;
}

void survival_join(struct survival_seen *all, const struct survival_seen *seen)
{
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++) {
        all->hours[i] += seen->hours[i];
        all->lost[i] += seen->lost[i];
    }
    all->lives += seen->lives;
    all->losses += seen->losses;
}

static double prior_of(uint32_t bucket, bool is_spot)
{
    double from = begin_of(bucket);
    double middle = bucket + 1 == SURVIVAL_AGES ? from * 1.5 : (from + end_of(bucket)) / 2;
    return is_spot ? SPOT_PRIOR / (middle + SPOT_PRIOR_HOURS) : OTHER_PRIOR;
}

void survival_curve_of(const struct survival_seen *seen, const struct survival_seen *all,
                       bool is_spot, struct survival_curve *ret)
{
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++) {
        double losses = is_spot ? SPOT_PRIOR_LOSSES : OTHER_PRIOR_LOSSES;
        double kind = (all->lost[i] + losses) / (all->hours[i] + losses / prior_of(i, is_spot));
        ret->hours[i] = seen->hours[i] + SURVIVAL_SHRINK / kind;
        ret->per_hour[i] = (seen->lost[i] + SURVIVAL_SHRINK) / ret->hours[i];
    }
}

/* Losses expected up to this age. */
static double risk_until(const struct survival_curve *curve, double hours)
{
    double risk = 0;
    for (uint32_t i = 0; i < SURVIVAL_AGES && begin_of(i) < hours; i++)
        risk += curve->per_hour[i] * (fmin(hours, end_of(i)) - begin_of(i));
    return risk;
}

double survival_at(const struct survival_curve *curve, double hours)
{
    return exp(-risk_until(curve, hours));
}

static double age_of_risk(const struct survival_curve *curve, double risk)
{
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++) {
        double rate = curve->per_hour[i], more = rate * (end_of(i) - begin_of(i));
        if (rate > 0 && risk <= more) return begin_of(i) + risk / rate;
        if (rate > 0) risk -= more;
    }
    return INFINITY;
}

double survival_age_of(const struct survival_curve *curve, double share)
{
    return age_of_risk(curve, -log(share));
}

double survival_age_after(const struct survival_curve *curve, double age_hours, double share)
{
    return age_of_risk(curve, risk_until(curve, age_hours) - log(share));
}

double survival_mean(const struct survival_curve *curve, double horizon_hours)
{
    double sum = 0, up = 1;
    for (uint32_t i = 0; i < SURVIVAL_AGES && begin_of(i) < horizon_hours; i++) {
        double rate = curve->per_hour[i], span = fmin(horizon_hours, end_of(i)) - begin_of(i);
        double left = exp(-rate * span);
        sum += rate > 0 ? up * (1 - left) / rate : up * span;
        up *= left;
    }
    return sum;
}

/* ---- draws ---- */

static uint64_t next_of(struct survival_random *random) /* splitmix64 */
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double survival_uniform(struct survival_random *random)
{
    return ((double)(next_of(random) >> 11) + 0.5) / 9007199254740992.0; /* 2^53 */
}

static double normal(struct survival_random *random)
{
    double radius = sqrt(-2 * log(survival_uniform(random)));
    return radius * cos(6.283185307179586 * survival_uniform(random));
}

/* Marsaglia and Tsang; shapes here are at least SURVIVAL_SHRINK, so above 1. */
static double gamma_of(double shape, struct survival_random *random)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(random), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(survival_uniform(random)) < x * x / 2 + d - d * v + d * log(v)) return d * v;
    }
}

void survival_draw(const struct survival_curve *curve, struct survival_random *random,
                   struct survival_curve *ret)
{
    *ret = *curve;
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++)
        ret->per_hour[i] = gamma_of(curve->per_hour[i] * curve->hours[i], random) / curve->hours[i];
}
