/* The status page: what a worker is doing, readable by anybody at any time, also after its death.
 *
 * The worker maps a file of STATUS_BYTES (SHOAL_STATUS) and keeps it current; the agent and the
 * local driver read it with status_read(). A sequence number guards against reading half a change:
 * odd while the writer is inside. A worker killed inside a change leaves it odd; the page is then
 * returned all the same, with `torn` set.
 *
 * Behind it, at STATUS_RECORDER_AT, lies the flight recorder (core/recorder.h), which the worker
 * writes in place: its newest record may be half written in a worker that died in that instant.
 */
#ifndef SHOAL_WORKER_STATUS_H
#define SHOAL_WORKER_STATUS_H

#include "base/error.h"
#include "worker/core/recorder.h"
#include <stdint.h>

enum { STATUS_BYTES = 16384, STATUS_RECORDER_AT = 512, STATUS_VERSION = 2 };
#define STATUS_MAGIC UINT64_C(0x737574617473484c) /* "LHstatus" */

enum worker_doing {
    DOING_JOIN = 1, /* looking for the group */
    DOING_SYNC,     /* fetching or serving the state */
    DOING_COMPUTE,
    DOING_REDUCE,
    DOING_APPLY,
    DOING_CHECKPOINT, /* copying a share, or waiting for the last checkpoint */
    DOING_IDLE,       /* over */
    DOING_DATA,       /* the program waits for data, it said */
};

struct worker_status {
    uint64_t magic;
    uint32_t version, sequence;
    uint64_t job, worker, pid;
    uint64_t step, generation;
    uint32_t attempt, slots_owned, phase, torn; /* enum worker_doing */
    int64_t changed_us;                         /* wall clock, of the last change */
};

struct status_page; /* the writer's end */

/* NULL path or a file that cannot be mapped: NULL; training does not depend on it. */
struct status_page *status_open(const char *path, struct error *ret_error);
/* Stores what changed; cheap when nothing did. `facts` needs step .. phase filled in. */
void status_write(struct status_page *page, const struct worker_status *facts);
void status_close(struct status_page *page);                /* the file stays */
struct recorder *status_recorder(struct status_page *page); /* in the page; NULL without one */

/* Reads a page. False and a sentence: no such file, or not a status page. */
bool status_read(const char *path, struct worker_status *ret_status,
                 struct error *ret_error) WARN_UNUSED;
/* The recorder of a page, at any time, of a process alive, stopped or dead. */
bool status_read_recorder(const char *path, struct recorder *ret_recorder,
                          struct error *ret_error) WARN_UNUSED;
/* Is the newest record older than it should be, by the rank's own measure (diagnose.h)? Only of own
 * work: who waits for others is not late. False: no page, or nothing was recorded yet. */
struct status_lateness {
    bool is_late;
    int64_t for_us, usual_us;
    uint64_t step, slot;
    uint32_t phase; /* enum record_phase */
};
bool status_lateness(const char *path, int64_t now_us, struct status_lateness *ret_lateness);
/* "compute" and so on; "unknown" for values out of range. */
const char *status_phase_name(uint32_t phase);

#endif
