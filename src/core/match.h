/* Which waiting or running job goes to which device type: the matching of greatest total value.
 *
 * Role       Decides type by type, before any node is chosen: near saturation giving each type to the
 *            jobs that lose least elsewhere is worth more than any order of the queue. What a job is
 *            worth on a type is the caller's (match_weight.h); which devices of the type it gets is
 *            the placement's.
 * Exact      For jobs of width 1 the result after every call is a maximum: no other assignment of the
 *            same jobs is worth more (match_test.c compares with all of them). Wider jobs are gangs:
 *            match_settle() makes them whole, which is a knapsack and no longer exact; match_bound()
 *            is the value of the relaxation where a gang may run in part, so the loss is known.
 * How        Jobs come one at a time along the best path over the types: into type a, pushing a job
 *            from a to b, ..., until a device is free or a job waits. Only types are nodes, whatever
 *            the number of jobs, because an edge a -> b is the best job to move. (Successive longest
 *            paths; Ahuja, Magnanti, Orlin, "Network Flows", 1993, section 9.7.) A job that was left
 *            out stays out while jobs only come, since prices only rise; when one ends, the waiting
 *            ones are looked at again.
 * Cost       Adding: O(types) when nothing changes, else O(devices of the types on the path * types).
 *            Removing: O(jobs * types) for each job that comes in. match_settle(): O(jobs * types)
 *            for each gang that is in part, at most one a type.
 * Ties       The lower type, then the lower job number: the same calls give the same result.
 * Units      value: per device of the job, any unit, the same for all; 0 or less: never on this type.
 * Memory     The caller's block of match_bytes(); nothing to free.
 */
#ifndef SHOAL_CORE_MATCH_H
#define SHOAL_CORE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MATCH_TYPES_MAX = 16, /* device types of one pool that are told apart; more share a type */
    MATCH_JOBS_MAX = 1 << 20,
    MATCH_DEVICES_MAX = 1 << 20, /* of one type */
};
#define MATCH_VALUE_MAX (INT64_C(1) << 36) /* times devices and types stays below 2^63 */
#define MATCH_OUT       UINT32_MAX         /* waits */

struct match;

struct match_limits {
    uint32_t jobs;    /* job numbers are below this */
    uint32_t types;   /* device types */
    uint32_t devices; /* of all types together */
};

size_t match_bytes(const struct match_limits *limits);
/* memory is aligned as for any type. */
struct match *match_init(void *memory, const struct match_limits *limits);

/* Nobody is in; capacity[types] devices of each type. */
void match_clear(struct match *match, const uint32_t *capacity);
/* A job that is not in comes: value[types]. Others may move or leave for it. */
void match_add(struct match *match, uint32_t job, uint32_t width, const int64_t *value);
/* The job ends or goes away; its devices go to those who gain most. */
void match_remove(struct match *match, uint32_t job);
/* Every gang is whole on one type or waits; what is left over is used as well as found. To be called
 * once after the last match_add() when there are gangs; only match_clear() may follow. */
void match_settle(struct match *match);

/* The type the job is on; MATCH_OUT: it waits, or is in part before match_settle(). */
uint32_t match_type(const struct match *match, uint32_t job);
uint32_t match_free(const struct match *match, uint32_t type);
/* What it costs the others when a device of the type is taken: a job must be worth more to get in. */
int64_t match_price(struct match *match, uint32_t type);
int64_t match_total(const struct match *match);
/* Greatest value possible if gangs could run in part: as it was before match_settle(). */
int64_t match_bound(const struct match *match);
void match_check(const struct match *match);

#endif
