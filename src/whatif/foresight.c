/* What each offer would count as to one who knows the future: a bound for rankings.
 *
 * Counts     The mean price until the offer is lost or a day has passed, and with it what a loss wastes:
 *            price * (1 + waste / time left).
 * Known      Recorded prices and availability, and when a drawn zone goes; not how a drawn price walks on,
 *            nor when one node of many is taken.
 */
#include "codec/rank.h"
#include "whatif/ranker.h"

#define AHEAD_US    INT64_C(86400000000)
#define LEFT_MIN_US 60e6

/* A moment of the trace in the time of the world. */
static int64_t untraced(const struct world *w, int64_t at_us)
{
    return at_us + START_US - w->trace_us;
}

/* Until when there is something of it, by its recorded availability. */
static int64_t up_until_us(const struct world *w, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    const struct live_offer *live = &w->offers[offer];
    if (o->up.count == 0) return live->turns_us == 0 ? NEVER_US : live->turns_us;
    for (uint32_t i = live->up_step + 1; i < o->up.count; i++)
        if (o->up.steps[i].value == 0) return untraced(w, o->up.steps[i].at_us);
    return NEVER_US;
}

/* Dollars for an hour over the time until then; a price at which all is lost ends it. */
static double mean_price(const struct world *w, uint32_t offer, int64_t *until_us)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    const struct series *s = &o->price.series;
    double sum = 0;
    int64_t at_us = w->now_us, price = w->offers[offer].usd_micros;
    for (uint32_t i = w->offers[offer].price_step; s->count > 0 && i + 1 < s->count; i++) {
        int64_t next_us = untraced(w, s->steps[i + 1].at_us);
        if (next_us >= *until_us || next_us - w->now_us >= AHEAD_US) break;
        if (next_us > at_us) {
            sum += (double)price * (double)(next_us - at_us);
            at_us = next_us;
        }
        price = s->steps[i + 1].value;
        if (o->bid_ppm > 0 && price >= o->on_demand_usd_micros / 1000 * (o->bid_ppm / 1000))
            *until_us = next_us;
    }
    int64_t end_us = *until_us - w->now_us < AHEAD_US ? *until_us : w->now_us + AHEAD_US;
    if (end_us > at_us) sum += (double)price * (double)(end_us - at_us);
    return end_us > w->now_us ? sum / (double)(end_us - w->now_us) : (double)price;
}

/* Paid for nothing when it is lost: a boot and a restart. */
static int64_t waste_us(const struct world *w, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    int64_t restart_us = 0;
    for (uint32_t i = 0; i < w->scene->job_count; i++)
        if (w->scene->jobs[i].restart_us > restart_us) restart_us = w->scene->jobs[i].restart_us;
    return (o->boot_min_us + o->boot_max_us) / 2 + restart_us;
}

/* Short of on demand: who buys there stays, and pays for longer than the loss would have cost. */
static double below_on_demand(const struct scene_offer *o, double counts)
{
    double most = 0.9 * (double)o->on_demand_usd_micros;
    return o->capacity == CAPACITY_SPOT && counts > most ? most : counts;
}

uint32_t foresight_factor_ppm(const struct world *w, uint32_t offer)
{
    int64_t until_us = up_until_us(w, offer);
    double counts = mean_price(w, offer, &until_us);
    double left_us = (double)(until_us - w->now_us);
    if (left_us < LEFT_MIN_US) left_us = LEFT_MIN_US;
    if (until_us != NEVER_US) counts *= 1 + (double)waste_us(w, offer) / left_us;
    counts = below_on_demand(&w->scene->offers[offer], counts);
    return rank_factor_ppm((int64_t)counts, w->offers[offer].usd_micros);
}
