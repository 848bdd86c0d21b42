#include "core/deadline.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/buying.h"
#include "core/deadline_view.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/spot_watch.h"

enum {
    HOLD_TO_REST = 4, /* changeovers that guaranteed capacity is kept, for nothing, */
    HOLD_TO_MOVE = 2, /* and for spot */
    PRICE_STEPS = 40, /* of a table: spot prices in fortieths of the on-demand price */
};

/* ---- where it is ---- */

static bool is_gang_whole(const pool *p, uint32_t job)
{
    return job_holding(p, job).device_count >= p->jobs[job].devices_min;
}

static struct spot_job standing(const pool *p, uint32_t job, uint32_t *ret_offer)
{
    const struct job *j = &p->jobs[job];
    struct spot_job result = {.place = SPOT_IDLE};
    *ret_offer = SLOT_NONE;
    int64_t left_us = j->deadline_us - p->now_us;
    result.time_left = left_us > 0 ? (uint32_t)(left_us / SPOT_TICK_US) : 0;
    result.work_left = deadline_ticks_up(deadline_left_us(p, j, /* saved */ false));
    if (result.work_left == 0) result.work_left = 1; /* it has not said that it is done */
    if (!job_is_bound(j) || !is_gang_whole(p, job)) return result;
    result.place = SPOT_ON_DEMAND;
    uint32_t kept = 0; /* devices that no spot market takes */
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        const struct node *n = &p->nodes[p->leases[l].node];
        if (!lease_holds(&p->leases[l]) || !node_is_usable(n)) continue;
        const struct offer *o = &p->offers[n->offer];
        int64_t start_us = o->slowest_us > 0 ? o->slowest_us : p->config.boot_timeout_us;
        int64_t rest_us = start_us - (p->now_us - n->ordered_us);
        if (n->state != NODE_READY && rest_us > 0 &&
            deadline_ticks_up(rest_us) > result.starting_left)
            result.starting_left = deadline_ticks_up(rest_us);
        if (o->capacity != CAPACITY_SPOT) {
            kept += p->leases[l].device_count;
            continue;
        }
        result.place = SPOT_ON_ZONE;
        *ret_offer = n->offer;
    }
    if (kept >= j->devices_min) { /* what it has from spot is beyond its least: no loss stops it */
        result.place = SPOT_ON_DEMAND;
        *ret_offer = SLOT_NONE;
    }
    return result;
}

/* What a start costs, in ticks: until it works, and what the loss before cost. */
static uint32_t changeover_of(const pool *p, const struct job *j, const struct sight *sight)
{
    return deadline_ticks_up(sight->slowest_us + deadline_save_gap_us(p, j));
}

/* ---- policies ---- */

/* Progress that a steady pace has made `ahead` ticks from now is not yet reached. */
static bool is_behind(const pool *p, const struct job *j, const struct spot_job *at, uint32_t ahead)
{
    uint64_t window = deadline_ticks_up(j->deadline_us - j->submitted_us);
    uint64_t work = deadline_ticks_up(deadline_terms(p, j)->run_us);
    if (work < at->work_left) work = at->work_left;
    uint64_t elapsed = window - at->time_left + ahead, done = work - at->work_left;
    return done * window < work * elapsed;
}

static enum spot_place by_rule(const pool *p, const struct job *j, const struct spot_job *at,
                               uint32_t policy, uint32_t changeover, bool spot_up)
{
    if (policy == BUYING_ON_DEMAND) return SPOT_ON_DEMAND;
    if (spot_up) return SPOT_ON_ZONE;
    uint32_t ahead = at->place == SPOT_ON_DEMAND ? 2 * changeover : 0;
    if (policy == BUYING_UNIFORM_PROGRESS && is_behind(p, j, at, ahead)) return SPOT_ON_DEMAND;
    return SPOT_IDLE;
}

/* Larger sizes and longer windows in steps of a quarter, so that jobs share tables. */
static uint32_t rounded(uint32_t ticks)
{
    uint32_t step = 1;
    while (ticks / step > 8) step *= 2;
    return (ticks + step - 1) / step * step;
}

static const struct spot_plan *table_for(pool *p, const struct job *j, const struct sight *sight,
                                         uint32_t changeover)
{
    int64_t on_demand = deadline_per_device(&p->offers[sight->guaranteed]),
            spot = sight->least_spot;
    if (on_demand == 0) return NULL; /* nothing is cheaper */
    if (spot < 0) spot = on_demand / 3;
    if (spot > on_demand) spot = on_demand;
    uint32_t work = rounded(deadline_ticks_up(deadline_terms(p, j)->run_us));
    uint32_t window = deadline_ticks_up(j->deadline_us - j->submitted_us);
    window = work + rounded(window > work ? window - work : 1);
    struct spot_terms terms = {.work = work,
                               .window = window,
                               .changeover = changeover,
                               .spot_price = (uint32_t)(spot * PRICE_STEPS / on_demand) + 1,
                               .on_demand_price = PRICE_STEPS};
    return spot_watch_plan(p, sight->zones, &terms);
}

static void ages_of(const pool *p, const struct spot_plan *plan, uint32_t up,
                    uint32_t ret_age[SPOT_ZONES_MAX])
{
    for (uint32_t i = 0; i < plan->zone_count; i++) {
        uint32_t zone = plan->zone[i], age = spot_watch_age(p, zone);
        ret_age[i] = (up >> zone & 1) == 0 ? 0 : age > 0 ? age : 1;
    }
}

/* saved_left: the work that is left after a move, if it saves nothing before. */
static enum spot_place by_table(const pool *p, const struct sight *sight,
                                const struct spot_plan *plan, struct spot_job at,
                                uint32_t saved_left)
{
    uint32_t age[SPOT_ZONES_MAX], down = spot_watch_down(p, sight->zones);
    ages_of(p, plan, sight->zones_up, age);
    struct spot_choice stays = spot_choose(&plan->table, &plan->classes, age, down, &at);
    if (at.place != SPOT_ON_DEMAND || stays.place == SPOT_ON_DEMAND) return stays.place;
    at.work_left = saved_left;
    struct spot_choice moves = spot_choose(&plan->table, &plan->classes, age, down, &at);
    int64_t cost = moves.place == SPOT_ON_ZONE ? moves.spot_cost : moves.wait;
    return cost < stays.on_demand ? moves.place : SPOT_ON_DEMAND;
}

static uint32_t best_zone(const pool *p, const struct sight *sight, const struct spot_plan *plan,
                          uint32_t changeover)
{
    uint32_t age[SPOT_ZONES_MAX], share_ppm[SPOT_ZONES_MAX];
    if (plan == NULL) return SLOT_NONE;
    ages_of(p, plan, sight->zones_up, age);
    for (uint32_t i = 0; i < plan->zone_count; i++)
        share_ppm[i] = p->offers[p->watch->offer[plan->zone[i]]].share_ppm;
    uint32_t best = spot_cheapest(&plan->classes, age, share_ppm, changeover, UINT32_MAX);
    return best == UINT32_MAX ? SLOT_NONE : p->watch->offer[plan->zone[best]];
}

/* ---- the decision ---- */

static void say_missed(pool *p, struct job *j, struct pool_output *out)
{
    if (j->deadline_missed || p->now_us < j->deadline_us) return;
    j->deadline_missed = 1;
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_STALL,
                                        .reason = REASON_DEADLINE_MISSED,
                                        .job_id = j->job_id,
                                        .a = deadline_left_us(p, j, /* saved */ false)});
}

static uint32_t choice_of(pool *p, uint32_t job, const struct sight *sight, uint32_t changeover,
                          uint32_t *ret_offer)
{
    const struct job *j = &p->jobs[job];
    uint32_t on_offer;
    struct spot_job at = standing(p, job, &on_offer);
    *ret_offer = on_offer;
    bool one_size = j->devices_min == j->devices_max;
    if (at.place == SPOT_ON_ZONE && !one_size) *ret_offer = SLOT_NONE; /* it may grow anywhere */
    if (at.place == SPOT_ON_ZONE) return DEADLINE_SPOT;
    int64_t floor = 2 * (int64_t)changeover + 1;
    if (at.place == SPOT_ON_DEMAND) floor += at.starting_left;
    bool can = at.place == SPOT_ON_DEMAND || sight->has_stock;
    /* What leaves guaranteed capacity may lose what it has not saved. */
    uint32_t saved_left = deadline_ticks_up(deadline_left_us(p, j, at.place == SPOT_ON_DEMAND));
    if (saved_left < at.work_left) saved_left = at.work_left;
    if ((int64_t)at.time_left - saved_left <= floor) return can ? DEADLINE_FORCED : DEADLINE_ANY;
    uint32_t policy = buying_policy(p, sight->s);
    const struct spot_plan *plan = sight->zones == 0 ? NULL : table_for(p, j, sight, changeover);
    bool by_the_table = policy == BUYING_TABLE && plan != NULL && sight->zones_up != 0;
    if (policy == BUYING_TABLE && plan != NULL && !sight->any_spot) by_the_table = true;
    struct spot_job kept = at;
    kept.work_left = saved_left;
    enum spot_place place = by_the_table
                                ? by_table(p, sight, plan, at, saved_left)
                                : by_rule(p, j, &kept, policy, changeover, sight->any_spot);
    if (place == SPOT_ON_ZONE && one_size) *ret_offer = best_zone(p, sight, plan, changeover);
    if (place == SPOT_ON_ZONE) return DEADLINE_SPOT;
    return place == SPOT_ON_DEMAND ? DEADLINE_GUARANTEED : DEADLINE_WAIT;
}

/* What it could use is watched, as far as no other job needs the places. */
static struct sight look_and_watch(pool *p, const struct job *j)
{
    const struct shape *s = &p->shapes[j->shape];
    bool stays = j->region_index != SLOT_NONE && plan_works_still(p, j);
    uint32_t region = stays ? j->region_index : SLOT_NONE;
    struct sight sight = deadline_look(p, s, deadline_terms(p, j), region);
    spot_watch_want(p, sight.zones);
    while (sight.unwatched != SLOT_NONE && spot_watch_admit(p, sight.unwatched))
        sight = deadline_look(p, s, deadline_terms(p, j), region);
    return sight;
}

void deadline_decide(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    if (j->deadline_us == 0) return;
    say_missed(p, j, out);
    struct sight sight = look_and_watch(p, j);
    j->changeover_ticks = changeover_of(p, j, &sight);
    uint32_t before = j->choice;
    j->choice = DEADLINE_ANY;
    j->choice_offer = SLOT_NONE;
    if (sight.guaranteed == SLOT_NONE) return;
    j->choice = choice_of(p, job, &sight, j->changeover_ticks, &j->choice_offer);
    /* Forced there, it is left for spot at most: or a start that was faster than feared, and so leaves
     * more time, would send it away again. */
    bool rests = j->choice == DEADLINE_WAIT && job_is_bound(j) && is_gang_whole(p, job);
    if (before == DEADLINE_FORCED && rests) j->choice = DEADLINE_FORCED;
    ASSERT(j->choice < DEADLINE_CHOICE_END);
}

void deadline_limit(const pool *p, struct demand *demand, uint32_t job)
{
    static const uint32_t kinds[DEADLINE_CHOICE_END] = {
        [DEADLINE_ANY] = ~UINT32_C(0),
        [DEADLINE_WAIT] = 1U << CAPACITY_OWNED,
        [DEADLINE_SPOT] = 1U << CAPACITY_OWNED | 1U << CAPACITY_SPOT,
        [DEADLINE_GUARANTEED] =
            1U << CAPACITY_OWNED | 1U << CAPACITY_RESERVED | 1U << CAPACITY_ON_DEMAND,
        [DEADLINE_FORCED] =
            1U << CAPACITY_OWNED | 1U << CAPACITY_RESERVED | 1U << CAPACITY_ON_DEMAND};
    const struct job *j = &p->jobs[job];
    if (j->deadline_us == 0 || j->choice == DEADLINE_ANY) return;
    uint32_t allowed = demand->capacity_mask == 0 ? ~UINT32_C(0) : demand->capacity_mask;
    uint32_t chosen = kinds[j->choice], held = 0;
    if (job_is_bound(j)) held = job_holding(p, job).device_count;
    if (held >= j->devices_min) /* it ends in time as it is: more only where it is cheap */
        chosen = kinds[DEADLINE_SPOT];
    else if (j->choice >= DEADLINE_GUARANTEED && demand->devices_left > j->devices_min - held)
        demand->devices_left = j->devices_min - held;
    demand->capacity_mask = (allowed & chosen) | 1U; /* bit 0 is no kind: never 0, which is any */
    if (j->choice == DEADLINE_SPOT) demand->spot_offer = j->choice_offer;
}

struct pool_decision deadline_purchase(const pool *p, uint32_t job, uint32_t offer)
{
    const struct job *j = &p->jobs[job];
    struct pool_decision decision = {.reason = REASON_DEADLINE_SPOT,
                                     .a = p->offers[offer].usd_micros_per_hour,
                                     .b = deadline_left_us(p, j, /* saved */ false),
                                     .c = j->deadline_us > p->now_us ? j->deadline_us - p->now_us
                                                                     : 0};
    if (p->offers[offer].capacity == CAPACITY_SPOT) return decision;
    decision.reason =
        j->choice == DEADLINE_FORCED ? REASON_DEADLINE_FORCED : REASON_DEADLINE_GUARANTEED;
    return decision;
}

bool deadline_waits(pool *p, uint32_t job, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    if (j->deadline_us == 0 || j->choice != DEADLINE_WAIT) return false;
    int64_t work_us = deadline_left_us(p, j, /* saved */ false),
            left_us = j->deadline_us - p->now_us;
    int64_t latest_us = left_us - work_us - (2 * j->changeover_ticks + 1) * SPOT_TICK_US;
    plan_wait(p, job, REASON_DEADLINE_WAITS,
              (struct numbers){.a = work_us, .b = left_us, .c = latest_us > 0 ? latest_us : 0},
              out);
    return true;
}

/* ---- moving ---- */

/* Were its spot nodes lost now, there would be just enough time. */
static bool is_unsafe(const pool *p, const struct job *j)
{
    int64_t left_us = j->deadline_us - p->now_us - deadline_left_us(p, j, /* saved */ true);
    int64_t start_us = (int64_t)j->changeover_ticks * SPOT_TICK_US - deadline_save_gap_us(p, j);
    return left_us <= start_us + SPOT_TICK_US;
}

/* False: it holds nothing of these kinds. */
static bool leave(pool *p, uint32_t job, uint32_t kinds, uint32_t reason, struct numbers numbers,
                  struct pool_output *out)
{
    bool left = false;
    for (uint32_t l = p->jobs[job].leases.head, next; l != SLOT_NONE && act_has_room(out);
         l = next) {
        next = p->leases[l].job_link.next;
        const struct node *n = &p->nodes[p->leases[l].node];
        if (!lease_holds(&p->leases[l]) || !node_is_usable(n)) continue;
        if ((kinds >> p->offers[n->offer].capacity & 1) == 0) continue;
        plan_leave(p, l, reason, numbers, out);
        left = true;
    }
    return left;
}

/* What was bought is kept so long: bounds the moves of a node-hour, whatever is learned. */
static bool holds_long_enough(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    int64_t hold_us = j->changeover_ticks * SPOT_TICK_US;
    hold_us *= j->choice == DEADLINE_WAIT ? HOLD_TO_REST : HOLD_TO_MOVE;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (p->leases[l].state != LEASE_ACTIVE || p->now_us < p->leases[l].since_us + hold_us)
            return false;
    return true;
}

int64_t deadline_review(pool *p, uint32_t job, struct holding held, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    int64_t next_us = p->now_us + SPOT_TICK_US;
    if (j->state != JOB_RUNNING || held.up_count < held.device_count) return next_us;
    uint32_t offer;
    struct spot_job at = standing(p, job, &offer);
    int64_t left_us = j->deadline_us > p->now_us ? j->deadline_us - p->now_us : 0;
    struct numbers numbers = {.b = deadline_left_us(p, j, /* saved */ false), .c = left_us};
    bool bought = held.usd_micros_per_hour > 0, moves = j->devices_min == j->devices_max;
    if (at.place == SPOT_ON_ZONE && is_unsafe(p, j) && !j->deadline_missed &&
        j->choice != DEADLINE_ANY) {
        struct sight sight =
            deadline_look(p, &p->shapes[j->shape], deadline_terms(p, j), j->region_index);
        if (!sight.has_stock) return next_us; /* nowhere to go */
        numbers.a = deadline_left_us(p, j, /* saved */ true);
        if (leave(p, job, 1U << CAPACITY_SPOT, REASON_DEADLINE_UNSAVED, numbers, out))
            job_touch(p, job);
    } else if (at.place == SPOT_ON_DEMAND && bought && moves && holds_long_enough(p, job) &&
               (j->choice == DEADLINE_SPOT || j->choice == DEADLINE_WAIT)) {
        bool spot = j->choice == DEADLINE_SPOT;
        numbers.a = spot && j->choice_offer != SLOT_NONE
                        ? p->offers[j->choice_offer].usd_micros_per_hour
                        : 0;
        uint32_t kinds = 1U << CAPACITY_RESERVED | 1U << CAPACITY_ON_DEMAND;
        uint32_t reason = spot ? REASON_DEADLINE_TO_SPOT : REASON_DEADLINE_RESTS;
        if (leave(p, job, kinds, reason, numbers, out)) job_touch(p, job);
    }
    return next_us;
}
