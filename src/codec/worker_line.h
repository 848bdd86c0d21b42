/* Lines between an agent and its worker (docs/protocol.md, "Agent and worker").
 *
 * Role       For the agent's side: parses what a worker says, writes what the agent says. A worker
 *            is a user's program: a line that is not understood is an error sentence, never fatal.
 * Ownership  As in agent_report.h: worker_line_close() after a successful parse.
 */
#ifndef SHOAL_CODEC_WORKER_LINE_H
#define SHOAL_CODEC_WORKER_LINE_H

#include "codec/agent_report.h"

enum { WORKER_LINE_BYTES_MAX = 1 << 20 };

enum worker_line_kind {
    WORKER_LINE_HELLO = 1, /* addr, version (1 if it does not say) */
    WORKER_LINE_JOINED,    /* generation, step */
    WORKER_LINE_PROGRESS,  /* progress; its job is 0 if the worker did not say */
    WORKER_LINE_CKPT,      /* step */
    WORKER_LINE_STATS,     /* tokens_per_s, step */
    WORKER_LINE_DONE,      /* step: how many there are; an exit with status 0 follows */
    WORKER_LINE_STALL,     /* stall; no culprits: over */
    WORKER_LINE_STACK,     /* stuck: state, call, wchan, stack; all "": it moves again */
};

struct worker_line {
    void *owner;
    uint32_t kind; /* enum worker_line_kind */
    const char *addr;
    uint64_t version, generation, step;
    double tokens_per_s;
    struct report_progress progress;
    struct report_stall stall;
    struct report_stuck stuck;
};

bool worker_line_parse(const char *text, size_t bytes, struct worker_line *ret_line,
                       struct error *ret_error) WARN_UNUSED;
void worker_line_close(struct worker_line *line);

/* One line without the newline, from mem_alloc(); NULL: out of memory. */
char *worker_line_write_peers(const struct reply_peers *peers) WARN_UNUSED;
char *worker_line_write_told(uint64_t steps) WARN_UNUSED;
char *worker_line_write_leave(const char *reason, int64_t deadline_ms) WARN_UNUSED;
char *worker_line_write_notice(int64_t in_ms) WARN_UNUSED;

#endif
