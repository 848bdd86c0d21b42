/* What agents last said, and which of it is news.
 *
 * Role       Per node key: the latest report (a level), the number up to which its log lines
 *            are stored, and when the core was last told. So that 4 reports a second
 *            become events only when something changed or a second has passed.
 * Boot       An agent's run is told apart by its pid and start time: log numbers begin again then.
 * Lifetime   A row goes when its node has been gone from the pool for a while (agents_sweep).
 */
#ifndef SHOAL_SERVER_AGENTS_H
#define SHOAL_SERVER_AGENTS_H

#include "codec/agent_report.h"
#include "server/array.h"
#include <stdbool.h>

enum { AGENT_ADDRESS_BYTES = 128, AGENT_DOING_BYTES = 16 };
#define AGENT_LEVEL_US INT64_C(1000000) /* unchanged levels are told this often */

struct agent_worker {
    uint64_t job_id, worker_id, step;
    uint32_t phase;
    int32_t exit_code;
    double tokens_per_s;
    char address[AGENT_ADDRESS_BYTES], doing[AGENT_DOING_BYTES];
};

struct agent_info {
    uint64_t node_key; /* 0: free row */
    uint64_t boot;
    uint64_t logs_after; /* number of the newest line that is stored */
    uint32_t phase, device_count, model;
    bool emulated;        /* its devices are made up */
    int64_t told_us;      /* when the core was last told; 0 = never */
    int64_t heard_us;     /* last report */
    struct array workers; /* struct agent_worker */
};

struct agents {
    struct array infos; /* struct agent_info */
};

void agents_init(struct agents *agents);
void agents_free(struct agents *agents);

struct agent_info *agents_find(const struct agents *agents, uint64_t node_key); /* NULL: none */
/* Finds or makes. NULL: out of memory. The pointer is valid until the next agents_get(). */
struct agent_info *agents_get(struct agents *agents, uint64_t node_key);

const struct agent_worker *agent_find_worker(const struct agent_info *info, uint64_t job_id,
                                             uint64_t worker_id); /* NULL: not reported */
uint64_t agent_boot_of(const struct agent_report *report);

/* Takes the report's workers over. false: out of memory. */
bool agent_note_workers(struct agent_info *info, const struct agent_report *report);

/* Drops rows of nodes that have not reported since `before_us`. */
void agents_sweep(struct agents *agents, int64_t before_us);

#endif
