/* Who holds which job up now: verdicts of the jobs' own workers, and what agents see of workers
 * that do not move. Kept in memory: levels that agents repeat; after a restart they come again within a
 * second. That it happened is kept by the core as decisions (POOL_EVENT_WORKER_STALLED).
 *
 * Lifetime   A row is renewed by each report that holds it, goes with the first one of that node
 *            that does not, and after STALLS_LEASE_US without a report.
 * Told       stalls_take() calls `changed` when a verdict appears or becomes another, every
 *            STALL_TOLD_AGAIN_US while it stands (the core believes it for little longer), and once
 *            when it is over.
 */
#ifndef SHOAL_SERVER_STALLS_H
#define SHOAL_SERVER_STALLS_H

#include "codec/agent_report.h"
#include "server/array.h"
#include <jansson.h>

#define STALLS_LEASE_US INT64_C(5000000)

struct stalls {
    struct array verdicts; /* struct stall_verdict */
    struct array stucks;   /* struct stall_stuck */
};

/* What is new, or stands. culprit NULL: the job moves again, or (worker_id != 0) that worker does. */
struct stall_change {
    uint64_t job_id, worker_id, step;
    int64_t lasted_us;
    const struct report_culprit *culprit; /* one call for each of a verdict */
    bool is_stopped;                      /* the worker's process is, says its agent */
};
typedef void stalls_changed_fn(void *self, const struct stall_change *change);

void stalls_init(struct stalls *stalls);
void stalls_free(struct stalls *stalls);

/* False: out of memory; what fits is kept, the next report tries again. */
bool stalls_take(struct stalls *stalls, uint64_t node_key, const struct agent_report *report,
                 int64_t now_us, stalls_changed_fn *changed, void *self);
void stalls_expire(struct stalls *stalls, int64_t now_us, stalls_changed_fn *changed, void *self);

/* Node of a worker; 0: not known. */
typedef uint64_t stalls_node_fn(void *self, uint64_t job_id, uint64_t worker_id);
/* The member `stall` of /v1/jobs/ID/why: an object, or JSON null when nothing holds the job up.
 * NULL: out of memory. */
json_t *stalls_json(const struct stalls *stalls, uint64_t job_id, stalls_node_fn *node, void *self);
/* Its sentence alone; "" when nothing holds the job up. */
const char *stalls_text(const struct stalls *stalls, uint64_t job_id,
                        char ret_text[STALL_SENTENCE_BYTES]);

#endif
