#include "agent/agent_state.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/event.h"
#include <inttypes.h>
#include <string.h>

static struct worker *find_worker(struct agent *agent, uint64_t id)
{
    for (uint32_t i = 0; i < agent->worker_count; i++)
        if (agent->workers[i]->id == id) return agent->workers[i];
    return NULL;
}

/* ---- what workers tell ---- */

static void on_changed(void *self, struct worker *worker)
{
    (void)worker;
    agent_wake(self);
}

static void on_said(void *self, struct worker *worker, struct worker_line *line)
{
    struct agent *agent = self;
    if (line->kind == WORKER_LINE_PROGRESS) {
        line->progress.job = worker->job; /* whatever it says: a worker speaks for its own job */
        progress_queue_add(&agent->progress, line);
        agent_wake(agent);
        if (agent->progress.dropped_count > agent->dropped_told) {
            agent->dropped_told = agent->progress.dropped_count;
            if (agent->dropped_told % 100 == 1)
                log_line(LOG_WARN, "agent", "the server is away too long, dropping oldest progress",
                         "dropped=%" PRIu64, agent->dropped_told);
        }
        return;
    }
    if (line->kind == WORKER_LINE_CKPT) {
        progress_queue_ckpt(&agent->progress, worker->job, line->step);
        agent_wake(agent);
    }
    if (line->kind == WORKER_LINE_STALL) {
        stall_board_take(&agent->stalls, worker->job, line, clock_monotonic_us());
        agent_wake(agent);
        return;
    }
    if (line->kind == WORKER_LINE_STACK) {
        worker_stall_take_stack(&worker->stall, line);
        agent_wake(agent);
        return;
    }
    worker_line_close(line);
}

static void on_wrote(void *self, struct worker *worker, const char *stream, const char *line,
                     size_t bytes, bool cut)
{
    struct agent *agent = self;
    log_queue_add(&agent->logs, &worker->log_source, worker->job, worker->id, stream, line, bytes,
                  cut, clock_wall_us());
}

/* ---- what the server wants ---- */

/* An ended worker that the server has heard the end of makes room. */
static bool make_room(struct agent *agent)
{
    if (agent->worker_count < AGENT_WORKERS_MAX) return true;
    for (uint32_t i = 0; i < agent->worker_count; i++) {
        if (!agent->workers[i]->quiet) continue;
        worker_close(agent->workers[i]);
        memmove(&agent->workers[i], &agent->workers[i + 1],
                (agent->worker_count - i - 1) * sizeof agent->workers[0]);
        agent->worker_count--;
        return true;
    }
    return false;
}

static void start(struct agent *agent, const struct reply_worker *wanted)
{
    cpu_set_t processors; /* at its devices */
    bool bound =
        layout_processors(agent->options.sysfs, &agent->layout, wanted->device_mask, &processors);
    const struct worker_place place = {
        .processors = bound ? &processors : NULL,
        .model = agent->options.device_model,
        .zone = agent->options.zone,
        .dir = agent->data_dir,
        .node_key = agent->options.node_key,
        .emulate_slot_us = agent->options.emulate_slot_us,
    };
    const struct worker_host host = {agent, on_changed, on_said, on_wrote};
    struct error error;
    struct worker *worker = NULL;
    if (!make_room(agent))
        (void)error_set(&error, "worker %" PRIu64 ": this node already holds %d", wanted->worker,
                        AGENT_WORKERS_MAX);
    else
        worker = worker_start(agent->loop, wanted, &place, &host, &error);
    if (worker == NULL) {
        log_line(LOG_ERROR, "agent", "cannot start a worker, the next reply tries again", "%s",
                 error.text);
        return;
    }
    worker->listed = true;
    agent->workers[agent->worker_count++] = worker;
    agent_wake(agent);
    log_line(LOG_INFO, "agent", "worker started", "job=%" PRIu64 " worker=%" PRIu64 " pid=%ld",
             worker->job, worker->id, (long)worker->pid);
}

static void take_wanted(struct agent *agent, const struct reply_worker *wanted, int64_t now_us)
{
    struct worker *worker = find_worker(agent, wanted->worker);
    if (worker != NULL) {
        worker->listed = true;
        worker->quiet = false;
    }
    if (wanted->want == REPLY_STOP && worker != NULL)
        worker_stop(worker, wanted->reason, now_us + wanted->deadline_ms * 1000, now_us);
    if (wanted->want == REPLY_RUN && worker == NULL && agent->mode == AGENT_RUNS)
        start(agent, wanted);
}

/* Workers the server no longer speaks of: running ones stop, ended ones need not be told again. */
static void take_unlisted(struct agent *agent, int64_t now_us)
{
    for (uint32_t i = 0; i < agent->worker_count; i++) {
        struct worker *worker = agent->workers[i];
        if (worker->listed) continue;
        if (worker_is_running(worker))
            worker_stop(worker, "unlisted", now_us + AGENT_LEAVE_MS * 1000, now_us);
        else if (worker->end_sent)
            worker->quiet = true;
    }
}

void agent_take_reply(struct agent *agent, const struct agent_reply *reply, int64_t now_us)
{
    agent->lease_ms = reply->lease_ms;
    agent->report_ms = reply->report_ms;
    log_queue_acknowledge(&agent->logs, reply->logs_after);
    progress_queue_acknowledge(&agent->progress, reply->progress_after);
    for (uint32_t i = 0; i < agent->worker_count; i++) agent->workers[i]->listed = false;
    for (uint32_t i = 0; i < reply->worker_count; i++)
        take_wanted(agent, &reply->workers[i], now_us);
    take_unlisted(agent, now_us);
    for (uint32_t i = 0; i < agent->worker_count; i++) {
        struct worker *worker = agent->workers[i];
        for (uint32_t p = 0; p < reply->peers_count; p++)
            if (reply->peers[p].job == worker->job) {
                worker_tell_peers(worker, &reply->peers[p]);
                worker_tell_told(worker, reply->peers[p].told);
            }
        if (reply->notice_ms > 0) worker_tell_notice(worker, reply->notice_ms);
    }
    if (reply->leave) agent_leave(agent, "node is let go", now_us);
}
