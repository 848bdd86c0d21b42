/* What a joiner costs those who train: how much longer than usual their longest step is while the
 * state of a large model comes to it. Real processes on this machine, slots padded by sleeping.
 *
 *     bench_join [MEGABYTES [ROUNDS]]      100 of weights and optimizer state, 5, unless given
 *
 * Rows        join_stall_ms.SIZEMB.r2    longest step of worker 1 from the start of a third worker to
 *                                        the first step that it has applied, less the median step
 *                                        before; against one usual step
 *             join_ms.SIZEMB.r2          from that start to that step, against the same
 */
#include "base/clock.h"
#include "median.h"
#include "worker_group.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 2, SLOTS = 2, STEPS_BEFORE = 8, ROUNDS_MAX = 16, MEGABYTES_MAX = 4096 };
#define SLOT_US  UINT64_C(300000)
#define BOUND_US INT64_C(60000000)

struct watch { /* of worker 1 */
    int64_t step, applied_us;
    double longest_ms;
};

/* Looks again: how long the step that has just ended took, 0: none has. */
static double look(const struct worker_group *g, struct watch *watch)
{
    int64_t step = g->page->step[1], applied_us = g->page->applied_us[1];
    if (step == watch->step) return 0;
    double took_ms = (double)(applied_us - watch->applied_us) / 1000 / (double)(step - watch->step);
    if (watch->step < 0) took_ms = 0;
    if (took_ms > watch->longest_ms) watch->longest_ms = took_ms;
    watch->step = step;
    watch->applied_us = applied_us;
    return took_ms;
}

static bool usual_step(struct worker_group *g, double *ret_ms)
{
    struct watch watch = {.step = -1};
    double took[STEPS_BEFORE];
    int64_t end_us = clock_monotonic_us() + BOUND_US;
    for (uint32_t count = 0; count < STEPS_BEFORE;) {
        if (clock_monotonic_us() > end_us) return false;
        group_serve(g, 1000);
        took[count] = look(g, &watch);
        count += took[count] > 0;
    }
    *ret_ms = median_of_doubles(took, STEPS_BEFORE);
    return true;
}

static bool join(struct worker_group *g, double *ret_usual_ms, double *ret_stall_ms,
                 double *ret_join_ms)
{
    if (!usual_step(g, ret_usual_ms)) return false;
    struct watch watch = {.step = g->page->step[1], .applied_us = g->page->applied_us[1]};
    int64_t from_us = clock_wall_us(), end_us = clock_monotonic_us() + BOUND_US;
    uint32_t joiner = group_start(g, SLOT_US);
    while (g->page->applied_us[joiner + 1] == 0 && clock_monotonic_us() < end_us) {
        group_serve(g, 1000);
        (void)look(g, &watch);
    }
    int64_t joined_us = g->page->applied_us[joiner + 1];
    *ret_join_ms = (double)(joined_us - from_us) / 1000;
    *ret_stall_ms = watch.longest_ms - *ret_usual_ms;
    group_signal(g, joiner, SIGKILL);
    fprintf(stderr, "usual step %.1f ms, longest %.1f ms, joined after %.1f ms\n", *ret_usual_ms,
            watch.longest_ms, *ret_join_ms);
    return joined_us != 0 && group_wait_step(g, g->last_step + 3);
}

static void row(const char *name, uint32_t megabytes, double *values, uint32_t count, double usual)
{
    double value = median_of_doubles(values, count);
    printf("{\"name\": \"%s.%uMB.r%d\", \"value\": %.2f, \"unit\": \"ms\", \"peer\": \"step\", "
           "\"peer_value\": %.2f, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %u, "
           "\"worst\": %.2f}\n",
           name, megabytes, WORKERS, value, usual, value / usual, count, values[count - 1]);
}

int main(int argc, char **argv)
{
    uint32_t megabytes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100;
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 5;
    if (megabytes == 0 || megabytes > MEGABYTES_MAX || rounds == 0 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_join [MEGABYTES up to %d [ROUNDS up to %d]]\n", MEGABYTES_MAX,
                ROUNDS_MAX);
        return 2;
    }
    const struct group_options options = {/* weights and a momentum, float32 */
                                          .elements = megabytes * 1000000 / 8,
                                          .slots = SLOTS,
                                          .gang = WORKERS,
                                          .steps = 100000};
    static struct worker_group g;
    double usual[ROUNDS_MAX], stall[ROUNDS_MAX], took[ROUNDS_MAX];
    bool fine = group_open(&g, &options);
    for (uint32_t i = 0; i < WORKERS && fine; i++) (void)group_start(&g, SLOT_US);
    fine = fine && group_wait_step(&g, 3);
    for (uint32_t i = 0; i < rounds && fine; i++) fine = join(&g, &usual[i], &stall[i], &took[i]);
    group_close(&g, !fine);
    if (!fine) {
        fprintf(stderr, "bench_join: a joiner did not come in; log: %s\n", g.log);
        return 1;
    }
    double usual_ms = median_of_doubles(usual, rounds);
    row("join_stall_ms", megabytes, stall, rounds, usual_ms);
    row("join_ms", megabytes, took, rounds, usual_ms);
    return 0;
}
