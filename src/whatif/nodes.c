/* Nodes and the workers on them, as providers and agents would have it. */
#include "base/mem.h"
#include "core/assert.h"
#include "whatif/world.h"

#define COUNTER(key) ((uint32_t)((key) & ((UINT64_C(1) << 40) - 1)))
#define KEY(index)   (UINT64_C(1) << 40 | (index))

/* ---- tables: by counter, which the pool gives out one by one ---- */

static bool grow(void **rows, uint32_t *room, uint32_t index, size_t bytes)
{
    if (index < *room) return true;
    uint32_t wanted = *room == 0 ? 256 : *room;
    while (wanted <= index) wanted *= 2;
    uint8_t *more = mem_realloc(*rows, wanted * bytes);
    if (more == NULL) return false;
    for (size_t i = *room * bytes; i < wanted * bytes; i++) more[i] = 0;
    *rows = more;
    *room = wanted;
    return true;
}

/* NULL: out of memory, and the world ends. */
static struct live_node *node_at(struct world *w, uint32_t index)
{
    void *rows = w->nodes;
    if (!grow(&rows, &w->node_room, index, sizeof *w->nodes)) {
        w->failed = true;
        return NULL;
    }
    w->nodes = rows;
    if (index >= w->node_count) w->node_count = index + 1;
    return &w->nodes[index];
}

static struct live_worker *worker_at(struct world *w, uint32_t index)
{
    void *rows = w->workers;
    if (!grow(&rows, &w->worker_room, index, sizeof *w->workers)) {
        w->failed = true;
        return NULL;
    }
    w->workers = rows;
    if (index >= w->worker_count) w->worker_count = index + 1;
    return &w->workers[index];
}

/* ---- what the pool hears ---- */

static void tell_node(struct world *w, uint32_t node, uint32_t phase, uint32_t reason)
{
    const struct live_node *n = &w->nodes[node];
    struct pool_event event = feed_event(POOL_EVENT_NODE_OBSERVED);
    event.u.node_observed.node_key = KEY(node);
    event.u.node_observed.phase = phase;
    event.u.node_observed.reason = reason;
    event.u.node_observed.notice_us = n->notice_us;
    event.u.node_observed.up_since_us = phase == NODE_PHASE_UP ? n->up_us : 0;
    event.u.node_observed.billed_usd_micros = -1;
    feed_tell(w, &event);
}

static void tell_agent(struct world *w, uint32_t node)
{
    const struct scene_offer *o = &w->scene->offers[w->nodes[node].offer];
    struct pool_event event = feed_event(POOL_EVENT_AGENT_REPORTED);
    event.u.agent_reported.node_key = KEY(node);
    event.u.agent_reported.phase = AGENT_PHASE_JOINED;
    event.u.agent_reported.device_count = o->device_count;
    event.u.agent_reported.model = o->model;
    feed_tell(w, &event);
}

void crew_tell(struct world *w, uint32_t worker)
{
    const struct live_worker *k = &w->workers[worker];
    const struct live_job *job = &w->jobs[k->job];
    struct pool_event event = feed_event(POOL_EVENT_WORKER_REPORTED);
    event.u.worker_reported.node_key = KEY(k->node);
    event.u.worker_reported.job_id = job->job_id;
    event.u.worker_reported.worker_id = KEY(worker);
    event.u.worker_reported.step = said_step(w, job, job->done);
    event.u.worker_reported.phase = k->phase;
    feed_tell(w, &event);
}

/* ---- nodes ---- */

static void enlist(struct world *w, uint32_t node)
{
    struct live_node *n = &w->nodes[node];
    struct live_offer *o = &w->offers[n->offer];
    n->before = NONE;
    n->next = o->first_node;
    if (n->next != NONE) w->nodes[n->next].before = node;
    o->first_node = node;
    o->held++;
}

static void delist(struct world *w, uint32_t node)
{
    struct live_node *n = &w->nodes[node];
    struct live_offer *o = &w->offers[n->offer];
    ASSERT(o->held > 0);
    o->held--;
    if (n->next != NONE) w->nodes[n->next].before = n->before;
    if (n->before != NONE)
        w->nodes[n->before].next = n->next;
    else
        o->first_node = n->next;
}

static bool is_live(const struct live_node *n)
{
    return n->phase == NODE_PHASE_PENDING || n->phase == NODE_PHASE_UP;
}

void site_ensure(struct world *w, const struct pool_command *command)
{
    uint32_t index = COUNTER(command->node_key), offer = (uint32_t)command->offer_id - 1;
    bool known = index < w->node_count && w->nodes[index].phase != 0;
    struct live_node *n = node_at(w, index);
    if (n == NULL) return;
    if (!known) {
        const struct scene_offer *o = &w->scene->offers[offer];
        bool refused =
            market_left(w, offer) == 0 || market_is_above(w, offer, command->bid_usd_micros);
        *n = (struct live_node){.offer = offer,
                                .first_worker = NONE,
                                .phase = refused ? NODE_PHASE_REFUSED : NODE_PHASE_PENDING,
                                .bid_usd_micros = command->bid_usd_micros};
        if (!refused) {
            enlist(w, index);
            int64_t boot_us =
                sim_random_range(&w->offers[offer].lives, o->boot_min_us, o->boot_max_us);
            world_later(w, w->now_us + boot_us, ON_UP, index, 0);
        }
    }
    tell_node(w, index, n->phase, n->phase == NODE_PHASE_REFUSED ? NODE_REASON_STOCKOUT : 0);
}

static void plan_life(struct world *w, uint32_t node)
{
    struct live_node *n = &w->nodes[node];
    const struct scene_offer *o = &w->scene->offers[n->offer];
    struct sim_random *random = &w->offers[n->offer].lives;
    if (o->life_us > 0)
        world_later(w, w->now_us + sim_random_exponential_us(random, o->life_us), ON_NOTICE, node,
                    0);
    if (w->scene->straggler_mean_us > 0)
        world_later(w,
                    w->now_us + sim_random_exponential_us(
                                    random, w->scene->straggler_mean_us / o->device_count + 1),
                    ON_SLOW, node, 0);
}

static void come_up(struct world *w, uint32_t node)
{
    struct live_node *n = &w->nodes[node];
    if (n->phase != NODE_PHASE_PENDING) return;
    n->phase = NODE_PHASE_UP;
    n->up_us = w->now_us;
    market_paid(w, n->offer);
    n->paid_before = w->offers[n->offer].paid;
    w->begun++;
    plan_life(w, node);
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_NODE_UP,
                                                .node = node,
                                                .offer = n->offer});
    tell_node(w, node, NODE_PHASE_UP, NODE_REASON_NONE);
    tell_agent(w, node);
}

/* What it cost goes to the books, unless all of its offer is paid whether used or not. */
static void close_bill(struct world *w, uint32_t node, bool taken)
{
    struct live_node *n = &w->nodes[node];
    const struct scene_offer *o = &w->scene->offers[n->offer];
    if (n->phase != NODE_PHASE_UP) return;
    market_paid(w, n->offer);
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_NODE_END,
                                                .node = node,
                                                .offer = n->offer,
                                                .value = taken               ? 1
                                                         : n->notice_us != 0 ? 2
                                                                             : 0});
    w->metered_usd += w->offers[n->offer].paid - n->paid_before;
    if (o->paid_always) return;
    w->bought_usd += w->offers[n->offer].paid - n->paid_before;
    w->bought_device_us += (double)(w->now_us - n->up_us) * o->device_count;
}

static void end(struct world *w, uint32_t node, bool taken)
{
    struct live_node *n = &w->nodes[node];
    close_bill(w, node, taken);
    n->phase = NODE_PHASE_GONE;
    delist(w, node);
    while (n->first_worker != NONE) crew_end(w, n->first_worker, WORKER_PHASE_FAILED);
}

/* Jobs there that begin elsewhere on a loss do so before the pool looks for a replacement. */
static void tell_jobs(struct world *w, uint32_t node)
{
    for (uint32_t k = w->nodes[node].first_worker; k != NONE;) {
        uint32_t next = w->workers[k].next_on_node, job = w->workers[k].job;
        drive_lost(w, job);
        k = next;
    }
}

/* By its provider, now. */
static void site_take(struct world *w, uint32_t node)
{
    struct live_node *n = &w->nodes[node];
    if (!is_live(n)) return;
    if (n->phase == NODE_PHASE_UP && n->notice_us == 0) w->preemptions++;
    tell_jobs(w, node);
    end(w, node, true);
    tell_node(w, node, NODE_PHASE_GONE, NODE_REASON_PREEMPTED);
    n->notice_us = 0;
}

void site_notice(struct world *w, uint32_t node)
{
    struct live_node *n = &w->nodes[node];
    int64_t notice_us = w->scene->offers[n->offer].notice_us;
    if (!is_live(n) || n->notice_us != 0) return;
    if (notice_us == 0 || n->phase == NODE_PHASE_PENDING) {
        site_take(w, node);
        return;
    }
    tell_jobs(w, node);
    w->preemptions++;
    n->notice_us = w->now_us + notice_us;
    world_later(w, n->notice_us, ON_TAKE, node, 0);
    tell_node(w, node, n->phase, NODE_REASON_NONE);
}

void site_release(struct world *w, uint64_t key)
{
    uint32_t index = COUNTER(key);
    struct live_node *n = node_at(w, index);
    if (n == NULL) return;
    bool was_up = n->phase == NODE_PHASE_UP;
    if (is_live(n)) end(w, index, false);
    n->notice_us = 0;
    tell_node(w, index, was_up ? NODE_PHASE_GONE : NODE_PHASE_ABSENT, NODE_REASON_RELEASED);
}

void site_observe(struct world *w, uint64_t key)
{
    uint32_t index = COUNTER(key);
    const struct live_node *n = node_at(w, index);
    if (n == NULL) return;
    tell_node(w, index, n->phase == 0 ? (uint32_t)NODE_PHASE_ABSENT : n->phase, NODE_REASON_NONE);
}

void site_close_all(struct world *w)
{
    for (uint32_t n = 0; n < w->node_count; n++) {
        if (!is_live(&w->nodes[n])) continue;
        while (w->nodes[n].first_worker != NONE)
            crew_end(w, w->nodes[n].first_worker, WORKER_PHASE_STOPPED);
        close_bill(w, n, false);
        w->nodes[n].phase = NODE_PHASE_GONE;
    }
}

/* ---- workers ---- */

static void link_worker(struct world *w, uint32_t worker)
{
    struct live_worker *k = &w->workers[worker];
    struct live_node *n = &w->nodes[k->node];
    struct live_job *job = &w->jobs[k->job];
    k->next_on_node = n->first_worker;
    n->first_worker = worker;
    k->before_of_job = NONE;
    k->next_of_job = job->first_worker;
    if (k->next_of_job != NONE) w->workers[k->next_of_job].before_of_job = worker;
    job->first_worker = worker;
}

static void unlink_worker(struct world *w, uint32_t worker)
{
    struct live_worker *k = &w->workers[worker];
    uint32_t *at = &w->nodes[k->node].first_worker;
    while (*at != worker) at = &w->workers[*at].next_on_node;
    *at = k->next_on_node;
    if (k->next_of_job != NONE) w->workers[k->next_of_job].before_of_job = k->before_of_job;
    if (k->before_of_job != NONE)
        w->workers[k->before_of_job].next_of_job = k->next_of_job;
    else
        w->jobs[k->job].first_worker = k->next_of_job;
}

void crew_ensure(struct world *w, const struct pool_command *command)
{
    uint32_t index = COUNTER(command->worker_id), node = COUNTER(command->node_key);
    bool known = index < w->worker_count && w->workers[index].phase != 0;
    struct live_job *job = work_job_of_id(w, command->job_id);
    struct live_worker *k = worker_at(w, index);
    if (k == NULL || job == NULL || w->nodes[node].phase != NODE_PHASE_UP) return;
    if (known) {
        crew_tell(w, index);
        return;
    }
    market_paid(w, w->nodes[node].offer);
    *k = (struct live_worker){.job = (uint32_t)(job - w->jobs),
                              .node = node,
                              .devices = command->device_count,
                              .phase = WORKER_PHASE_STARTING,
                              .since_us = w->now_us,
                              .paid_before = w->offers[w->nodes[node].offer].paid};
    link_worker(w, index);
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_WORKER,
                                                .node = node,
                                                .job = k->job,
                                                .offer = w->nodes[node].offer,
                                                .value = k->devices});
    world_later(w, w->now_us + w->scene->worker_start_us, ON_RUNS, index, 0);
}

void crew_stop(struct world *w, const struct pool_command *command)
{
    uint32_t index = COUNTER(command->worker_id);
    struct live_job *job = work_job_of_id(w, command->job_id);
    struct live_worker *k = worker_at(w, index);
    if (k == NULL) return;
    if (k->phase == 0) { /* it never came to be, and now never will */
        if (job == NULL) return;
        *k = (struct live_worker){.job = (uint32_t)(job - w->jobs),
                                  .node = COUNTER(command->node_key),
                                  .phase = WORKER_PHASE_STOPPED};
    }
    if (k->phase != WORKER_PHASE_STARTING && k->phase != WORKER_PHASE_RUNNING) {
        crew_tell(w, index);
        return;
    }
    int64_t left_us = command->deadline_us > w->now_us ? command->deadline_us - w->now_us : 0;
    if (left_us > w->scene->handover_us) left_us = w->scene->handover_us;
    world_later(w, w->now_us + left_us, ON_STOPS, index, 0);
}

/* The books of a job: its share of what the node cost while it was there. */
static void close_share(struct world *w, const struct live_worker *k)
{
    const struct live_node *n = &w->nodes[k->node];
    const struct scene_offer *o = &w->scene->offers[n->offer];
    struct live_job *job = &w->jobs[k->job];
    market_paid(w, n->offer);
    double devices_us = (double)(w->now_us - k->since_us) * k->devices;
    job->held_sum += devices_us;
    if (o->capacity == CAPACITY_SPOT) job->held_spot_sum += devices_us;
    job->held_usd += (w->offers[n->offer].paid - k->paid_before) * k->devices / o->device_count;
}

void crew_end(struct world *w, uint32_t worker, uint32_t phase)
{
    struct live_worker *k = &w->workers[worker];
    struct live_job *job = &w->jobs[k->job];
    bool ran = k->phase == WORKER_PHASE_RUNNING;
    work_advance(w, k->job);
    close_share(w, k);
    k->phase = phase;
    unlink_worker(w, worker);
    record_add(w->recorder, (struct record_row){.at_us = w->now_us - START_US,
                                                .kind = RECORD_WORKER_END,
                                                .node = k->node,
                                                .job = k->job,
                                                .offer = w->nodes[k->node].offer});
    if (!ran) return;
    job->devices -= k->devices;
    job->workers--;
    work_left(w, k->job, phase == WORKER_PHASE_FAILED);
}

static void begins_to_run(struct world *w, uint32_t worker)
{
    struct live_worker *k = &w->workers[worker];
    struct live_job *job = &w->jobs[k->job];
    if (k->phase != WORKER_PHASE_STARTING) return;
    work_advance(w, k->job);
    k->phase = WORKER_PHASE_RUNNING;
    job->devices += k->devices;
    job->workers++;
    crew_tell(w, worker);
    work_joined(w, k->job);
}

static void stops(struct world *w, uint32_t worker)
{
    struct live_worker *k = &w->workers[worker];
    if (k->phase == WORKER_PHASE_STARTING || k->phase == WORKER_PHASE_RUNNING)
        crew_end(w, worker, WORKER_PHASE_STOPPED);
    crew_tell(w, worker);
}

static void slow(struct world *w, uint32_t node, bool ends)
{
    struct live_node *n = &w->nodes[node];
    const struct scene_offer *o = &w->scene->offers[n->offer];
    struct sim_random *random = &w->offers[n->offer].lives;
    if (n->phase != NODE_PHASE_UP) return;
    if (ends) {
        n->slow_devices--;
        world_later(w,
                    w->now_us + sim_random_exponential_us(
                                    random, w->scene->straggler_mean_us / o->device_count + 1),
                    ON_SLOW, node, 0);
    } else {
        n->slow_devices++;
        world_later(w, w->now_us + sim_random_exponential_us(random, w->scene->straggler_us),
                    ON_SLOW, node, 1);
    }
    for (uint32_t k = n->first_worker; k != NONE; k = w->workers[k].next_on_node)
        if (w->workers[k].phase == WORKER_PHASE_RUNNING) work_refresh(w, w->workers[k].job);
}

void site_on(struct world *w, enum what what, uint32_t index, uint32_t version)
{
    switch (what) {
    case ON_UP: come_up(w, index); return;
    case ON_NOTICE: site_notice(w, index); return;
    case ON_TAKE: site_take(w, index); return;
    case ON_SLOW: slow(w, index, version == 1); return;
    case ON_RUNS: begins_to_run(w, index); return;
    case ON_STOPS: stops(w, index); return;
    case ON_TICK:
    case ON_SUBMIT:
    case ON_DONE:
    case ON_PRICE:
    case ON_SPIKE:
    case ON_MARKET:
    case ON_SOLD:
    case ON_SAYS:
    case ON_RANK: break;
    }
    UNREACHABLE();
}
