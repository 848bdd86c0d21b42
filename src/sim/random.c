#include "sim/random.h"
#include "core/assert.h"

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t sim_random_next(struct sim_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(random->state);
}

struct sim_random sim_random_fork(uint64_t seed, uint64_t label)
{
    return (struct sim_random){.state = mix(mix(seed + 1) ^ mix(label * 2 + 1))};
}

int64_t sim_random_range(struct sim_random *random, int64_t min, int64_t max)
{
    ASSERT(min <= max);
    uint64_t span = (uint64_t)(max - min) + 1;
    /* The bias of the remainder is below 2^-20 for every span used here (spans below 2^44). */
    return min + (int64_t)(sim_random_next(random) % span);
}

bool sim_random_chance(struct sim_random *random, int64_t ppm)
{
    if (ppm <= 0) return false;
    return sim_random_range(random, 0, 999999) < ppm;
}

/* -ln(u) without floats: u = 2^-k * m with m in [1, 2), so -ln(u) = k ln 2 - ln(m), and
 * ln(m) is close to its chord (m - 1) * ln 2 (largest error 0.06, of no matter for a fault rate).
 * In units of 2^-16. */
int64_t sim_random_exponential_us(struct sim_random *random, int64_t mean_us)
{
    ASSERT(mean_us > 0);
    uint64_t draw = sim_random_next(random) | 1;
    int leading = __builtin_clzll(draw);
    uint64_t mantissa = leading == 63 ? 0 : (draw << (leading + 1)) >> 48; /* m - 1, 16 bits */
    const int64_t ln2_16 = 45426;
    int64_t exponent_16 = (leading + 1) * ln2_16 - (int64_t)((mantissa * 45426) >> 16);
    int64_t value = mean_us / 65536 * exponent_16 + mean_us % 65536 * exponent_16 / 65536;
    return value < 1 ? 1 : value;
}
