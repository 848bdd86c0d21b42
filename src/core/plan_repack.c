#include "core/plan_repack.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/class.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/preempt.h"

struct place {
    uint32_t node, device_index, slices; /* slices: a bit each */
};

struct move {
    uint32_t lease;
    struct place to;
};

struct repacking {
    uint64_t cost; /* milli-NCU-seconds */
    struct place place;
    uint32_t move_count;
    struct move moves[MIG_INSTANCES_MAX];
};

struct hunt {
    const pool *p;
    const struct demand *demand;
    uint32_t looks_left;
    uint64_t cost_max;
    int64_t ready_us; /* when somebody will have worked long enough; INT64_MAX: nobody */
    bool found;
    struct repacking best;
};

/* ---- what is kept ---- */

static void drop(pool *p, uint32_t at)
{
    uint32_t node = table_find(&p->node_table, p->mig_keeps[at].node_key);
    for (uint32_t i = at + 1; i < p->mig_keep_count; i++) p->mig_keeps[i - 1] = p->mig_keeps[i];
    p->mig_keeps[--p->mig_keep_count] = (struct mig_keep){0};
    if (node != SLOT_NONE && node_is_usable(&p->nodes[node]))
        offer_improve(p, p->nodes[node].offer);
}

static void drop_all(pool *p, uint64_t ask_hash)
{
    for (uint32_t at = p->mig_keep_count; at > 0; at--)
        if (p->mig_keeps[at - 1].ask_hash == ask_hash) drop(p, at - 1);
}

static bool is_queued(const pool *p, uint32_t shapes, uint64_t ask_hash)
{
    for (uint32_t s = shapes; s != SLOT_NONE; s = p->shapes[s].shapes_link.next)
        if (p->shapes[s].ask_hash == ask_hash && p->shapes[s].queue.count > 0) return true;
    return false;
}

void repack_left(pool *p, uint64_t ask_hash)
{
    if (p->mig_keep_count == 0) return;
    if (is_queued(p, p->shapes_used.head, ask_hash)) return;
    if (!is_queued(p, p->shapes_resting.head, ask_hash)) drop_all(p, ask_hash);
}

void repack_taken(pool *p, uint32_t lease)
{
    const struct lease *l = &p->leases[lease];
    uint64_t ask_hash = part_asker(p, l->job);
    uint32_t taken = SLOT_NONE;
    for (uint32_t at = p->mig_keep_count; at > 0; at--) {
        const struct mig_keep *keep = &p->mig_keeps[at - 1];
        if (keep->ask_hash != ask_hash) continue;
        bool here =
            keep->node_key == p->nodes[l->node].node_key && keep->device_index == l->device_index;
        if (taken == SLOT_NONE || here) taken = at - 1;
    }
    if (taken == SLOT_NONE) return;
    drop(p, taken);
    repack_left(p, ask_hash);
}

static void keep(pool *p, struct place place, uint64_t ask_hash)
{
    ASSERT(p->mig_keep_count < MIG_KEEPS_MAX);
    p->mig_keeps[p->mig_keep_count++] = (struct mig_keep){.node_key = p->nodes[place.node].node_key,
                                                          .ask_hash = ask_hash,
                                                          .device_index = place.device_index,
                                                          .slices = place.slices};
}

static bool is_kept(const pool *p, const struct node *n, uint32_t device_index)
{
    for (uint32_t i = 0; i < p->mig_keep_count; i++)
        if (p->mig_keeps[i].node_key == n->node_key && p->mig_keeps[i].device_index == device_index)
            return true;
    return false;
}

/* Whoever works there is on his way out. */
static bool is_being_left(const pool *p, const struct mig_keep *kept)
{
    uint32_t node = table_find(&p->node_table, kept->node_key);
    if (node == SLOT_NONE || !node_is_usable(&p->nodes[node])) return false;
    for (uint32_t l = p->nodes[node].leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->leases[l].device_index == kept->device_index && p->leases[l].state == LEASE_STOPPING)
            return true;
    return false;
}

/* ---- who moves ---- */

/* The first instance of each partitioned device of the node. */
static bool is_first_of_device(const pool *p, const struct node *n, uint32_t lease)
{
    uint32_t first = n->leases.head;
    if (p->leases[lease].mig == 0) return false;
    while (p->leases[first].device_index != p->leases[lease].device_index)
        first = p->leases[first].node_link.next;
    return first == lease;
}

static bool may_move(struct hunt *h, const struct lease *l)
{
    const pool *p = h->p;
    const struct job *j = &p->jobs[l->job];
    int64_t ready_us = l->since_us + REPACK_HOLD_S * INT64_C(1000000);
    bool may = l->state == LEASE_ACTIVE && j->state == JOB_RUNNING && j->preempted_by == 0 &&
               p->classes[j->job_class].preemptible && j->job_class >= h->demand->job_class;
    if (may && ready_us > p->now_us && ready_us < h->ready_us) h->ready_us = ready_us;
    return may && ready_us <= p->now_us;
}

static uint64_t cost_of(const pool *p, const struct lease *l)
{
    uint64_t ncu_milli = p->models[p->offers[p->nodes[l->node].offer].model].ncu_milli;
    return 1 + ncu_milli * l->device_milli / 1000 * (victim_lost_s(p, l) + RESTART_S);
}

static struct mig_instance instance_of(const struct lease *l)
{
    return (struct mig_instance){.profile = (uint8_t)((l->mig & 0xff) - 1),
                                 .start = (uint8_t)(l->mig >> 8)};
}

static bool is_dearer(const pool *p, const struct node *a, const struct node *b)
{
    return p->offers[a->offer].usd_micros_per_hour * (int64_t)b->device_count >
           p->offers[b->offer].usd_micros_per_hour * (int64_t)a->device_count;
}

/* A place on another partitioned device, of this node or of another where its job could work. */
static bool place_elsewhere(struct hunt *h, uint32_t lease, uint32_t node, struct place *ret_place)
{
    const pool *p = h->p;
    const struct lease *own = &p->leases[lease];
    const struct shape *s = &p->shapes[p->jobs[own->job].shape];
    const struct node *n = &p->nodes[node], *from = &p->nodes[own->node];
    struct demand demand = demand_of(s, terms_of(p, s), 1, /* committed */ 0);
    demand.job = own->job;
    demand.order = p->jobs[own->job].order;
    if (node != own->node &&
        (is_dearer(p, n, from) || !preempt_is_place(p, &demand, p->offers[from->offer].region_index,
                                                    /* need */ 1, node)))
        return false;
    struct part_mig mig = part_mig_on(p, demand.terms, p->offers[n->offer].model);
    if (mig.geometry == NULL) return false;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        uint32_t index = p->leases[l].device_index;
        if (!is_first_of_device(p, n, l) || (node == own->node && index == own->device_index))
            continue;
        uint32_t start = part_mig_start(p, n, index, mig, /* asker */ 0);
        if (start == MIG_SLICES_MAX) continue;
        uint32_t size = mig.geometry->profiles[mig.profile].size;
        *ret_place = (struct place){node, index, ((UINT32_C(1) << size) - 1) << start};
        return true;
    }
    return false;
}

static bool leaves(struct hunt *h, uint32_t lease, struct place *ret_place)
{
    for (uint32_t node = 0; node < h->p->nodes_end && h->looks_left > 0; node++) {
        const struct node *n = &h->p->nodes[node];
        if (n->state != NODE_READY || n->offer == SLOT_NONE || n->devices_shared == 0) continue;
        h->looks_left--;
        if (place_elsewhere(h, lease, node, ret_place)) return true;
    }
    return false;
}

static uint32_t mask_of(const struct mig_geometry *g, uint32_t profile, uint32_t start)
{
    return ((UINT32_C(1) << g->profiles[profile].size) - 1) << start;
}

static void note_plan(struct hunt *h, struct place place, const struct mig_geometry *g,
                      const struct mig_gpu *gpu, const struct mig_plan *plan,
                      const struct move *instances)
{
    h->found = true;
    h->best =
        (struct repacking){.cost = plan->cost, .place = place, .move_count = plan->move_count};
    for (uint32_t i = 0; i < plan->move_count; i++) {
        struct move *move = &h->best.moves[i];
        *move = instances[plan->moves[i]];
        if (plan->to[i] == MIG_SLICES_MAX) continue;
        move->to = place;
        move->to.slices = mask_of(g, gpu->instances[plan->moves[i]].profile, plan->to[i]);
    }
}

/* Slices enough are free, and nobody is there to whom that is due. */
static bool is_conflict(const struct hunt *h, uint32_t node, uint32_t device_index,
                        struct part_mig mig)
{
    const pool *p = h->p;
    const struct node *n = &p->nodes[node];
    struct mig_gpu gpu = {0};
    if (mig.geometry == NULL || is_kept(p, n, device_index)) return false;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->leases[l].device_index == device_index)
            gpu.instances[gpu.count++] = instance_of(&p->leases[l]);
    return mig_ask(mig.geometry, mig_used(mig.geometry, &gpu), mig.profile) == MIG_CONFLICT;
}

static void try_device(struct hunt *h, uint32_t node, uint32_t device_index)
{
    const pool *p = h->p;
    const struct node *n = &p->nodes[node];
    struct part_mig mig = part_mig_on(p, h->demand->terms, p->offers[n->offer].model);
    struct mig_gpu gpu = {0};
    struct mig_plan plan;
    struct move instances[MIG_INSTANCES_MAX];
    if (!is_conflict(h, node, device_index, mig)) return;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        if (own->device_index != device_index) continue;
        struct mig_instance *instance = &gpu.instances[gpu.count];
        *instance = instance_of(own);
        instance->movable = may_move(h, own);
        instance->cost = cost_of(p, own);
        instances[gpu.count] = (struct move){.lease = l};
        if (instance->movable) instance->leaves = leaves(h, l, &instances[gpu.count].to);
        gpu.count++;
    }
    if (!mig_repack(mig.geometry, &gpu, mig.profile, &plan)) return;
    if (plan.cost > h->cost_max || (h->found && plan.cost >= h->best.cost)) return;
    struct place place = {node, device_index, mask_of(mig.geometry, mig.profile, plan.start)};
    note_plan(h, place, mig.geometry, &gpu, &plan, instances);
}

static void try_node(struct hunt *h, uint32_t node)
{
    const pool *p = h->p;
    const struct node *n = &p->nodes[node];
    if (n->state != NODE_READY || n->offer == SLOT_NONE || n->devices_shared == 0) return;
    h->looks_left--;
    uint32_t region_index = p->offers[n->offer].region_index, region = h->demand->region;
    if (region != 0 && p->regions[region_index].region != region) return;
    if (!preempt_is_place(p, h->demand, region_index, /* need */ 1, node)) return;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (is_first_of_device(p, n, l)) try_device(h, node, p->leases[l].device_index);
}

/* What it may cost: a part of the work that the job brings, on the smallest model it may use. */
static uint64_t cost_max(const pool *p, const struct demand *demand)
{
    int64_t run_us = demand->run_us != 0 ? demand->run_us : REPACK_RUN_S * INT64_C(1000000);
    uint64_t least = UINT64_MAX, seconds = (uint64_t)(run_us / 1000000);
    if (seconds > LOST_S_MAX) seconds = LOST_S_MAX;
    for (uint64_t rest = demand->compat_mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        uint64_t ncu_milli = p->models[model].ncu_milli;
        uint64_t brings = ncu_milli * part_milli_on(p, demand->terms, model) / 1000 * seconds;
        if (part_mig_on(p, demand->terms, model).geometry != NULL && brings < least) least = brings;
    }
    return least == UINT64_MAX ? 0 : least / REPACK_SHARE;
}

/* ---- done ---- */

static void move(pool *p, const struct move *move, uint32_t for_job, struct pool_output *out)
{
    const struct lease *l = &p->leases[move->lease];
    uint32_t job = l->job;
    int64_t notice_us = terms_of(p, &p->shapes[p->jobs[job].shape])->notice_us;
    if (notice_us == 0) notice_us = p->config.drain_us;
    if (notice_us > p->config.boot_timeout_us / 2) notice_us = p->config.boot_timeout_us / 2;
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PREEMPT,
                                        .reason = REASON_MIG_MOVED,
                                        .job_id = p->jobs[job].job_id,
                                        .node_key = p->nodes[l->node].node_key,
                                        .a = (int64_t)p->jobs[for_job].job_id,
                                        .b = (int64_t)(cost_of(p, l) / 1000)});
    keep(p, move->to, part_asker(p, job));
    lease_stop(p, move->lease, REASON_MIG_MOVED, p->now_us + notice_us);
    MARK(out, INSTANCE_MOVED);
    plan_requeue(p, job, out);
}

bool plan_repack(pool *p, uint32_t job, const struct demand *demand, struct pool_output *out)
{
    uint64_t asker = part_asker(p, job);
    if (demand->terms->mig_profile == 0) return false;
    bool any = false;
    for (uint32_t i = 0; i < p->mig_keep_count; i++) {
        if (p->mig_keeps[i].ask_hash != asker) continue;
        if (is_being_left(p, &p->mig_keeps[i]) || plan_works_still(p, &p->jobs[job])) return true;
        any = true;
    }
    if (any) { /* it is there, and something else is in the way: no second attempt at once */
        drop_all(p, asker);
        return false;
    }
    struct hunt h = {.p = p,
                     .demand = demand,
                     .looks_left = REPACK_LOOKS_MAX,
                     .ready_us = INT64_MAX,
                     .cost_max = cost_max(p, demand)};
    if (demand->devices_left == 0 || demand->workers_left == 0) return false;
    for (uint32_t node = 0; node < p->nodes_end && h.looks_left > 0; node++) try_node(&h, node);
    if (!h.found && h.ready_us < p->jobs[job].review_us) { /* then it looks again */
        p->jobs[job].review_us = h.ready_us;
        job_retime(p, job);
    }
    if (!h.found || !act_has_room(out)) return false;
    if (p->mig_keep_count + 1 + h.best.move_count > MIG_KEEPS_MAX) return false;
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PREEMPT,
                                        .reason = REASON_MIG_REPACKS,
                                        .job_id = p->jobs[job].job_id,
                                        .node_key = p->nodes[h.best.place.node].node_key,
                                        .a = demand->terms->mig_profile,
                                        .b = h.best.move_count,
                                        .c = (int64_t)(h.best.cost / 1000)});
    keep(p, h.best.place, asker);
    for (uint32_t i = 0; i < h.best.move_count; i++) move(p, &h.best.moves[i], job, out);
    return true;
}
