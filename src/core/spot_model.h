/* What a spot market does next, as a small Markov table learned from its past.
 *
 * Role       Pure. Any number of zones and their correlation in SPOT_ENV states of the market and
 *            SPOT_ON states of a node in it. Time in ticks.
 * Market     Nothing up: bucket of ticks since (5). Else the classes of the best and of the
 *            second-best zone that is up (spot_life.h).
 * Node       Class of its own zone and of the best other one.
 * Rows       One step of `lag` ticks, counted over the whole past for lags sampled as they are used
 *            (not powers of a one-tick table: so ageing stays right), with a prior of SPOT_PRIOR
 *            samples a row. A node's row ends in a node state (kept) or a market state (lost);
 *            kept_ppm = mean part of the step it was held when it was lost.
 * History    up[t]: bit z = zone z is up at tick t.
 * Ownership  All memory is the caller's; `scratch` is used during the call only.
 */
#ifndef SHOAL_CORE_SPOT_MODEL_H
#define SHOAL_CORE_SPOT_MODEL_H

#include "core/spot_life.h"
#include <stdbool.h>

enum {
    SPOT_DOWNS = 5,
    SPOT_ENV = SPOT_DOWNS + (SPOT_CLASSES * (SPOT_CLASSES + 3)) / 2,
    SPOT_ON = SPOT_CLASSES * (SPOT_CLASSES + 1),
    SPOT_PRIOR = 20,
    SPOT_PPM = 1000000,
};

struct spot_row {
    uint32_t kept_count,
        count; /* entries [0, kept_count) are node states, the rest market states */
    uint32_t kept_ppm;
    uint32_t ppm[SPOT_ON + SPOT_ENV]; /* sum SPOT_PPM */
    uint8_t to[SPOT_ON + SPOT_ENV];
};

struct spot_step { /* the market and a node `lag` ticks on */
    uint32_t lag;
    bool one_zone; /* there never is another: states with a second zone are left out */
    struct spot_row env[SPOT_ENV], on[SPOT_ON];
};

struct spot_scratch {
    uint32_t env[SPOT_ENV][SPOT_ENV], on[SPOT_ON][SPOT_ON + SPOT_ENV];
    uint64_t held[SPOT_ON]; /* ticks until the loss, summed */
};

/* best >= second >= 0, best > 0. */
static inline uint32_t spot_env_up(uint32_t best, uint32_t second)
{
    return SPOT_DOWNS + (best - 1) * (best + 2) / 2 + second;
}
/* Nothing has been up for `ticks` ticks, this one included. */
uint32_t spot_env_down(uint32_t ticks);
static inline uint32_t spot_on(uint32_t own, uint32_t other)
{
    return (own - 1) * (SPOT_CLASSES + 1) + other;
}

void spot_learn(const struct spot_classes *classes, const uint32_t *up, uint32_t ticks,
                uint32_t lag, struct spot_scratch *scratch, struct spot_step *ret);

#endif
