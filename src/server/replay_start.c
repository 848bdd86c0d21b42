#include "server/replay_start.h"
#include "base/mem.h"
#include <sqlite3.h>

struct search {
    struct replay_start *start;
    uint64_t last_seq, found_seq; /* found_seq 0: none */
};

static void make_empty(struct replay_start *start)
{
    start->pool = pool_init(start->memory, pool_size(&start->config.limits), &start->config);
    start->snapshot_seq = 0;
}

/* Visited newest first: the last one that reads is the oldest. */
static bool note_snapshot(void *arg, uint64_t seq, const uint8_t *bytes, size_t count)
{
    struct search *search = arg;
    pool *p = search->start->pool;
    make_empty(search->start);
    if (pool_snapshot_read(p, bytes, count) && pool_last_seq(p) == seq &&
        (search->last_seq == 0 || seq < search->last_seq))
        search->found_seq = seq;
    return false;
}

static bool take_snapshot(void *arg, uint64_t seq, const uint8_t *bytes, size_t count)
{
    struct search *search = arg;
    if (seq != search->found_seq) return false;
    make_empty(search->start);
    search->start->snapshot_seq = seq;
    return pool_snapshot_read(search->start->pool, bytes, count);
}

bool replay_number(journal *j, const char *sql, uint64_t *ret_number, struct error *ret_error)
{
    struct sqlite3_stmt *s = journal_query(j, sql, ret_error);
    if (s == NULL) return false;
    while (journal_row(s)) *ret_number = (uint64_t)sqlite3_column_int64(s, 0);
    return true;
}

/* Events before the older snapshot are let go: without it there is nothing to step from. */
static bool check_kept(journal *j, uint64_t last_seq, const struct replay_start *start,
                       struct error *ret_error)
{
    uint64_t first = 0;
    if (!replay_number(j, "SELECT coalesce(min(seq), 0) FROM events", &first, ret_error))
        return false;
    if (first <= start->snapshot_seq + 1) return true;
    if (last_seq != 0 && last_seq < first)
        return error_set(ret_error, "event %llu is gone: the journal keeps events from %llu on",
                         (unsigned long long)last_seq, (unsigned long long)first);
    return error_set(ret_error,
                     "the journal keeps events from %llu on, and no snapshot that this program can "
                     "read lies before; use the program that wrote it, or try again if a server "
                     "has just stored a new one",
                     (unsigned long long)first);
}

/* What its configuration is instead of this program's. */
static bool refuse_config(journal *j, struct error *ret_error)
{
    uint64_t bytes = 0;
    if (!replay_number(j, "SELECT length(value) FROM meta WHERE key = 'pool_config'", &bytes,
                       ret_error))
        return false;
    if (bytes == 0)
        return error_set(ret_error, "the journal has no configuration yet: no server has begun it");
    return error_set(ret_error,
                     "the journal is of another version of the core: its configuration has %llu "
                     "bytes, this program's has %zu; use the program that wrote it",
                     (unsigned long long)bytes, sizeof(struct pool_config));
}

bool replay_start(journal *j, uint64_t last_seq, struct replay_start *ret_start,
                  struct error *ret_error)
{
    struct search search = {.start = ret_start, .last_seq = last_seq};
    *ret_start = (struct replay_start){0};
    if (!journal_meta_get(j, "pool_config", &ret_start->config, sizeof ret_start->config))
        return refuse_config(j, ret_error);
    size_t bytes = pool_size(&ret_start->config.limits);
    ret_start->memory = mem_zalloc(1, bytes);
    if (ret_start->memory == NULL)
        return error_set(ret_error, "out of memory: the pool needs %zu bytes", bytes);
    make_empty(ret_start);
    if (!journal_read_snapshots(j, note_snapshot, &search, ret_error)) return false;
    make_empty(ret_start);
    if (search.found_seq != 0 && !journal_read_snapshots(j, take_snapshot, &search, ret_error))
        return false;
    return check_kept(j, last_seq, ret_start, ret_error);
}
