/* Recorded spot zones, as ticks in which each was up, for bench/spot.
 *
 * Role       Reads $SHOAL_DATA/spot_availability: skypilot_series.csv (one line a series) and
 *            skypilot_segments.csv (its values, run-length coded). Any zones the files hold.
 * Groups     Series with one clock (first day, seconds a tick), kind, instance type and number of
 *            nodes asked for, in the order of the file; at most SPOT_ZONES_MAX zones. The trace
 *            ends with the shortest of them.
 * Up         At least one node could be held.
 * Sets       Zones that a job may use. Of a group: all of it, each region with two zones or more
 *            that is not all of it, each zone. Named as the zones are, joined by '+'.
 * Bad data   A segment that overlaps the one before, a gap, a negative time, a series that is not
 *            listed or has no segments: one line that names file, series and step, and the end.
 */
#ifndef SHOAL_BENCH_SPOT_WORLD_H
#define SHOAL_BENCH_SPOT_WORLD_H

#include "core/spot_life.h"
#include <stdbool.h>

enum { SPOT_SETS_MAX = 2 * SPOT_ZONES_MAX + 1, SPOT_NAME_MAX = 48, SPOT_SET_NAME_MAX = 1024 };

struct spot_group {
    char name[4 * SPOT_NAME_MAX], type[SPOT_NAME_MAX]; /* type: of instances */
    uint32_t step_s, ticks, zone_count;
    char zones[SPOT_ZONES_MAX][SPOT_NAME_MAX];
    uint32_t *up; /* [ticks]: bit z = zone z */
};

struct spot_world {
    struct spot_group *groups;
    uint32_t group_count;
};

struct spot_set { /* zones of a group, numbered from 0 */
    char name[SPOT_SET_NAME_MAX];
    uint32_t mask;
};

void spot_world_open(struct spot_world *world, const char *folder);
void spot_world_close(struct spot_world *world);
/* Returns how many. */
uint32_t spot_sets(const struct spot_group *group, struct spot_set *ret_sets);
/* A set by its name: "all", zones or beginnings of zones joined by '+'. False: none fits. */
bool spot_set_named(const struct spot_group *group, const char *name, struct spot_set *ret_set);
/* The zones of the region of this one. */
uint32_t spot_region(const struct spot_group *group, uint32_t zone);
/* up[ticks] of these zones alone, numbered in their order; mem_free() it. */
uint32_t *spot_set_up(const struct spot_group *group, uint32_t mask);

#endif
