/* How fast the simulator is: events a second over the seeds 1..200, the median of three runs. The
 * limit it is held against is the budget of 1,000,000 events a second on one core.
 */
#include "base/clock.h"
#include "sim/sim.h"
#include <inttypes.h>
#include <stdio.h>

enum { RUNS = 3, SEEDS = 200, BUDGET_PER_S = 1000000 };

static int64_t run_seeds(void)
{
    uint64_t events = 0;
    int64_t started_us = clock_monotonic_us();
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct sim_options options = sim_options_swarm(seed);
        struct sim_summary summary;
        if (!sim_run(seed, &options, /* trace */ NULL, &summary)) return 0;
        events += summary.events;
    }
    int64_t took_us = clock_monotonic_us() - started_us;
    return took_us > 0 ? (int64_t)events * 1000000 / took_us : 0;
}

static int64_t median_of_three(int64_t a, int64_t b, int64_t c)
{
    if ((a <= b && b <= c) || (c <= b && b <= a)) return b;
    if ((b <= a && a <= c) || (c <= a && a <= b)) return a;
    return c;
}

int main(void)
{
    int64_t rates[RUNS];
    for (int i = 0; i < RUNS; i++) rates[i] = run_seeds();
    int64_t rate = median_of_three(rates[0], rates[1], rates[2]);
    if (rate == 0) {
        (void)fprintf(stderr, "bench_sim: out of memory\n");
        return 1;
    }
    (void)printf("{\"name\": \"sim_events_per_s\", \"value\": %" PRId64
                 ", \"unit\": \"events/s\", \"peer\": \"budget\", \"peer_value\": %d"
                 ", \"ratio\": %.3f, \"better\": \"higher\", \"runs\": %d}\n",
                 rate, BUDGET_PER_S, (double)rate / BUDGET_PER_S, RUNS);
    return 0;
}
