/* One world: a scene, a case and a seed, run on a virtual clock against the core of the pool. Inside
 * src/whatif only, but for world_run().
 *
 * Role       world_run() is the whole: the pool hears events, as in the daemon, and what it commands is
 *            done by nodes, workers and jobs that behave as the scene says. Nothing here decides where
 *            a job runs, but for the two policies that are not the pool's own (drive.c).
 * Random     Everything drawn comes from streams forked from the seed and the place in the scene
 *            (prices and losses of an offer, work of a job), so that all cases of a seed meet the same
 *            prices, arrivals and work.
 * Numbers    Times are integers. Rates and money are doubles, made by + - * / and square roots alone,
 *            so that the same seed gives the same bytes with every compiler (IEEE 754, no contraction).
 * Reading    world.c (clock), feed.c (events and commands), market.c (prices, stock), nodes.c
 *            (nodes, workers), work.c (progress of jobs), drive.c (submitting), outcome.c.
 */
#ifndef SHOAL_WHATIF_WORLD_H
#define SHOAL_WHATIF_WORLD_H

#include "core/output.h"
#include "core/view.h"
#include "sim/queue.h"
#include "sim/random.h"
#include "whatif/measure.h"
#include "whatif/record.h"
#include "whatif/scene.h"

#define NONE     UINT32_MAX
#define NEVER_US INT64_MAX
#define START_US INT64_C(1000000000000) /* 0 means "not known" to the pool */
#define HOUR     3600e6                 /* microseconds, as a double */
#define PPM      INT64_C(1000000)

enum what {
    ON_TICK,
    ON_SUBMIT, /* job */
    ON_DONE,   /* job, version */
    ON_PRICE,  /* offer: the next step of its walk or series */
    ON_SPIKE,  /* offer: begins; version 1: ends */
    ON_MARKET, /* offer: to be had or not, drawn or from its series */
    ON_SOLD,   /* offer: from and until */
    ON_UP,     /* node */
    ON_NOTICE, /* node: its life is over, the notice begins */
    ON_TAKE,   /* node */
    ON_SLOW,   /* node: one of its devices becomes slow; version 1: is as before */
    ON_RUNS,   /* worker */
    ON_STOPS,  /* worker */
    ON_SAYS,   /* job: it reports its steps */
    ON_RANK,   /* the offers are ranked anew */
};

struct live_offer {
    int64_t usd_micros;      /* an hour of a node, now */
    int64_t walk_usd_micros; /* without the spike */
    double paid;             /* dollars that one node up since the beginning would have cost */
    int64_t paid_at_us;
    uint32_t up, held, price_step, up_step; /* up: nodes that could be had, the held ones counted */
    bool down, spiking, unsold;
    int64_t turns_us;    /* when it goes or comes, as drawn; 0: it does not */
    uint32_t factor_ppm; /* what its price counts, as told last (ranker.h); 0: as built in */
    uint32_t first_node;
    struct sim_random prices, ups, lives;
};

struct live_node {
    uint32_t offer, phase, next, before; /* of its offer's live ones */
    uint32_t first_worker, held_devices, slow_devices;
    int64_t up_us, notice_us;
    int64_t bid_usd_micros; /* an hour of it; 0: any price */
    double paid_before;     /* of the offer, when it came up */
};

struct live_worker {
    uint32_t job, node, devices, phase;
    uint32_t next_on_node, next_of_job, before_of_job;
    int64_t since_us;   /* it holds devices since */
    double paid_before; /* of the offer, then */
};

enum job_stage { JOB_COMING, JOB_WAITS, JOB_RUNS, JOB_STANDS, JOB_ENDED, JOB_REFUSED_BY_POOL };

struct live_job {
    uint32_t entry, number, stage, version;
    uint32_t devices_min, devices_max;
    uint64_t job_id; /* in the pool, now; 0: not there */
    int64_t submit_us, start_us, end_us, stopped_us;
    int64_t stood_us;
    double work, done, saved; /* NCU microseconds */
    double speed, ideal;      /* NCU: of work done, and of its devices if nothing held them up */
    double productive;        /* share of its device time that is */
    uint32_t devices, workers;
    int64_t seen_us, pause_until_us, since_saved_us, says_us; /* says_us: of its next report */
    double step_cv2, step_exchange, step_overhead; /* of the devices it has now */
    double since_saved_productive;
    /* Sums, device microseconds or microseconds. */
    double productive_sum, running_sum, device_sum, overhead_sum, pause_sum, cv2_sum, exchange_sum;
    double lost_work, held_sum, held_spot_sum, held_usd;
    uint32_t restarts, first_worker;
    uint32_t wait_reason; /* what the pool said last of why it waits, or is refused; 0: nothing */
    int64_t wait_a, wait_b, wait_c;
    bool relaunching;
};

struct world {
    const struct scene *scene;
    const struct scene_case *c;
    uint64_t seed;
    int64_t now_us, end_us, trace_us;
    pool *pool;
    void *memory;
    size_t memory_bytes;
    struct pool_output *out;
    uint64_t seq, events, digest;
    int64_t tick_us;
    struct pool_event *inbox;
    uint32_t inbox_first, inbox_count, inbox_room;
    struct sim_queue queue;
    struct live_offer *offers; /* [scene->offer_count] */
    struct live_node *nodes;   /* by the counter of the node key */
    struct live_worker *workers;
    struct live_job *jobs;
    uint32_t node_count, node_room, worker_count, worker_room, job_count, live_jobs;
    uint64_t next_job_id;
    uint32_t *id_jobs; /* job by its id in the pool - 1 */
    uint32_t id_room;
    uint32_t bases[SCENE_JOBS_MAX]; /* first job of an entry */
    uint64_t preemptions, begun;
    double bought_usd, bought_device_us;
    double metered_usd;  /* of all nodes while they were up: what the pool's ledger says, too */
    uint32_t stop_group; /* + 1: the group whose last job ends the world; 0: all */
    bool failed;         /* out of memory */
    bool rank_due, has_met;
    struct rank_range met[RANK_INPUT_COUNT]; /* by what a learned ranking was asked */
    struct recorder *recorder;
};

/* Runs one world to its end. False: out of memory. `recorder` NULL: nothing is kept but the outcome. */
bool world_run(const struct scene *scene, const struct scene_case *c, uint64_t seed,
               struct recorder *recorder, struct outcome *ret_outcome);

/* world.c */
void world_later(struct world *w, int64_t at_us, enum what what, uint32_t index, uint32_t version);

/* feed.c */
bool feed_open(struct world *w);
void feed_close(struct world *w);
void feed_configure(struct world *w); /* models, pools, rates */
struct pool_event feed_buying(const struct world *w); /* as the case says, else the scene */
struct pool_event feed_event(enum pool_event_kind kind);
void feed_tell(struct world *w,
               const struct pool_event *event); /* queued; stepped by feed_settle() */
void feed_settle(struct world *w);              /* until the pool has heard all */
void feed_tick(struct world *w);

/* market.c */
void market_open(struct world *w);
void market_on(struct world *w, enum what what, uint32_t offer, uint32_t version);
void market_paid(struct world *w, uint32_t offer);       /* its sums, up to now */
bool market_told(const struct world *w, uint32_t offer); /* the policy knows of it */
uint32_t market_left(const struct world *w,
                     uint32_t offer); /* nodes to be had besides those held */
/* The price of the offer is above this bid for a node (0: any price). */
bool market_is_above(const struct world *w, uint32_t offer, int64_t bid_usd_micros);

/* nodes.c */
void site_ensure(struct world *w, const struct pool_command *command);
void site_release(struct world *w, uint64_t key);
void site_observe(struct world *w, uint64_t key);
void site_notice(struct world *w, uint32_t node);
void site_on(struct world *w, enum what what, uint32_t index, uint32_t version);
void crew_ensure(struct world *w, const struct pool_command *command);
void crew_stop(struct world *w, const struct pool_command *command);
void crew_end(struct world *w, uint32_t worker, uint32_t phase);
void crew_tell(struct world *w, uint32_t worker); /* how it stands */
void site_close_all(struct world *w); /* bills at the end of the world */

/* work.c */
void work_advance(struct world *w, uint32_t job);
void work_joined(struct world *w, uint32_t job);
void work_left(struct world *w, uint32_t job, bool abrupt);
void work_refresh(struct world *w, uint32_t job); /* a device became slow, or is as before */
void work_done(struct world *w, uint32_t job, uint32_t version);
struct live_job *work_job_of_id(struct world *w, uint64_t job_id);

/* drive.c */
bool drive_open(struct world *w);
void drive_submit(struct world *w, uint32_t job);
void drive_lost(struct world *w,
                uint32_t job); /* a node of it is being taken, before the pool hears it */
void drive_ended(struct world *w, uint32_t job);
void drive_refused(struct world *w, uint32_t job); /* it will never run */
bool drive_is_fixed(const struct world *w);
bool drive_restarts(const struct world *w, const struct live_job *job);

/* said.c: what the pool is told of a job's work. */
uint64_t said_terms(struct world *w, uint32_t job); /* told, if it has any; else 0 */
uint64_t said_step(const struct world *w, const struct live_job *job, double done);
void said_begins(struct world *w, uint32_t job); /* it runs: reports come */
void said_saved(struct world *w, uint32_t job);  /* a checkpoint may be newer */
void said_on(struct world *w, uint32_t job);

/* outcome.c */
bool outcome_of(struct world *w, struct outcome *ret_outcome);

#endif
