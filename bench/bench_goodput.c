/* Goodput under chaos: what kill -9 of random workers leaves of the work of 64 real processes.
 *
 *     bench_goodput [--phase calm|minute|quarter] [--calm RATE] [WORKERS [SECONDS [SCALE]]]
 *
 *     64, 40 and 4 unless given. One phase at a time, of SECONDS each, where a machine is quiet for
 *     a short while only: `calm` first, whose value is the RATE of the other two.
 *
 * Rows     goodput.calm: steps a second without failures, over what the workers' speeds allow.
 *          goodput.kill60s, goodput.kill15s: committed slots per second while one worker a minute (a
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
#include <string.h>

enum { SLOTS_EACH = 4, ELEMENTS = 20000 };
#define REPLACE_US  INT64_C(1000000) /* in life, as SLOT_US_* */
#define SLOT_US_MIN 600000
#define SLOT_US_MAX 1400000

static uint32_t scale = 4;

struct rate {
    double steps_s,
        limit; /* limit: of what the workers compute, were slots not whole. 0: it failed */
};

static void replace(struct worker_group *g)
{
    uint32_t victim = group_pick(g);
    uint64_t slot_us = g->worker[victim].slot_us;
    group_signal(g, victim, SIGKILL);
    group_serve(g, REPLACE_US / scale);
    (void)group_start(g, slot_us);
}

/* Steps a second over `seconds`, counted between two step boundaries. */
static struct rate run(uint32_t workers, double seconds, double kill_every_s)
{
    static struct worker_group g;
    const struct group_options options = {.elements = ELEMENTS,
                                          .slots = workers * SLOTS_EACH,
                                          .gang = workers,
                                          .steps = 100000,
                                          .seed = 1};
    struct rate rate = {0};
    if (!group_open(&g, &options)) return rate;
    for (uint32_t i = 0; i < workers; i++) {
        uint64_t slot_us = (SLOT_US_MIN + group_below(&g, SLOT_US_MAX - SLOT_US_MIN + 1)) / scale;
        rate.limit += 1e6 / (double)slot_us / options.slots;
        (void)group_start(&g, slot_us);
    }
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
    if (fine)
        rate.steps_s =
            (double)(g.last_step - first) * 1e6 / (double)(clock_monotonic_us() - from_us);
    fprintf(stderr, "%u workers (speeds emulated), %u kills: %.3f steps/s of %.3f\n", workers,
            kills, rate.steps_s, rate.limit);
    group_close(&g, !fine);
    return rate;
}

static void row(const char *name, double rate, double calm, int budget_ppm)
{
    double ppm = calm > 0 ? rate / calm * 1e6 : 0;
    printf("{\"name\": \"%s\", \"value\": %.0f, \"unit\": \"ppm\", \"peer\": \"budget\", "
           "\"peer_value\": %d, \"ratio\": %.3f, \"better\": \"higher\", \"runs\": 1, "
           "\"emulated\": true}\n",
           name, ppm, budget_ppm, ppm / budget_ppm);
}

static double run_calm(uint32_t workers, double seconds)
{
    struct rate rate = run(workers, seconds, 0);
    printf("{\"name\": \"goodput.calm\", \"value\": %.4f, \"unit\": \"steps/s\", \"peer\": "
           "\"sum of speeds\", \"peer_value\": %.4f, \"ratio\": %.3f, \"better\": \"higher\", "
           "\"runs\": 1, \"emulated\": true}\n",
           rate.steps_s, rate.limit, rate.steps_s / rate.limit);
    fflush(stdout);
    return rate.steps_s;
}

/* False: it did not work. */
static bool run_minute(uint32_t workers, double seconds, double calm)
{
    double rate = run(workers, seconds, 60.0 / scale).steps_s;
    row("goodput.kill60s", rate, calm, 970000);
    return rate > 0;
}

static bool run_quarter(uint32_t workers, double seconds, double calm)
{
    double rate = run(workers, seconds, 15.0 / scale).steps_s;
    row("goodput.kill15s", rate, calm, 850000);
    return rate > 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_goodput [--phase calm|minute|quarter] [--calm RATE] "
                    "[WORKERS 2 .. 64 [SECONDS [SCALE]]]\n"
                    "the phases minute and quarter need --calm: the value of phase calm\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *phase = "";
    double calm = 0;
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--phase") == 0)
            phase = argv[at + 1];
        else if (strcmp(argv[at], "--calm") == 0)
            calm = strtod(argv[at + 1], NULL);
        else
            return usage();
    }
    uint32_t workers = argc > at ? (uint32_t)strtoul(argv[at], NULL, 10) : 64;
    double seconds = argc > at + 1 ? strtod(argv[at + 1], NULL) : 40;
    if (argc > at + 2) scale = (uint32_t)strtoul(argv[at + 2], NULL, 10);
    if (workers < 2 || workers > 64 || seconds <= 0 || scale < 1 || scale > 100) return usage();
    if (strcmp(phase, "calm") == 0) return run_calm(workers, seconds) > 0 ? 0 : 1;
    if (strcmp(phase, "minute") == 0 && calm > 0) return run_minute(workers, seconds, calm) ? 0 : 1;
    if (strcmp(phase, "quarter") == 0 && calm > 0)
        return run_quarter(workers, seconds, calm) ? 0 : 1;
    if (phase[0] != '\0' || calm != 0) return usage();
    calm = run_calm(workers, seconds);
    bool minute = run_minute(workers, 1.5 * seconds, calm);
    return run_quarter(workers, seconds, calm) && minute && calm > 0 ? 0 : 1;
}
