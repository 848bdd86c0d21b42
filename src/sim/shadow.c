#include "sim/shadow.h"
#include "base/mem.h"
#include "codec/names.h"
#include "core/assert.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct sim_checker *const checkers[] = {
    &sim_check_budget,    &sim_check_ledger, &sim_check_ownership, &sim_check_fencing,
    &sim_check_forgotten, &sim_check_stale,  &sim_check_bounds,    &sim_check_region,
    &sim_check_threshold, &sim_check_order,  &sim_check_refusals,  &sim_check_decisions,
    &sim_check_stalls,    &sim_check_bills,  &sim_check_near,      &sim_check_ncu,
    &sim_check_mig,
};
/* After the heal the news of prices and stock has to get around before nothing changes any more. */
#define SETTLE_US (10 * SIM_MINUTE_US)

enum { CHECKERS_COUNT = sizeof checkers / sizeof checkers[0] };

struct sim_shadow *sim_shadow_open(void)
{
    struct sim_shadow *shadow = mem_alloc(sizeof *shadow);
    if (shadow == NULL) return NULL;
    memset(shadow, 0, offsetof(struct sim_shadow, nodes));
    sim_map_init(&shadow->node_map, shadow->node_slots, 2 * SIM_WORKERS_MAX);
    sim_map_init(&shadow->worker_map, shadow->worker_slots, 4 * SIM_WORKERS_MAX);
    return shadow;
}

void sim_shadow_close(struct sim_shadow *shadow)
{
    mem_free(shadow);
}

uint32_t sim_shadow_node_number(const struct sim *s, uint64_t key)
{
    uint64_t own = key - (s->options.pool.incarnation << SIM_KEY_SHIFT);
    return own < UINT32_MAX ? (uint32_t)own : 0;
}

struct shadow_node *sim_shadow_node(struct sim *s, uint64_t key)
{
    int64_t found = sim_map_find(&s->shadow->node_map, key);
    return found == SIM_MAP_NONE ? NULL : &s->shadow->nodes[found];
}

struct shadow_worker *sim_shadow_worker(struct sim *s, uint64_t id)
{
    int64_t found = sim_map_find(&s->shadow->worker_map, id);
    return found == SIM_MAP_NONE ? NULL : &s->shadow->workers[found];
}

struct shadow_job *sim_shadow_job(struct sim *s, uint64_t job_id)
{
    return job_id >= 1 && job_id <= s->job_count ? &s->shadow->jobs[job_id - 1] : NULL;
}

int64_t sim_shadow_price(const struct sim *s, const struct shadow_node *node)
{
    return node->offer == UINT32_MAX ? 0 : s->shadow->offers[node->offer].usd_micros_per_hour;
}

static uint32_t offer_index(const struct sim *s, uint64_t offer_id)
{
    for (uint32_t i = 0; i < s->offer_count; i++)
        if (s->offers[i].id == offer_id) return i;
    return UINT32_MAX;
}

static void end_workers_of(struct sim_shadow *shadow, const struct shadow_node *node)
{
    uint32_t index = (uint32_t)(node - shadow->nodes);
    for (uint32_t i = shadow->first_open_worker; i < shadow->worker_count; i++)
        if (shadow->workers[i].node == index) shadow->workers[i].ended = true;
}

static void hear_offer(struct sim *s, const struct pool_event *event)
{
    uint32_t index = offer_index(s, event->u.offer_changed.offer_id);
    if (index == UINT32_MAX) return;
    struct shadow_offer *offer = &s->shadow->offers[index];
    offer->told = true;
    if (offer->usd_micros_per_hour != event->u.offer_changed.usd_micros_per_hour)
        offer->billed_usd_micros_per_hour = 0;
    offer->usd_micros_per_hour = event->u.offer_changed.usd_micros_per_hour;
    offer->on_demand_usd_micros_per_hour = event->u.offer_changed.on_demand_usd_micros_per_hour;
    offer->stock_count = event->u.offer_changed.stock_count;
    offer->told_us = s->now_us;
    if (offer->stock_count > offer->stock_count_max) offer->stock_count_max = offer->stock_count;
}

static void hear_event(struct sim *s, const struct pool_event *event)
{
    if (event->kind == POOL_EVENT_OFFER_CHANGED) hear_offer(s, event);
    if (event->kind == POOL_EVENT_AGENT_REPORTED) {
        struct shadow_node *node = sim_shadow_node(s, event->u.agent_reported.node_key);
        if (node != NULL && !node->released) node->joined = node->heard_up = true;
    }
    if (event->kind == POOL_EVENT_NODE_OBSERVED) {
        struct shadow_node *node = sim_shadow_node(s, event->u.node_observed.node_key);
        uint32_t phase = event->u.node_observed.phase;
        bool over = phase == NODE_PHASE_GONE ||
                    (phase == NODE_PHASE_REFUSED && node != NULL && !node->heard_up);
        if (node != NULL && phase == NODE_PHASE_UP && !node->released) node->heard_up = true;
        if (node != NULL && (over || (phase == NODE_PHASE_ABSENT && node->released))) {
            node->lost = true;
            end_workers_of(s->shadow, node);
        }
    }
    if (event->kind == POOL_EVENT_WORKER_REPORTED) {
        struct shadow_worker *w = sim_shadow_worker(s, event->u.worker_reported.worker_id);
        uint32_t phase = event->u.worker_reported.phase;
        bool over = phase == WORKER_PHASE_FINISHED || phase == WORKER_PHASE_FAILED ||
                    phase == WORKER_PHASE_STOPPED;
        if (w != NULL && over) w->ended = true;
    }
}

static void note_node_command(struct sim *s, const struct pool_command *c)
{
    struct sim_shadow *shadow = s->shadow;
    struct shadow_node *node = sim_shadow_node(s, c->node_key);
    if (node == NULL && shadow->node_count < SIM_MACHINES_MAX) {
        sim_map_put(&shadow->node_map, c->node_key, shadow->node_count);
        node = &shadow->nodes[shadow->node_count++];
        *node = (struct shadow_node){
            .key = c->node_key, .job_id = c->job_id, .offer = UINT32_MAX, .first_us = s->now_us};
        if (c->kind == POOL_COMMAND_ENSURE_NODE) {
            node->offer = offer_index(s, c->offer_id);
            struct shadow_job *job = sim_shadow_job(s, c->job_id);
            bool calm = !sim_faults_on(s) && s->now_us > s->healed_us + SETTLE_US;
            if (job != NULL && calm) job->calm_nodes++;
        }
    }
    if (node == NULL) return;
    node->asks++;
    node->last_ask_us = s->now_us;
    if (c->kind == POOL_COMMAND_RELEASE_NODE) {
        node->released = true;
        node->releases++;
        end_workers_of(shadow, node);
    }
}

static void note_worker_command(struct sim *s, const struct pool_command *c)
{
    struct sim_shadow *shadow = s->shadow;
    struct shadow_worker *w = sim_shadow_worker(s, c->worker_id);
    const struct shadow_node *node = sim_shadow_node(s, c->node_key);
    if (w == NULL && node != NULL && shadow->worker_count < SIM_WORKERS_MAX) {
        sim_map_put(&shadow->worker_map, c->worker_id, shadow->worker_count);
        w = &shadow->workers[shadow->worker_count++];
        *w = (struct shadow_worker){.id = c->worker_id,
                                    .job_id = c->job_id,
                                    .node = (uint32_t)(node - shadow->nodes),
                                    .device_count = c->device_count,
                                    .device_mask = c->device_mask,
                                    .device_milli = c->device_milli,
                                    .first_us = s->now_us};
        (void)sim_mig_of(s, c, &w->mig);
    }
    if (w == NULL) return;
    if (c->kind == POOL_COMMAND_ENSURE_WORKER) {
        w->asks++;
    } else {
        w->stops++;
        w->stopping = true;
    }
}

static void note_command(struct sim *s, const struct pool_command *c)
{
    bool about_node = c->kind == POOL_COMMAND_ENSURE_NODE || c->kind == POOL_COMMAND_RELEASE_NODE ||
                      c->kind == POOL_COMMAND_OBSERVE_NODE;
    if (about_node)
        note_node_command(s, c);
    else
        note_worker_command(s, c);
}

static void note_decision(struct sim *s, const struct pool_decision *d)
{
    struct shadow_job *job = sim_shadow_job(s, d->job_id);
    struct shadow_node *node = sim_shadow_node(s, d->node_key);
    if (d->kind == DECISION_LOST && node != NULL) {
        node->lost = true;
        end_workers_of(s->shadow, node);
    }
    uint32_t offer = d->kind == DECISION_DISTRUST ? offer_index(s, d->offer_id) : UINT32_MAX;
    if (offer != UINT32_MAX) s->shadow->offers[offer].billed_usd_micros_per_hour = d->a;
    if (job == NULL) return;
    if (d->kind == DECISION_ADMIT) {
        job->admitted = true;
        job->refused = job->ended = false; /* it was refused before, and sent again */
    }
    if (d->kind == DECISION_REFUSE) {
        job->refused = true;
        job->refusal = d->reason;
    }
    if (d->kind != DECISION_BUY) job->matched = d->reason == REASON_MATCHED;
    job->last = *d;
}

static void note_entry(struct sim *s, const struct ledger_entry *e)
{
    struct shadow_node *node = sim_shadow_node(s, e->node_key);
    if (node != NULL) node->entries_usd_micros += e->usd_micros;
    struct shadow_job *job = sim_shadow_job(s, e->job_id);
    if (job != NULL && e->kind == ENTRY_JOB) job->spent_usd_micros += e->usd_micros;
    if (e->kind < ENTRY_KIND_END) s->shadow->entries_usd_micros[e->kind] += e->usd_micros;
}

static void say_decision(struct sim *s, const struct pool_decision *d)
{
    char text[NAMES_SENTENCE_BYTES], job[32] = "", node[32] = "", offer[32] = "";
    if (d->job_id != 0) (void)snprintf(job, sizeof job, " job %" PRIu64, d->job_id);
    if (d->node_key != 0)
        (void)snprintf(node, sizeof node, " node %u", sim_shadow_node_number(s, d->node_key));
    if (d->offer_id != 0) (void)snprintf(offer, sizeof offer, " offer %" PRIu64, d->offer_id);
    sim_say(s, "decides: %s%s%s%s: %s", name_decision_kind(d->kind), job, node, offer,
            reason_format(d->reason, d->a, d->b, d->c, text, sizeof text));
}

static void say_command(struct sim *s, const struct pool_command *c)
{
    if (c->worker_id != 0)
        sim_say(s, "core: %s %" PRIu64 " of job %" PRIu64 " on node %u, %u devices",
                name_command_kind(c->kind), c->worker_id & UINT32_MAX, c->job_id,
                sim_shadow_node_number(s, c->node_key), c->device_count);
    else
        sim_say(s, "core: %s %u", name_command_kind(c->kind),
                sim_shadow_node_number(s, c->node_key));
}

static void say_entry(struct sim *s, const struct ledger_entry *e)
{
    sim_say(s, "ledger: node %u job %" PRIu64 " %s %" PRId64 " micro-dollars",
            sim_shadow_node_number(s, e->node_key), e->job_id, name_entry_kind(e->kind),
            e->usd_micros);
}

/* Ends are read from the view, as a user would: the ended job may be forgotten later. */
static void look_at_jobs(struct sim *s)
{
    for (uint32_t i = 0; i < s->job_count; i++) {
        struct shadow_job *job = &s->shadow->jobs[i];
        struct job_view view;
        if (job->ended || !pool_job_find(s->server.pool, i + 1, &view)) continue;
        job->state = view.state;
        job->ended = view.state >= JOB_DONE && view.state < JOB_STATE_END;
    }
}

static void move_window(struct sim_shadow *shadow)
{
    while (shadow->first_open_worker < shadow->worker_count &&
           shadow->workers[shadow->first_open_worker].ended)
        shadow->first_open_worker++;
    while (shadow->first_open_node < shadow->node_count &&
           shadow->nodes[shadow->first_open_node].closed)
        shadow->first_open_node++;
}

/* Before the purchases of the same step are checked: who is placed may come back to a node of its own. */
static void note_placements(struct sim *s, const struct pool_output *out)
{
    for (uint32_t i = 0; i < out->decision_count; i++) {
        const struct pool_decision *d = &out->decisions[i];
        struct shadow_node *node = sim_shadow_node(s, d->node_key);
        if (d->kind == DECISION_PLACE && node != NULL) node->shared = true;
    }
}

void sim_shadow_step(struct sim *s, const struct pool_event *event, const struct pool_output *out)
{
    hear_event(s, event);
    note_placements(s, out);
    for (uint32_t i = 0; i < out->command_count; i++) { /* numbers the new nodes first */
        for (uint32_t c = 0; c < CHECKERS_COUNT; c++)
            if (checkers[c]->on_command != NULL) checkers[c]->on_command(s, &out->commands[i]);
        note_command(s, &out->commands[i]);
    }
    for (uint32_t i = 0; i < out->decision_count; i++) {
        if (s->trace != NULL) say_decision(s, &out->decisions[i]);
        for (uint32_t c = 0; c < CHECKERS_COUNT; c++)
            if (checkers[c]->on_decision != NULL) checkers[c]->on_decision(s, &out->decisions[i]);
        note_decision(s, &out->decisions[i]);
    }
    if (s->trace != NULL)
        for (uint32_t i = 0; i < out->command_count; i++) say_command(s, &out->commands[i]);
    for (uint32_t i = 0; i < out->entry_count; i++) {
        if (s->trace != NULL) say_entry(s, &out->entries[i]);
        for (uint32_t c = 0; c < CHECKERS_COUNT; c++)
            if (checkers[c]->on_entry != NULL) checkers[c]->on_entry(s, &out->entries[i]);
        note_entry(s, &out->entries[i]);
    }
    if (out->decision_count > 0) look_at_jobs(s);
    for (uint32_t c = 0; c < CHECKERS_COUNT; c++)
        if (checkers[c]->after_step != NULL) checkers[c]->after_step(s, event);
    move_window(s->shadow);
}

void sim_shadow_end(struct sim *s)
{
    for (uint32_t c = 0; c < CHECKERS_COUNT; c++)
        if (checkers[c]->at_end != NULL) checkers[c]->at_end(s);
}
