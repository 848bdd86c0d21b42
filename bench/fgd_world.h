/* The cluster and the arrivals of FGD's published runs, and what a policy is to them.
 *
 * Data     $SHOAL_DATA/openb_fgd (its README): nodes, pods_<variant>.csv, arrivals/<variant>.<seed>.u16
 *          and, where there is one, .nodes.u16, the order of the nodes that breaks ties.
 * Policy   Gets every pod in its order and names a node and devices; the world checks that it fits, and
 *          that a refused pod fits nowhere.
 */
#ifndef SHOAL_BENCH_FGD_WORLD_H
#define SHOAL_BENCH_FGD_WORLD_H

#include "core/pack.h"

#define FGD_WINDOW_S INT64_C(86400) /* planned ahead, with departures */

struct fgd_pod {
    struct pack_form form;
    int64_t from_s, to_s; /* of its life; both 0: not told */
};

struct fgd_node {
    uint32_t cpu_milli, memory_mib, model, devices, rank;
    uint16_t free_milli[PACK_DEVICES_MAX];
};

struct fgd_world {
    struct fgd_node *nodes; /* in the order that breaks ties */
    struct fgd_pod *pods;
    uint16_t *arrivals;
    uint32_t node_count, pod_count, arrival_count, model_count;
    uint64_t capacity_milli, used_milli;
    uint64_t seed;
};

/* A pod on its node. place.node is an index of world->nodes; ticket is the policy's. */
struct fgd_run {
    struct pack_form form;
    struct pack_place place;
    uint32_t ticket;
    uint64_t worker_id; /* of shoal_pool */
    bool placed;
    int64_t from_s, to_s;
};

struct fgd_policy {
    const char *name;
    void *(*open)(const struct fgd_world *world);
    /* Sets place and ticket; false: it fits nowhere. */
    bool (*choose)(void *self, const struct fgd_world *world, struct fgd_run *run);
    void (*placed)(void *self, const struct fgd_world *world, const struct fgd_run *run);
    void (*left)(void *self, const struct fgd_world *world, const struct fgd_run *run);
    void (*refused)(void *self, const struct fgd_run *run); /* gave up; NULL: does not matter */
    void (*half_window)(void *self);
    void (*close)(void *self);
};

extern const struct fgd_policy fgd_shoal, fgd_pool, fgd_fgd, fgd_bestfit, fgd_random;

void fgd_load(struct fgd_world *world, const char *folder, const char *variant, uint64_t seed);
void fgd_free(struct fgd_world *world);
bool fgd_fits(const struct fgd_node *node, const struct pack_form *form);
/* One pod: asks, checks, places. False: refused. */
bool fgd_submit(struct fgd_world *world, const struct fgd_policy *policy, void *self,
                struct fgd_run *run);
void fgd_remove(struct fgd_world *world, const struct fgd_policy *policy, void *self,
                const struct fgd_run *run);

#endif
