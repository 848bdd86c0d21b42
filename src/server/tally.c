#include "server/tally.h"
#include "server/keyed.h"

struct worker {
    uint64_t worker_id, job_id, node_key;
    double ncu;
};

struct spender {
    uint64_t node_key;
    int64_t known_usd_micros; /* what its view says less what is counted */
};

/* A row by its key, a new one if there is none. */
static void *get(struct tally *t, struct array *table, uint64_t key)
{
    void *row = keyed_get(table, key);
    if (row == NULL) t->failed = true;
    return row;
}

/* ---- running ---- */

/* NCU of what the worker holds; 0: its lease is not known (any more). */
static double ncu_of(const pool *p, uint64_t worker_id)
{
    struct lease_view lease;
    struct node_view node;
    for (uint32_t i = 0; i < pool_leases_end(p); i++)
        if (pool_lease_at(p, i, &lease) && lease.worker_id == worker_id &&
            pool_node_find(p, lease.node_key, &node))
            return pool_model_ncu_milli(p, node.model) / 1000.0 * lease.device_count *
                   (lease.device_milli == 0 ? 1 : lease.device_milli / 1000.0);
    return 0;
}

static void run_until(struct tally_job *job, int64_t now_us)
{
    double more = job->ncu * (double)(now_us - job->ncu_at_us);
    job->ncu_us += more;
    job->useful_ncu_us += more;
    job->ncu_at_us = now_us;
}

static void start_worker(struct tally *t, const pool *p, const struct worker *one, int64_t now_us)
{
    struct tally_job *job = keyed_find(&t->jobs, one->job_id);
    if (job == NULL || job->ended_us != 0 || keyed_find(&t->workers, one->worker_id) != NULL)
        return;
    struct worker *worker = get(t, &t->workers, one->worker_id);
    if (worker == NULL) return;
    *worker = *one;
    worker->ncu = ncu_of(p, one->worker_id);
    run_until(job, now_us);
    job->ncu += worker->ncu;
    if (job->running_workers++ > 0) return;
    job->running_since_us = now_us;
}

static void stop_worker(struct tally *t, uint32_t at, int64_t now_us)
{
    const struct worker worker = *(const struct worker *)array_at(&t->workers, at);
    struct tally_job *job = keyed_find(&t->jobs, worker.job_id);
    keyed_drop(&t->workers, at);
    if (job == NULL || job->running_workers == 0) return;
    run_until(job, now_us);
    job->ncu -= worker.ncu;
    if (--job->running_workers > 0) return;
    job->ncu = 0;
    job->useful_ncu_us = job->kept_ncu_us;
    job->running_us += now_us - job->running_since_us;
    job->running_since_us = 0;
}

static void stop_workers_of_node(struct tally *t, uint64_t node_key, int64_t now_us)
{
    for (uint32_t at = t->workers.count; at-- > 0;)
        if (((const struct worker *)array_at(&t->workers, at))->node_key == node_key)
            stop_worker(t, at, now_us);
}

/* A node that is taken or fails; with a notice, its workers still hand over. */
static void note_loss(struct tally *t, uint64_t node_key)
{
    t->lost++;
    for (uint32_t at = 0; at < t->workers.count; at++) {
        const struct worker *worker = array_at(&t->workers, at);
        struct tally_job *job = keyed_find(&t->jobs, worker->job_id);
        if (worker->node_key == node_key && job != NULL) job->lost++;
    }
}

static void stop_workers_of_job(struct tally *t, uint64_t job_id, int64_t now_us)
{
    for (uint32_t at = t->workers.count; at-- > 0;)
        if (((const struct worker *)array_at(&t->workers, at))->job_id == job_id)
            stop_worker(t, at, now_us);
}

/* ---- from the beginning to the end ---- */

static void begin_job(struct tally *t, const struct job_view *view)
{
    if (view->state >= JOB_DONE) return; /* it had ended before */
    struct tally_job *job = get(t, &t->jobs, view->job_id);
    if (job == NULL) return;
    job->submitted_us = view->submitted_us > t->from_us ? view->submitted_us : t->from_us;
    job->base_usd_micros = view->usd_micros;
    job->first_step = job->last_step = view->step;
}

void tally_begin(struct tally *t, const pool *p, int64_t from_us)
{
    *t = (struct tally){.from_us = from_us};
    array_init(&t->jobs, sizeof(struct tally_job));
    array_init(&t->workers, sizeof(struct worker));
    array_init(&t->nodes, sizeof(struct spender));
    for (uint32_t i = 0; i < pool_nodes_end(p); i++) {
        struct node_view view;
        if (!pool_node_at(p, i, &view)) continue;
        struct spender *node = get(t, &t->nodes, view.node_key);
        if (node != NULL) node->known_usd_micros = view.usd_micros;
    }
    for (uint32_t i = 0; i < pool_jobs_end(p); i++) {
        struct job_view view;
        if (pool_job_at(p, i, &view)) begin_job(t, &view);
    }
    for (uint32_t i = 0; i < pool_leases_end(p); i++) {
        struct lease_view view;
        if (pool_lease_at(p, i, &view) && view.phase == WORKER_PHASE_RUNNING)
            start_worker(t, p,
                         &(struct worker){.worker_id = view.worker_id,
                                          .job_id = view.job_id,
                                          .node_key = view.node_key},
                         from_us);
    }
}

static void note_report(struct tally *t, const pool *p, const struct pool_event *event)
{
    uint64_t id = event->u.worker_reported.worker_id;
    uint32_t phase = event->u.worker_reported.phase;
    struct tally_job *job = keyed_find(&t->jobs, event->u.worker_reported.job_id);
    if (job != NULL && event->u.worker_reported.step > job->last_step)
        job->last_step = event->u.worker_reported.step;
    if (phase == WORKER_PHASE_RUNNING)
        start_worker(t, p,
                     &(struct worker){.worker_id = id,
                                      .job_id = event->u.worker_reported.job_id,
                                      .node_key = event->u.worker_reported.node_key},
                     event->now_us);
    else if (phase != WORKER_PHASE_STARTING)
        for (uint32_t at = t->workers.count; at-- > 0;)
            if (((const struct worker *)array_at(&t->workers, at))->worker_id == id)
                stop_worker(t, at, event->now_us);
}

static void note_ckpt(struct tally *t, const struct pool_event *event)
{
    struct tally_job *job = keyed_find(&t->jobs, event->u.ckpt_durable.job_id);
    if (job == NULL) return;
    run_until(job, event->now_us);
    job->kept_ncu_us = job->useful_ncu_us;
}

static void end_job(struct tally *t, const pool *p, uint64_t job_id, int64_t now_us)
{
    struct job_view view;
    struct tally_job *job = keyed_find(&t->jobs, job_id);
    bool is_there = pool_job_find(p, job_id, &view);
    if (job == NULL || job->ended_us != 0 || (is_there && view.state < JOB_DONE)) return;
    run_until(job, now_us);
    double useful = job->useful_ncu_us;
    stop_workers_of_job(t, job_id, now_us);
    job->useful_ncu_us = useful;
    job->ended_us = now_us;
    job->state = is_there ? view.state : JOB_REFUSED;
}

static void note_decision(struct tally *t, const pool *p, const struct pool_decision *d,
                          int64_t now_us)
{
    struct tally_job *job = keyed_find(&t->jobs, d->job_id);
    switch (d->kind) {
    case DECISION_BUY: t->bought++; return;
    case DECISION_DRAIN:
        if (d->reason == REASON_NOTICE) note_loss(t, d->node_key);
        return;
    case DECISION_LOST: /* after a notice it was counted then */
        if (d->reason == REASON_PREEMPTED || d->reason == REASON_CRASHED ||
            d->reason == REASON_AGENT_SILENT)
            note_loss(t, d->node_key);
        stop_workers_of_node(t, d->node_key, now_us);
        return;
    case DECISION_RELEASE: stop_workers_of_node(t, d->node_key, now_us); return;
    case DECISION_PREEMPT:
        if (job != NULL && d->reason == REASON_PREEMPTED_FOR) job->preempted++;
        return;
    case DECISION_REFUSE:
    case DECISION_STOP:
    case DECISION_FINISH: end_job(t, p, d->job_id, now_us); return;
    default: return;
    }
}

void tally_step(struct tally *t, const pool *p, const struct pool_event *event,
                const struct pool_output *out)
{
    if (event->kind == POOL_EVENT_JOB_SUBMITTED &&
        keyed_find(&t->jobs, event->u.job_submitted.job_id) == NULL) {
        struct tally_job *job = get(t, &t->jobs, event->u.job_submitted.job_id);
        if (job != NULL) job->submitted_us = event->now_us;
    }
    if (event->kind == POOL_EVENT_CKPT_DURABLE) note_ckpt(t, event);
    /* The report of a worker that finished ends its job in this step: it counts as running until then. */
    bool is_end = event->kind == POOL_EVENT_WORKER_REPORTED &&
                  event->u.worker_reported.phase == WORKER_PHASE_FINISHED;
    if (event->kind == POOL_EVENT_WORKER_REPORTED && !is_end) note_report(t, p, event);
    for (uint32_t i = 0; i < out->decision_count; i++)
        note_decision(t, p, &out->decisions[i], event->now_us);
    for (uint32_t i = 0; i < out->entry_count; i++) {
        const struct ledger_entry *entry = &out->entries[i];
        struct tally_job *job = keyed_find(&t->jobs, entry->job_id);
        struct spender *node = get(t, &t->nodes, entry->node_key);
        if (node != NULL) node->known_usd_micros += entry->usd_micros;
        t->usd_micros += entry->usd_micros;
        if (job != NULL && entry->kind == ENTRY_JOB) job->usd_micros += entry->usd_micros;
    }
    if (is_end) note_report(t, p, event);
}

/* Nodes that are held still: what has run up since their last entry. */
static void count_open(struct tally *t, const pool *p)
{
    for (uint32_t i = 0; i < pool_nodes_end(p); i++) {
        struct node_view view;
        if (!pool_node_at(p, i, &view)) continue;
        const struct spender *node = keyed_find(&t->nodes, view.node_key);
        t->usd_micros += view.usd_micros - (node == NULL ? 0 : node->known_usd_micros);
    }
}

void tally_end(struct tally *t, const pool *p, int64_t to_us)
{
    count_open(t, p);
    while (t->workers.count > 0) stop_worker(t, t->workers.count - 1, to_us);
    for (uint32_t i = 0; i < t->jobs.count; i++) {
        struct tally_job *job = array_at(&t->jobs, i);
        struct job_view view;
        if (job->ended_us == 0 && pool_job_find(p, job->job_id, &view)) {
            int64_t since = view.usd_micros - job->base_usd_micros;
            job->usd_micros = since;
            job->state = view.state;
        }
        int64_t end_us = job->ended_us != 0 ? job->ended_us : to_us;
        job->waited_us = end_us - job->submitted_us - job->running_us;
    }
}

void tally_free(struct tally *t)
{
    array_free(&t->jobs);
    array_free(&t->workers);
    array_free(&t->nodes);
}

const struct tally_job *tally_find(const struct tally *t, uint64_t job_id)
{
    return keyed_find(&t->jobs, job_id);
}
