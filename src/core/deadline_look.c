/* What a job with a deadline could run on: guaranteed capacity, and watched spot offers. */
#include "core/buying.h"
#include "core/deadline.h"
#include "core/deadline_view.h"
#include "core/gate.h"
#include "core/island.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/prices.h"
#include "core/spot_watch.h"

int64_t deadline_per_device(const struct offer *o)
{
    return o->usd_micros_per_hour / o->device_count;
}

static void see_spot(const pool *p, uint32_t offer, uint32_t nodes, struct sight *sight)
{
    const struct offer *o = &p->offers[offer];
    uint32_t zone = spot_watch_zone(p, offer);
    if (zone != SLOT_NONE)
        sight->zones |= UINT32_C(1) << zone;
    else if (sight->unwatched == SLOT_NONE ||
             deadline_per_device(o) < deadline_per_device(&p->offers[sight->unwatched]))
        sight->unwatched = offer;
    bool up = offer_stock(p, o) >= nodes && !offer_is_above(o, sight->s->threshold_ppm) &&
              !offer_is_above_bid(o, sight->bid) && o->share_ppm <= THRESHOLD_PPM_NONE;
    if (zone != SLOT_NONE && (p->watch->taken >> zone & 1) != 0) up = false;
    if (!up) return;
    sight->any_spot = true;
    if (zone != SLOT_NONE) sight->zones_up |= UINT32_C(1) << zone;
    if (sight->least_spot < 0 || deadline_per_device(o) < sight->least_spot)
        sight->least_spot = deadline_per_device(o);
}

/* Never so many at once, whatever there is in stock: more than the pool may have, or than the job pays
 * for. */
static bool is_too_much(const pool *p, const struct sight *sight, const struct offer *o,
                        uint32_t nodes)
{
    const struct pool_limits *limits = &p->config.limits;
    int64_t budget = sight->s->budget_usd_micros_per_hour;
    if (nodes > limits->nodes_max || nodes > limits->leases_max) return true;
    if (budget == 0 || part_is_special(sight->terms)) return false; /* a part costs less */
    return o->usd_micros_per_hour > budget / nodes;
}

static void see_offer(const pool *p, uint32_t offer, struct sight *sight)
{
    const struct offer *o = &p->offers[offer];
    if (sight->s->capacity_mask != 0 && (sight->s->capacity_mask >> o->capacity & 1) == 0) return;
    if (gate_is_bought(o) && deadline_per_device(o) > sight->device_max) return;
    uint32_t gives =
        part_is_special(sight->terms) ? part_offer_gives(p, o, sight->terms) : o->device_count;
    uint32_t wanted = sight->s->devices_min;
    if (gives == 0 || (sight->s->kind == JOB_KIND_BATCH && gives < wanted)) return;
    if (island_offer_gives(o, sight->terms->affinity) < wanted) return;
    uint32_t nodes = (wanted + gives - 1) / gives;
    if (is_too_much(p, sight, o, nodes)) return;
    if (o->slowest_us > sight->slowest_us) sight->slowest_us = o->slowest_us;
    if (o->capacity == CAPACITY_SPOT) {
        see_spot(p, offer, nodes, sight);
        return;
    }
    uint32_t has_stock = offer_stock(p, o) + o->idle_nodes.count >= nodes;
    if (has_stock < sight->has_stock || o->reach_count < nodes) return;
    if (sight->guaranteed != SLOT_NONE && has_stock == sight->has_stock &&
        deadline_per_device(o) >= deadline_per_device(&p->offers[sight->guaranteed]))
        return;
    sight->has_stock = has_stock;
    sight->guaranteed = offer;
}

/* terms: a plan's are not the pool's yet, so its shape has none. only_region: SLOT_NONE = any that the
 * job allows. */
struct sight deadline_look(const pool *p, const struct shape *s, const struct job_terms *terms,
                           uint32_t only_region)
{
    struct sight sight = {.s = s,
                          .terms = terms,
                          .guaranteed = SLOT_NONE,
                          .unwatched = SLOT_NONE,
                          .device_max = buying_device_max(p, s),
                          .bid = buying_bid(p, s),
                          .least_spot = -1};
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (s->region != 0 && s->region != p->regions[i].region) continue;
        if (only_region != SLOT_NONE && only_region != i) continue;
        for (uint64_t rest = s->compat_mask & p->regions[i].model_mask; rest != 0;
             rest &= rest - 1) {
            const struct market *market = market_of(p, i, (uint32_t)__builtin_ctzll(rest));
            for (uint32_t at = 0; at < market->count; at++)
                see_offer(p, p->prices[market->first + at].offer, &sight);
        }
    }
    if (sight.slowest_us == 0) sight.slowest_us = p->config.boot_timeout_us; /* none was measured */
    return sight;
}

struct verdict deadline_judge(const pool *p, const struct shape *s, const struct job_terms *terms)
{
    int64_t end_us = deadline_of(terms, p->now_us);
    struct verdict verdict = {.reason = REASON_FITS};
    if (end_us == 0) return verdict;
    struct sight sight = deadline_look(p, s, terms, SLOT_NONE);
    int64_t needed_us = terms->run_us + sight.slowest_us;
    if (end_us - p->now_us >= needed_us) return verdict;
    return (struct verdict){
        .reason = REASON_DEADLINE_TOO_SOON,
        .numbers = {.a = end_us > p->now_us ? end_us - p->now_us : 0, .b = needed_us}};
}
