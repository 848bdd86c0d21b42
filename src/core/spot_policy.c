#include "core/spot_policy.h"
#include "core/assert.h"

static int64_t slack_of(const struct spot_job *job)
{
    return (int64_t)job->time_left - job->work_left;
}

static bool is_in_danger(const struct spot_terms *terms, const struct spot_job *job)
{
    int64_t floor = 2 * (int64_t)terms->changeover + 1;
    if (job->place == SPOT_ON_DEMAND) floor += job->starting_left;
    return slack_of(job) <= floor;
}

static struct spot_choice stay(const struct spot_job *job)
{
    return (struct spot_choice){.place = job->place, .zone = job->zone};
}

/* Only to a higher class, and only where a loss right after it would do no harm. */
static struct spot_choice choose_on_zone(const struct spot_table *table,
                                         const struct spot_classes *classes, const uint32_t *age,
                                         const struct spot_job *job)
{
    struct spot_choice result = stay(job);
    uint32_t own = spot_class(classes, job->zone, age[job->zone]);
    struct spot_best other = spot_best_of(classes, age, job->zone);
    int64_t slack = slack_of(job), start = job->starting_left;
    if (other.best <= own || slack < 2 * (int64_t)table->terms.changeover + 2) return result;
    result.spot_cost =
        spot_table_at(table, SPOT_STAY + spot_on(own, other.best), job->work_left, slack - start) +
        start * table->terms.spot_price;
    int64_t move =
        spot_table_at(table, SPOT_START + spot_on(other.best, own), job->work_left, slack);
    if (move >= result.spot_cost) return result;
    result.zone = other.zone;
    result.spot_cost = move;
    return result;
}

static void weigh(const struct spot_table *table, const struct spot_best *best, uint32_t down_ticks,
                  const struct spot_job *job, struct spot_choice *result)
{
    uint32_t env =
        best->best > 0 ? spot_env_up(best->best, best->second) : spot_env_down(down_ticks);
    int64_t slack = slack_of(job), start = job->starting_left;
    result->wait = spot_table_at(table, SPOT_WAIT + env, job->work_left, slack);
    if (job->place == SPOT_ON_DEMAND)
        result->on_demand =
            spot_table_at(table, SPOT_OD_STAY + env, job->work_left, slack - start) +
            start * table->terms.on_demand_price;
    else
        result->on_demand = spot_table_at(table, SPOT_OD_START + env, job->work_left, slack);
    result->spot_cost = SPOT_NEVER;
    if (best->best == 0) return;
    uint32_t on = spot_on(best->best, best->second);
    result->spot_cost = spot_table_at(table, SPOT_START + on, job->work_left, slack);
    if (result->wait < result->spot_cost) result->wait = result->spot_cost;
}

struct spot_choice spot_choose(const struct spot_table *table, const struct spot_classes *classes,
                               const uint32_t *age, uint32_t down_ticks, const struct spot_job *job)
{
    struct spot_job now = *job;
    if (now.work_left == 0) return (struct spot_choice){.place = SPOT_IDLE};
    if (now.place == SPOT_ON_ZONE) {
        ASSERT(now.zone < classes->zone_count);
        if (age[now.zone] > 0) return choose_on_zone(table, classes, age, &now);
        now.place = SPOT_IDLE;
    }
    struct spot_choice result = {.place = SPOT_ON_DEMAND, .forced = true};
    if (is_in_danger(&table->terms, &now)) return result;
    struct spot_best best = spot_best_of(classes, age, UINT32_MAX);
    result = stay(&now);
    weigh(table, &best, down_ticks, &now, &result);
    bool is_on_demand = now.place == SPOT_ON_DEMAND;
    if (result.spot_cost <= result.wait && result.spot_cost < result.on_demand + !is_on_demand) {
        result.place = SPOT_ON_ZONE;
        result.zone = best.zone;
    } else if (is_on_demand) {
        if (result.wait < result.on_demand) result.place = SPOT_IDLE;
    } else if (result.on_demand < result.wait) {
        result.place = SPOT_ON_DEMAND;
    }
    return result;
}
