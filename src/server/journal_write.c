/* A batch of rows and events, in one transaction. */
#include "codec/record.h"
#include "core/assert.h"
#include "server/journal_parts.h"
#include "server/mark.h"

static const char *const insert_sql[INSERT_END] = {
    "INSERT INTO events(seq, bytes) VALUES (?1, ?2)",
    "INSERT OR IGNORE INTO names(kind, id, name) VALUES (?1, ?2, ?3)",
    "INSERT OR IGNORE INTO specs(hash, text) VALUES (?1, ?2)",
    "INSERT INTO jobs(job, name, spec_hash, secret, idempotency_key) VALUES (?1, ?2, ?3, ?4, ?5)",
    "INSERT OR IGNORE INTO decisions(id, t_us, kind, reason, job, node, offer, a, b, c)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    "INSERT OR IGNORE INTO entries(id, node, job, offer, from_us, to_us, usd_micros, kind, tenant,"
    " project, team, experiment, device_count)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    /* The same step again is either sent twice or was redone by a later generation: that one counts
     */
    "INSERT INTO progress(job, step, generation, attempt, t_us, loss, workers, redone_slots,"
    " not_finite)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT(job, step) DO UPDATE SET"
    " generation = excluded.generation, attempt = excluded.attempt, t_us = excluded.t_us,"
    " loss = excluded.loss, workers = excluded.workers, redone_slots = excluded.redone_slots,"
    " not_finite = excluded.not_finite"
    " WHERE excluded.generation > generation"
    " OR (excluded.generation = generation AND excluded.attempt > attempt)",
    "INSERT OR IGNORE INTO logs(job, worker, node, boot, number, t_us, is_error, line)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    "INSERT INTO bills(node, usd_micros) VALUES (?1, ?2) ON CONFLICT(node) DO UPDATE SET"
    " usd_micros = max(usd_micros, excluded.usd_micros)",
    "INSERT INTO snapshots(seq, bytes) VALUES (?1, ?2)",
};

const char *journal_insert_sql(enum insert insert)
{
    return insert_sql[insert];
}

static bool write_events(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_EVENT];
    for (uint32_t i = 0; i < b->events.count; i++) {
        const struct pool_event *event = array_at(&b->events, i);
        ASSERT(event->seq > 0);
        uint8_t record[RECORD_BYTES];
        record_encode(event, record);
        bind_u64(s, 1, event->seq);
        bind_blob(s, 2, record, sizeof record);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_names(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_NAME];
    for (uint32_t i = 0; i < b->names.count; i++) {
        const struct batch_name *name = array_at(&b->names, i);
        bind_u64(s, 1, name->kind);
        bind_u64(s, 2, name->id);
        bind_text(s, 3, name->name);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_specs(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_SPEC];
    for (uint32_t i = 0; i < b->specs.count; i++) {
        const struct batch_spec *spec = array_at(&b->specs, i);
        bind_u64(s, 1, spec->hash);
        bind_text(s, 2, spec->text);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_jobs(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_JOB];
    for (uint32_t i = 0; i < b->jobs.count; i++) {
        const struct batch_job *job = array_at(&b->jobs, i);
        bind_u64(s, 1, job->job_id);
        bind_text(s, 2, job->name);
        bind_u64(s, 3, job->spec_hash);
        bind_text(s, 4, job->secret);
        bind_text(s, 5, job->idempotency_key);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_decisions(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_DECISION];
    for (uint32_t i = 0; i < b->decisions.count; i++) {
        const struct batch_decision *row = array_at(&b->decisions, i);
        const struct pool_decision *d = &row->decision;
        bind_u64(s, 1, d->id);
        bind_i64(s, 2, row->t_us);
        bind_u64(s, 3, d->kind);
        bind_u64(s, 4, d->reason);
        bind_u64(s, 5, d->job_id);
        bind_u64(s, 6, d->node_key);
        bind_u64(s, 7, d->offer_id);
        bind_i64(s, 8, d->a);
        bind_i64(s, 9, d->b);
        bind_i64(s, 10, d->c);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_entries(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_ENTRY];
    for (uint32_t i = 0; i < b->entries.count; i++) {
        const struct ledger_entry *entry = array_at(&b->entries, i);
        bind_u64(s, 1, entry->id);
        bind_u64(s, 2, entry->node_key);
        bind_u64(s, 3, entry->job_id);
        bind_u64(s, 4, entry->offer_id);
        bind_i64(s, 5, entry->from_us);
        bind_i64(s, 6, entry->to_us);
        bind_i64(s, 7, entry->usd_micros);
        bind_u64(s, 8, entry->kind);
        bind_u64(s, 9, entry->tenant);
        bind_u64(s, 10, entry->project);
        bind_u64(s, 11, entry->team);
        bind_u64(s, 12, entry->experiment);
        bind_u64(s, 13, entry->device_count);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_progress(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_PROGRESS];
    for (uint32_t i = 0; i < b->progress.count; i++) {
        const struct batch_progress *row = array_at(&b->progress, i);
        bind_u64(s, 1, row->job_id);
        bind_u64(s, 2, row->step);
        bind_u64(s, 3, row->generation);
        bind_u64(s, 4, row->attempt);
        bind_i64(s, 5, row->t_us);
        (void)sqlite3_bind_double(s, 6, row->loss); /* fails only for a bad position */
        bind_text(s, 7, row->workers);
        bind_u64(s, 8, row->redone_slots);
        bind_text(s, 9, row->not_finite);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_logs(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_LOG];
    for (uint32_t i = 0; i < b->logs.count; i++) {
        const struct batch_log *row = array_at(&b->logs, i);
        bind_u64(s, 1, row->job_id);
        bind_u64(s, 2, row->worker_id);
        bind_u64(s, 3, row->node_key);
        bind_u64(s, 4, row->boot);
        bind_u64(s, 5, row->number);
        bind_i64(s, 6, row->t_us);
        bind_u64(s, 7, row->is_error);
        bind_text(s, 8, row->line);
        if (!run_statement(s)) return false;
    }
    return true;
}

static bool write_bills(journal *j, const struct batch *b)
{
    sqlite3_stmt *s = j->inserts[INSERT_BILL];
    for (uint32_t i = 0; i < b->bills.count; i++) {
        const struct batch_bill *bill = array_at(&b->bills, i);
        bind_u64(s, 1, bill->node_key);
        bind_i64(s, 2, bill->usd_micros);
        if (!run_statement(s)) return false;
    }
    return true;
}

bool journal_write_snapshot(journal *j, uint64_t seq, const uint8_t *bytes, size_t count)
{
    sqlite3_stmt *s = j->inserts[INSERT_SNAPSHOT];
    bind_u64(s, 1, seq);
    bind_blob(s, 2, bytes, count);
    if (!run_statement(s)) return false;
    bind_i64(j->trim_snapshots, 1, JOURNAL_SNAPSHOTS_KEPT);
    bind_i64(j->trim_events, 1, JOURNAL_SNAPSHOTS_KEPT);
    return run_statement(j->trim_snapshots) && run_statement(j->trim_events);
}

static bool write_rows(journal *j, const struct batch *b)
{
    return write_names(j, b) && write_specs(j, b) && write_jobs(j, b) && write_events(j, b) &&
           write_decisions(j, b) && write_entries(j, b) && write_progress(j, b) &&
           write_logs(j, b) && write_bills(j, b) &&
           (b->snapshot_seq == 0 ||
            journal_write_snapshot(j, b->snapshot_seq, b->snapshot, b->snapshot_bytes));
}

/* The sentence first: ROLLBACK would replace what SQLite says about the failure. */
bool journal_give_up(journal *j, struct error *ret_error)
{
    j->is_full = sqlite3_errcode(j->writer) == SQLITE_FULL;
    (void)error_set(ret_error,
                    j->is_full ? "the journal cannot grow: %s; free space and try again"
                               : "the journal cannot be written: %s; try again",
                    sqlite3_errmsg(j->writer));
    if (!sqlite3_get_autocommit(j->writer)) (void)run_statement(j->rollback); /* else: ended */
    return false;
}

bool journal_commit(journal *j, const struct batch *b, struct error *ret_error)
{
    if (!run_statement(j->begin)) return journal_give_up(j, ret_error);
    if (!write_rows(j, b) || !run_statement(j->commit)) return journal_give_up(j, ret_error);
    j->is_full = false;
    const struct pool_event *last =
        b->events.count == 0 ? NULL : array_at(&b->events, b->events.count - 1);
    if (last != NULL) mark_write(j->mark_fd, last->seq);
    return true;
}
