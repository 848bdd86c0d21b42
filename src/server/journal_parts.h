/* The parts of an open journal, for journal.c and journal_write.c only. */
#ifndef SHOAL_SERVER_JOURNAL_PARTS_H
#define SHOAL_SERVER_JOURNAL_PARTS_H

#include "server/journal.h"
#include <sqlite3.h>

enum { QUERIES_MAX = 64 };

/* ORDER: insert_sql (journal_write.c). */
enum insert {
    INSERT_EVENT,
    INSERT_NAME,
    INSERT_SPEC,
    INSERT_JOB,
    INSERT_DECISION,
    INSERT_ENTRY,
    INSERT_PROGRESS,
    INSERT_LOG,
    INSERT_BILL,
    INSERT_SNAPSHOT,
    INSERT_END
};

struct journal {
    sqlite3 *writer, *reader;
    sqlite3_stmt *inserts[INSERT_END];
    sqlite3_stmt *begin, *commit, *rollback, *trim_snapshots, *trim_events;
    struct {
        const char *sql; /* compared by address: a literal of the caller */
        sqlite3_stmt *statement;
    } queries[QUERIES_MAX];
    uint32_t query_count;
    int mark_fd;
    bool is_full;
};

/* Statements are bound by position with these, so that each write reads like its row. */
static inline void bind_u64(sqlite3_stmt *s, int at, uint64_t value)
{
    (void)sqlite3_bind_int64(s, at, (sqlite3_int64)value); /* fails only for a bad position */
}

static inline void bind_i64(sqlite3_stmt *s, int at, int64_t value)
{
    (void)sqlite3_bind_int64(s, at, value); /* fails only for a bad position */
}

static inline void bind_text(sqlite3_stmt *s, int at, const char *text) /* NULL gives NULL */
{
    (void)sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC); /* too long: the step fails */
}

static inline void bind_blob(sqlite3_stmt *s, int at, const void *bytes, size_t count)
{
    (void)sqlite3_bind_blob64(s, at, bytes, count, SQLITE_STATIC); /* too long: the step fails */
}

static inline bool run_statement(sqlite3_stmt *s)
{
    bool done = sqlite3_step(s) == SQLITE_DONE;
    return sqlite3_reset(s) == SQLITE_OK && done;
}

/* journal_write.c */
const char *journal_insert_sql(enum insert insert);
bool journal_write_snapshot(journal *j, uint64_t seq, const uint8_t *bytes, size_t count);
bool journal_give_up(journal *j, struct error *ret_error); /* rolls back; false */

#endif
