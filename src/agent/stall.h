/* What an agent knows of workers that do not move, and of verdicts that its workers tell.
 *
 * Role       A running worker is looked at once a second: its flight recorder (worker/status.h)
 *            says how long it has been in which phase and what is usual there; /proc says whether the
 *            process is stopped. So a worker that is frozen, and cannot speak, is told of as well.
 *            What it said of its own stack is added.
 * Levels     agent_stuck() and agent_stalls() are what the next report carries. A verdict that was
 *            not repeated for STALL_LEASE_US is dropped: its speaker is gone.
 */
#ifndef SHOAL_AGENT_STALL_H
#define SHOAL_AGENT_STALL_H

#include "codec/worker_line.h"
#include <stdbool.h>

#define STALL_LOOK_US  INT64_C(1000000)
#define STALL_LEASE_US INT64_C(3000000)

/* Of one worker; zero at first. */
struct worker_stall {
    int64_t looked_us, stopped_since_us;
    bool is_stuck; /* by its recorder, or stopped */
    char state[2], call[64], wchan[64];
    int64_t for_us, usual_us;
    uint64_t step, slot;
    const char *phase;
    struct worker_line stack; /* as the worker told it; kind 0: nothing */
};

/* True: something a report should tell at once has changed. */
bool worker_stall_look(struct worker_stall *stall, int64_t pid, const char *status_file,
                       int64_t now_us);
void worker_stall_take_stack(struct worker_stall *stall, struct worker_line *line); /* takes it */
void worker_stall_close(struct worker_stall *stall);
/* Borrows from *stall. */
struct report_stuck worker_stall_report(const struct worker_stall *stall, int64_t pid);

/* Verdicts, one per job. */
struct stall_board {
    struct worker_line line[REPORT_STALLS_MAX];
    int64_t heard_us[REPORT_STALLS_MAX];
    uint32_t count;
};

void stall_board_take(struct stall_board *board, uint64_t job, struct worker_line *line,
                      int64_t now_us); /* takes it */
uint32_t stall_board_report(struct stall_board *board, struct report_stall *ret_stalls,
                            int64_t now_us);
void stall_board_close(struct stall_board *board);

#endif
