/* From the journal back to a running pool: the newest snapshot that reads, then replay.
 *
 * Role       Makes the pool (memory included) at start. A snapshot that does not read is passed
 *            over for the older one, whose events the journal still has.
 * Replay     Steps the journaled events; what the core says is stored again (each row once, by its
 *            id), commands are dropped: the RESTARTED event that the server pushes next makes the
 *            core ask again about everything.
 * Configure  The core's configuration is part of its history: events are replayed under the one
 *            they were journaled under. When shoal.yaml has changed limits or timing, the pool is
 *            moved into the new configuration by a snapshot, and the journal begins again there.
 */
#ifndef SHOAL_SERVER_RESTORE_H
#define SHOAL_SERVER_RESTORE_H

#include "core/pool.h"
#include "server/journal.h"

struct restore_options {
    journal *journal;
    const struct pool_config *config; /* its incarnation is ignored: the journal knows it */
    void *host;
    void (*replayed)(void *host, const struct pool_event *event); /* after each step */
};

struct restored {
    pool *pool;
    void *memory;                /* of the pool, the caller's to mem_free() */
    uint64_t events_replayed;    /* after the snapshot */
    uint32_t snapshots_rejected; /* passed over as damaged */
    bool is_new;                 /* the journal was empty */
    bool is_reconfigured;
};

bool restore_pool(const struct restore_options *options, struct restored *ret_restored,
                  struct error *ret_error) WARN_UNUSED;

#endif
