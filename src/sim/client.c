/* Clients that submit and cancel jobs until they are heard, the operator, and the jobs' work. */
#include "core/assert.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>

enum client_what { SUBMIT, CANCEL, REPEAT, DRAIN, GIVE_UP };

#define RETRY_US       (30 * SIM_SECOND_US)
#define CHECKPOINT_US  (2 * SIM_MINUTE_US) /* device-time between two checkpoints */
#define STEP_DEVICE_US (10 * SIM_SECOND_US)
#define PATIENCE_US    SIM_HOUR_US /* after the heal, with a job that nothing on sale can run */

struct sim_job *sim_job_find(struct sim *s, uint64_t job_id)
{
    return job_id >= 1 && job_id <= s->job_count ? &s->jobs[job_id - 1] : NULL;
}

static void tell_checkpoint(struct sim *s, const struct sim_job *job)
{
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_EVENTS, &index);
    message->count = 1;
    message->events[0] = (struct pool_event){.kind = POOL_EVENT_CKPT_DURABLE};
    message->events[0].u.ckpt_durable.job_id = job->submit.u.job_submitted.job_id;
    message->events[0].u.ckpt_durable.step = (uint64_t)(job->ckpt_us / STEP_DEVICE_US);
    sim_send_to_server(s, index);
}

void sim_job_advance(struct sim *s, struct sim_job *job)
{
    int64_t passed_us = s->now_us - job->advanced_us;
    job->advanced_us = s->now_us;
    if (job->running_devices >= job->submit.u.job_submitted.devices_min) job->formed = true;
    if (job->running_devices == 0 || !job->formed || job->complete) return;
    job->done_us += passed_us * job->running_devices;
    int64_t ckpt_us = job->done_us / CHECKPOINT_US * CHECKPOINT_US;
    if (job->done_us >= job->work_us) {
        job->done_us = job->work_us;
        ckpt_us = job->work_us;
        job->complete = true;
        SIM_SAY(s, "job %" PRIu64 ": all its work is done", job->submit.u.job_submitted.job_id);
    }
    if (ckpt_us > job->ckpt_us) {
        job->ckpt_us = ckpt_us;
        tell_checkpoint(s, job);
    }
}

static void send_submit(struct sim *s, uint32_t job)
{
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_SUBMIT, &index);
    message->origin = job;
    if (s->jobs[job].terms.kind != 0) message->events[message->count++] = s->jobs[job].terms;
    message->events[message->count++] = s->jobs[job].submit;
    sim_send_to_server(s, index);
}

static void send_cancel(struct sim *s, uint32_t job)
{
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_CANCEL, &index);
    message->origin = job;
    message->count = 1;
    message->events[0] = (struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED};
    message->events[0].u.job_cancelled.job_id = s->jobs[job].submit.u.job_submitted.job_id;
    sim_send_to_server(s, index);
}

void sim_client_acknowledged(struct sim *s, uint32_t message)
{
    struct sim_message *m = &s->messages[message];
    struct sim_job *job = &s->jobs[m->origin];
    bool lost = sim_faults_on(s) &&
                sim_random_chance(&s->random[SIM_STREAM_NETWORK], s->options.reply_loss_ppm);
    if (!lost && m->kind == SIM_MESSAGE_SUBMIT) job->acknowledged = true;
    if (!lost && m->kind == SIM_MESSAGE_CANCEL) job->cancel_acknowledged = true;
    sim_message_free(s, message);
}

void sim_client_cancel(struct sim *s, uint32_t job)
{
    struct sim_job *j = &s->jobs[job];
    if (j->cancel_wanted && !j->cancel_acknowledged) return; /* it is being said already */
    j->cancel_wanted = true;
    j->cancel_acknowledged = false;
    SIM_SAY(s, "client: cancels job %u", job + 1);
    sim_later(s, 0, SIM_CLIENT, CANCEL, 0, job);
}

void sim_client_submit_again(struct sim *s, uint32_t job)
{
    send_submit(s, job);
}

static void on_submit(struct sim *s, uint32_t index)
{
    struct sim_job *job = &s->jobs[index];
    if (job->acknowledged) return;
    if (!job->submitted) SIM_SAY(s, "client: submits job %u", index + 1);
    job->submitted = true;
    send_submit(s, index);
    sim_later(s, RETRY_US, SIM_CLIENT, SUBMIT, 0, index);
}

static void on_cancel(struct sim *s, uint32_t index)
{
    struct sim_job *job = &s->jobs[index];
    if (job->cancel_acknowledged) return;
    if (!job->cancel_wanted) SIM_SAY(s, "client: cancels job %u", index + 1);
    job->cancel_wanted = true;
    if (job->acknowledged) send_cancel(s, index); /* nobody cancels what was not accepted */
    sim_later(s, RETRY_US, SIM_CLIENT, CANCEL, 0, index);
}

/* The operator empties a machine that is up, picked at random. */
static void on_drain(struct sim *s)
{
    struct sim_random *random = &s->random[SIM_STREAM_CLIENT];
    if (!sim_faults_on(s)) return;
    sim_later(s, sim_random_exponential_us(random, s->options.drain_mean_us), SIM_CLIENT, DRAIN, 0,
              0);
    if (s->machine_count == 0) return;
    uint32_t machine = (uint32_t)sim_random_range(random, 0, s->machine_count - 1);
    if (s->machines[machine].phase != NODE_PHASE_UP) return;
    SIM_SAY(s, "operator: drains node %u", sim_shadow_node_number(s, s->machines[machine].key));
    struct pool_event event = {.kind = POOL_EVENT_NODE_DRAIN_ASKED};
    event.u.node_drain_asked.node_key = s->machines[machine].key;
    sim_server_tell(s, &event);
}

void sim_client_start(struct sim *s)
{
    for (uint32_t i = 0; i < s->job_count; i++) {
        struct sim_job *job = &s->jobs[i];
        job->advanced_us = s->now_us;
        sim_later(s, job->submit_us, SIM_CLIENT, SUBMIT, 0, i);
        if (job->cancel_us > 0) sim_later(s, job->cancel_us, SIM_CLIENT, CANCEL, 0, i);
        if (job->repeat_us > 0) sim_later(s, job->repeat_us, SIM_CLIENT, REPEAT, 0, i);
    }
    if (s->options.drain_mean_us > 0)
        sim_later(
            s, sim_random_exponential_us(&s->random[SIM_STREAM_CLIENT], s->options.drain_mean_us),
            SIM_CLIENT, DRAIN, 0, 0);
}

void sim_client_heal(struct sim *s)
{
    sim_later(s, PATIENCE_US, SIM_CLIENT, GIVE_UP, 0, 0);
    for (uint32_t i = 0; i < s->job_count; i++) sim_job_advance(s, &s->jobs[i]);
}

void sim_client_on(struct sim *s, const struct sim_occurrence *o)
{
    uint32_t index = (uint32_t)o->value;
    switch ((enum client_what)o->what) {
    case SUBMIT: on_submit(s, index); return;
    case CANCEL: on_cancel(s, index); return;
    case REPEAT:
        if (s->jobs[index].acknowledged) send_submit(s, index);
        return;
    case DRAIN: on_drain(s); return;
    case GIVE_UP:
        sim_later(s, PATIENCE_US, SIM_CLIENT, GIVE_UP, 0, 0);
        for (uint32_t i = 0; i < s->job_count; i++)
            if (!s->shadow->jobs[i].ended && !s->shadow->jobs[i].refused &&
                !sim_job_possible(s, &s->jobs[i]))
                sim_client_cancel(s, i);
        return;
    }
    UNREACHABLE();
}
