/* Where a replay begins: the pool as it was at the oldest snapshot that reads, or an empty one. */
#ifndef SHOAL_SERVER_REPLAY_START_H
#define SHOAL_SERVER_REPLAY_START_H

#include "core/pool.h"
#include "server/journal.h"

struct replay_start {
    struct pool_config config;
    pool *pool;
    void *memory; /* of the pool, the caller's to mem_free(), also after a failure */
    uint64_t snapshot_seq;
};

/* last_seq: only a snapshot before this event; 0: any. false: no configuration, no memory, or events
 * that are needed are gone. */
bool replay_start(journal *j, uint64_t last_seq, struct replay_start *ret_start,
                  struct error *ret_error) WARN_UNUSED;
/* The first column of the last row of a query. */
bool replay_number(journal *j, const char *sql, uint64_t *ret_number,
                   struct error *ret_error) WARN_UNUSED;

#endif
