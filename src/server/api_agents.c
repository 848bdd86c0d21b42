/* The call of agents: their report in, what they should be doing out.
 *
 * Levels     A report carries everything. The core is told when something changed and at least each
 *            AGENT_LEVEL_US; the reply is made from the core's leases, so it is right whatever was
 *            lost before.
 * Stored     Progress and log lines are acknowledged (`..._after`) only after their commit; until
 *            then the agent sends them again, and each is stored once.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "codec/utc.h"
#include "server/server_state.h"
#include <inttypes.h>
#include <string.h>

struct visit {
    struct server *s;
    request *r;
    struct agent_report report;
    uint64_t node_key;
    uint64_t logs_after;     /* newest line this visit stores; 0 = none */
    uint64_t progress_after; /* newest step in this report: the reply acknowledges its rows */
};

static void visit_close(struct visit *v)
{
    agent_report_close(&v->report);
    mem_free(v);
}

/* News. */

static bool workers_changed(const struct agent_info *agent, const struct agent_report *report)
{
    if (agent->workers.count != report->worker_count) return true;
    for (uint32_t i = 0; i < report->worker_count; i++) {
        const struct report_worker *now = &report->workers[i];
        const struct agent_worker *before = agent_find_worker(agent, now->job, now->worker);
        if (before == NULL || before->phase != now->phase || before->exit_code != now->exit_code)
            return true;
    }
    return false;
}

static const char *push_agent(struct visit *v, struct agent_info *agent, uint32_t model)
{
    struct pool_event event = {.kind = POOL_EVENT_AGENT_REPORTED};
    event.u.agent_reported.node_key = v->node_key;
    event.u.agent_reported.phase = v->report.phase;
    event.u.agent_reported.device_count = v->report.device_count;
    event.u.agent_reported.model = model;
    event.u.agent_reported.groups = v->report.groups;
    if (v->report.rack[0] != '\0' &&
        !names_id(v->s->names, ID_RACK, v->report.rack, &event.u.agent_reported.rack))
        return "out of memory; try again";
    agent->phase = v->report.phase;
    agent->device_count = v->report.device_count;
    agent->model = model;
    agent->told_us = clock_monotonic_us();
    return pump_push(v->s->pump, &event);
}

static const char *push_workers(struct visit *v)
{
    const char *trouble = NULL;
    for (uint32_t i = 0; trouble == NULL && i < v->report.worker_count; i++) {
        const struct report_worker *worker = &v->report.workers[i];
        struct pool_event event = {.kind = POOL_EVENT_WORKER_REPORTED};
        event.u.worker_reported.node_key = v->node_key;
        event.u.worker_reported.job_id = worker->job;
        event.u.worker_reported.worker_id = worker->worker;
        event.u.worker_reported.step = worker->step;
        event.u.worker_reported.phase = worker->phase;
        event.u.worker_reported.exit_code = worker->exit_code;
        trouble = pump_push(v->s->pump, &event);
    }
    return trouble;
}

static const char *push_checkpoints(struct visit *v)
{
    const char *trouble = NULL;
    for (uint32_t i = 0; trouble == NULL && i < v->report.ckpt_count; i++) {
        struct job_view job;
        uint64_t job_id = v->report.ckpts[i].job, step = v->report.ckpts[i].step;
        if (!pool_job_find(v->s->pool, job_id, &job) || job.ckpt_step >= step) continue;
        struct pool_event event = {.kind = POOL_EVENT_CKPT_DURABLE};
        event.u.ckpt_durable.job_id = job_id;
        event.u.ckpt_durable.step = step;
        trouble = pump_push(v->s->pump, &event);
    }
    return trouble;
}

static uint64_t node_of_worker(struct server *s, uint64_t job_id, uint64_t worker_id)
{
    struct lease_range range = leases_of_job(&s->leases, job_id);
    for (uint32_t i = 0; i < range.count; i++)
        if (range.items[i].worker_id == worker_id) return range.items[i].node_key;
    return 0;
}

void server_stall_changed(void *self, const struct stall_change *change)
{
    struct server *s = self;
    struct job_view job;
    bool over = change->culprit == NULL && !change->is_stopped;
    if (!pool_job_find(s->pool, change->job_id, &job)) return;
    if (over && job.state != JOB_RUNNING) return; /* it has ended: that says enough */
    struct pool_event event = {.kind = POOL_EVENT_WORKER_STALLED};
    event.u.worker_stalled.job_id = change->job_id;
    event.u.worker_stalled.worker_id = change->worker_id;
    event.u.worker_stalled.step = change->step;
    event.u.worker_stalled.lasted_us = change->lasted_us < 0 ? 0 : change->lasted_us;
    event.u.worker_stalled.kind = over                 ? STALL_OVER
                                  : change->is_stopped ? STALL_STOPPED
                                                       : stall_kind_of(change->culprit);
    if (change->worker_id != 0 && leases_refresh(&s->leases, s->pool))
        event.u.worker_stalled.node_key = node_of_worker(s, change->job_id, change->worker_id);
    if (change->culprit != NULL && change->culprit->usual_us > 0) {
        int64_t permille = change->culprit->for_us * 1000 / change->culprit->usual_us;
        event.u.worker_stalled.slow_ppm =
            permille > UINT32_MAX / 1000 ? UINT32_MAX : (uint32_t)permille * 1000;
    }
    if (change->culprit != NULL) event.u.worker_stalled.peer_id = change->culprit->peer;
    const char *trouble = pump_push(s->pump, &event);
    if (trouble != NULL)
        log_line(LOG_WARN, "server", "a stall is not kept as a decision",
                 "job=%" PRIu64 " worker=%" PRIu64 " why=\"%s\"", change->job_id, change->worker_id,
                 trouble);
}

/* Levels for the core, if there is news or it is time. */
static const char *push_levels(struct visit *v, struct agent_info *agent, uint32_t model)
{
    bool news = agent->told_us == 0 || agent->phase != v->report.phase ||
                agent->device_count != v->report.device_count || agent->model != model ||
                workers_changed(agent, &v->report) ||
                clock_monotonic_us() - agent->told_us >= AGENT_LEVEL_US;
    agent->heard_us = clock_monotonic_us();
    agent->emulated = v->report.emulated;
    if (!agent_note_workers(agent, &v->report)) return "out of memory; try again";
    const char *trouble = NULL;
    if (news) trouble = push_agent(v, agent, model);
    if (news && trouble == NULL) trouble = push_workers(v);
    if (trouble == NULL) trouble = push_checkpoints(v);
    if (trouble != NULL) agent->told_us = 0; /* told again with the next report */
    return trouble;
}

/* Rows. */

static json_t *slots_row(struct visit *v, const struct report_slots *slots, uint64_t job_id)
{
    json_int_t node_key = 0;
    const char *model = "";
    struct lease_range range = leases_of_job(&v->s->leases, job_id);
    for (uint32_t i = 0; i < range.count; i++) {
        struct node_view node;
        if (range.items[i].worker_id != slots->worker) continue;
        node_key = (json_int_t)range.items[i].node_key;
        if (pool_node_find(v->s->pool, range.items[i].node_key, &node) &&
            node.model < v->s->catalog->model_count)
            model = v->s->catalog->models[node.model].name;
    }
    return json_pack("{s:I,s:I,s:s,s:s}", "worker", (json_int_t)slots->worker, "node", node_key,
                     "model", model, "slots", slots->slots);
}

static json_t *slots_rows(struct visit *v, const struct report_progress *progress, bool *failed)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < progress->worker_count; i++)
        json_append(rows, slots_row(v, &progress->workers[i], progress->job), failed);
    return rows;
}

/* A literal that outlives the report. */
static const char *not_finite_of(const struct report_progress *progress)
{
    if (progress->not_finite == NULL) return NULL;
    return strcmp(progress->not_finite, "skipped") == 0 ? "skipped" : "applied";
}

static bool push_progress(struct visit *v, const struct report_progress *progress)
{
    bool failed = false;
    json_t *workers = slots_rows(v, progress, &failed);
    char *text = json_finish_text(workers, failed);
    struct batch_progress *row =
        text == NULL ? NULL : array_push(&pump_batch(v->s->pump)->progress);
    if (row == NULL) {
        mem_free(text);
        return false;
    }
    *row = (struct batch_progress){.job_id = progress->job,
                                   .step = progress->step,
                                   .generation = progress->generation,
                                   .attempt = progress->attempt,
                                   .redone_slots = progress->redone_slots,
                                   .t_us = pump_now_us(v->s->pump),
                                   .loss = progress->loss,
                                   .not_finite = not_finite_of(progress),
                                   .workers = text};
    if (progress->step > v->progress_after) v->progress_after = progress->step;
    return true;
}

/* "2026-11-29T20:14:02.123Z" -> microseconds since 1970; what cannot be read is now. */
static int64_t time_of(struct visit *v, const char *text)
{
    int64_t at_us;
    return utc_parse(text, &at_us) ? at_us : pump_now_us(v->s->pump);
}

static bool push_log(struct visit *v, const struct report_log *log, uint64_t number, uint64_t boot)
{
    char *line = mem_strdup(log->line);
    struct batch_log *row = line == NULL ? NULL : array_push(&pump_batch(v->s->pump)->logs);
    if (row == NULL) {
        mem_free(line);
        return false;
    }
    *row = (struct batch_log){.job_id = log->job,
                              .worker_id = log->worker,
                              .node_key = v->node_key,
                              .boot = boot,
                              .number = number,
                              .t_us = time_of(v, log->time),
                              .is_error = strcmp(log->stream, "err") == 0,
                              .line = line};
    if (number > v->logs_after) v->logs_after = number;
    return true;
}

static const char *push_rows(struct visit *v, const struct agent_info *agent)
{
    (void)leases_refresh(&v->s->leases, v->s->pool); /* no memory: rows without node names */
    for (uint32_t i = 0; i < v->report.progress_count; i++)
        if (!push_progress(v, &v->report.progress[i])) return "out of memory; try again";
    for (uint32_t i = 0; i < v->report.log_count; i++) {
        uint64_t number = v->report.logs_after + 1 + i;
        if (number <= agent->logs_after) continue; /* stored before */
        if (!push_log(v, &v->report.logs[i], number, agent->boot))
            return "out of memory; try again";
    }
    return NULL;
}

/* After the commit. */

static json_t *progress_event(struct visit *v, const struct report_progress *progress)
{
    bool failed = false;
    json_t *event = json_object();
    json_set_u64(event, "job", progress->job, &failed);
    json_set_u64(event, "step", progress->step, &failed);
    json_set_i64(event, "t", pump_now_us(v->s->pump), &failed);
    json_set_real(event, "loss", progress->loss, &failed);
    json_set_u64(event, "generation", progress->generation, &failed);
    json_set_u64(event, "attempt", progress->attempt, &failed);
    json_set_u64(event, "redone_slots", progress->redone_slots, &failed);
    if (progress->not_finite != NULL)
        json_set_text(event, "not_finite", progress->not_finite, &failed);
    json_set(event, "workers", slots_rows(v, progress, &failed), &failed);
    return json_finish(event, failed);
}

/* Tells listeners and drivers about each step once: a report that is sent again is old news. */
static void announce(struct visit *v)
{
    for (uint32_t i = 0; i < v->report.progress_count; i++) {
        const struct report_progress *progress = &v->report.progress[i];
        struct job_info *info = jobs_find(&v->s->jobs, progress->job);
        if (info != NULL) jobs_note_step(info, progress->step);
        if (info == NULL || (info->progress_step >= progress->step && info->has_progress)) continue;
        info->progress_step = progress->step;
        info->has_progress = true;
        info->loss = progress->loss;
        providers_step_committed(&v->s->providers, progress->job, progress->step);
        if (!stream_has_clients(v->s->stream)) continue;
        stream_send(v->s->stream, "progress", progress_event(v, progress));
    }
}

static void on_stored(void *arg, const char *error)
{
    struct visit *v = arg;
    struct agent_info *agent = agents_find(&v->s->agents, v->node_key);
    if (error != NULL) {
        if (agent != NULL) agent->told_us = 0; /* the level was lost: told again next time */
        api_commit_failed(v->s, v->r, error);
    } else {
        if (agent != NULL && agent->logs_after < v->logs_after) agent->logs_after = v->logs_after;
        announce(v);
        agent_answer(v->s, v->r, v->node_key, v->progress_after);
    }
    visit_close(v);
}

static bool wants_commit(const struct visit *v, uint32_t events_before)
{
    const struct batch *b = pump_batch(v->s->pump);
    return b->events.count > events_before || v->report.progress_count > 0 || v->logs_after > 0;
}

static void take_report(struct visit *v, struct agent_info *agent, uint32_t model)
{
    uint64_t boot = agent_boot_of(&v->report);
    if (agent->boot != boot) agent->logs_after = 0;
    agent->boot = boot;
    uint32_t events_before = pump_batch(v->s->pump)->events.count;
    const char *trouble = push_levels(v, agent, model);
    if (trouble == NULL && !stalls_take(&v->s->stalls, v->node_key, &v->report,
                                        clock_monotonic_us(), server_stall_changed, v->s))
        trouble = "out of memory; try again";
    if (trouble == NULL) trouble = push_rows(v, agent);
    if (trouble != NULL) {
        request_fail(v->r, 503, "%s", trouble);
    } else if (!wants_commit(v, events_before)) {
        agent_answer(v->s, v->r, v->node_key, v->progress_after);
    } else if (pump_wait(v->s->pump, on_stored, v)) {
        return; /* v lives on */
    } else {
        request_fail(v->r, 503, "the server is stopping or out of memory; try again");
    }
    visit_close(v);
}

void api_agent_report(struct server *s, request *r)
{
    size_t bytes;
    struct error error;
    struct node_view node;
    uint32_t model = 0;
    const char *text = request_body(r, &bytes);
    struct visit *v = mem_zalloc(1, sizeof *v);
    if (v == NULL) {
        request_fail(r, 503, "out of memory; try again");
        return;
    }
    v->s = s;
    v->r = r;
    v->node_key = request_id(r);
    struct agent_info *agent = NULL;
    if (!agent_report_parse(text, bytes, &v->report, &error)) {
        request_fail(r, 400, "%s", error.text);
    } else if (!pool_node_find(s->pool, v->node_key, &node) || agent_is_unwanted(&node)) {
        agent_answer_leave(r);
    } else if (!catalog_find_model(s->catalog, v->report.device_model, &model)) {
        request_fail(r, 422, "device model \"%s\" is not in the catalog; add it there",
                     v->report.device_model);
    } else {
        agent = agents_get(&s->agents, v->node_key);
        if (agent != NULL) {
            take_report(v, agent, model);
            return;
        }
        request_fail(r, 503, "out of memory; try again");
    }
    visit_close(v);
}
