/* Real processes, killed every few seconds: the final weights must have the bits of one worker's run
 * and every step must be reported.
 *
 *     kills WORKERS SECONDS [SEED]
 *
 * Victims are random, the leader included; a third are stopped (SIGSTOP) instead and killed later; each
 * is replaced. Slots are padded by sleeping, unequally.
 */
#include "base/clock.h"
#include "worker_group.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(struct worker_group *g, const char *what)
{
    fprintf(stderr, "kills: %s (at step %lld, %u alive, log %s)\n", what, (long long)g->last_step,
            group_alive(g), g->log);
    group_close(g, true);
    return 1;
}

static void lose_one(struct worker_group *g)
{
    uint32_t victim = group_pick(g);
    bool silent = group_below(g, 3) == 0;
    group_signal(g, victim, silent ? SIGSTOP : SIGKILL);
    if (silent) group_serve(g, 1500000);
    group_signal(g, victim, SIGKILL);
    (void)group_start(g, 5000 + group_below(g, 25000));
}

/* Kills until the time or the steps are over. Returns how many; -1: it stood still. */
static int make_trouble(struct worker_group *g, int64_t seconds)
{
    int64_t end_us = clock_monotonic_us() + seconds * 1000000;
    int kills = 0;
    while (clock_monotonic_us() < end_us && g->count < GROUP_WORKERS_MAX - 1 &&
           g->last_step + 10 < (int64_t)g->options.steps) {
        int64_t before = g->last_step;
        lose_one(g);
        kills++;
        group_serve(g, 500000 + group_below(g, 3000000));
        if (g->last_step == before && !group_wait_step(g, before + 1)) return -1;
    }
    return kills;
}

int main(int argc, char **argv)
{
    static struct worker_group g;
    uint32_t workers = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    int64_t seconds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    char expected[65];
    if (workers < 2 || workers > 64 || seconds < 1) {
        fprintf(stderr, "usage: kills WORKERS SECONDS [SEED]\n");
        return 2;
    }
    const struct group_options options = {.elements = 20000,
                                          .slots = 2 * workers,
                                          .gang = workers / 2,
                                          .steps = (uint64_t)seconds * 8,
                                          .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1};
    if (!group_hash_alone(&options, expected)) return fail(&g, "the run on one worker failed");
    if (!group_open(&g, &options)) return fail(&g, "no memory");
    for (uint32_t i = 0; i < workers; i++) (void)group_start(&g, 5000 + group_below(&g, 25000));
    if (!group_wait_step(&g, 2)) return fail(&g, "does not begin");
    int kills = make_trouble(&g, seconds);
    if (kills < 0) return fail(&g, "stands still after a kill");
    if (!group_wait_step(&g, (int64_t)options.steps - 1)) return fail(&g, "does not end");
    for (int i = 0; i < 1000 && group_alive(&g) > 0; i++) group_serve(&g, 20000);
    if (group_alive(&g) > 0) return fail(&g, "a worker does not end");
    if (g.failed_count > 0) return fail(&g, "a worker failed that nobody killed");
    if (g.reported != options.steps) return fail(&g, "a step was never reported");
    if (strcmp(g.hash, expected) != 0) return fail(&g, "the final bits differ");
    printf("%u workers, %d kills in %llu steps: the bits of one worker, every step reported\n",
           workers, kills, (unsigned long long)options.steps);
    group_close(&g, false);
    return 0;
}
