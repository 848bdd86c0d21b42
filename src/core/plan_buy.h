/* The supply of one region for one demand, in the order in which it is taken.
 *
 * Rule       First devices of the pool's own nodes, where packing has them (plan_pack.h), then of other
 *            nodes that are up and idle, then offers; of either the baseline first (owned, reserved),
 *            then the burst (on demand, spot); in each of these, the lowest price
 *            per NCU-hour first (BY_NCU), or per device-hour (BY_DEVICE: reaches a gang's minimum
 *            where the first does not fit the budget), or that whatever the kind (CHEAPEST: where the
 *            baseline is too dear for its budget). An offer is skipped when its kind is not
 *            allowed, it is out of stock, refused lately, spot above the threshold, or one node
 *            costs more than is left of the budget. A node with more devices than are still wanted
 *            counts as dear as its price over the devices used.
 * Use        One iterator serves the planner, which takes each pick as it comes, and quotes, which
 *            add them up: so they cannot disagree.
 * Nearness   near.h: a place is held to, or each place tried; of a node, rack or zone where it has a device
 *            already a job that is spread takes no more.
 * Limits     Greedy: within a budget another mix may hold more NCU (a knapsack); the tests compare
 *            with the best mix on small inputs.
 */
#ifndef SHOAL_CORE_PLAN_BUY_H
#define SHOAL_CORE_PLAN_BUY_H

#include "core/near.h"
#include "core/state.h"

enum supply_order { SUPPLY_BY_NCU, SUPPLY_BY_DEVICE, SUPPLY_CHEAPEST, SUPPLY_ORDER_END };

/* What can keep a job from devices, one bit each. */
enum obstacle {
    OBSTACLE_NONE = 0,
    OBSTACLE_WORKERS = 1U << 0, /* limits of its accounts: workers, */
    OBSTACLE_QUOTA = 1U << 1,   /* NCU; */
    OBSTACLE_CLASS = 1U << 2,   /* reserved and burst share of its class */
    OBSTACLE_DOLLARS = 1U << 3, /* of its accounts: an hour, a day, a month */
    OBSTACLE_GATE = 1U << 4,    /* cost gates */
    OBSTACLE_BUDGET = 1U << 5,  /* its own budget */
    OBSTACLE_PRICE = 1U << 6,   /* its threshold */
    OBSTACLE_LIMIT = 1U << 7,   /* nodes_max, leases_max */
    OBSTACLE_KEPT = 1U << 8,    /* stock kept for gangs of higher classes */
    OBSTACLE_PLACE = 1U << 9,   /* same, spread: there is enough, but not so */
    OBSTACLE_DATA = 1U << 10,   /* its dollars do not bear to bring its data there */
    OBSTACLE_STOCK = 1U << 11,  /* there is no more */
    OBSTACLES_ALL = (1U << 12) - 1
};

struct demand {
    const struct job_terms *terms;
    uint64_t compat_mask; /* models */
    uint32_t capacity_mask, threshold_ppm, job_class;
    uint32_t gated, supply_mask; /* gated: kinds that may be had without victims; 0 = all */
    uint32_t devices_left;
    uint64_t ncu_left_milli;   /* of a job that asks for NCU: this is wanted, not devices */
    uint32_t special;          /* shares or a host's limits: part.h says what a node gives */
    uint32_t part_milli;       /* of each device */
    uint32_t node_devices_min; /* a node must give this many */
    uint32_t single_node;      /* one node and no more: batch jobs */
    uint32_t region;           /* the only one allowed; 0 = any */
    uint32_t job;        /* takes no second lease on a node where it has one; SLOT_NONE = anybody */
    uint32_t only_offer; /* nothing but this one; SLOT_NONE = any */
    int64_t device_usd_micros_max; /* what is dearer is not bought; INT64_MAX = no limit */
    int64_t bid_usd_micros; /* per device-hour: nor is spot above it; INT64_MAX = any price */
    uint32_t probes;        /* it can do without: of an offer that refused, one node at a time */
    uint32_t spot_offer;    /* no other spot; SLOT_NONE = any */
    uint64_t order; /* whose turn it is: promises to those before are not touched (promise.h) */
    int64_t run_us; /* how long it would hold the devices; 0 = not known */
    uint32_t ever; /* what could ever be had, at today's prices: no threshold, largest stock seen */
    int64_t budget_left_usd_micros; /* per hour; INT64_MAX = no limit */
    int64_t bought_left_usd_micros; /* per hour, of spot and on-demand capacity (gate.h) */
    uint64_t class_left_milli;      /* NCU its class may yet take of idle and owned devices */
    uint64_t gate_pools;            /* its pools; 0 = their gates do not concern it */
    int64_t quota_left_milli[QUOTA_KINDS]; /* NCU; INT64_MAX = no limit */
    const struct rate *rates; /* what its work makes of a model (rate.h); NULL = its NCU */
    uint32_t workers_left;
    struct near near;     /* same and spread */
    uint64_t next_tier;   /* models that come last (tier.h), not in compat_mask; 0: none */
    uint32_t quota_short; /* less is wanted than asked for, for want of quota */
    uint32_t nodes_room;  /* places of nodes that could be made (plan_room.c); 0: those there are */
    uint32_t lifted;      /* obstacles taken as if they were not there (plan_wait.c) */
};

struct pick {
    uint32_t offer, node; /* node SLOT_NONE = to be bought */
    uint32_t node_count;
    uint32_t device_count, paid_milli; /* of each node: used, paid for */
    int64_t usd_micros_per_hour;       /* of each node */
};

enum { SUPPLY_PACKED_MAX = 64 }; /* nodes that packing chooses for one job at once */

struct supply {
    const pool *p;
    struct demand left;
    uint64_t models; /* with offers here that fit */
    uint32_t region_index, order;
    uint32_t sharing; /* nodes with room on opened devices come before idle ones */
    uint32_t kinds;   /* of the walk at hand: the baseline, then the burst, or all at once */
    uint32_t buying, offer, node, partial; /* partial: a node with devices to spare, kept in mind */
    uint32_t nodes_left, leases_left;      /* of the pool's limits */
    int64_t too_dear_usd_micros;           /* cheapest node that did not fit the budget; 0 = none */
    uint32_t packed_count; /* devices of one node that packing is asked for; 0 = done */
    uint32_t seen_count, seen[SUPPLY_PACKED_MAX]; /* packed nodes that were picked */
    uint32_t apart_count; /* of a demand that is spread: where it has a device already */
    uint64_t apart[NEAR_PLACES_MAX];
    uint64_t apart_offer_id;                 /* bought last, */
    int64_t apart_key;                       /* and what it counted */
    int64_t gated_usd_micros;                /* cheapest that a cost gate kept out; 0 = none */
    uint32_t gated_model;                    /* and its model */
    int64_t pool_left_usd_micros[POOLS_MAX]; /* per hour, of the pools in left.gate_pools */
    uint32_t met;                            /* obstacles met on the way */
    int64_t above_max_usd_micros; /* least price of a device above the most allowed; 0 = none */
    uint32_t hot_ppm; /* least price above the threshold, as a share of on-demand; 0 = none */
    uint32_t heads[MODELS_MAX];
};

struct mix_line {
    uint32_t offer, node_count, device_count; /* device_count of all these nodes */
    int64_t usd_micros_per_hour;
};

struct mix {
    uint32_t region_index, order, device_count, node_count, line_count;
    uint32_t node_devices_min;    /* smaller nodes were left out, or room would have run out */
    uint32_t only_offer;          /* no mix would do, this one alone does; SLOT_NONE = a mix */
    uint64_t models;              /* larger ones would use up the quota; 0 = all */
    uint32_t devices_most;        /* whoever asks for more does not reach the least; 0 = for all */
    uint32_t baseline_count;      /* devices owned and reserved, */
    uint32_t home_baseline_count; /* and of those where the job was before */
    uint32_t limited;             /* nodes_max or leases_max cut it short */
    uint32_t met, hot_ppm;        /* as in supply, */
    int64_t above_max_usd_micros; /* and this */
    struct near near;             /* where it is */
    uint32_t single_node;         /* all on one node */
    uint32_t is_next_tier;
    int64_t unit_cost;       /* of a job with data: data.h */
    int64_t data_usd_micros; /* least that it could not bear; 0 = none */
    uint64_t ncu_milli;
    uint64_t reach_ncu_milli; /* of a demand for NCU: of all there that it may take */
    uint64_t new_ncu_milli;   /* of whole nodes that are to be started */
    int64_t usd_micros_per_hour, too_dear_usd_micros;
    int64_t weighed_usd_micros_per_hour; /* with the risk of each offer (risk.h) */
    int64_t
        home_usd_micros_per_hour; /* the same where the job was before; 0 = not possible there */
    int64_t gated_usd_micros;     /* cheapest node that a cost gate kept out; 0 = none */
    int64_t bought_usd_micros_per_hour; /* of it: spot and on-demand capacity, */
    uint32_t gated_model, bought_model; /* and a model of that */
    struct mix_line lines[SUPPLY_LINES_MAX];
};

/* What one device of the model counts in quotas, of the part that the demand takes of it. */
int64_t demand_quota_milli(const pool *p, const struct demand *demand, uint32_t model);
/* And all of its least: so many devices, or its NCU. */
int64_t demand_quota_of(const pool *p, const struct demand *demand, uint32_t model,
                        uint32_t device_count);
struct allowance;
/* What is left for its account; and what that, its class and its gates leave of it. */
void demand_within(const pool *p, struct demand *demand, const struct allowance *left);
void demand_limit(const pool *p, struct demand *demand, uint32_t job);
/* Devices that others hold are taken only where no gate has a say: with one, of owned and reserved
 * capacity; what its gates leave of the rest is still bought. False: nobody may be a victim then. */
bool demand_free_of_gates(const pool *p, struct demand *demand);
bool demand_keep_kinds(struct demand *demand, uint32_t kinds); /* false: it takes none of these */
int64_t budget_left(int64_t budget_usd_micros, int64_t committed_usd_micros);
struct demand demand_of(const struct shape *s, const struct job_terms *terms, uint32_t devices_left,
                        int64_t committed_usd_micros);
void supply_begin(struct supply *s, const pool *p, const struct demand *demand,
                  uint32_t region_index, enum supply_order order);
bool supply_next(struct supply *s, struct pick *ret_pick);
void supply_mix(const pool *p, const struct demand *demand, uint32_t region_index,
                enum supply_order order, struct mix *ret_mix);
/* The cheapest offer that gives `devices_min` alone: a greedy mix can miss it. False: there is
 * none. */
bool supply_alone(const pool *p, const struct demand *demand, uint32_t region_index,
                  uint32_t devices_min, struct mix *ret_mix);
/* The model of these that counts most. */
uint32_t supply_largest(const pool *p, uint64_t models);
/* By NCU, or by device, or whatever is cheapest, or one offer alone, or no more than `devices_min`, or that of
 * smaller models, if only that reaches it. Of a demand for NCU the cheapest mix that reaches them, or no device (supply_ncu.h). */
void supply_best(const pool *p, const struct demand *demand, uint32_t region_index,
                 uint32_t devices_min, struct mix *ret_mix);

#endif
