#include "server/pump.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/assert.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct pump {
    struct pump_options options;
    struct batch batches[2];
    struct batch *filling, *committing; /* committing: NULL while no commit runs */
    uint64_t seq;                       /* of the last committed event */
    int64_t base_now_us, base_monotonic_us;
    int64_t last_snapshot_us, retry_at_us; /* monotonic */
    uint64_t events_since_snapshot;
    uv_idle_t idle; /* active: there is something to commit, do not wait for more input */
    uv_check_t check;
    uv_timer_t wake;
    uv_work_t work;
    bool committed;
    bool is_closing;
    uint32_t handles_open;
    struct error error; /* of the commit that runs, then of the last one */
    bool is_full;
    struct pump_stats stats;
    int64_t commit_started_us;
    struct pool_output out; /* large: kept here instead of on the stack */
    void (*closed)(void *arg);
    void *closed_arg;
};

int64_t pump_now_us(const pump *p)
{
    return p->base_now_us + (clock_monotonic_us() - p->base_monotonic_us);
}

uint64_t pump_seq(const pump *p)
{
    return p->seq;
}

struct batch *pump_batch(pump *p)
{
    return p->filling;
}

bool pump_is_busy(const pump *p)
{
    return p->committing != NULL;
}

const char *pump_trouble(const pump *p)
{
    return p->error.text[0] == '\0' ? NULL : p->error.text;
}

bool pump_is_full(const pump *p)
{
    return p->is_full;
}

void pump_stats_read(const pump *p, struct pump_stats *ret_stats)
{
    *ret_stats = p->stats;
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* being active is all it does */
}

static void kick(pump *p)
{
    (void)uv_idle_start(&p->idle, on_idle); /* fails only without a callback */
}

const char *pump_push(pump *p, const struct pool_event *event)
{
    struct pool_event copy = *event;
    copy.seq = p->seq + 1; /* any valid ones do for the check; sealing gives the real ones */
    copy.now_us = pump_now_us(p);
    copy.version = POOL_CORE_VERSION;
    const char *trouble = pool_event_check(&copy);
    if (trouble != NULL) return trouble;
    if (p->is_closing) return "the server is stopping; try again";
    struct pool_event *slot = array_push(&p->filling->events);
    if (slot == NULL) return "out of memory; try again";
    *slot = copy;
    kick(p);
    return NULL;
}

bool pump_wait(pump *p, batch_done_fn *done, void *arg)
{
    struct batch_waiter *waiter = p->is_closing ? NULL : array_push(&p->filling->waiters);
    if (waiter == NULL) return false;
    *waiter = (struct batch_waiter){.done = done, .arg = arg};
    kick(p);
    return true;
}

/* Sealing and committing. */

static void seal(pump *p, struct batch *b)
{
    int64_t now_us = pump_now_us(p);
    for (uint32_t i = 0; i < b->events.count; i++) {
        struct pool_event *event = array_at(&b->events, i);
        event->seq = p->seq + 1 + i;
        event->now_us = now_us;
    }
}

static void on_work(uv_work_t *work) /* on another thread: touches journal, batch and result only */
{
    pump *p = work->data;
    p->committed = journal_commit(p->options.journal, p->committing, &p->error);
}

static void step_batch(pump *p, struct batch *b);
static void after_commit(uv_work_t *work, int status);

static void begin_commit(pump *p)
{
    struct batch *b = p->filling;
    if (!names_collect(p->options.names, b)) return; /* out of memory: the next pass tries again */
    seal(p, b);
    p->filling = b == &p->batches[0] ? &p->batches[1] : &p->batches[0];
    p->committing = b;
    p->work.data = p;
    p->error.text[0] = '\0';
    p->commit_started_us = clock_monotonic_us();
    int failed = uv_queue_work(p->options.loop, &p->work, on_work, after_commit);
    ASSERT(failed == 0); /* fails only without a callback */
}

static bool must_begin(const pump *p)
{
    if (p->committing != NULL || batch_is_empty(p->filling)) return false;
    return p->filling->waiters.count > 0 || clock_monotonic_us() >= p->retry_at_us;
}

static void close_handles(pump *p);

static void on_check(uv_check_t *check)
{
    pump *p = check->data;
    if (must_begin(p)) begin_commit(p);
    if (p->committing == NULL && p->is_closing) close_handles(p);
    (void)uv_idle_stop(&p->idle); /* always works */
}

static void on_wake(uv_timer_t *timer)
{
    pump *p = timer->data;
    if (p->is_closing) return;
    struct pool_event tick = {.kind = POOL_EVENT_TICK};
    const char *trouble = pump_push(p, &tick);
    if (trouble != NULL) log_line(LOG_ERROR, "pump", trouble, "event=tick");
}

static void set_wake(pump *p)
{
    int64_t wake_us = pool_next_wake_us(p->options.pool);
    int64_t wait_us = wake_us == INT64_MAX ? INT64_MAX : wake_us - pump_now_us(p);
    int64_t retry_us = p->retry_at_us - clock_monotonic_us();
    if (wake_us != INT64_MAX && wait_us < retry_us) wait_us = retry_us;
    (void)uv_timer_stop(&p->wake); /* always works */
    if (wait_us == INT64_MAX || p->is_closing) return;
    uint64_t wait_ms = wait_us <= 0 ? 0 : (uint64_t)(wait_us + 999) / 1000;
    (void)uv_timer_start(&p->wake, on_wake, wait_ms, 0 /* once */);
}

static void count_commit(pump *p, const struct batch *b)
{
    uint32_t bucket = 0;
    while (bucket < PUMP_BATCH_BUCKETS - 1 && b->events.count > UINT32_C(1) << bucket) bucket++;
    p->stats.batch_counts[bucket]++;
    p->stats.commits++;
    p->stats.events += b->events.count;
    p->stats.commit_us_sum += (uint64_t)(clock_monotonic_us() - p->commit_started_us);
}

static void tell_waiters(struct batch *b, const char *error)
{
    for (uint32_t i = 0; i < b->waiters.count; i++) {
        const struct batch_waiter *waiter = array_at(&b->waiters, i);
        waiter->done(waiter->arg, error);
    }
}

static void take_snapshot(pump *p)
{
    int64_t now_us = clock_monotonic_us();
    bool due = p->events_since_snapshot >= PUMP_SNAPSHOT_EVENTS ||
               (p->events_since_snapshot > 0 && now_us - p->last_snapshot_us >= PUMP_SNAPSHOT_US);
    if (!due || p->filling->snapshot_seq != 0) return;
    size_t bytes = pool_snapshot_write(p->options.pool, NULL, 0);
    uint8_t *snapshot = mem_alloc(bytes);
    if (snapshot == NULL) {
        log_line(LOG_WARN, "pump", "no memory for a snapshot; trying again later", "bytes=%zu",
                 bytes);
        return;
    }
    (void)pool_snapshot_write(p->options.pool, snapshot, bytes); /* measured above */
    p->filling->snapshot = snapshot;
    p->filling->snapshot_bytes = bytes;
    p->filling->snapshot_seq = pool_last_seq(p->options.pool);
    kick(p);
}

static void commit_failed(pump *p, struct batch *b)
{
    p->stats.commits_failed++;
    p->is_full = journal_error_is_full(p->options.journal);
    if (clock_monotonic_us() >= p->retry_at_us) /* at most one line per retry */
        log_line(LOG_ERROR, "pump", p->error.text, "events=%" PRIu32 " retry_us=%" PRId64,
                 b->events.count, PUMP_RETRY_US);
    p->retry_at_us = clock_monotonic_us() + PUMP_RETRY_US;
    if (!batch_keep_outputs(b, p->filling)) {
        log_line(LOG_ERROR, "pump", "out of memory; stopping, a restart replays the journal", "%s",
                 "");
        abort();
    }
    tell_waiters(b, p->error.text);
}

static void commit_succeeded(pump *p, struct batch *b)
{
    p->error.text[0] = '\0';
    p->is_full = false;
    p->retry_at_us = 0;
    names_stored(p->options.names, b);
    count_commit(p, b);
    if (b->snapshot_seq != 0) {
        p->last_snapshot_us = clock_monotonic_us();
        uint64_t left = p->seq - b->snapshot_seq;
        p->events_since_snapshot = left;
    }
    step_batch(p, b);
    tell_waiters(b, NULL);
}

static void after_commit(uv_work_t *work, int status)
{
    pump *p = work->data;
    struct batch *b = p->committing;
    (void)status; /* never cancelled */
    p->committing = NULL;
    if (p->committed)
        commit_succeeded(p, b);
    else
        commit_failed(p, b);
    batch_clear(b);
    if (!p->is_closing) take_snapshot(p);
    set_wake(p);
    kick(p);
}

/* Stepping. */

static void keep_output(pump *p, int64_t now_us)
{
    struct batch *next = p->filling;
    if (!array_reserve(&next->decisions, p->out.decision_count) ||
        !array_reserve(&next->entries, p->out.entry_count)) {
        log_line(LOG_ERROR, "pump", "out of memory; stopping, a restart replays the journal", "%s",
                 "");
        abort();
    }
    for (uint32_t i = 0; i < p->out.decision_count; i++) {
        struct batch_decision *row = array_push(&next->decisions);
        *row = (struct batch_decision){.decision = p->out.decisions[i], .t_us = now_us};
    }
    for (uint32_t i = 0; i < p->out.entry_count; i++) {
        struct ledger_entry *row = array_push(&next->entries);
        *row = p->out.entries[i];
    }
}

static void step_batch(pump *p, struct batch *b)
{
    for (uint32_t i = 0; i < b->events.count; i++) {
        const struct pool_event *event = array_at(&b->events, i);
        ASSERT(event->seq == p->seq + 1);
        pool_step(p->options.pool, event, &p->out);
        p->seq = event->seq;
        p->events_since_snapshot++;
        keep_output(p, event->now_us);
        p->options.stepped(p->options.host, event, &p->out);
    }
}

/* Open and close. */

pump *pump_open(const struct pump_options *options, struct error *ret_error)
{
    pump *p = mem_zalloc(1, sizeof *p);
    if (p == NULL) {
        (void)error_set(ret_error, "out of memory for the server");
        return NULL;
    }
    p->options = *options;
    batch_init(&p->batches[0]);
    batch_init(&p->batches[1]);
    p->filling = &p->batches[0];
    p->seq = pool_last_seq(options->pool);
    p->base_monotonic_us = p->last_snapshot_us = clock_monotonic_us();
    p->base_now_us = clock_wall_us();
    if (p->base_now_us < pool_now_us(options->pool)) p->base_now_us = pool_now_us(options->pool);
    (void)uv_idle_init(options->loop, &p->idle); /* these inits always work */
    (void)uv_check_init(options->loop, &p->check);
    (void)uv_timer_init(options->loop, &p->wake);
    p->idle.data = p->check.data = p->wake.data = p;
    (void)uv_check_start(&p->check, on_check); /* fails only without a callback */
    set_wake(p);
    return p;
}

static void on_handle_closed(uv_handle_t *handle)
{
    pump *p = handle->data;
    if (--p->handles_open > 0) return;
    void (*closed)(void *arg) = p->closed;
    void *arg = p->closed_arg;
    batch_free(&p->batches[0]);
    batch_free(&p->batches[1]);
    mem_free(p);
    closed(arg);
}

static void close_handles(pump *p)
{
    if (p->handles_open > 0) return; /* already on the way */
    p->handles_open = 3;
    uv_close((uv_handle_t *)&p->idle, on_handle_closed);
    uv_close((uv_handle_t *)&p->check, on_handle_closed);
    uv_close((uv_handle_t *)&p->wake, on_handle_closed);
}

/* What is pushed is committed and stepped once more; on_check closes when nothing runs. What that
 * last step says is said again by replay. */
void pump_close(pump *p, void (*closed)(void *arg), void *arg)
{
    p->is_closing = true;
    p->closed = closed;
    p->closed_arg = arg;
    kick(p);
}
