/* The heart of the daemon: inputs -> one commit -> pool_step() -> outputs.
 *
 * Role       One pass: everything pushed since the last pass gets seq and one now_us, is committed
 *            to the journal by one transaction on another thread, then stepped here on the loop,
 *            then the host sees what each step said. While a commit runs, the next batch fills.
 * Promise    Nobody is answered and no command runs before the events behind it are on disk.
 * Time       now_us is wall-clock at the start and goes on with the monotonic clock, so neither a
 *            jump of the wall clock nor a restart ever takes it back.
 * Failure    A commit that fails drops its events and rows as a whole and tells every waiter why.
 *            What the core has said stays for the next commit. Levels come again by themselves.
 * Threads    All calls from the loop's thread.
 */
#ifndef SHOAL_SERVER_PUMP_H
#define SHOAL_SERVER_PUMP_H

#include "core/pool.h"
#include "server/journal.h"
#include "server/names.h"
#include <uv.h>

enum {
    PUMP_SNAPSHOT_EVENTS = 20000, /* replay of as many takes well below a second */
    PUMP_BATCH_BUCKETS = 8,       /* 1, 2, 4 ... events a commit; the last is "more" */
};
#define PUMP_SNAPSHOT_US INT64_C(600000000) /* 10 min: bounds the journal of a quiet pool */
#define PUMP_RETRY_US    INT64_C(1000000)   /* after a failed commit, when nobody waits for one */

typedef struct pump pump;

struct pump_options {
    uv_loop_t *loop;
    journal *journal;
    names *names;
    pool *pool;
    void *host;
    /* After each step; the output is valid for the call. */
    void (*stepped)(void *host, const struct pool_event *event, const struct pool_output *out);
};

struct pump_stats {
    uint64_t commits, commits_failed, events, commit_us_sum;
    uint64_t batch_counts[PUMP_BATCH_BUCKETS];
};

pump *pump_open(const struct pump_options *options, struct error *ret_error) WARN_UNUSED;

int64_t pump_now_us(const pump *p);
uint64_t pump_seq(const pump *p); /* of the last committed event */

/* An event for the next pass; seq, now_us and version are filled in there. NULL, or a sentence why
 * it is refused. */
const char *pump_push(pump *p, const struct pool_event *event);

/* The batch being filled, for rows that must be durable with what is pushed. */
struct batch *pump_batch(pump *p);

/* `done` is called after the batch being filled is durable and stepped, or has failed. false: out
 * of memory or stopping, it will not be called. */
bool pump_wait(pump *p, batch_done_fn *done, void *arg);

bool pump_is_busy(const pump *p);        /* a commit runs; its steps have not been made yet */
const char *pump_trouble(const pump *p); /* why the last commit failed; NULL: it did not */
bool pump_is_full(const pump *p);        /* it failed because the disk is full */
void pump_stats_read(const pump *p, struct pump_stats *ret_stats);

/* Commits what is there, then calls `closed` from the loop and frees p. After
 * this call pump_push() and pump_wait() refuse. */
void pump_close(pump *p, void (*closed)(void *arg), void *arg);

#endif
