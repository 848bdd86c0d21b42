/* The journal: SQLite in WAL mode, synchronous=FULL, one transaction per batch.
 *
 * Role       The only durable state of the server. journal_commit() returns true only when the
 *            batch is on disk; nobody is answered and no command runs before that.
 * Files      DIR/journal.db, SQLite's own -wal and -shm beside it, and -mark (server/mark.h): a
 *            journal that lost committed events is refused when it is opened.
 * Threads    journal_commit() may run on another thread than the rest, one commit at a time. It has
 *            its own connection; all reads use a second one, so a long commit blocks no reader.
 * Idempotent Decisions and entries are keyed by the core's ids and stored once, names, specs and
 *            log lines by their keys: after a crash, replay says them again and nothing doubles.
 * Errors     A failed commit is rolled back as a whole. journal_error_is_full() tells a full disk
 *            from other trouble.
 * Trim       A batch with a snapshot keeps the newest JOURNAL_SNAPSHOTS_KEPT snapshots and drops
 *            the events that the oldest of them already contains.
 */
#ifndef SHOAL_SERVER_JOURNAL_H
#define SHOAL_SERVER_JOURNAL_H

#include "base/error.h"
#include "server/batch.h"

typedef struct journal journal;
struct sqlite3_stmt;

enum { JOURNAL_SNAPSHOTS_KEPT = 2, JOURNAL_FORMAT = 2 };

struct journal_options {
    const char *path;
    int64_t bytes_max; /* a commit that would grow the file beyond this fails; 0 = the disk's end */
};

journal *journal_open(const struct journal_options *options, struct error *ret_error) WARN_UNUSED;
/* Only what reads may be called; a server may write beside it. Never makes a file. */
journal *journal_open_to_read(const char *path, struct error *ret_error) WARN_UNUSED;
void journal_close(journal *j); /* moves the WAL into the database file; NULL is fine */

bool journal_commit(journal *j, const struct batch *b, struct error *ret_error) WARN_UNUSED;
bool journal_error_is_full(const journal *j); /* of the last failed commit */

/* Small values kept by name: incarnation, configuration of the core. Not in a batch: only used
 * before the server serves. get: false if there is none. */
bool journal_meta_put(journal *j, const char *key, const void *bytes, size_t count,
                      struct error *ret_error) WARN_UNUSED;
bool journal_meta_get(journal *j, const char *key, void *ret_bytes, size_t count);

/* Forgets the events and snapshots and begins again from this snapshot: when the core's
 * configuration changes, older events must not be replayed under the new one. The configuration is
 * kept as the value `key` in the same transaction. */
struct journal_restart {
    uint64_t seq;
    const uint8_t *snapshot;
    size_t snapshot_bytes;
    const char *key;
    const void *value;
    size_t value_bytes;
};
bool journal_restart_at(journal *j, const struct journal_restart *restart,
                        struct error *ret_error) WARN_UNUSED;

/* Restart. Snapshots are visited newest first until `take` returns true; events in order of seq
 * from `after` + 1 until `take` returns false. */
typedef bool journal_snapshot_fn(void *arg, uint64_t seq, const uint8_t *bytes, size_t count);
typedef bool journal_event_fn(void *arg, const struct pool_event *event);
bool journal_read_snapshots(journal *j, journal_snapshot_fn *take, void *arg,
                            struct error *ret_error) WARN_UNUSED;
bool journal_read_events(journal *j, uint64_t after, journal_event_fn *take, void *arg,
                         struct error *ret_error) WARN_UNUSED;

/* A read query on the reading connection, prepared once per SQL text and kept. Bind, step with
 * journal_row(), which resets it at the end; a query left early needs journal_reset(). NULL: the
 * sentence is in ret_error. */
struct sqlite3_stmt *journal_query(journal *j, const char *sql, struct error *ret_error);
bool journal_row(struct sqlite3_stmt *query);
/* SQLite has no NaN: it is stored as NULL, and comes back as NaN here. */
double journal_column_real(struct sqlite3_stmt *query, int column);
void journal_reset(struct sqlite3_stmt *query);

#endif
