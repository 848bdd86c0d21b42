/* Swarm, one node, or a fixed cluster: what a job would cost and how long it would take each way.
 *
 * Role       Pure: a job's figures and a market in, options and a verdict out. Reals: nothing here
 *            decides anything by itself.
 * Time       Of a step: its work over the NCU, plus what the exchange of gradients takes beyond the
 *            part that hides behind computing. A swarm adds its orchestration; spot adds what losses
 *            cost: a swarm loses the share of the lost node while its replacement comes up, one node
 *            loses all until it is back, the way from the last checkpoint and the restore.
 * Mix        Of a swarm: the cheapest of the offers of one region for so many NCU (core/ncu_mix.h),
 *            prices weighed with their risk, over a grid of sizes within the job's devices; the size
 *            that is best.
 * Budget     What costs more than the job has, in dollars an hour or in all, is out.
 * Better     What misses the deadline or does not fit is out. Without a deadline, what counts is cost
 *            times time; with one, cost. A swarm has to earn what it brings along: it wins at 0.75
 *            of the other's cost times time or less, with a deadline at 0.9 of its cost.
 */
#ifndef SHOAL_WHATIF_ADVISE_H
#define SHOAL_WHATIF_ADVISE_H

#include "codec/catalog.h"
#include <stdbool.h>
#include <stdint.h>

enum { ADVISE_NAME_BYTES = 64, ADVISE_OFFERS_MAX = 64, ADVISE_LINES_MAX = 16, ADVISE_KNOBS = 7 };

struct advise_offer {
    char zone[ADVISE_NAME_BYTES], region[ADVISE_NAME_BYTES];
    uint32_t model, capacity, devices, stock; /* stock: nodes */
    double usd_per_hour, losses_per_hour;
};

/* All that the answer hangs on; every one has a default and can be given. */
struct advise_job {
    double parameters;      /* of the model; 0: not known, nothing is said about memory or gradients */
    double steps, ncu_s_per_step;
    double deadline_h;      /* 0: none */
    double usd_per_hour_max, usd_max; /* 0: none */
    char region[ADVISE_NAME_BYTES];   /* of all that it uses; "": any one */
    uint32_t devices_min, devices_max;
    uint64_t capability_mask, model_mask; /* models it may use */
    uint32_t vram_min_mib, capacity_mask; /* 0: any */
    double state_bytes_per_parameter, gradient_bytes_per_parameter;
    double overhead;        /* orchestration of a swarm, share of its time */
    double setup_h;         /* of a swarm: finding nodes, scan, profile; paid once */
    double changeover_h;    /* from a loss to its replacement working */
    double checkpoint_h;    /* between checkpoints */
    double network_gbit, nvlink_gbit, storage_gbit, hidden; /* hidden: share of computing behind which
                                                               an exchange can hide */
};

struct advise_market {
    const struct catalog *catalog;
    uint32_t count;
    struct advise_offer offers[ADVISE_OFFERS_MAX];
};

enum advise_kind { ADVISE_SWARM, ADVISE_NODE, ADVISE_CLUSTER, ADVISE_KINDS };

struct advise_option {
    bool is_possible, is_late;
    char why[96]; /* not possible, or late */
    uint32_t line_count, lines[ADVISE_LINES_MAX], nodes[ADVISE_LINES_MAX]; /* offer, how many */
    uint32_t devices;
    double ncu, step_s, exchange_s, hours, usd, usd_per_hour;
    double over; /* not possible for its price: so many times the budget; else 0 */
};

/* One figure of the job that was turned until the verdict changed. */
struct advise_turn {
    const char *what, *unit;
    double value, below, above; /* now; the verdict changes there; 0: not within a factor of 64 */
};

struct advise_answer {
    struct advise_option options[ADVISE_KINDS];
    enum advise_kind verdict; /* ADVISE_KINDS: none is possible */
    struct advise_turn turns[ADVISE_KNOBS];
};

void advise_defaults(struct advise_job *ret_job);
void advise(const struct advise_job *job, const struct advise_market *market,
            struct advise_answer *ret_answer);

#endif
