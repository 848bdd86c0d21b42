/* The optimum of a job that knows the whole trace: dynamic program over time and time lost.
 *
 * State      At tick t with `late` ticks lost so far (progress = t - late): idle, on demand, or on a
 *            zone, each with its changeover behind it. A start that is lost before its changeover
 *            ends buys nothing, so none is made; a stop is free, so whoever runs may also be idle.
 * Layers     Backwards in t; a start looks one changeover ahead, so that many layers are kept. */
#include "base/mem.h"
#include "published.h"
#include "spot_replay.h"

static const int32_t never = 1 << 29;

struct program {
    const struct spot_task *task;
    uint32_t start, late_count;      /* late = 0 .. late_count - 1 */
    uint32_t modes, depth;           /* mode 0 idle, 1 on demand, 2 + z on zone z */
    int32_t *layers;                 /* [depth][modes][late_count] */
    uint32_t steady[SPOT_ZONES_MAX]; /* ticks each zone is up from t on */
};

static int32_t *layer(const struct program *p, uint32_t t, uint32_t mode)
{
    return p->layers + ((size_t)(t % p->depth) * p->modes + mode) * p->late_count;
}

static void improve(int32_t *to, const int32_t *from, int32_t cost, uint32_t shift, uint32_t count)
{
    for (uint32_t late = 0; late + shift < count; late++) {
        int32_t value = from[late + shift] + cost;
        to[late] = value < to[late] ? value : to[late];
    }
}

/* What a start on zone z at tick t pays until it is done. */
static int32_t start_cost(const struct program *p, uint32_t t, uint32_t z)
{
    uint32_t cost = 0;
    for (uint32_t k = 0; k < p->task->changeover; k++)
        cost += spot_price(p->task, p->start + t + k, z);
    return (int32_t)cost;
}

/* The end of the window: done or never. */
static void fill_end(const struct program *p)
{
    for (uint32_t mode = 0; mode < p->modes; mode++) {
        int32_t *values = layer(p, p->task->window, mode);
        for (uint32_t late = 0; late < p->late_count; late++)
            values[late] = p->task->window - late >= p->task->work ? 0 : never;
    }
}

static void fill(struct program *p, uint32_t t)
{
    const struct spot_task *task = p->task;
    uint32_t d = task->changeover, n = p->late_count, up = task->up[p->start + t];
    int32_t *idle = layer(p, t, 0);
    for (uint32_t late = 0; late < n; late++) idle[late] = never;
    improve(idle, layer(p, t + 1, 0), 0, 1, n);
    if (t + d <= task->window) improve(idle, layer(p, t + d, 1), (int32_t)d * SPOT_OD_PRICE, d, n);
    for (uint32_t z = 0; z < task->zone_count; z++) {
        p->steady[z] = up >> z & 1 ? p->steady[z] + 1 : 0;
        if (p->steady[z] >= d && t + d <= task->window)
            improve(idle, layer(p, t + d, 2 + z), start_cost(p, t, z), d, n);
    }
    for (uint32_t mode = 1; mode < p->modes; mode++) {
        int32_t *values = layer(p, t, mode);
        for (uint32_t late = 0; late < n; late++) values[late] = idle[late];
        if (mode == 1)
            improve(values, layer(p, t + 1, 1), SPOT_OD_PRICE, 0, n);
        else if (p->steady[mode - 2] > 0)
            improve(values, layer(p, t + 1, mode),
                    (int32_t)spot_price(task, p->start + t, mode - 2), 0, n);
    }
    for (uint32_t late = 0; late < n && late <= t; late++) { /* all work done already */
        if (t - late < task->work) break;
        for (uint32_t mode = 0; mode < p->modes; mode++) layer(p, t, mode)[late] = 0;
    }
}

int64_t spot_optimum(const struct spot_task *task, uint32_t start)
{
    struct program p = {.task = task,
                        .start = start,
                        .late_count = task->window - task->work + 1,
                        .modes = 2 + task->zone_count,
                        .depth = task->changeover + 1};
    p.layers = published_alloc((size_t)p.depth * p.modes * p.late_count, sizeof *p.layers);
    fill_end(&p);
    for (uint32_t t = task->window; t-- > 0;) fill(&p, t);
    int64_t cost = layer(&p, 0, 0)[0];
    mem_free(p.layers);
    return cost;
}
