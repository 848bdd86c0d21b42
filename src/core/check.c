/* Every invariant of the pool, asserted. O(state): simulator and tests call it after each step, the
 * daemon now and then. */
#include "core/ask.h"
#include "core/assert.h"
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

static void check_list(const struct list *list, struct chain chain)
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

/* By hand: the builtin may be a call outside. */
static uint32_t count_bits(uint32_t mask)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DEVICES_NAMED_MAX; i++) count += mask >> i & 1;
    return count;
}

/* Whole devices are of one lease each, shares lie on others. */
static void check_devices(const pool *p, const struct node *n)
{
    uint32_t whole = 0, shared = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        uint32_t named = n->device_count > DEVICES_NAMED_MAX ? 0 : part_devices(own);
        ASSERT(count_bits(own->device_mask) == named);
        if (named == 0) continue;
        ASSERT(n->device_count == DEVICES_NAMED_MAX || own->device_mask >> n->device_count == 0);
        ASSERT((whole & own->device_mask) == 0);
        if (own->device_index == SLOT_NONE) {
            ASSERT((shared & own->device_mask) == 0);
            whole |= own->device_mask;
        } else {
            ASSERT(own->device_mask == UINT32_C(1) << own->device_index);
            shared |= own->device_mask;
        }
    }
}

/* Instances lie at legal places, apart from each other and from shares of another kind. */
static void check_instances(const pool *p, const struct node *n)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        if (own->mig == 0) continue;
        const struct mig_geometry *g =
            mig_geometry_of(p->models[p->offers[n->offer].model].mig_slices);
        ASSERT(g != NULL && (own->mig & 0xff) <= g->profile_count);
        const struct mig_profile *profile = &g->profiles[(own->mig & 0xff) - 1];
        ASSERT((profile->starts >> (own->mig >> 8) & 1) != 0);
        ASSERT(own->device_milli == 1000u * profile->size / g->slices);
        for (uint32_t m = own->node_link.next; m != SLOT_NONE; m = p->leases[m].node_link.next) {
            const struct lease *other = &p->leases[m];
            if (other->device_index != own->device_index) continue;
            ASSERT(other->mig != 0);
            uint32_t start = own->mig >> 8, at = other->mig >> 8;
            uint32_t size = g->profiles[(other->mig & 0xff) - 1].size;
            ASSERT(start + profile->size <= at || at + size <= start);
        }
    }
}

/* What is kept is kept for somebody who waits, and for nobody twice. */
static void check_keeps(const pool *p)
{
    ASSERT(p->mig_keep_count <= MIG_KEEPS_MAX);
    for (uint32_t i = 0; i < p->mig_keep_count; i++) {
        const struct mig_keep *keep = &p->mig_keeps[i];
        uint64_t waiting = 0;
        ASSERT(keep->slices != 0);
        for (uint32_t s = 0; s < p->shapes_end; s++)
            if (p->shapes[s].ask_hash == keep->ask_hash) waiting += p->shapes[s].queue.count;
        ASSERT(waiting > 0);
        for (uint32_t other = 0; other < i; other++)
            if (p->mig_keeps[other].node_key == keep->node_key &&
                p->mig_keeps[other].device_index == keep->device_index)
                ASSERT((p->mig_keeps[other].slices & keep->slices) == 0);
    }
}

/* No device is given out more than once over, no host more than it has. */
static void check_shares(const pool *p, const struct node *n)
{
    uint64_t cpu_milli = 0, memory_mib = 0;
    uint32_t opened = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        cpu_milli += own->host_cpu_milli;
        memory_mib += own->host_memory_mib;
        if (own->device_index == SLOT_NONE) continue;
        ASSERT(own->device_index < n->device_count);
        ASSERT(own->device_milli < 1000 || own->mig != 0);
        uint32_t milli = 0, earlier = 0;
        uint64_t device_memory_mib = 0;
        bool before = true;
        for (uint32_t m = n->leases.head; m != SLOT_NONE; m = p->leases[m].node_link.next) {
            before = before && m != l;
            if (p->leases[m].device_index != own->device_index) continue;
            milli += p->leases[m].device_milli;
            device_memory_mib += p->leases[m].memory_mib;
            earlier += before;
        }
        ASSERT(milli <= 1000);
        ASSERT(device_memory_mib <= n->device_memory_mib);
        opened += earlier == 0;
    }
    ASSERT(opened == n->devices_shared);
    if (n->host_cpu_milli != 0) ASSERT(cpu_milli <= n->host_cpu_milli);
    if (n->host_memory_mib != 0) ASSERT(memory_mib <= n->host_memory_mib);
    if (n->shared_listed) ASSERT(n->state == NODE_READY);
    if (n->shared_listed) ASSERT(n->devices_shared > 0);
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

static void check_node(const pool *p, uint32_t slot)
{
    const struct node *n = &p->nodes[slot];
    ASSERT(table_find(&p->node_table, n->node_key) == slot);
    ASSERT(heap_key(&p->timers, timer_of_node(slot)) == node_due_us(p, slot));
    check_list(&n->leases, CHAIN(p->leases, node_link));
    if (n->state == 0) {
        ASSERT(!n->billing);
        ASSERT(n->leases.count == 0);
        return;
    }
    ASSERT(n->leases.count <= NODE_LEASES_MAX);
    uint32_t leased = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        ASSERT(p->leases[l].node == slot);
        if (p->leases[l].device_index == SLOT_NONE) leased += part_devices(&p->leases[l]);
        if (n->state == NODE_RELEASING) ASSERT(p->leases[l].state == LEASE_OVER);
    }
    ASSERT(leased + n->devices_shared + n->devices_free == n->device_count);
    check_devices(p, n);
    check_instances(p, n);
    check_shares(p, n);
    ASSERT((n->state >= NODE_BOOTING && n->state <= NODE_DRAINING) <= (n->offer != SLOT_NONE));
    if (n->state == NODE_BOOTING || n->state == NODE_READY) ASSERT(n->billing);
    if (n->state == NODE_ORDERED) ASSERT(!n->billing);
    if (n->idle_listed) ASSERT(n->state == NODE_READY);
    if (n->idle_listed) ASSERT(n->devices_free > 0);
    if (n->billing) ASSERT(n->settled_us <= p->now_us);
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

static void check_nodes(const pool *p)
{
    uint32_t live = 0;
    for (uint32_t slot = 0; slot < p->nodes_end; slot++) {
        check_node(p, slot);
        live += p->nodes[slot].state != 0;
    }
    ASSERT(live == p->node_count);
    ASSERT(live + p->nodes_free.count == p->nodes_end);
    ASSERT(p->node_table.count == p->nodes_end);
    check_list(&p->nodes_free, CHAIN(p->nodes, offer_link));
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

static bool account_is_under(const pool *p, uint32_t account, uint32_t above)
{
    while (account != SLOT_NONE && account != above) account = p->accounts[account].parent;
    return account == above;
}

/* What accounts say they hold is what their jobs' leases hold. */
static void check_account(const pool *p, uint32_t slot)
{
    const struct account *a = &p->accounts[slot];
    int64_t held_milli[QUOTA_KINDS] = {0}, usd_micros_per_hour = 0, reserved_usd_micros = 0;
    uint32_t workers = 0, jobs = 0;
    for (uint32_t i = 0; i < p->leases_end; i++) {
        const struct lease *l = &p->leases[i];
        if (l->state == LEASE_FREE || !l->quota_counted) continue;
        if (!account_is_under(p, p->jobs[l->job].account, slot)) continue;
        held_milli[l->quota_kind] += l->quota_ncu_milli;
        usd_micros_per_hour += l->quota_usd_micros_per_hour;
        reserved_usd_micros += l->reserved_usd_micros;
        workers++;
    }
    for (uint32_t j = 0; j < p->jobs_end; j++)
        jobs += job_is_live(&p->jobs[j]) && account_is_under(p, p->jobs[j].account, slot);
    ASSERT(reserved_usd_micros == a->reserved_usd_micros);
    ASSERT(workers == a->workers);
    ASSERT(jobs == a->jobs);
    ASSERT(usd_micros_per_hour == a->usd_micros_per_hour);
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        ASSERT(held_milli[kind] == a->held_milli[kind]);
}

/* What a gate counts is what leases of bought capacity under it hold and have set aside. */
static void check_gates(const pool *p)
{
    int64_t hour[JOB_CLASS_END] = {0}, pool_hour = 0, pools = 0, reserved = 0, all_reserved = 0;
    for (uint32_t i = 0; i < p->leases_end; i++) {
        const struct lease *l = &p->leases[i];
        if (l->state == LEASE_FREE || !l->quota_counted || !l->gated) continue;
        hour[p->jobs[l->job].job_class] += l->quota_usd_micros_per_hour;
        reserved += l->reserved_usd_micros;
        if (l->gate_pool != SLOT_NONE) pool_hour += l->quota_usd_micros_per_hour;
    }
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        ASSERT(p->class_gates[i].usd_micros_per_hour == hour[i]);
        all_reserved += p->class_gates[i].reserved_usd_micros;
    }
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++)
        pools += p->pool_gates[i].usd_micros_per_hour;
    ASSERT(all_reserved == reserved);
    ASSERT(p->accounts[0].gate.reserved_usd_micros == reserved);
    ASSERT(pools == pool_hour);
}

static void check_accounts(const pool *p)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < p->accounts_end; i++) check_account(p, i);
    for (uint32_t s = p->shapes_used.head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next)
        waiting += p->shapes[s].quota_waits;
    ASSERT(waiting == p->quota_waiting);
    uint32_t borrowers = 0;
    for (uint32_t i = 1; i < p->accounts_end; i++)
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            borrowers += p->accounts[p->accounts[i].parent].owners_below[kind] &&
                         p->accounts[i].held_milli[kind] > p->accounts[i].total_milli[kind];
    ASSERT(borrowers == p->quota_borrowers);
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
