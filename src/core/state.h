/* The world as believed: every table of the pool. Inside the core only.
 *
 * Shape      Fixed slots in the caller's block; a reference is a slot number, SLOT_NONE = none. Ids
 *            from outside reach slots through tables (table.h).
 * Fields     Only fixed-width integers, no padding bytes with meaning: walk.c walks every
 *            field, and a static_assert there fails when a struct grows without it.
 * Rules      Whoever changes what an entity waits for calls its ..._retime(): the timer of an
 *            entity is a pure function of its fields, which pool_check() verifies.
 */
#ifndef SHOAL_CORE_STATE_H
#define SHOAL_CORE_STATE_H

#include "core/heap.h"
#include "core/limits.h"
#include "core/list.h"
#include "core/marks.h"
#include "core/match_size.h"
#include "core/money.h"
#include "core/pack.h"
#include "core/pool.h"
#include "core/table.h"
#include "core/tree.h"
#include "core/view.h"

struct model {
    uint64_t capability_mask;
    uint32_t ncu_milli, vram_mib;  /* ncu_milli 0 = not defined */
    uint32_t mig_slices, reserved; /* 0 = cannot be partitioned */
};

/* What a class is guaranteed and may do (class.h). */
struct class_rule {
    uint32_t reserved_ppm, burst_ppm, may_preempt_mask, preemptible, queues, reserved;
};

/* Devices of a model on usable nodes, and those of them that classes hold. Follows from the rest. */
struct model_use {
    uint64_t device_count, held_count[JOB_CLASS_END], promised_count[JOB_CLASS_END];
};

/* How long jobs of one shape and project ran (predict.h). */
struct history {
    uint64_t key;
    int64_t mean_us, deviation_us;
    uint32_t count, reserved;
};

/* Dollars of bought capacity (gate.h): the limits, GATE_NONE = none, and what counts against them. */
struct gate {
    int64_t usd_micros_per_hour_max, usd_micros_per_job_max, usd_micros_per_month_max;
    int64_t usd_micros_per_hour, reserved_usd_micros; /* of leases: prices, what is set aside */
    int64_t spent_usd_micros, month;                  /* in `month`, a number of months */
    uint32_t refuses, reserved;
};

/* How capacity is bought for a class or a pool (deadline.h). */
struct buying {
    uint32_t policy, price_threshold_ppm; /* enum buying_policy; 0 = not said */
    int64_t device_usd_micros_max;        /* 0 = no limit */
    int64_t bid_usd_micros;               /* of spot, per device-hour; 0 = any price */
};

struct pool_rule {
    uint64_t capability_mask, hardware_mask;
    uint32_t vram_min_mib, price_threshold_ppm; /* price_threshold_ppm 0 = not defined */
};

/* Where step-synchronous jobs live. */
struct region {
    uint64_t model_mask;    /* models with offers here */
    uint64_t improved_mask; /* models with new supply since the waiting were last woken */
    /* By class: models and capacity kinds that lower classes leave to a gang (plan_claim.c). */
    uint64_t kept_models[JOB_CLASS_END];
    uint32_t kept_kinds[JOB_CLASS_END];
    uint32_t region, racked; /* racked: offers here have racks; follows from them */
    struct list interested;  /* bound jobs that could use more */
};

/* One of a market's offers (prices.h). */
struct price {
    int64_t unit_usd_micros;
    uint32_t offer, capacity;
};

/* Kinds of capacity, a bit each. The baseline is there and paid for; the burst is bought. */
#define KINDS_BASELINE (UINT32_C(1) << CAPACITY_OWNED | UINT32_C(1) << CAPACITY_RESERVED)
#define KINDS_BURST    (UINT32_C(1) << CAPACITY_ON_DEMAND | UINT32_C(1) << CAPACITY_SPOT)
#define KINDS_ALL      (KINDS_BASELINE | KINDS_BURST)

/* All offers of one model in one region. */
struct market {
    uint32_t first, room, count, sorted; /* its entries of p->prices (prices.h) */
    struct list idle_offers; /* those with nodes that have devices to give, cheapest first */
    struct list victims, victims_promised; /* nodes (victims.h) */
    /* By capacity kind: devices ever within reach at once, and of the largest node among them. */
    uint64_t reach_devices[CAPACITY_KIND_END];
    uint32_t node_devices_max[CAPACITY_KIND_END];
    uint32_t devices_least, devices_most; /* of a node, over all its offers */
    uint64_t
        match_assigned; /* devices of jobs assigned here that have none yet; follows from them */
};

/* In the order of use: a price that is told reads and writes the first two lines of the cache alone
 * (OFFER_FRONT_BYTES), for a million of them are told at once. */
struct offer {
    uint64_t offer_id;
    int64_t usd_micros_per_hour, on_demand_usd_micros_per_hour;
    int64_t unit_usd_micros; /* per NCU-hour, with the risk: the order of the market */
    /* Of usd_micros_per_hour: as told, and as it is billed when that is more (bill.h; 0 = it is not). */
    int64_t quoted_usd_micros_per_hour, billed_usd_micros_per_hour;
    struct meter meter; /* what a node held since the first sight would have cost, at metered_us */
    int64_t metered_us, refused_until_us;
    uint32_t region_index, model, capacity, device_count;
    uint32_t share_ppm;   /* price as a share of on-demand, rounded up */
    uint32_t hot_ppm;     /* drained at this threshold: not bought until clearly below; 0 = no */
    uint32_t risk_ppm;    /* surcharge on its price */
    uint32_t rank_ppm;    /* of its price it counts so much, not its risk (ranking.h); 0 = not so */
    uint32_t stock_count; /* nodes that could be had when last told, */
    uint32_t taken_count; /* and those ordered since, or before and not answered yet */
    uint32_t idle_listed;
    uint32_t place; /* among its market's prices: the end of the front */
    struct list nodes, idle_nodes;
    struct list shared_nodes; /* with room on devices opened for shares */
    /* Risk (risk.h): when it last took a node, when that is weighed again (0 = not), and how long a
     * node takes from its order to its agent (0 = not known). */
    int64_t taken_us, weigh_us, changeover_us;
    int64_t slowest_us; /* of late: of the slow starts the older count less; 0 = not known */
    uint32_t provider, zone, hazard_ppm;
    uint32_t reach_count;  /* most nodes ever within reach at once: stock and held */
    uint8_t refused_count; /* waves of refusals since a node of it last came up */
    uint8_t rank_beside;   /* rank_ppm counts beside the surcharge */
    uint16_t reserved_half;
    uint32_t host_cpu_milli, host_memory_mib; /* of a node; 0 = not known */
    uint32_t rack;                            /* of all its nodes; 0 = not known */
    uint32_t billing_s; /* its bills are of so many seconds, begun ones whole */
    struct link idle_link;
    uint32_t pack_type; /* of packing (plan_pack.h), SLOT_NONE = not packed */
    /* The largest groups of devices in its nodes, as the last of them that joined has them (island.h). */
    uint8_t island_told, island_most[DEVICE_LEVELS];
    uint32_t reserved; /* each begins a line */
};
enum { LINE_BYTES = 64, OFFER_FRONT_BYTES = 2 * LINE_BYTES };
static_assert(offsetof(struct offer, nodes) == OFFER_FRONT_BYTES,
              "the front of an offer has grown");
static_assert(sizeof(struct offer) % LINE_BYTES == 0, "an offer does not begin a line");

struct node {
    uint64_t node_key;   /* 0 = never used */
    uint64_t tag_job_id; /* the job it was bought for, and its tags: whose overhead it is */
    int64_t ordered_us, up_since_us, notice_us, agent_heard_us;
    int64_t boot_since_us; /* ordered, or the server came back since: its boot is timed from here */
    int64_t ask_us;        /* when the provider is asked (again) */
    int64_t deadline_us;   /* of the drain */
    int64_t idle_since_us, settled_us;
    int64_t bid_usd_micros;                     /* of its request, per node-hour; 0 = any price */
    struct meter base;                          /* the offer's meter when billing began */
    int64_t entered_usd_micros;                 /* sum of its ledger entries */
    int64_t bill_from_us, bill_from_usd_micros; /* the bill is compared from here on (bill.h) */
    uint32_t offer;                             /* SLOT_NONE = adopted */
    uint32_t state, phase;                      /* state 0 = ended, remembered */
    uint32_t device_count, devices_free, drain_reason;
    uint32_t agent_joined, billing, release_sent, price_moved;
    uint32_t bill_closed; /* nothing can be added to its bill that we do not know: no adjustment */
    uint32_t idle_listed;
    uint32_t tenant, project, team, experiment;
    uint32_t devices_shared; /* opened for shares: neither free nor of one job (part.h) */
    uint32_t device_memory_mib, host_cpu_milli, host_memory_mib; /* as it was ordered */
    uint32_t shared_listed;
    uint16_t victim_count, victims_listed; /* follow from the rest (victims.h) */
    uint32_t promised_count;               /* devices kept for jobs (promise.h) */
    uint32_t pack_node;   /* its number in the packing; SLOT_NONE = not in it; follows */
    uint32_t taken_twice; /* ordered before the stock was told and not answered then (offer.c) */
    struct list leases, promises; /* promises: in the order of their jobs */
    struct link offer_link, idle_link, shared_link, victim_link;
    struct device_groups groups; /* as its agent told them (island.h) */
    uint32_t rack;               /* as its agent says; 0 = not known */
};

/* Slices of a partitioned device that are kept for whoever asks for this (plan_repack.h). */
struct mig_keep {
    uint64_t node_key, ask_hash;
    uint32_t device_index, slices; /* a bit each */
};
enum { MIG_KEEPS_MAX = 32 };

/* Devices of a node that are kept for a job (promise.h); device_count 0 = free slot. */
struct promise {
    uint32_t job, node, device_count, reserved;
    struct link job_link, node_link;
};

enum lease_state {
    LEASE_FREE,
    LEASE_RESERVED, /* the node is coming, or waits for the gang */
    LEASE_ACTIVE,   /* a worker is wanted */
    LEASE_STOPPING, /* the worker is told to stop */
    LEASE_OVER /* ended, but the node is still paid for: counts as committed until it is gone */
};

struct lease {
    uint64_t worker_id, step;
    int64_t since_us, deadline_us, ask_us;
    uint32_t job, node, device_count;
    uint32_t paid_milli; /* of devices, paid in the hourly budget: all, if bought for the job */
    uint32_t device_milli, device_index; /* of each device; SLOT_NONE: whole ones, no number */
    uint32_t device_mask; /* its devices, a bit each; 0: of a node too large to name them */
    uint32_t memory_mib;  /* of a share */
    uint32_t host_cpu_milli, host_memory_mib;
    uint32_t state, phase, stop_reason, fallback;
    uint32_t backfill; /* on devices promised to a job that comes first */
    uint32_t mig;      /* instance: profile + 1, its start << 8; 0 = none */
    struct link job_link, node_link;
    /* What it counts for its job's account, as of its purchase. */
    int64_t quota_ncu_milli, quota_usd_micros_per_hour;
    int64_t reserved_usd_micros; /* set aside for it in its accounts */
    uint32_t quota_kind, quota_counted;
    /* Its worker holds the job up: since when without a gap, last told when (plan_replace.c). */
    int64_t stall_since_us, stall_heard_us;
    uint32_t stall_kind, reserved; /* enum stall_kind; 0 = nobody says so */
    uint32_t gated, gate_pool;     /* bought capacity; SLOT_NONE = of no pool (gate.h) */
};

/* Slot 0 holds the terms of jobs without any: never looked up, never free. */
#define TERMS_NONE 0

struct terms {
    uint64_t terms_id;
    struct job_terms job;
    uint32_t user_count, reserved; /* shapes */
    struct link unused_link;
};

/* A kind of work, and in p->rates how fast it runs on each model (rate.h). */
struct work {
    uint64_t work_id;
    struct link told_link;
};

struct rate {
    uint64_t declared_micro, measured_micro; /* as told */
    uint64_t
        worth_micro; /* millionths of an NCU a device of the model is to this work; 0 = never */
    uint32_t told;   /* bit = rate_source */
    uint32_t measured_count;
};

/* What it costs to bring data from a region (high half of the key) to another (data.h). */
struct link_cost {
    uint64_t key;
    uint32_t usd_micros_per_gb, mb_per_s;
};

/* Whoever has quota, limits and a share (quota.h). */
struct account {
    /* As defined, by kind of devices; -1 = none. */
    int64_t quota_milli[QUOTA_KINDS], borrow_milli[QUOTA_KINDS], lend_milli[QUOTA_KINDS];
    int64_t total_milli[QUOTA_KINDS]; /* its quota, or the sum of its children's if that is more */
    int64_t pool_milli[QUOTA_KINDS];  /* of that: not kept by a child for itself */
    int64_t used_milli[QUOTA_KINDS];  /* its own jobs and what its children draw beyond theirs */
    int64_t own_milli[QUOTA_KINDS];   /* held by jobs of the account itself, */
    int64_t held_milli[QUOTA_KINDS];  /* and by all below it too */
    int64_t average, average_us;      /* of what is held, share.h; as of average_us */
    int64_t usd_micros_per_hour, usd_micros_per_hour_max;
    /* Dollars of a day and a month: the limit, what was spent in `period` (a number of days, of
     * months), and what is set aside for running jobs. */
    int64_t usd_micros_max[QUOTA_PERIODS], spent_usd_micros[QUOTA_PERIODS], period[QUOTA_PERIODS];
    int64_t reserved_usd_micros;
    int64_t paced_us;                /* when its submissions would be due one by one */
    uint32_t has_quota[QUOTA_KINDS]; /* or somebody below it */
    uint32_t parent, name, level, weight_milli;
    uint32_t jobs, jobs_max, workers, workers_max;
    uint32_t submissions_per_minute_max;
    uint32_t share_step; /* these follow from the rest (ask.h) */
    struct list resting, ask_tenants;
    uint32_t owners_below[QUOTA_KINDS]; /* one of its children has quota; follows from the rest */
    struct gate gate;
};

/* What a job asks for, shared by all jobs that ask for the same: judged once for all of them. */
struct shape {
    uint64_t hash, capability_mask, pool_mask;
    uint64_t compat_mask; /* models that fit: from the catalog */
    int64_t budget_usd_micros_per_hour;
    uint32_t vram_min_mib, devices_min, devices_max, price_threshold_ppm;
    uint32_t region, job_class, kind, capacity_mask;
    uint32_t threshold_ppm;  /* the one in force */
    uint32_t terms;          /* slot; SLOT_NONE only while judged: its terms are not known */
    uint32_t account;        /* whose jobs; the pool's while nobody has quota, limits or a weight */
    uint32_t user_count;     /* live jobs; 0 = free slot */
    uint64_t ask_hash;       /* of what it asks for, whoever asks */
    uint32_t quota_waits;    /* sleeps until quota is freed */
    uint32_t first_waiting;  /* job slot + 1, only inside wake_region() */
    uint64_t only_job_id;    /* with a deadline each job is a shape: what it may take is its own */
    struct list queue;       /* queued jobs, oldest first */
    struct link shapes_link; /* of shapes_idle, _used or _resting */
    uint32_t ask, rests;     /* ask.h; SLOT_NONE = of none */
    struct tree_link turn;
    struct link rest_link;
    uint64_t fits_at, fits_devices; /* plan_admit.c: that it can run was found out at this reach */
};

/* What shapes of different accounts ask for (ask.h). */
struct ask {
    struct shape of;           /* one of them */
    uint32_t root, user_count; /* of its tenants; shapes */
    struct link link;
};

struct ask_tenant {
    struct tree_link turn;
    uint32_t ask, tenant, root,
        placed;       /* root: of its shapes that rest; placed: it is in the tree */
    struct link link; /* of the asks of its tenant */
};

struct job {
    uint64_t job_id, spec_hash, order; /* order: class << 56 | seq of its submission */
    uint64_t step, ckpt_step;
    uint64_t round_worker_id; /* workers made before it failed in the round counted last */
    int64_t submitted_us, started_us, ended_us, short_since_us;
    int64_t budget_usd_micros, usd_micros, budget_check_us, review_us;
    int64_t claim_until_us;                /* 0 = no claim on stock since its gang was complete */
    int64_t over_since_us, quiet_until_us; /* above its hourly budget; after a node went for it */
    int64_t last_a, last_b, last_c;
    int64_t bought_usd_micros, bought_reserved_usd_micros; /* on spot and on demand (gate.h) */
    int64_t egress_usd_micros;       /* estimated, of data brought where it runs (data.h) */
    uint32_t data_at, data_reserved; /* region index + 1 where its data is; 0 = where it lay */
    int64_t ckpt_us;                 /* when its newest checkpoint was told; 0 = none */
    int64_t promise_until_us; /* its reservation is complete then; 0 = none (plan_reserve.h) */
    int64_t replace_from_us;  /* no node of it goes for a stall before */
    uint64_t preempted_by;    /* job that takes devices of it, not said yet; 0 = none */
    uint64_t preempted_cost;  /* milli-NCU-seconds */
    uint32_t preempted_count, preempted_ends; /* devices; 1: all of it */
    uint32_t promised_count, promise_late;    /* late: no more backfill */
    struct list promises;
    uint32_t state, job_class, devices_min, devices_max; /* state 0 = free slot */
    uint32_t shape, region_index, interested;
    uint32_t tenant, project, team, experiment;
    uint32_t failures, last_kind, last_reason;
    uint32_t wait_reason, wait_count; /* what it was last said to wait for, with how many devices */
    uint32_t account, tier_returns;   /* how often it came back from the next tier */
    uint32_t replaced_count,
        reclaims;               /* reclaims: its promises are of borrowed quota (promise.h) */
    uint32_t over_said, claims; /* that its gang minimum is above its hourly budget */
    /* Service at its usual speed so far, as of then; and its speed now, RATE_ONE = usual. */
    int64_t attained_us, attained_at_us;
    uint32_t speed, rate_market; /* rate_market, rate_*: being measured there since (rate.h) */
    int64_t rate_since_us;
    uint64_t rate_step;
    uint64_t match_barred; /* not matched again while the supply is this */
    uint32_t match_market; /* where it is matched to run; SLOT_NONE = nowhere */
    uint32_t match_leaves; /* a round sends it away from where it runs */
    uint32_t match_listed; /* enum match_list */
    struct link match_link;
    uint32_t pack_set, pack_milli; /* as what it is present in the packing; SLOT_NONE: not */
    struct list leases;
    struct link queue_link, interested_link, ended_link;
    /* With a deadline (deadline.h; 0 = none): of what it has attained, what was lost and what its newest
     * checkpoint holds; what was lost last, as long as workers that leave may still save it; since when
     * it runs without a checkpoint, and the last such stretch. */
    int64_t deadline_us, wasted_us, saved_us, unsaved_us, saved_from_us, save_gap_us;
    /* Of a step; measured since it had attained so much, at that step (0 = begins anew). */
    int64_t pace_us, pace_from_us;
    uint64_t pace_step;
    uint32_t choice, choice_offer; /* enum deadline_choice; SLOT_NONE = any */
    uint32_t changeover_ticks, deadline_missed;
};

/* Jobs that are matched are in one of these, by class (plan_match.h). */
enum match_list { MATCH_NOT, MATCH_WAITING, MATCH_ASSIGNED, MATCH_RUNNING, MATCH_LIST_END };

struct pool {
    struct pool_config config;
    uint64_t last_seq, next_key, next_worker;
    int64_t now_us;
    int64_t usd_micros_jobs, usd_micros_overhead, usd_micros_idle, usd_micros_adjustment;
    int64_t period_now[QUOTA_PERIODS],
        period_end_us;      /* from now_us: the day, the month (quota.c) */
    uint64_t reach_changes; /* more than ever before is within reach, or models are others */
    uint64_t failed_hash, supply_changes,
        failed_at; /* plan_place.c: an ask no supply was found for */
    int64_t
        reclaim_until_us; /* what comes back of a quota is its owners': nobody borrows until then */
    int64_t quota_wake_us; /* shapes that wait for quota look again at midnight; 0 = none waits */
    int64_t usd_micros_forgotten; /* of jobs that left the table */
    uint64_t replaced_count;      /* nodes that went because their workers held jobs up */
    uint32_t nodes_end, jobs_end, leases_end, offers_end, shapes_end, regions_end, promises_end;
    uint32_t node_slots, node_count, markets_end, starved, improved;
    uint32_t budget_job_count;    /* live jobs with a budget: price changes concern them */
    uint32_t bids_defined;        /* a class or a pool has, or had, a bid: and nodes with one */
    uint32_t least_threshold_ppm; /* no job is more impatient: prices below concern no threshold */
    uint32_t terms_end;
    uint32_t accounts_end, accounts_max, accounts_defined, quota_freed, quota_waiting;
    uint32_t quota_borrowers, reserved_quota; /* accounts above their quota, by kind; follows */
    uint32_t quota_kind[MODELS_MAX], quota_weight_milli[MODELS_MAX];
    uint64_t improved_regions[REGIONS_MAX / 64]; /* bit = region whose improved_mask is not 0 */
    uint32_t prices_end, unsorted_count; /* unsorted_count: markets longer than PRICES_SCAN_MAX */
    uint32_t
        offer_priced; /* the last one: where the next is looked for first; no decision sees it */
    struct list nodes_free, leases_free, shapes_free; /* node slots: ended, oldest first */
    struct list promises_free;
    struct list ended;                                    /* jobs, oldest end first */
    struct list shapes_idle, shapes_used, shapes_resting; /* without a queue; told (ask.h) */
    struct list asks_used, asks_free;
    uint32_t asks_end, asks_max, ask_tenants_end, ask_tenants_max;
    uint32_t ask_tenants_free, reserved_ask;
    struct list terms_unused;                  /* of no live job, oldest first */
    uint32_t reservation_count, reserved_word; /* jobs with promise_until_us */
    uint64_t
        promise_order_max; /* no promise is of a job behind (victims.h); follows from the rest */
    struct class_rule classes[JOB_CLASS_END];
    uint32_t works_end, works_max;
    uint32_t links_end, links_reserved;
    struct list works_told;                                  /* the one told of longest ago first */
    int64_t match_round_us, match_restart_us, match_last_us; /* as defined; the last round */
    int64_t match_due_us;                                    /* the next; INT64_MAX = none */
    uint32_t match_rounds, match_late; /* bit = class whose round is to be done; it was put off */
    struct list matched[MATCH_LIST_END][JOB_CLASS_END];
    struct match_size match_size; /* of jobs that ended */
    uint32_t mig_keep_count, mig_reserved;
    struct mig_keep mig_keeps[MIG_KEEPS_MAX]; /* oldest first */
    uint32_t pack_types, reserved_types;
    uint32_t pack_markets
        [PACK_MODELS_MAX]; /* the market of each type of packing; by model and region: */
    uint64_t pack_model_types[MODELS_MAX], pack_region_types[REGIONS_MAX];
    int64_t pack_half_us; /* when half of its window has passed */
    struct pack *pack;
    struct gate class_gates[JOB_CLASS_END], pool_gates[POOLS_MAX];
    struct buying class_buying[JOB_CLASS_END], pool_buying[POOLS_MAX];
    uint32_t ranking_state, ranking_reserved; /* enum ranking_state; 0 = never told */
    struct spot_watch *watch;
    void *watch_tables;
    struct heap timers, plans;
    struct heap match_order; /* while matching: candidates by weight */
    struct table node_table, job_table, offer_table, shape_table, terms_table, account_table;
    struct table work_table, ask_table, ask_tenant_table;
    struct heap ask_shares;  /* accounts by the time until which their step is known */
    struct link_cost *links; /* by key */
    struct work *works;
    struct rate *rates;                       /* [works_max][models_max] */
    struct match_candidate *match_candidates; /* these two while matching only */
    void *match_memory;
    struct model *models;
    struct pool_rule *rules;
    struct model_use *uses;
    struct history *histories;
    struct region *regions;
    struct market *markets;
    struct price *prices;
    struct offer *offers;
    struct node *nodes;
    struct lease *leases;
    struct promise *promises;
    struct shape *shapes;
    struct job *jobs;
    struct terms *terms;
    struct account *accounts;
    struct ask *asks;
    struct ask_tenant *ask_tenants;
};

#define CHAIN(array, field)                                                                        \
    ((struct chain){.first = &(array)[0].field, .stride = sizeof((array)[0])})

/* Timer ids. ORDER: the ranges in pool_timers_end(). */
static inline uint32_t timer_of_node(uint32_t slot)
{
    return slot;
}
static inline uint32_t timer_of_lease(const pool *p, uint32_t slot)
{
    return p->node_slots + slot;
}
static inline uint32_t timer_of_offer(const pool *p, uint32_t slot)
{
    return p->node_slots + p->config.limits.leases_max + slot;
}
static inline uint32_t timer_of_job(const pool *p, uint32_t slot)
{
    return p->node_slots + p->config.limits.leases_max + p->config.limits.offers_max + slot;
}

static inline uint32_t timer_of_quota(const pool *p)
{
    return timer_of_job(p, p->config.limits.jobs_max);
}

static inline uint32_t timer_of_match(const pool *p)
{
    return timer_of_quota(p) + 1;
}

/* Ids of p->plans: bound and assigned jobs, shapes, classes whose waiting jobs are matched, asks. */
static inline uint32_t plan_of_shape(const pool *p, uint32_t shape)
{
    return p->config.limits.jobs_max + shape;
}

static inline uint32_t plan_of_class(const pool *p, uint32_t job_class)
{
    return p->config.limits.jobs_max * 2 + job_class;
}

static inline uint32_t plan_of_ask(const pool *p, uint32_t ask)
{
    return plan_of_class(p, JOB_CLASS_END) + ask;
}

static inline struct market *market_of(const pool *p, uint32_t region_index, uint32_t model)
{
    return &p->markets[region_index * p->config.limits.models_max + model];
}

/* NULL: not known, and its job is refused. */
static inline const struct job_terms *terms_of(const pool *p, const struct shape *s)
{
    return s->terms == SLOT_NONE ? NULL : &p->terms[s->terms].job;
}

static inline bool rule_allows(const struct pool_rule *rule, const struct model *m, uint32_t model)
{
    return rule->price_threshold_ppm != 0 && (rule->hardware_mask >> model & 1) != 0 &&
           (m->capability_mask & rule->capability_mask) == rule->capability_mask &&
           m->vram_mib >= rule->vram_min_mib;
}

static inline bool job_is_live(const struct job *j)
{
    return j->state >= JOB_QUEUED && j->state <= JOB_RUNNING;
}
static inline bool job_is_bound(const struct job *j)
{
    return j->state == JOB_STARTING || j->state == JOB_RUNNING;
}
static inline bool node_is_usable(const struct node *n)
{
    return n->state >= NODE_ORDERED && n->state <= NODE_READY;
}

#endif
