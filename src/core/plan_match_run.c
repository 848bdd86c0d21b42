/* One matching of a class: gathered, matched, told to the jobs. plan_match.h is the manual. */
#include "core/assert.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/match_weight.h"
#include "core/offer.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/quota.h"
#include "core/rate.h"

enum {
    AGE_SIZES = 3, /* a job ages when it is there longer than so many times its size; */
    UNKNOWN_START_S = 10 * 3600, /* of unknown size: so many times what it attained, and this */
    UNKNOWN_SPAN_S = 20 * 3600,
    HOLD_S_MIN = 600, /* a move pays off over so long at least */
};

struct matching {
    pool *p;
    struct match *match;
    uint32_t job_class, type_count, count; /* count: candidates */
    uint32_t markets[MATCH_TYPES_MAX], capacity[MATCH_TYPES_MAX];
    uint64_t wanted; /* devices, by all candidates */
    bool gangs, round;
};

static struct match_limits limits_of(uint32_t matched_max)
{
    return (struct match_limits){
        .jobs = matched_max, .types = MATCH_TYPES_MAX, .devices = matched_max * MATCH_TYPES_MAX};
}

size_t plan_match_bytes(const struct pool_limits *limits)
{
    struct match_limits all = limits_of(limits->matched_max);
    return limits->matched_max == 0 ? 0 : match_bytes(&all);
}

static void add(struct matching *m, uint32_t job, uint32_t market)
{
    const struct job *j = &m->p->jobs[job];
    m->p->match_candidates[m->count++] = (struct match_candidate){.job = job, .market = market};
    m->wanted += j->devices_min;
    m->gangs = m->gangs || j->devices_min > 1;
}

/* All on devices that are paid for anyway, and nothing else is on its way for it. */
static bool may_move(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    if (j->state != JOB_RUNNING || j->match_leaves || j->preempted_by != 0) return false;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        uint32_t kind = p->offers[p->nodes[p->leases[l].node].offer].capacity;
        if (kind != CAPACITY_OWNED && kind != CAPACITY_RESERVED) return false;
    }
    return job_holding(p, job).up_count == j->devices_min;
}

static void gather_jobs(struct matching *m)
{
    pool *p = m->p;
    uint32_t most = p->config.limits.matched_max;
    if (m->round) {
        const struct list *running = &p->matched[MATCH_RUNNING][m->job_class];
        for (uint32_t j = running->head; j != SLOT_NONE && m->count < most;
             j = p->jobs[j].match_link.next) {
            uint32_t market = rate_market_of(p, j);
            if (market != SLOT_NONE && may_move(p, j)) add(m, j, market);
        }
    } else if (most > MATCH_WINDOW)
        most = MATCH_WINDOW;
    for (uint32_t j = p->matched[MATCH_WAITING][m->job_class].head;
         j != SLOT_NONE && m->count < most; j = p->jobs[j].match_link.next)
        if (p->jobs[j].match_barred != p->supply_changes + 1) add(m, j, SLOT_NONE);
}

/* Devices of a market that cost nothing more and are nobody's, at most `wanted`. */
static uint64_t free_devices(const pool *p, const struct market *market, uint64_t wanted)
{
    uint64_t count = 0;
    wanted += market->match_assigned;
    for (uint32_t o = market->idle_offers.head; o != SLOT_NONE; o = p->offers[o].idle_link.next)
        for (uint32_t n = p->offers[o].idle_nodes.head; n != SLOT_NONE && count < wanted;
             n = p->nodes[n].idle_link.next) {
            const struct node *node = &p->nodes[n];
            if (node->devices_free > node->promised_count)
                count += node->devices_free - node->promised_count;
        }
    bool is_stocked =
        market->reach_devices[CAPACITY_OWNED] > 0 ||
        market->reach_devices[CAPACITY_RESERVED] > 0; /* else: no look at each offer */
    for (uint32_t i = 0; is_stocked && i < market->count && count < wanted; i++) {
        const struct offer *o = &p->offers[p->prices[market->first + i].offer];
        if (o->capacity != CAPACITY_OWNED && o->capacity != CAPACITY_RESERVED) continue;
        count += (uint64_t)offer_stock(p, o) * o->device_count;
    }
    if (count > wanted) count = wanted;
    return count > market->match_assigned ? count - market->match_assigned : 0;
}

static uint64_t held_devices(const struct matching *m, uint32_t market)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->p->match_candidates[i].market == market)
            count += m->p->jobs[m->p->match_candidates[i].job].devices_min;
    return count;
}

static void gather_types(struct matching *m)
{
    const pool *p = m->p;
    uint64_t most = (uint64_t)p->config.limits.matched_max; /* of one type: room for all types */
    for (uint32_t region = 0; region < p->regions_end; region++)
        for (uint64_t rest = p->regions[region].model_mask; rest != 0; rest &= rest - 1) {
            uint32_t market =
                region * p->config.limits.models_max + (uint32_t)__builtin_ctzll(rest);
            uint64_t devices = free_devices(p, &p->markets[market], m->wanted);
            if (m->round) devices += held_devices(m, market);
            if (devices == 0 || m->type_count == MATCH_TYPES_MAX) continue;
            m->markets[m->type_count] = market;
            m->capacity[m->type_count++] = (uint32_t)(devices < most ? devices : most);
        }
}

static int64_t left_s(const pool *p, const struct job *j)
{
    int64_t run_us = terms_of(p, &p->shapes[j->shape])->run_us;
    int64_t attained_us = rate_attained_us(p, j);
    if (run_us == 0) return match_size_expected_s(&p->match_size, attained_us / 1000000);
    return run_us > attained_us ? (run_us - attained_us) / 1000000 : 0;
}

static int64_t weight_of(const pool *p, const struct job *j)
{
    const struct match_aim aim = MATCH_AIM_MEAN;
    int64_t run_s = terms_of(p, &p->shapes[j->shape])->run_us / 1000000;
    int64_t start_s = AGE_SIZES * run_s, span_s = start_s;
    if (run_s == 0) {
        start_s = AGE_SIZES * (rate_attained_us(p, j) / 1000000) + UNKNOWN_START_S;
        span_s = UNKNOWN_SPAN_S;
    }
    int64_t work_s = left_s(p, j);
    work_s =
        work_s < MATCH_SIZE_S_MAX / j->devices_min ? work_s * j->devices_min : MATCH_SIZE_S_MAX;
    return match_weight(&aim, work_s, (p->now_us - j->submitted_us) / 1000000, start_s, span_s);
}

/* A job that runs goes on where it is; one whose workers still hand over stays in their region. */
static bool may_use(const pool *p, const struct match_candidate *c, uint32_t market)
{
    const struct job *j = &p->jobs[c->job];
    const struct shape *s = &p->shapes[j->shape];
    uint32_t region = market / p->config.limits.models_max;
    uint32_t model = market % p->config.limits.models_max;
    if ((s->compat_mask >> model & 1) == 0) return false;
    if (s->region != 0 && s->region != p->regions[region].region) return false;
    if (j->region_index != region && plan_works_still(p, j)) return false;
    if (c->market != SLOT_NONE || !p->accounts_defined) return true;
    struct allowance left = quota_allowance(p, c->job);
    return left.ncu_milli[p->quota_kind[model]] >= quota_ncu_milli(p, model) * j->devices_min;
}

static void value_of(const struct matching *m, const struct match_candidate *c, int64_t *values)
{
    const pool *p = m->p;
    const struct job *j = &p->jobs[c->job];
    const struct shape *s = &p->shapes[j->shape];
    const struct rate *row = rate_row(p, terms_of(p, s)->work_id);
    int64_t hold_s = left_s(p, j), restart_s = p->match_restart_us / 1000000;
    if (hold_s < HOLD_S_MIN) hold_s = HOLD_S_MIN;
    for (uint32_t type = 0; type < m->type_count; type++) {
        values[type] = 0;
        if (!may_use(p, c, m->markets[type])) continue;
        uint32_t model = m->markets[type] % p->config.limits.models_max;
        int64_t value = match_worth(c->weight, rate_speed(p, row, s->compat_mask, model));
        if (c->market == m->markets[type] && value < MATCH_VALUE_MAX)
            value++; /* of equal ones, where it is */
        else if (c->market != SLOT_NONE && restart_s > 0)
            value = value * 1024 / (1024 + restart_s * 1024 / hold_s);
        values[type] = value;
    }
}

/* By weight: those that come later seldom push anybody out. */
static void match_all(struct matching *m)
{
    pool *p = m->p;
    struct match_limits limits = limits_of(m->count);
    limits.types = m->type_count;
    limits.devices = p->config.limits.matched_max * MATCH_TYPES_MAX;
    m->match = match_init(p->match_memory, &limits);
    match_clear(m->match, m->capacity);
    for (uint32_t i = 0; i < m->count; i++) {
        p->match_candidates[i].weight = weight_of(p, &p->jobs[p->match_candidates[i].job]);
        heap_set(&p->match_order, i, -p->match_candidates[i].weight);
    }
    while (p->match_order.count > 0) {
        int64_t values[MATCH_TYPES_MAX];
        uint32_t i = heap_first(&p->match_order);
        heap_set(&p->match_order, i, HEAP_KEY_NEVER);
        value_of(m, &p->match_candidates[i], values);
        match_add(m->match, i, p->jobs[p->match_candidates[i].job].devices_min, values);
    }
    if (m->gangs) match_settle(m->match);
}

static bool tell(struct matching *m, uint32_t i)
{
    pool *p = m->p;
    const struct match_candidate *c = &p->match_candidates[i];
    struct job *j = &p->jobs[c->job];
    uint32_t type = match_type(m->match, i);
    uint32_t market = type == MATCH_OUT ? SLOT_NONE : m->markets[type];
    if (market == c->market) return false;
    if (c->market == SLOT_NONE) {
        j->match_market = market;
        plan_match_list(p, c->job);
    } else {
        j->match_market = market;
        j->match_leaves = 1;
    }
    heap_set(&p->plans, c->job, plan_key(p, c->job));
    return true;
}

/* Unless an older one of its shape is awake. */
static void wake(pool *p, uint32_t job)
{
    uint32_t id = p->config.limits.jobs_max + p->jobs[job].shape;
    if (heap_key(&p->plans, id) == HEAP_KEY_NEVER) heap_set(&p->plans, id, plan_key(p, job));
}

/* Those who are left out may buy or preempt: the oldest of each shape. Found by the jobs or by the
 * shapes, whichever are fewer: a queue may be long. */
static void wake_rest(pool *p, uint32_t job_class)
{
    const struct list *waiting = &p->matched[MATCH_WAITING][job_class];
    if (waiting->count <= p->shapes_used.count) {
        for (uint32_t j = waiting->head; j != SLOT_NONE; j = p->jobs[j].match_link.next) wake(p, j);
        return;
    }
    for (uint32_t s = p->shapes_used.head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
        const struct shape *shape = &p->shapes[s];
        if (shape->job_class != job_class || !plan_match_owns(p, shape)) continue;
        uint32_t job = plan_match_first(p, shape);
        if (job != SLOT_NONE) wake(p, job);
    }
}

static bool waits_for_round(const pool *p, uint32_t job_class)
{
    return p->classes[job_class].preemptible && p->match_due_us != INT64_MAX &&
           p->match_due_us <= p->now_us + MATCH_SETTLE_US;
}

static void begin_round(pool *p, uint32_t job_class)
{
    struct list *assigned = &p->matched[MATCH_ASSIGNED][job_class];
    while (assigned->head != SLOT_NONE) {
        heap_set(&p->plans, assigned->head, HEAP_KEY_NEVER);
        plan_match_drop(p, assigned->head);
    }
}

/* Assigned jobs try again, each in its turn; false: there are none. */
static bool wake_assigned(pool *p, uint32_t job_class)
{
    const struct list *assigned = &p->matched[MATCH_ASSIGNED][job_class];
    for (uint32_t j = assigned->head; j != SLOT_NONE; j = p->jobs[j].match_link.next)
        heap_set(&p->plans, j, plan_key(p, j));
    return assigned->count > 0;
}

static bool match_and_tell(struct matching *m)
{
    bool told = false;
    gather_jobs(m);
    if (m->count > 0) gather_types(m);
    if (m->type_count == 0) return false;
    match_all(m);
    for (uint32_t i = 0; i < m->count; i++) told = tell(m, i) || told;
    return told;
}

/* Behind all jobs of the class it comes once more: those who are left out see what the others, younger
 * ones too, have left over. */
void plan_match_class(pool *p, uint32_t job_class)
{
    uint32_t id = plan_of_class(p, job_class);
    int64_t behind = (int64_t)(((uint64_t)job_class + 1) << 56) - 1;
    bool first = heap_key(&p->plans, id) != behind;
    struct matching m = {.p = p, .job_class = job_class};
    m.round = (p->match_rounds >> job_class & 1) != 0;
    heap_set(&p->plans, id, HEAP_KEY_NEVER);
    if (!m.round && waits_for_round(p, job_class)) return;
    if (m.round) begin_round(p, job_class);
    p->match_rounds &= ~(1U << job_class);
    bool woken = first && wake_assigned(p, job_class);
    bool gathering = p->matched[MATCH_ASSIGNED][job_class].count > 0 && plan_match_pending(p);
    if (match_and_tell(&m) || woken)
        heap_set(&p->plans, id, behind);
    else if (!gathering) /* devices that come free one by one are a gang's */
        wake_rest(p, job_class);
}
