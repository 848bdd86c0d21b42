/* What a joiner costs those who train, over links of a given speed: how much longer than usual their
 * longest step is while the state of a large model comes to it. A join that stands still
 * costs the stream: size over the speeds of the links. Real processes on this machine; slots are padded by
 * sleeping, and what goes to the joiner is paced (SHOAL_EMULATE_LINKS).
 *
 *     bench_join [MEGABYTES [ROUNDS [MB_PER_S]]]      100 of weights and optimizer state, 3, 50 a link
 *
 * Rows        join_stall_ms.SIZEMB.r2    longest step of worker 1 from the start of a third worker to
 *                                        the first step that it has applied, less the median step
 *                                        before; against the stream
 *             join_ms.SIZEMB.r2          from that start to that step, against the same
 */
#include "base/clock.h"
#include "median.h"
#include "worker_group.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WORKERS = 2,
    SLOTS = 2,
    STEPS_BEFORE = 3, /* two seconds and more: a worker looks at its links' speeds once a second */
    ROUNDS_MAX = 16,
    MEGABYTES_MAX = 4096
};
#define SLOT_US  UINT64_C(1300000)
#define BOUND_US INT64_C(120000000)

static char links[64]; /* file of SHOAL_EMULATE_LINKS */

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

/* From each worker to the one with this id. */
static bool pace(uint32_t id, uint64_t bytes_per_s)
{
    FILE *file = fopen(links, "w");
    for (uint32_t from = 1; from <= WORKERS && file != NULL; from++)
        fprintf(file, "%u %u %llu\n", from, id, (unsigned long long)bytes_per_s);
    return file != NULL && fclose(file) == 0;
}

static bool join(struct worker_group *g, uint64_t bytes_per_s, double *ret_stall_ms,
                 double *ret_join_ms)
{
    double usual_ms;
    if (!pace(g->count + 1, bytes_per_s) || !usual_step(g, &usual_ms)) return false;
    struct watch watch = {.step = g->page->step[1], .applied_us = g->page->applied_us[1]};
    int64_t from_us = clock_wall_us(), end_us = clock_monotonic_us() + BOUND_US;
    uint32_t joiner = group_start(g, SLOT_US);
    while (g->page->applied_us[joiner + 1] == 0 && clock_monotonic_us() < end_us) {
        group_serve(g, 1000);
        (void)look(g, &watch);
    }
    int64_t joined_us = g->page->applied_us[joiner + 1];
    *ret_join_ms = (double)(joined_us - from_us) / 1000;
    *ret_stall_ms = watch.longest_ms - usual_ms;
    group_signal(g, joiner, SIGKILL);
    fprintf(stderr, "usual step %.1f ms, longest %.1f ms, joined after %.1f ms\n", usual_ms,
            watch.longest_ms, *ret_join_ms);
    return joined_us != 0 && group_wait_step(g, g->last_step + 3);
}

static void row(const char *name, uint32_t megabytes, double *values, uint32_t count, double stream)
{
    double value = median_of_doubles(values, count);
    printf("{\"name\": \"%s.%uMB.r%d\", \"value\": %.2f, \"unit\": \"ms\", \"peer\": \"stream\", "
           "\"peer_value\": %.2f, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %u, "
           "\"worst\": %.2f}\n",
           name, megabytes, WORKERS, value, stream, value / stream, count, values[count - 1]);
}

static uint64_t argument(int argc, char **argv, int index, uint64_t otherwise)
{
    return argc > index ? strtoul(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    uint32_t megabytes = (uint32_t)argument(argc, argv, 1, 100);
    uint32_t rounds = (uint32_t)argument(argc, argv, 2, 3);
    uint64_t link_mb_s = argument(argc, argv, 3, 50);
    if (megabytes == 0 || megabytes > MEGABYTES_MAX || rounds == 0 || rounds > ROUNDS_MAX ||
        link_mb_s == 0) {
        fprintf(stderr, "usage: bench_join [MEGABYTES up to %d [ROUNDS up to %d [MB_PER_S]]]\n",
                MEGABYTES_MAX, ROUNDS_MAX);
        return 2;
    }
    const struct group_options options = {/* weights and a momentum, float32 */
                                          .elements = megabytes * 1000000 / 8,
                                          .slots = SLOTS,
                                          .gang = WORKERS,
                                          .steps = 100000};
    static struct worker_group g;
    double stall[ROUNDS_MAX], took[ROUNDS_MAX];
    snprintf(links, sizeof links, "bench_join-%ld.links", (long)getpid());
    (void)setenv("SHOAL_EMULATE_LINKS", links, 1);
    bool fine = group_open(&g, &options);
    for (uint32_t i = 0; i < WORKERS && fine; i++) (void)group_start(&g, SLOT_US);
    fine = fine && group_wait_step(&g, 3);
    for (uint32_t i = 0; i < rounds && fine; i++)
        fine = join(&g, link_mb_s * 1000000, &stall[i], &took[i]);
    group_close(&g, !fine);
    (void)unlink(links);
    if (!fine) {
        fprintf(stderr, "bench_join: a joiner did not come in; log: %s\n", g.log);
        return 1;
    }
    double stream_ms = 1000.0 * megabytes / WORKERS / (double)link_mb_s;
    row("join_stall_ms", megabytes, stall, rounds, stream_ms);
    row("join_ms", megabytes, took, rounds, stream_ms);
    return 0;
}
