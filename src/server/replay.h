/* The journal stepped once more, beside what was recorded.
 *
 * Role       Makes a pool as it was at the oldest snapshot that reads (or at the beginning), steps
 *            the events after it, and compares each decision and ledger entry with its row. The
 *            core decides by its events alone, so any difference is a fault: another program, a
 *            damaged journal, or a core that is not deterministic.
 * Reading    Nothing is written; a server may run on the same folder, its newest events may then
 *            be left out.
 * Tail       What the core says is stored with the next commit: rows of the last events may not be
 *            there yet (`unrecorded`), which is no difference.
 */
#ifndef SHOAL_SERVER_REPLAY_H
#define SHOAL_SERVER_REPLAY_H

#include "core/pool.h"
#include "server/journal.h"

enum { REPLAY_DIFFERENCES_MAX = 16 };

enum replay_fault {
    REPLAY_OTHER,    /* said and recorded, not the same */
    REPLAY_NOT_SAID, /* recorded, not said now */
    REPLAY_NOT_RECORDED,
};

struct replay_difference {
    enum replay_fault fault;
    bool is_entry;
    uint64_t id;
    struct pool_decision said, recorded; /* of decisions; zero where there is none */
};

struct replay_count {
    uint64_t said, same, unrecorded, differences;
};

struct replay_result {
    uint64_t first_seq, last_seq; /* of the events stepped; last_seq < first_seq: none */
    int64_t from_us, to_us;
    struct replay_count decisions, entries;
    int64_t usd_micros; /* sum of the entries said */
    uint64_t digest;    /* of the pool at the end */
    uint32_t kept;
    struct replay_difference kept_differences[REPLAY_DIFFERENCES_MAX];
};

struct replay_options {
    uint64_t last_seq;      /* stop behind this event; 0 = all */
    uint64_t first_seq;     /* earlier ones are stepped, not compared; 0 = none */
    int64_t from_us, to_us; /* the same by time; both 0 = any */
};

bool replay_journal(journal *j, const struct replay_options *options,
                    struct replay_result *ret_result, struct error *ret_error) WARN_UNUSED;

#endif
