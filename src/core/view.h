/* Reading the pool: copies of one row each, for status pages, the command line and tests.
 *
 * Role       Pure, const. Rows are visited by slot index 0 .. *_end-1; a row that is empty returns
 *            false. The structs are plain data with no meaning beyond the copy: safe to keep.
 */
#ifndef SHOAL_CORE_VIEW_H
#define SHOAL_CORE_VIEW_H

#include "core/pool.h"

enum job_state {
    JOB_QUEUED = 1,
    JOB_STARTING,
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_REFUSED,
    JOB_STATE_END
};
enum node_state {
    NODE_ORDERED = 1,
    NODE_BOOTING,
    NODE_READY,
    NODE_DRAINING,
    NODE_RELEASING,
    NODE_STATE_END
};

struct job_view {
    uint64_t job_id, spec_hash;
    uint32_t state, job_class; /* enum job_state */
    uint32_t devices_min, devices_max, devices_up, devices_wanted;
    uint32_t region; /* the region it is bound to; 0 = none yet */
    uint32_t tenant, project, team, experiment;
    uint64_t step, ckpt_step;
    int64_t submitted_us, started_us, ended_us;
    int64_t deadline_us, work_left_us; /* 0 = it has no deadline */
    /* Spent to this moment: its ENTRY_JOB entries and what has run up since the newest; and what it
     * has committed per hour: all nodes it pays for, booting and leaving ones too. */
    int64_t usd_micros, usd_micros_per_hour;
    int64_t egress_usd_micros;       /* estimated, beside these: to bring its data where it runs */
    uint32_t last_kind, last_reason; /* newest decision about it, */
    int64_t last_a, last_b, last_c;  /* and its numbers */
};

struct node_view {
    uint64_t node_key, offer_id;
    uint32_t state, phase; /* enum node_state (ours), enum node_phase (the provider's) */
    uint32_t device_count, devices_free, model, zone, region, provider, capacity;
    uint32_t agent_joined;
    int64_t ordered_us, up_since_us, notice_us, agent_heard_us;
    int64_t usd_micros, usd_micros_per_hour;
    uint32_t drain_reason, rack; /* enum decision_reason, 0 = not draining; rack: 0 = not known */
    struct device_groups groups; /* which devices lie together (island.h); form 0 = not known */
};

/* Leases with a worker; devices reserved for a gang that is not complete have none yet. */
struct lease_view {
    uint64_t job_id, node_key, worker_id;
    uint32_t device_count, phase;        /* enum worker_phase, 0 = not heard of yet */
    uint32_t stop_reason;                /* 0 = wanted */
    uint32_t device_milli, device_index; /* below 1000: a share of that opened device */
    uint32_t device_mask; /* which of the node's; 0: of a node too large to name them */
    uint32_t mig_compute,
        mig_start; /* an instance: compute slices (0 = none), first memory slice */
    int64_t since_us, deadline_us;
    uint64_t step;
};

struct offer_view {
    uint64_t offer_id;
    int64_t usd_micros_per_hour, on_demand_usd_micros_per_hour;
    uint32_t provider, region, zone, model, capacity, device_count, stock_count, nodes_held;
    int64_t refused_until_us;
    int64_t quoted_usd_micros_per_hour; /* less than it costs: its bills are higher (bill.h) */
    uint32_t risk_ppm;                  /* surcharge when offers are compared (risk.h) */
    uint32_t rank_ppm;   /* or what its price counts, by the site's ranking (ranking.h); 0 = not */
    uint32_t hazard_ppm; /* losses per million node-hours: told, or learned if that is more */
    int64_t up_us, changeover_us; /* how long it has been on sale without a loss; 0 = not known */
    uint32_t rack;                /* 0 = not known */
    uint32_t billing_s; /* its bills are of so many seconds, begun ones whole; 0 = of one */
};

struct pool_totals {
    uint64_t jobs_queued, jobs_running, nodes, devices, devices_busy;
    uint64_t nodes_replaced; /* because their workers held jobs up */
    int64_t usd_micros_jobs, usd_micros_overhead, usd_micros_idle, usd_micros_adjustment,
        usd_micros_per_hour;
};

/* How fast the work of a job runs on a model (rate.h). */
struct rate_view {
    uint32_t model, told;                    /* told: bit = enum rate_source; 0 = by its NCU */
    uint64_t declared_milli, measured_milli; /* as told, per device */
    uint64_t speed_ppm;                      /* of its usual speed over the models it may use */
};

/* Models the job may use, at most `max`; returns how many. 0: it has no kind of work, or ended. */
uint32_t pool_rates_of(const pool *p, uint64_t job_id, struct rate_view *ret_rates, uint32_t max);
uint32_t pool_model_ncu_milli(const pool *p, uint32_t model); /* 0: not defined */
uint32_t pool_jobs_end(const pool *p);
uint32_t pool_nodes_end(const pool *p);
uint32_t pool_leases_end(const pool *p);
uint32_t pool_offers_end(const pool *p);
bool pool_job_at(const pool *p, uint32_t index, struct job_view *ret_view);
bool pool_node_at(const pool *p, uint32_t index, struct node_view *ret_view);
bool pool_lease_at(const pool *p, uint32_t index, struct lease_view *ret_view);
bool pool_offer_at(const pool *p, uint32_t index, struct offer_view *ret_view);
bool pool_job_find(const pool *p, uint64_t job_id, struct job_view *ret_view);
bool pool_node_find(const pool *p, uint64_t node_key, struct node_view *ret_view);
/* The event that would define the rule of buying (enum buying_scope) as it stands; false: no such pool. */
bool pool_buying_read(const pool *p, uint32_t scope, uint32_t index, struct pool_event *ret_event);
void pool_totals_read(const pool *p, struct pool_totals *ret_totals);

#endif
