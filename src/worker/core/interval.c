#include "worker/core/interval.h"
#include "core/assert.h"
#include <assert.h>

#define COST_MAX_US INT64_C(1000000000)    /* 1,000 s */
#define MEAN_MAX_US INT64_C(2592000000000) /* 30 days */

/* The product of the two is taken in units of 1,024 us^2, whose root is 32 us. */
static_assert(2 * COST_MAX_US <= INT64_MAX / (MEAN_MAX_US / 1024), "2CM must not overflow");

static uint64_t root_of(uint64_t value) /* floor(sqrt(value)); 32 rounds, one bit each */
{
    uint64_t root = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint64_t trial = root | (UINT64_C(1) << bit);
        if (trial * trial <= value) root = trial;
    }
    return root;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

int64_t interval_us(const struct interval_facts *facts)
{
    ASSERT(facts->member_count > 0);
    ASSERT(facts->stall_us >= 0);
    ASSERT(facts->write_us >= 0);
    ASSERT(facts->member_us >= 0);
    if (facts->stall_us == 0 && facts->write_us == 0) return INTERVAL_MIN_US; /* measure it soon */
    int64_t share_us = facts->write_us / INTERVAL_WRITE_SHARE;
    int64_t stall_us = clamp(facts->stall_us, 0, COST_MAX_US);
    int64_t cost_us = clamp(stall_us + clamp(share_us, 0, COST_MAX_US), 1, COST_MAX_US);
    int64_t life_us = clamp(facts->member_us, 0, INT64_MAX / 2) / (facts->loss_count + 1);
    int64_t mean_us =
        (life_us + INTERVAL_PRIOR_US / (facts->loss_count + 1)) / (int64_t)facts->member_count;
    mean_us = clamp(mean_us, 1024, MEAN_MAX_US);
    uint64_t product = 2 * (uint64_t)cost_us * (uint64_t)(mean_us / 1024);
    int64_t best_us = (int64_t)(root_of(product) * 32);
    if (best_us < facts->write_us) best_us = facts->write_us;
    return clamp(best_us, INTERVAL_MIN_US, INTERVAL_MAX_US);
}
