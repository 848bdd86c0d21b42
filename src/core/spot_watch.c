#include "core/spot_watch.h"
#include "core/assert.h"
#include "core/offer.h"
#include "core/risk.h"

#define DAY_US   INT64_C(86400000000)
#define NEVER_US INT64_C(-1)
enum {
    DAY_TICKS = DAY_US / SPOT_TICK_US,
    HORIZON_TICKS = 2 * DAY_TICKS,
    LEARN_FIRST = 25,
};

/* A cell of work 0 and one of slack 0 come on top, and two rows of the pass. */
size_t spot_watch_table_bytes(const struct pool_limits *limits)
{
    size_t cells = limits->jobs_max < SPOT_SMALL_JOBS ? SPOT_SMALL_CELLS : SPOT_CELLS;
    return cells * SPOT_CELL * sizeof(int32_t) * 5 / 4;
}

uint32_t spot_watch_plans(const struct pool_limits *limits)
{
    return limits->jobs_max < SPOT_SMALL_JOBS ? 1 : SPOT_PLANS_MAX;
}

void spot_watch_init(pool *p)
{
    struct spot_watch *w = p->watch;
    w->next_us = 0;
    w->uses = 0;
    w->tick_count = w->taken = w->reserved = 0;
    spot_life_clear(&w->life, 0);
    w->plan_count = spot_watch_plans(&p->config.limits);
    for (uint32_t i = 0; i < SPOT_ZONES_MAX; i++) {
        w->offer[i] = 0;
        w->wanted_us[i] = NEVER_US;
    }
    for (uint32_t i = 0; i < SPOT_PLANS_MAX; i++) {
        w->plans[i].terms = (struct spot_terms){0};
        w->plans[i].zones = w->plans[i].learned_ticks = w->plans[i].solved = 0;
        w->plans[i].used = 0;
        w->plans[i].memory =
            (uint8_t *)p->watch_tables +
            (i < w->plan_count ? i : 0) * spot_watch_table_bytes(&p->config.limits);
    }
}

static bool is_held(const pool *p, const struct offer *o)
{
    for (uint32_t n = o->nodes.head; n != SLOT_NONE; n = p->nodes[n].offer_link.next)
        if ((p->nodes[n].state == NODE_BOOTING || p->nodes[n].state == NODE_READY) &&
            p->nodes[n].notice_us == 0)
            return true;
    return false;
}

static uint32_t zones_up(const pool *p)
{
    const struct spot_watch *w = p->watch;
    uint32_t up = 0;
    for (uint32_t z = 0; z < w->life.zone_count; z++) {
        const struct offer *o = &p->offers[w->offer[z]];
        if (o->share_ppm > THRESHOLD_PPM_NONE || (w->taken >> z & 1) != 0) continue;
        if (offer_stock(p, o) > 0 || is_held(p, o)) up |= UINT32_C(1) << z;
    }
    return up;
}

/* What a table was solved from must stay: it is all that a snapshot keeps of it. */
static void forget_half(struct spot_watch *w)
{
    for (uint32_t t = 0; t < SPOT_HISTORY / 2; t++)
        w->history[t] = w->history[t + SPOT_HISTORY / 2];
    w->tick_count = SPOT_HISTORY / 2;
    for (uint32_t i = 0; i < w->plan_count; i++) {
        w->plans[i].solved = 0;
        w->plans[i].learned_ticks = w->tick_count;
    }
}

static void enter(struct spot_watch *w, uint32_t up)
{
    if (w->tick_count == SPOT_HISTORY) forget_half(w);
    w->history[w->tick_count++] = up;
    spot_life_see(&w->life, up);
    w->taken = 0;
}

/* What it is worth changes with its age, by buckets, and when it was lost. */
static void weigh_again(pool *p, const uint8_t *buckets)
{
    const struct spot_watch *w = p->watch;
    for (uint32_t z = 0; z < w->life.zone_count; z++)
        if (spot_age_bucket(w->life.age[z]) != buckets[z]) risk_weigh(p, w->offer[z]);
}

void spot_watch_tick(pool *p)
{
    struct spot_watch *w = p->watch;
    if (w->life.zone_count == 0 || p->now_us < w->next_us) return;
    int64_t passed = (p->now_us - w->next_us) / SPOT_TICK_US + 1;
    w->next_us += passed * SPOT_TICK_US;
    if (passed > SPOT_HISTORY) passed = SPOT_HISTORY; /* older ones would be forgotten at once */
    uint8_t buckets[SPOT_ZONES_MAX];
    for (uint32_t z = 0; z < w->life.zone_count; z++)
        buckets[z] = (uint8_t)spot_age_bucket(w->life.age[z]);
    enter(w, zones_up(p));
    for (uint32_t up = zones_up(p); passed > 1; passed--) enter(w, up);
    weigh_again(p, buckets);
}

void spot_watch_offer(pool *p, uint32_t offer)
{
    struct spot_watch *w = p->watch;
    if (p->offers[offer].capacity != CAPACITY_SPOT || w->life.zone_count == SPOT_ZONES_MAX) return;
    if (w->life.zone_count == 0) w->next_us = p->now_us + SPOT_TICK_US;
    w->offer[w->life.zone_count++] = offer;
}

void spot_watch_want(pool *p, uint32_t zones)
{
    for (uint32_t z = 0; z < p->watch->life.zone_count; z++)
        if (zones >> z & 1) p->watch->wanted_us[z] = p->now_us;
}

/* As if it had never been up; tables that knew it are free. */
static void forget_zone(struct spot_watch *w, uint32_t zone)
{
    uint32_t bit = UINT32_C(1) << zone;
    w->taken &= ~bit;
    w->life.age[zone] = 0;
    for (uint32_t bucket = 0; bucket < SPOT_AGES; bucket++)
        w->life.seen[zone][bucket] = w->life.lost[zone][bucket] = 0;
    for (uint32_t t = 0; t < w->tick_count; t++) w->history[t] &= ~bit;
    for (uint32_t i = 0; i < w->plan_count; i++) {
        struct spot_plan *plan = &w->plans[i];
        if ((plan->zones & bit) != 0) *plan = (struct spot_plan){.memory = plan->memory};
    }
}

bool spot_watch_admit(pool *p, uint32_t offer)
{
    struct spot_watch *w = p->watch;
    uint32_t zone = 0;
    for (uint32_t z = 1; z < w->life.zone_count; z++)
        if (w->wanted_us[z] < w->wanted_us[zone]) zone = z;
    if (w->wanted_us[zone] != NEVER_US && p->now_us - w->wanted_us[zone] < DAY_US) return false;
    uint32_t before = w->offer[zone];
    forget_zone(w, zone);
    w->offer[zone] = offer;
    w->wanted_us[zone] = p->now_us;
    risk_weigh(p, before);
    risk_weigh(p, offer);
    return true;
}

uint32_t spot_watch_zone(const pool *p, uint32_t offer)
{
    for (uint32_t z = 0; z < p->watch->life.zone_count; z++)
        if (p->watch->offer[z] == offer) return z;
    return SLOT_NONE;
}

void spot_watch_taken(pool *p, uint32_t offer)
{
    uint32_t zone = spot_watch_zone(p, offer);
    if (zone != SLOT_NONE) p->watch->taken |= UINT32_C(1) << zone;
}

uint32_t spot_watch_age(const pool *p, uint32_t zone)
{
    return p->watch->taken >> zone & 1 ? 0 : p->watch->life.age[zone];
}

bool spot_watch_hazard(const pool *p, uint32_t offer, uint32_t *ret_ppb)
{
    const struct spot_life *life = &p->watch->life;
    uint32_t zone = spot_watch_zone(p, offer), lost = p->watch->taken != 0;
    for (uint32_t z = 0; z < life->zone_count && lost == 0; z++)
        for (uint32_t bucket = 0; bucket < SPOT_AGES; bucket++) lost |= life->lost[z][bucket];
    if (zone == SLOT_NONE || lost == 0) return false;
    *ret_ppb = spot_hazard_ppb(life, zone, spot_age_bucket(spot_watch_age(p, zone)));
    return true;
}

uint32_t spot_watch_down(const pool *p, uint32_t zones)
{
    const struct spot_watch *w = p->watch;
    uint32_t ticks = 1;
    while (ticks < w->tick_count && (w->history[w->tick_count - ticks] & zones) == 0) ticks++;
    return ticks;
}

/* ---- tables ---- */

static void name_zones(struct spot_plan *plan)
{
    plan->zone_count = 0;
    for (uint32_t z = 0; z < SPOT_ZONES_MAX; z++)
        if (plan->zones >> z & 1) plan->zone[plan->zone_count++] = (uint8_t)z;
}

static uint32_t squeeze(const struct spot_plan *plan, uint32_t up)
{
    uint32_t result = 0;
    for (uint32_t i = 0; i < plan->zone_count; i++) result |= (up >> plan->zone[i] & 1) << i;
    return result;
}

static void solve(pool *p, struct spot_plan *plan)
{
    struct spot_watch *w = p->watch;
    name_zones(plan);
    spot_life_clear(&w->learning, plan->zone_count);
    for (uint32_t t = 0; t < plan->learned_ticks; t++) {
        w->compact[t] = squeeze(plan, w->history[t]);
        spot_life_see(&w->learning, w->compact[t]);
    }
    spot_classify(&w->learning, HORIZON_TICKS, &plan->classes);
    spot_learn(&plan->classes, w->compact, plan->learned_ticks, spot_table_grain(&plan->terms),
               &w->scratch, &w->short_step);
    spot_learn(&plan->classes, w->compact, plan->learned_ticks, spot_table_lag(&plan->terms),
               &w->scratch, &w->long_step);
    spot_table_solve(&plan->table, &plan->terms, &w->short_step, &w->long_step, plan->memory);
    plan->solved = 1;
}

static bool is_same(const struct spot_terms *a, const struct spot_terms *b)
{
    return a->work == b->work && a->window == b->window && a->changeover == b->changeover &&
           a->spot_price == b->spot_price && a->on_demand_price == b->on_demand_price &&
           a->cells == b->cells;
}

bool spot_watch_fits(const pool *p, const struct spot_terms *terms)
{
    size_t bytes = spot_table_bytes(terms);
    return bytes > 0 && bytes <= spot_watch_table_bytes(&p->config.limits);
}

/* As many cells as there is room for; 0: there is no such table. */
static uint32_t cells_for(const pool *p, struct spot_terms terms)
{
    size_t room = spot_watch_table_bytes(&p->config.limits);
    terms.cells = p->config.limits.jobs_max < SPOT_SMALL_JOBS ? SPOT_SMALL_CELLS : SPOT_CELLS;
    for (; terms.cells > 0; terms.cells = terms.cells * 3 / 4) {
        size_t bytes = spot_table_bytes(&terms);
        if (bytes == 0) return 0;
        if (bytes <= room) return terms.cells;
    }
    return 0;
}

static struct spot_plan *plan_of(struct spot_watch *w, uint32_t zones,
                                 const struct spot_terms *terms)
{
    struct spot_plan *oldest = &w->plans[0];
    for (uint32_t i = 0; i < w->plan_count; i++) {
        struct spot_plan *plan = &w->plans[i];
        if (plan->zones == zones && is_same(&plan->terms, terms)) return plan;
        if (plan->used < oldest->used) oldest = plan;
    }
    *oldest = (struct spot_plan){
        .zones = zones, .terms = *terms, .learned_ticks = w->tick_count, .memory = oldest->memory};
    return oldest;
}

static bool is_outdated(const struct spot_watch *w, const struct spot_plan *plan)
{
    uint32_t learned = plan->learned_ticks;
    if (learned < LEARN_FIRST) return w->tick_count >= LEARN_FIRST;
    return w->tick_count >= 2 * learned || w->tick_count >= learned + DAY_TICKS;
}

const struct spot_plan *spot_watch_plan(pool *p, uint32_t zones, const struct spot_terms *terms)
{
    struct spot_watch *w = p->watch;
    struct spot_terms wanted = *terms;
    wanted.cells = cells_for(p, wanted);
    if (zones == 0 || wanted.cells == 0) return NULL;
    struct spot_plan *plan = plan_of(w, zones, &wanted);
    plan->used = ++w->uses;
    if (is_outdated(w, plan)) {
        plan->learned_ticks = w->tick_count;
        plan->solved = 0;
    }
    if (!plan->solved) solve(p, plan);
    return plan;
}
