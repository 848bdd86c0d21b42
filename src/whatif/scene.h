/* What a scenario file says: models, offers, jobs, network, cases to compare. docs/simulator.md is
 * the manual of its keys.
 *
 * Role       scene_read() turns YAML and the CSV files it names into plain numbers; everything random
 *            is drawn later, per seed, by the world (world.h). Read-only after that, so that many
 *            threads may run worlds of one scene.
 * Lines      Every number that was read is kept as a line with its path ("offers.aws-h100.life"), so
 *            that `--set PATH=VALUE` can change it and `--sensitivity` can vary each in turn.
 * Units      _us microseconds, _usd_micros micro-dollars an hour of a whole node, _milli, _ppm; work
 *            in milli-NCU-hours (an NCU is one A100-40GB).
 * Limits     SCENE_*_MAX; larger files are refused with a sentence.
 * Ownership  scene_close() gives all back. struct scene is large: allocate it (scene_new()).
 */
#ifndef SHOAL_WHATIF_SCENE_H
#define SHOAL_WHATIF_SCENE_H

#include "base/error.h"
#include "codec/catalog.h"
#include "codec/config.h"
#include "core/pool.h"
#include "whatif/series.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    SCENE_NAME_BYTES = 48,
    SCENE_PATH_BYTES = 160,
    SCENE_PLACES_MAX = 200, /* regions, zones, providers: each */
    SCENE_OFFERS_MAX = 512,
    SCENE_JOBS_MAX = 256, /* entries; each may stand for many jobs */
    SCENE_GROUPS_MAX = 16,
    SCENE_CASES_MAX = 16,
    SCENE_LINES_MAX = 2048,
    SCENE_CLAIMS_MAX = 32,
    SCENE_JOBS_COUNT_MAX = 200000, /* jobs in all */
    SCENE_NODES_MAX = 50000,
    SCENE_DEVICES_MAX = 200000,
    SCENE_TOLD_MAX = 32,
    SCENE_TOLD_BYTES = 512,
};

struct scene_names {
    uint32_t count;
    char names[SCENE_PLACES_MAX][SCENE_NAME_BYTES];
};

/* A price that walks: every `every_us` a step of at most `step_ppm`, and a share of the way back to the
 * mean; now and then it jumps to or above the on-demand price. */
struct scene_price {
    int64_t usd_micros, every_us, step_ppm, return_ppm;
    int64_t spike_mean_us, spike_us, spike_ppm; /* spike_ppm: of the on-demand price */
    struct series series;                       /* count 0: the walk */
};

struct scene_offer {
    char name[SCENE_NAME_BYTES];
    uint32_t provider, region, zone, model, capacity, device_count, stock;
    int64_t on_demand_usd_micros;
    struct scene_price price;
    int64_t up_mean_us, down_mean_us; /* of the zone as a whole; 0: always up */
    struct series up;                 /* nodes that can be had over time; count 0: as above */
    int64_t bid_ppm; /* nodes are lost at this share of on-demand; 0: never for that */
    int64_t life_us; /* mean of one node, 0: for ever; notice, boot */
    int64_t notice_us, boot_min_us, boot_max_us;
    int64_t from_us, until_us; /* sold only then; until 0: for ever */
    bool paid_always;          /* reserved and owned: paid whether used or not */
};

enum scene_split {
    SPLIT_BY_SPEED, /* each device gets work in proportion to its speed */
    SPLIT_EVEN      /* the same share for each: the slowest sets the pace */
};

/* Jobs of one kind. */
struct scene_job {
    char name[SCENE_NAME_BYTES];
    uint32_t group, job_class, kind, devices_min, devices_max, gang;
    uint64_t model_mask;                   /* 0: any */
    uint32_t capacity_mask, region, after; /* after: entry + 1 whose job of the same number ended */
    int64_t work_milli_h;                  /* milli-NCU-hours; of a trace: from its rows */
    int64_t spread_ppm;                    /* sigma of a log-normal around it; 0: all the same */
    uint32_t speed_milli[CATALOG_MODELS_MAX]; /* 0: its NCU */
    uint32_t split;
    int64_t jitter_ppm;  /* standard deviation of what a step takes one device, as a share */
    bool ignores_notice; /* it does not save when it is told to leave */
    bool restarts;
    int64_t step_ncu_us;                  /* one step on one NCU */
    uint32_t exchanges;                   /* of a step, not hidden behind computing */
    int64_t orchestration_us;             /* of a step */
    int64_t restart_us, join_us, loss_us; /* a start of the whole; one more worker; one less */
    int64_t checkpoint_every_us, checkpoint_us;
    int64_t deadline_us; /* from submission; 0: none */
    int64_t budget_usd_micros;
    /* Arrivals: `count` jobs, the first at `at_us`, then one every `every_us`, exactly or in the mean;
     * or the rows of a trace. */
    int64_t at_us, every_us;
    bool random_gaps;
    uint32_t count, at_once; /* at_once: so many at each time */
    struct arrivals arrivals;
};

struct scene_net {
    int64_t exchange_us, jitter_ppm; /* of one exchange; standard deviation of it as a share */
};

enum scene_policy {
    POLICY_SHOAL,     /* the pool as it is */
    POLICY_ON_DEMAND, /* the pool without spot */
    POLICY_ONE_ZONE,  /* spot of one zone, gangs of fixed size, restart on loss */
    POLICY_FAILOVER, /* gangs of one model in one zone; on a loss all is let go and begun elsewhere */
    POLICY_USUAL,    /* those above are compared where nothing is said */
    POLICY_LEARNED = POLICY_USUAL, /* the pool, its offers ranked by a network (ranker.h), */
    POLICY_FORESIGHT,              /* or by one who knows the future */
    POLICY_COUNT
};

struct scene_case {
    char name[SCENE_NAME_BYTES];
    uint32_t policy;
    struct pool_event buying; /* BUYING_DEFINED of every class; 0: as of the scene */
    uint64_t offer_bits[(SCENE_OFFERS_MAX + 63) / 64], job_bits[(SCENE_JOBS_MAX + 63) / 64];
    bool no_affinity;           /* the pool takes all regions for one; the network does not */
    uint32_t zone;              /* POLICY_ONE_ZONE: which; 0: the cheapest at the start */
    bool built_in;              /* not in the file: a policy over everything */
    const struct rank_net *net; /* POLICY_LEARNED: whose ranking; NULL: none, as built in */
};

enum scene_line_kind { LINE_INTEGER = 1, LINE_MICROS, LINE_DURATION };

struct scene_line {
    char path[SCENE_PATH_BYTES];
    uint32_t kind, line; /* line of the file; 0: an override of a key that is not there */
    int64_t value, min, max;
};

/* "`metric` of case `a`, over that of case `b` if there is one, is at least or at most a bound." */
struct scene_claim {
    char text[SCENE_NAME_BYTES];
    char metric[SCENE_NAME_BYTES];
    uint32_t group, a, b;              /* group: + 1, 0: all; b: SCENE_CASES_MAX: none */
    int64_t at_least_ppm, at_most_ppm; /* INT64_MIN: none */
};

struct scene_set { /* --set PATH=VALUE */
    const char *path, *value;
};

struct scene {
    char name[SCENE_NAME_BYTES];
    struct catalog catalog;
    struct scene_names providers, regions, zones; /* index 0 is "" */
    char groups[SCENE_GROUPS_MAX][SCENE_NAME_BYTES];
    uint32_t offer_count, job_count, group_count, case_count, line_count, claim_count;
    struct scene_offer offers[SCENE_OFFERS_MAX];
    struct scene_job jobs[SCENE_JOBS_MAX];
    struct scene_case cases[SCENE_CASES_MAX];
    struct scene_line lines[SCENE_LINES_MAX];
    struct scene_claim claims[SCENE_CLAIMS_MAX];
    uint32_t told_count; /* of each list of jobs or nodes: how many rows, and what was left out */
    char told[SCENE_TOLD_MAX][SCENE_TOLD_BYTES];
    struct scene_net near, far; /* within a region, between regions */
    int64_t horizon_us;
    int64_t straggler_mean_us, straggler_us,
        straggler_ppm; /* of a device: how often, how long, speed */
    int64_t worker_start_us, handover_us;
    int64_t threshold_ppm; /* spot above this share of on-demand is left */
    int64_t idle_release_us, drain_us, rematch_us, boot_timeout_us;
    struct pool_event buying; /* as of a case */
    uint32_t stop_group;    /* + 1: the world ends with its last job; 0: with the last of all */
    int64_t trace_shift_us; /* seed n sees the traces from (n - 1) times this on */
    uint32_t first_seed, last_seed;
};

struct scene *scene_new(void); /* NULL: no memory */
/* `folder`: where relative paths of CSV files begin; $NAME/ at the beginning of one is a variable. */
bool scene_read(struct scene *scene, const char *file, const char *folder, const char *text,
                size_t bytes, const struct scene_set *sets, uint32_t set_count,
                struct error *ret_error) WARN_UNUSED;
void scene_close(struct scene *scene);

bool scene_case_has_offer(const struct scene_case *c, uint32_t offer);
bool scene_case_has_job(const struct scene_case *c, uint32_t job);
/* Fills a case that is not in the file: a policy, or a way to buy for jobs with a deadline. False: there
 * is none of that name. */
bool scene_case_of_policy(const struct scene *scene, const char *policy,
                          struct scene_case *ret_case);
/* The n-th that is compared when nothing is asked for; those that buy otherwise only where a job has a
 * deadline. NULL: no more. */
const char *scene_policy_at(const struct scene *scene, uint32_t index);
uint32_t scene_speed_milli(const struct scene *scene, const struct scene_job *job, uint32_t model);
extern const char *const scene_policy_names[POLICY_COUNT];

#endif
