#include "core/explain.h"
#include "core/class.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/plan_preempt.h"
#include "core/plan_reserve.h"
#include "core/terms.h"

struct question {
    const pool *p;
    uint32_t job;
    struct shape shape; /* the job's, with the wish in it */
    uint32_t lifted;    /* obstacles wished away */
    uint64_t ncu_milli; /* wished for, of a job that asks for NCU */
    int64_t asked_usd_micros; /* an hour of its least as it asks, were it in stock; -1: not sold */
    struct explanation *answer;
};

/* Would it start now? What it would hold at first. */
static bool would_start(const struct question *q, struct wish *ret_wish)
{
    const struct shape *s = &q->shape;
    const struct job *j = &q->p->jobs[q->job];
    struct demand demand = demand_of(s, terms_of(q->p, s), s->devices_max, /* committed */ 0);
    struct mix mix;
    demand.job = q->job;
    demand.order = j->order;
    demand.lifted = q->lifted;
    demand.ncu_left_milli = q->ncu_milli;
    demand_limit(q->p, &demand, q->job);
    if (plan_best_region(q->p, s, &demand, SLOT_NONE, /* stays */ false, &mix)) {
        *ret_wish = (struct wish){.region = q->p->regions[mix.region_index].region,
                                  .device_count = mix.device_count,
                                  .usd_micros_per_hour = mix.usd_micros_per_hour};
        return true;
    }
    struct preemption plan;
    if (q->ncu_milli != 0) return false; /* nobody goes for it */
    demand = demand_of(s, terms_of(q->p, s), s->devices_min, /* committed */ 0);
    demand.job = q->job;
    demand.order = j->order;
    demand_limit(q->p, &demand, q->job);
    if (demand.workers_left == 0 || !demand_free_of_gates(q->p, &demand)) return false;
    if (!preempt_best(q->p, s, &demand, /* held */ 0, SLOT_NONE, /* stays */ false, &plan))
        return false;
    *ret_wish = (struct wish){.region = q->p->regions[plan.region_index].region,
                              .device_count = s->devices_min,
                              .victim_count = plan.victim_count};
    return true;
}

/* With the wish that is in the question. */
static void compare(struct question *q, struct wish *wish)
{
    struct wish least;
    q->shape.devices_max = q->shape.devices_min;
    if (q->asked_usd_micros < 0 || wish->victim_count > 0) return;
    if (!would_start(q, &least) || least.victim_count > 0) return;
    wish->has_extra = 1;
    wish->extra_usd_micros_per_hour = least.usd_micros_per_hour - q->asked_usd_micros;
}

static void note(struct question *q, uint32_t kind, int64_t value, const struct wish *found)
{
    if (q->answer->wish_count == WISHES_MAX) return;
    struct wish *wish = &q->answer->wishes[q->answer->wish_count++];
    *wish = *found;
    wish->kind = kind;
    wish->value = value;
    compare(q, wish);
}

/* The job's shape with one change, made by the caller between begin and ask. */
static struct shape *begin(struct question *q)
{
    q->shape = q->p->shapes[q->p->jobs[q->job].shape];
    return &q->shape;
}

static void ask(struct question *q, uint32_t kind, int64_t value)
{
    struct wish found;
    shape_judge(q->p, &q->shape);
    if (would_start(q, &found)) note(q, kind, value, &found);
}

/* The most devices with which it would start; bisected, as fewer never fit worse. */
static void ask_fewer(struct question *q)
{
    uint32_t low = 0, high = q->p->shapes[q->p->jobs[q->job].shape].devices_min;
    struct wish found, best = {0};
    while (high - low > 1) {
        struct shape *s = begin(q);
        s->devices_min = low + (high - low) / 2;
        s->devices_max = s->devices_min;
        if (would_start(q, &found)) {
            low = s->devices_min;
            best = found;
        } else {
            high = s->devices_min;
        }
    }
    begin(q)->devices_min = low;
    if (low > 0) note(q, WISH_FEWER_DEVICES, low, &best);
}

/* The same of NCU. */
static void ask_fewer_ncu(struct question *q)
{
    uint64_t asked = q->ncu_milli, low = 0, high = (asked + 99) / 100;
    struct wish found, best = {0};
    begin(q);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        q->ncu_milli = middle * 100;
        bool starts = would_start(q, &found);
        if (starts) best = found;
        *(starts ? &low : &high) = middle;
    }
    q->ncu_milli = low * 100;
    if (low > 0) note(q, WISH_FEWER_NCU, (int64_t)low * 100, &best);
    q->ncu_milli = asked;
}

static void ask_capabilities(struct question *q)
{
    uint64_t mask = q->p->shapes[q->p->jobs[q->job].shape].capability_mask;
    for (uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        begin(q)->capability_mask = mask & ~(rest & -rest);
        ask(q, WISH_WITHOUT_CAPABILITY, __builtin_ctzll(rest));
    }
}

/* Memory of the models there are, largest first: the most that would do. */
static void ask_memory(struct question *q)
{
    uint32_t limit = q->p->shapes[q->p->jobs[q->job].shape].vram_min_mib;
    uint32_t before = q->answer->wish_count;
    while (limit > 0 && q->answer->wish_count == before) {
        uint32_t next = 0;
        for (uint32_t i = 0; i < q->p->config.limits.models_max; i++)
            if (q->p->models[i].vram_mib < limit && q->p->models[i].vram_mib > next)
                next = q->p->models[i].vram_mib;
        if (next == 0) return;
        begin(q)->vram_min_mib = limit = next;
        ask(q, WISH_LESS_MEMORY, next);
    }
}

static int64_t price_as_asked(struct question *q)
{
    struct wish found;
    struct shape *s = begin(q);
    s->budget_usd_micros_per_hour = 0;
    s->devices_max = s->devices_min;
    q->lifted = OBSTACLE_STOCK | OBSTACLE_KEPT | OBSTACLE_LIMIT | OBSTACLE_GATE | OBSTACLE_DOLLARS;
    bool sold = would_start(q, &found) && found.victim_count == 0;
    q->lifted = 0;
    return sold ? found.usd_micros_per_hour : -1;
}

static void ask_budget(struct question *q)
{
    struct wish found;
    struct shape *s = begin(q);
    if (s->budget_usd_micros_per_hour == 0) return;
    s->budget_usd_micros_per_hour = 0;
    s->devices_max = s->devices_min; /* what suffices, not what it could use */
    if (would_start(q, &found) && found.victim_count == 0)
        note(q, WISH_BUDGET, found.usd_micros_per_hour, &found);
}

static void ask_classes(struct question *q)
{
    uint32_t now = q->p->shapes[q->p->jobs[q->job].shape].job_class;
    uint32_t before = q->answer->wish_count;
    for (uint32_t c = now; c-- > 0 && q->answer->wish_count == before;) {
        begin(q)->job_class = c;
        ask(q, WISH_CLASS, c);
    }
}

static void ask_place(struct question *q)
{
    const struct job_terms *terms = terms_of(q->p, begin(q));
    if (terms->affinity == TOPOLOGY_ANY && terms->spread == TOPOLOGY_ANY) return;
    q->lifted = OBSTACLE_PLACE;
    ask(q, WISH_ANY_PLACE, 0);
    q->lifted = 0;
}

static void ask_gates(struct question *q)
{
    struct wish found;
    struct shape *s = begin(q);
    s->devices_max = s->devices_min; /* what suffices */
    q->lifted = OBSTACLE_GATE;
    if (would_start(q, &found) && found.victim_count == 0)
        note(q, WISH_GATE, found.usd_micros_per_hour, &found);
    q->lifted = 0;
}

/* It waits for nothing but devices, as far as was said. */
static bool waits_for_devices(const struct job *j)
{
    return j->wait_reason == REASON_NONE || j->wait_reason == REASON_WAIT_CAPACITY ||
           j->wait_reason == REASON_WAIT_TURN || j->wait_reason == REASON_RESERVED ||
           j->wait_reason == REASON_KEPT_FOR_GANG || j->wait_reason == REASON_WAIT_HOST ||
           j->wait_reason == REASON_WAIT_SAME || j->wait_reason == REASON_WAIT_SPREAD;
}

static void find_next(const pool *p, uint32_t job, struct next_free *ret_next)
{
    struct demand demand;
    struct reservation found;
    const struct shape *s = &p->shapes[p->jobs[job].shape];
    if (!waits_for_devices(&p->jobs[job]) || terms_of(p, s)->ncu_milli != 0) return;
    plan_demand(p, job, &demand);
    if (demand.devices_left < s->devices_min || demand.workers_left == 0) return;
    if (!plan_next_free(p, s, &demand, &found)) return;
    *ret_next = (struct next_free){.at_us = found.ready_us,
                                   .region = p->regions[found.region_index].region,
                                   .devices_min = s->devices_min};
    if (found.last_job != SLOT_NONE) ret_next->job_id = p->jobs[found.last_job].job_id;
    for (uint32_t i = 0; i < found.part_count; i++)
        if (found.parts[i].lease == SLOT_NONE)
            ret_next->device_count += found.parts[i].device_count;
}

bool pool_explain(const pool *p, uint64_t job_id, struct explanation *ret_explanation)
{
    *ret_explanation = (struct explanation){0};
    uint32_t job = table_find(&p->job_table, job_id);
    if (job == SLOT_NONE || p->jobs[job].state != JOB_QUEUED) return false;
    struct question q = {.p = p, .job = job, .answer = ret_explanation};
    const struct shape *s = &p->shapes[p->jobs[job].shape];
    find_next(p, job, &ret_explanation->next);
    q.ncu_milli = terms_of(p, s)->ncu_milli;
    q.asked_usd_micros = price_as_asked(&q);
    ret_explanation->capability_mask = s->capability_mask;
    if (q.ncu_milli != 0)
        ask_fewer_ncu(&q);
    else
        ask_fewer(&q);
    ask_capabilities(&q);
    ask_memory(&q);
    if (s->pool_mask != 0) begin(&q)->pool_mask = 0, ask(&q, WISH_ANY_POOL, 0);
    if (s->region != 0) begin(&q)->region = 0, ask(&q, WISH_ANY_REGION, 0);
    if (s->capacity_mask != 0) begin(&q)->capacity_mask = 0, ask(&q, WISH_ANY_KIND, 0);
    begin(&q);
    if (q.shape.threshold_ppm != THRESHOLD_PPM_NONE) {
        q.shape.price_threshold_ppm = THRESHOLD_PPM_NONE;
        ask(&q, WISH_ANY_PRICE, 0);
    }
    ask_budget(&q);
    if (p->jobs[job].wait_reason == REASON_GATE_HOUR ||
        p->jobs[job].wait_reason == REASON_GATE_JOB ||
        p->jobs[job].wait_reason == REASON_GATE_MONTH)
        ask_gates(&q);
    ask_classes(&q);
    ask_place(&q);
    return true;
}
