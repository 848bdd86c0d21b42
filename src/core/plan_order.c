/* Order: class, then age. Jobs that ask for the same thing form a shape and are judged once: when
 * the oldest of them cannot start, none can, and nobody looks again until supply improves. That is
 * what keeps a million hopeless jobs from costing anything per event. */
#include "core/ask.h"
#include "core/assert.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/quota.h"
#include "core/share.h"
#include "core/terms.h"

void shape_fill(const pool *p, const struct pool_event *event, struct shape *ret_shape)
{
    *ret_shape = (struct shape){
        .capability_mask = event->u.job_submitted.capability_mask,
        .pool_mask = event->u.job_submitted.pool_mask,
        .budget_usd_micros_per_hour = event->u.job_submitted.budget_usd_micros_per_hour,
        .vram_min_mib = event->u.job_submitted.vram_min_mib,
        .devices_min = event->u.job_submitted.devices_min,
        .devices_max = event->u.job_submitted.devices_max,
        .price_threshold_ppm = event->u.job_submitted.price_threshold_ppm,
        .region = event->u.job_submitted.region,
        .job_class = event->u.job_submitted.job_class,
        .kind = event->u.job_submitted.kind,
        .capacity_mask = event->u.job_submitted.capacity_mask,
        .terms = terms_find(p, event->u.job_submitted.terms_id),
        .account = p->accounts_defined ? quota_find_of(p, event) : ACCOUNT_POOL};
    const struct job_terms *terms = terms_of(p, ret_shape);
    if (terms != NULL && terms->deadline_us != 0)
        ret_shape->only_job_id = event->u.job_submitted.job_id;
    shape_judge(p, ret_shape);
}

bool ask_is_same(const struct shape *a, const struct shape *b)
{
    return a->capability_mask == b->capability_mask && a->pool_mask == b->pool_mask &&
           a->budget_usd_micros_per_hour == b->budget_usd_micros_per_hour &&
           a->vram_min_mib == b->vram_min_mib && a->devices_min == b->devices_min &&
           a->devices_max == b->devices_max && a->price_threshold_ppm == b->price_threshold_ppm &&
           a->region == b->region && a->job_class == b->job_class && a->kind == b->kind &&
           a->capacity_mask == b->capacity_mask && a->terms == b->terms &&
           a->only_job_id == b->only_job_id;
}

static bool is_same(const struct shape *a, const struct shape *b)
{
    return ask_is_same(a, b) && a->account == b->account;
}

static uint64_t hash_of(const struct shape *s)
{
    uint64_t hash = table_hash(s->capability_mask);
    hash = table_hash(hash ^ s->pool_mask);
    hash = table_hash(hash ^ (uint64_t)s->budget_usd_micros_per_hour);
    hash = table_hash(hash ^ ((uint64_t)s->devices_min << 32 | s->devices_max));
    hash = table_hash(hash ^ ((uint64_t)s->vram_min_mib << 32 | s->price_threshold_ppm));
    hash = table_hash(
        hash ^ ((uint64_t)s->region << 32 | s->capacity_mask << 16 | s->kind << 8 | s->job_class));
    if (s->only_job_id != 0) hash = table_hash(hash ^ s->only_job_id);
    return s->terms == TERMS_NONE ? hash : table_hash(hash ^ s->terms);
}

uint32_t shape_find(const pool *p, struct shape *wanted)
{
    wanted->ask_hash = wanted->hash = hash_of(wanted);
    if (wanted->account != ACCOUNT_POOL)
        wanted->hash = table_hash(wanted->hash ^ ((uint64_t)wanted->account << 32));
    uint32_t slot = table_find(&p->shape_table, wanted->hash);
    while (slot != SLOT_NONE && !is_same(&p->shapes[slot], wanted)) /* two shapes, one hash */
        slot = table_find(&p->shape_table, ++wanted->hash);
    return slot;
}

/* Only ever lower: a bound for what can be skipped, not a fact about anyone. */
void plan_note_threshold(pool *p, uint32_t threshold_ppm)
{
    if (threshold_ppm < p->least_threshold_ppm) p->least_threshold_ppm = threshold_ppm;
}

/* Supply wakes matched jobs that run, too: they may be better off elsewhere. */
static struct list *list_without_queue(pool *p, const struct shape *s)
{
    return plan_match_owns(p, s) ? &p->shapes_used : &p->shapes_idle;
}

uint32_t shape_enter(pool *p, const struct pool_event *event)
{
    struct shape wanted;
    shape_fill(p, event, &wanted);
    uint32_t slot = shape_find(p, &wanted);
    if (slot == SLOT_NONE) {
        slot = p->shapes_free.head;
        if (slot == SLOT_NONE)
            slot = p->shapes_end++;
        else
            list_remove(&p->shapes_free, CHAIN(p->shapes, shapes_link), slot);
        ASSERT(slot < p->config.limits.jobs_max);
        p->shapes[slot] = wanted;
        terms_use(p, wanted.terms);
        list_clear(&p->shapes[slot].queue);
        list_append(list_without_queue(p, &wanted), CHAIN(p->shapes, shapes_link), slot);
        ask_enter(p, slot);
        table_insert(&p->shape_table, wanted.hash, slot);
    }
    p->shapes[slot].user_count++;
    plan_note_threshold(p, p->shapes[slot].threshold_ppm);
    return slot;
}

static void stop_waiting(pool *p, struct shape *s)
{
    if (!s->quota_waits) return;
    s->quota_waits = 0;
    if (--p->quota_waiting > 0) return;
    p->quota_wake_us = 0;
    quota_retime(p);
}

void shape_leave(pool *p, uint32_t slot)
{
    struct shape *s = &p->shapes[slot];
    ASSERT(s->user_count > 0);
    if (--s->user_count > 0) return;
    ASSERT(s->queue.count == 0);
    stop_waiting(p, s);
    heap_set(&p->plans, plan_of_shape(p, slot), HEAP_KEY_NEVER);
    table_remove(&p->shape_table, s->hash);
    ask_leave(p, slot);
    list_remove(list_without_queue(p, s), CHAIN(p->shapes, shapes_link), slot);
    list_append(&p->shapes_free, CHAIN(p->shapes, shapes_link), slot);
    terms_leave(p, s->terms);
}

static bool pools_allow(const pool *p, const struct shape *s, uint32_t model)
{
    if (s->pool_mask == 0) return true;
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++)
        if ((s->pool_mask >> i & 1) != 0 && rule_allows(&p->rules[i], &p->models[model], model))
            return true;
    return false;
}

/* The threshold: the job's own, else the most patient of its pools', or its class's if that is lower. */
static uint32_t threshold_of(const pool *p, const struct shape *s)
{
    uint32_t threshold_ppm = 0;
    if (s->price_threshold_ppm != 0) return s->price_threshold_ppm;
    for (uint32_t i = 0; i < p->config.limits.pools_max; i++)
        if ((s->pool_mask >> i & 1) != 0 && p->rules[i].price_threshold_ppm > threshold_ppm)
            threshold_ppm = p->rules[i].price_threshold_ppm;
    if (threshold_ppm == 0) threshold_ppm = THRESHOLD_PPM_NONE;
    uint32_t of_class = p->class_buying[s->job_class].price_threshold_ppm;
    return of_class != 0 && of_class < threshold_ppm ? of_class : threshold_ppm;
}

void shape_judge(const pool *p, struct shape *s)
{
    s->compat_mask = 0;
    const struct job_terms *terms = terms_of(p, s);
    bool partitions = terms != NULL && terms->mig_profile != 0;
    for (uint32_t model = 0; model < p->config.limits.models_max; model++) {
        const struct model *m = &p->models[model];
        if (m->ncu_milli == 0 || m->vram_mib < s->vram_min_mib) continue;
        if ((m->capability_mask & s->capability_mask) != s->capability_mask) continue;
        if (partitions && part_mig_on(p, terms, model).geometry == NULL) continue;
        if (pools_allow(p, s, model)) s->compat_mask |= UINT64_C(1) << model;
    }
    s->threshold_ppm = threshold_of(p, s);
}

static bool is_sold(const struct shape *s, const struct market *market)
{
    for (uint32_t kind = CAPACITY_OWNED; kind < CAPACITY_KIND_END; kind++)
        if (market->reach_devices[kind] > 0 &&
            (s->capacity_mask == 0 || (s->capacity_mask >> kind & 1) != 0))
            return true;
    return false;
}

uint64_t shape_sold(const pool *p, const struct shape *s)
{
    uint64_t sold = 0;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (s->region != 0 && s->region != p->regions[i].region) continue;
        for (uint64_t rest = s->compat_mask & p->regions[i].model_mask; rest != 0;
             rest &= rest - 1) {
            uint32_t model = (uint32_t)__builtin_ctzll(rest);
            if (is_sold(s, market_of(p, i, model))) sold |= UINT64_C(1) << model;
        }
    }
    return sold;
}

/* Class, then the share of the tenant, then that of the account itself, then age. */
int64_t plan_key(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    if (!p->accounts_defined || j->account == ACCOUNT_POOL) return (int64_t)j->order;
    uint32_t tenant = j->account;
    while (p->accounts[tenant].parent != ACCOUNT_POOL) tenant = p->accounts[tenant].parent;
    uint64_t age = j->order & ((UINT64_C(1) << 56) - 1);
    if (age >= UINT64_C(1) << 38) age = (UINT64_C(1) << 38) - 1;
    return (int64_t)(j->order >> 56 << 56 | (uint64_t)share_coarse(quota_share(p, tenant)) << 47 |
                     (uint64_t)share_coarse(quota_share(p, j->account)) << 38 | age);
}

void shape_wake(pool *p, uint32_t slot)
{
    struct shape *s = &p->shapes[slot];
    ask_stir(p, slot);
    stop_waiting(p, s);
    if (plan_match_owns(p, s)) {
        plan_match_touch(p, s->job_class);
        return;
    }
    int64_t key = s->queue.head == SLOT_NONE ? HEAP_KEY_NEVER : plan_key(p, s->queue.head);
    heap_set(&p->plans, plan_of_shape(p, slot), key);
}

void shape_wait_quota(pool *p, uint32_t slot)
{
    struct shape *s = &p->shapes[slot];
    heap_set(&p->plans, plan_of_shape(p, slot), HEAP_KEY_NEVER);
    if (s->quota_waits) return;
    s->quota_waits = 1;
    if (p->quota_waiting++ > 0) return;
    quota_run(p);
    p->quota_freed = 0; /* only the timer */
}

bool shape_is_ahead(pool *p, uint32_t slot)
{
    int64_t key = plan_key(p, p->shapes[slot].queue.head);
    if (key <= heap_key(&p->plans, plan_of_shape(p, slot))) return true;
    heap_set(&p->plans, plan_of_shape(p, slot), key);
    return heap_first(&p->plans) == plan_of_shape(p, slot);
}

void plan_quota_freed(pool *p)
{
    p->quota_freed = 0;
    for (uint32_t s = p->shapes_used.head; s != SLOT_NONE && p->quota_waiting > 0;
         s = p->shapes[s].shapes_link.next)
        if (p->shapes[s].quota_waits) shape_wake(p, s);
}

void shape_queue_insert(pool *p, uint32_t job)
{
    struct shape *s = &p->shapes[p->jobs[job].shape];
    /* New jobs are the youngest; one that comes back is among the oldest. */
    uint32_t before = SLOT_NONE, slot = p->jobs[job].shape;
    if (s->queue.count == 0) {
        list_remove(list_without_queue(p, s), CHAIN(p->shapes, shapes_link), slot);
        list_append(&p->shapes_used, CHAIN(p->shapes, shapes_link), slot);
    }
    if (s->queue.tail != SLOT_NONE && p->jobs[s->queue.tail].order > p->jobs[job].order)
        for (before = s->queue.head; p->jobs[before].order < p->jobs[job].order;)
            before = p->jobs[before].queue_link.next;
    list_insert(&s->queue, CHAIN(p->jobs, queue_link), job, before);
    plan_match_list(p, job);
    if (s->queue.head == job) shape_wake(p, slot);
}

void shape_queue_remove(pool *p, uint32_t job)
{
    uint32_t slot = p->jobs[job].shape;
    struct shape *s = &p->shapes[slot];
    bool was_first = s->queue.head == job;
    if (was_first) ask_stir(p, slot); /* its turn is that of its oldest */
    list_remove(&s->queue, CHAIN(p->jobs, queue_link), job);
    if (s->queue.count == 0) {
        list_remove(&p->shapes_used, CHAIN(p->shapes, shapes_link), slot);
        list_append(list_without_queue(p, s), CHAIN(p->shapes, shapes_link), slot);
    }
    if (plan_match_owns(p, s)) {
        if (plan_match_first(p, s) == SLOT_NONE)
            heap_set(&p->plans, plan_of_shape(p, slot), HEAP_KEY_NEVER);
        return; /* who takes it wakes the next */
    }
    if (was_first) shape_wake(p, slot);
}

uint64_t plan_jobs_before(const pool *p, uint32_t job)
{
    return p->shapes[p->jobs[job].shape].queue.count - 1;
}
