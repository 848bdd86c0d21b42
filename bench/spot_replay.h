/* Single-node jobs with deadlines on recorded spot zones, for bench/spot.
 *
 * World      A job needs `work` ticks of progress within `window` ticks of its start. The first
 *            `changeover` ticks after any start are paid and bring no progress. What is up is seen
 *            at the beginning of each tick, for all zones; a zone that is up stays so for the tick.
 *            A tick costs 918 on spot and 3060 on demand, unless the task has prices of its own.
 * Cost       Percent of the same job on demand alone: `alone` ticks of on-demand.
 * Policies   greedy            the first zone that is up, else wait
 *            uniform_progress  the first zone that is up; while none is and progress is behind
 *                              work * time / window: on-demand, until that line is reached as it
 *                              is 2 changeovers later
 *            longest_up        the same with the zone that has been up longest
 *            All three: on-demand, and never back, once slack is 2 changeovers and a tick.
 *            shoal             core/spot_policy.h; it has seen the trace up to now and learns anew
 *                              when that has doubled, at least once a day. With prices it counts
 *                              with the mean price of the cheapest zone up so far, takes the zone
 *                              with the most productive time for its price, and leaves one for
 *                              another when that is cheaper with its start
 *            clairvoyant       the exact optimum when the whole trace is known (spot_optimum.c)
 */
#ifndef SHOAL_BENCH_SPOT_REPLAY_H
#define SHOAL_BENCH_SPOT_REPLAY_H

#include "core/spot_policy.h"

enum { SPOT_PRICE = 918, SPOT_OD_PRICE = 3060, SPOT_EXCHANGE = 10 };

enum spot_rule { SPOT_GREEDY, SPOT_UNIFORM, SPOT_LONGEST, SPOT_SHOAL, SPOT_CLAIRVOYANT };

struct spot_task {
    const uint32_t *up; /* [ticks] */
    uint32_t ticks, zone_count, step_s;
    uint32_t work, window, changeover;
    uint32_t alone; /* ticks paid by the same job on demand alone */
    const uint32_t
        *price;      /* [ticks][zone_count] of a tick, in 1/3060 of on-demand; NULL: SPOT_PRICE */
    bool is_blind;   /* ours does not look at prices */
    bool is_several; /* ours holds a second zone besides, which brings 9 of 10 ticks */
    uint32_t first, every, starts; /* job k starts at first + k * every */
};

struct spot_result {
    double cost_pct;
    uint64_t runs, missed;
};

static inline uint32_t spot_price(const struct spot_task *task, uint32_t tick, uint32_t zone)
{
    return task->price == NULL ? SPOT_PRICE : task->price[tick * task->zone_count + zone];
}

void spot_replay(const struct spot_task *task, enum spot_rule rule, struct spot_result *ret);
/* Cost of the optimum in price units, started at tick `start`. */
int64_t spot_optimum(const struct spot_task *task, uint32_t start);

#endif
