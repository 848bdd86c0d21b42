#include "agent/stall.h"
#include "worker/host.h"
#include "worker/status.h"
#include <stdio.h>
#include <string.h>

bool worker_stall_look(struct worker_stall *stall, int64_t pid, const char *status_file,
                       int64_t now_us)
{
    struct status_lateness late = {0};
    struct host_view view;
    if (now_us - stall->looked_us < STALL_LOOK_US) return false;
    stall->looked_us = now_us;
    bool was = stall->is_stuck;
    char state = stall->state[0];
    if (status_lateness(status_file, now_us, &late)) { /* else a program without a page */
        stall->for_us = late.for_us;
        stall->usual_us = late.usual_us;
        stall->step = late.step;
        stall->slot = late.slot;
        stall->phase = record_phase_name(late.phase);
    }
    if (!host_look_at(pid, pid, &view)) view = (struct host_view){0};
    bool stopped = view.host == HOST_STOPPED;
    if (!stopped)
        stall->stopped_since_us = 0;
    else if (stall->stopped_since_us == 0)
        stall->stopped_since_us = now_us;
    stall->is_stuck = late.is_late || stopped;
    (void)snprintf(stall->state, sizeof stall->state, "%c", view.state);
    (void)snprintf(stall->call, sizeof stall->call, "%s", view.call);
    (void)snprintf(stall->wchan, sizeof stall->wchan, "%s", view.wchan);
    if (stall->phase == NULL) stall->phase = "unknown";
    return was != stall->is_stuck || (was && state != stall->state[0]);
}

void worker_stall_take_stack(struct worker_stall *stall, struct worker_line *line)
{
    worker_line_close(&stall->stack);
    if (!line->stuck.is) {
        worker_line_close(line);
        return;
    }
    stall->stack = *line;
    *line = (struct worker_line){0};
}

void worker_stall_close(struct worker_stall *stall)
{
    worker_line_close(&stall->stack);
}

struct report_stuck worker_stall_report(const struct worker_stall *stall, int64_t pid)
{
    bool told = stall->stack.kind != 0;
    struct report_stuck stuck = {
        .is = stall->is_stuck || told,
        .for_us = stall->for_us,
        .usual_us = stall->usual_us,
        .step = stall->step,
        .slot = stall->slot,
        .pid = (uint64_t)pid,
        .phase = stall->phase == NULL ? "unknown" : stall->phase,
        .state = stall->state,
        .call = stall->call,
        .wchan = stall->wchan,
        .stack = told ? stall->stack.stuck.stack : "",
    };
    if (stall->state[0] == 'T' || !told) return stuck;
    stuck.state = stall->stack.stuck.state; /* of the thread that runs the program */
    stuck.call = stall->stack.stuck.call;
    stuck.wchan = stall->stack.stuck.wchan;
    return stuck;
}

static void drop(struct stall_board *board, uint32_t i)
{
    worker_line_close(&board->line[i]);
    board->count--;
    board->line[i] = board->line[board->count];
    board->heard_us[i] = board->heard_us[board->count];
    board->line[board->count] = (struct worker_line){0};
}

void stall_board_take(struct stall_board *board, uint64_t job, struct worker_line *line,
                      int64_t now_us)
{
    uint32_t i = 0;
    while (i < board->count && board->line[i].stall.job != job) i++;
    if (i < board->count) drop(board, i);
    if (line->stall.culprit_count == 0 || board->count == REPORT_STALLS_MAX) {
        worker_line_close(line);
        return;
    }
    board->line[board->count] = *line;
    board->line[board->count].stall.job = job; /* a worker speaks for its own job */
    board->heard_us[board->count++] = now_us;
    *line = (struct worker_line){0};
}

uint32_t stall_board_report(struct stall_board *board, struct report_stall *ret_stalls,
                            int64_t now_us)
{
    for (uint32_t i = 0; i < board->count;)
        if (now_us - board->heard_us[i] > STALL_LEASE_US)
            drop(board, i);
        else
            i++;
    for (uint32_t i = 0; i < board->count; i++) ret_stalls[i] = board->line[i].stall;
    return board->count;
}

void stall_board_close(struct stall_board *board)
{
    while (board->count > 0) drop(board, 0);
}
