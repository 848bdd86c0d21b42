/* One worker process under the agent.
 *
 * Role       Starts the command, reads what it writes and says, passes it lines and signals, ends
 *            it. Decides nothing: agent.c says what is wanted.
 * Process    Own process group, /dev/null as input, nothing inherited but fd 3 (SHOAL_AGENT_FD).
 *            The kernel kills it when the agent dies (PR_SET_PDEATHSIG). When the process itself
 *            ends, what is left of its group is killed: a worker leaves nobody behind.
 * Phases     STARTING until it says `joined`; a batch worker (no slots) is RUNNING at once.
 *            Ended: STOPPED if it had been told to, else FINISHED for status 0 and FAILED for any
 *            other; a signal counts as 128 + its number.
 * Stopping   `leave` is said at once. SIGTERM follows at once to programs that never said hello
 *            (they do not listen), to others when four fifths of the time are over; SIGKILL to the
 *            whole group at the deadline.
 * Notices    The line, and SIGUSR1 to programs that catch it: its default would kill the others.
 */
#ifndef SHOAL_AGENT_WORKER_H
#define SHOAL_AGENT_WORKER_H

#include "agent/line_reader.h"
#include "agent/log_queue.h"
#include "agent/stall.h"
#include "codec/worker_line.h"
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct worker;

struct worker_host { /* callbacks from the loop */
    void *self;
    void (*changed)(void *self, struct worker *worker); /* phase, address */
    /* The line is the callee's to close. */
    void (*said)(void *self, struct worker *worker, struct worker_line *line);
    void (*wrote)(void *self, struct worker *worker, const char *stream, const char *line,
                  size_t bytes, bool cut);
};

struct worker_place { /* what the agent knows and the job does not */
    const char *model, *zone, *dir;
    uint64_t node_key;
    int64_t emulate_slot_us;     /* 0: not emulated */
    const cpu_set_t *processors; /* where it runs; NULL: where the agent does */
};

struct worker {
    uint64_t job, id;
    uint32_t phase; /* enum worker_phase */
    int32_t exit_code;
    uint64_t step;
    double tokens_per_s;
    char addr[128];
    char status_file[1024];
    struct log_source log_source;
    struct worker_stall stall;
    bool listed;   /* in the last reply */
    bool quiet;    /* ended, and the server knows */
    bool end_sent; /* its end is in the report that is under way */
    /* private */
    pid_t pid; /* 0: ended */
    bool said_hello, told_to_stop, terminated, notice_told;
    int64_t terminate_us, kill_us; /* monotonic */
    char *peers_text;              /* as last told */
    uint64_t steps_told;
    struct worker_host host;
    uv_pipe_t out, err, talk;
    struct line_reader out_reader, err_reader, talk_reader;
    uint32_t handles_open;
    bool closing;
};

/* NULL and a sentence: the worker could not be started. */
struct worker *worker_start(uv_loop_t *loop, const struct reply_worker *wanted,
                            const struct worker_place *place, const struct worker_host *host,
                            struct error *ret_error) WARN_UNUSED;

/* Tells it to leave by then; a nearer deadline than before replaces it. */
void worker_stop(struct worker *worker, const char *reason, int64_t deadline_us, int64_t now_us);
void worker_tick(struct worker *worker, int64_t now_us);
int64_t worker_due_us(const struct worker *worker);   /* when worker_tick() is needed; else far */
void worker_ended(struct worker *worker, int status); /* status: of waitpid() */
void worker_tell_peers(struct worker *worker, const struct reply_peers *peers);
void worker_tell_told(struct worker *worker, uint64_t steps); /* stored by the server */
void worker_tell_notice(struct worker *worker, int64_t in_ms);

static inline bool worker_is_running(const struct worker *worker)
{
    return worker->pid != 0;
}

/* Frees it once its handles are closed; a process that still runs is killed. */
void worker_close(struct worker *worker);

#endif
