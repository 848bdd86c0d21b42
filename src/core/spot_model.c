#include "core/spot_model.h"
#include "core/assert.h"
#include <stdbool.h>
#include <string.h>

enum { DROPPED_PPM = 100 };

/* Ticks since everything went down at which each bucket begins, and how long it takes from there
 * until something is up where nothing has been learned yet. */
static const uint32_t down_starts[SPOT_DOWNS] = {0, 6, 24, 96, 300};
static const uint32_t down_taus[SPOT_DOWNS] = {6, 20, 60, 200, 500};

uint32_t spot_env_down(uint32_t ticks)
{
    uint32_t bucket = 0;
    while (bucket + 1 < SPOT_DOWNS && ticks > down_starts[bucket + 1]) bucket++;
    return bucket;
}

struct cursor { /* the market at one tick */
    uint32_t age[SPOT_ZONES_MAX], class_of[SPOT_ZONES_MAX];
    uint32_t best, second, best_zone, down, env;
};

static void rank(struct cursor *at, uint32_t zone)
{
    uint32_t class = at->class_of[zone];
    if (class > at->best) {
        at->second = at->best;
        at->best = class;
        at->best_zone = zone;
    } else if (class > at->second) {
        at->second = class;
    }
}

static void advance(struct cursor *at, const struct spot_classes *classes, uint32_t up)
{
    at->best = at->second = 0;
    at->best_zone = SPOT_ZONES_MAX;
    for (uint32_t z = 0; z < classes->zone_count; z++) {
        at->age[z] = up >> z & 1 ? at->age[z] + 1 : 0;
        at->class_of[z] = spot_class(classes, z, at->age[z]);
        rank(at, z);
    }
    at->down = at->best == 0 ? at->down + 1 : 0;
    at->env = at->best == 0 ? spot_env_down(at->down) : spot_env_up(at->best, at->second);
}

static uint32_t on_state(const struct cursor *at, uint32_t zone)
{
    return spot_on(at->class_of[zone], zone == at->best_zone ? at->second : at->best);
}

static void count_zone(struct spot_scratch *counts, const struct cursor *now,
                       const struct cursor *then, const uint32_t *up, uint32_t zone, uint32_t lag)
{
    uint32_t from = on_state(now, zone);
    if (then->age[zone] > lag) {
        counts->on[from][on_state(then, zone)]++;
        return;
    }
    uint32_t held = 1;
    while (up[held] >> zone & 1) held++;
    ASSERT(held <= lag);
    counts->on[from][SPOT_ON + then->env]++;
    counts->held[from] += held;
}

static void count_all(const struct spot_classes *classes, const uint32_t *up, uint32_t ticks,
                      uint32_t lag, struct spot_scratch *counts)
{
    struct cursor now = {0}, then = {0};
    memset(counts, 0, sizeof *counts);
    for (uint32_t t = 0; t < lag && t < ticks; t++) advance(&then, classes, up[t]);
    for (uint32_t t = 0; t + lag < ticks; t++) {
        advance(&now, classes, up[t]);
        advance(&then, classes, up[t + lag]);
        counts->env[now.env][then.env]++;
        for (uint32_t rest = up[t]; rest != 0; rest &= rest - 1) {
            uint32_t zone = (uint32_t)__builtin_ctz(rest);
            if (zone < classes->zone_count) count_zone(counts, &now, &then, up + t, zone, lag);
        }
    }
}

/* ---- rows: counts and the prior of SPOT_PRIOR samples, as parts per million ---- */

struct weights { /* counts in millionths of a sample */
    uint64_t of[SPOT_ON + SPOT_ENV];
};

static void add_prior(struct weights *weights, uint32_t to, uint32_t ppm)
{
    weights->of[to] += (uint64_t)SPOT_PRIOR * ppm;
}

/* `split`: the first so many targets are node states. */
static void make_row(struct spot_row *row, const struct weights *weights, uint32_t count,
                     uint32_t split)
{
    uint64_t sum = 0, kept = 0;
    for (uint32_t to = 0; to < count; to++) sum += weights->of[to];
    uint64_t least = (sum * DROPPED_PPM + SPOT_PPM - 1) / SPOT_PPM;
    for (uint32_t to = 0; to < count; to++) {
        if (weights->of[to] >= least) kept += weights->of[to];
    }
    uint32_t rest = SPOT_PPM, most = 0;
    row->count = row->kept_count = 0;
    for (uint32_t to = 0; to < count; to++) {
        if (weights->of[to] < least) continue;
        uint32_t ppm = (uint32_t)(weights->of[to] * SPOT_PPM / kept), at = row->count++;
        row->kept_count += to < split;
        row->to[at] = (uint8_t)(to < split ? to : to - split);
        row->ppm[at] = ppm;
        rest -= ppm;
        if (ppm > row->ppm[most]) most = at;
    }
    row->ppm[most] += rest;
}

static uint32_t ratio_ppm(uint64_t part, uint64_t rest)
{
    return (uint32_t)(part * SPOT_PPM / (part + rest));
}

/* A node of this class is lost within the step. */
static uint32_t loss_ppm(const struct spot_classes *classes, uint32_t class, uint32_t lag)
{
    return ratio_ppm((uint64_t)lag * SPOT_SCORE_ONE, classes->middle[class]);
}

static uint32_t after_loss(uint32_t other)
{
    return other == 0 ? 0 : spot_env_up(other, 0);
}

static void make_env_down(struct spot_step *step, const struct spot_scratch *counts)
{
    for (uint32_t down = 0; down < SPOT_DOWNS; down++) {
        struct weights weights = {{0}};
        for (uint32_t to = 0; to < SPOT_ENV; to++)
            weights.of[to] = (uint64_t)counts->env[down][to] * SPOT_PPM;
        uint32_t up = ratio_ppm(step->lag, down_taus[down]), next = 0;
        if (down + 1 < SPOT_DOWNS) {
            next = ratio_ppm(step->lag, down_starts[down + 1] - down_starts[down]);
            next = (uint32_t)((uint64_t)next * (SPOT_PPM - up) / SPOT_PPM);
            add_prior(&weights, down + 1, next);
        }
        add_prior(&weights, spot_env_up(1, 0), up);
        add_prior(&weights, down, SPOT_PPM - up - next);
        make_row(&step->env[down], &weights, SPOT_ENV, 0);
    }
}

static void make_env_up(struct spot_step *step, const struct spot_classes *classes,
                        const struct spot_scratch *counts, uint32_t best, uint32_t second)
{
    struct weights weights = {{0}};
    uint32_t state = spot_env_up(best, second), loss = loss_ppm(classes, best, step->lag);
    for (uint32_t to = 0; to < SPOT_ENV; to++)
        weights.of[to] = (uint64_t)counts->env[state][to] * SPOT_PPM;
    add_prior(&weights, after_loss(second), loss);
    add_prior(&weights, state, SPOT_PPM - loss);
    make_row(&step->env[state], &weights, SPOT_ENV, 0);
}

static void make_on(struct spot_step *step, const struct spot_classes *classes,
                    const struct spot_scratch *counts, uint32_t own, uint32_t other)
{
    struct weights weights = {{0}};
    uint32_t state = spot_on(own, other), loss = loss_ppm(classes, own, step->lag);
    uint64_t lost = 0;
    for (uint32_t to = 0; to < SPOT_ON + SPOT_ENV; to++) {
        weights.of[to] = (uint64_t)counts->on[state][to] * SPOT_PPM;
        if (to >= SPOT_ON) lost += counts->on[state][to];
    }
    add_prior(&weights, SPOT_ON + after_loss(other), loss);
    add_prior(&weights, state, SPOT_PPM - loss);
    make_row(&step->on[state], &weights, SPOT_ON + SPOT_ENV, SPOT_ON);
    /* The prior is lost half-way. */
    uint64_t prior = (uint64_t)SPOT_PRIOR * loss, held = counts->held[state] * SPOT_PPM;
    step->on[state].kept_ppm =
        (uint32_t)((held / step->lag + prior / 2) * 1000 / ((lost * SPOT_PPM + prior) / 1000 + 1));
    if (step->on[state].kept_ppm > SPOT_PPM) step->on[state].kept_ppm = SPOT_PPM;
}

void spot_learn(const struct spot_classes *classes, const uint32_t *up, uint32_t ticks,
                uint32_t lag, struct spot_scratch *scratch, struct spot_step *ret)
{
    ASSERT(lag > 0);
    count_all(classes, up, ticks, lag, scratch);
    ret->lag = lag;
    ret->one_zone = classes->zone_count == 1;
    make_env_down(ret, scratch);
    for (uint32_t best = 1; best <= SPOT_CLASSES; best++) {
        for (uint32_t second = 0; second <= best; second++)
            make_env_up(ret, classes, scratch, best, second);
        for (uint32_t other = 0; other <= SPOT_CLASSES; other++)
            make_on(ret, classes, scratch, best, other);
    }
}
