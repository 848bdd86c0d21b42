#include "core/rate.h"
#include "core/assert.h"
#include "core/lease.h"
#include "core/match_weight.h"
#include "core/plan.h"

static_assert((int)RATE_ONE == (int)MATCH_RATE_ONE, "speeds are normalised rates");

static struct rate *row_of(const pool *p, uint32_t work)
{
    return &p->rates[(size_t)work * p->config.limits.models_max];
}

/* values[] of the models in the mask, scaled so that they come to the sum of their targets. */
static void scale(const uint64_t *values, uint64_t mask, uint64_t *targets)
{
    uint64_t most = 0, sum = 0, target = 0;
    uint32_t up = 0, down = 0;
    for (uint64_t rest = mask; rest != 0; rest &= rest - 1)
        if (values[__builtin_ctzll(rest)] > most) most = values[__builtin_ctzll(rest)];
    if (most == 0) return;
    while (most >> down >= UINT64_C(1) << 26)
        down++; /* 26 bits are precise enough, and fit below */
    while (most << up < UINT64_C(1) << 25) up++;
    for (uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        sum += values[model] << up >> down;
        target += targets[model];
    }
    for (uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        if (values[model] == 0)
            targets[model] = 0;
        else if ((targets[model] = (values[model] << up >> down) * target / sum) == 0)
            targets[model] = 1;
    }
}

/* Of one source: models it names, and what it says of them. */
static uint64_t told_by(const pool *p, const struct rate *row, uint32_t source,
                        uint64_t values[MODELS_MAX])
{
    uint64_t mask = 0;
    for (uint32_t model = 0; model < p->config.limits.models_max; model++) {
        if ((row[model].told >> source & 1) == 0) continue;
        mask |= UINT64_C(1) << model;
        values[model] =
            source == RATE_DECLARED ? row[model].declared_micro : row[model].measured_micro;
    }
    return mask;
}

static void value_row(const pool *p, struct rate *row)
{
    uint64_t values[MODELS_MAX] = {0}, worth[MODELS_MAX];
    for (uint32_t model = 0; model < p->config.limits.models_max; model++)
        worth[model] = (uint64_t)p->models[model].ncu_milli * 1000;
    uint64_t mask = told_by(p, row, RATE_DECLARED, values);
    scale(values, mask, worth);
    mask = told_by(p, row, RATE_MEASURED, values);
    scale(values, mask, worth);
    for (uint32_t model = 0; model < p->config.limits.models_max; model++)
        row[model].worth_micro = worth[model];
}

void rate_rebuild(pool *p)
{
    for (uint32_t i = 0; i < p->works_end; i++) value_row(p, row_of(p, i));
}

/* Of a work never told of, else of the one told of longest ago. */
static uint32_t make_room(pool *p)
{
    if (p->works_end < p->works_max) return p->works_end++;
    uint32_t work = p->works_told.head;
    list_remove(&p->works_told, CHAIN(p->works, told_link), work);
    table_remove(&p->work_table, p->works[work].work_id);
    return work;
}

static void told(pool *p, uint64_t work_id, uint32_t model, uint32_t source, uint64_t rate_micro)
{
    uint32_t work = table_find(&p->work_table, work_id);
    if (work != SLOT_NONE)
        list_remove(&p->works_told, CHAIN(p->works, told_link), work);
    else {
        work = make_room(p);
        p->works[work] = (struct work){.work_id = work_id};
        for (uint32_t i = 0; i < p->config.limits.models_max; i++)
            row_of(p, work)[i] = (struct rate){0};
        table_insert(&p->work_table, work_id, work);
    }
    list_append(&p->works_told, CHAIN(p->works, told_link), work);
    struct rate *rate = &row_of(p, work)[model];
    rate->told |= 1U << source;
    if (source == RATE_DECLARED)
        rate->declared_micro = rate_micro;
    else if (rate->measured_count == 0)
        rate->measured_micro = rate_micro;
    else /* the newest counts a quarter */
        rate->measured_micro -= rate->measured_micro / 4 - rate_micro / 4;
    if (source == RATE_MEASURED && rate->measured_count < UINT32_MAX) rate->measured_count++;
    value_row(p, row_of(p, work));
}

void rate_told(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t model = event->u.rate_told.model;
    if (model >= p->config.limits.models_max) {
        MARK(out, CATALOG_LIMIT);
        return;
    }
    told(p, event->u.rate_told.work_id, model, event->u.rate_told.source,
         event->u.rate_told.rate_micro);
}

const struct rate *rate_row(const pool *p, uint64_t work_id)
{
    uint32_t work = work_id == 0 ? SLOT_NONE : table_find(&p->work_table, work_id);
    return work == SLOT_NONE ? NULL : row_of(p, work);
}

void rate_declared(const pool *p, const struct pool_event *told, uint32_t count, struct rate *row)
{
    for (uint32_t i = 0; i < p->config.limits.models_max; i++) row[i] = (struct rate){0};
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(told[i].kind == POOL_EVENT_RATE_TOLD);
        uint32_t model = told[i].u.rate_told.model;
        if (model >= p->config.limits.models_max) continue;
        row[model].told = 1U << RATE_DECLARED;
        row[model].declared_micro = told[i].u.rate_told.rate_micro;
    }
    value_row(p, row);
}

uint64_t rate_worth_micro(const pool *p, const struct rate *row, uint32_t model)
{
    return row == NULL ? (uint64_t)p->models[model].ncu_milli * 1000 : row[model].worth_micro;
}

uint64_t rate_never(const pool *p, const struct rate *row, uint64_t models)
{
    uint64_t never = 0;
    for (uint64_t rest = models; rest != 0; rest &= rest - 1)
        if (rate_worth_micro(p, row, (uint32_t)__builtin_ctzll(rest)) == 0)
            never |= rest & (~rest + 1);
    return never;
}

int64_t rate_speed(const pool *p, const struct rate *row, uint64_t models, uint32_t model)
{
    int64_t worth[MODELS_MAX] = {0};
    uint32_t count = 0;
    for (uint64_t rest = models; rest != 0; rest &= rest - 1)
        worth[count++] = (int64_t)rate_worth_micro(p, row, (uint32_t)__builtin_ctzll(rest));
    return match_rate((int64_t)rate_worth_micro(p, row, model), match_norm(worth, count));
}

uint32_t rate_market_of(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    uint32_t market = SLOT_NONE;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        const struct node *n = &p->nodes[p->leases[l].node];
        if (!lease_holds(&p->leases[l]) || n->state != NODE_READY) return SLOT_NONE;
        uint32_t at = j->region_index * p->config.limits.models_max + p->offers[n->offer].model;
        if (market != SLOT_NONE && market != at) return SLOT_NONE;
        market = at;
    }
    return market;
}

/* Models on sale anywhere: those that a job may use. */
static uint64_t models_of(const pool *p, const struct shape *s)
{
    uint64_t models = 0;
    for (uint32_t i = 0; i < p->regions_end; i++) models |= p->regions[i].model_mask;
    return models & s->compat_mask;
}

int64_t rate_attained_us(const pool *p, const struct job *j)
{
    int64_t ran_us = p->now_us - j->attained_at_us;
    return j->attained_us + ran_us / RATE_ONE * j->speed + ran_us % RATE_ONE * j->speed / RATE_ONE;
}

/* The job is as fast as its slowest device. */
static uint32_t speed_of(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    if (j->state != JOB_RUNNING) return 0;
    const struct shape *s = &p->shapes[j->shape];
    const struct rate *row = rate_row(p, terms_of(p, s)->work_id);
    uint64_t models = models_of(p, s), used = 0;
    int64_t least = 0;
    for (uint32_t l = j->leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next)
        if (lease_holds(&p->leases[l]))
            used |= UINT64_C(1) << p->offers[p->nodes[p->leases[l].node].offer].model;
    for (; used != 0; used &= used - 1) {
        int64_t speed = rate_speed(p, row, models, (uint32_t)__builtin_ctzll(used));
        if (least == 0 || speed < least) least = speed;
    }
    return (uint32_t)least;
}

void rate_settle(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (!job_is_live(j)) return;
    if (terms_of(p, &p->shapes[j->shape])->work_id == 0 && j->deadline_us == 0) return;
    j->attained_us = rate_attained_us(p, j);
    j->attained_at_us = p->now_us;
    j->speed = speed_of(p, job);
    if (j->state != JOB_RUNNING || rate_market_of(p, job) != j->rate_market)
        j->rate_market = SLOT_NONE;
}

void rate_observe(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (!job_is_live(j)) return;
    uint64_t work_id = terms_of(p, &p->shapes[j->shape])->work_id;
    if (work_id == 0) return;
    if (j->state != JOB_RUNNING || j->devices_min != j->devices_max) return;
    uint32_t market = rate_market_of(p, job);
    if (market == SLOT_NONE || market != j->rate_market || j->step < j->rate_step) {
        j->rate_market = market;
        j->rate_since_us = p->now_us;
        j->rate_step = j->step;
        return;
    }
    int64_t span_us = p->now_us - j->rate_since_us;
    uint64_t steps = j->step - j->rate_step;
    if (span_us < RATE_SPAN_US || steps < RATE_STEPS_MIN) return;
    j->rate_market = SLOT_NONE;
    if (steps > RATE_MICRO_MAX / 1000 || job_holding(p, job).up_count != j->devices_min) return;
    uint64_t micro = steps * 1000000000 / (uint64_t)(span_us / 1000) / j->devices_min;
    if (micro == 0 || micro > RATE_MICRO_MAX) return;
    told(p, work_id, market % p->config.limits.models_max, RATE_MEASURED, micro);
}
