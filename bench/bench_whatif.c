/* How fast the what-if machine is: a year of 1,000 nodes with 40,000 jobs on one core, the whole of it
 * (the pool's decisions, too). Rows: events a second against the budget of 1,000,000, bytes of memory by
 * events against 200, and seconds for the year against 60.
 */
#include "whatif/world.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BUDGET_EVENTS = 1000000, BUDGET_BYTES = 200, BUDGET_S = 60 };

static const char text[] =
    "name: year\nhorizon: 365d\n"
    "offers:\n"
    "  - {name: own, kind: owned, model: A100-40GB, place: lab/hall/a, stock: 600, price: 1, life: "
    "4000h}\n"
    "  - {name: spot-a, kind: spot, model: A100-40GB, place: aws/hall/a, stock: 200, on_demand: "
    "2.8, "
    "price: {mean: 1, every: 1h, step: 0.05}, up: {mean: 200h, down: 2h}, life: 100h, notice: 2m}\n"
    "  - {name: spot-b, kind: spot, model: H100, place: aws/hall/b, stock: 200, on_demand: 4.5, "
    "price: {mean: 1.6, every: 1h, step: 0.05}, up: {mean: 100h, down: 2h}, life: 60h, notice: "
    "2m}\n"
    "jobs:\n"
    "  - {name: one, devices: 1, work: 20, spread: 1, count: 36000, every: 14m, random: true, "
    "class: P2}\n"
    "  - {name: gang, devices: {min: 8, max: 64}, work: 2000, spread: 0.5, count: 2000, every: "
    "4.3h, "
    "random: true, class: P1}\n"
    "  - {name: small, devices: 4, work: 60, spread: 1, count: 2000, every: 4.3h, random: true, "
    "class: P3}\n";

static void row(const char *name, double value, const char *unit, double budget, const char *better)
{
    double ratio = budget > 0 ? value / budget : 0;
    (void)printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"peer\": \"budget\", "
                 "\"peer_value\": "
                 "%.6g, \"ratio\": %.3f, \"better\": \"%s\", \"runs\": 1}\n",
                 name, value, unit, budget, ratio, better);
}

/* Of this process: one thread, so one core. */
static double cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
    struct error error = {""};
    struct scene_case c;
    struct outcome o;
    struct scene *scene = scene_new();
    if (scene == NULL || !scene_read(scene, "year", ".", text, strlen(text), NULL, 0, &error) ||
        !scene_case_of_policy(scene, "shoal", &c)) {
        (void)fprintf(stderr, "bench_whatif: %s\n", error.text);
        return 1;
    }
    double from_s = cpu_s();
    bool good = world_run(scene, &c, 1, NULL, &o);
    double took_s = cpu_s() - from_s;
    scene_close(scene);
    if (!good) {
        (void)fprintf(stderr, "bench_whatif: out of memory\n");
        return 1;
    }
    row("whatif_events_per_s", (double)o.events / took_s, "events/s", BUDGET_EVENTS, "higher");
    row("whatif_bytes_per_event", (double)o.bytes / (double)o.events, "bytes", BUDGET_BYTES,
        "lower");
    row("whatif_year_of_1000_nodes_s", took_s, "s", BUDGET_S, "lower");
    (void)fprintf(
        stderr, "%" PRIu64 " events, %.0f nodes begun, %.0f jobs not done, %.2f of devices held\n",
        o.events, o.values[0][MEASURE_BOUGHT], o.values[0][MEASURE_UNFINISHED],
        o.values[0][MEASURE_BUSY]);
    return 0;
}
