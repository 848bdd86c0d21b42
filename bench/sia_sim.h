/* The simulator of the Sia protocol: jobs that run in rounds, a policy between the rounds.
 *
 * Role       Moves jobs through time with the physics of sia_world.h and asks the policy. Each
 *            round: every job runs `round_s`, then the policy sees the jobs submitted until now.
 * Elastic    A job has a configuration (sia_world.configs) or none; its batch is chosen anew each
 *            round and each epoch. Rigid jobs have their own device count and batch, and a
 *            placement on nodes.
 * Restart    Also the first start: restart_s with devices held and no progress, whenever type or
 *            shape of the placement change. Other nodes with the same shape are free. A job inside
 *            its restart keeps what it has.
 * Known      To a policy: what job->seen says (noise of gradients after the first run), rates of
 *            configurations up to twice the devices run on so far, and, where a policy says it is
 *            told, the work left.
 */
#ifndef SHOAL_BENCH_SIA_SIM_H
#define SHOAL_BENCH_SIA_SIM_H

#include "sia_world.h"

#define SIA_NONE UINT32_MAX

struct sia_job {
    const struct sia_submission *submission;
    const struct sia_app *app;
    double submit_s, finish_s, changed_s, gpu_s, progress, restart_left_s;
    uint32_t epoch, config, type; /* config, type: SIA_NONE = waits; config is of elastic jobs */
    struct sia_placement placement;
    uint32_t nodes[SIA_NODES_MAX]; /* of rigid jobs: on_node[i] devices are on node nodes[i] */
    struct sia_candidate run;
    struct sia_noise noise;          /* as last seen; valid when has_run */
    bool has_run, is_done, is_stale; /* is_stale: noise changed, rates[] are not of it */
    uint32_t restarts, devices_most;
    /* The policy's: */
    uint64_t rates[SIA_CONFIGS_MAX]; /* progress per second * SIA_RATE_ONE, of each configuration */
    uint64_t rooted_least;           /* roots[] are of rates[] over this; 0 = of nothing */
    uint32_t roots[SIA_CONFIGS_MAX];
    double best_rigid[SIA_TYPES]; /* iterations per second of a rigid job */
};
#define SIA_RATE_ONE 1048576.0

struct sia_sim {
    const struct sia_world *world;
    double now_s, round_s;
    uint32_t copies, job_count, capacity[SIA_TYPES];
    struct sia_job *jobs;           /* by time of submission */
    uint32_t active_count, *active; /* jobs submitted and not done, oldest first */
    uint32_t finished[SIA_APPS];    /* jobs of the application that are done */
    double finished_work[SIA_APPS]; /* their work */
    /* Of the run */
    uint32_t rounds, round_us_max, active_max;
    double round_us, active_sum;
};

struct sia_policy {
    const char *name;
    bool is_rigid;
    double round_s;
    void *(*open)(struct sia_sim *sim);
    void (*decide)(struct sia_sim *sim, void *self);
    void (*close)(void *self);
};

struct sia_result {
    uint32_t jobs, restarts, rounds, round_us_max, active_max;
    double makespan_h, gpu_h, round_us, active_sum;
    double *jct_h; /* [jobs], the caller's */
};

/* The submissions of one workload, `copies` times with shifted arrivals on as many clusters. */
void sia_simulate(const struct sia_world *world, const struct sia_policy *policy, const char *set,
                  const char *workload, uint32_t copies, struct sia_result *ret_result);

/* For policies. */
void sia_configure(struct sia_sim *sim, struct sia_job *job, uint32_t config); /* SIA_NONE = wait */
void sia_place(struct sia_sim *sim, struct sia_job *job, uint32_t type,
               const struct sia_placement *placement, const uint32_t *nodes);
double sia_work_left(const struct sia_job *job); /* the truth */

#endif
