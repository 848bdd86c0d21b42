#include "core/share.h"

#define ONE (INT64_C(1) << 30)

/* round(2^30 * 2^(-i/16)) */
static const int64_t powers[17] = {1073741824, 1028218693, 984625594, 942880699, 902905651,
                                   864625413,  827968132,  792865000, 759250125, 727060411,
                                   696235434,  666717336,  638450708, 611382493, 585461881,
                                   560640218,  536870912};

int64_t share_decay(int64_t duration_us, int64_t half_life_us)
{
    if (duration_us <= 0) return ONE;
    int64_t halvings = duration_us / half_life_us;
    if (halvings >= 30) return 0;
    int64_t rest_us = duration_us % half_life_us, step_us = half_life_us / 16 + 1;
    int64_t step = rest_us / step_us, part_us = rest_us % step_us;
    int64_t from = powers[step], to = powers[step + 1];
    return (from - (from - to) * (part_us / 1000) / (step_us / 1000 + 1)) >> halvings;
}

int64_t share_average(int64_t average, int64_t level, int64_t duration_us, int64_t half_life_us)
{
    int64_t decay = share_decay(duration_us, half_life_us);
    int64_t goal = level * SHARE_FRACTION, distance = average - goal;
    /* In two parts: the product of both would not fit. */
    int64_t kept = distance / ONE * decay + distance % ONE * decay / ONE;
    return goal + kept;
}

int64_t share_coarse(int64_t share)
{
    if (share < 8) return share < 0 ? 0 : share;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll((uint64_t)share);
    int64_t step = (int64_t)(octave - 2) * 8 + ((share >> (octave - 3)) & 7);
    return step < SHARE_STEPS - 1 ? step : SHARE_STEPS - 1;
}
