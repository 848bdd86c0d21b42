#include "core/risk.h"
#include "core/assert.h"
#include "core/offer.h"
#include "core/spot_watch.h"

/* The prior of spot_life.h for what is not watched: hazard(t) = LINDY / (t + QUIET_US), t since the last
 * loss. */
#define LINDY_PPM         INT64_C(600000)
#define QUIET_US          (4 * SPOT_TICK_US)
#define SHARE_PPM_MAX     INT64_C(500000) /* of a life at most: a surcharge of 100 % */
#define SHARE_PPM_OVER    INT64_C(10000)  /* below this a loss is forgotten */
#define TOLD_HIGH_PPM     INT64_C(100000)
#define HAZARD_PPM_MAX    INT64_C(1000000000)
#define CHANGEOVER_US     INT64_C(180000000) /* until one was measured */
#define CHANGEOVER_US_MAX INT64_C(3600000000)

/* Share of a node's life that is spent on its replacement, by what is told. */
static int64_t told_share_ppm(const struct offer *o, int64_t changeover_us)
{
    int64_t hazard_ppm = o->hazard_ppm < HAZARD_PPM_MAX ? o->hazard_ppm : HAZARD_PPM_MAX;
    return hazard_ppm * changeover_us / HOUR_US;
}

bool risk_is_told_high(const struct offer *o)
{
    if (o->capacity != CAPACITY_SPOT) return false;
    return told_share_ppm(o, o->changeover_us == 0 ? CHANGEOVER_US : o->changeover_us) >=
           TOLD_HIGH_PPM;
}

static int64_t seen_share_ppm(const pool *p, const struct offer *o, int64_t changeover_us)
{
    int64_t quiet_us = p->now_us - o->taken_us;
    if (o->taken_us != 0 && quiet_us < p->config.refused_backoff_us) return SHARE_PPM_MAX;
    uint32_t ppb;
    if (spot_watch_hazard(p, (uint32_t)(o - p->offers), &ppb))
        return (int64_t)ppb * (changeover_us / 1000) / SPOT_TICK_US; /* millionths: / 1000 twice */
    if (o->taken_us == 0) return 0;
    return LINDY_PPM * changeover_us / (quiet_us + QUIET_US);
}

uint32_t risk_hazard_ppm(const pool *p, uint32_t offer)
{
    uint32_t ppb, told = p->offers[offer].hazard_ppm;
    if (!spot_watch_hazard(p, offer, &ppb)) return told;
    int64_t learned = (int64_t)ppb / 1000 * HOUR_US / SPOT_TICK_US;
    return learned > told ? (uint32_t)learned : told;
}

int64_t risk_up_us(const pool *p, uint32_t offer)
{
    uint32_t zone = spot_watch_zone(p, offer);
    return zone == SLOT_NONE ? 0 : spot_watch_age(p, zone) * SPOT_TICK_US;
}

/* The end of the first moments, then whenever the hazard has halved. */
static int64_t weigh_again_us(const pool *p, const struct offer *o)
{
    int64_t quiet_us = p->now_us - o->taken_us;
    if (quiet_us < p->config.refused_backoff_us) return o->taken_us + p->config.refused_backoff_us;
    return p->now_us + quiet_us + QUIET_US;
}

int64_t risk_weighed(const struct offer *o, int64_t usd_micros)
{
    bool ranked = o->rank_ppm > RANK_OUTSIDE;
    if (o->risk_ppm != 0 && (!ranked || o->rank_beside)) /* most have none: no division */
        usd_micros += money_share_floor(usd_micros, o->risk_ppm, 1000000);
    if (!ranked) return usd_micros;
    return usd_micros / 1000000 * o->rank_ppm + usd_micros % 1000000 * o->rank_ppm / 1000000;
}

void risk_weigh(pool *p, uint32_t offer)
{
    struct offer *o = &p->offers[offer];
    int64_t changeover_us = o->changeover_us == 0 ? CHANGEOVER_US : o->changeover_us;
    int64_t share = told_share_ppm(o, changeover_us);
    int64_t seen = seen_share_ppm(p, o, changeover_us);
    if (seen > share && seen > SHARE_PPM_OVER) {
        share = seen;
        o->weigh_us = o->taken_us == 0 ? 0 : weigh_again_us(p, o);
    } else {
        o->taken_us = o->weigh_us = 0;
    }
    if (share > SHARE_PPM_MAX) share = SHARE_PPM_MAX;
    o->risk_ppm = (uint32_t)(share * 1000000 / (1000000 - share));
    offer_retime(p, offer);
    offer_reprice(p, offer);
}

int64_t risk_taken(pool *p, uint32_t offer)
{
    struct offer *o = &p->offers[offer];
    if (o->capacity != CAPACITY_SPOT) return 0;
    o->taken_us = p->now_us;
    spot_watch_taken(p, offer);
    risk_weigh(p, offer);
    return p->config.refused_backoff_us;
}

void risk_joined(pool *p, uint32_t offer, int64_t changeover_us)
{
    struct offer *o = &p->offers[offer];
    if (changeover_us > CHANGEOVER_US_MAX) changeover_us = CHANGEOVER_US_MAX;
    o->changeover_us =
        o->changeover_us == 0 ? changeover_us : (3 * o->changeover_us + changeover_us) / 4;
    int64_t faded_us = o->slowest_us - o->slowest_us / 8;
    o->slowest_us = changeover_us > faded_us ? changeover_us : faded_us;
    if (o->risk_ppm != 0) risk_weigh(p, offer);
}
