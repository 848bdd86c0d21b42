#include "server/replay.h"
#include "base/mem.h"
#include "server/replay_start.h"
#include <sqlite3.h>
#include <string.h>

enum { SEQ_SHIFT = 16 }; /* ids are seq << 16 | position (core/output.h) */

struct run {
    journal *journal;
    const struct replay_options *options;
    struct replay_result *result;
    struct replay_start start;
    uint64_t recorded_last[2]; /* newest rows: decisions, entries */
    struct sqlite3_stmt *decisions, *entries;
    struct pool_output out;
    struct error error;
    bool failed;
};

/* ---- what was recorded ---- */

static bool prepare(struct run *run, struct error *ret_error)
{
    run->decisions = journal_query(run->journal,
                                   "SELECT id, kind, reason, job, node, offer, a, b, c"
                                   " FROM decisions WHERE id >= ?1 AND id < ?2 ORDER BY id",
                                   ret_error);
    run->entries = journal_query(run->journal,
                                 "SELECT id, node, job, offer, from_us, to_us, usd_micros, kind,"
                                 " tenant, project, team, experiment, device_count"
                                 " FROM entries WHERE id >= ?1 AND id < ?2 ORDER BY id",
                                 ret_error);
    return run->decisions != NULL && run->entries != NULL &&
           replay_number(run->journal, "SELECT coalesce(max(id), 0) FROM decisions",
                         &run->recorded_last[0], ret_error) &&
           replay_number(run->journal, "SELECT coalesce(max(id), 0) FROM entries",
                         &run->recorded_last[1], ret_error);
}

static void bind_seq(struct sqlite3_stmt *s, uint64_t seq)
{
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)(seq << SEQ_SHIFT)); /* positions are right */
    (void)sqlite3_bind_int64(s, 2, (sqlite3_int64)((seq + 1) << SEQ_SHIFT));
}

static uint64_t u64_at(struct sqlite3_stmt *s, int column)
{
    return (uint64_t)sqlite3_column_int64(s, column);
}

static uint32_t u32_at(struct sqlite3_stmt *s, int column)
{
    return (uint32_t)sqlite3_column_int64(s, column);
}

static struct pool_decision decision_at(struct sqlite3_stmt *s)
{
    return (struct pool_decision){.id = u64_at(s, 0),
                                  .kind = u32_at(s, 1),
                                  .reason = u32_at(s, 2),
                                  .job_id = u64_at(s, 3),
                                  .node_key = u64_at(s, 4),
                                  .offer_id = u64_at(s, 5),
                                  .a = sqlite3_column_int64(s, 6),
                                  .b = sqlite3_column_int64(s, 7),
                                  .c = sqlite3_column_int64(s, 8)};
}

static bool same_decision(const struct pool_decision *a, const struct pool_decision *b)
{
    return a->id == b->id && a->kind == b->kind && a->reason == b->reason &&
           a->job_id == b->job_id && a->node_key == b->node_key && a->offer_id == b->offer_id &&
           a->a == b->a && a->b == b->b && a->c == b->c;
}

static bool same_entry(const struct ledger_entry *e, struct sqlite3_stmt *s)
{
    return e->node_key == u64_at(s, 1) && e->job_id == u64_at(s, 2) &&
           e->offer_id == u64_at(s, 3) && e->from_us == sqlite3_column_int64(s, 4) &&
           e->to_us == sqlite3_column_int64(s, 5) && e->usd_micros == sqlite3_column_int64(s, 6) &&
           e->kind == u32_at(s, 7) && e->tenant == u32_at(s, 8) && e->project == u32_at(s, 9) &&
           e->team == u32_at(s, 10) && e->experiment == u32_at(s, 11) &&
           e->device_count == u32_at(s, 12);
}

/* ---- side by side ---- */

static void differ(struct run *run, const struct replay_difference *difference)
{
    struct replay_result *r = run->result;
    (difference->is_entry ? &r->entries : &r->decisions)->differences++;
    if (r->kept < REPLAY_DIFFERENCES_MAX) r->kept_differences[r->kept++] = *difference;
}

/* Said, and no row has this id. */
static void not_recorded(struct run *run, struct replay_difference difference)
{
    struct replay_count *count =
        difference.is_entry ? &run->result->entries : &run->result->decisions;
    difference.fault = REPLAY_NOT_RECORDED;
    if (difference.id > run->recorded_last[difference.is_entry])
        count->unrecorded++;
    else
        differ(run, &difference);
}

static void compare_decisions(struct run *run, uint64_t seq)
{
    struct replay_count *count = &run->result->decisions;
    struct sqlite3_stmt *s = run->decisions;
    uint32_t at = 0;
    bind_seq(s, seq);
    while (journal_row(s)) {
        struct pool_decision recorded = decision_at(s), none = {0};
        for (; at < run->out.decision_count && run->out.decisions[at].id < recorded.id; at++)
            not_recorded(run, (struct replay_difference){.id = run->out.decisions[at].id,
                                                         .said = run->out.decisions[at]});
        bool is_said = at < run->out.decision_count && run->out.decisions[at].id == recorded.id;
        const struct pool_decision *said = is_said ? &run->out.decisions[at++] : &none;
        if (is_said && same_decision(said, &recorded)) {
            count->same++;
            continue;
        }
        differ(run, &(struct replay_difference){.fault = is_said ? REPLAY_OTHER : REPLAY_NOT_SAID,
                                                .id = recorded.id,
                                                .said = *said,
                                                .recorded = recorded});
    }
    for (; at < run->out.decision_count; at++)
        not_recorded(run, (struct replay_difference){.id = run->out.decisions[at].id,
                                                     .said = run->out.decisions[at]});
    count->said += run->out.decision_count;
}

static void compare_entries(struct run *run, uint64_t seq)
{
    struct replay_count *count = &run->result->entries;
    struct sqlite3_stmt *s = run->entries;
    uint32_t at = 0;
    bind_seq(s, seq);
    while (journal_row(s)) {
        uint64_t id = u64_at(s, 0);
        for (; at < run->out.entry_count && run->out.entries[at].id < id; at++)
            not_recorded(
                run, (struct replay_difference){.is_entry = true, .id = run->out.entries[at].id});
        bool is_said = at < run->out.entry_count && run->out.entries[at].id == id;
        if (is_said && same_entry(&run->out.entries[at++], s)) {
            count->same++;
            continue;
        }
        differ(run, &(struct replay_difference){.fault = is_said ? REPLAY_OTHER : REPLAY_NOT_SAID,
                                                .is_entry = true,
                                                .id = id});
    }
    for (; at < run->out.entry_count; at++)
        not_recorded(run,
                     (struct replay_difference){.is_entry = true, .id = run->out.entries[at].id});
    count->said += run->out.entry_count;
}

static bool step(void *arg, const struct pool_event *event)
{
    struct run *run = arg;
    struct replay_result *r = run->result;
    const struct replay_options *o = run->options;
    bool by_time = o->from_us != 0 || o->to_us != 0;
    if ((o->last_seq != 0 && event->seq > o->last_seq) || (by_time && event->now_us > o->to_us))
        return false;
    const char *trouble = pool_event_check(event);
    if (trouble != NULL) {
        run->failed = !error_set(&run->error, "the journal is damaged at event %llu: %s",
                                 (unsigned long long)event->seq, trouble);
        return false;
    }
    pool_step(run->start.pool, event, &run->out);
    if (event->seq < o->first_seq || (by_time && event->now_us < o->from_us)) return true;
    if (r->last_seq == 0) {
        r->first_seq = event->seq;
        r->from_us = event->now_us;
    }
    r->last_seq = event->seq;
    r->to_us = event->now_us;
    for (uint32_t i = 0; i < run->out.entry_count; i++)
        r->usd_micros += run->out.entries[i].usd_micros;
    compare_decisions(run, event->seq);
    compare_entries(run, event->seq);
    return true;
}

bool replay_journal(journal *j, const struct replay_options *options,
                    struct replay_result *ret_result, struct error *ret_error)
{
    struct run *run = mem_zalloc(1, sizeof *run);
    if (run == NULL) return error_set(ret_error, "out of memory for the replay");
    *ret_result = (struct replay_result){0};
    run->journal = j;
    run->options = options;
    run->result = ret_result;
    bool done = replay_start(j, options->last_seq, &run->start, ret_error) &&
                prepare(run, ret_error) &&
                journal_read_events(j, run->start.snapshot_seq, step, run, ret_error);
    if (done && run->failed) done = error_set(ret_error, "%s", run->error.text);
    if (done) ret_result->digest = pool_digest(run->start.pool);
    if (ret_result->last_seq == 0) ret_result->first_seq = run->start.snapshot_seq + 1;
    mem_free(run->start.memory);
    mem_free(run);
    return done;
}
