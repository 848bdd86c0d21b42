#include "server/facts.h"
#include "base/mem.h"
#include "server/keyed.h"
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct seen_node {
    uint64_t node_key, offer_id;
    int64_t ordered_us, up_us, joined_us, noticed_us, notice_us;
};

struct seen_worker {
    uint64_t worker_id;
    int64_t ensured_us, stop_us; /* 0: not asked */
};

struct reader {
    journal *journal;
    struct facts *facts;
    const struct facts_options *options;
    struct array nodes, workers, releases; /* seen_*; releases: nodes, as workers are */
    struct pool_output out;
    struct error error;
    bool has_begun, failed;
};

static void no_memory(struct reader *r)
{
    if (!r->failed) (void)error_set(&r->error, "out of memory for what the journal tells");
    r->failed = true;
}

static void *push(struct reader *r, struct array *list)
{
    void *row = array_push(list);
    if (row == NULL) no_memory(r);
    return row;
}

static void *get(struct reader *r, struct array *table, uint64_t key)
{
    void *row = keyed_get(table, key);
    if (row == NULL) no_memory(r);
    return row;
}

/* ---- offers ---- */

static struct fact_offer *offer_row(struct reader *r, uint64_t offer_id)
{
    struct array *offers = &r->facts->offers;
    while (offers->count <= offer_id)
        if (push(r, offers) == NULL) return NULL;
    return array_at(offers, (uint32_t)offer_id);
}

static void note_offer(struct reader *r, const struct pool_event *event)
{
    struct fact_offer *offer = offer_row(r, event->u.offer_changed.offer_id);
    if (offer == NULL) return;
    offer->is_known = 1;
    offer->capacity = event->u.offer_changed.capacity;
    offer->device_count = event->u.offer_changed.device_count;
    offer->model = event->u.offer_changed.model;
    offer->zone = event->u.offer_changed.zone;
}

static void note_offers_of_pool(struct reader *r)
{
    const pool *p = r->facts->start.pool;
    for (uint32_t i = 0; i < pool_offers_end(p); i++) {
        struct offer_view view;
        if (!pool_offer_at(p, i, &view)) continue;
        struct fact_offer *offer = offer_row(r, view.offer_id);
        if (offer == NULL) return;
        offer->is_known = 1;
        offer->capacity = view.capacity;
        offer->device_count = view.device_count;
        offer->model = view.model;
        offer->zone = view.zone;
        offer->usd_micros_per_hour = view.usd_micros_per_hour;
    }
}

static uint32_t held_of(const pool *p, uint64_t offer_id)
{
    for (uint32_t i = 0; i < pool_offers_end(p); i++) {
        struct offer_view view;
        if (pool_offer_at(p, i, &view) && view.offer_id == offer_id) return view.nodes_held;
    }
    return 0;
}

/* ---- what did not depend on decisions ---- */

static bool is_answer(uint32_t kind)
{
    return kind == POOL_EVENT_TICK || kind == POOL_EVENT_RESTARTED ||
           kind == POOL_EVENT_NODE_OBSERVED || kind == POOL_EVENT_AGENT_REPORTED ||
           kind == POOL_EVENT_WORKER_REPORTED || kind == POOL_EVENT_CKPT_DURABLE ||
           kind == POOL_EVENT_WORKER_STALLED || kind == POOL_EVENT_NODE_DRAIN_ASKED;
}

static void keep(struct reader *r, const struct pool_event *event)
{
    if (is_answer(event->kind)) return;
    struct fact_event *row = push(r, &r->facts->events);
    if (row == NULL) return;
    row->event = *event;
    if (event->kind == POOL_EVENT_OFFER_CHANGED)
        row->total = event->u.offer_changed.stock_count +
                     held_of(r->facts->start.pool, event->u.offer_changed.offer_id);
}

/* ---- nodes ---- */

static void end_life(struct reader *r, uint64_t node_key, int64_t now_us, bool is_lost)
{
    const struct seen_node *node = keyed_find(&r->nodes, node_key);
    if (node == NULL) return;
    if (node->up_us != 0) {
        struct fact_life *life = get(r, &r->facts->lives, node_key);
        if (life == NULL) return;
        bool noticed = node->notice_us != 0;
        life->offer_id = node->offer_id;
        life->from_us = node->up_us;
        life->to_us = noticed ? node->notice_us : now_us; /* let go before it was taken */
        life->is_lost = is_lost || noticed;
        life->is_noticed = noticed;
        life->notice_us = noticed ? node->notice_us - node->noticed_us : 0;
    }
    keyed_drop(&r->nodes, (uint32_t)(node - (const struct seen_node *)r->nodes.items));
}

static void note_boot(struct reader *r, struct seen_node *node, int64_t now_us)
{
    if (node->joined_us != 0) return;
    node->joined_us = now_us;
    if (node->ordered_us == 0 || node->up_us < node->ordered_us || now_us < node->up_us) return;
    struct fact_boot *boot = push(r, &r->facts->boots);
    if (boot == NULL) return;
    *boot =
        (struct fact_boot){node->offer_id, node->up_us - node->ordered_us, now_us - node->up_us};
}

static void note_node_event(struct reader *r, const struct pool_event *event)
{
    struct seen_node *node = NULL;
    if (event->kind == POOL_EVENT_AGENT_REPORTED) {
        node = keyed_find(&r->nodes, event->u.agent_reported.node_key);
        if (node == NULL || event->u.agent_reported.phase != AGENT_PHASE_JOINED) return;
        if (node->up_us == 0) node->up_us = event->now_us;
        note_boot(r, node, event->now_us);
        return;
    }
    node = keyed_find(&r->nodes, event->u.node_observed.node_key);
    if (node == NULL || event->u.node_observed.phase != NODE_PHASE_UP) return;
    int64_t since_us = event->u.node_observed.up_since_us;
    if (node->up_us == 0) node->up_us = since_us > 0 ? since_us : event->now_us;
    if (node->notice_us != 0 || event->u.node_observed.notice_us == 0) return;
    node->notice_us = event->u.node_observed.notice_us;
    node->noticed_us = event->now_us;
}

/* ---- workers and checkpoints ---- */

static void note_delay(struct reader *r, struct array *list, int64_t since_us, int64_t now_us)
{
    if (since_us == 0) return;
    int64_t *delay = push(r, list);
    if (delay != NULL) *delay = now_us - since_us;
}

static void note_gone(struct reader *r, const struct pool_event *event)
{
    uint32_t phase = event->u.node_observed.phase;
    struct seen_worker *node = keyed_find(&r->releases, event->u.node_observed.node_key);
    if (node == NULL || (phase != NODE_PHASE_GONE && phase != NODE_PHASE_ABSENT)) return;
    note_delay(r, &r->facts->releases, node->stop_us, event->now_us);
    node->stop_us = 0;
}

static void note_worker_event(struct reader *r, const struct pool_event *event)
{
    struct seen_worker *worker = keyed_find(&r->workers, event->u.worker_reported.worker_id);
    uint32_t phase = event->u.worker_reported.phase;
    if (worker == NULL) return;
    if (phase == WORKER_PHASE_RUNNING) {
        note_delay(r, &r->facts->starts, worker->ensured_us, event->now_us);
        worker->ensured_us = 0;
    } else if (phase == WORKER_PHASE_STOPPED) {
        note_delay(r, &r->facts->stops, worker->stop_us, event->now_us);
        worker->stop_us = 0;
    }
}

static void note_ckpt(struct reader *r, const struct pool_event *event)
{
    struct fact_job *job = get(r, &r->facts->jobs, event->u.ckpt_durable.job_id);
    if (job == NULL) return;
    if (job->ckpts++ == 0) job->first_ckpt_us = event->now_us;
    job->last_ckpt_us = event->now_us;
}

/* ---- what the core said ---- */

static void note_command(struct reader *r, const struct pool_command *c, int64_t now_us)
{
    bool starts = c->kind == POOL_COMMAND_ENSURE_WORKER;
    if (c->kind == POOL_COMMAND_RELEASE_NODE && keyed_find(&r->releases, c->node_key) == NULL) {
        struct seen_worker *node = get(r, &r->releases, c->node_key);
        if (node != NULL) node->stop_us = now_us;
    }
    if (!starts && c->kind != POOL_COMMAND_STOP_WORKER) return;
    struct seen_worker *worker = get(r, &r->workers, c->worker_id);
    if (worker == NULL) return;
    int64_t *asked_us = starts ? &worker->ensured_us : &worker->stop_us;
    if (*asked_us == 0) *asked_us = now_us;
}

static void note_decision(struct reader *r, const struct pool_decision *d, int64_t now_us)
{
    if (d->kind == DECISION_BUY && d->node_key != 0) {
        struct seen_node *node = get(r, &r->nodes, d->node_key);
        if (node == NULL) return;
        node->offer_id = d->offer_id;
        node->ordered_us = now_us;
    } else if (d->kind == DECISION_LOST) {
        bool by_itself = d->reason == REASON_PREEMPTED || d->reason == REASON_PREEMPTED_NOTICED ||
                         d->reason == REASON_CRASHED || d->reason == REASON_AGENT_SILENT;
        end_life(r, d->node_key, now_us, by_itself);
    } else if (d->kind == DECISION_RELEASE) {
        end_life(r, d->node_key, now_us, false);
    }
}

static void note(struct reader *r, const struct pool_event *event)
{
    switch (event->kind) {
    case POOL_EVENT_NODE_OBSERVED:
        note_gone(r, event);
        note_node_event(r, event);
        break;
    case POOL_EVENT_AGENT_REPORTED: note_node_event(r, event); break;
    case POOL_EVENT_WORKER_REPORTED: note_worker_event(r, event); break;
    case POOL_EVENT_CKPT_DURABLE: note_ckpt(r, event); break;
    case POOL_EVENT_JOB_SUBMITTED: {
        struct fact_job *job = get(r, &r->facts->jobs, event->u.job_submitted.job_id);
        if (job == NULL) return;
        job->spec_hash = event->u.job_submitted.spec_hash;
        job->is_elastic = event->u.job_submitted.kind == JOB_KIND_ELASTIC;
        break;
    }
    default: break;
    }
    for (uint32_t i = 0; i < r->out.decision_count; i++)
        note_decision(r, &r->out.decisions[i], event->now_us);
    for (uint32_t i = 0; i < r->out.command_count; i++)
        note_command(r, &r->out.commands[i], event->now_us);
}

/* ---- the stretch ---- */

static bool take_snapshot(struct reader *r)
{
    struct facts *f = r->facts;
    f->snapshot_bytes = pool_snapshot_write(f->start.pool, NULL, 0);
    f->snapshot = mem_alloc(f->snapshot_bytes);
    if (f->snapshot == NULL) return false;
    return pool_snapshot_write(f->start.pool, f->snapshot, f->snapshot_bytes) == f->snapshot_bytes;
}

static void begin(struct reader *r, const struct pool_event *event)
{
    struct facts *f = r->facts;
    const pool *p = f->start.pool;
    r->has_begun = true;
    f->first_seq = event->seq;
    f->from_us = event->now_us;
    if (!take_snapshot(r)) no_memory(r);
    tally_begin(&f->recorded, p, f->from_us);
    note_offers_of_pool(r);
    for (uint32_t i = 0; i < pool_nodes_end(p); i++) {
        struct node_view view;
        if (!pool_node_at(p, i, &view) || view.state == NODE_RELEASING) continue;
        struct seen_node *node = get(r, &r->nodes, view.node_key);
        if (node == NULL) return;
        node->offer_id = view.offer_id;
        node->ordered_us = view.ordered_us;
        node->up_us = view.up_since_us;
        node->joined_us = view.agent_joined ? view.agent_heard_us : 0;
        node->notice_us = view.notice_us;
        node->noticed_us = view.notice_us != 0 ? f->from_us : 0;
    }
    for (uint32_t i = 0; i < pool_jobs_end(p); i++) {
        struct job_view view;
        if (!pool_job_at(p, i, &view) || view.state >= JOB_DONE) continue;
        struct fact_job *job = get(r, &f->jobs, view.job_id);
        if (job == NULL) return;
        job->spec_hash = view.spec_hash;
    }
}

static bool take_event(void *arg, const struct pool_event *event)
{
    struct reader *r = arg;
    const struct facts_options *o = r->options;
    const char *trouble = pool_event_check(event);
    if (trouble != NULL)
        r->failed = !error_set(&r->error, "the journal is damaged at event %llu: %s",
                               (unsigned long long)event->seq, trouble);
    if (r->failed || event->now_us > o->to_us || (o->to_seq != 0 && event->seq > o->to_seq))
        return false;
    if (!r->has_begun && event->seq >= o->from_seq && event->now_us >= o->from_us) begin(r, event);
    if (event->kind == POOL_EVENT_OFFER_CHANGED) note_offer(r, event);
    if (r->has_begun) keep(r, event);
    pool_step(r->facts->start.pool, event, &r->out);
    if (!r->has_begun) return !r->failed;
    tally_step(&r->facts->recorded, r->facts->start.pool, event, &r->out);
    note(r, event);
    r->facts->last_seq = event->seq;
    r->facts->to_us = event->now_us;
    return !r->failed;
}

/* ---- jobs ---- */

static double microseconds(const json_t *text)
{
    char *end;
    const char *word = json_string_value(text);
    if (word == NULL) return 0;
    double number = strtod(word, &end);
    return strcmp(end, "us") == 0 ? number : strcmp(end, "s") == 0 ? number * 1e6 : 0;
}

/* The canonical text of a spec (codec/job_spec.h) is JSON. */
static void read_spec(const char *text, struct fact_job *job, double *ret_us_per_step)
{
    json_t *spec = json_loads(text, 0, NULL);
    const json_t *elastic = json_object_get(spec, "elastic");
    const char *kind = json_string_value(json_object_get(spec, "kind"));
    if (kind != NULL) job->is_elastic = strcmp(kind, "elastic") == 0;
    if (job->is_elastic)
        job->steps = (uint64_t)json_integer_value(json_object_get(elastic, "steps"));
    job->checkpoint_every =
        (uint32_t)json_integer_value(json_object_get(elastic, "checkpoint_every"));
    *ret_us_per_step = microseconds(json_object_get(elastic, "work_per_slot")) *
                       (double)json_integer_value(json_object_get(elastic, "slots"));
    json_decref(spec);
}

static bool find_spec(struct reader *r, struct fact_job *job, double *ret_us_per_step)
{
    struct sqlite3_stmt *query =
        journal_query(r->journal, "SELECT text FROM specs WHERE hash = ?1", &r->error);
    if (query == NULL) return false;
    (void)sqlite3_bind_int64(query, 1, (sqlite3_int64)job->spec_hash); /* the position is right */
    while (journal_row(query)) {
        const char *text = (const char *)sqlite3_column_text(query, 0);
        if (text != NULL) read_spec(text, job, ret_us_per_step);
    }
    return true;
}

static bool finish_job(struct reader *r, struct fact_job *job)
{
    const struct tally_job *sum = tally_find(&r->facts->recorded, job->job_id);
    double us_per_step = 0;
    if (!find_spec(r, job, &us_per_step)) return false;
    if (job->ckpts > 1)
        job->ckpt_us = (job->last_ckpt_us - job->first_ckpt_us) / (int64_t)(job->ckpts - 1);
    uint64_t steps = sum == NULL ? 0 : sum->last_step - sum->first_step;
    if (us_per_step > 0) job->steps_per_ncu_us = 1 / us_per_step;
    if (steps >= FACT_STEPS_MIN && sum->ncu_us > 0)
        job->steps_per_ncu_us = (double)steps / sum->ncu_us;
    bool ended = sum != NULL && (sum->state == JOB_DONE || sum->state == JOB_FAILED);
    job->ncu_us = ended ? sum->useful_ncu_us : INFINITY;
    return true;
}

static bool finish(struct reader *r)
{
    struct facts *f = r->facts;
    if (!r->has_begun)
        return error_set(&r->error, "no event of the journal lies in this stretch of time");
    tally_end(&f->recorded, f->start.pool, f->to_us);
    if (f->recorded.failed) no_memory(r);
    while (r->nodes.count > 0 && !r->failed)
        end_life(r, ((const struct seen_node *)array_at(&r->nodes, r->nodes.count - 1))->node_key,
                 f->to_us, false);
    for (uint32_t i = 0; i < f->jobs.count && !r->failed; i++)
        if (!finish_job(r, array_at(&f->jobs, i))) return false;
    return !r->failed;
}

bool facts_read(journal *j, const struct facts_options *options, struct facts *ret_facts,
                struct error *ret_error)
{
    struct facts *f = ret_facts;
    *f = (struct facts){0};
    array_init(&f->events, sizeof(struct fact_event));
    array_init(&f->lives, sizeof(struct fact_life));
    array_init(&f->boots, sizeof(struct fact_boot));
    array_init(&f->jobs, sizeof(struct fact_job));
    array_init(&f->offers, sizeof(struct fact_offer));
    array_init(&f->starts, sizeof(int64_t));
    array_init(&f->stops, sizeof(int64_t));
    array_init(&f->releases, sizeof(int64_t));
    struct reader *r = mem_zalloc(1, sizeof *r);
    if (r == NULL) return error_set(ret_error, "out of memory for what the journal tells");
    r->journal = j;
    r->facts = f;
    r->options = options;
    array_init(&r->nodes, sizeof(struct seen_node));
    array_init(&r->workers, sizeof(struct seen_worker));
    array_init(&r->releases, sizeof(struct seen_worker));
    bool ok = replay_start(j, options->to_seq, &f->start, ret_error) &&
              journal_read_events(j, f->start.snapshot_seq, take_event, r, ret_error);
    if (ok && (r->failed || !finish(r))) ok = error_set(ret_error, "%s", r->error.text);
    array_free(&r->nodes);
    array_free(&r->workers);
    array_free(&r->releases);
    mem_free(r);
    return ok;
}

void facts_free(struct facts *f)
{
    tally_free(&f->recorded);
    array_free(&f->events);
    array_free(&f->lives);
    array_free(&f->boots);
    array_free(&f->jobs);
    array_free(&f->offers);
    array_free(&f->starts);
    array_free(&f->stops);
    array_free(&f->releases);
    mem_free(f->snapshot);
    mem_free(f->start.memory);
}

struct fact_job *facts_job(const struct facts *f, uint64_t job_id)
{
    return keyed_find(&f->jobs, job_id);
}

const struct fact_offer *facts_offer(const struct facts *f, uint64_t offer_id)
{
    const struct fact_offer *offer =
        offer_id < f->offers.count ? array_at(&f->offers, (uint32_t)offer_id) : NULL;
    return offer == NULL || !offer->is_known ? NULL : offer;
}
