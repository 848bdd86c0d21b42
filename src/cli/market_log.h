/* A growing record of prices in CSV, for `shoal market record`: rows are added, none is changed.
 *
 * Files      A file, or a folder (it exists as one, or the path ends in "/") with a file for each
 *            day, prices-YYYY-MM-DD.csv, of the time of its rows in UTC. `shoal market import` reads
 *            them. The last two columns say where a row came from: the event of the server's
 *            journal, and which journal.
 * Crash      Rows go to the disk whole batches at a time (fsync). What a crash cut off in the middle
 *            of a row is taken away when the file is opened again, and the event of the last row
 *            tells where to go on. A write that fails is taken back.
 * One        process at a time: the file is locked.
 */
#ifndef SHOAL_CLI_MARKET_LOG_H
#define SHOAL_CLI_MARKET_LOG_H

#include "base/error.h"
#include "base/text.h"
#include <stdint.h>

enum { MARKET_LOG_PATH_BYTES = 4096 };

struct market_change {
    const char *zone, *model, *kind, *provider, *region;
    int64_t at_us, usd_micros_per_hour;
    int64_t stock; /* -1: as before */
    uint32_t devices;
    uint64_t event;
};

/* Where a record ends. */
struct market_place {
    uint64_t journal, event; /* of the last row; 0: no row */
    uint32_t rows;           /* how many of this event stand at the end */
};

struct market_log {
    char folder[MARKET_LOG_PATH_BYTES]; /* "": one file */
    char file[MARKET_LOG_PATH_BYTES];   /* "": none yet */
    int fd;                             /* -1: none yet */
    int64_t bytes;                      /* of whole rows on the disk */
    struct market_place place;
    struct text waiting; /* rows not written yet */
    uint64_t added;      /* rows since it was opened */
};

bool market_log_open(struct market_log *log, const char *path, struct error *ret_error) WARN_UNUSED;
bool market_log_add(struct market_log *log, uint64_t journal, const struct market_change *change,
                    struct error *ret_error) WARN_UNUSED;
bool market_log_flush(struct market_log *log, struct error *ret_error) WARN_UNUSED;
void market_log_close(struct market_log *log); /* rows not flushed are dropped */

/* What the end of a file says. `bytes` may begin in the middle of a row unless `is_whole`. false: the
 * last whole row is none of a record. ret_cut: bytes at the end that are no whole row. */
bool market_log_tail(const char *bytes, size_t count, bool is_whole, struct market_place *ret_place,
                     size_t *ret_cut);

#endif
