/* The parts of a modelled world, for world*.c only. */
#ifndef SHOAL_SERVER_WORLD_PARTS_H
#define SHOAL_SERVER_WORLD_PARTS_H

#include "server/world.h"

enum due_kind {
    DUE_NODE_UP = 1,
    DUE_NODE_JOIN,
    DUE_NODE_BEAT,
    DUE_NODE_FATE, /* the recorded life it shared has ended without a loss */
    DUE_NODE_NOTICE,
    DUE_NODE_LOSS,
    DUE_NODE_GONE,
    DUE_WORKER_RUNS,
    DUE_WORKER_STOPPED,
    DUE_JOB
};

struct due {
    int64_t at_us;
    uint64_t order; /* among those of one moment: the order of planning */
    uint64_t key;   /* of the node, worker or job */
    uint32_t kind, stamp;
};

enum world_state { WORLD_ORDERED = 1, WORLD_BOOTING, WORLD_READY };

struct world_node {
    uint64_t node_key, offer_id;
    uint32_t state, fate; /* fate: stamp of the dues about it */
    uint32_t life;        /* index of the recorded life it shares; FACT_NONE: modelled */
    uint32_t is_noticed, is_released;
    int64_t up_us, notice_us, fate_since_us;
    struct survival_random random;
};

struct world_worker {
    uint64_t worker_id, job_id, node_key;
    double ncu;
    uint32_t runs, stops;
};

struct world_job {
    uint64_t job_id;
    double done, total, per_ncu_us, ncu, kept; /* kept: of the last checkpoint */
    int64_t at_us, ckpt_at_us, ckpt_us;        /* ckpt_us 0: makes none */
    uint32_t stamp, is_elastic, has_steps, is_over;
    uint32_t running, reserved;
};

struct world {
    const struct facts *facts;
    struct survival_curve *curves; /* drawn; by offer number */
    uint64_t seed, order;
    struct array due;                  /* struct due, a heap */
    struct array ready;                /* struct pool_event, in order */
    uint32_t ready_at;                 /* those before are taken */
    struct array nodes, workers, jobs; /* keyed */
    struct array totals, ordinals;     /* uint32_t by offer: nodes in all; made so far */
    uint8_t *taken;                    /* of recorded lives */
    struct world_sums sums;
    bool failed;
};

/* world_queue.c */
void world_plan(world *w, int64_t at_us, uint32_t kind, uint64_t key, uint32_t stamp);
struct pool_event *world_say(world *w, uint32_t kind, int64_t now_us); /* NULL: no memory */

/* world_nodes.c */
void world_ensure_node(world *w, const struct pool_command *c, int64_t now_us);
void world_release_node(world *w, uint64_t node_key, int64_t now_us);
void world_answer(world *w, uint64_t node_key, int64_t now_us);
void world_take_over(world *w, const struct node_view *view, int64_t now_us);
void world_node_due(world *w, const struct due *due);

/* world_work.c */
int64_t world_delay(const world *w, const struct array *delays, uint64_t key, int64_t absent_us);
void world_ensure_worker(world *w, const pool *p, const struct pool_command *c, int64_t now_us);
void world_stop_worker(world *w, const struct pool_command *c, int64_t now_us);
void world_take_over_worker(world *w, const pool *p, const struct lease_view *view, int64_t now_us);
void world_work_due(world *w, const struct due *due);
void world_lose_workers(world *w, uint64_t node_key, int64_t now_us);
void world_beat_workers(world *w, uint64_t node_key, int64_t now_us);

#endif
