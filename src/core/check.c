/* Every invariant of the pool, asserted. O(state): simulator and tests call it after each step, the
 * daemon now and then. */
#include "core/ask.h"
#include "core/assert.h"
#include "core/check_parts.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/near.h"
#include "core/node.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/plan_pack.h"
#include "core/prices.h"
#include "core/promise.h"
#include "core/victims.h"

void check_list(const struct list *list, struct chain chain)
{
    uint32_t count = 0, previous = SLOT_NONE;
    for (uint32_t at = list->head; at != SLOT_NONE; at = list_link(chain, at)->next) {
        ASSERT(list_link(chain, at)->previous == previous);
        ASSERT(count < list->count);
        previous = at;
        count++;
    }
    ASSERT(count == list->count);
    ASSERT(list->tail == previous);
}

/* What a job holds is together and apart as it asked. */
static void check_near(const pool *p, const struct job *j)
{
    const struct near near = near_of(terms_of(p, &p->shapes[j->shape]));
    for (uint32_t a = j->leases.head; a != SLOT_NONE; a = p->leases[a].job_link.next) {
        const struct lease *l = &p->leases[a];
        if (!near_counts(p, l)) continue;
        if (near.spread != TOPOLOGY_ANY) ASSERT(l->device_count == 1);
        for (uint32_t b = l->job_link.next; b != SLOT_NONE; b = p->leases[b].job_link.next) {
            uint32_t other = p->leases[b].node;
            if (!near_counts(p, &p->leases[b])) continue;
            ASSERT(near.same < TOPOLOGY_NODE);
            if (near.same != TOPOLOGY_ANY) ASSERT(!near_are_apart(p, near.same, l->node, other));
            if (near.same == TOPOLOGY_RACK)
                ASSERT(near_place(&p->offers[p->nodes[other].offer], TOPOLOGY_RACK) != NEAR_ALONE);
            if (near.spread != TOPOLOGY_ANY) ASSERT(near_are_apart(p, near.spread, l->node, other));
        }
    }
}

/* What a node has promised, in the order of those it was promised to. */
static void check_promises_of_node(const pool *p, const struct node *n)
{
    uint32_t count = 0;
    uint64_t order = 0;
    check_list(&n->promises, CHAIN(p->promises, node_link));
    for (uint32_t at = n->promises.head; at != SLOT_NONE; at = p->promises[at].node_link.next) {
        const struct promise *promise = &p->promises[at];
        ASSERT(&p->nodes[promise->node] == n);
        ASSERT(promise->device_count > 0);
        ASSERT(promise_order(p, promise->job) > order);
        order = promise_order(p, promise->job);
        count += promise->device_count;
    }
    ASSERT(count == n->promised_count);
    ASSERT(count <= n->device_count);
    if (count > 0) ASSERT(node_is_usable(n));
}

/* And what its jobs count on. */
static void check_promises(const pool *p)
{
    uint32_t reservations = 0, used = 0;
    for (uint32_t n = 0; n < p->nodes_end; n++) check_promises_of_node(p, &p->nodes[n]);
    for (uint32_t slot = 0; slot < p->jobs_end; slot++) {
        const struct job *j = &p->jobs[slot];
        uint32_t promised = 0;
        check_list(&j->promises, CHAIN(p->promises, job_link));
        for (uint32_t at = j->promises.head; at != SLOT_NONE; at = p->promises[at].job_link.next) {
            ASSERT(p->promises[at].job == slot);
            promised += p->promises[at].device_count;
        }
        used += j->promises.count;
        ASSERT(promised == j->promised_count);
        if (j->promised_count > 0) ASSERT(job_is_live(j));
        if (j->preempted_by != 0) ASSERT(job_is_bound(j));
        reservations += j->promise_until_us != 0;
    }
    ASSERT(used + p->promises_free.count == p->promises_end);
    ASSERT(reservations == p->reservation_count);
}

/* Kept by model, so that shares cost no walk: the same as counted. */
static void check_uses(const pool *p)
{
    uint64_t devices = 0, held = 0, promised = 0;
    for (uint32_t m = 0; m < p->config.limits.models_max; m++) {
        devices += p->uses[m].device_count;
        for (uint32_t c = 0; c < JOB_CLASS_END; c++) {
            held += p->uses[m].held_count[c];
            promised += p->uses[m].promised_count[c];
        }
    }
    for (uint32_t n = 0; n < p->nodes_end; n++) {
        if (node_is_usable(&p->nodes[n])) devices -= p->nodes[n].device_count;
        promised -= p->nodes[n].promised_count;
    }
    for (uint32_t l = 0; l < p->leases_end; l++)
        if (lease_holds(&p->leases[l])) held -= part_devices(&p->leases[l]);
    ASSERT(devices == 0);
    ASSERT(held == 0);
    ASSERT(promised == 0);
}

/* Every node with victims is in the one list of its market where a search looks for it. */
static void check_victims(const pool *p)
{
    uint32_t listed = 0, with_victims = 0;
    for (uint32_t i = 0; i < p->regions_end * p->config.limits.models_max; i++) {
        const struct market *market = &p->markets[i];
        check_list(&market->victims, CHAIN(p->nodes, victim_link));
        check_list(&market->victims_promised, CHAIN(p->nodes, victim_link));
        listed += market->victims.count + market->victims_promised.count;
        for (uint32_t n = market->victims.head; n != SLOT_NONE; n = p->nodes[n].victim_link.next)
            ASSERT(p->nodes[n].promised_count < p->nodes[n].device_count);
        for (uint32_t n = market->victims_promised.head; n != SLOT_NONE;
             n = p->nodes[n].victim_link.next)
            ASSERT(promise_order(p, p->promises[p->nodes[n].promises.tail].job) <=
                   p->promise_order_max);
    }
    for (uint32_t n = 0; n < p->nodes_end; n++) {
        uint32_t count = 0;
        for (uint32_t l = p->nodes[n].leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
            count += victims_counts(p, &p->leases[l]) ? 1 : 0;
        ASSERT(count == p->nodes[n].victim_count);
        with_victims += count > 0;
    }
    ASSERT(listed == with_victims);
}

static void check_leases(const pool *p)
{
    uint32_t used = 0;
    for (uint32_t slot = 0; slot < p->leases_end; slot++) {
        const struct lease *l = &p->leases[slot];
        int64_t key = heap_key(&p->timers, timer_of_lease(p, slot));
        if (l->state == LEASE_FREE) {
            ASSERT(key == HEAP_KEY_NEVER);
            continue;
        }
        used++;
        ASSERT(key == lease_due_us(p, slot));
        ASSERT(l->device_count > 0);
        ASSERT(l->paid_milli >= part_of_lease(l));
        if (l->stall_kind != 0) ASSERT(l->stall_since_us <= l->stall_heard_us);
        if (l->state == LEASE_RESERVED) ASSERT(l->worker_id == 0);
        if (l->state == LEASE_ACTIVE) ASSERT(l->worker_id != 0);
        if (l->state == LEASE_ACTIVE) ASSERT(p->nodes[l->node].state == NODE_READY);
        if (l->state == LEASE_ACTIVE) ASSERT(job_is_bound(&p->jobs[l->job]));
        if (l->state == LEASE_RESERVED) ASSERT(job_is_bound(&p->jobs[l->job]));
    }
    ASSERT(used + p->leases_free.count == p->leases_end);
    check_list(&p->leases_free, CHAIN(p->leases, job_link));
}

static void check_job(const pool *p, uint32_t slot)
{
    const struct job *j = &p->jobs[slot];
    ASSERT(table_find(&p->job_table, j->job_id) == slot);
    ASSERT(heap_key(&p->timers, timer_of_job(p, slot)) == job_due_us(j));
    check_list(&j->leases, CHAIN(p->leases, job_link));
    if (job_is_live(j))
        ASSERT(j->shape != SLOT_NONE);
    else
        ASSERT(j->shape == SLOT_NONE);
    if (j->interested) ASSERT(job_is_bound(j));
    if (j->claims) ASSERT(job_is_live(j));
    if (j->claims) ASSERT(j->claim_until_us != 0);
    if (!job_is_bound(j)) ASSERT(heap_key(&p->plans, slot) == HEAP_KEY_NEVER);
    if (!job_is_bound(j)) return;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        const struct node *n = &p->nodes[p->leases[l].node];
        /* One region per job; what is on its way out may still be elsewhere. */
        if (node_is_usable(n) && p->leases[l].state != LEASE_STOPPING)
            ASSERT(p->offers[n->offer].region_index == j->region_index);
    }
    check_near(p, j);
}

static void check_jobs(const pool *p)
{
    uint32_t live = 0, with_budget = 0;
    int64_t spent = p->usd_micros_forgotten;
    for (uint32_t slot = 0; slot < p->jobs_end; slot++) {
        check_job(p, slot);
        live += job_is_live(&p->jobs[slot]);
        spent = money_add(spent, p->jobs[slot].usd_micros);
        with_budget += job_has_budget(p, &p->jobs[slot]);
    }
    ASSERT(with_budget == p->budget_job_count);
    ASSERT(spent == p->usd_micros_jobs);
    ASSERT(live + p->ended.count == p->jobs_end);
    ASSERT(p->job_table.count == p->jobs_end);
    check_list(&p->ended, CHAIN(p->jobs, ended_link));
}

static uint32_t check_shapes_of(const pool *p, const struct list *shapes)
{
    uint32_t users = 0;
    check_list(shapes, CHAIN(p->shapes, shapes_link));
    for (uint32_t s = shapes->head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
        const struct shape *shape = &p->shapes[s];
        users += shape->user_count;
        ASSERT(shape->first_waiting == 0);
        ASSERT(shape->threshold_ppm >= p->least_threshold_ppm);
        if (!plan_match_owns(p, shape))
            ASSERT((shape->queue.count == 0) == (shapes == &p->shapes_idle));
        check_list(&shape->queue, CHAIN(p->jobs, queue_link));
        for (uint32_t j = shape->queue.head; j != SLOT_NONE; j = p->jobs[j].queue_link.next) {
            ASSERT(p->jobs[j].state == JOB_QUEUED);
            ASSERT(p->jobs[j].shape == s);
            uint32_t next = p->jobs[j].queue_link.next;
            if (next != SLOT_NONE) ASSERT(p->jobs[j].order < p->jobs[next].order);
        }
    }
    return users;
}

static void check_shapes(const pool *p)
{
    uint32_t live = 0;
    check_list(&p->shapes_free, CHAIN(p->shapes, shapes_link));
    uint32_t users = check_shapes_of(p, &p->shapes_idle) + check_shapes_of(p, &p->shapes_used) +
                     check_shapes_of(p, &p->shapes_resting);
    ASSERT(p->shapes_idle.count + p->shapes_used.count + p->shapes_resting.count +
               p->shapes_free.count ==
           p->shapes_end);
    for (uint32_t j = 0; j < p->jobs_end; j++) live += job_is_live(&p->jobs[j]);
    ASSERT(users == live);
    ask_check(p);
}

static void check_offers(const pool *p)
{
    uint32_t nodes = 0, live = 0;
    for (uint32_t slot = 0; slot < p->offers_end; slot++) {
        const struct offer *o = &p->offers[slot];
        ASSERT(table_find(&p->offer_table, o->offer_id) == slot);
        ASSERT(heap_key(&p->timers, timer_of_offer(p, slot)) == offer_due_us(o));
        ASSERT(o->metered_us <= p->now_us);
        ASSERT(o->meter.remainder < (uint64_t)HOUR_US);
        check_list(&o->nodes, CHAIN(p->nodes, offer_link));
        check_list(&o->idle_nodes, CHAIN(p->nodes, idle_link));
        check_list(&o->shared_nodes, CHAIN(p->nodes, shared_link));
        ASSERT((o->idle_nodes.count + o->shared_nodes.count > 0) == (o->idle_listed != 0));
        nodes += o->nodes.count;
    }
    for (uint32_t n = 0; n < p->nodes_end; n++)
        live += p->nodes[n].state != 0 && p->nodes[n].offer != SLOT_NONE;
    ASSERT(nodes == live);
}

static void check_markets(const pool *p)
{
    uint32_t offers = 0, unsorted = 0;
    for (uint32_t i = 0; i < p->regions_end * p->config.limits.models_max; i++) {
        const struct market *market = &p->markets[i];
        check_list(&market->idle_offers, CHAIN(p->offers, idle_link));
        uint64_t reach[CAPACITY_KIND_END] = {0};
        offers += market->count;
        unsorted += !market->sorted && market->count > PRICES_SCAN_MAX;
        for (uint32_t at = 0; at < market->count; at++) {
            const struct price *price = &p->prices[market->first + at];
            const struct offer *o = &p->offers[price->offer];
            ASSERT(o->place == at);
            ASSERT(o->unit_usd_micros == price->unit_usd_micros);
            reach[o->capacity] += (uint64_t)o->reach_count * o->device_count;
            if (market->sorted && at > 0) ASSERT(price[-1].unit_usd_micros <= o->unit_usd_micros);
        }
        for (uint32_t kind = 0; kind < CAPACITY_KIND_END; kind++)
            ASSERT(reach[kind] == market->reach_devices[kind]);
    }
    ASSERT(offers == p->offers_end);
    ASSERT(unsorted == p->unsorted_count);
}

static void check_terms(const pool *p)
{
    uint32_t used = 0, users = 0;
    check_list(&p->terms_unused, CHAIN(p->terms, unused_link));
    for (uint32_t slot = TERMS_NONE + 1; slot < p->terms_end; slot++) {
        ASSERT(table_find(&p->terms_table, p->terms[slot].terms_id) == slot);
        used += p->terms[slot].user_count > 0;
        users += p->terms[slot].user_count;
    }
    ASSERT(used + p->terms_unused.count + 1 == p->terms_end);
    ASSERT(p->terms_table.count + 1 == p->terms_end);
    for (uint32_t s = 0; s < p->shapes_end; s++) {
        if (p->shapes[s].user_count == 0) continue;
        ASSERT(p->shapes[s].terms < p->terms_end);
        users -= p->shapes[s].terms != TERMS_NONE;
    }
    ASSERT(users == 0);
}

static void check_matched_job(const pool *p, uint32_t slot)
{
    const struct job *j = &p->jobs[slot];
    bool owned = job_is_live(j) && plan_match_owns(p, &p->shapes[j->shape]);
    ASSERT(owned == (j->match_listed != MATCH_NOT));
    if (!owned) {
        ASSERT(j->match_market == SLOT_NONE);
        ASSERT(!j->match_leaves);
        return;
    }
    if (j->match_listed == MATCH_RUNNING) ASSERT(job_is_bound(j));
    if (j->match_listed == MATCH_WAITING) ASSERT(j->match_market == SLOT_NONE);
    if (j->match_listed == MATCH_ASSIGNED) ASSERT(j->match_market != SLOT_NONE);
    if (j->match_listed != MATCH_RUNNING) ASSERT(j->state == JOB_QUEUED);
    if (j->match_listed != MATCH_RUNNING) ASSERT(!j->match_leaves);
    if (j->state != JOB_RUNNING) ASSERT(j->speed == 0);
}

static void check_matching(const pool *p)
{
    uint64_t listed = 0, assigned = 0;
    for (uint32_t list = MATCH_WAITING; list < MATCH_LIST_END; list++)
        for (uint32_t class = 0; class < JOB_CLASS_END; class ++) {
            const struct list *jobs = &p->matched[list][class];
            check_list(jobs, CHAIN(p->jobs, match_link));
            listed += jobs->count;
            for (uint32_t j = jobs->head; j != SLOT_NONE; j = p->jobs[j].match_link.next) {
                ASSERT(p->jobs[j].match_listed == list);
                ASSERT(p->jobs[j].job_class == class);
                if (list == MATCH_ASSIGNED) assigned += p->jobs[j].devices_min;
            }
        }
    for (uint32_t j = 0; j < p->jobs_end; j++) {
        check_matched_job(p, j);
        listed -= p->jobs[j].match_listed != MATCH_NOT;
    }
    for (uint32_t i = 0; i < p->regions_end * p->config.limits.models_max; i++)
        assigned -= p->markets[i].match_assigned;
    ASSERT(listed == 0);
    ASSERT(assigned == 0);
    ASSERT(p->match_order.count == 0);
    ASSERT(p->works_told.count == p->works_end);
    check_list(&p->works_told, CHAIN(p->works, told_link));
    ASSERT(heap_key(&p->timers, timer_of_match(p)) == p->match_due_us);
}

void pool_check(const pool *p)
{
    heap_check(&p->timers);
    heap_check(&p->plans);
    check_nodes(p);
    check_leases(p);
    check_jobs(p);
    check_shapes(p);
    check_offers(p);
    check_markets(p);
    check_terms(p);
    check_accounts(p);
    packing_check(p);
    check_gates(p);
    check_promises(p);
    check_keeps(p);
    check_uses(p);
    check_victims(p);
    check_matching(p);
}
