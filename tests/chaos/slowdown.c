/* Two real processes, one three times as fast: 64 slots are at 48 and 16 within three steps. Then the
 * fast one becomes half as fast: the group gets at least 95 % of the sum of both speeds.
 *
 *     slowdown
 *
 * Slots are padded by sleeping, so processors matter little, and a worker's speed is what it really
 * took for its slots: a loaded machine makes both sides of the comparison slower alike. What others do
 * at the wrong moment is not the group's fault: of three windows the best counts.
 */
#include "base/clock.h"
#include "worker_group.h"
#include <stdio.h>

enum { SLOTS = 64, WINDOW_STEPS = 3, WINDOWS = 3, SETTLE_STEPS = 3 };
#define FAST_US     30000
#define SLOW_US     90000
#define PAD_US      60000
#define SHARE_LEAST 0.95

struct look { /* at the two workers, at one moment */
    int64_t at_us, slots[2], slots_us[2];
};

static struct look look(const struct worker_group *g)
{
    struct look seen = {.at_us = clock_monotonic_us()};
    for (uint32_t i = 0; i < 2; i++) {
        seen.slots[i] = g->page->slots[i + 1];
        seen.slots_us[i] = g->page->slots_us[i + 1];
    }
    return seen;
}

/* Slots a second of the group, over the sum of what each worker did a second while it computed. */
static double share(const struct look *from, const struct look *to)
{
    double together = 0, speeds = 0;
    for (uint32_t i = 0; i < 2; i++) {
        double slots = (double)(to->slots[i] - from->slots[i]);
        together += slots;
        speeds += slots / (double)(to->slots_us[i] - from->slots_us[i]);
    }
    return together / (double)(to->at_us - from->at_us) / speeds;
}

static int fail(struct worker_group *g, const char *what)
{
    fprintf(stderr, "slowdown: %s (at step %lld, log %s)\n", what, (long long)g->last_step, g->log);
    group_close(g, true);
    return 1;
}

/* The best of some windows, each from one step boundary to another. 0: it stood still. */
static double best_share(struct worker_group *g)
{
    double best = 0;
    for (int i = 0; i < WINDOWS && best < SHARE_LEAST; i++) {
        struct look from = look(g);
        if (!group_wait_step(g, g->last_step + WINDOW_STEPS)) return 0;
        struct look to = look(g);
        double got = share(&from, &to);
        printf("step %lld: %.1f %% of the sum of speeds\n", (long long)g->last_step, 100 * got);
        if (got > best) best = got;
    }
    return best;
}

int main(void)
{
    static struct worker_group g;
    const struct group_options options = {
        .elements = 1000, .slots = SLOTS, .gang = 2, .steps = GROUP_STEPS_KEPT, .seed = 1};
    if (!group_open(&g, &options)) return fail(&g, "no memory");
    (void)group_start(&g, FAST_US);
    (void)group_start(&g, SLOW_US);
    if (!group_wait_step(&g, SETTLE_STEPS)) return fail(&g, "does not begin");
    for (int step = 0; step <= SETTLE_STEPS; step++)
        printf("step %d: %u and %u slots\n", step, g.page->owned[1][step], g.page->owned[2][step]);
    uint32_t fast = g.page->owned[1][SETTLE_STEPS];
    if (g.page->owned[1][0] != SLOTS / 2) return fail(&g, "does not begin with equal shares");
    if (fast < 47 || fast > 49) return fail(&g, "slots do not settle at 48 and 16");
    group_slow(&g, 0, PAD_US);
    if (!group_wait_step(&g, g.last_step + 1 + SETTLE_STEPS)) return fail(&g, "stands still");
    double best = best_share(&g);
    if (best < SHARE_LEAST) return fail(&g, "gets less than 95 % of the sum of speeds");
    printf("slots settle at %u and %u; after a slowdown %.1f %% of the sum of speeds\n", fast,
           SLOTS - fast, 100 * best);
    group_close(&g, false);
    return 0;
}
