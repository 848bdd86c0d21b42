/* What the core's tests share: a pool in a block of memory, events with one call each, and a look
 * at what came out. Tests only; linked into no program. */
#ifndef SHOAL_CORE_TESTING_H
#define SHOAL_CORE_TESTING_H

#include "core/marks.h"
#include "core/pool.h"
#include "core/view.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first. */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US         INT64_C(1000000)
#define USD               INT64_C(1000000) /* micro-dollars */
#define TEST_NEVER_BILLED INT64_C(-1)

struct bench { /* one pool on a workbench */
    pool *p;
    void *memory;
    struct pool_output out;
    struct pool_config config;
    uint64_t seq;
    int64_t now_us;
    int64_t entered_usd_micros[5];                         /* sums of entries by kind */
    uint32_t said[DECISION_KIND_END][DECISION_REASON_END]; /* decisions so far */
    uint32_t asked[POOL_COMMAND_KIND_END];                 /* commands so far, by kind */
    struct device_groups groups;                           /* what every agent finds */
};

void bench_open(struct bench *b, const struct pool_limits *limits);
void bench_close(struct bench *b);
/* bench_open() lets P0 queue like the others, so that stories that are not about classes may use any;
 * this gives it back what it is by default. */
void bench_strict_classes(struct bench *b);
void bench_class(struct bench *b, uint32_t job_class, uint32_t reserved_ppm, uint32_t burst_ppm,
                 uint32_t may_preempt_mask, bool preemptible, bool queues);
/* Stamps seq, version and now, checks the event, steps, checks every invariant, sums the entries.
 */
void bench_step(struct bench *b, struct pool_event event);
void bench_tick(struct bench *b); /* goes on with carried-over work */
void bench_advance(struct bench *b,
                   int64_t duration_us); /* wakes up whenever the pool asks for it */

void bench_model(struct bench *b, uint32_t model, uint32_t ncu_milli, uint32_t vram_gib,
                 uint64_t capability_mask);
struct test_offer {
    uint64_t id;
    uint32_t region, model, capacity, devices, stock;
    int64_t price, on_demand;
    uint32_t zone, rack; /* zone 0: region * 10 */
    uint32_t billing_s;
};
void bench_offer(struct bench *b, struct test_offer offer);
struct test_job {
    uint64_t id;
    uint32_t min, max, job_class, kind, capacity_mask, threshold_ppm, vram_gib, region;
    uint64_t capability_mask, pool_mask;
    int64_t budget_per_hour, budget;
    uint64_t terms_id; /* bench_terms() first */
};
void bench_terms(struct bench *b, uint64_t terms_id, struct job_terms terms);
void bench_submit(struct bench *b, struct test_job job);
void bench_node(struct bench *b, uint64_t node_key, uint32_t phase);
void bench_node_full(struct bench *b, uint64_t node_key, uint32_t phase, uint32_t reason,
                     int64_t notice_us, int64_t billed_usd_micros);
void bench_agent(struct bench *b, uint64_t node_key);
void bench_worker(struct bench *b, uint64_t node_key, uint64_t job_id, uint64_t worker_id,
                  uint32_t phase, uint64_t step);
void bench_cancel(struct bench *b, uint64_t job_id);

/* Every node that is ordered or boots comes up and its agent joins, in slot order. */
void bench_raise(struct bench *b);
/* All agents report at once, again and again, while time passes. */
void bench_live(struct bench *b, int64_t duration_us);
uint32_t bench_nodes(const struct bench *b, uint32_t state, uint64_t *ret_first_key);
bool bench_lease(const struct bench *b, uint64_t job_id, uint32_t nth, struct lease_view *ret_view);

/* The n-th command of a kind in the last output (0 = first); NULL = not that many. */
const struct pool_command *bench_command(const struct bench *b, uint32_t kind, uint32_t nth);
uint32_t bench_count(const struct bench *b, uint32_t kind);
const struct pool_decision *bench_decision(const struct bench *b, uint32_t kind, uint32_t reason);
uint32_t bench_job_state(const struct bench *b, uint64_t job_id);

#endif
