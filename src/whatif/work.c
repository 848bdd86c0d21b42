/* Progress of jobs: how fast a step goes with the devices a job has, and what a loss costs.
 *
 * A step of S NCU-seconds takes S over the speed of all devices when each has its share (by speed), or
 * S over (devices * the slowest) when all have the same; plus exchanges, plus orchestration. Slow
 * devices (stragglers) slow the share they have. Between two changes of membership the rate is constant.
 */
#include "core/assert.h"
#include "whatif/world.h"

enum { SAMPLES = 16, STREAM_STEPS = 5000 };

struct fleet {
    double nominal, speed, slowest; /* NCU: of all; with slow ones; of the slowest device */
    uint32_t devices, workers, region;
    bool one_region;
};

struct live_job *work_job_of_id(struct world *w, uint64_t job_id)
{
    if (job_id == 0 || job_id > w->next_job_id) return NULL;
    return &w->jobs[w->id_jobs[job_id - 1]];
}

static const struct scene_job *entry_of(const struct world *w, const struct live_job *job)
{
    return &w->scene->jobs[job->entry];
}

static struct fleet fleet_of(const struct world *w, const struct live_job *job)
{
    struct fleet f = {.slowest = 1e12, .one_region = true};
    const struct scene_job *entry = entry_of(w, job);
    double slow_share = (double)w->scene->straggler_ppm / 1e6;
    for (uint32_t k = job->first_worker; k != NONE; k = w->workers[k].next_of_job) {
        const struct live_worker *worker = &w->workers[k];
        if (worker->phase != WORKER_PHASE_RUNNING) continue;
        const struct live_node *n = &w->nodes[worker->node];
        const struct scene_offer *o = &w->scene->offers[n->offer];
        double each = scene_speed_milli(w->scene, entry, o->model) / 1000.0;
        uint32_t slow = n->slow_devices < worker->devices ? n->slow_devices : worker->devices;
        double least = slow > 0 ? each * slow_share : each;
        f.nominal += each * worker->devices;
        f.speed += each * (worker->devices - slow) + each * slow_share * slow;
        if (least < f.slowest) f.slowest = least;
        f.devices += worker->devices;
        if (f.workers++ == 0) f.region = o->region;
        f.one_region = f.one_region && f.region == o->region;
    }
    return f;
}

/* About normal: the sum of four uniform draws, mean 0, variance 1. */
static double draw_normal(struct sim_random *random)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += (double)(sim_random_next(random) >> 11) / 9007199254740992.0;
    return (sum - 2) * 1.7320508075688772;
}

/* A step of so many devices: how long it takes, and how much that wanders. */
struct pace {
    double mean_us, variance, exchange_us;
};

/* All devices wait for the last one. */
static double slowest_draw(struct sim_random *random, uint32_t devices, double jitter)
{
    double slowest = 0;
    for (uint32_t i = 0; i < devices && jitter > 0; i++) {
        double draw = jitter * draw_normal(random);
        if (draw > slowest) slowest = draw;
    }
    return slowest;
}

/* The latency of a network wanders more slowly than a step lasts, so all exchanges of a step are long or
 * short together. Sixteen steps are drawn; without jitter there is nothing to draw. */
static struct pace pace_of(struct world *w, const struct live_job *job, uint32_t devices,
                           double compute_us, double exchange_us, double net_jitter)
{
    double jitter = (double)entry_of(w, job)->jitter_ppm / 1e6, squares = 0;
    struct pace p = {.mean_us = compute_us + exchange_us, .exchange_us = exchange_us};
    if (jitter == 0 && (net_jitter == 0 || exchange_us == 0)) return p;
    struct sim_random random =
        sim_random_fork(w->seed * 1000003 + job->version, STREAM_STEPS + (uint64_t)(job - w->jobs));
    p = (struct pace){0};
    for (int i = 0; i < SAMPLES; i++) {
        double exchange = exchange_us * (1 + net_jitter * draw_normal(&random));
        if (exchange < 0) exchange = 0;
        double us = compute_us * (1 + slowest_draw(&random, devices, jitter)) + exchange;
        p.mean_us += us / SAMPLES;
        p.exchange_us += exchange / SAMPLES;
        squares += us * us / SAMPLES;
    }
    p.variance = squares > p.mean_us * p.mean_us ? squares - p.mean_us * p.mean_us : 0;
    return p;
}

static bool is_whole(const struct live_job *job)
{
    return job->devices >= job->devices_min && job->devices > 0;
}

static void set_rate(struct world *w, struct live_job *job)
{
    const struct scene_job *entry = entry_of(w, job);
    struct fleet f = fleet_of(w, job);
    const struct scene_net *net = f.one_region ? &w->scene->near : &w->scene->far;
    bool even = entry->split == SPLIT_EVEN || drive_is_fixed(w); /* plain data parallel programs */
    double step = (double)entry->step_ncu_us;
    double compute_us = even ? step / (f.slowest * f.devices) : step / f.speed;
    double exchange_us = f.workers > 1 ? (double)net->exchange_us * entry->exchanges : 0;
    struct pace p =
        pace_of(w, job, f.devices, compute_us, exchange_us, (double)net->jitter_ppm / 1e6);
    double orchestration_us = (double)entry->orchestration_us;
    double step_us = p.mean_us + orchestration_us;
    double every = (double)entry->checkpoint_every_us;
    double moving = every / (every + (double)entry->checkpoint_us); /* the rest it saves */
    job->speed = step / step_us * moving;
    job->ideal = f.nominal;
    job->productive = job->speed / f.nominal;
    job->step_cv2 = p.variance / (step_us * step_us);
    job->step_exchange = p.exchange_us / (step_us - p.exchange_us);
    job->step_overhead = orchestration_us / step_us * moving + (1 - moving);
}

static void plan_end(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    job->version++;
    if (job->stage != JOB_RUNS) return;
    double left = job->work - job->done;
    double need_us = left > 0 ? left / job->speed : 0;
    int64_t from_us = job->pause_until_us > w->now_us ? job->pause_until_us : w->now_us;
    if (need_us > 4e17) return; /* never, within any horizon */
    world_later(w, from_us + (int64_t)need_us + 1, ON_DONE, index, job->version);
}

static void note_rate(struct world *w, const struct live_job *job)
{
    bool runs = job->stage == JOB_RUNS;
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_RATE,
                                                .job = (uint32_t)(job - w->jobs),
                                                .value = runs ? (int64_t)(job->speed * 1000) : 0,
                                                .node = runs ? (uint32_t)(job->ideal * 1000) : 0});
}

/* The last checkpoint is as old as the time run since a whole number of intervals. */
static void save(const struct scene_job *entry, struct live_job *job, int64_t moved_us)
{
    int64_t since_us = job->since_saved_us + moved_us;
    if (since_us >= entry->checkpoint_every_us) {
        since_us %= entry->checkpoint_every_us;
        job->saved = job->done - job->speed * (double)since_us;
        if (job->saved < 0) job->saved = 0;
        job->since_saved_productive = 0;
        moved_us = since_us;
    }
    job->since_saved_us = since_us;
    job->since_saved_productive += (double)moved_us * job->devices * job->productive;
}

void work_advance(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    int64_t from_us = job->seen_us, passed_us = w->now_us - from_us;
    job->seen_us = w->now_us;
    if (passed_us <= 0 || job->stage == JOB_COMING || job->stage == JOB_ENDED) return;
    if (job->stage == JOB_STANDS) job->stood_us += passed_us;
    if (job->stage != JOB_RUNS) return;
    int64_t still_us = job->pause_until_us > from_us ? job->pause_until_us - from_us : 0;
    if (still_us > passed_us) still_us = passed_us;
    int64_t moved_us = passed_us - still_us;
    job->done += job->speed * (double)moved_us;
    if (job->done > job->work) job->done = job->work;
    job->productive_sum += (double)moved_us * job->devices * job->productive;
    job->running_sum += (double)passed_us;
    job->device_sum += (double)passed_us * job->devices;
    job->overhead_sum += (double)moved_us * job->step_overhead;
    job->cv2_sum += (double)moved_us * job->step_cv2;
    job->exchange_sum += (double)moved_us * job->step_exchange;
    job->pause_sum += (double)still_us;
    save(entry_of(w, job), job, moved_us);
}

static void pause(struct live_job *job, int64_t now_us, int64_t for_us)
{
    int64_t until_us = now_us + for_us;
    if (until_us > job->pause_until_us) job->pause_until_us = until_us;
}

static void begin(struct world *w, struct live_job *job)
{
    bool first = job->start_us == 0;
    if (first) job->start_us = w->now_us;
    if (!first) job->restarts++;
    job->stage = JOB_RUNS;
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_JOB_STARTS,
                                                .job = (uint32_t)(job - w->jobs)});
    pause(job, w->now_us, entry_of(w, job)->restart_us);
    said_begins(w, (uint32_t)(job - w->jobs));
}

void work_joined(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    if (job->stage == JOB_ENDED) return;
    bool ran = job->stage == JOB_RUNS;
    if (!ran && !is_whole(job)) return;
    if (!ran)
        begin(w, job);
    else
        pause(job, w->now_us,
              drive_restarts(w, job) ? entry_of(w, job)->restart_us : entry_of(w, job)->join_us);
    set_rate(w, job);
    plan_end(w, index);
    note_rate(w, job);
}

static void lose_work(struct live_job *job)
{
    double lost = job->done - job->saved;
    if (lost <= 0) return;
    job->lost_work += lost;
    job->done = job->saved;
    job->productive_sum -= job->since_saved_productive;
    job->since_saved_productive = 0;
    job->since_saved_us = 0;
}

static void stand(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    job->stage = JOB_STANDS;
    job->pause_until_us = 0;
    plan_end(w, index);
    note_rate(w, job);
    record_add(
        w->recorder,
        (struct record_row){.at_us = w->now_us - START_US, .kind = RECORD_JOB_WAITS, .job = index});
}

/* Who leaves in order has handed over: nothing is lost. Who is lost takes everything since the last
 * checkpoint along where the program cannot go on without it, or nobody is left who has the state. */
void work_left(struct world *w, uint32_t index, bool abrupt)
{
    struct live_job *job = &w->jobs[index];
    if (job->stage != JOB_RUNS) return;
    bool restarts = drive_restarts(w, job);
    bool lost = abrupt || entry_of(w, job)->ignores_notice;
    if (lost && (restarts || job->workers == 0)) lose_work(job);
    if (!lost && (restarts || job->workers == 0)) {
        job->saved = job->done;
        job->since_saved_us = 0;
        job->since_saved_productive = 0;
        said_saved(w, index);
    }
    if (!is_whole(job)) {
        stand(w, index);
        return;
    }
    if (restarts) job->restarts++;
    pause(job, w->now_us,
          restarts ? entry_of(w, job)->restart_us
          : abrupt ? entry_of(w, job)->loss_us
                   : entry_of(w, job)->join_us);
    set_rate(w, job);
    plan_end(w, index);
    note_rate(w, job);
}

void work_refresh(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    if (job->stage != JOB_RUNS) return;
    work_advance(w, index);
    set_rate(w, job);
    plan_end(w, index);
    note_rate(w, job);
}

/* All workers exit by themselves; those that were still starting, too. */
void work_done(struct world *w, uint32_t index, uint32_t version)
{
    struct live_job *job = &w->jobs[index];
    if (job->version != version || job->stage != JOB_RUNS) return;
    work_advance(w, index);
    job->done = job->work;
    job->stage = JOB_ENDED;
    job->end_us = w->now_us;
    note_rate(w, job);
    record_add(
        w->recorder,
        (struct record_row){.at_us = w->now_us - START_US, .kind = RECORD_JOB_ENDS, .job = index});
    while (job->first_worker != NONE) {
        uint32_t worker = job->first_worker;
        struct pool_event event = feed_event(POOL_EVENT_WORKER_REPORTED);
        event.u.worker_reported.node_key = UINT64_C(1) << 40 | w->workers[worker].node;
        event.u.worker_reported.job_id = job->job_id;
        event.u.worker_reported.worker_id = UINT64_C(1) << 40 | worker;
        event.u.worker_reported.step = said_step(w, job, job->done);
        event.u.worker_reported.phase = WORKER_PHASE_FINISHED;
        crew_end(w, worker, WORKER_PHASE_FINISHED);
        feed_tell(w, &event);
    }
    drive_ended(w, index);
}
