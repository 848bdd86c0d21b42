/* Gavel's cluster and its physics (OSDI 2020), driven round by round by a policy.
 *
 * Cluster   DEVICES_PER_TYPE devices of each type of throughputs_isolated.csv, one a server.
 * Stream    continuous_NAME_seedS.csv; behind its end it is repeated, with its gaps, so that the load never
 *           fades while the measured jobs run.
 * Physics   Rounds of 360 s; a job runs whole steps of a round (floor(rate * 360)); the round is over when
 *           its last job stops; arrivals and ends are seen at round starts; switching costs nothing. Two
 *           jobs on one device run at their measured rates of throughputs_colocated.csv.
 * Measured  Jobs 4000 to 4999: completion time from arrival. Fairness: completion time over the time the
 *           job would have taken with an equal share of the time of every type, the share being
 *           min(1, devices / devices wanted by the jobs present) as the run itself had them.
 */
#ifndef SHOAL_BENCH_GAVEL_SIM_H
#define SHOAL_BENCH_GAVEL_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TYPES_MAX = 8,
    PROFILES_MAX = 256,
    ACTIVE_MAX = 16384,   /* more jobs present, */
    ARRIVALS_MAX = 60000, /* or a measured job that waits so long: overload, the run is given up */
    DEVICES_PER_TYPE = 36,
    WINDOW_FIRST = 4000,
    WINDOW_END = 5000,
};
#define NOWHERE UINT32_MAX /* = MATCH_OUT */
#define ROUND_S 360.0

/* A kind of job: model, batch size and width. */
struct profile {
    char model[32];
    uint32_t batch, width;
    double rate[TYPES_MAX];   /* steps a second alone; 0 = cannot */
    int64_t value[TYPES_MAX]; /* normalised, MATCH_RATE_ONE = 1 */
    double norm;              /* steps a second that count as one second of service */
    double mean;              /* over the types */
};

struct gavel_world {
    uint32_t types, profiles;
    char type_names[TYPES_MAX][16];
    struct profile profile[PROFILES_MAX];
    double *beside; /* [types][profiles][profiles] steps a second of the first beside the second */
    int64_t *beside_value; /* the same, normalised */
};

struct stream_row {
    uint32_t profile;
    double steps, gap; /* gap to the next in mean gaps */
};

struct gavel_stream {
    char name[64];
    uint64_t seed;
    uint32_t count;
    struct stream_row *rows;
};

struct gavel_job {
    uint32_t profile, width;
    uint64_t number; /* in the stream, without end */
    double steps, left;
    double arrival_s, started_s, finish_s;
    double attained_s;      /* seconds of service at the norm */
    double share_s;         /* integral of the equal share while present */
    uint32_t type, partner; /* set by the policy; partner is a place in active[] */
};

struct gavel_policy;

struct gavel_sim {
    const struct gavel_world *world;
    const struct gavel_policy *policy;
    void *state; /* of the policy */
    uint32_t capacity[TYPES_MAX];
    struct gavel_job *active; /* [active_count], by arrival */
    uint32_t active_count;
    double now_s;
    double decided_s; /* of the last decision */
    uint64_t decisions, rounds, moves;
};

struct gavel_policy {
    const char *name;
    double refresh_s; /* decisions are at least so far apart */
    bool every_round; /* decides when nothing changed too */
    void *(*open)(struct gavel_sim *sim);
    void (*decide)(struct gavel_sim *sim);
    void (*ended)(struct gavel_sim *sim, const struct gavel_job *job); /* may be NULL */
    void (*close)(struct gavel_sim *sim);
};

struct gavel_result {
    double jct_mean_h, jct_p99_h, jct_max_h, ftf_mean, makespan_h, wall_s;
    double decide_us; /* mean time of a decision */
    bool gave_up;     /* overload */
};

void gavel_world_read(struct gavel_world *world, const char *folder);
void gavel_world_close(struct gavel_world *world);
void gavel_stream_read(struct gavel_stream *stream, const struct gavel_world *world,
                       const char *folder, const char *file);
void gavel_stream_close(struct gavel_stream *stream);

/* jobs_per_hour 0: the first `count` jobs, all there at time 0, each measured (makespan). */
void gavel_run(const struct gavel_world *world, const struct gavel_stream *stream,
               const struct gavel_policy *policy, double jobs_per_hour, uint32_t count,
               struct gavel_result *ret_result);

extern const struct gavel_policy gavel_policies[];
extern const uint32_t gavel_policy_count;

#endif
