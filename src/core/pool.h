/* The pool: the world as believed, and every decision about it.
 *
 * Role       Pure: no I/O, clock, threads, malloc, floats, globals. Event in, output out, time
 *            inside the event. The daemon, the simulator and replay drive this very same code.
 * Units      _us microseconds, _usd_micros micro-dollars, _milli thousandths, _ppm millionths.
 * Memory     One block from the caller: pool_size(limits) bytes, 16-byte aligned. Nothing to free.
 * Errors     None: pool_step() is total, every event that pool_event_check() accepts is accepted in
 *            any state. A refusal (limit reached, impossible job) is a decision, never a crash.
 * Inside     pool_step = apply(event): beliefs; plan(): moves wanted to a fixed point; act(): a
 *            command for each gap between wanted and believed whose ask-again time has come.
 *            plan_*.c hold one decision each.
 */
#ifndef SHOAL_CORE_POOL_H
#define SHOAL_CORE_POOL_H

#include "core/event.h"
#include "core/output.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct pool pool;

struct pool_limits {
    uint32_t nodes_max, jobs_max, offers_max, models_max; /* models_max <= 64 */
    uint32_t pools_max;                                   /* <= 64 */
    uint32_t leases_max;                                  /* a lease: one job on one node */
    uint32_t terms_max;   /* different terms of live jobs; more are refused */
    uint32_t matched_max; /* jobs matched at once (plan_match.h); 0: rates only order purchases */
};

struct pool_config {
    struct pool_limits limits;
    uint64_t incarnation;    /* high bits of node keys and worker ids: never used again, even after
                                data loss */
    int64_t ask_again_us;    /* ask again when a provider or agent has not answered */
    int64_t agent_lease_us;  /* an agent silent for longer is lost */
    int64_t boot_timeout_us; /* a node not up and joined after this is given up */
    int64_t refused_backoff_us; /* how long an offer that refused is left alone */
    int64_t drain_us; /* what a worker gets to hand over when nobody forces us to be faster */
    int64_t idle_release_us; /* a bought node that nobody uses is let go after this */
    /* A worker that has held its job up for so long, or has been slow, loses its node; 0 = never. */
    int64_t replace_stalled_us, replace_slow_us;
    /* Rounds of failing workers without a step in between before the job fails; all that were running
     * when one failed are of its round. */
    uint32_t worker_failures_max;
    uint32_t reserved;
    int64_t
        entry_us; /* an open ledger interval is closed after this; 0 = a minute (ENTRY_US_MAX) */
};

void pool_config_default(struct pool_config *ret_config);
/* CLASS_DEFINED as it is where nothing else is said (class.h); seq and now_us are left 0. */
void pool_class_default(uint32_t job_class, struct pool_event *ret_event);

size_t pool_size(const struct pool_limits *limits);
pool *pool_init(void *memory, size_t memory_bytes, const struct pool_config *config);

/* The only way state changes. */
void pool_step(pool *p, const struct pool_event *event, struct pool_output *out);

/* NULL if the event is well formed, else a sentence. Shells call it before journaling. */
const char *pool_event_check(const struct pool_event *event);

uint64_t pool_last_seq(const pool *p);
int64_t pool_now_us(const pool *p);
int64_t pool_next_wake_us(const pool *p); /* INT64_MAX: nothing is waiting */
uint64_t pool_digest(const pool *p);      /* field by field, never over padding */
void pool_check(const pool *p);           /* asserts every invariant; O(state) */

/* Little-endian, field by field, checksummed. write returns the bytes needed; it writes only if
 * they fit. */
size_t pool_snapshot_write(const pool *p, uint8_t *buffer, size_t buffer_bytes);
bool pool_snapshot_read(pool *p, const uint8_t *buffer, size_t buffer_bytes);

#endif
