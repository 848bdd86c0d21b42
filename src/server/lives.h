/* The lives of nodes, from the ledger and the decisions of the journal: who was up when, and how it
 * ended.
 *
 * Role       What /v1/market and replays know of survival. A node's life is from its first ledger
 *            interval to its last; it was lost when a decision says that the provider took it, gave
 *            notice, or that it failed. All others were let go, or run still.
 * Reading    Incremental: each refresh reads the rows since the one before, the first one the
 *            newest LIVES_ROWS_MAX of each table. Rows are keyed by their ids, so nothing counts
 *            twice.
 * Order      By node key, which is the order in which nodes were made.
 */
#ifndef SHOAL_SERVER_LIVES_H
#define SHOAL_SERVER_LIVES_H

#include "core/view.h"
#include "server/array.h"
#include "server/journal.h"
#include "server/survival.h"

enum { LIVES_ROWS_MAX = 1000000 };

enum life_end { LIFE_GOES_ON, LIFE_TAKEN, LIFE_NOTICED, LIFE_FAILED };

struct life {
    uint64_t node_key, offer_id;
    int64_t from_us, to_us; /* from 0: told to be lost before any interval was entered */
    int64_t ended_us;       /* of an end: when it was decided */
    uint32_t end;           /* enum life_end */
};

struct lives {
    struct array all; /* struct life */
    uint64_t entries_read, decisions_read;
};

void lives_init(struct lives *lives);
void lives_free(struct lives *lives);
/* false: the journal cannot be read, or no memory; what was there stays. */
bool lives_refresh(struct lives *lives, journal *j, struct error *ret_error) WARN_UNUSED;
const struct life *lives_find(const struct lives *lives, uint64_t node_key); /* or NULL */
/* An end by the provider or by failure. */
bool life_is_lost(const struct life *life);
/* Adds it to what was seen of its offer; a node that runs still lives until `until_us`. */
void life_see(const struct life *life, int64_t until_us, struct survival_seen *seen);

#endif
