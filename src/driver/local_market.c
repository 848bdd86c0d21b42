#include "driver/local_market.h"
#include <math.h>

void local_prices_default(struct local_prices *ret_prices)
{
    *ret_prices = (struct local_prices){
        .every_us = 1000000,
        .reversion = 0.58,
        .volatility = 0.217,
        .change_share = 0.367,
        .spike_share = 0.0354,
        .spike_factor_min = 1.5,
        .spike_factor_max = 2.5, /* the upper end is ours: on demand caps it anyway */
        .spike_ticks_mean = 2.8,
    };
}

void local_preemptions_default(struct local_preemptions *ret_preemptions)
{
    *ret_preemptions = (struct local_preemptions){
        .mean_life_us = INT64_C(8223000000),
        .life_shape = 0.63,
        .without_notice_share = 0.1, /* ours: clouds call the notice "best effort", none counts */
        .mean_outage_us = INT64_C(6556000000),
        .outage_shape = 0.60,
    };
}

/* SplitMix64's finalizer (S. Vigna, public domain), as a mixing function. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double local_draw(uint64_t seed, enum local_draw what, uint64_t which, uint64_t when)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = mix(seed + golden);
    x = mix(x ^ ((uint64_t)what * golden));
    x = mix(x ^ (which * golden + 1));
    x = mix(x ^ (when * golden + 2));
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

/* Standard normal from two uniforms (Box and Muller, 1958). */
static double normal_of(double u, double v)
{
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

int64_t local_weibull_us(int64_t mean_us, double shape, double u)
{
    double scale_us = (double)mean_us / tgamma(1.0 + 1.0 / shape);
    double value_us = scale_us * pow(-log(u), 1.0 / shape);
    if (value_us < 1.0) return 1;
    return value_us > 9e15 ? INT64_C(9000000000000000) : (int64_t)value_us;
}

static void advance(const struct local_price_source *source, struct local_price_cursor *cursor)
{
    const struct local_prices *p = source->prices;
    uint64_t tick = (uint64_t)cursor->next_tick;
    cursor->next_tick++;
    if (local_draw(source->seed, LOCAL_DRAW_CHANGE, source->which, tick) < p->change_share) {
        double u = local_draw(source->seed, LOCAL_DRAW_STEP, source->which, 2 * tick);
        double v = local_draw(source->seed, LOCAL_DRAW_STEP, source->which, 2 * tick + 1);
        cursor->log_ratio =
            (1.0 - p->reversion) * cursor->log_ratio + p->volatility * normal_of(u, v);
    }
    if (cursor->spike_factor > 1.0) {
        double end = local_draw(source->seed, LOCAL_DRAW_SPIKE_END, source->which, tick);
        if (end * p->spike_ticks_mean < 1.0) cursor->spike_factor = 1.0;
    } else if (local_draw(source->seed, LOCAL_DRAW_SPIKE, source->which, tick) < p->spike_share) {
        double u = local_draw(source->seed, LOCAL_DRAW_SPIKE_FACTOR, source->which, tick);
        cursor->spike_factor =
            p->spike_factor_min + u * (p->spike_factor_max - p->spike_factor_min);
    }
}

int64_t local_price_at(const struct local_price_source *source, struct local_price_cursor *cursor,
                       int64_t tick)
{
    if (tick < 0) tick = 0;
    if (cursor->next_tick == 0 || cursor->next_tick > tick + 1)
        *cursor = (struct local_price_cursor){.spike_factor = 1.0};
    while (cursor->next_tick <= tick) advance(source, cursor);

    double base = (double)source->base_usd_micros_per_hour;
    double price = base * exp(cursor->log_ratio) * cursor->spike_factor;
    double ceiling = (double)source->on_demand_usd_micros_per_hour;
    if (price < base / 10.0) price = base / 10.0;
    if (price > ceiling) price = ceiling;
    return (int64_t)llround(price / 100.0) * 100; /* clouds quote hundredths of a cent */
}
