/* Nodes of culprits: a worker that its job's own workers have named for long enough loses its node.
 *
 * Named      A level that the shell repeats (POOL_EVENT_WORKER_STALLED): believed for
 *            STALL_BELIEVED_US after it was last told, so a lost "it is over" costs nobody a node.
 * Bounded    Never a victim: only who is named itself, and not while a quarter of the job's workers
 *            is named at once (then it is nobody's own fault). One node of a job at a time, then a
 *            pause that doubles. Never a machine that would only come back: owned ones.
 */
#include "core/act.h"
#include "core/assert.h"
#include "core/lease.h"
#include "core/node.h"
#include "core/offer.h"
#include "core/plan.h"

static bool is_slow(uint32_t kind)
{
    return kind >= SLOW_DATA;
}

/* A link has two ends, and a program that diverges does so on any machine. */
static bool is_of_one_machine(uint32_t kind)
{
    return kind != STALL_LINK && kind != SLOW_LINK && kind != STALL_DIVERGED;
}

static bool is_named(const pool *p, const struct lease *l)
{
    return l->stall_kind != 0 && p->now_us <= l->stall_heard_us + STALL_BELIEVED_US;
}

uint32_t plan_lease_of_worker(const pool *p, const struct job *j, uint64_t worker_id)
{
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (worker_id != 0 && p->leases[l].worker_id == worker_id) return l;
    return SLOT_NONE;
}

bool plan_name(pool *p, uint32_t lease, uint32_t kind)
{
    struct lease *l = &p->leases[lease];
    bool goes_on = is_named(p, l) && is_slow(l->stall_kind) == is_slow(kind);
    bool same = is_named(p, l) && l->stall_kind == kind;
    if (!goes_on) l->stall_since_us = p->now_us;
    l->stall_heard_us = p->now_us;
    l->stall_kind = kind;
    return !same;
}

void plan_unname(pool *p, uint32_t job, uint64_t worker_id)
{
    for (uint32_t i = p->jobs[job].leases.head; i != SLOT_NONE; i = p->leases[i].job_link.next) {
        struct lease *l = &p->leases[i];
        if (is_slow(l->stall_kind)) continue;
        if (worker_id == 0 || l->worker_id == worker_id) l->stall_kind = 0;
    }
}

static bool is_one_of_many(const pool *p, const struct job *j)
{
    uint32_t named = 0, workers = 0;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (p->leases[l].state != LEASE_ACTIVE) continue;
        named += is_named(p, &p->leases[l]);
        workers++;
    }
    return named > 1 && named * STALL_MANY_SHARE >= workers;
}

static bool is_due(const pool *p, const struct lease *l)
{
    int64_t after_us =
        is_slow(l->stall_kind) ? p->config.replace_slow_us : p->config.replace_stalled_us;
    return after_us != 0 && is_named(p, l) && is_of_one_machine(l->stall_kind) &&
           p->now_us >= l->stall_since_us + after_us;
}

/* A slow worker still works: it goes only if another machine can be had, and it alone is there. */
static bool may_go(const pool *p, const struct lease *l)
{
    const struct node *n = &p->nodes[l->node];
    if (l->state != LEASE_ACTIVE || n->state != NODE_READY) return false;
    const struct offer *o = &p->offers[n->offer];
    if (o->capacity == CAPACITY_OWNED) return false;
    return !is_slow(l->stall_kind) || (n->leases.count == 1 && offer_stock(p, o) > 0);
}

void plan_replace(pool *p, uint32_t lease, struct pool_output *out)
{
    struct lease *l = &p->leases[lease];
    struct job *j = &p->jobs[l->job];
    if (!is_due(p, l) || p->now_us < j->replace_from_us || !may_go(p, l)) return;
    if (is_one_of_many(p, j)) {
        MARK(out, STALL_OF_MANY);
        return;
    }
    uint32_t reason = is_slow(l->stall_kind) ? REASON_CULPRIT_SLOW : REASON_CULPRIT_STALLED;
    struct numbers numbers = {
        .a = p->now_us - l->stall_since_us, .b = (int64_t)l->worker_id, .c = ++j->replaced_count};
    uint32_t doublings = j->replaced_count - 1;
    if (doublings > REPLACE_DOUBLINGS_MAX) doublings = REPLACE_DOUBLINGS_MAX;
    j->replace_from_us = p->now_us + (REPLACE_QUIET_US << doublings);
    p->replaced_count++;
    plan_leave(p, lease, reason, numbers, out);
}
