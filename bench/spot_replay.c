#include "spot_replay.h"
#include "base/mem.h"
#include "published.h"

enum { LEARN_FIRST = 25, DAY_S = 86400, HORIZON_S = 2 * DAY_S };

struct live { /* a job under way */
    struct spot_job job;
    uint32_t second, second_starting_left; /* another zone held besides, UINT32_MAX: none */
    int64_t cost;
};

struct replay {
    const struct spot_task *task;
    enum spot_rule rule;
    struct live *live;
    uint32_t live_count, tick, down_ticks;
    uint32_t learned, learn_next;
    struct spot_life life;
    struct spot_classes classes;
    struct spot_table table;
    struct spot_step short_step, long_step;
    struct spot_scratch scratch;
    void *memory;
    uint64_t least_price, priced_ticks; /* sum of the cheapest zone's price while one was up */
    int64_t cost;
    uint64_t runs, missed;
};

/* ---- the published policies ---- */

static uint32_t pick_zone(const struct replay *r)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t z = 0; z < r->task->zone_count; z++) {
        if (r->life.age[z] == 0) continue;
        if (best == UINT32_MAX) best = z;
        if (r->rule == SPOT_LONGEST && r->life.age[z] > r->life.age[best]) best = z;
    }
    return best;
}

/* Progress that a steady pace has made `ahead` ticks from now is not yet reached. */
static bool is_behind(const struct replay *r, const struct live *live, uint32_t ahead)
{
    uint64_t window = r->task->window, work = r->task->work;
    uint64_t elapsed = window - live->job.time_left + ahead, done = work - live->job.work_left;
    return done * window < work * elapsed;
}

static struct spot_choice choose_published(const struct replay *r, const struct live *live)
{
    const struct spot_job *job = &live->job;
    struct spot_choice on_demand = {.place = SPOT_ON_DEMAND}, idle = {.place = SPOT_IDLE};
    if (job->place == SPOT_ON_ZONE) return (struct spot_choice){SPOT_ON_ZONE, job->zone};
    int64_t slack = (int64_t)job->time_left - job->work_left;
    int64_t floor = 2 * (int64_t)r->task->changeover + 1;
    if (job->place == SPOT_ON_DEMAND) floor += job->starting_left;
    if (slack <= floor) return on_demand;
    uint32_t zone = pick_zone(r);
    if (zone != UINT32_MAX) return (struct spot_choice){SPOT_ON_ZONE, zone};
    uint32_t ahead = job->place == SPOT_ON_DEMAND ? 2 * r->task->changeover : 0;
    if (r->rule != SPOT_GREEDY && is_behind(r, live, ahead)) return on_demand;
    return idle;
}

/* ---- ours ---- */

static bool sees_prices(const struct replay *r)
{
    return r->task->price != NULL && !r->task->is_blind;
}

static struct spot_terms terms_of(const struct replay *r)
{
    const struct spot_task *task = r->task;
    uint64_t price = SPOT_PRICE;
    if (sees_prices(r) && r->priced_ticks > 0) price = r->least_price / r->priced_ticks;
    return (struct spot_terms){task->work,       task->window,
                               task->changeover, (uint32_t)price + (price == 0),
                               SPOT_OD_PRICE,    SPOT_CELLS};
}

static void see_prices(struct replay *r, uint32_t up)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t z = 0; z < r->task->zone_count; z++) {
        uint32_t price = spot_price(r->task, r->tick, z);
        if ((up >> z & 1) != 0 && price < least) least = price;
    }
    if (least == UINT32_MAX) return;
    r->least_price += least;
    r->priced_ticks++;
}

static void learn(struct replay *r)
{
    const struct spot_task *task = r->task;
    struct spot_terms terms = terms_of(r);
    uint32_t horizon = HORIZON_S / task->step_s, day = DAY_S / task->step_s;
    if (horizon > SPOT_HORIZON_MAX) horizon = SPOT_HORIZON_MAX;
    spot_classify(&r->life, horizon, &r->classes);
    spot_learn(&r->classes, task->up, r->tick + 1, spot_table_grain(&terms), &r->scratch,
               &r->short_step);
    spot_learn(&r->classes, task->up, r->tick + 1, spot_table_lag(&terms), &r->scratch,
               &r->long_step);
    spot_table_solve(&r->table, &terms, &r->short_step, &r->long_step, r->memory);
    r->learn_next = r->tick < LEARN_FIRST ? LEARN_FIRST
                    : r->tick < day       ? 2 * r->tick
                                          : r->tick + day;
}

/* A zone is left only where a loss right after it would do no harm, as in spot_policy.c. A move burns
 * slack, which may have to be bought on demand: its changeover counts at both prices. */
static uint32_t cheapest(const struct replay *r, const struct spot_job *job)
{
    const struct spot_task *task = r->task;
    uint32_t price[SPOT_ZONES_MAX], own = UINT32_MAX, changeover = task->changeover;
    int64_t slack = (int64_t)job->time_left - job->work_left;
    if (job->place == SPOT_ON_ZONE) own = job->zone;
    if (own != UINT32_MAX && slack < 2 * (int64_t)changeover + 2) return own;
    if (own != UINT32_MAX) changeover += changeover * SPOT_OD_PRICE / SPOT_PRICE;
    for (uint32_t z = 0; z < task->zone_count; z++)
        price[z] = (uint32_t)(spot_price(task, r->tick, z) * UINT64_C(1000000) / SPOT_OD_PRICE);
    return spot_cheapest(&r->classes, r->life.age, price, changeover, own);
}

static struct spot_choice choose(const struct replay *r, const struct live *live)
{
    if (r->rule != SPOT_SHOAL) return choose_published(r, live);
    struct spot_choice choice =
        spot_choose(&r->table, &r->classes, r->life.age, r->down_ticks, &live->job);
    if (choice.place == SPOT_ON_ZONE && sees_prices(r)) choice.zone = cheapest(r, &live->job);
    return choice;
}

/* ---- the world ---- */

/* The zone of the job may be lost. A second one that has begun then goes on alone, and slack is kept; one that
 * has not would burn it. */
static void lose_zones(const struct replay *r, struct live *live)
{
    struct spot_job *job = &live->job;
    if (live->second != UINT32_MAX && r->life.age[live->second] == 0) live->second = UINT32_MAX;
    if (job->place != SPOT_ON_ZONE || r->life.age[job->zone] > 0) return;
    job->place = SPOT_IDLE;
    if (live->second != UINT32_MAX && live->second_starting_left == 0) {
        job->place = SPOT_ON_ZONE;
        job->zone = live->second;
        job->starting_left = 0;
    }
    live->second = UINT32_MAX;
}

/* The other zone whose ticks, with its start and the exchange, cost less than those to come are expected to. */
static uint32_t pick_second(const struct replay *r, const struct spot_job *job)
{
    struct spot_best other = spot_best_of(&r->classes, r->life.age, job->zone);
    if (other.zone == UINT32_MAX) return UINT32_MAX;
    uint32_t age = r->life.age[other.zone],
             lives = r->classes.score[other.zone][spot_age_bucket(age)] / SPOT_SCORE_ONE;
    if (lives > job->work_left / 2) lives = job->work_left / 2;
    uint32_t own = spot_class(&r->classes, job->zone, r->life.age[job->zone]);
    int64_t slack = (int64_t)job->time_left - job->work_left - job->starting_left;
    int64_t alone =
        spot_table_at(&r->table, SPOT_STAY + spot_on(own, other.best), job->work_left, slack);
    int64_t paid =
        (int64_t)spot_price(r->task, r->tick, other.zone) * (lives + r->task->changeover);
    bool pays = paid * SPOT_EXCHANGE * job->work_left < alone * (SPOT_EXCHANGE - 1) * lives;
    return pays ? other.zone : UINT32_MAX;
}

/* A second zone is held while the first is. */
static void step_second(const struct replay *r, struct live *live)
{
    struct spot_job *job = &live->job;
    if (job->place != SPOT_ON_ZONE || live->second == job->zone) live->second = UINT32_MAX;
    if (job->place == SPOT_ON_ZONE && live->second == UINT32_MAX) {
        live->second = pick_second(r, job);
        live->second_starting_left = r->task->changeover;
    }
    if (live->second == UINT32_MAX || job->work_left == 0) return;
    live->cost += spot_price(r->task, r->tick, live->second);
    if (live->second_starting_left > 0)
        live->second_starting_left--;
    else if (r->tick % SPOT_EXCHANGE != 0)
        job->work_left--;
}

static void step_job(struct replay *r, struct live *live)
{
    struct spot_job *job = &live->job;
    lose_zones(r, live);
    struct spot_choice choice = choose(r, live);
    bool moves =
        choice.place != job->place || (job->place == SPOT_ON_ZONE && choice.zone != job->zone);
    if (moves) job->starting_left = choice.place == SPOT_IDLE ? 0 : r->task->changeover;
    job->place = choice.place;
    job->zone = choice.zone;
    job->time_left--;
    if (r->task->is_several) step_second(r, live);
    if (job->place == SPOT_IDLE || job->work_left == 0) return;
    live->cost += job->place == SPOT_ON_ZONE ? spot_price(r->task, r->tick, job->zone)
                                             : (uint32_t)SPOT_OD_PRICE;
    if (job->starting_left > 0)
        job->starting_left--;
    else
        job->work_left--;
}

static void step(struct replay *r)
{
    for (uint32_t i = 0; i < r->live_count;) {
        struct live *live = &r->live[i];
        step_job(r, live);
        bool done = live->job.work_left == 0, late = live->job.time_left == 0;
        if (!done && !late) {
            i++;
            continue;
        }
        r->missed += !done;
        r->runs++;
        r->cost += live->cost;
        *live = r->live[--r->live_count];
    }
}

static void begin_job(struct replay *r)
{
    r->live[r->live_count++] = (struct live){
        .job = {.work_left = r->task->work, .time_left = r->task->window, .place = SPOT_IDLE},
        .second = UINT32_MAX};
}

static double percent(const struct spot_task *task, int64_t cost, uint64_t runs)
{
    return 100.0 * (double)cost / ((double)runs * (double)task->alone * SPOT_OD_PRICE);
}

static void run(struct replay *r)
{
    const struct spot_task *task = r->task;
    uint32_t begun = 0, next = task->first;
    spot_life_clear(&r->life, task->zone_count);
    for (r->tick = 0; r->tick < task->ticks && (begun < task->starts || r->live_count > 0);
         r->tick++) {
        uint32_t up = task->up[r->tick];
        spot_life_see(&r->life, up);
        if (sees_prices(r)) see_prices(r, up);
        r->down_ticks = up != 0 ? 0 : r->down_ticks + 1;
        bool is_start = begun < task->starts && r->tick == next;
        if (r->rule == SPOT_SHOAL && (is_start || r->live_count > 0) && r->tick >= r->learn_next)
            learn(r);
        if (is_start) {
            begin_job(r);
            begun++;
            next += task->every;
        }
        step(r);
    }
}

static void replay_optimum(const struct spot_task *task, struct spot_result *ret)
{
    int64_t cost = 0;
    for (uint32_t k = 0; k < task->starts; k++)
        cost += spot_optimum(task, task->first + k * task->every);
    *ret =
        (struct spot_result){.cost_pct = percent(task, cost, task->starts), .runs = task->starts};
}

void spot_replay(const struct spot_task *task, enum spot_rule rule, struct spot_result *ret)
{
    if (rule == SPOT_CLAIRVOYANT) {
        replay_optimum(task, ret);
        return;
    }
    struct replay *r = published_alloc(1, sizeof *r);
    r->task = task;
    r->rule = rule;
    struct spot_terms terms = terms_of(r);
    r->live = published_alloc(task->window / task->every + 2, sizeof *r->live);
    if (rule == SPOT_SHOAL) r->memory = published_alloc(1, spot_table_bytes(&terms));
    run(r);
    *ret = (struct spot_result){
        .cost_pct = percent(task, r->cost, r->runs), .runs = r->runs, .missed = r->missed};
    mem_free(r->memory);
    mem_free(r->live);
    mem_free(r);
}
