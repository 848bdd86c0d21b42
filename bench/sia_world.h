/* The measured world of the Sia protocol: how fast each application trains on each set of devices.
 *
 * Role       Reads $SHOAL_DATA/sia (profiles, validation, workloads) and answers: how long does an
 *            iteration take, what is a batch worth, which batch is best. Reals: this is the world
 *            that is simulated, not the scheduler.
 * Cluster    64 devices: T4 6 x 4, A100 2 x 8, RTX 2080 Ti 3 x 8, `copies` times.
 * Physics    Progress is counted in iterations at the base batch. Progress per second =
 *            gain / iteration / slowdown; gain = (var + sqr) / (var / s + sqr), s = batch / base;
 *            an iteration with k accumulation steps = step + k * (step - sync). var and sqr are of
 *            the epoch, linear in the batch between the measured ones.
 * Step time  The exact placement, linear in the local batch; else the row with the same nodes and
 *            replicas; else the mean of the placements with these; 5 T4 nodes: between 4 and 6;
 *            else the nearest row.
 * Work       Equal for all jobs of an application: the least progress of any batch after the last
 *            epoch; the least per epoch are the borders of epochs.
 */
#ifndef SHOAL_BENCH_SIA_WORLD_H
#define SHOAL_BENCH_SIA_WORLD_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIA_TYPES = 3,
    SIA_APPS = 6,
    SIA_NODES_MAX = 24, /* of one job */
    SIA_CONFIGS_MAX = 32,
    SIA_CANDIDATES = 50,
    SIA_EPOCHS_MAX = 128,
    SIA_BATCHES_MAX = 16,
    SIA_POINTS_MAX = 64,
};

struct sia_type {
    const char *name, *cluster; /* cluster: as the profiles call it */
    uint32_t nodes, per_node;
};
extern const struct sia_type sia_types[SIA_TYPES];

/* Devices on each node, fullest use of nodes first; what a job runs on. */
struct sia_placement {
    uint8_t node_count, replicas;
    uint8_t on_node[SIA_NODES_MAX];
};

struct sia_config { /* of elastic jobs: 1, 2, 4, ... on one node, then whole nodes */
    uint32_t type, count;
    struct sia_placement placement;
};

struct sia_candidate { /* a batch and how it is run */
    double batch, iteration_s;
};

struct sia_curve { /* of one placement, by local batch */
    struct sia_placement placement;
    uint32_t points;
    double local[SIA_POINTS_MAX], step_s[SIA_POINTS_MAX], sync_s[SIA_POINTS_MAX];
};

struct sia_app {
    const char *name;
    double base_batch, batch_max, slowdown;
    int32_t restart_s, sia_restart_s; /* sia_restart_s: what Sia's policy reckons with */
    uint32_t epochs, batches;
    double work, border[SIA_EPOCHS_MAX + 1]; /* border[e]: progress at the end of epoch e - 1 */
    double batch[SIA_BATCHES_MAX], var[SIA_BATCHES_MAX][SIA_EPOCHS_MAX],
        sqr[SIA_BATCHES_MAX][SIA_EPOCHS_MAX];
    struct sia_curve *placed[SIA_TYPES], *counted[SIA_TYPES]; /* exact placements; counts only */
    uint32_t placed_count[SIA_TYPES], counted_count[SIA_TYPES];
    struct sia_candidate candidates[SIA_CONFIGS_MAX][SIA_CANDIDATES];
};

struct sia_submission {
    const char *set, *workload;
    double submit_s;
    uint32_t app, replicas;
    double batch;
};

struct sia_world {
    struct sia_app apps[SIA_APPS];
    struct sia_config configs[SIA_CONFIGS_MAX];
    uint32_t config_count, submission_count;
    struct sia_submission *submissions; /* in the file's order */
};

struct sia_noise { /* of gradients, as last seen */
    double var, sqr;
};

void sia_world_open(struct sia_world *world, const char *folder);
void sia_world_close(struct sia_world *world);

struct sia_noise sia_noise(const struct sia_app *app, double batch, uint32_t epoch);
double sia_gain(const struct sia_app *app, struct sia_noise noise, double batch);
/* `batch` over the whole placement, run with as few accumulation steps as memory allows. */
struct sia_candidate sia_run(const struct sia_app *app, uint32_t type,
                             const struct sia_placement *placement, double batch);
/* Progress per second. */
double sia_rate(const struct sia_app *app, struct sia_noise noise, struct sia_candidate run);
/* Of the candidates of a configuration, the one with the best rate under this noise. */
struct sia_candidate sia_best(const struct sia_app *app, uint32_t config, struct sia_noise noise);

#endif
