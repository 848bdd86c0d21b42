#include "server/restore.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/assert.h"
#include <string.h>

enum { OUTPUTS_PER_COMMIT = 10000 };

/* Seconds from 1970 to 2026: incarnations count from there, so that keys stay small. */
#define INCARNATION_EPOCH_SECONDS INT64_C(1767225600)

struct run {
    const struct restore_options *options;
    struct pool_config config; /* the one the journal was written under */
    struct restored result;
    struct batch outputs;
    struct pool_output out;
    uint64_t snapshot_seq;
    struct error error;
    bool failed;
};

/* Two journals that follow each other (the first was lost) should not share an incarnation, and the
 * core takes a smaller one for older. Node keys hold it above bit 40 and travel as JSON numbers,
 * which browsers and jq read exactly up to 2^53: 13 bits, so one for every 4 hours until 2029. */
enum { INCARNATION_SECONDS = 4 * 3600, INCARNATION_END = 1 << 13 };

static uint64_t make_incarnation(void)
{
    int64_t seconds = clock_wall_us() / 1000000 - INCARNATION_EPOCH_SECONDS;
    int64_t incarnation = (seconds < 0 ? 0 : seconds) / INCARNATION_SECONDS + 1;
    return (uint64_t)(incarnation < INCARNATION_END ? incarnation : INCARNATION_END - 1);
}

static bool load_config(struct run *run, struct error *ret_error)
{
    journal *j = run->options->journal;
    if (journal_meta_get(j, "pool_config", &run->config, sizeof run->config)) return true;
    run->config = *run->options->config;
    run->config.incarnation = make_incarnation();
    run->result.is_new = true;
    return journal_meta_put(j, "pool_config", &run->config, sizeof run->config, ret_error);
}

static bool make_pool(const struct pool_config *config, pool **ret_pool, void **ret_memory,
                      struct error *ret_error)
{
    size_t bytes = pool_size(&config->limits);
    void *memory = mem_zalloc(1, bytes);
    if (memory == NULL)
        return error_set(
            ret_error, "out of memory: the limits of shoal.yaml need %zu bytes; lower them", bytes);
    *ret_pool = pool_init(memory, bytes, config);
    *ret_memory = memory;
    return true;
}

static bool take_snapshot(void *arg, uint64_t seq, const uint8_t *bytes, size_t count)
{
    struct run *run = arg;
    if (pool_snapshot_read(run->result.pool, bytes, count) &&
        pool_last_seq(run->result.pool) == seq) {
        run->snapshot_seq = seq;
        return true;
    }
    run->result.snapshots_rejected++;
    /* A failed read may leave anything behind: begin again from an empty pool. */
    run->result.pool = pool_init(run->result.memory, pool_size(&run->config.limits), &run->config);
    return false;
}

static bool flush_outputs(struct run *run)
{
    if (batch_is_empty(&run->outputs)) return true;
    if (!journal_commit(run->options->journal, &run->outputs, &run->error)) return false;
    batch_clear(&run->outputs);
    return true;
}

static bool keep_outputs(struct run *run, int64_t now_us)
{
    struct batch *b = &run->outputs;
    if (!array_reserve(&b->decisions, run->out.decision_count) ||
        !array_reserve(&b->entries, run->out.entry_count))
        return error_set(&run->error, "out of memory while the journal is replayed");
    for (uint32_t i = 0; i < run->out.decision_count; i++) {
        struct batch_decision *row = array_push(&b->decisions);
        *row = (struct batch_decision){.decision = run->out.decisions[i], .t_us = now_us};
    }
    for (uint32_t i = 0; i < run->out.entry_count; i++) {
        struct ledger_entry *row = array_push(&b->entries);
        *row = run->out.entries[i];
    }
    return b->decisions.count + b->entries.count < OUTPUTS_PER_COMMIT || flush_outputs(run);
}

static bool replay_event(void *arg, const struct pool_event *event)
{
    struct run *run = arg;
    const char *trouble = pool_event_check(event);
    if (trouble != NULL)
        run->failed = !error_set(&run->error, "the journal is damaged at event %llu: %s",
                                 (unsigned long long)event->seq, trouble);
    if (run->failed) return false;
    pool_step(run->result.pool, event, &run->out);
    run->result.events_replayed++;
    run->failed = !keep_outputs(run, event->now_us);
    if (!run->failed && run->options->replayed != NULL)
        run->options->replayed(run->options->host, event);
    return !run->failed;
}

static bool replay(struct run *run, struct error *ret_error)
{
    journal *j = run->options->journal;
    if (!journal_read_snapshots(j, take_snapshot, run, ret_error)) return false;
    if (!journal_read_events(j, run->snapshot_seq, replay_event, run, ret_error)) return false;
    if (!run->failed) run->failed = !flush_outputs(run);
    return !run->failed || error_set(ret_error, "%s", run->error.text);
}

static bool same_config(const struct pool_config *a, const struct pool_config *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* built from zero and without padding, see pool.h */
}

static bool move_pool(struct run *run, const struct pool_config *wanted, const uint8_t *snapshot,
                      size_t bytes, struct error *ret_error)
{
    pool *moved = NULL;
    void *memory = NULL;
    if (!make_pool(wanted, &moved, &memory, ret_error)) return false;
    uint64_t seq = pool_last_seq(run->result.pool);
    if (!pool_snapshot_read(moved, snapshot, bytes)) {
        mem_free(memory);
        return error_set(ret_error,
                         "shoal.yaml: the limits no longer hold what the journal has; raise them "
                         "to what they were");
    }
    const struct journal_restart restart = {.seq = seq,
                                            .snapshot = snapshot,
                                            .snapshot_bytes = bytes,
                                            .key = "pool_config",
                                            .value = wanted,
                                            .value_bytes = sizeof *wanted};
    if (!journal_restart_at(run->options->journal, &restart, ret_error)) {
        mem_free(memory);
        return false;
    }
    mem_free(run->result.memory);
    run->result.pool = moved;
    run->result.memory = memory;
    run->result.is_reconfigured = true;
    return true;
}

static bool reconfigure(struct run *run, struct error *ret_error)
{
    struct pool_config wanted = *run->options->config;
    wanted.incarnation = run->config.incarnation;
    if (same_config(&wanted, &run->config)) return true;
    size_t bytes = pool_snapshot_write(run->result.pool, NULL, 0);
    uint8_t *snapshot = mem_alloc(bytes);
    if (snapshot == NULL) return error_set(ret_error, "out of memory for %zu bytes", bytes);
    (void)pool_snapshot_write(run->result.pool, snapshot, bytes); /* measured above */
    bool moved = move_pool(run, &wanted, snapshot, bytes, ret_error);
    mem_free(snapshot);
    return moved;
}

bool restore_pool(const struct restore_options *options, struct restored *ret_restored,
                  struct error *ret_error)
{
    struct run *run = mem_zalloc(1, sizeof *run);
    if (run == NULL) return error_set(ret_error, "out of memory for the server");
    run->options = options;
    batch_init(&run->outputs);
    bool done = load_config(run, ret_error) &&
                make_pool(&run->config, &run->result.pool, &run->result.memory, ret_error) &&
                replay(run, ret_error) && reconfigure(run, ret_error);
    if (done)
        *ret_restored = run->result;
    else
        mem_free(run->result.memory);
    batch_free(&run->outputs);
    mem_free(run);
    return done;
}
