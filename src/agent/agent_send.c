#include "agent/agent_state.h"
#include "agent/status_page.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/event.h"
#include <inttypes.h>
#include <unistd.h>

struct report_room {
    struct report_worker workers[REPORT_WORKERS_MAX];
    struct report_progress progress[REPORT_PROGRESS_MAX];
    struct report_log logs[REPORT_LOGS_MAX];
    struct report_stall stalls[REPORT_STALLS_MAX];
    char doing[REPORT_WORKERS_MAX][24];
};

static uint32_t fill_workers(struct agent *agent, struct report_room *room)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < agent->worker_count && count < REPORT_WORKERS_MAX; i++) {
        struct worker *worker = agent->workers[i];
        if (worker->quiet) continue;
        if (!worker_is_running(worker)) worker->end_sent = true;
        status_page_phase(worker->status_file, room->doing[count], sizeof room->doing[count]);
        room->workers[count] = (struct report_worker){
            .job = worker->job,
            .worker = worker->id,
            .step = worker->step,
            .phase = worker->phase,
            .exit_code = worker->exit_code,
            .addr = worker->addr,
            .doing = room->doing[count],
            .tokens_per_s = worker->tokens_per_s,
        };
        if (worker_is_running(worker))
            room->workers[count].stuck = worker_stall_report(&worker->stall, worker->pid);
        count++;
    }
    return count;
}

static char *write_report(struct agent *agent, struct report_room *room)
{
    struct agent_report report = {
        .pid = (uint64_t)getpid(),
        .started = agent->started,
        .phase = agent->mode == AGENT_RUNS ? AGENT_PHASE_JOINED : AGENT_PHASE_LEAVING,
        .device_model = agent->options.device_model,
        .device_count = agent->options.device_count,
        .device_vram_mib = agent->options.vram_mib,
        .rack = agent->options.rack,
        .emulated = agent->options.emulate_slot_us > 0,
        .groups = agent->layout.groups,
        .worker_count = fill_workers(agent, room),
        .workers = room->workers,
        .progress_count =
            progress_queue_send(&agent->progress, room->progress, REPORT_PROGRESS_MAX),
        .progress = room->progress,
        .ckpt_count = agent->progress.ckpt_count,
        .ckpts = agent->progress.ckpts,
        .log_count = log_queue_send(&agent->logs, room->logs, REPORT_LOGS_MAX),
        .logs = room->logs,
        .logs_after = agent->logs.first - 1,
        .stall_count = stall_board_report(&agent->stalls, room->stalls, clock_monotonic_us()),
        .stalls = room->stalls,
    };
    return agent_report_write(&report);
}

void agent_send(struct agent *agent, int64_t now_us)
{
    struct report_room *room = mem_alloc(sizeof *room);
    char *body = room == NULL ? NULL : write_report(agent, room);
    mem_free(room);
    agent->next_report_us = now_us + agent->report_ms * 1000;
    if (body == NULL) {
        log_line(LOG_WARN, "agent", "no memory for a report, trying again", "node=%" PRIu64,
                 agent->options.node_key);
        return;
    }
    agent->urgent = false;
    agent->urgent_after_us = now_us + AGENT_URGENT_MS * 1000;
    int64_t timeout_ms = agent->lease_ms / 3;
    if (timeout_ms > AGENT_ANSWER_MS_MAX) timeout_ms = AGENT_ANSWER_MS_MAX;
    if (agent->mode == AGENT_FAREWELL) timeout_ms = AGENT_FAREWELL_MS;
    link_post(agent->link, body, timeout_ms < 100 ? 100 : timeout_ms);
}
