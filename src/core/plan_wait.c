/* Why a job waits: the one thing that is in its way, found out by asking the planner again.
 *
 * Supply notes which obstacles it met (plan_buy.h). When there is nothing but stock, stock it is. Else
 * each is taken away in turn: the first without which the job would start (or grow) is the reason. If
 * none alone is enough, it is the first that keeps the job waiting even when all others are gone. */
#include "core/act.h"
#include "core/class.h"
#include "core/data.h"
#include "core/deadline.h"
#include "core/gate.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/part.h"
#include "core/plan.h"
#include "core/plan_buy.h"
#include "core/plan_preempt.h"
#include "core/plan_reserve.h"
#include "core/predict.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/supply_ncu.h"

/* It may have found a place since and lost it before it took anything. */
static bool was_last(const struct job *j, uint32_t reason, struct numbers numbers)
{
    return j->last_kind == DECISION_WAIT && j->last_reason == reason && j->last_a == numbers.a &&
           j->last_b == numbers.b && j->last_c == numbers.c;
}

void plan_wait(pool *p, uint32_t job, uint32_t reason, struct numbers numbers,
               struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    /* Said already. A purchase is told by itself and changes nothing about what is still missing;
     * it is news when another reason holds it up, or when it waits with fewer devices than it had
     * then. */
    bool fewer = reason == REASON_WAIT_CAPACITY && numbers.a < (int64_t)j->wait_count;
    if (j->wait_reason == reason && !fewer) return;
    j->wait_reason = reason;
    j->wait_count = reason == REASON_WAIT_CAPACITY ? (uint32_t)numbers.a : 0;
    if (was_last(j, reason, numbers)) return;
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_WAIT,
                                        .reason = reason,
                                        .job_id = j->job_id,
                                        .a = numbers.a,
                                        .b = numbers.b,
                                        .c = numbers.c});
}

/* Workers of a gang that was given up may still be handing over: until they are gone, their region
 * is the job's, or it would work in two at once. */
bool plan_works_still(const pool *p, const struct job *j)
{
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (p->leases[l].state != LEASE_OVER) return true;
    return false;
}

/* ---- what is in the way ---- */

struct lack {
    const pool *p;
    const struct shape *s;
    uint32_t job, has;    /* has: devices that it holds */
    struct demand asked;  /* before the limits of its accounts */
    struct demand demand; /* and after */
    struct mix mix;       /* what there is as things are */
    uint32_t met;
    bool asked_before; /* demand and mix are known */
};

static struct lack lack_of(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    const struct shape *s = &p->shapes[j->shape];
    struct holding held = job_holding(p, job);
    struct lack l = {.p = p, .s = s, .job = job};
    bool by_ncu = terms_of(p, s)->ncu_milli != 0;
    if (job_is_bound(j) && !by_ncu) l.has = held.device_count;
    l.asked = demand_of(s, terms_of(p, s), s->devices_max - l.has, held.usd_micros_per_hour);
    l.asked.job = job;
    if (by_ncu && job_is_bound(j)) l.asked.ncu_left_milli -= ncu_held_milli(p, job);
    if (job_is_bound(j)) plan_stay_in_match(p, j, &l.asked);
    l.asked.order = l.has < s->devices_min ? j->order : UINT64_MAX;
    if (l.has < s->devices_min) l.asked.run_us = predict_run_us(p, s, j->project);
    if (l.has >= s->devices_min && p->now_us < j->quiet_until_us)
        l.asked.budget_left_usd_micros =
            budget_left(s->budget_usd_micros_per_hour / 10 * 9, held.usd_micros_per_hour);
    return l;
}

static uint32_t missing_of(const struct lack *l)
{
    return l->s->devices_min > l->has ? l->s->devices_min - l->has : 0;
}

static bool may_preempt(const struct lack *l, struct demand *demand)
{
    if (l->p->jobs[l->job].promised_count > 0) return false; /* what it takes is on its way */
    if (missing_of(l) == 0 || demand->workers_left == 0) return false;
    if (!demand_free_of_gates(l->p, demand)) return false;
    demand->devices_left = missing_of(l);
    return true;
}

static bool stays(const struct lack *l)
{
    const struct job *j = &l->p->jobs[l->job];
    return job_is_bound(j) || plan_works_still(l->p, j);
}

static bool would_preempt(const struct lack *l, struct demand demand)
{
    struct preemption plan;
    return may_preempt(l, &demand) &&
           preempt_best(l->p, l->s, &demand, l->has, l->p->jobs[l->job].region_index, stays(l),
                        &plan);
}

/* Lower classes hold enough for it, and its own may not take it: see class.h. */
static bool is_above_share(const struct lack *l, struct numbers *ret_numbers)
{
    struct demand demand = l->demand;
    struct class_share share;
    if (!may_preempt(l, &demand) ||
        !preempt_is_above_share(l->p, l->s, &demand, l->has, l->p->jobs[l->job].region_index,
                                stays(l), &share))
        return false;
    *ret_numbers = (struct numbers){.a = missing_of(l),
                                    .b = (int64_t)share.reserved_ncu_milli,
                                    .c = (int64_t)share.held_ncu_milli};
    return true;
}

/* Devices to start with, or more of them, if these obstacles were not there. */
static bool would_get(const struct lack *l, uint32_t lifted, struct demand *demand, struct mix *mix)
{
    const struct job *j = &l->p->jobs[l->job];
    *demand = l->asked;
    demand->lifted = lifted;
    if (lifted & OBSTACLE_BUDGET) demand->budget_left_usd_micros = INT64_MAX;
    if (lifted & OBSTACLE_PRICE) demand->threshold_ppm = UINT32_MAX;
    demand_limit(l->p, demand, l->job);
    if (job_is_bound(j)) {
        supply_best(l->p, demand, j->region_index, missing_of(l), mix);
        return mix->device_count > 0;
    }
    return plan_best_region(l->p, l->s, demand, j->region_index, plan_works_still(l->p, j), mix);
}

static bool would_help(struct lack *l, uint32_t lifted)
{
    struct demand demand;
    struct mix mix;
    if (would_get(l, lifted, &demand, &mix)) return true;
    l->met |= mix.met;
    return would_preempt(l, demand);
}

static enum obstacle find_obstacle(struct lack *l)
{
    if (!l->asked_before && would_get(l, 0, &l->demand, &l->mix)) return OBSTACLE_NONE;
    l->met = l->mix.met | OBSTACLE_STOCK;
    if (l->demand.quota_short) l->met |= OBSTACLE_QUOTA;
    if (l->demand.workers_left == 0 || l->demand.workers_left < missing_of(l))
        l->met |= OBSTACLE_WORKERS; /* maybe: victims are taken for so many at most */
    if (l->met == OBSTACLE_STOCK) return OBSTACLE_STOCK;
    for (uint32_t one = 1; one < OBSTACLES_ALL; one <<= 1) /* met may grow on the way */
        if ((l->met & one) != 0 && would_help(l, one)) return (enum obstacle)one;
    for (uint32_t one = 1; one < OBSTACLES_ALL; one <<= 1)
        if ((l->met & one) != 0 && !would_help(l, OBSTACLES_ALL & ~one)) return (enum obstacle)one;
    return OBSTACLE_STOCK;
}

/* ---- said ---- */

/* The least that would do on a model that is sold, and what is left of that kind. */
static struct numbers quota_needed(const struct lack *l)
{
    struct numbers numbers = {.a = INT64_MAX};
    for (uint64_t rest = shape_sold(l->p, l->s); rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        int64_t needed = demand_quota_of(l->p, &l->asked, model, missing_of(l));
        if (needed >= numbers.a) continue;
        numbers.a = needed;
        numbers.b = quota_available(l->p, l->p->jobs[l->job].account, l->p->quota_kind[model]);
    }
    return numbers;
}

/* What its least, or one more node, would cost; and what is left for it. */
static struct numbers dollars_needed(const struct lack *l, uint32_t obstacle)
{
    struct lack least = *l;
    struct demand demand;
    struct mix mix;
    struct numbers numbers = {.a = l->mix.too_dear_usd_micros,
                              .b = l->demand.budget_left_usd_micros};
    least.asked.devices_left = missing_of(l);
    if (missing_of(l) > 0 && would_get(&least, obstacle, &demand, &mix))
        numbers.a = mix.usd_micros_per_hour;
    return numbers;
}

/* What binds with the figures of its least. True: it could start without its gates. */
static bool is_gated_only(const struct lack *l, struct gate_bound *ret_bound)
{
    struct lack least = *l;
    struct demand demand;
    struct mix mix;
    *ret_bound = gate_binds(l->p, l->job, l->mix.gated_model, l->mix.gated_usd_micros);
    if (missing_of(l) == 0) return false;
    least.asked.devices_left = missing_of(l);
    if (!would_get(&least, OBSTACLE_GATE, &demand, &mix)) return false;
    struct gate_bound bound =
        gate_binds(l->p, l->job, mix.bought_model, mix.bought_usd_micros_per_hour);
    if (bound.reason == REASON_NONE) return false;
    *ret_bound = bound;
    return true;
}

/* It waits, or is refused if it has never run and the gate, the job itself or its class, which does not
 * queue, wants it so. */
static void say_gate(pool *p, const struct lack *l, struct pool_output *out)
{
    const struct job *j = &p->jobs[l->job];
    struct gate_bound bound;
    bool only = is_gated_only(l, &bound) && !job_is_bound(j) && j->started_us == 0;
    struct numbers numbers = {.a = bound.needed, .b = bound.left, .c = bound.scope};
    uint32_t above = terms_of(p, l->s)->gate;
    bool refuses = above == GATE_AS_DEFINED ? bound.refuses : above == GATE_REFUSES;
    plan_claim_drop(p, l->job);
    if (only && (refuses || !class_queues(p, l->s->job_class)))
        job_end(p, l->job, JOB_REFUSED, DECISION_REFUSE, bound.reason, numbers, out);
    else
        plan_wait(p, l->job, bound.reason, numbers, out);
}

/* Full, or enough slices are free in places that do not do: then moving somebody would help. */
static void say_instance(pool *p, const struct lack *l, const struct job_terms *terms,
                         struct pool_output *out)
{
    bool conflict =
        part_mig_ask(p, terms, l->s->compat_mask, l->s->region, l->s->ask_hash) == MIG_CONFLICT;
    plan_wait(p, l->job, conflict ? REASON_WAIT_MIG_CONFLICT : REASON_WAIT_MIG,
              (struct numbers){.a = terms->mig_profile, .b = terms->device_memory_mib}, out);
}

static void say_stock(pool *p, const struct lack *l, bool kept, struct pool_output *out)
{
    const struct job *j = &p->jobs[l->job];
    const struct job_terms *terms = terms_of(p, l->s);
    struct numbers numbers;
    if (l->has < l->s->devices_min) plan_claim(p, l->job);
    if (j->promised_count > 0)
        return; /* said when it was reserved */
    else if (kept)
        plan_wait(p, l->job, REASON_KEPT_FOR_GANG, (struct numbers){.a = p->config.boot_timeout_us},
                  out);
    else if (terms->host_only)
        plan_wait(p, l->job, REASON_WAIT_HOST,
                  (struct numbers){.a = terms->host_cpu_milli, .b = terms->host_memory_mib}, out);
    else if (terms->mig_profile != 0)
        say_instance(p, l, terms, out);
    else if (part_is_share(terms))
        plan_wait(p, l->job, REASON_WAIT_SHARE,
                  (struct numbers){.a = terms->device_milli, .b = terms->device_memory_mib}, out);
    else if (terms->ncu_milli != 0)
        plan_wait(p, l->job, REASON_WAIT_NCU,
                  (struct numbers){.a = (int64_t)l->asked.ncu_left_milli,
                                   .b = (int64_t)l->mix.reach_ncu_milli},
                  out);
    else if (is_above_share(l, &numbers))
        plan_wait(p, l->job, REASON_WAIT_RECALL, numbers, out);
    else
        plan_wait(p, l->job, REASON_WAIT_CAPACITY,
                  (struct numbers){.a = job_is_bound(j) ? job_holding(p, l->job).up_count : 0,
                                   .b = job_is_bound(j) ? j->devices_max : j->devices_min},
                  out);
}

/* How much of its least there is at best as it wants it: together, apart. */
static void say_place(pool *p, const struct lack *l, struct pool_output *out)
{
    const struct job *j = &p->jobs[l->job];
    const struct job_terms *terms = terms_of(p, l->s);
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->regions_end; i++) {
        struct mix mix;
        if (job_is_bound(j) && i != j->region_index) continue;
        if (l->s->region != 0 && l->s->region != p->regions[i].region) continue;
        if ((l->s->compat_mask & p->regions[i].model_mask) == 0) continue;
        supply_best(p, &l->demand, i, missing_of(l), &mix);
        if (mix.device_count > most) most = mix.device_count;
    }
    if (l->has < l->s->devices_min) plan_claim(p, l->job);
    if (j->promised_count > 0) return; /* said when it was reserved */
    uint32_t least = l->has < l->s->devices_min ? l->s->devices_min : j->devices_max;
    if (terms->spread != TOPOLOGY_ANY)
        plan_wait(p, l->job, REASON_WAIT_SPREAD,
                  (struct numbers){.a = l->has + most, .b = least, .c = terms->spread}, out);
    else
        plan_wait(p, l->job, REASON_WAIT_SAME,
                  (struct numbers){.a = l->has + most, .b = least, .c = terms->affinity}, out);
}

static struct numbers share_needed(const struct lack *l)
{
    struct class_share share;
    class_share_of(l->p, l->s, /* more */ 0, &share);
    return (struct numbers){.a = (int64_t)share.held_ncu_milli,
                            .b = (int64_t)share.most_ncu_milli,
                            .c = missing_of(l) > 0 ? missing_of(l) : l->asked.devices_left};
}

static struct numbers numbers_of(const struct lack *l, enum obstacle obstacle, uint32_t *ret_reason)
{
    const struct pool_limits *limits = &l->p->config.limits;
    switch (obstacle) {
    case OBSTACLE_WORKERS:
        *ret_reason = REASON_WAIT_WORKERS;
        return (struct numbers){.b = l->demand.workers_left};
    case OBSTACLE_QUOTA: *ret_reason = REASON_WAIT_QUOTA; return quota_needed(l);
    case OBSTACLE_CLASS: *ret_reason = REASON_WAIT_CLASS_SHARE; return share_needed(l);
    case OBSTACLE_DOLLARS:
        *ret_reason = REASON_WAIT_ACCOUNT_BUDGET;
        return dollars_needed(l, obstacle);
    case OBSTACLE_BUDGET: *ret_reason = REASON_WAIT_BUDGET; return dollars_needed(l, obstacle);
    case OBSTACLE_PRICE:
        if (l->mix.hot_ppm == 0) {
            *ret_reason = REASON_WAIT_MAX_PRICE;
            return (struct numbers){.a = l->mix.above_max_usd_micros,
                                    .b = l->demand.device_usd_micros_max < l->demand.bid_usd_micros
                                             ? l->demand.device_usd_micros_max
                                             : l->demand.bid_usd_micros};
        }
        *ret_reason = REASON_WAIT_PRICE;
        return (struct numbers){.a = l->mix.hot_ppm, .b = l->s->threshold_ppm};
    case OBSTACLE_LIMIT:
        *ret_reason = REASON_WAIT_LIMIT;
        return (struct numbers){.a = limits->nodes_max, .b = limits->leases_max};
    case OBSTACLE_DATA:
        *ret_reason = REASON_WAIT_DATA;
        return (struct numbers){.a = l->mix.data_usd_micros,
                                .b = data_left_usd_micros(l->p, l->job)};
    case OBSTACLE_GATE:  /* say_gate(), */
    case OBSTACLE_PLACE: /* say_place() */
    case OBSTACLE_KEPT:
    case OBSTACLE_STOCK:
    case OBSTACLE_NONE:
    case OBSTACLES_ALL: break;
    }
    *ret_reason = REASON_NONE;
    return (struct numbers){0};
}

/* In the best region, or where fewer and larger nodes do. */
static void make_room(pool *p, const struct lack *l, struct pool_output *out)
{
    struct demand demand;
    struct mix mix;
    const struct job *j = &p->jobs[l->job];
    uint32_t missing = missing_of(l);
    if (missing == 0 || !would_get(l, OBSTACLE_LIMIT, &demand, &mix)) return;
    if (mix.device_count >= missing && plan_make_room(p, l->job, &demand, &mix, missing, out))
        return;
    bool stays = job_is_bound(j) || plan_works_still(p, j);
    for (uint32_t i = 0; i < p->regions_end; i++) {
        if (stays && i != j->region_index) continue;
        if (l->s->region != 0 && l->s->region != p->regions[i].region) continue;
        if ((l->s->compat_mask & p->regions[i].model_mask) == 0) continue;
        supply_best(p, &demand, i, missing, &mix);
        if (mix.device_count < missing) continue;
        if (plan_make_room(p, l->job, &demand, &mix, missing, out)) return;
    }
}

static enum obstacle say(pool *p, struct lack l, struct pool_output *out)
{
    uint32_t job = l.job;
    const struct job *j = &p->jobs[job];
    if (deadline_waits(p, job, out)) return OBSTACLE_NONE;
    if (j->promise_until_us == 0 && promise_is_coming(p, &l.asked)) {
        plan_wait(p, job, REASON_WAIT_PREEMPTED,
                  (struct numbers){.a = j->promised_count, .b = p->config.drain_us}, out);
        return OBSTACLE_STOCK;
    }
    enum obstacle obstacle = find_obstacle(&l);
    if (obstacle == OBSTACLE_NONE) return obstacle; /* it takes it when it is planned next */
    if (l.mix.limited) {
        MARK(out, NODE_LIMIT);
        p->starved = 1;
    }
    if (obstacle == OBSTACLE_STOCK || obstacle == OBSTACLE_KEPT) {
        say_stock(p, &l, obstacle == OBSTACLE_KEPT, out);
        return obstacle;
    }
    if (obstacle == OBSTACLE_PLACE) {
        say_place(p, &l, out);
        return obstacle;
    }
    if (obstacle == OBSTACLE_GATE) {
        say_gate(p, &l, out);
        return job_is_live(&p->jobs[job]) ? obstacle : OBSTACLE_NONE;
    }
    if (obstacle == OBSTACLE_LIMIT) make_room(p, &l, out);
    uint32_t reason;
    struct numbers numbers = numbers_of(&l, obstacle, &reason);
    plan_claim_drop(p, job); /* more stock would not help it */
    plan_wait(p, job, reason, numbers, out);
    return obstacle;
}

void plan_say_short(pool *p, uint32_t job, struct pool_output *out)
{
    (void)say(p, lack_of(p, job), out);
}

bool plan_say_waits(pool *p, uint32_t job, const struct demand *demand, const struct mix *mix,
                    struct pool_output *out)
{
    const uint32_t freed = OBSTACLE_WORKERS | OBSTACLE_QUOTA | OBSTACLE_CLASS | OBSTACLE_DOLLARS |
                           OBSTACLE_GATE |
                           OBSTACLE_DATA; /* when another job ends, not when supply improves */
    struct lack l = lack_of(p, job);
    l.asked_before = mix->device_count == 0; /* else one model alone does not do */
    if (l.asked_before) {
        l.demand = *demand;
        l.mix = *mix;
    }
    enum obstacle obstacle = say(p, l, out);
    if ((obstacle & freed) != 0) shape_wait_quota(p, p->jobs[job].shape);
    return obstacle == OBSTACLE_STOCK || obstacle == OBSTACLE_KEPT || obstacle == OBSTACLE_PLACE;
}

bool plan_refuse_gated(pool *p, uint32_t job, struct pool_output *out)
{
    struct lack l = lack_of(p, job);
    struct gate_bound bound;
    if (find_obstacle(&l) != OBSTACLE_GATE || !is_gated_only(&l, &bound)) return false;
    say_gate(p, &l, out);
    return true;
}
