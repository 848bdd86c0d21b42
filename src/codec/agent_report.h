/* What agents and the server say to each other, as in docs/protocol.md.
 *
 * Role       JSON <-> structs, on both sides, so that both agree by construction. The report is
 *            parsed strictly (unknown members are errors), the reply leniently (they are ignored).
 * Ownership  A parsed struct owns its arrays and strings until *_close(), which leaves it empty;
 *            closing an empty one is fine. A struct built by hand for *_write() borrows everything
 *            (leave `owner` NULL) and needs no close. Absent strings are "", never NULL, after
 *            parsing; NULL is taken for "" when writing.
 * Errors     One sentence that names the member: report: workers[3].step: expected a number.
 * Limits     Below; a report above one is refused as a whole.
 */
#ifndef SHOAL_CODEC_AGENT_REPORT_H
#define SHOAL_CODEC_AGENT_REPORT_H

#include "base/error.h"
#include "codec/stall.h"
#include "core/event.h"
#include <stddef.h>
#include <stdint.h>

enum {
    REPORT_BYTES_MAX = 4 << 20,
    REPORT_WORKERS_MAX = 64,   /* workers of one node */
    REPORT_PROGRESS_MAX = 256, /* rows in one report; the rest goes with the next */
    REPORT_PROGRESS_WORKERS_MAX = 4096,
    REPORT_LOGS_MAX = 1024,
    REPORT_CKPTS_MAX = 64,
    REPORT_STALLS_MAX = 16,
    REPORT_SLOTS_TEXT_MAX = 256, /* hex digits: 1024 slots */
    REPORT_LINE_MAX = 8192,      /* bytes of one log line */
    REPORT_RACK_MAX = 63,
    REPORT_TEXT_MAX = 512, /* any other text: address, model, time, path */
    REPLY_ARGS_MAX = 128,
    REPLY_TEXT_MAX = 16384, /* one argument, one value of the environment */
    REPLY_PEERS_MAX = 4096, /* workers of one job */
};

struct report_worker {
    uint64_t job, worker, step;
    uint32_t phase; /* enum worker_phase */
    int32_t exit_code;
    const char *addr;  /* "" until it listens */
    const char *doing; /* phase of its status page, "" if not known */
    double tokens_per_s;
    struct report_stuck stuck;
};

struct report_slots {
    uint64_t worker;
    const char *slots; /* hex bitmap, see docs/protocol.md */
};

struct report_progress {
    uint64_t job, step, generation, attempt;
    uint64_t redone_slots; /* computed again in this step because their worker was lost */
    double loss;
    const char *not_finite; /* its mean gradient held NaN or Inf: "applied", "skipped"; else NULL */
    uint32_t worker_count;
    const struct report_slots *workers;
};

struct report_ckpt {
    uint64_t job, step;
};

struct report_log {
    uint64_t job, worker;
    const char *time, *stream, *line; /* stream: "out" or "err" */
};

struct agent_report {
    void *owner;
    uint64_t pid;
    const char *started;
    uint32_t phase; /* enum agent_phase */
    const char *device_model;
    uint32_t device_count, device_vram_mib;
    const char *rack;            /* where the machine stands; "" = not known */
    bool emulated;               /* its devices are made up */
    struct device_groups groups; /* which of them lie together; form 0 = not known */
    uint32_t worker_count, progress_count, ckpt_count, log_count, stall_count;
    const struct report_worker *workers;
    const struct report_progress *progress;
    const struct report_ckpt *ckpts;
    const struct report_log *logs;
    const struct report_stall *stalls; /* verdicts that stand, of jobs whose speaker runs here */
    uint64_t logs_after;               /* number of the line before logs[0] */
};

enum reply_want { REPLY_RUN = 1, REPLY_STOP };

struct reply_worker {
    uint64_t job, worker;
    uint32_t want; /* enum reply_want */
    /* REPLY_RUN */
    uint32_t arg_count, env_count;
    const char *const *args;                /* argv[arg_count] */
    const char *const *env;                 /* key, value, key, value: 2 * env_count texts */
    const char *dir;                        /* "" = where the agent runs */
    const char *token;                      /* the job's secret, SHOAL_TOKEN */
    const char *checkpoint_dir;             /* "" = none */
    uint32_t slots, gang, checkpoint_every; /* every: UINT32_MAX: auto */
    uint64_t steps;
    uint32_t device_mask;            /* its devices of the node, a bit each; 0 = all there are */
    uint32_t device_milli;           /* of each; below 1000: a share of one, 0: no device */
    uint32_t mig_compute, mig_start; /* an instance of it: compute slices (0: none), first slice */
    /* REPLY_STOP */
    const char *reason;
    int64_t deadline_ms; /* from now; 0 = at once */
};

struct reply_peer {
    uint64_t worker;
    const char *addr;
};

struct reply_peers {
    uint64_t job;
    uint64_t told; /* all steps below are stored: nobody needs to report them again */
    uint32_t peer_count;
    const struct reply_peer *peers;
};

struct agent_reply {
    void *owner;
    int64_t lease_ms, report_ms;
    uint64_t logs_after, progress_after; /* all up to these are stored: need not be sent again */
    uint32_t worker_count, peers_count;
    const struct reply_worker *workers;
    const struct reply_peers *peers; /* one per job */
    int64_t notice_ms;               /* the provider takes the node in this long; 0 = no notice */
    bool leave;
};

bool agent_report_parse(const char *text, size_t bytes, struct agent_report *ret_report,
                        struct error *ret_error) WARN_UNUSED;
void agent_report_close(struct agent_report *report);
/* Text from mem_alloc(), the caller's to mem_free(); NULL: out of memory. */
char *agent_report_write(const struct agent_report *report) WARN_UNUSED;

bool agent_reply_parse(const char *text, size_t bytes, struct agent_reply *ret_reply,
                       struct error *ret_error) WARN_UNUSED;
void agent_reply_close(struct agent_reply *reply);
char *agent_reply_write(const struct agent_reply *reply) WARN_UNUSED;

#endif
