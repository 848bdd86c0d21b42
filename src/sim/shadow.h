/* What the core was told and what it said, kept outside it; and the checkers that judge it.
 *
 * Role       The shadow is a second, plain record of every event, command, decision and ledger
 *            entry. Checkers compare it with the true world (world.h) and with the views a user
 *            would see (core/view.h), never with the insides of the core.
 * Adding one A checker is a row in the table of shadow.c; each of its calls may be NULL. It reports
 *            through sim_fail(), which keeps the first complaint.
 */
#ifndef SHOAL_SIM_SHADOW_H
#define SHOAL_SIM_SHADOW_H

#include "sim/world.h"

struct shadow_node {
    uint64_t key, job_id; /* the job it was bought for */
    uint32_t offer;       /* index in sim.offers; UINT32_MAX: never bought by us */
    uint32_t asks, releases;
    int64_t first_us, last_ask_us, leaked_us; /* leaked: closed by the core while it still ran */
    int64_t above_threshold_us;               /* since when its price is above; 0: it is not */
    int64_t entries_usd_micros;
    bool released, lost, closed, joined, heard_up;
    bool shared; /* somebody was placed there since it was bought */
};

struct sim_mig { /* an instance: compute slices (0 = none), first slice of memory */
    uint32_t compute, start;
};

struct shadow_worker {
    uint64_t id, job_id;
    uint32_t node, device_count; /* node: index in shadow.nodes */
    uint32_t device_mask, device_milli;
    struct sim_mig mig;
    uint32_t asks, stops;
    int64_t first_us;
    bool ended, stopping;
};

struct shadow_job {
    bool admitted, refused, ended;
    bool gang_began;  /* of a job that asks for NCU, and nothing else was said of it since */
    bool matched;     /* placed by the matching, and nothing but purchases was said of it since */
    uint32_t refusal; /* enum decision_reason */
    uint32_t state;   /* enum job_state after the step before; 0: not known yet */
    uint32_t calm_nodes; /* nodes bought for it long after the heal */
    int64_t spent_usd_micros;
    int64_t
        over_budget_us; /* since when it works above its $/h with a node to spare; 0: it does not */
    int64_t replaced_us; /* when it last lost a node for a stall; 0: never */
    struct pool_decision last;
};

struct shadow_offer {
    bool told;
    int64_t told_us;
    int64_t usd_micros_per_hour, on_demand_usd_micros_per_hour;
    uint32_t stock_count, stock_count_max;
    int64_t billed_usd_micros_per_hour; /* what it counts as since it was distrusted; 0 = as told */
};

struct sim_shadow {
    struct shadow_job jobs[SIM_JOBS_MAX];
    struct shadow_offer offers[SIM_OFFERS_MAX];
    struct sim_map_slot node_slots[2 * SIM_WORKERS_MAX], worker_slots[4 * SIM_WORKERS_MAX];
    struct sim_map node_map, worker_map;
    uint32_t node_count, worker_count, first_open_node, first_open_worker;
    int64_t entries_usd_micros[ENTRY_KIND_END];
    /* From here on not cleared: rows are written whole when they come into use. */
    struct shadow_node nodes[SIM_MACHINES_MAX];
    struct shadow_worker workers[SIM_WORKERS_MAX];
};

struct sim_checker {
    const char *name;
    void (*on_command)(struct sim *s, const struct pool_command *command); /* before the shadow */
    void (*on_decision)(struct sim *s, const struct pool_decision *decision);
    void (*on_entry)(struct sim *s, const struct ledger_entry *entry);
    void (*after_step)(struct sim *s, const struct pool_event *event);
    void (*at_end)(struct sim *s);
};

extern const struct sim_checker sim_check_budget, sim_check_ledger;     /* check_money.c */
extern const struct sim_checker sim_check_bills;                        /* check_money.c */
extern const struct sim_checker sim_check_ownership, sim_check_fencing; /* check_nodes.c */
extern const struct sim_checker sim_check_stale;                        /* check_nodes.c */
extern const struct sim_checker sim_check_forgotten, sim_check_bounds;  /* check_nodes.c */
extern const struct sim_checker sim_check_region, sim_check_threshold;  /* check_jobs.c */
extern const struct sim_checker sim_check_order, sim_check_refusals;    /* check_jobs.c */
extern const struct sim_checker sim_check_stalls;                       /* stall.c */
extern const struct sim_checker sim_check_decisions;                    /* check_jobs.c */
extern const struct sim_checker sim_check_near;                         /* check_near.c */
extern const struct sim_checker sim_check_ncu;                          /* check_ncu.c */
extern const struct sim_checker sim_check_mig;                          /* check_mig.c */

struct sim_shadow *sim_shadow_open(void); /* NULL: memory is short */
void sim_shadow_close(struct sim_shadow *shadow);
void sim_shadow_step(struct sim *s, const struct pool_event *event, const struct pool_output *out);
void sim_shadow_end(struct sim *s);

/* Short numbers for people: 1 is the first node this server ever asked for. 0: a stranger. */
uint32_t sim_shadow_node_number(const struct sim *s, uint64_t key);
struct shadow_node *sim_shadow_node(struct sim *s, uint64_t key);    /* NULL: unknown */
struct shadow_worker *sim_shadow_worker(struct sim *s, uint64_t id); /* NULL: unknown */
struct shadow_job *sim_shadow_job(struct sim *s, uint64_t job_id);   /* NULL: unknown */
/* What a node costs by the newest price the core was told. */
int64_t sim_shadow_price(const struct sim *s, const struct shadow_node *node);
/* Price threshold of a job: its own, else the most patient of the pools it may use, else
 * the on-demand price. */
int64_t sim_threshold_ppm(const struct sim *s, const struct sim_job *job);
int64_t sim_bid(const struct sim *s, const struct sim_job *job); /* per device-hour; 0 = any price */
bool sim_offer_known(const struct sim *s, const struct sim_offer *offer); /* to the core */
/* The price at that share of on-demand, rounded down. */
int64_t sim_share_of(int64_t usd_micros, int64_t share_ppm);
/* Nodes of this offer alone can be as together and apart as it asks; how many it takes then. */
bool sim_near_suffices(const struct sim_job *job, const struct sim_offer *offer,
                       uint32_t *ret_nodes);
/* A device of the model has a profile for it; true of a job that asks for no instance. */
bool sim_mig_suffices(const struct sim *s, const struct sim_job *job, uint32_t model);
/* The instance that the worker of a command works on; false: on none. */
bool sim_mig_of(const struct sim *s, const struct pool_command *c, struct sim_mig *ret_mig);
bool sim_is_near(const struct sim_job *job); /* it asks to be together or apart (check_near.c) */
/* Of a job that asks for NCU; 0: it asks for devices. How many nodes of that offer reach them, else its
 * devices (check_ncu.c). */
uint32_t sim_ncu_milli(const struct sim_job *job);
uint32_t sim_job_nodes(const struct sim *s, const struct sim_job *job,
                       const struct sim_offer *offer);
/* Whether the offer meets the job's needs, prices and stock aside. */
bool sim_offer_fits(const struct sim *s, const struct sim_job *job, const struct sim_offer *offer);

#endif
