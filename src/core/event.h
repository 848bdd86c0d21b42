/* What the core is told: fixed-size records without pointers.
 *
 * Role       The only way anything enters the core. The daemon journals each event, commits, then
 *            steps it; the simulator makes them up; replay reads them back. So an event must hold
 *            all that a decision needs: configuration (models, pools, offers) enters as events too.
 * Rules      seq = previous + 1; now_us never decreases; a record's unused bytes are written as
 *            zero and not looked at by the core (initialising a union clears one member only);
 *            values are frozen once journaled (new kinds at the end, POOL_CORE_VERSION raised when
 *            what they lead to changes).
 * Levels     Observations are levels, not edges: "node 7 is UP", believed until its lease ends. The
 *            same event twice changes nothing the second time; a lost one is repaired by the next.
 * Terms      JOB_SUBMITTED has no room for all that a job may ask for: the rest is in terms, defined
 *            by an event right before that of each job that has any. Terms that no live job has may
 *            be forgotten when room is short, oldest first, but never before the next event.
 * Ids        Names (tenants, zones, models, jobs) live outside; the core sees small numbers the
 *            daemon gave out, except node keys and worker ids, which the core makes and never uses
 *            again.
 */
#ifndef SHOAL_CORE_EVENT_H
#define SHOAL_CORE_EVENT_H

#include <assert.h>
#include <stdint.h>

/* What a record or a snapshot was written by. Two programs with the same number say the same to the same
 * events: raised whenever a decision, an entry or a command may come out otherwise than before, or
 * a snapshot has other fields. No program replays what another number wrote: to believe a state that
 * was never decided is worse than to say so. */
enum { POOL_CORE_VERSION = 4, POOL_EVENT_BYTES = 128 };

enum pool_event_kind {
    POOL_EVENT_TICK = 1,      /* the time of pool_next_wake_us() has come */
    POOL_EVENT_RESTARTED,     /* journal replayed: ask about everything again */
    POOL_EVENT_MODEL_DEFINED, /* a device model of the catalog */
    POOL_EVENT_POOL_DEFINED,  /* a pool: capabilities and hardware */
    POOL_EVENT_OFFER_CHANGED, /* price or stock of what a provider sells in a zone */
    POOL_EVENT_JOB_SUBMITTED, /* idempotent by job_id, also after the job ended */
    POOL_EVENT_JOB_CANCELLED,
    POOL_EVENT_NODE_OBSERVED,    /* the provider's view of one node key */
    POOL_EVENT_AGENT_REPORTED,   /* the agent on a node: renews its lease */
    POOL_EVENT_WORKER_REPORTED,  /* one worker of one job, by its agent */
    POOL_EVENT_CKPT_DURABLE,     /* a checkpoint of a job is stored and verified */
    POOL_EVENT_NODE_DRAIN_ASKED, /* an operator wants a node emptied and let go */
    POOL_EVENT_WORKER_STALLED,   /* a job's workers found out who holds them up, or that it is over;
                                  told again every STALL_TOLD_AGAIN_US while it lasts */
    POOL_EVENT_TERMS_DEFINED,    /* what jobs ask for beyond JOB_SUBMITTED; comes before the job */
    POOL_EVENT_ACCOUNT_DEFINED,  /* weight, quota and limits of a tenant, project, team or user */
    POOL_EVENT_QUOTA_MODEL_DEFINED, /* what a device of a model counts in quotas */
    POOL_EVENT_CLASS_DEFINED,       /* what a class is guaranteed and may do (class.h) */
    POOL_EVENT_OFFERS_PRICED,       /* new prices of offers told before, several at once */
    POOL_EVENT_RATE_TOLD,           /* how fast a kind of work runs on a model (rate.h) */
    POOL_EVENT_MATCHING_DEFINED,    /* when running jobs are matched anew (plan_match.h) */
    POOL_EVENT_GATE_DEFINED,   /* dollars of bought capacity of a class, pool or account (gate.h) */
    POOL_EVENT_BUYING_DEFINED, /* how capacity is bought for a class or a pool (deadline.h) */
    POOL_EVENT_OFFERS_RANKED,  /* what offers count as, by the site's own ranking (ranking.h) */
    POOL_EVENT_LINKS_TOLD,     /* what it costs to bring data from a region to others (data.h) */
    POOL_EVENT_KIND_END,
};

enum capacity_kind {
    CAPACITY_OWNED = 1,
    CAPACITY_RESERVED,
    CAPACITY_ON_DEMAND,
    CAPACITY_SPOT,
    CAPACITY_KIND_END
};

enum node_phase {
    NODE_PHASE_ABSENT = 1, /* the provider knows no such node */
    NODE_PHASE_PENDING,    /* asked for, not running yet, not billed */
    NODE_PHASE_UP,         /* running and billed */
    NODE_PHASE_GONE,       /* was running, is not any more; will never run again */
    NODE_PHASE_REFUSED, /* the provider said no: `reason` tells; it will not run under this key */
    NODE_PHASE_END,
};

enum node_reason { /* why a node is PENDING no more, or will leave */
                   NODE_REASON_NONE,
                   NODE_REASON_STOCKOUT, /* no capacity */
                   NODE_REASON_QUOTA,
                   NODE_REASON_PREEMPTED, /* the provider took it, with notice or without */
                   NODE_REASON_CRASHED,   /* the machine failed */
                   NODE_REASON_RELEASED,  /* we let it go */
                   NODE_REASON_ERROR,     /* anything else the provider says */
                   NODE_REASON_END,
};

enum agent_phase { AGENT_PHASE_JOINED = 1, AGENT_PHASE_LEAVING, AGENT_PHASE_END };

enum worker_phase {
    WORKER_PHASE_STARTING = 1,
    WORKER_PHASE_RUNNING,  /* joined its job's generation */
    WORKER_PHASE_FINISHED, /* exited by itself with status 0: the job is complete */
    WORKER_PHASE_FAILED,   /* exited by itself with another status or by a signal */
    WORKER_PHASE_STOPPED,  /* exited because it was told to */
    WORKER_PHASE_END,
};

enum stall_kind { /* ORDER: the reasons from STALL_OVER on (output.h) */
                  STALL_OVER = 1,
                  STALL_STOPPED,
                  STALL_SILENT,
                  STALL_HOST,
                  STALL_DATA,
                  STALL_COMPUTE,
                  STALL_STORAGE,
                  STALL_LINK,
                  STALL_NETWORK,
                  STALL_DIVERGED,
                  SLOW_DATA,
                  SLOW_COMPUTE,
                  SLOW_STORAGE,
                  SLOW_LINK,
                  SLOW_NETWORK,
                  STALL_KIND_END,
};

enum job_kind { JOB_KIND_ELASTIC = 1, JOB_KIND_BATCH, JOB_KIND_END };

enum job_class { JOB_CLASS_P0, JOB_CLASS_P1, JOB_CLASS_P2, JOB_CLASS_P3, JOB_CLASS_END };

/* Where a rate comes from. What was measured counts for more. */
enum rate_source {
    RATE_DECLARED = 1,
    /* 0: never runs on this model */ RATE_MEASURED,
    RATE_SOURCE_END
};

/* How close together the devices of a job are, from loose to tight. */
enum topology {
    TOPOLOGY_ANY,    /* one region, as every job */
    TOPOLOGY_ZONE,   /* one zone */
    TOPOLOGY_RACK,   /* one rack: its nodes share a switch */
    TOPOLOGY_NODE,   /* one node */
    TOPOLOGY_NVLINK, /* one node, devices joined by NVLink (island.h) */
    TOPOLOGY_PCIE,   /* one node, devices behind one PCIe switch */
    TOPOLOGY_NUMA,   /* one node, devices at one NUMA node */
    TOPOLOGY_END
};

/* The group of each of the first devices of a node at three levels, half a byte each, device 0 in the
 * low half of byte 0; 0 = not known (island.h). */
enum {
    DEVICE_GROUPS_FORM = 1,
    DEVICE_GROUPS_DEVICES = 32,
    DEVICE_GROUPS_MAX = 15,
    DEVICE_LEVELS = 3
};
struct device_groups {
    uint32_t form; /* 0: nothing is told; DEVICE_GROUPS_FORM */
    uint8_t nvlink[DEVICE_GROUPS_DEVICES / 2], pcie[DEVICE_GROUPS_DEVICES / 2],
        numa[DEVICE_GROUPS_DEVICES / 2];
};

/* What a job asks for beyond JOB_SUBMITTED: shared by all jobs that ask for the same. All zero is
 * what a job without terms gets. No padding: compared and hashed as bytes. Fields that nobody acts
 * upon yet are carried all the same. */
struct job_terms {
    int64_t run_us;           /* declared run time; 0 = not known */
    int64_t notice_us;        /* what it needs to hand over before it is moved; 0 = drain_us */
    int64_t ckpt_interval_us; /* how often it saves; 0 = not known */
    uint64_t data_bytes;      /* what it reads, and lies in data_region */
    uint32_t data_region;     /* 0 = nowhere in particular */
    /* Per device. */
    uint32_t device_milli;      /* share of a device; 0 = 1000 = whole */
    uint32_t device_memory_mib; /* of a share: memory it may use; 0 = the same share of it */
    uint32_t mig_profile;       /* an instance with at least so many compute slices, and
                                   device_memory_mib of memory (mig.h); 0 = none */
    uint32_t host_cpu_milli, host_memory_mib; /* of its node; 0 = whatever is left */
    uint32_t ncu_milli; /* the cheapest mix of so many NCU (plan_ncu.c); 0: it asks for devices */
    uint8_t topology_required, topology_preferred; /* carried; affinity says it (near.h) */
    uint8_t degrade;   /* 1 + the pool that comes last, the next tier (tier.h); 0: none */
    uint8_t affinity;  /* enum topology: its workers keep at least this close */
    uint8_t spread;    /* enum topology: its workers keep out of each other's */
    uint8_t gate;      /* enum gate_above: what happens above a cost gate */
    uint8_t host_only; /* 1: no device, only processors and memory of a node */
    uint8_t reserved_byte;
    uint32_t steps_total; /* after so many it is done; 0 = not known */
    uint64_t work_id;     /* kind of work: jobs with the same share rates (rate.h); 0 = none */
    /* When it has to end (deadline.h): up to TERMS_US_MAX, so long after its submission; above, at
     * that time (no time since 1980 is as small). 0 = whenever. */
    int64_t deadline_us;
};
static_assert(sizeof(struct job_terms) == 88, "terms have no padding");

enum { ACCOUNT_LEVELS = 4, QUOTA_KINDS = 2, QUOTA_PERIODS = 2 }; /* tenant, project, team, user */

enum gate_scope { GATE_OF_CLASS = 1, GATE_OF_POOL, GATE_OF_ACCOUNT, GATE_SCOPE_END };
enum gate_above { GATE_AS_DEFINED, GATE_WAITS, GATE_REFUSES, GATE_ABOVE_END }; /* terms.gate */
#define GATE_NONE INT64_C(-1)

enum buying_scope { BUYING_OF_CLASS = 1, BUYING_OF_POOL, BUYING_SCOPE_END };
/* Where jobs with a deadline run while there is time for a loss (deadline.h). 0 = not said. */
enum buying_policy {
    BUYING_TABLE = 1,        /* what is learned (spot_policy.h) */
    BUYING_GREEDY,           /* spot whenever it is up, else wait */
    BUYING_UNIFORM_PROGRESS, /* spot, else on demand while behind a steady pace */
    BUYING_ON_DEMAND,
    BUYING_POLICY_END
};

/* Whose ranking is in force; why it is the built-in. */
enum ranking_state {
    RANKING_OWN = 1, /* the site's */
    RANKING_BUILT_IN,
    RANKING_LATE,     /* the site's program did not answer in time, */
    RANKING_FAILED,   /* ended or could not be started, */
    RANKING_NONSENSE, /* answered what cannot be used */
    RANKING_STATE_END
};

enum { PRICED_MAX = 6, RANKED_MAX = 6, LINKS_TOLD_MAX = 8 };

struct told_rank {
    uint64_t offer_id;
    uint32_t factor_ppm; /* its price counts so many millionths; 0: as built in; RANK_OUTSIDE:
                            likewise, and purchases say so */
    uint32_t beside;     /* 1: beside the surcharge of the built-in ranking, not in its place */
};

struct told_link {
    uint32_t to;                /* region; 0: all that are not named */
    uint32_t usd_micros_per_gb; /* of 10^9 bytes */
    uint32_t mb_per_s;          /* 0: at once */
};

struct told_price {
    uint64_t offer_id;
    int64_t usd_micros_per_hour; /* of a whole node, now */
};

/* Fixed size, no pointers: journaled, replayed, fuzzed and compared as bytes. */
struct pool_event {
    uint64_t seq;
    int64_t now_us;
    uint32_t kind;    /* enum pool_event_kind */
    uint32_t version; /* POOL_CORE_VERSION that may replay this record */
    union {
        struct {
            uint64_t capability_mask; /* bit = index in the daemon's capability table */
            uint32_t model, ncu_milli, vram_mib;
            uint32_t mig_slices; /* of memory, when partitioned (mig.h): 8, 4; 0 = it cannot be */
        } model_defined;
        struct {
            uint64_t capability_mask, hardware_mask; /* hardware: bit = model */
            uint32_t pool, vram_min_mib;
            uint32_t price_threshold_ppm; /* spot above this share of on-demand is drained; 0 =
                                             1000000 */
            uint32_t reserved;
        } pool_defined;
        struct {
            uint64_t offer_id;
            int64_t usd_micros_per_hour;           /* of a whole node, now */
            int64_t on_demand_usd_micros_per_hour; /* the same node on demand: what the threshold
                                                      refers to */
            uint32_t provider, region, zone, model;
            uint32_t capacity; /* enum capacity_kind */
            uint32_t device_count;
            uint32_t stock_count; /* how many more nodes could be had now, besides those held */
            uint32_t hazard_ppm;  /* expected losses per million node-hours */
            uint32_t host_cpu_milli, host_memory_mib; /* of a node; 0 = not known: no limit */
            uint32_t rack;      /* all of its nodes stand there, in the zone; 0 = not known */
            uint32_t billing_s; /* it bills so many seconds whole, begun ones too; 0 = one */
        } offer_changed;
        struct {
            uint64_t job_id, spec_hash, capability_mask;
            uint64_t pool_mask; /* pools it may use; 0 = any device with the capabilities */
            int64_t budget_usd_micros_per_hour; /* 0 = none */
            int64_t budget_usd_micros;          /* in all; 0 = none */
            uint32_t vram_min_mib, devices_min, devices_max;
            uint32_t tenant, project, team, experiment;
            uint32_t price_threshold_ppm; /* 0 = the pool's */
            uint32_t region;              /* 0 = any one region; else this one */
            uint8_t job_class, kind, capacity_mask /* bit = capacity_kind; 0 = any */, reserved;
            uint64_t terms_id; /* of terms defined just before; 0 = none */
            uint32_t user, reserved_word;
        } job_submitted;
        struct {
            uint64_t job_id;
        } job_cancelled;
        struct {
            uint64_t node_key;
            int64_t notice_us;   /* when the provider will take it; 0 = no notice */
            int64_t up_since_us; /* billing began; 0 = not known */
            int64_t
                billed_usd_micros;  /* the provider's meter for this node so far; -1 = not known */
            uint32_t phase, reason; /* enum node_phase, enum node_reason */
        } node_observed;
        struct {
            uint64_t node_key;
            uint32_t phase, device_count, model; /* what the agent found on the machine */
            uint32_t rack;                       /* where it says it stands; 0 = not known */
            struct device_groups groups;
        } agent_reported;
        struct {
            uint64_t node_key, job_id, worker_id, step;
            uint32_t phase; /* enum worker_phase */
            int32_t exit_code;
        } worker_reported;
        struct {
            uint64_t job_id, step;
        } ckpt_durable;
        struct {
            uint64_t node_key;
        } node_drain_asked;
        struct {
            uint64_t job_id, node_key, worker_id, step; /* the culprit; 0 = none (STALL_OVER) */
            uint64_t peer_id; /* STALL_LINK, SLOW_LINK: the worker at the other end */
            int64_t lasted_us;
            uint32_t kind, slow_ppm; /* enum stall_kind; SLOW_*: of what it usually takes */
        } worker_stalled;
        struct {
            uint64_t terms_id; /* from the content, so equal terms have one id; 0 means none */
            struct job_terms terms;
        } terms_defined;
        struct {
            uint32_t
                names[ACCOUNT_LEVELS]; /* 0 = this level is left out; all 0: the whole pool, and
                                               what was defined before is forgotten */
            /* By kind of devices (quota.h), in milli-NCU; -1: no quota, borrows and lends all. */
            int64_t quota_milli[QUOTA_KINDS], borrow_milli[QUOTA_KINDS], lend_milli[QUOTA_KINDS];
            int64_t usd_micros_max[QUOTA_PERIODS]; /* of a day, of a month, UTC; 0 = none */
            int64_t usd_micros_per_hour_max;       /* limits: 0 = none */
            uint32_t weight_milli;                 /* of its share; 0 = 1000 */
            uint32_t jobs_max, workers_max;        /* alive at once */
            uint32_t submissions_per_minute_max;
        } account_defined;
        struct {
            uint32_t model, kind;  /* kind < QUOTA_KINDS */
            uint32_t weight_milli; /* its NCU count this many thousandths */
            uint32_t reserved;
        } quota_model_defined;
        struct {
            uint32_t job_class;
            uint32_t reserved_ppm,
                burst_ppm;             /* of the NCU of its pools; the rest it must wait for */
            uint32_t may_preempt_mask; /* bit = job_class; only classes below it count */
            uint32_t preemptible;      /* 1: its jobs may be preempted */
            uint32_t queues; /* 0: it starts in the round of its submission or is refused */
        } class_defined;
        struct {
            uint32_t count; /* 1 to PRICED_MAX; an offer that was never told is passed over */
            uint32_t more;  /* 1: another of these follows at once, nothing is planned before */
            struct told_price prices[PRICED_MAX];
        } offers_priced;
        struct {
            uint64_t work_id, rate_micro; /* per device; any unit, one for all models of a source */
            uint32_t model, source;       /* enum rate_source */
        } rate_told;
        struct {
            int64_t round_us;   /* running jobs are matched anew at most so often; 0 = never */
            int64_t restart_us; /* what it costs a running job to be moved */
        } matching_defined;
        struct {
            uint32_t scope, index;          /* enum gate_scope; class or pool */
            uint32_t names[ACCOUNT_LEVELS]; /* of an account; all 0 = the whole pool */
            int64_t usd_micros_per_hour_max, usd_micros_per_job_max, usd_micros_per_month_max;
            uint32_t refuses, reserved; /* 1: what it keeps from starting is refused */
        } gate_defined;
        struct {
            uint32_t scope, index; /* enum buying_scope; class or pool */
            uint32_t policy;       /* enum buying_policy */
            /* Of a class: spot above this share of on-demand is drained; 0 = as its pools say. */
            uint32_t price_threshold_ppm;
            int64_t device_usd_micros_max; /* dearer is not bought, per device-hour; 0 = no limit */
            int64_t bid_usd_micros;        /* the most offered for spot, per device-hour; 0 = any */
        } buying_defined;
        struct {
            uint32_t count,
                state; /* enum ranking_state; but for RANKING_OWN, all earlier ranks go */
            struct told_rank ranks[RANKED_MAX];
        } offers_ranked;
        struct {
            uint32_t from, count; /* region; 1 to LINKS_TOLD_MAX */
            struct told_link links[LINKS_TOLD_MAX];
        } links_told;
        uint8_t bytes[POOL_EVENT_BYTES - 24];
    } u;
};
static_assert(sizeof(struct pool_event) == POOL_EVENT_BYTES,
              "journal record size is a file format");

#endif
