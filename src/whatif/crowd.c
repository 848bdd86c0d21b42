#include "whatif/crowd.h"
#include "base/clock.h"
#include "base/mem.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 256, BAR = 32, SEEDS_MAX = 10000 };

#define REDRAW_US INT64_C(100000)

struct shared {
    struct crowd *crowd;
    atomic_uint next, done;
    atomic_bool failed;
};

static void *work(void *argument)
{
    struct shared *s = argument;
    struct crowd *c = s->crowd;
    uint32_t count = c->case_count * c->seed_count;
    for (;;) {
        uint32_t task = atomic_fetch_add(&s->next, 1);
        if (task >= count || atomic_load(&s->failed)) return NULL;
        uint32_t seed = c->first_seed + task % c->seed_count;
        if (!world_run(c->scene, &c->cases[task / c->seed_count], seed, /* recorder */ NULL,
                       &c->outcomes[task]))
            atomic_store(&s->failed, true);
        (void)atomic_fetch_add(&s->done, 1);
    }
}

static uint32_t threads_of(const struct crowd *c)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = c->threads > 0 ? c->threads : processors > 0 ? (uint32_t)processors : 1;
    uint32_t tasks = c->case_count * c->seed_count;
    if (count > tasks) count = tasks;
    return count > THREADS_MAX ? THREADS_MAX : count;
}

static void draw_bar(const struct crowd *c, uint32_t done, uint32_t count)
{
    char bar[BAR + 1];
    for (uint32_t i = 0; i < BAR; i++) bar[i] = i < done * BAR / count ? '#' : '.';
    bar[BAR] = '\0';
    (void)fprintf(stderr, "\r%s [%s] %u of %u worlds", c->progress, bar, done, count);
    if (done == count) (void)fprintf(stderr, "\r%*s\r", BAR + 60, "");
    (void)fflush(stderr);
}

static void watch(const struct crowd *c, struct shared *s)
{
    uint32_t count = c->case_count * c->seed_count;
    if (c->progress == NULL || !isatty(STDERR_FILENO)) return;
    for (;;) {
        uint32_t done = atomic_load(&s->done);
        if (atomic_load(&s->failed) || done >= count) break;
        draw_bar(c, done, count);
        (void)usleep(REDRAW_US);
    }
    draw_bar(c, count, count);
}

bool crowd_run(struct crowd *c, struct error *ret_error)
{
    struct shared s = {.crowd = c};
    pthread_t threads[THREADS_MAX];
    uint32_t wanted = threads_of(c), begun = 0;
    int64_t from_us = clock_monotonic_us();
    c->outcomes = mem_zalloc((size_t)c->case_count * c->seed_count, sizeof *c->outcomes);
    if (c->outcomes == NULL)
        return error_set(ret_error, "out of memory for %u results", c->seed_count);
    while (begun < wanted && pthread_create(&threads[begun], NULL, work, &s) == 0) begun++;
    if (begun == 0)
        (void)work(&s); /* no thread to be had: this one does it */
    else
        watch(c, &s);
    for (uint32_t i = 0; i < begun; i++) (void)pthread_join(threads[i], NULL);
    c->wall_us = clock_monotonic_us() - from_us;
    return !atomic_load(&s.failed) ||
           error_set(ret_error, "out of memory in a world of this scenario");
}

void crowd_free(struct crowd *crowd)
{
    mem_free(crowd->outcomes);
    crowd->outcomes = NULL;
}

struct estimate crowd_estimate(const struct crowd *crowd, uint32_t c, uint32_t row,
                               enum measure measure)
{
    double values[SEEDS_MAX];
    uint32_t count = crowd->seed_count;
    for (uint32_t i = 0; i < count; i++)
        values[i] = crowd->outcomes[(size_t)c * crowd->seed_count + i].values[row][measure];
    return measure_estimate(values, count);
}

double crowd_class_wait(const struct crowd *crowd, uint32_t c, uint32_t job_class, bool p95)
{
    double sum = 0;
    for (uint32_t i = 0; i < crowd->seed_count; i++) {
        const struct outcome *o = &crowd->outcomes[(size_t)c * crowd->seed_count + i];
        sum += p95 ? o->class_wait_p95_h[job_class] : o->class_wait_h[job_class];
    }
    return sum / crowd->seed_count;
}

/* Means over means: a mean of ratios would be the figure of the one seed in which b is nearly nothing. Its
 * interval is that of the residuals, seed by seed, since both cases of a seed share their randomness. */
struct estimate crowd_claimed(const struct crowd *crowd, const struct scene_claim *claim)
{
    double residuals[SEEDS_MAX];
    enum measure measure = measure_find(claim->metric);
    struct estimate a = crowd_estimate(crowd, claim->a, claim->group, measure);
    if (claim->b == SCENE_CASES_MAX) return a;
    struct estimate b = crowd_estimate(crowd, claim->b, claim->group, measure);
    if (b.mean == 0) return (struct estimate){0};
    struct estimate ratio = {.mean = a.mean / b.mean};
    const struct outcome *of_a = &crowd->outcomes[(size_t)claim->a * crowd->seed_count];
    const struct outcome *of_b = &crowd->outcomes[(size_t)claim->b * crowd->seed_count];
    for (uint32_t i = 0; i < crowd->seed_count; i++)
        residuals[i] = of_a[i].values[claim->group][measure] -
                       ratio.mean * of_b[i].values[claim->group][measure];
    ratio.half = measure_estimate(residuals, crowd->seed_count).half / b.mean;
    return ratio;
}

double crowd_unfinished(const struct crowd *crowd, uint32_t c, uint32_t row)
{
    uint32_t stop = crowd->scene->stop_group;
    if (stop != 0 && row == 0 && crowd_estimate(crowd, c, stop, MEASURE_JOBS).mean > 0) row = stop;
    if (stop != 0 && row != 0 && row != stop) return 0;
    return crowd_estimate(crowd, c, row, MEASURE_UNFINISHED).mean;
}

const struct unfinished *crowd_first_unfinished(const struct crowd *crowd, uint32_t c)
{
    if (crowd_unfinished(crowd, c, 0) == 0) return NULL;
    for (uint32_t i = 0; i < crowd->seed_count; i++) {
        const struct outcome *o = &crowd->outcomes[(size_t)c * crowd->seed_count + i];
        if (o->values[crowd->scene->stop_group][MEASURE_UNFINISHED] > 0) return &o->unfinished;
    }
    return NULL;
}

bool crowd_needs_all(enum measure measure)
{
    return measure == MEASURE_COST || measure == MEASURE_JOB_COST || measure == MEASURE_TIME ||
           measure == MEASURE_JOB_TIME;
}

double crowd_later(const struct crowd *crowd, uint32_t c)
{
    double fewest = crowd_estimate(crowd, c, 0, MEASURE_MISSED).mean, missed = fewest;
    for (uint32_t i = 0; i < crowd->case_count; i++) {
        double other = crowd_estimate(crowd, i, 0, MEASURE_MISSED).mean;
        if (crowd_unfinished(crowd, i, 0) == 0 && other < fewest) fewest = other;
    }
    return missed - fewest;
}

uint32_t crowd_cheapest(const struct crowd *crowd)
{
    uint32_t best = crowd->case_count;
    double least = 0;
    for (uint32_t i = 0; i < crowd->case_count; i++) {
        double usd = crowd_estimate(crowd, i, 0, MEASURE_COST).mean;
        if (memcmp(crowd->cases[i].job_bits, crowd->cases[0].job_bits,
                   sizeof crowd->cases[0].job_bits) != 0)
            return crowd->case_count;
        if (crowd_unfinished(crowd, i, 0) > 0 || crowd_later(crowd, i) > 0 ||
            (best < crowd->case_count && usd >= least))
            continue;
        best = i;
        least = usd;
    }
    return best;
}

/* Dollars and hours of work that was left undone are less than those of the work: no proof that a case is
 * cheap or quick, but good enough that it is at least so dear or slow. */
static bool is_proven(const struct crowd *crowd, const struct scene_claim *claim)
{
    if (!crowd_needs_all(measure_find(claim->metric))) return true;
    bool at_least = claim->at_least_ppm != INT64_MIN;
    if (!at_least) return crowd_unfinished(crowd, claim->a, claim->group) == 0;
    return claim->b == SCENE_CASES_MAX || crowd_unfinished(crowd, claim->b, claim->group) == 0;
}

bool crowd_holds(const struct crowd *crowd, const struct scene_claim *claim)
{
    if (!is_proven(crowd, claim)) return false;
    double mean = crowd_claimed(crowd, claim).mean;
    if (claim->at_least_ppm != INT64_MIN) return mean >= (double)claim->at_least_ppm / 1e6;
    return mean <= (double)claim->at_most_ppm / 1e6;
}
