/* What the pool has seen of its spot offers, tick by tick, and the tables that are solved from it.
 *
 * Role       Zones of spot_policy.h are spot offers here: the first SPOT_ZONES_MAX that were told, then
 *            those that jobs with a deadline could use: such an offer takes the place of the one that
 *            none could use for longest, if for a day at least. What was seen of that is forgotten. A
 *            zone is up in a tick when a node of it could be had, or is held, for no more than the
 *            same on demand costs; in the tick in which it takes a node it is down.
 * Time       Ticks of SPOT_TICK_US. Between events nothing changes, so the ticks that have passed are
 *            entered at the next event; no timer, no wake-up.
 * Tables     One per set of zones, changeover, size of job and price (spot_table.h), solved anew when
 *            what was seen has doubled, at least once a day of ticks. The one used longest ago makes
 *            room. A snapshot keeps what a table was solved from, not the table: it is solved again
 *            at its first use, to the same values.
 * Memory     SPOT_HISTORY ticks; when they are full the older half goes. Small pools (SPOT_SMALL_JOBS)
 *            have one small table.
 */
#ifndef SHOAL_CORE_SPOT_WATCH_H
#define SHOAL_CORE_SPOT_WATCH_H

#include "core/spot_policy.h"
#include "core/state.h"

enum {
    SPOT_HISTORY = 8192, /* 18 days */
    SPOT_PLANS_MAX = 4,
    SPOT_SMALL_JOBS = 1000,
    SPOT_SMALL_CELLS = 1000,
};
#define SPOT_TICK_US INT64_C(195000000) /* of the traces that the priors of spot_life.h come from */

/* A table and what it was made from. Walked: up to `used`. */
struct spot_plan {
    struct spot_terms terms;
    uint32_t zones; /* bit = zone; 0 = free */
    uint32_t learned_ticks;
    uint64_t used; /* the largest was used last */
    uint32_t solved, zone_count;
    uint8_t zone[SPOT_ZONES_MAX]; /* of the watch, by zone of the table */
    struct spot_classes classes;
    struct spot_table table;
    void *memory;
};

struct spot_watch {
    int64_t next_us; /* of the next tick */
    uint64_t uses;
    uint32_t tick_count;
    uint32_t taken; /* bit = zone: it took a node in this tick */
    uint32_t plan_count, reserved;
    uint32_t offer[SPOT_ZONES_MAX];
    int64_t wanted_us[SPOT_ZONES_MAX]; /* when a job with a deadline could last use it; -1 = never */
    struct spot_life life; /* since the beginning, not only of the history */
    uint32_t history[SPOT_HISTORY];
    struct spot_plan plans[SPOT_PLANS_MAX];
    uint32_t compact[SPOT_HISTORY]; /* these while solving only */
    struct spot_life learning;
    struct spot_scratch scratch;
    struct spot_step short_step, long_step;
};

size_t spot_watch_table_bytes(const struct pool_limits *limits); /* of each plan */
uint32_t spot_watch_plans(const struct pool_limits *limits);
void spot_watch_init(pool *p);
void spot_watch_tick(pool *p); /* time has gone on, nothing has changed yet */
void spot_watch_offer(pool *p, uint32_t offer);
void spot_watch_want(pool *p, uint32_t zones); /* a job with a deadline could use these */
/* Watches it in the place of one that no job wants. False: all are wanted. */
bool spot_watch_admit(pool *p, uint32_t offer);
void spot_watch_taken(pool *p, uint32_t offer);
uint32_t spot_watch_zone(const pool *p, uint32_t offer); /* SLOT_NONE: it is not watched */
uint32_t spot_watch_age(const pool *p, uint32_t zone);   /* 0: it took a node in this tick */
/* Parts per 10^9 of losing it in the next tick, from how long it and the others have lived. False: none
 * of them has ever been lost, or it is not watched. */
bool spot_watch_hazard(const pool *p, uint32_t offer, uint32_t *ret_ppb);
/* How many ticks no zone of the mask has been up, this one included. */
uint32_t spot_watch_down(const pool *p, uint32_t zones);
bool spot_watch_fits(const pool *p,
                     const struct spot_terms *terms); /* there is room for its table */
/* Solved; NULL: no table can be made of this. terms.cells is chosen here. */
const struct spot_plan *spot_watch_plan(pool *p, uint32_t zones, const struct spot_terms *terms);

#endif
