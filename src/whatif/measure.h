/* What is measured of one run, and of many with the same case: means and how sure they are.
 *
 * Names      measure_names: as in the table, in JSON and in claims.
 * Groups     Everything is known of the whole run; what concerns jobs, of each group of jobs, too.
 * Interval   Half the width of the 95 % confidence interval of the mean, by Student's t over the seeds;
 *            0 with one seed.
 */
#ifndef SHOAL_WHATIF_MEASURE_H
#define SHOAL_WHATIF_MEASURE_H

#include "core/event.h"
#include "whatif/scene.h"
#include <stdbool.h>
#include <stdint.h>

#define MEASURES(X)                                                                                \
    X(TIME, "time_h", "hours from the first submission to the last end")                           \
    X(COST, "cost_usd", "dollars, with what stood idle, by share of what was held")                \
    X(UTILIZATION, "utilization", "productive share of the device hours that were paid")           \
    X(BUSY, "busy", "share of the device hours paid that jobs held")                               \
    X(OVERHEAD, "overhead", "orchestration, joins, repairs and checkpoints, of the time running")  \
    X(JITTER, "jitter", "standard deviation of the step time with the same devices, of its mean")  \
    X(STEP_LOSS, "step_loss", "by how much exchanges lengthen a step, as a share")                 \
    X(WAIT, "wait_h", "hours a job waited to start, mean")                                         \
    X(WAIT_P95, "wait_p95_h", "the same, 95th percentile")                                         \
    X(STOOD, "stood_h", "hours a job stood still after it had started, mean")                      \
    X(JOB_TIME, "job_h", "hours from submission to end of a job, mean")                            \
    X(JOB_COST, "job_usd", "cost_usd by jobs that ended")                                          \
    X(LOST_WORK, "lost_work", "work done twice, of all work")                                      \
    X(DEVICES, "devices", "devices held while running, mean over time")                            \
    X(PREEMPTIONS, "preemptions", "nodes taken by providers")                                      \
    X(RESTARTS, "restarts", "times a job began again from a checkpoint")                           \
    X(BOUGHT, "nodes", "nodes begun")                                                              \
    X(MISSED, "missed", "jobs that ended after their deadline, or had not ended by then")          \
    X(UNFINISHED, "unfinished", "jobs that had not ended when the world did")                      \
    X(JOBS, "jobs", "jobs submitted")                                                              \
    X(SPOT_SHARE, "spot_share", "share of the device hours held that were spot")

enum measure {
#define X(id, name, meaning) MEASURE_##id,
    MEASURES(X)
#undef X
        MEASURE_COUNT
};

enum { MEASURE_ROWS = 1 + SCENE_GROUPS_MAX };

/* The first job that did not end, and what the pool said of it last. */
struct unfinished {
    uint32_t entry, number;
    bool refused, waited; /* neither: it ran, or the policy is not the pool's */
    uint32_t reason;      /* enum decision_reason, with its numbers */
    int64_t a, b, c;
};

/* Of one run. Row 0 is the whole, row 1 + g group g. */
struct outcome {
    double values[MEASURE_ROWS][MEASURE_COUNT];
    double class_wait_h[JOB_CLASS_END], class_wait_p95_h[JOB_CLASS_END];
    uint32_t class_jobs[JOB_CLASS_END];
    struct unfinished unfinished; /* of row 0's, if there is any */
    double metered_usd, ledger_usd; /* of nodes while up, by the world and by the pool */
    struct rank_range met[RANK_INPUT_COUNT]; /* of a learned ranking: the inputs it was asked with */
    uint64_t events, digest;
    uint64_t bytes; /* the world's memory, the pool's with it */
};

struct estimate {
    double mean, half; /* half the interval */
};

extern const char *const measure_names[MEASURE_COUNT];
extern const char *const measure_meanings[MEASURE_COUNT];
enum measure measure_find(const char *name); /* MEASURE_COUNT: there is none */
struct estimate measure_estimate(const double *values, uint32_t count);
/* Value at this share of the sorted values; 0 of none. Sorts them. */
double measure_percentile(double *values, uint32_t count, double share);

#endif
