#include "core/goodput.h"
#include "core/assert.h"

enum { SHARE_ONE = 1 << 16, ROOT_MAX = 32 * GOODPUT_ROOT_ONE };

static uint64_t isqrt_u64(uint64_t value) /* floor(sqrt(value)) */
{
    uint64_t root = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint64_t trial = root | (UINT64_C(1) << bit);
        if (trial * trial <= value) root = trial;
    }
    return root;
}

static uint64_t bounded(uint64_t value)
{
    return value < GOODPUT_RATE_MAX ? value : GOODPUT_RATE_MAX;
}

uint32_t goodput_root(uint64_t rate, uint64_t least)
{
    rate = bounded(rate);
    least = bounded(least);
    if (rate == 0 || least == 0) return 0;
    if (rate / least >= 32 * 32) return ROOT_MAX;
    /* The ratio is below 2^10: 24 bits behind the point, as many as rates of 52 bits leave. */
    uint64_t ratio = ((rate << 12) / least << 12) | (((rate << 12) % least << 12) / least);
    return (uint32_t)isqrt_u64(ratio);
}

int64_t goodput_time_s(uint64_t work, uint64_t rate)
{
    if (work == 0) return 0;
    if (rate == 0) return GOODPUT_TIME_S_MAX;
    uint64_t time_s = work / rate;
    return time_s < (uint64_t)GOODPUT_TIME_S_MAX ? (int64_t)time_s : GOODPUT_TIME_S_MAX;
}

/* part / (part + rest) in 1/65536, 1 when both are 0. */
static uint64_t share(int64_t part, int64_t rest)
{
    ASSERT(part >= 0);
    ASSERT(rest >= 0);
    if (rest == 0) return SHARE_ONE;
    return (uint64_t)part * SHARE_ONE / (uint64_t)(part + rest);
}

static int64_t clamp_s(int64_t time_s)
{
    if (time_s < 0) return 0;
    return time_s < GOODPUT_TIME_S_MAX ? time_s : GOODPUT_TIME_S_MAX;
}

static uint32_t compose(uint64_t weight, uint64_t root, uint64_t keep)
{
    /* 2^16 * 2^17 * 2^16 at most; 2^44 = 1 * 1 * 1. */
    uint64_t value = weight * root * keep >> (16 + 12 + 16 - 15);
    if (value == 0) return 1;
    return value < GOODPUT_VALUE_MAX ? (uint32_t)value : GOODPUT_VALUE_MAX;
}

uint32_t goodput_value(const struct goodput_rule *rule, const struct goodput_job *job,
                       uint64_t rate, uint32_t root, bool is_current)
{
    if (rate == 0 || root == 0) return 0;
    uint64_t weight = share(clamp_s(rule->weight_s), goodput_time_s(job->work, job->rate_best));
    uint64_t keep = SHARE_ONE;
    if (!is_current) {
        int64_t since_s = clamp_s(job->since_change_s);
        int64_t horizon_s = since_s > rule->horizon_s ? since_s : clamp_s(rule->horizon_s);
        int64_t finish_s = goodput_time_s(job->work, rate);
        if (finish_s < horizon_s) horizon_s = finish_s;
        keep = share(horizon_s, clamp_s(job->restart_s)) * rule->move_ppm / 1000000;
    }
    return compose(weight, root < ROOT_MAX ? root : ROOT_MAX, keep);
}

uint32_t goodput_value_unknown(const struct goodput_rule *rule)
{
    return compose(share(clamp_s(rule->weight_s), clamp_s(rule->unknown_s)), GOODPUT_ROOT_ONE,
                   SHARE_ONE);
}
