/* What the loss of a worker costs a group of 64 real processes on this machine, with a small
 * built-in trainer (20,000 gradient elements, one slot of 20 ms a worker, emulated by sleeping).
 *
 *     bench_member [WORKERS [ROUNDS]]      64 and 4 unless given
 *
 * Rows        loss_known_ms.closed.r64    the kernel closes the last descriptor of one that was
 *                                        killed, until the LAST survivor knows (exit_watch.h)
 *             loss_known_ms.killed.r64    the same from kill -9, its exit included
 *             loss_known_ms.silent.r64    SIGSTOP until the last survivor knows
 *             worker_loss_to_step_ms.r64  last survivor knows until ALL survivors applied a step
 *             control_cpu_ppm.r64         CPU of a worker waiting in a long slot: beats
 * How         worker_group.h. A survivor's log line says when it knew of the loss.
 */
#include "base/clock.h"
#include "exit_watch.h"
#include "median.h"
#include "worker_group.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS_MAX = 64, ROUNDS_MAX = 32, ELEMENTS = 20000 };

/* "t=2026-11-30T02:45:40.123Z ..." in microseconds; only differences are used. */
static int64_t line_us(const char *line)
{
    struct tm tm = {0};
    int ms = 0;
    if (sscanf(line, "t=%d-%d-%dT%d:%d:%d.%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &ms) != 7)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (int64_t)timegm(&tm) * 1000000 + ms * INT64_C(1000);
}

/* What the survivors' log says of the loss of one of them. */
struct loss_log {
    FILE *file; /* read on from where the last loss was told */
    uint32_t lines;
    int64_t newest_us;
};

static void read_loss(struct loss_log *log, uint32_t victim)
{
    char line[2048], field[32];
    snprintf(field, sizeof field, " worker=%u ", victim + 1);
    clearerr(log->file);
    while (fgets(line, sizeof line, log->file) != NULL) {
        if (strstr(line, "a peer is lost") == NULL || strstr(line, field) == NULL) continue;
        int64_t at = line_us(line);
        if (at > log->newest_us) log->newest_us = at;
        log->lines++;
    }
}

/* When the last survivor had applied a step after `from_us`; 0: not yet. */
static int64_t all_stepped_us(const struct worker_group *g, uint32_t victim, int64_t from_us)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        if (!group_is_alive(g, i) || i == victim) continue;
        int64_t at = g->page->applied_us[i + 1];
        if (at <= from_us) return 0;
        if (at > last) last = at;
    }
    return last;
}

struct result { /* of the closed ones: closing from when the signal was sent to the first close */
    double known_ms, closed_ms, spread_ms, exit_ms, step_ms;
};

static double ms(int64_t us)
{
    return (double)us / 1000;
}

static bool send_signal(struct worker_group *g, uint32_t victim, int number,
                        struct exit_watch *watch)
{
    bool closes = number == SIGKILL;
    if (closes && !exit_watch_begin(watch, g->worker[victim].life)) return false;
    group_signal(g, victim, number);
    if (closes) exit_watch_end(watch);
    return !closes || watch->last_us != 0;
}

static bool lose(struct worker_group *g, struct loss_log *log, uint32_t victim, int number,
                 struct result *ret)
{
    uint32_t survivors = 0;
    struct exit_watch watch = {.prompt = true};
    for (uint32_t i = 0; i < g->count; i++) survivors += group_is_alive(g, i) && i != victim;
    log->lines = 0;
    log->newest_us = 0;
    int64_t lost_us = clock_wall_us(), stepped = 0;
    bool fine = send_signal(g, victim, number, &watch);
    for (int i = 0; i < 1000 && log->lines < survivors && fine; i++) {
        group_serve(g, 2000);
        read_loss(log, victim);
    }
    /* A step that everybody had applied before it knew may be newer than the kill: ask for one
     * applied after the last one knew. */
    for (int i = 0; i < 1000 && stepped == 0 && fine; i++) {
        group_serve(g, 2000);
        stepped = all_stepped_us(g, victim, log->newest_us);
    }
    group_signal(g, victim, SIGKILL);
    if (log->lines < survivors || stepped == 0) {
        fprintf(stderr, "bench_member: worker %u: %u of %u survivors knew, %s\n", victim + 1,
                log->lines, survivors, stepped == 0 ? "no step since" : "stepped");
        return false;
    }
    if (!watch.prompt) fprintf(stderr, "no real-time priority: closes may be seen late\n");
    *ret = (struct result){.known_ms = ms(log->newest_us - lost_us),
                           .closed_ms = ms(log->newest_us - watch.last_us),
                           .spread_ms = ms(watch.last_us - watch.first_us),
                           .exit_ms = ms(watch.first_us - lost_us),
                           .step_ms = ms(stepped - log->newest_us)};
    if (number == SIGKILL)
        fprintf(stderr,
                "kill worker %u: first close after %.1f ms, last %.1f ms later, known "
                "%.1f ms later, all stepped %.1f ms later\n",
                victim + 1, ret->exit_ms, ret->spread_ms, ret->closed_ms, ret->step_ms);
    else
        fprintf(stderr, "stop worker %u: known after %.1f ms, all stepped %.1f ms later\n",
                victim + 1, ret->known_ms, ret->step_ms);
    return true;
}

static void row(const char *name, double *values, uint32_t count, const char *unit, double budget)
{
    double value = median_of_doubles(values, count);
    printf("{\"name\": \"%s\", \"value\": %.2f, \"unit\": \"%s\", \"peer\": \"budget\", "
           "\"peer_value\": %.0f, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %u, "
           "\"worst\": %.2f}\n",
           name, value, unit, budget, value / budget, count, values[count - 1]);
}

static bool open_group(struct worker_group *g, uint32_t workers, uint64_t slot_us)
{
    const struct group_options options = {.elements = ELEMENTS,
                                          .slots = workers,
                                          .gang = workers,
                                          .steps = 1000000,
                                          .watch_exit = true};
    if (!group_open(g, &options)) return false;
    for (uint32_t i = 0; i < workers; i++) (void)group_start(g, slot_us);
    return true;
}

static bool measure_losses(struct worker_group *g, uint32_t workers, uint32_t rounds)
{
    double killed_ms[ROUNDS_MAX], closed[ROUNDS_MAX], silent[ROUNDS_MAX], step[2 * ROUNDS_MAX];
    char name[64];
    uint32_t steps = 0;
    bool fine = open_group(g, workers, 20000) && group_wait_step(g, 10);
    struct loss_log log = {.file = fopen(g->log, "r")};
    fine = fine && log.file != NULL;
    double cpu = group_cpu_us(g);
    int64_t before = g->last_step, from_us = clock_monotonic_us();
    group_serve(g, 2000000);
    if (g->last_step > before)
        fprintf(stderr, "steps of %.1f ms, %.1f ms of CPU each\n",
                (double)(clock_monotonic_us() - from_us) / 1000 / (double)(g->last_step - before),
                (group_cpu_us(g) - cpu) / 1000 / (double)(g->last_step - before));
    for (uint32_t i = 0; i < rounds && fine; i++) { /* the first victim leads */
        struct result killed, stopped;
        fine = lose(g, &log, 2 * i, SIGKILL, &killed) && group_wait_step(g, g->last_step + 5) &&
               lose(g, &log, 2 * i + 1, SIGSTOP, &stopped) && group_wait_step(g, g->last_step + 5);
        if (!fine) break;
        killed_ms[i] = killed.known_ms;
        closed[i] = killed.closed_ms;
        silent[i] = stopped.known_ms;
        step[steps++] = killed.step_ms;
        step[steps++] = stopped.step_ms;
    }
    if (log.file != NULL) (void)fclose(log.file); /* only read */
    group_close(g, !fine);
    if (!fine) return false;
    snprintf(name, sizeof name, "loss_known_ms.closed.r%u", workers);
    row(name, closed, rounds, "ms", 50);
    snprintf(name, sizeof name, "loss_known_ms.killed.r%u", workers);
    row(name, killed_ms, rounds, "ms", 50);
    snprintf(name, sizeof name, "loss_known_ms.silent.r%u", workers);
    row(name, silent, rounds, "ms", 1000);
    snprintf(name, sizeof name, "worker_loss_to_step_ms.r%u", workers);
    row(name, step, steps, "ms", 250);
    return true;
}

/* Slots of 30 s: whatever runs meanwhile is beats. */
static bool measure_idle(struct worker_group *g, uint32_t workers)
{
    char name[64];
    if (!open_group(g, workers, 30000000)) return false;
    group_serve(g, 8000000);
    double before = group_cpu_us(g);
    int64_t from_us = clock_monotonic_us();
    group_serve(g, 4000000);
    double share = (group_cpu_us(g) - before) / (double)(clock_monotonic_us() - from_us);
    group_close(g, false);
    double ppm = share * 1e6 / workers;
    snprintf(name, sizeof name, "control_cpu_ppm.r%u", workers);
    row(name, &ppm, 1, "ppm", 10000);
    return true;
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : WORKERS_MAX;
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4;
    static struct worker_group g;
    if (workers > WORKERS_MAX || 2 * rounds >= workers || rounds == 0 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_member [WORKERS up to %d [ROUNDS, two workers each]]\n",
                WORKERS_MAX);
        return 2;
    }
    bool fine = measure_losses(&g, workers, rounds);
    return measure_idle(&g, workers) && fine ? 0 : 1;
}
