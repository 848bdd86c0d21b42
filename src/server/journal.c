#include "base/io.h"
#include "base/mem.h"
#include "codec/record.h"
#include "core/assert.h"
#include "server/journal_parts.h"
#include "server/mark.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char schema_sql[] =
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS events(seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS snapshots(seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS names(kind INTEGER, id INTEGER, name TEXT NOT NULL,"
    " PRIMARY KEY(kind, id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS specs(hash INTEGER PRIMARY KEY, text TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS jobs(job INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " spec_hash INTEGER NOT NULL, secret TEXT NOT NULL, idempotency_key TEXT UNIQUE);"
    "CREATE TABLE IF NOT EXISTS decisions(id INTEGER PRIMARY KEY, t_us INTEGER, kind INTEGER,"
    " reason INTEGER, job INTEGER, node INTEGER, offer INTEGER, a INTEGER, b INTEGER, c INTEGER);"
    "CREATE INDEX IF NOT EXISTS decisions_of_job ON decisions(job, id) WHERE job != 0;"
    "CREATE TABLE IF NOT EXISTS entries(id INTEGER PRIMARY KEY, node INTEGER, job INTEGER,"
    " offer INTEGER, from_us INTEGER, to_us INTEGER, usd_micros INTEGER, kind INTEGER,"
    " tenant INTEGER, project INTEGER, team INTEGER, experiment INTEGER, device_count INTEGER);"
    "CREATE INDEX IF NOT EXISTS entries_of_node ON entries(node);"
    "CREATE TABLE IF NOT EXISTS progress(job INTEGER, step INTEGER, generation INTEGER,"
    " attempt INTEGER, t_us INTEGER, loss REAL, workers TEXT, redone_slots INTEGER,"
    " not_finite TEXT, PRIMARY KEY(job, step))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS logs(n INTEGER PRIMARY KEY, job INTEGER, worker INTEGER,"
    " node INTEGER, boot INTEGER, number INTEGER, t_us INTEGER, is_error INTEGER, line TEXT,"
    " UNIQUE(node, boot, number));"
    "CREATE INDEX IF NOT EXISTS logs_of_job ON logs(job, n);"
    "CREATE TABLE IF NOT EXISTS bills(node INTEGER PRIMARY KEY, usd_micros INTEGER NOT NULL);";

enum { BUSY_TIMEOUT_MS = 5000 };

static bool fault(sqlite3 *db, struct error *ret_error, const char *what)
{
    return error_set(ret_error, "journal: %s: %s", what, sqlite3_errmsg(db));
}

static bool run_sql(sqlite3 *db, const char *sql, struct error *ret_error)
{
    if (sqlite3_exec(db, sql, NULL /* callback */, NULL, NULL) == SQLITE_OK) return true;
    return fault(db, ret_error, "cannot set up the database");
}

static bool prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct error *ret_error)
{
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) == SQLITE_OK)
        return true;
    return fault(db, ret_error, "cannot prepare a statement");
}

static bool open_connection(const char *path, int access, sqlite3 **ret_db, struct error *ret_error)
{
    int flags = access | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, ret_db, flags, NULL) != SQLITE_OK) {
        (void)error_set(ret_error, "%s: cannot open the journal: %s", path,
                        *ret_db == NULL ? "out of memory" : sqlite3_errmsg(*ret_db));
        return false;
    }
    (void)sqlite3_busy_timeout(*ret_db, BUSY_TIMEOUT_MS); /* cannot fail */
    return true;
}

/* Secrets of jobs are in it: made private before SQLite opens it, and its -wal and -shm follow. */
static bool make_private(const char *path, struct error *ret_error)
{
    int fd = io_open_write(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return error_set(ret_error, "%s: cannot open the journal: %s", path, error_errno(errno));
    (void)close(fd); /* nothing was written */
    return true;
}

static bool check_format(journal *j, struct error *ret_error)
{
    int64_t format = 0;
    if (!journal_meta_get(j, "format", &format, sizeof format)) {
        format = JOURNAL_FORMAT;
        return journal_meta_put(j, "format", &format, sizeof format, ret_error);
    }
    if (format == JOURNAL_FORMAT) return true;
    return error_set(ret_error,
                     "the journal has format %lld, this program writes %d; use the program that "
                     "made it, or another --data folder",
                     (long long)format, JOURNAL_FORMAT);
}

static bool limit_size(sqlite3 *db, int64_t bytes_max, struct error *ret_error)
{
    if (bytes_max == 0) return true;
    char sql[80];
    (void)snprintf(sql, sizeof sql, "PRAGMA max_page_count=%lld", (long long)bytes_max / 4096);
    return run_sql(db, sql, ret_error);
}

static bool prepare_writer(journal *j, struct error *ret_error)
{
    for (int i = 0; i < INSERT_END; i++)
        if (!prepare(j->writer, journal_insert_sql((enum insert)i), &j->inserts[i], ret_error))
            return false;
    return prepare(j->writer, "BEGIN IMMEDIATE", &j->begin, ret_error) &&
           prepare(j->writer, "COMMIT", &j->commit, ret_error) &&
           prepare(j->writer, "ROLLBACK", &j->rollback, ret_error) &&
           prepare(j->writer,
                   "DELETE FROM snapshots WHERE seq NOT IN"
                   " (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?1)",
                   &j->trim_snapshots, ret_error) &&
           prepare(j->writer,
                   "DELETE FROM events WHERE (SELECT count(*) FROM snapshots) >= ?1"
                   " AND seq <= (SELECT min(seq) FROM snapshots)",
                   &j->trim_events, ret_error);
}

static bool check_mark(journal *j, const char *path, struct error *ret_error)
{
    char mark_path[4096];
    uint64_t marked, last = 0;
    sqlite3_stmt *s = journal_query(j,
                                    "SELECT max(coalesce((SELECT max(seq) FROM events), 0),"
                                    " coalesce((SELECT max(seq) FROM snapshots), 0))",
                                    ret_error);
    if (s == NULL) return false;
    while (journal_row(s)) last = (uint64_t)sqlite3_column_int64(s, 0);
    if (snprintf(mark_path, sizeof mark_path, "%s-mark", path) >= (int)sizeof mark_path)
        return error_set(ret_error, "%s: the path is too long", path);
    j->mark_fd = mark_open(mark_path, &marked, ret_error);
    if (j->mark_fd < 0 || marked <= last) return j->mark_fd >= 0;
    return error_set(ret_error,
                     "%s: the journal ends at event %llu, but %llu were acknowledged: it or its "
                     "-wal file was lost or cut; restore them, or remove %s to go on with what is "
                     "left",
                     path, (unsigned long long)last, (unsigned long long)marked, mark_path);
}

journal *journal_open(const struct journal_options *options, struct error *ret_error)
{
    journal *j = mem_zalloc(1, sizeof *j);
    if (j == NULL) {
        (void)error_set(ret_error, "journal: out of memory");
        return NULL;
    }
    j->mark_fd = -1;
    /* page_size only matters for a new file; 4 KiB is what bytes_max is counted in. */
    if (make_private(options->path, ret_error) &&
        open_connection(options->path, SQLITE_OPEN_READWRITE, &j->writer, ret_error) &&
        run_sql(j->writer,
                "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                "PRAGMA temp_store=MEMORY;",
                ret_error) &&
        run_sql(j->writer, schema_sql, ret_error) &&
        open_connection(options->path, SQLITE_OPEN_READWRITE, &j->reader, ret_error) &&
        check_format(j, ret_error) && limit_size(j->writer, options->bytes_max, ret_error) &&
        prepare_writer(j, ret_error) && check_mark(j, options->path, ret_error))
        return j;
    journal_close(j);
    return NULL;
}

journal *journal_open_to_read(const char *path, struct error *ret_error)
{
    journal *j = mem_zalloc(1, sizeof *j);
    int64_t format = 0;
    if (j == NULL) {
        (void)error_set(ret_error, "journal: out of memory");
        return NULL;
    }
    j->mark_fd = -1;
    if (open_connection(path, SQLITE_OPEN_READONLY, &j->reader, ret_error)) {
        bool found = journal_meta_get(j, "format", &format, sizeof format);
        if (found && format == JOURNAL_FORMAT) return j;
        (void)error_set(ret_error, "%s: no journal of this program (format %d)", path,
                        JOURNAL_FORMAT);
    }
    journal_close(j);
    return NULL;
}

void journal_close(journal *j)
{
    if (j == NULL) return;
    for (int i = 0; i < INSERT_END; i++) (void)sqlite3_finalize(j->inserts[i]);
    sqlite3_stmt *const others[] = {j->begin, j->commit, j->rollback, j->trim_snapshots,
                                    j->trim_events};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) (void)sqlite3_finalize(others[i]);
    for (uint32_t i = 0; i < j->query_count; i++) (void)sqlite3_finalize(j->queries[i].statement);
    (void)sqlite3_close(j->reader); /* NULL is fine; nothing is left that could keep it busy */
    (void)sqlite3_close(j->writer); /* the last connection moves the WAL into the file */
    if (j->mark_fd >= 0) (void)close(j->mark_fd); /* its writes are not relied upon */
    mem_free(j);
}

bool journal_error_is_full(const journal *j)
{
    return j->is_full;
}

bool journal_meta_put(journal *j, const char *key, const void *bytes, size_t count,
                      struct error *ret_error)
{
    sqlite3_stmt *s = NULL;
    if (!prepare(j->writer, "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)", &s,
                 ret_error))
        return false;
    bind_text(s, 1, key);
    bind_blob(s, 2, bytes, count);
    bool stored = run_statement(s) || fault(j->writer, ret_error, "cannot store a value");
    (void)sqlite3_finalize(s); /* its error was told by the step */
    return stored;
}

bool journal_meta_get(journal *j, const char *key, void *ret_bytes, size_t count)
{
    sqlite3_stmt *s = NULL;
    sqlite3 *db = j->writer != NULL ? j->writer : j->reader;
    if (!prepare(db, "SELECT value FROM meta WHERE key = ?1", &s, NULL)) return false;
    bind_text(s, 1, key);
    bool found = sqlite3_step(s) == SQLITE_ROW && (size_t)sqlite3_column_bytes(s, 0) == count;
    if (found) memcpy(ret_bytes, sqlite3_column_blob(s, 0), count);
    (void)sqlite3_finalize(s); /* a read leaves nothing behind */
    return found;
}

bool journal_restart_at(journal *j, const struct journal_restart *r, struct error *ret_error)
{
    bool done = run_statement(j->begin) &&
                run_sql(j->writer, "DELETE FROM events; DELETE FROM snapshots", ret_error) &&
                journal_write_snapshot(j, r->seq, r->snapshot, r->snapshot_bytes) &&
                journal_meta_put(j, r->key, r->value, r->value_bytes, ret_error) &&
                run_statement(j->commit);
    return done || journal_give_up(j, ret_error);
}

bool journal_read_snapshots(journal *j, journal_snapshot_fn *take, void *arg,
                            struct error *ret_error)
{
    sqlite3_stmt *s =
        journal_query(j, "SELECT seq, bytes FROM snapshots ORDER BY seq DESC", ret_error);
    if (s == NULL) return false;
    while (journal_row(s)) {
        const uint8_t *bytes = sqlite3_column_blob(s, 1);
        size_t count = (size_t)sqlite3_column_bytes(s, 1);
        if (!take(arg, (uint64_t)sqlite3_column_int64(s, 0), bytes, count)) continue;
        journal_reset(s);
        break;
    }
    return true;
}

/* Of another version of the core nothing is wrong, but nothing may be made of it either. */
static bool refuse_event(uint64_t seq, const uint8_t *record, const char *trouble,
                         struct error *ret_error)
{
    uint32_t version = record == NULL ? POOL_CORE_VERSION : record_version(record);
    if (version == POOL_CORE_VERSION || version == 0)
        return error_set(ret_error,
                         "the journal is damaged at event %llu: %s; restore the data folder "
                         "from a backup",
                         (unsigned long long)seq, trouble);
    return error_set(ret_error,
                     "event %llu of the journal was written by version %u of the core; this "
                     "program has version %u, which may decide otherwise. Nothing is lost: end the "
                     "jobs with the program that wrote it, or give this one another data folder",
                     (unsigned long long)seq, version, (unsigned)POOL_CORE_VERSION);
}

bool journal_read_events(journal *j, uint64_t after, journal_event_fn *take, void *arg,
                         struct error *ret_error)
{
    static const char sql[] = "SELECT seq, bytes FROM events WHERE seq > ?1 ORDER BY seq";
    sqlite3_stmt *s = journal_query(j, sql, ret_error);
    if (s == NULL) return false;
    bind_u64(s, 1, after);
    for (uint64_t expected = after + 1; journal_row(s); expected++) {
        struct pool_event event;
        uint64_t seq = (uint64_t)sqlite3_column_int64(s, 0);
        const char *trouble = "it is missing";
        const uint8_t *record = NULL;
        if (seq == expected && sqlite3_column_bytes(s, 1) == RECORD_BYTES)
            trouble = record_decode(record = sqlite3_column_blob(s, 1), &event);
        if (trouble == NULL && event.seq != seq) trouble = "it holds another number";
        if (trouble != NULL) {
            (void)refuse_event(expected, record, trouble, ret_error);
            journal_reset(s);
            return false;
        }
        if (take(arg, &event)) continue;
        journal_reset(s);
        break;
    }
    return true;
}

struct sqlite3_stmt *journal_query(journal *j, const char *sql, struct error *ret_error)
{
    for (uint32_t i = 0; i < j->query_count; i++)
        if (j->queries[i].sql == sql) return j->queries[i].statement;
    ASSERT(j->query_count < QUERIES_MAX);
    sqlite3_stmt *s = NULL;
    if (!prepare(j->reader, sql, &s, ret_error)) return NULL;
    j->queries[j->query_count].sql = sql;
    j->queries[j->query_count++].statement = s;
    return s;
}

bool journal_row(struct sqlite3_stmt *query)
{
    if (sqlite3_step(query) == SQLITE_ROW) return true;
    journal_reset(query);
    return false;
}

double journal_column_real(struct sqlite3_stmt *query, int column)
{
    if (sqlite3_column_type(query, column) == SQLITE_NULL) return NAN;
    return sqlite3_column_double(query, column);
}

void journal_reset(struct sqlite3_stmt *query)
{
    (void)sqlite3_reset(query);          /* repeats the error of the step, which ended the rows */
    (void)sqlite3_clear_bindings(query); /* cannot fail */
}
