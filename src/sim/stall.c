/* Workers that hold their job up: what the rest of the group tells of them, and the check that
 * nobody else loses a node for it.
 *
 * The others tell it again and again while it lasts, through a network that loses, copies and
 * delays; a worker in a stall still stops when it is told to (its agent ends it).
 */
#include "core/limits.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>

enum stall_what { STRIKES, TOLD };

#define STALL_US_MAX (20 * SIM_MINUTE_US)

static bool is_running(const struct sim_worker *w)
{
    return w->phase == WORKER_PHASE_RUNNING;
}

static void tell(struct sim *s, const struct sim_worker *w, uint32_t kind)
{
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_EVENTS, &index);
    struct pool_event *event = &message->events[message->count++];
    *event = (struct pool_event){.kind = POOL_EVENT_WORKER_STALLED};
    event->u.worker_stalled.job_id = w->job_id;
    event->u.worker_stalled.node_key = w->key;
    event->u.worker_stalled.worker_id = w->id;
    event->u.worker_stalled.kind = kind;
    event->u.worker_stalled.lasted_us = s->now_us - w->stall_from_us;
    sim_send_to_server(s, index);
}

/* The others tell it, again and again, and that it is over. */
static void on_told(struct sim *s, uint32_t worker)
{
    struct sim_worker *w = &s->workers[worker];
    if (w->stall_kind == 0 || !is_running(w)) return;
    bool over = s->now_us >= w->stall_until_us || s->healed_us != 0;
    tell(s, w, over ? STALL_OVER : w->stall_kind);
    if (over)
        w->stall_kind = 0;
    else
        sim_later(s, STALL_TOLD_AGAIN_US, SIM_STALL, TOLD, 0, worker);
}

void sim_stall_begin(struct sim *s, uint32_t worker, uint32_t kind, int64_t for_us)
{
    struct sim_worker *w = &s->workers[worker];
    if (!is_running(w) || w->stall_kind != 0) return;
    SIM_SAY(s, "worker: %" PRIu64 " of job %" PRIu64 " holds it up", w->id & UINT32_MAX, w->job_id);
    w->stall_kind = kind;
    w->stall_until_us = s->now_us + for_us;
    if (w->stall_from_us == 0) w->stall_from_us = s->now_us;
    on_told(s, worker);
}

void sim_stall_expect(struct sim *s, uint32_t worker)
{
    struct sim_random *random = &s->machines[s->workers[worker].machine].random;
    sim_later(s, sim_random_exponential_us(random, s->options.worker_stall_mean_us), SIM_STALL,
              STRIKES, 0, worker);
}

static void on_strike(struct sim *s, uint32_t worker)
{
    struct sim_random *random = &s->machines[s->workers[worker].machine].random;
    if (!sim_faults_on(s) || s->workers[worker].phase > WORKER_PHASE_RUNNING) return;
    uint32_t kind = (uint32_t)sim_random_range(random, STALL_STOPPED, STALL_KIND_END - 1);
    sim_stall_begin(s, worker, kind, sim_random_range(random, SIM_SECOND_US, STALL_US_MAX));
    sim_stall_expect(s, worker);
}

void sim_stall_on(struct sim *s, const struct sim_occurrence *o)
{
    if (o->what == STRIKES)
        on_strike(s, (uint32_t)o->value);
    else
        on_told(s, (uint32_t)o->value);
}

static void on_decision(struct sim *s, const struct pool_decision *d)
{
    if (d->kind != DECISION_DRAIN) return;
    if (d->reason != REASON_CULPRIT_STALLED && d->reason != REASON_CULPRIT_SLOW) return;
    const struct pool_config *config = &s->options.pool;
    int64_t after_us =
        d->reason == REASON_CULPRIT_SLOW ? config->replace_slow_us : config->replace_stalled_us;
    int64_t found = sim_map_find(&s->worker_map, (uint64_t)d->b);
    const struct sim_worker *w = found == SIM_MAP_NONE ? NULL : &s->workers[found];
    struct shadow_job *job = sim_shadow_job(s, d->job_id);
    if (w == NULL || w->stall_from_us == 0 || w->key != d->node_key)
        sim_fail(s, "stalls", "node %u is replaced for a worker that held nothing up",
                 sim_shadow_node_number(s, d->node_key));
    else if (after_us == 0 || s->now_us - w->stall_from_us < after_us)
        sim_fail(s, "stalls", "node %u is replaced too early",
                 sim_shadow_node_number(s, d->node_key));
    if (job == NULL) return;
    if (job->replaced_us != 0 && s->server.now_us - job->replaced_us < REPLACE_QUIET_US)
        sim_fail(s, "stalls", "job %" PRIu64 " loses two nodes for stalls within minutes",
                 d->job_id);
    job->replaced_us = s->server.now_us;
}

const struct sim_checker sim_check_stalls = {.name = "stalls", .on_decision = on_decision};
