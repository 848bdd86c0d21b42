/* Who submits the jobs, and how. For the pool's own policies: as the scene says, once. For one_zone and
 * failover, which are not the pool's: a gang of fixed size, of one model in one zone, chosen here; a
 * zone is a region to the pool then, so that the gang stays in it. On a loss, one_zone waits for the
 * node to come back and starts again from the checkpoint; failover cancels the job, lets all go, and
 * submits what is left of it where it is cheapest then (as brokers that restart clusters do).
 */
#include "base/mem.h"
#include "core/assert.h"
#include "whatif/world.h"

enum { STREAM_ARRIVALS = 7000, STREAM_WORK = 8000, TRY_AGAIN_S = 60 };

#define TRY_AGAIN_US (TRY_AGAIN_S * PPM)

bool drive_is_fixed(const struct world *w)
{
    return w->c->policy == POLICY_ONE_ZONE || w->c->policy == POLICY_FAILOVER;
}

bool drive_restarts(const struct world *w, const struct live_job *job)
{
    return drive_is_fixed(w) || w->scene->jobs[job->entry].restarts;
}

/* exp(x) by squaring (1 + x / 1024): to a thousandth where it is used, the same everywhere. */
static double grow_by(double x)
{
    double y = 1 + x / 1024;
    if (y < 0) y = 0;
    for (int i = 0; i < 10; i++) y *= y;
    return y;
}

static double draw_work(const struct world *w, const struct scene_job *entry, uint32_t index,
                        uint32_t number)
{
    double work = (double)entry->work_milli_h * 3600e3; /* milli-NCU-hours to NCU-microseconds */
    if (entry->arrivals.count > 0) {
        const struct arrival *row = &entry->arrivals.rows[number];
        work = (double)entry->work_milli_h / 1000 * (double)row->run_us * row->devices;
    }
    if (entry->spread_ppm == 0) return work;
    struct sim_random random = sim_random_fork(w->seed * 1000003 + index, STREAM_WORK);
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(sim_random_next(&random) >> 11) / 9007199254740992.0;
    return work * grow_by((double)entry->spread_ppm / 1e6 * (sum - 2) * 1.7320508075688772);
}

/* Whether the world waits for its jobs. */
static bool counts(const struct world *w, uint32_t entry)
{
    return w->stop_group == 0 || w->scene->jobs[entry].group + 1 == w->stop_group;
}

static void make_job(struct world *w, uint32_t entry, uint32_t number, int64_t at_us)
{
    const struct scene_job *e = &w->scene->jobs[entry];
    uint32_t index = w->job_count++;
    struct live_job *job = &w->jobs[index];
    *job = (struct live_job){.entry = entry,
                             .number = number,
                             .devices_min = e->devices_min,
                             .devices_max = e->devices_max,
                             .first_worker = NONE};
    if (e->arrivals.count > 0)
        job->devices_min = job->devices_max = e->arrivals.rows[number].devices;
    job->work = draw_work(w, e, index, number);
    if (counts(w, entry)) w->live_jobs++;
    if (e->after == 0) world_later(w, START_US + at_us, ON_SUBMIT, index, 0);
}

/* A case without any job of the group that the world ends with ends with the last of all. */
static uint32_t stop_group_of(const struct world *w)
{
    for (uint32_t i = 0; i < w->scene->job_count; i++)
        if (scene_case_has_job(w->c, i) && w->scene->jobs[i].group + 1 == w->scene->stop_group)
            return w->scene->stop_group;
    return 0;
}

static void make_jobs(struct world *w, uint32_t entry)
{
    const struct scene_job *e = &w->scene->jobs[entry];
    struct sim_random gaps = sim_random_fork(w->seed, STREAM_ARRIVALS + entry);
    int64_t at_us = e->at_us;
    w->bases[entry] = w->job_count;
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->arrivals.count > 0)
            make_job(w, entry, i, e->at_us + e->arrivals.rows[i].at_us);
        else
            make_job(w, entry, i, at_us);
        if ((i + 1) % e->at_once != 0) continue;
        at_us += e->random_gaps ? sim_random_exponential_us(&gaps, e->every_us) : e->every_us;
    }
}

bool drive_open(struct world *w)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->scene->job_count; i++)
        if (scene_case_has_job(w->c, i)) count += w->scene->jobs[i].count;
    w->stop_group = stop_group_of(w);
    w->jobs = mem_zalloc(count + 1, sizeof *w->jobs);
    w->id_room = count + 1;
    w->id_jobs = mem_zalloc(w->id_room, sizeof *w->id_jobs);
    if (w->jobs == NULL || w->id_jobs == NULL) return false;
    for (uint32_t i = 0; i < w->scene->job_count; i++)
        if (scene_case_has_job(w->c, i)) make_jobs(w, i);
    return !w->failed;
}

static uint64_t new_id(struct world *w, uint32_t job)
{
    if (w->next_job_id == w->id_room) {
        uint32_t *more = mem_realloc(w->id_jobs, (size_t)w->id_room * 2 * sizeof *more);
        if (more == NULL) {
            w->failed = true;
            return 0;
        }
        w->id_jobs = more;
        w->id_room *= 2;
    }
    w->id_jobs[w->next_job_id] = job;
    return ++w->next_job_id;
}

/* ---- gangs of fixed size ---- */

/* Those of its row, of those of its entry. */
static uint64_t models_of(const struct world *w, const struct live_job *job)
{
    const struct scene_job *e = &w->scene->jobs[job->entry];
    uint64_t row = e->arrivals.count > 0 ? e->arrivals.rows[job->number].model_mask : 0;
    if (row == 0 || e->model_mask == 0) return row | e->model_mask;
    return (row & e->model_mask) != 0 ? row & e->model_mask : row;
}

static bool may_use(const struct world *w, const struct live_job *job, uint32_t offer)
{
    const struct scene_job *e = &w->scene->jobs[job->entry];
    uint64_t models = models_of(w, job);
    const struct scene_offer *o = &w->scene->offers[offer];
    if (!market_told(w, offer)) return false;
    if (models != 0 && (models >> o->model & 1) == 0) return false;
    if (e->capacity_mask != 0 && (e->capacity_mask >> o->capacity & 1) == 0) return false;
    return e->region == 0 || e->region == o->region;
}

/* As many as it asks for, or as the largest offer can ever give. */
static uint32_t gang_of(const struct world *w, const struct live_job *job)
{
    const struct scene_job *e = &w->scene->jobs[job->entry];
    uint64_t most = 0;
    for (uint32_t i = 0; i < w->scene->offer_count; i++) {
        const struct scene_offer *o = &w->scene->offers[i];
        uint64_t here = (uint64_t)o->stock * o->device_count;
        if (e->kind == JOB_KIND_BATCH) here = o->device_count;
        if (may_use(w, job, i) && here > most) most = here;
    }
    uint32_t wanted = e->arrivals.count > 0 ? job->devices_max : e->gang;
    return most < wanted ? (uint32_t)most : wanted;
}

/* Dollars for an NCU-hour; what is paid anyway costs nothing more. */
static double price_of(const struct world *w, const struct scene_job *e, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    if (o->paid_always) return 0;
    double ncu = scene_speed_milli(w->scene, e, o->model) / 1000.0 * o->device_count;
    return (double)w->offers[offer].usd_micros / ncu;
}

static bool is_above_bid(const struct world *w, uint32_t offer)
{
    const struct scene_offer *o = &w->scene->offers[offer];
    int64_t bid = feed_buying(w).u.buying_defined.bid_usd_micros;
    return o->capacity == CAPACITY_SPOT && market_is_above(w, offer, bid * o->device_count);
}

/* The cheapest that has the gang: now, or ever. NONE: there is none. */
static uint32_t choose(const struct world *w, const struct live_job *job, uint32_t gang, bool now)
{
    const struct scene_job *e = &w->scene->jobs[job->entry];
    uint32_t best = NONE;
    for (uint32_t i = 0; i < w->scene->offer_count; i++) {
        const struct scene_offer *o = &w->scene->offers[i];
        uint32_t nodes = now ? market_left(w, i) : o->stock;
        uint64_t devices = (uint64_t)nodes * o->device_count;
        if (e->kind == JOB_KIND_BATCH && nodes > 0) devices = o->device_count;
        if (!may_use(w, job, i) || devices < gang || (now && is_above_bid(w, i))) continue;
        if (best == NONE || price_of(w, e, i) < price_of(w, e, best)) best = i;
    }
    return best;
}

/* False: not now; tried again later, or never if there cannot be such a gang. */
static bool place(struct world *w, uint32_t index, struct pool_event *event)
{
    struct live_job *job = &w->jobs[index];
    uint32_t gang = gang_of(w, job);
    if (gang == 0 || gang < job->devices_min) {
        drive_refused(w, index);
        return false;
    }
    job->devices_min = job->devices_max = gang;
    uint32_t offer = choose(w, job, gang, w->c->policy == POLICY_FAILOVER);
    if (offer == NONE) {
        world_later(w, w->now_us + TRY_AGAIN_US, ON_SUBMIT, index, 0);
        return false;
    }
    const struct scene_offer *o = &w->scene->offers[offer];
    event->u.job_submitted.pool_mask = UINT64_C(1) << o->model;
    event->u.job_submitted.region = o->zone;
    event->u.job_submitted.capacity_mask = (uint8_t)(1U << o->capacity);
    event->u.job_submitted.devices_min = event->u.job_submitted.devices_max = gang;
    return true;
}

/* ---- submission ---- */

static struct pool_event submission(const struct world *w, const struct live_job *job)
{
    const struct scene_job *e = &w->scene->jobs[job->entry];
    struct pool_event event = feed_event(POOL_EVENT_JOB_SUBMITTED);
    event.u.job_submitted.spec_hash = job->entry + 1;
    event.u.job_submitted.capability_mask = 1;
    event.u.job_submitted.pool_mask = models_of(w, job);
    event.u.job_submitted.budget_usd_micros_per_hour = e->budget_usd_micros;
    event.u.job_submitted.devices_min = job->devices_min;
    event.u.job_submitted.devices_max = job->devices_max;
    event.u.job_submitted.tenant = e->group + 1;
    event.u.job_submitted.price_threshold_ppm = (uint32_t)w->scene->threshold_ppm;
    event.u.job_submitted.region = w->c->no_affinity ? 0 : e->region;
    event.u.job_submitted.job_class = (uint8_t)e->job_class;
    event.u.job_submitted.kind = (uint8_t)e->kind;
    event.u.job_submitted.capacity_mask = (uint8_t)e->capacity_mask;
    return event;
}

void drive_submit(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    if (job->stage == JOB_COMING) {
        job->stage = JOB_WAITS;
        job->submit_us = job->seen_us = w->now_us;
        record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                    .kind = RECORD_JOB_WAITS,
                                                    .job = index});
    }
    struct pool_event event = submission(w, job);
    if (drive_is_fixed(w) && !place(w, index, &event)) return;
    job->relaunching = false;
    job->job_id = new_id(w, index);
    event.u.job_submitted.job_id = job->job_id;
    event.u.job_submitted.terms_id = said_terms(w, index);
    if (!w->failed) feed_tell(w, &event);
}

void drive_lost(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    if (w->c->policy != POLICY_FAILOVER || job->relaunching || job->stage == JOB_ENDED) return;
    struct pool_event event = feed_event(POOL_EVENT_JOB_CANCELLED);
    event.u.job_cancelled.job_id = job->job_id;
    job->relaunching = true;
    feed_tell(w, &event);
    world_later(w, w->now_us + TRY_AGAIN_US + w->scene->handover_us, ON_SUBMIT, index, 0);
}

static void for_dependents(struct world *w, uint32_t index, void (*act)(struct world *, uint32_t))
{
    const struct live_job *job = &w->jobs[index];
    for (uint32_t e = job->entry + 1; e < w->scene->job_count; e++)
        if (w->scene->jobs[e].after == job->entry + 1 && scene_case_has_job(w->c, e))
            act(w, w->bases[e] + job->number);
}

static void submit_at_once(struct world *w, uint32_t index)
{
    world_later(w, w->now_us + w->scene->jobs[w->jobs[index].entry].at_us, ON_SUBMIT, index, 0);
}

void drive_ended(struct world *w, uint32_t index)
{
    if (counts(w, w->jobs[index].entry)) w->live_jobs--;
    for_dependents(w, index, submit_at_once);
}

void drive_refused(struct world *w, uint32_t index)
{
    struct live_job *job = &w->jobs[index];
    if (job->stage == JOB_ENDED || job->stage == JOB_REFUSED_BY_POOL) return;
    if (job->stage == JOB_COMING) job->submit_us = w->now_us; /* what it comes after never ends */
    job->stage = JOB_REFUSED_BY_POOL;
    if (counts(w, job->entry)) w->live_jobs--;
    for_dependents(w, index, drive_refused);
}
