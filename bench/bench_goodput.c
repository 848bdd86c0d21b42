/* Goodput under chaos: what kill -9 of random workers leaves of the work of 64 real processes.
 *
 *     bench_goodput [WORKERS [SECONDS [SCALE]]]      64, 40 and 4 unless given
 *
 * Rows     goodput.kill60s, goodput.kill15s: committed slots per second while one worker a minute (a
 *          quarter of a minute) is killed and replaced, over those of the failure-free run. In ppm.
 * Speeds   Emulated (slots are padded by sleeping), unequal: 0.6 to 1.4 s a slot, four slots a
 *          worker on average; a replacement is as fast as the one before and starts a second after the
 *          kill. No folder for checkpoints is set: recovery uses no storage.
 * Scale    Four times faster than life: slots take 150 to 350 ms, kills come every 15 s and 3.75 s.
 *          What does not scale (noticing, agreeing, joining) weighs four times as much.
 */
#include "base/clock.h"
#include "worker_group.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS_EACH = 4, ELEMENTS = 20000 };
#define REPLACE_US  INT64_C(1000000) /* in life, as SLOT_US_* */
#define SLOT_US_MIN 600000
#define SLOT_US_MAX 1400000

static uint32_t scale = 4;

static void replace(struct worker_group *g)
{
    uint32_t victim = group_pick(g);
    uint64_t slot_us = g->worker[victim].slot_us;
    group_signal(g, victim, SIGKILL);
    group_serve(g, REPLACE_US / scale);
    (void)group_start(g, slot_us);
}

/* Steps a second over `seconds`, counted between two step boundaries. 0: it did not work. */
static double run(uint32_t workers, double seconds, double kill_every_s)
{
    static struct worker_group g;
    const struct group_options options = {.elements = ELEMENTS,
                                          .slots = workers * SLOTS_EACH,
                                          .gang = workers,
                                          .steps = 100000,
                                          .seed = 1};
    if (!group_open(&g, &options)) return 0;
    for (uint32_t i = 0; i < workers; i++)
        (void)group_start(&g,
                          (SLOT_US_MIN + group_below(&g, SLOT_US_MAX - SLOT_US_MIN + 1)) / scale);
    bool fine = group_wait_step(&g, 4); /* speeds are known and slots dealt */
    int64_t first = g.last_step, from_us = clock_monotonic_us(), kill_us = INT64_MAX;
    int64_t end_us = from_us + (int64_t)(seconds * 1e6), every_us = (int64_t)(kill_every_s * 1e6);
    uint32_t kills = 0;
    if (kill_every_s > 0) kill_us = from_us + every_us / 2;
    while (fine && clock_monotonic_us() < end_us) {
        if (clock_monotonic_us() >= kill_us) {
            kill_us += every_us;
            kills++;
            replace(&g);
        }
        group_serve(&g, 20000);
    }
    int64_t last = g.last_step;
    fine = fine && group_wait_step(&g, last + 1); /* up to a boundary, whatever it takes */
    double rate = (double)(g.last_step - first) * 1e6 / (double)(clock_monotonic_us() - from_us);
    fprintf(stderr, "%u workers (speeds emulated), %u kills: %.3f steps/s\n", workers, kills, rate);
    group_close(&g, !fine);
    return fine ? rate : 0;
}

static void row(const char *name, double rate, double calm, int budget_ppm)
{
    double ppm = calm > 0 ? rate / calm * 1e6 : 0;
    printf("{\"name\": \"%s\", \"value\": %.0f, \"unit\": \"ppm\", \"peer\": \"budget\", "
           "\"peer_value\": %d, \"ratio\": %.3f, \"better\": \"higher\", \"runs\": 1, "
           "\"emulated\": true}\n",
           name, ppm, budget_ppm, ppm / budget_ppm);
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 64;
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 40;
    if (argc > 3) scale = (uint32_t)strtoul(argv[3], NULL, 10);
    if (workers < 2 || workers > 64 || seconds <= 0 || scale < 1 || scale > 100) {
        fprintf(stderr, "usage: bench_goodput [WORKERS 2 .. 64 [SECONDS [SCALE]]]\n");
        return 2;
    }
    double calm = run(workers, seconds, 0);
    double minute = run(workers, 1.5 * seconds, 60.0 / scale);
    double quarter = run(workers, seconds, 15.0 / scale);
    row("goodput.kill60s", minute, calm, 970000);
    row("goodput.kill15s", quarter, calm, 850000);
    return calm > 0 && minute > 0 && quarter > 0 ? 0 : 1;
}
