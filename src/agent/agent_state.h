/* The inside of the agent, shared by agent.c (life), agent_reply.c (what the server wants) and
 * agent_send.c (what is told).
 *
 * Invariants  workers[i] != NULL for i < worker_count; ids are unique; an ended worker is kept
 *             until room is needed, so that a late reply cannot start it again.
 *             lease_until_us only moves when a reply was understood.
 */
#ifndef SHOAL_AGENT_AGENT_STATE_H
#define SHOAL_AGENT_AGENT_STATE_H

#include "agent/layout.h"
#include "agent/link.h"
#include "agent/options.h"
#include "agent/progress_queue.h"
#include "agent/worker.h"

enum {
    AGENT_WORKERS_MAX = 256,       /* ended ones included; at most REPORT_WORKERS_MAX are told */
    AGENT_OVERDUE_MS = 20,         /* between two looks at what is overdue */
    AGENT_URGENT_MS = 10,          /* news of this long go into one report */
    AGENT_REPORT_MS_DEFAULT = 250, /* until the server says otherwise */
    AGENT_RETRY_MS_MAX = 2000,
    AGENT_ANSWER_MS_MAX = 5000, /* a request without answer is given up after this */
    AGENT_LEAVE_MS = 3000,      /* workers get this to leave when nobody says more */
    AGENT_LEASE_KILL_MS = 1000, /* and this when the lease has ended */
    AGENT_FAREWELL_MS = 1000,   /* for the last report */
};

enum agent_mode {
    AGENT_RUNS = 1,
    AGENT_LEAVES,   /* told to: workers are leaving */
    AGENT_FAREWELL, /* they are gone, the last report is under way */
    AGENT_EXPIRES,  /* the lease has ended: workers are being killed */
    AGENT_ENDS,     /* closing the loop */
};

struct agent {
    struct agent_options options;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_signal_t child_signal, term_signal, int_signal;
    struct link *link;
    char server_url[512]; /* where the link goes: --server, or what --server-file said last */
    char data_dir[1024], started[25];
    enum agent_mode mode;
    int exit_status;
    int64_t lease_ms, report_ms;
    int64_t lease_until_us, next_report_us, farewell_until_us; /* monotonic */
    int64_t retry_ms; /* 0: the last request was answered */
    int64_t urgent_after_us;
    bool urgent;           /* something changed: report as soon as the link is free */
    bool said_unreachable; /* once per outage */
    uint64_t dropped_told; /* progress rows, already logged */
    struct worker *workers[AGENT_WORKERS_MAX];
    uint32_t worker_count;
    struct log_queue logs;
    struct progress_queue progress;
    struct stall_board stalls;
    struct layout layout;
};

/* agent_send.c */
void agent_send(struct agent *agent, int64_t now_us);

/* agent_reply.c */
void agent_take_reply(struct agent *agent, const struct agent_reply *reply, int64_t now_us);

/* agent.c */
void agent_leave(struct agent *agent, const char *reason, int64_t now_us);
void agent_wake(struct agent *agent); /* something is worth a report now */

#endif
