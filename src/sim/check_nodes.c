/* Devices, keys, leaks, and how much the core may say. */
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>

enum { LOOK_EVERY = 8 }; /* steps between two looks at all nodes */

static void ownership_on_command(struct sim *s, const struct pool_command *c)
{
    if (c->kind != POOL_COMMAND_ENSURE_WORKER || sim_shadow_worker(s, c->worker_id) != NULL) return;
    const struct sim_shadow *shadow = s->shadow;
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    if (node == NULL || node->offer == UINT32_MAX) {
        sim_fail(s, "ownership", "a worker of job %" PRIu64 " is sent to a node never bought",
                 c->job_id);
        return;
    }
    uint32_t used = c->device_milli == 1000 ? c->device_count : 1, shared = 0;
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++) {
        const struct shadow_worker *w = &shadow->workers[i];
        if (w->ended || &shadow->nodes[w->node] != node) continue;
        bool shares = w->device_milli < 1000 && c->device_milli < 1000; /* check_mig.c */
        if (w->device_milli == 1000)
            used += w->device_count;
        else if ((w->device_mask & (c->device_mask | shared)) == 0)
            used++;
        if (w->device_milli < 1000) shared |= w->device_mask;
        if (!shares && (w->device_mask & c->device_mask) != 0)
            sim_fail(s, "ownership", "devices of a worker of job %" PRIu64 " on node %u are in use",
                     c->job_id, sim_shadow_node_number(s, node->key));
        if (w->job_id == c->job_id)
            sim_fail(s, "ownership", "job %" PRIu64 " gets a second lease on node %u", c->job_id,
                     sim_shadow_node_number(s, node->key));
    }
    if (used > s->offers[node->offer].device_count)
        sim_fail(s, "ownership", "node %u has %u devices, %u are given to workers",
                 sim_shadow_node_number(s, node->key), s->offers[node->offer].device_count, used);
    if (node->released || node->lost)
        sim_fail(s, "ownership", "a worker of job %" PRIu64 " is sent to node %u, which was let go",
                 c->job_id, sim_shadow_node_number(s, node->key));
}

/* In truth no device ever runs two workers. */
static void ownership_at_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        const struct sim_worker *w = &s->workers[i];
        if (w->phase == WORKER_PHASE_RUNNING || w->phase == WORKER_PHASE_STARTING)
            sim_fail(s, "ownership", "a worker of job %" PRIu64 " still runs on node %u", w->job_id,
                     sim_shadow_node_number(s, w->key));
    }
}

const struct sim_checker sim_check_ownership = {
    .name = "ownership", .on_command = ownership_on_command, .at_end = ownership_at_end};

static void fencing_on_command(struct sim *s, const struct pool_command *c)
{
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    const struct shadow_worker *w = sim_shadow_worker(s, c->worker_id);
    if (c->kind == POOL_COMMAND_ENSURE_NODE && node != NULL) {
        bool same = node->job_id == c->job_id && node->offer != UINT32_MAX &&
                    s->offers[node->offer].id == c->offer_id;
        if (!same) sim_fail(s, "fencing", "node key %" PRIu64 " is used again", c->node_key);
        if (node->released)
            sim_fail(s, "fencing", "node %u is wanted again after it was let go",
                     sim_shadow_node_number(s, c->node_key));
    }
    if (c->kind == POOL_COMMAND_ENSURE_WORKER && w != NULL) {
        bool same = w->job_id == c->job_id && s->shadow->nodes[w->node].key == c->node_key &&
                    w->device_count == c->device_count;
        if (!same) sim_fail(s, "fencing", "worker id %" PRIu64 " is used again", c->worker_id);
    }
}

const struct sim_checker sim_check_fencing = {.name = "fencing", .on_command = fencing_on_command};

/* How long a machine may run that the core has closed: it boots, its agent starts, is told to leave
 * or hears nobody for a lease (on a clock that runs up to a tenth wrong). */
static int64_t leak_us_max(const struct sim *s)
{
    const struct sim_options *o = &s->options;
    int64_t lease_us = o->pool.agent_lease_us + o->pool.agent_lease_us / 10;
    return o->boot_us_max + 2 * (lease_us + o->report_us) + 2 * SIM_MINUTE_US + o->release_us_max;
}

/* How long the core may believe in a machine that is gone: until its agent's lease ends, counted
 * from the last report, which may come late, or from a restart. No answer is needed for it, so no
 * loss of messages can delay it. */
static int64_t stale_us_max(const struct sim *s)
{
    const struct sim_options *o = &s->options;
    return o->pool.agent_lease_us + o->late_us_max + o->delay_us_max + 10 * SIM_SECOND_US;
}

static void stale_after_step(struct sim *s, const struct pool_event *event)
{
    if (event->seq % LOOK_EVERY != 0 || !s->server.up) return; /* not amid a replay */
    for (uint32_t i = s->shadow->first_open_node; i < s->shadow->node_count; i++) {
        const struct shadow_node *node = &s->shadow->nodes[i];
        int64_t found = sim_map_find(&s->machine_map, node->key);
        if (node->closed || found == SIM_MAP_NONE) continue;
        const struct sim_machine *m = &s->machines[found];
        if (m->phase != NODE_PHASE_GONE) continue;
        int64_t since_us = m->gone_us;
        if (since_us < s->server.up_since_us) since_us = s->server.up_since_us;
        if (s->now_us - since_us <= stale_us_max(s)) continue;
        struct node_view view;
        if (pool_node_find(s->server.pool, node->key, &view) && view.state == NODE_READY)
            sim_fail(s, "stale", "node %u is gone for %" PRId64 " s, the core believes in it",
                     sim_shadow_node_number(s, node->key),
                     (s->now_us - m->gone_us) / SIM_SECOND_US);
    }
}

const struct sim_checker sim_check_stale = {.name = "stale", .after_step = stale_after_step};

static void forgotten_after_step(struct sim *s, const struct pool_event *event)
{
    if (event->kind != POOL_EVENT_TICK && event->kind != POOL_EVENT_OFFER_CHANGED) return;
    if (s->options.agent_dead_ppm > 0 || s->options.agent_crash_mean_us > 0)
        return; /* then the bound is checked at the end only */
    for (uint32_t i = 0; i < s->machine_count; i++) {
        const struct sim_machine *m = &s->machines[i];
        if (m->phase != NODE_PHASE_UP) continue;
        const struct shadow_node *node = sim_shadow_node(s, m->key);
        if (node == NULL || node->leaked_us == 0) continue;
        struct node_view view;
        if (pool_node_find(s->server.pool, m->key, &view)) continue; /* taken in again */
        if (s->now_us - node->leaked_us > leak_us_max(s))
            sim_fail(s, "forgotten", "node %u bills on, the core forgot it %" PRId64 " s ago",
                     sim_shadow_node_number(s, m->key),
                     (s->now_us - node->leaked_us) / SIM_SECOND_US);
    }
}

static void forgotten_at_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->machine_count; i++) {
        const struct sim_machine *m = &s->machines[i];
        bool runs = m->phase == NODE_PHASE_UP || m->phase == NODE_PHASE_PENDING;
        if (runs && !sim_machine_may_stay(s, i))
            sim_fail(s, "forgotten", "node %u still runs at the end",
                     sim_shadow_node_number(s, m->key));
    }
}

const struct sim_checker sim_check_forgotten = {
    .name = "forgotten", .after_step = forgotten_after_step, .at_end = forgotten_at_end};

enum {
    ASKS_FREE = 24,          /* commands a node or worker may cost however short its life */
    ASKS_PER_AGAIN = 4,      /* and for each ask_again_us that passes */
    CALM_NODES_PER_NEED = 3, /* nodes a job may buy in calm, for each device it may use, plus 4 */
};

static void bounds_on_command(struct sim *s, const struct pool_command *c)
{
    int64_t again_us = s->options.pool.ask_again_us;
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    if (node != NULL && c->worker_id == 0) {
        int64_t allowed = ASKS_FREE + ASKS_PER_AGAIN * ((s->now_us - node->first_us) / again_us) +
                          2 * (int64_t)s->summary.crashes;
        if (node->asks > allowed)
            sim_fail(s, "bounds", "node %u was asked about %u times in %" PRId64 " s",
                     sim_shadow_node_number(s, c->node_key), node->asks,
                     (s->now_us - node->first_us) / SIM_SECOND_US);
    }
    const struct shadow_worker *w = sim_shadow_worker(s, c->worker_id);
    if (w != NULL) {
        int64_t allowed = ASKS_FREE + ASKS_PER_AGAIN * ((s->now_us - w->first_us) / again_us) +
                          2 * (int64_t)s->summary.crashes;
        if (w->asks + w->stops > allowed)
            sim_fail(s, "bounds",
                     "a worker of job %" PRIu64 " was commanded %u times in %" PRId64 " s",
                     w->job_id, w->asks + w->stops, (s->now_us - w->first_us) / SIM_SECOND_US);
    }
    const struct shadow_job *job = sim_shadow_job(s, c->job_id);
    if (c->kind == POOL_COMMAND_ENSURE_NODE && node == NULL && job != NULL) {
        const struct sim_job *truth = sim_job_find(s, c->job_id);
        uint32_t allowed = 4 + CALM_NODES_PER_NEED * truth->submit.u.job_submitted.devices_max;
        if (job->calm_nodes > allowed)
            sim_fail(s, "bounds", "job %" PRIu64 " bought %u nodes although nothing changes",
                     c->job_id, job->calm_nodes);
    }
}

const struct sim_checker sim_check_bounds = {.name = "bounds", .on_command = bounds_on_command};
