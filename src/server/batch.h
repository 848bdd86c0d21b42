/* What one commit of the journal holds: events, and every row that must be durable with them.
 *
 * Role       The loop fills one batch while the one before it is being committed by another
 *            thread; so all requests that arrive during a commit share the next one (group commit).
 * Order      Within a batch the order of filling is kept. Events get seq and time when the batch is
 *            sealed, see pump.h.
 * Ownership  The batch owns all text in its rows (mem_alloc); batch_clear() frees it.
 * Outputs    Decisions and entries are what pool_step() said about *earlier* batches. They survive
 *            a failed commit (batch_keep_outputs), because the core says them once.
 */
#ifndef SHOAL_SERVER_BATCH_H
#define SHOAL_SERVER_BATCH_H

#include "core/event.h"
#include "core/output.h"
#include "server/array.h"

struct batch_name {
    uint32_t kind, id;
    const char *name; /* borrowed from the table of names, which never frees one */
};

struct batch_spec {
    uint64_t hash;
    char *text;
};

struct batch_job {
    uint64_t job_id, spec_hash;
    char *name, *secret, *idempotency_key; /* key: NULL = none */
};

struct batch_decision {
    struct pool_decision decision;
    int64_t t_us;
};

struct batch_progress {
    uint64_t job_id, step, generation, attempt, redone_slots;
    int64_t t_us;
    double loss;
    const char *not_finite; /* "applied", "skipped", NULL; a literal */
    char *workers;          /* JSON: [{"worker","node","model","slots"}] */
};

struct batch_log {
    uint64_t job_id, worker_id, node_key;
    uint64_t boot, number; /* of the agent's run, and of the line within it: stored once */
    int64_t t_us;
    uint32_t is_error, reserved; /* is_error: written to standard error */
    char *line;
};

struct batch_bill {
    uint64_t node_key;
    int64_t usd_micros;
};

/* Told when the batch is durable and stepped (error NULL), or was given up (a sentence). */
typedef void batch_done_fn(void *arg, const char *error);

struct batch_waiter {
    batch_done_fn *done;
    void *arg;
};

struct batch {
    struct array events;    /* struct pool_event */
    struct array names;     /* struct batch_name */
    struct array specs;     /* struct batch_spec */
    struct array jobs;      /* struct batch_job */
    struct array decisions; /* struct batch_decision */
    struct array entries;   /* struct ledger_entry */
    struct array progress;  /* struct batch_progress */
    struct array logs;      /* struct batch_log */
    struct array bills;     /* struct batch_bill */
    struct array waiters;   /* struct batch_waiter */
    uint64_t snapshot_seq;  /* 0: no snapshot in this batch */
    uint8_t *snapshot;
    size_t snapshot_bytes;
};

void batch_init(struct batch *b);
void batch_clear(struct batch *b); /* empty again; the lists keep their memory */
void batch_free(struct batch *b);
bool batch_is_empty(const struct batch *b);

/* Moves decisions and entries of a failed batch in front of those of `next`. False: out of memory,
 * nothing moved. */
bool batch_keep_outputs(struct batch *failed, struct batch *next);

#endif
