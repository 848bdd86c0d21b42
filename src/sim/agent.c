/* Agents, one per machine, and the workers they run.
 *
 * An agent keeps a small file of the workers it has run, so that after its own crash it can say how
 * they ended and never starts a worker id a second time. It never runs more workers than it has
 * devices for. When its lease ends it stops everything and ends the machine: the bound on any leak.
 */
#include "core/assert.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>

enum agent_what {
    COMMAND,
    START,
    REPORT,
    REPLY,
    CRASH,
    SILENCE,
    WORKER_RUNS,
    WORKER_ENDS,
    WORKER_FAILS
};

#define NONE             UINT32_MAX
#define PPM              INT64_C(1000000)
#define AGENT_BOOT_US    (20 * SIM_SECOND_US) /* longest, from machine up to the first report */
#define AGENT_RESTART_US (20 * SIM_SECOND_US)
#define SILENCE_US_MAX   (2 * SIM_MINUTE_US)
#define WORKER_START_US  (5 * SIM_SECOND_US)
#define HANDOVER_US_MAX  (4 * SIM_SECOND_US)
#define EXIT_KILLED      137

static bool is_live(const struct sim_worker *w)
{
    return w->phase == WORKER_PHASE_STARTING || w->phase == WORKER_PHASE_RUNNING;
}

static bool is_silent(const struct sim *s, const struct sim_machine *m)
{
    return m->silent_until_us > s->now_us;
}

static int64_t drifted_us(const struct sim_machine *m, int64_t us)
{
    return us + us / PPM * m->drift_ppm;
}

static void move_worker(struct sim *s, uint32_t worker, uint32_t phase, int32_t exit_code)
{
    struct sim_worker *w = &s->workers[worker];
    if (w->phase == phase) return;
    struct sim_job *job = sim_job_find(s, w->job_id);
    if (job != NULL) sim_job_advance(s, job);
    if (job != NULL && phase == WORKER_PHASE_RUNNING) {
        job->running_devices += w->device_count;
        job->running_workers++;
    }
    if (job != NULL && w->phase == WORKER_PHASE_RUNNING) {
        job->running_devices -= w->device_count;
        job->running_workers--;
        if (job->running_workers == 0 && !job->complete) job->done_us = job->ckpt_us;
    }
    w->phase = phase;
    w->exit_code = exit_code;
}

static struct pool_event worker_event(struct sim *s, const struct sim_worker *w)
{
    struct pool_event event = {.kind = POOL_EVENT_WORKER_REPORTED};
    const struct sim_job *job = sim_job_find(s, w->job_id);
    event.u.worker_reported.node_key = w->key;
    event.u.worker_reported.job_id = w->job_id;
    event.u.worker_reported.worker_id = w->id;
    event.u.worker_reported.step =
        job == NULL ? 0 : (uint64_t)(job->done_us / (10 * SIM_SECOND_US));
    event.u.worker_reported.phase = w->phase;
    event.u.worker_reported.exit_code = w->exit_code;
    return event;
}

static void report(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (is_silent(s, m)) return;
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_REPORT, &index);
    message->origin = machine;
    struct pool_event *event = &message->events[message->count++];
    *event = (struct pool_event){.kind = POOL_EVENT_AGENT_REPORTED};
    event->u.agent_reported.node_key = m->key;
    event->u.agent_reported.phase = AGENT_PHASE_JOINED;
    event->u.agent_reported.device_count = m->device_count;
    event->u.agent_reported.model = s->offers[m->offer].model;
    for (uint32_t i = m->first_worker; i != NONE; i = s->workers[i].next) {
        const struct sim_worker *w = &s->workers[i];
        if (!is_live(w) && w->acknowledged) continue;
        if (message->count == SIM_BUNDLE_MAX) break; /* the next report has room */
        message->events[message->count++] = worker_event(s, w);
    }
    sim_send_to_server(s, index);
}

static void stop_all(struct sim *s, uint32_t machine, uint32_t phase)
{
    for (uint32_t i = s->machines[machine].first_worker; i != NONE; i = s->workers[i].next)
        if (is_live(&s->workers[i]))
            move_worker(s, i, phase, phase == WORKER_PHASE_FAILED ? EXIT_KILLED : 0);
}

void sim_agent_machine_gone(struct sim *s, uint32_t machine)
{
    stop_all(s, machine, WORKER_PHASE_FAILED);
    s->machines[machine].agent_running = false;
}

void sim_agent_boot(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    m->drift_ppm =
        s->options.agent_drift_ppm == 0
            ? 0
            : sim_random_range(&m->random, -s->options.agent_drift_ppm, s->options.agent_drift_ppm);
    /* A stranger whose agent is dead is known to nobody but its provider's own list. */
    bool dead = !m->stranger && sim_random_chance(&m->random, s->options.agent_dead_ppm);
    if (sim_faults_on(s) && dead) {
        SIM_SAY(s, "agent: never starts on node %u", sim_shadow_node_number(s, m->key));
        return;
    }
    int64_t boot_us = sim_random_range(&m->random, SIM_SECOND_US, AGENT_BOOT_US);
    sim_later(s, boot_us, SIM_AGENT, START, 0, machine);
    if (s->options.agent_crash_mean_us > 0)
        sim_later(s, sim_random_exponential_us(&m->random, s->options.agent_crash_mean_us),
                  SIM_AGENT, CRASH, 0, machine);
    if (s->options.agent_silence_mean_us > 0)
        sim_later(s, sim_random_exponential_us(&m->random, s->options.agent_silence_mean_us),
                  SIM_AGENT, SILENCE, 0, machine);
}

static void start(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (m->phase != NODE_PHASE_UP || m->agent_running) return;
    m->agent_running = true;
    m->lease_until_us = s->now_us + drifted_us(m, s->options.pool.agent_lease_us);
    SIM_SAY(s, "agent: starts on node %u", sim_shadow_node_number(s, m->key));
    sim_later(s, 0, SIM_AGENT, REPORT, 0, machine);
}

static void finish_workers(struct sim *s, uint32_t machine)
{
    for (uint32_t i = s->machines[machine].first_worker; i != NONE; i = s->workers[i].next) {
        if (s->workers[i].phase != WORKER_PHASE_RUNNING) continue;
        struct sim_job *job = sim_job_find(s, s->workers[i].job_id);
        if (job == NULL) continue;
        sim_job_advance(s, job);
        if (job->complete) move_worker(s, i, WORKER_PHASE_FINISHED, 0);
    }
}

static void on_report(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (!m->agent_running) return;
    if (s->now_us >= m->lease_until_us) {
        SIM_SAY(s, "agent: the lease of node %u ends, it stops everything",
                sim_shadow_node_number(s, m->key));
        sim_cloud_take(s, machine, NODE_REASON_RELEASED);
        return;
    }
    finish_workers(s, machine);
    report(s, machine);
    sim_later(s, drifted_us(m, s->options.report_us), SIM_AGENT, REPORT, 0, machine);
}

/* The server has the report on disk: it goes back through the same network. */
void sim_agent_replied(struct sim *s, uint32_t message, bool leave)
{
    struct sim_random *random = &s->random[SIM_STREAM_NETWORK];
    if (sim_faults_on(s) && sim_random_chance(random, s->options.reply_loss_ppm)) {
        sim_message_free(s, message);
        return;
    }
    int64_t delay_us = sim_random_range(random, s->options.delay_us_min, s->options.delay_us_max);
    sim_later(s, delay_us, SIM_AGENT, REPLY, leave ? 1 : 0, message);
}

static void on_reply(struct sim *s, uint32_t message, bool leave)
{
    struct sim_message *reply = &s->messages[message];
    struct sim_machine *m = &s->machines[reply->origin];
    if (m->agent_running && !is_silent(s, m)) {
        m->lease_until_us = s->now_us + drifted_us(m, s->options.pool.agent_lease_us);
        for (uint32_t i = 1; i < reply->count; i++) {
            int64_t found =
                sim_map_find(&s->worker_map, reply->events[i].u.worker_reported.worker_id);
            if (found == SIM_MAP_NONE) continue;
            struct sim_worker *w = &s->workers[found];
            if (reply->events[i].u.worker_reported.phase == w->phase && !is_live(w))
                w->acknowledged = true;
        }
        if (leave) {
            SIM_SAY(s, "agent: node %u is told to leave", sim_shadow_node_number(s, m->key));
            sim_cloud_take(s, reply->origin, NODE_REASON_RELEASED);
        }
    }
    sim_message_free(s, message);
}

static void on_crash(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (!sim_faults_on(s) || m->phase != NODE_PHASE_UP) return;
    sim_later(s, sim_random_exponential_us(&m->random, s->options.agent_crash_mean_us), SIM_AGENT,
              CRASH, 0, machine);
    if (!m->agent_running) return;
    bool orderly =
        sim_random_chance(&m->random, 500000); /* an update: it stops its workers first */
    SIM_SAY(s, "agent: %s on node %u", orderly ? "restarts" : "crashes",
            sim_shadow_node_number(s, m->key));
    stop_all(s, machine, orderly ? WORKER_PHASE_STOPPED : WORKER_PHASE_FAILED);
    m->agent_running = false;
    sim_later(s, sim_random_range(&m->random, SIM_SECOND_US, AGENT_RESTART_US), SIM_AGENT, START, 0,
              machine);
}

static void on_silence(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (!sim_faults_on(s) || m->phase != NODE_PHASE_UP) return;
    sim_later(s, sim_random_exponential_us(&m->random, s->options.agent_silence_mean_us), SIM_AGENT,
              SILENCE, 0, machine);
    int64_t silence_us = sim_random_range(&m->random, SIM_SECOND_US, SILENCE_US_MAX);
    SIM_SAY(s, "agent: node %u is cut off for %" PRId64 " s", sim_shadow_node_number(s, m->key),
            silence_us / SIM_SECOND_US);
    m->silent_until_us = s->now_us + silence_us;
}

static uint32_t worker_new(struct sim *s, uint32_t machine, const struct pool_command *command,
                           uint32_t phase)
{
    if (s->worker_count == SIM_WORKERS_MAX) {
        sim_fail(s, "bounds", "more than %u workers were asked for", SIM_WORKERS_MAX);
        return 0;
    }
    uint32_t index = s->worker_count++;
    struct sim_machine *m = &s->machines[machine];
    s->workers[index] = (struct sim_worker){.id = command->worker_id,
                                            .job_id = command->job_id,
                                            .key = command->node_key,
                                            .machine = machine,
                                            .phase = phase,
                                            .device_count = command->device_count,
                                            .next = m->first_worker};
    m->first_worker = index;
    sim_map_put(&s->worker_map, command->worker_id, index);
    return index;
}

static uint32_t devices_used(const struct sim *s, const struct sim_machine *m)
{
    uint32_t used = 0;
    for (uint32_t i = m->first_worker; i != NONE; i = s->workers[i].next)
        if (is_live(&s->workers[i])) used += s->workers[i].device_count;
    return used;
}

static void ensure_worker(struct sim *s, uint32_t machine, const struct pool_command *command)
{
    struct sim_machine *m = &s->machines[machine];
    if (sim_map_find(&s->worker_map, command->worker_id) != SIM_MAP_NONE) return; /* known */
    if (devices_used(s, m) + command->device_count > m->device_count) {
        SIM_SAY(s, "agent: node %u has no free device yet", sim_shadow_node_number(s, m->key));
        return; /* asked again later */
    }
    uint32_t worker = worker_new(s, machine, command, WORKER_PHASE_STARTING);
    sim_later(s, sim_random_range(&m->random, SIM_SECOND_US / 10, WORKER_START_US), SIM_AGENT,
              WORKER_RUNS, 0, worker);
    if (s->options.worker_failure_mean_us > 0)
        sim_later(s, sim_random_exponential_us(&m->random, s->options.worker_failure_mean_us),
                  SIM_AGENT, WORKER_FAILS, 0, worker);
    if (s->options.worker_stall_mean_us > 0) sim_stall_expect(s, worker);
}

static void stop_worker(struct sim *s, uint32_t machine, const struct pool_command *command)
{
    int64_t found = sim_map_find(&s->worker_map, command->worker_id);
    if (found == SIM_MAP_NONE) { /* it never came to be, and now never will */
        (void)worker_new(s, machine, command, WORKER_PHASE_STOPPED);
        report(s, machine);
        return;
    }
    if (!is_live(&s->workers[found])) {
        s->workers[found].acknowledged = false; /* asked again: say again how it ended */
        return;
    }
    int64_t left_us = command->deadline_us > s->now_us ? command->deadline_us - s->now_us : 0;
    if (left_us > HANDOVER_US_MAX) left_us = HANDOVER_US_MAX;
    sim_later(s, sim_random_range(&s->machines[machine].random, 0, left_us), SIM_AGENT, WORKER_ENDS,
              0, (uint32_t)found);
}

static void sim_agent_command(struct sim *s, const struct pool_command *command)
{
    int64_t found = sim_map_find(&s->machine_map, command->node_key);
    if (found == SIM_MAP_NONE) return;
    const struct sim_machine *m = &s->machines[found];
    if (!m->agent_running || is_silent(s, m)) return;
    if (command->kind == POOL_COMMAND_ENSURE_WORKER)
        ensure_worker(s, (uint32_t)found, command);
    else
        stop_worker(s, (uint32_t)found, command);
}

static void on_worker(struct sim *s, enum agent_what what, uint32_t worker)
{
    struct sim_worker *w = &s->workers[worker];
    if (!is_live(w)) return;
    if (what == WORKER_RUNS) {
        move_worker(s, worker, WORKER_PHASE_RUNNING, 0);
    } else if (what == WORKER_ENDS) {
        move_worker(s, worker, WORKER_PHASE_STOPPED, 0);
    } else {
        if (!sim_faults_on(s)) return;
        SIM_SAY(s, "worker: %" PRIu64 " of job %" PRIu64 " fails", w->id & UINT32_MAX, w->job_id);
        move_worker(s, worker, WORKER_PHASE_FAILED, 1);
    }
    if (s->machines[w->machine].agent_running) report(s, w->machine);
}

/* Who is cut off is heard again; who never started stays dead until the core lets the node go. */
void sim_agent_heal(struct sim *s)
{
    for (uint32_t i = 0; i < s->machine_count; i++) s->machines[i].silent_until_us = 0;
}

void sim_agent_on(struct sim *s, const struct sim_occurrence *o)
{
    uint32_t index = (uint32_t)o->value;
    switch ((enum agent_what)o->what) {
    case COMMAND:
        sim_agent_command(s, &s->messages[index].command);
        sim_message_free(s, index);
        return;
    case START: start(s, index); return;
    case REPORT: on_report(s, index); return;
    case REPLY: on_reply(s, index, o->key == 1); return;
    case CRASH: on_crash(s, index); return;
    case SILENCE: on_silence(s, index); return;
    case WORKER_RUNS:
    case WORKER_ENDS:
    case WORKER_FAILS: on_worker(s, (enum agent_what)o->what, index); return;
    }
    UNREACHABLE();
}
