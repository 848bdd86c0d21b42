#include "core/match_weight.h"
#include "core/assert.h"
#include "core/match.h"

enum { FRACTION_BITS = 16, TABLE_BITS = 6, TABLE_STEPS = 1 << TABLE_BITS };
enum { STEP_BITS = FRACTION_BITS - TABLE_BITS };

/* round(2^16 * log2(1 + i / 64)) */
static const int32_t log2_table[TABLE_STEPS + 1] = {
    0,     1466,  2909,  4331,  5732,  7112,  8473,  9814,  11136, 12440, 13727, 14996, 16248,
    17484, 18704, 19909, 21098, 22272, 23433, 24579, 25711, 26830, 27936, 29029, 30109, 31178,
    32234, 33279, 34312, 35334, 36346, 37346, 38336, 39316, 40286, 41246, 42196, 43137, 44068,
    44990, 45904, 46809, 47705, 48593, 49472, 50344, 51207, 52063, 52911, 53751, 54584, 55410,
    56229, 57040, 57845, 58643, 59434, 60219, 60997, 61769, 62534, 63294, 64047, 64794, 65536,
};
/* round(2^16 * 2^(i / 64)) */
static const int32_t exp2_table[TABLE_STEPS + 1] = {
    65536,  66250,  66971,  67700,  68438,  69183,  69936,  70698,  71468,  72246,  73032,
    73828,  74632,  75444,  76266,  77096,  77936,  78785,  79642,  80510,  81386,  82273,
    83169,  84074,  84990,  85915,  86851,  87796,  88752,  89719,  90696,  91684,  92682,
    93691,  94711,  95743,  96785,  97839,  98905,  99982,  101070, 102171, 103283, 104408,
    105545, 106694, 107856, 109031, 110218, 111418, 112631, 113858, 115098, 116351, 117618,
    118899, 120194, 121502, 122825, 124163, 125515, 126882, 128263, 129660, 131072,
};

static int64_t between(const int32_t *table, int64_t fraction)
{
    int64_t step = fraction >> STEP_BITS;
    int64_t rest = fraction & ((1 << STEP_BITS) - 1);
    ASSERT(step < TABLE_STEPS);
    return table[step] + (((table[step + 1] - table[step]) * rest) >> STEP_BITS);
}

/* log2(ratio / MATCH_ONE), MATCH_ONE = 1; may be negative. */
static int64_t logarithm(int64_t ratio)
{
    int64_t octave = 0;
    ASSERT(ratio > 0);
    while (ratio >= 2 * MATCH_ONE) {
        ratio >>= 1;
        octave++;
    }
    while (ratio < MATCH_ONE) {
        ratio <<= 1;
        octave--;
    }
    return octave * MATCH_ONE + between(log2_table, ratio - MATCH_ONE);
}

int64_t match_power(int64_t ratio, int32_t exponent_milli)
{
    int64_t product = logarithm(ratio) * exponent_milli;
    int64_t scaled = product >= 0 ? product / 1000 : -((-product + 999) / 1000);
    int64_t octave = scaled >> FRACTION_BITS; /* floor: arithmetic shift */
    int64_t power = between(exp2_table, scaled - octave * MATCH_ONE);
    if (octave >= 26 - FRACTION_BITS) return MATCH_WEIGHT_MAX;
    if (octave >= 0) return power << octave;
    power = octave < -2 * FRACTION_BITS ? 0 : power >> -octave;
    return power > 0 ? power : 1;
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
    if (value < least) return least;
    return value > most ? most : value;
}

int64_t match_weight(const struct match_aim *aim, int64_t remaining_s, int64_t age_s,
                     int64_t start_s, int64_t span_s)
{
    ASSERT(aim->offset_s > 0);
    ASSERT(aim->age_gain_milli <= 10000);
    int64_t size_s = within(remaining_s, 0, MATCH_SIZE_S_MAX) + aim->offset_s;
    int64_t weight = match_power(size_s * MATCH_ONE / aim->offset_s, aim->exponent_milli);
    int64_t late_s = within(age_s, 0, MATCH_SIZE_S_MAX) - within(start_s, 0, MATCH_SIZE_S_MAX);
    if (late_s > 0) {
        int64_t times = late_s * 64 / within(span_s, 1, MATCH_SIZE_S_MAX); /* 64 = 1 */
        weight += weight * within(times, 0, INT64_C(1) << 16) * aim->age_gain_milli / 64000;
    }
    return within(weight, 1, MATCH_WEIGHT_MAX);
}

static int64_t root(int64_t value) /* floor */
{
    int64_t root = 0;
    for (int bit = 31; bit >= 0; bit--) {
        int64_t trial = root | (INT64_C(1) << bit);
        if (trial <= INT64_C(3037000499) && trial * trial <= value) root = trial;
    }
    return root;
}

int64_t match_norm(const int64_t *rates, uint32_t types)
{
    int64_t best = 0;
    int64_t sum = 0;
    int64_t count = 0;
    for (uint32_t type = 0; type < types; type++) {
        if (rates[type] <= 0) continue;
        ASSERT(rates[type] <= INT64_C(1) << 40);
        if (rates[type] > best) best = rates[type];
        sum += rates[type];
        count++;
    }
    if (count == 0) return 0;
    int shift = 0; /* best * mean within 63 bits: 2 * 31 */
    while ((best >> shift) >= INT64_C(1) << 31) shift++;
    int64_t norm = root((best >> shift) * ((sum / count) >> shift)) << shift;
    return norm > 0 ? norm : 1;
}

int64_t match_rate(int64_t rate, int64_t norm)
{
    if (rate <= 0 || norm <= 0) return 0;
    ASSERT(rate <= INT64_C(1) << 40);
    return within((rate * MATCH_RATE_ONE + norm / 2) / norm, 1,
                  (int64_t)MATCH_RATE_ONE * MATCH_RATIO_MAX);
}

int64_t match_worth(int64_t weight, int64_t rate)
{
    ASSERT(weight >= 0);
    ASSERT(weight <= MATCH_WEIGHT_MAX);
    ASSERT(rate <= (int64_t)MATCH_RATE_ONE * MATCH_RATIO_MAX);
    return rate <= 0 ? 0 : within(weight * rate, 1, MATCH_VALUE_MAX);
}
