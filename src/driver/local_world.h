/* The emulated market at a moment: scenario, traces, script and t0 put together.
 *
 * Role       Answers "what does this offer cost in this tick, and how many could be held", for any
 *            time since t0. The only state that grows is the list of script events that have
 *            happened and when; it is on disk before their effects are seen.
 * Ticks      tick 0 begins at t0_us. A scripted price begins with the tick after the event, so a
 *            tick that has begun never changes its price and bills can be recomputed.
 * Bill       sum over ticks of price * microseconds, in usd_micros * us, carried exactly. With
 *            `billing` of an offer, whole units from up_us on, each at the price it began at.
 */
#ifndef SHOAL_DRIVER_LOCAL_WORLD_H
#define SHOAL_DRIVER_LOCAL_WORLD_H

#include "driver/local_node.h"
#include "driver/local_replay.h"
#include "driver/local_scenario.h"

struct local_world {
    struct local_scenario *scenario;
    struct local_replay *replay; /* NULL: processes only */
    uint64_t scenario_hash;
    int64_t t0_us;
    int64_t first_up_us; /* when the first node came up; 0: none yet. The script's clock. */
    int64_t fired_us[LOCAL_EVENTS_MAX]; /* when each script event happened; 0: not yet */
    struct local_price_cursor cursors[LOCAL_OFFERS_MAX];
    char file[LOCAL_PATH_BYTES]; /* world.json */
};

/* Reads scenario and traces, and world.json if there is one. `now_us` becomes t0 of a new world.
 * ret_is_other: world.json is of another scenario; the world is then new, nothing is written. */
bool local_world_open(struct local_world *world, const char *scenario_file, const char *dir,
                      int64_t now_us, bool *ret_is_other, struct error *ret_error) WARN_UNUSED;
void local_world_close(struct local_world *world);
bool local_world_write(const struct local_world *world, struct error *ret_error) WARN_UNUSED;

int64_t local_world_tick(const struct local_world *world, int64_t at_us);
int64_t local_world_price(struct local_world *world, uint32_t offer_index, int64_t tick);
/* How many nodes of the offer may exist at this moment, held ones included. */
uint32_t local_world_capacity(const struct local_world *world, uint32_t offer_index, int64_t at_us);
/* The offer's capacity comes from a trace: nodes above it are taken. */
bool local_world_is_replayed(const struct local_world *world, uint32_t offer_index);
/* Script events whose time has come and that have not happened are due. */
bool local_world_is_due(const struct local_world *world, uint32_t event_index, int64_t now_us);

/* Advances the node's meter to now_us. */
void local_world_bill(struct local_world *world, struct local_node *node, int64_t now_us);

#endif
