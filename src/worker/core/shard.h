/* Who holds which part of the optimizer's moments: an owner and a mirror for each, and what has to
 * move when members come and go.
 *
 * Role       Pure planning, integers. The leader plans at a change of membership and sends the map
 *            around; everybody derives the same moves from the old map and the new one.
 * Units      The blocks of the layout are cut into at most SHARD_UNITS_MAX units of near equal
 *            size; a unit is owned, mirrored and moved as a whole. So a map is two small arrays,
 *            covers everything exactly once whatever it holds, and cannot fragment without bound:
 *            a run is never shorter than a unit.
 * Shares     In proportion to free memory: member i is to hold target[i] copies (owned and mirrored
 *            together), sum(target) = 2 * units, rounded by largest remainder. What it holds is
 *            within target / SHARD_SLACK_PART + 1 of that: nothing moves through a third only to be
 *            nearer. Half of it is owned, half mirrored, give or take SHARD_ROLE_SLACK units. Where
 *            one domain has more than half of all memory it holds one copy of everything and no
 *            more, since the other copy must lie elsewhere.
 * Domains    The two copies of a unit never share a member; nor a zone, where members of two zones
 *            are there; nor a host, where only hosts differ. A member alone has no mirror.
 * Moves      Roles swap without moving a byte. Copies move from members with too many to those with
 *            too few, so that what travels is sum over members of max(0, share - held), the least
 *            for these shares. Copies of one member are mirrored all over the others, so what it
 *            leaves behind can go nearly anywhere. Where domains forbid the direct way, chains of
 *            two moves are taken: 0.2 % more bytes over all plans, and for up to four members never
 *            more than 1.1 x what domains leave possible, held against all plans.
 * Leavers    A member of memory 0 gets no share, but what it holds can be copied from it.
 * Errors     None: shard_map_is_sound() is for maps from outside.
 */
#ifndef SHOAL_WORKER_CORE_SHARD_H
#define SHOAL_WORKER_CORE_SHARD_H

#include "worker/core/limits.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    SHARD_UNITS_MAX = 2048, /* 64 equal members hold 64 units each: rounding is below 2 % */
    SHARD_NONE = GROUP_NOBODY,
    SHARD_SLACK_PART = 8, /* see Shares */
    SHARD_ROLE_SLACK = 2, /* units by which owned and mirrored may differ from target / 2 */
};

struct shard_member {
    uint64_t zone, host; /* any numbers that differ where the places do */
    uint64_t memory;     /* free for the job, any unit; 0: leaving */
};

/* Indexes into a list of members, or SHARD_NONE. unit_count 0: no map yet. */
struct shard_map {
    uint32_t unit_count;
    uint8_t owner[SHARD_UNITS_MAX], mirror[SHARD_UNITS_MAX];
};

uint32_t shard_unit_count(uint32_t block_count);
/* First block of unit `unit`; of unit_count: block_count. */
uint32_t shard_first_block(uint32_t unit_count, uint32_t block_count, uint32_t unit);
uint32_t shard_unit_of(uint32_t unit_count, uint32_t block_count, uint32_t block);

/* Smallest block at or after `block` that `member` owns, block_count if none. */
uint32_t shard_next_owned(const struct shard_map *map, uint32_t block_count, uint32_t member,
                          uint32_t block);
/* End of the run of blocks from `block` on with the same owner and the same mirror. */
uint32_t shard_run_end(const struct shard_map *map, uint32_t block_count, uint32_t block);

/* How many copies each member should hold. */
void shard_targets(const struct shard_member *member, uint32_t member_count, uint32_t unit_count,
                   uint32_t *ret_target);

/* The next map. held: who has what now, by indexes into the same members, SHARD_NONE where a copy
 * is lost; all SHARD_NONE: nothing is held yet (a fresh start costs no moves). */
void shard_plan(const struct shard_member *member, uint32_t member_count,
                const struct shard_map *held, struct shard_map *ret_map);

/* held[] for shard_plan() from a map over other ids: copies of absent members are SHARD_NONE. */
void shard_translate(const struct shard_map *map, const uint64_t *old_id, uint32_t old_count,
                     const uint64_t *new_id, uint32_t new_count, struct shard_map *ret_held);

/* Units of which no copy is left. */
uint32_t shard_lost_units(const struct shard_map *held);

/* Where a holder of the new map that does not hold a unit yet gets it from: bytes leave in turn
 * from the holders with the least to send. */
struct shard_moves {
    uint32_t moved_units;                                          /* copies that travel */
    uint8_t to_owner[SHARD_UNITS_MAX], to_mirror[SHARD_UNITS_MAX]; /* source, or SHARD_NONE: none */
};
void shard_moves(const struct shard_map *held, const struct shard_map *map, uint32_t member_count,
                 struct shard_moves *ret_moves);

/* The least copies that must travel for these targets, whatever the plan. */
uint32_t shard_least_moves(const struct shard_map *held, const uint32_t *target,
                           uint32_t member_count);

/* Indexes below member_count, an owner everywhere, never its own mirror. */
bool shard_map_is_sound(const struct shard_map *map, uint32_t member_count);

#endif
