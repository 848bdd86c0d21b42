/* Prices and lifetimes of the emulated clouds: pure functions of (seed, which, when).
 *
 * Role       No I/O, clock or state beyond the cursor the caller holds. A cursor only makes the
 *            next tick cheap; asking for an earlier tick starts it over and gives the same number.
 * Ticks      Time since t0 in units of prices.every; a price holds for a whole tick.
 * Price      log(price / base) is a mean-reverting walk that moves on some ticks only:
 *                x' = (1 - reversion) x + volatility g   with probability change_share, else x
 *            times a spike factor now and then; never above on demand, never below a tenth of base.
 * Lifetime   Weibull(shape, mean): shape below 1 means the young die first and a few live long.
 *
 * Where the defaults come from (measured by us on public traces; the files carry their sources):
 *   gpu_market_daily_2026-02_07.csv, rental_type spot, H100/A100/A10 models, series of 20 days or
 *   more, rows from providers only: 33 series, 1,331 pairs of consecutive days. The median price
 *   changed on 36.7 % of days; regression of log(price/mean) on the day before: slope 0.417, so
 *   reversion 0.58 a day; residual s.d. 0.217; 0.0354 excursions above 1.5 x the series' median
 *   begin per series and day and last 2.8 days on average. One tick stands for one such day.
 *   aws_spot_price_history_2019-12_2020-03.csv (p2, p3): the calm end of the field. 32 moving
 *   series of 60, 0.077 changes an hour, median step 0.24 %, 99th percentile 3.6 %, no reversion
 *   seen within three months, no jump above 16 %; median price 31 % of on demand.
 *   skypilot_segments.csv, preemption series with one GPU node (V100, 2023): 86 up times, median
 *   2,448 s, mean 8,223 s, Weibull shape 0.63; 87 down times, median 1,664 s, mean 6,556 s, shape
 *   0.60.
 *   dispa2020_lifetimes.csv: 317 instances, 9 censored, Weibull shape 0.49 (AWS 0.37, GCP 0.56).
 *   Hazard per hour by age: 2.85 in the first half hour, 0.74 in the second, 0.30 to 3 h, 0.14 to
 *   6 h, 0.04 beyond, and the 24 h limit of GCP. bamboo_p3_events.csv disagrees: 177 nodes, shape
 *   1.09, mean 1.6 h; a fleet that refills itself within minutes hides its early deaths.
 */
#ifndef SHOAL_DRIVER_LOCAL_MARKET_H
#define SHOAL_DRIVER_LOCAL_MARKET_H

#include <stdint.h>

struct local_prices {
    int64_t every_us;
    double reversion, volatility, change_share;
    double spike_share;      /* probability that a spike begins on a tick */
    double spike_factor_min; /* spikes multiply the price by factor_min .. factor_max */
    double spike_factor_max;
    double spike_ticks_mean;
};

struct local_preemptions {
    int64_t mean_life_us; /* 0: none */
    double life_shape;
    double without_notice_share; /* of the preemptions in zones that give notice */
    int64_t mean_outage_us;      /* how long the place of a node that was taken stays sold */
    double outage_shape;
};

void local_prices_default(struct local_prices *ret_prices);
void local_preemptions_default(struct local_preemptions *ret_preemptions);

/* Uniform in (0, 1), the same for the same arguments everywhere. */
enum local_draw {
    LOCAL_DRAW_CHANGE = 1,
    LOCAL_DRAW_STEP,
    LOCAL_DRAW_SPIKE,
    LOCAL_DRAW_SPIKE_FACTOR,
    LOCAL_DRAW_SPIKE_END,
    LOCAL_DRAW_LIFE,
    LOCAL_DRAW_NOTICE,
    LOCAL_DRAW_OUTAGE,
    LOCAL_DRAW_BOOT,
};
double local_draw(uint64_t seed, enum local_draw what, uint64_t which, uint64_t when);

/* Weibull with this mean and shape, at quantile u of (0, 1); at least 1. */
int64_t local_weibull_us(int64_t mean_us, double shape, double u);

struct local_price_cursor {
    int64_t next_tick; /* the state below is that of next_tick - 1 */
    double log_ratio, spike_factor;
};

struct local_price_source {
    const struct local_prices *prices;
    uint64_t seed, which;
    int64_t base_usd_micros_per_hour, on_demand_usd_micros_per_hour;
};

int64_t local_price_at(const struct local_price_source *source, struct local_price_cursor *cursor,
                       int64_t tick);

#endif
