/* The inside of driver `local`, shared by its files: local.c (the ops), local_life.c (one node from
 * asked to gone), local_script.c (scripted events), local_offers.c (what is on sale).
 *
 * Invariants  nodes[] only grows, one entry per key, used-up keys included.
 *             A record is on disk before its level is answered; when that fails, nothing is
 *             answered and the node is as if it had not been asked for (the core asks again).
 *             Callbacks to the host happen in local_tick() only.
 */
#ifndef SHOAL_DRIVER_LOCAL_DRIVER_H
#define SHOAL_DRIVER_LOCAL_DRIVER_H

#include "driver/driver_impl.h"
#include "driver/local_world.h"

enum {
    LOCAL_TICK_MS = 20,         /* how late a boot, notice or loss may be */
    LOCAL_ARMED_TICK_MS = 1,    /* while the script waits for a phase of a worker */
    LOCAL_NODES_MAX = 1 << 16,  /* keys in one data folder; above it: REFUSED, QUOTA */
    LOCAL_RELEASE_US = 5000000, /* from asking politely to SIGKILL */
    LOCAL_CLOSE_US = 3000000,   /* the same when the server ends */
    LOCAL_LIVENESS_US = 100000, /* how often machines are looked at */
    LOCAL_SETTLED_US = 2000000, /* the script takes a node without a status page after this */
};

struct local {
    struct driver driver; /* first */
    struct driver_host host;
    uv_loop_t *loop;
    uv_timer_t timer;
    struct local_world world;
    char dir[LOCAL_PATH_BYTES], nodes_dir[LOCAL_PATH_BYTES], history_file[LOCAL_PATH_BYTES];
    char server_file[LOCAL_PATH_BYTES]; /* where the agents find a server that has moved */
    char *server_url, *agent_token_file, *program; /* program: NULL = the running one */
    struct driver_model models[LOCAL_OFFERS_MAX];  /* by offer; name is not used */
    struct local_node *nodes;
    uint32_t node_count, node_room;
    uint32_t serials[LOCAL_OFFERS_MAX]; /* next serial of each offer */
    struct {
        int64_t usd_micros_per_hour; /* as told to the host; 0: not told */
        uint32_t stock_count;
    } told[LOCAL_OFFERS_MAX];
    uint64_t *unknown; /* keys observed that do not exist: to be answered ABSENT */
    uint32_t unknown_count, unknown_room;
    bool step_reached[LOCAL_EVENTS_MAX];
    uint32_t taken[LOCAL_EVENTS_MAX]; /* PREEMPT: nodes taken so far */
    int64_t looked_us;                /* liveness */
    bool armed;                       /* the script waits for a phase */
    bool closing;
    int64_t close_by_us;
    driver_closed_fn *closed;
    void *closed_self;
};

/* local_life.c */
struct local_node *local_find(struct local *local, uint64_t key);
void local_life_ensure(struct local *local, uint64_t key, int32_t offer_index,
                       int64_t bid_usd_micros, int64_t now_us);
void local_life_release(struct local *local, uint64_t key, int64_t now_us, int64_t kill_us);
void local_life_tick(struct local *local, int64_t now_us);
bool local_life_load(struct local *local, int64_t now_us, struct error *ret_error) WARN_UNUSED;
/* The cloud takes the node: at once (notice_us 0) or after a notice. */
void local_life_preempt(struct local *local, struct local_node *node, int64_t now_us,
                        int64_t notice_us, bool scripted);
/* Everything of it has been sent SIGKILL; it is GONE when nothing is left. */
void local_life_dying(struct local_node *node, uint32_t reason);
void local_node_dir(const struct local *local, const struct local_node *node,
                    char ret_dir[LOCAL_PATH_BYTES]);

/* local_script.c */
void local_script_tick(struct local *local, int64_t now_us);
void local_script_step(struct local *local, uint64_t step);

/* local_offers.c */
void local_offers_tick(struct local *local, int64_t now_us);
uint32_t local_offers_stock(const struct local *local, uint32_t offer_index, int64_t now_us);

/* local_history.c: one JSON line of what really happened, for reports. Not read back. */
enum local_fact { LOCAL_FACT_UP = 1, LOCAL_FACT_NOTICE, LOCAL_FACT_GONE };
void local_history_node(const struct local *local, enum local_fact fact,
                        const struct local_node *node, int64_t now_us);
void local_history_event(const struct local *local, uint32_t event_index, int64_t now_us);

#endif
