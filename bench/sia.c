/* bench/sia: elastic jobs on a mixed pool, the Sia protocol on Shoal's scheduler and its rivals. */
#include "base/mem.h"
#include "published.h"
#include "sia_policies.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 256 };

static const struct sia_policy *const policies[] = {
    &sia_shoal, &sia_shoal_predicted, &sia_shoal_shared, &sia_shoal_pool,
    &sia_sia,   &sia_shoal_rigid,     &sia_gavel};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Names in the order in which the file has them. */
static uint32_t collect_names(const struct sia_world *world, const char *set, const char **names)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->submission_count; i++) {
        const struct sia_submission *s = &world->submissions[i];
        if (set != NULL && strcmp(s->set, set) != 0) continue;
        const char *name = set == NULL ? s->set : s->workload;
        uint32_t at = 0;
        while (at < count && strcmp(names[at], name) != 0) at++;
        if (at < count) continue;
        if (count == NAMES_MAX) published_fail("workloads.csv: more than %d names", NAMES_MAX);
        names[count++] = name;
    }
    return count;
}

/* Seeds are the numbers of the workloads; one without a number has its place in the file. */
static bool is_wanted(const struct published *options, const char *workload, uint32_t at)
{
    if (!options->seeds_given) return true;
    char *end;
    uint64_t number = strtoull(workload, &end, 10);
    if (*end != 0 || end == workload) number = at + 1;
    return number >= options->seed_first && number <= options->seed_last;
}

struct totals {
    uint32_t jobs, workloads, restarts, rounds, round_us_max, active_max;
    double *jct_h;
    double mean_sum, mean_squares, makespan_h, gpu_h, round_us, active_sum;
};

static void add(struct totals *t, const struct sia_result *r)
{
    double sum = 0;
    for (uint32_t j = 0; j < r->jobs; j++) sum += r->jct_h[j];
    double mean = sum / r->jobs;
    t->mean_sum += mean;
    t->mean_squares += mean * mean;
    t->jobs += r->jobs;
    t->workloads++;
    t->restarts += r->restarts;
    t->rounds += r->rounds;
    t->makespan_h += r->makespan_h;
    t->gpu_h += r->gpu_h;
    t->round_us += r->round_us;
    t->active_sum += r->active_sum;
    if (r->round_us_max > t->round_us_max) t->round_us_max = r->round_us_max;
    if (r->active_max > t->active_max) t->active_max = r->active_max;
}

static void print_row(struct rows *rows, const char *set, const char *policy, uint32_t copies,
                      struct totals *t)
{
    qsort(t->jct_h, t->jobs, sizeof *t->jct_h, by_value);
    double sum = 0, mean = t->mean_sum / t->workloads;
    for (uint32_t j = 0; j < t->jobs; j++) sum += t->jct_h[j];
    rows_text(rows, "trace", set);
    rows_text(rows, "policy", policy);
    rows_real(rows, "jct_mean_h", sum / t->jobs, 4);
    rows_real(rows, "jct_std_h", sqrt(fmax(0, t->mean_squares / t->workloads - mean * mean)), 4);
    rows_real(rows, "jct_p50_h", t->jct_h[t->jobs / 2], 4);
    rows_real(rows, "jct_p99_h", t->jct_h[(uint32_t)(0.99 * t->jobs)], 3);
    rows_real(rows, "makespan_h", t->makespan_h / t->workloads, 2);
    rows_real(rows, "gpu_h_per_job", t->gpu_h / t->jobs, 3);
    rows_real(rows, "restarts_per_job", (double)t->restarts / t->jobs, 2);
    rows_real(rows, "contention", t->active_sum / t->rounds, 1);
    rows_integer(rows, "contention_max", t->active_max);
    rows_real(rows, "round_us", t->round_us / t->rounds, 0);
    rows_integer(rows, "round_us_max", t->round_us_max);
    rows_integer(rows, "devices", 64 * (int64_t)copies);
    rows_integer(rows, "workloads", t->workloads);
    rows_integer(rows, "jobs", t->jobs);
    rows_end(rows);
}

static void run_set(const struct published *options, const struct sia_world *world, const char *set,
                    const struct sia_policy *policy, uint32_t copies, struct rows *rows)
{
    const char *workloads[NAMES_MAX];
    uint32_t count = collect_names(world, set, workloads);
    struct totals totals = {
        .jct_h = published_alloc((size_t)world->submission_count * copies, sizeof(double))};
    for (uint32_t w = 0; w < count; w++) {
        if (!is_wanted(options, workloads[w], w)) continue;
        struct sia_result result = {.jct_h = totals.jct_h + totals.jobs};
        sia_simulate(world, policy, set, workloads[w], copies, &result);
        add(&totals, &result);
    }
    if (totals.jobs > 0) {
        print_row(rows, set, policy->name, copies, &totals);
    } else {
        fprintf(stderr, "%s: none of its %u workloads is in --seeds\n", set, count);
    }
    mem_free(totals.jct_h);
}

int main(int argc, char **argv)
{
    struct published_list traces = {
        .option = "--trace",
        .word = "NAME",
        .meaning =
            "sets of workloads.csv (default: all but physical44, which is of another cluster)"};
    struct published_list names = {
        .option = "--policy",
        .word = "NAME",
        .meaning = "shoal, shoal_predicted, shoal_shared, shoal_pool, sia, shoal_rigid, gavel"};
    struct published_list copies = {
        .option = "--copies",
        .word = "N",
        .meaning = "as many clusters and workloads in one (default 1; 32 = 2,048 devices)"};
    struct published options = {
        .program = "bench/sia",
        .purpose =
            "Elastic and rigid jobs on 64 mixed devices, with the physics of the Sia simulator.",
        .example = "bench/sia --trace saturn --policy shoal sia --json",
        .lists = {&traces, &names, &copies}};
    published_parse(&options, argc, argv);
    const char *known[NAMES_MAX];
    for (uint32_t p = 0; p < POLICIES; p++) known[p] = policies[p]->name;
    published_check(&options, &names, known, POLICIES);
    uint32_t copy_count = copies.count > 0 ? (uint32_t)strtoul(copies.words[0], NULL, 10) : 1;
    if (copy_count < 1 || copy_count > 256) published_fail("--copies is 1 to 256");

    struct sia_world *world = published_alloc(1, sizeof *world);
    sia_world_open(world, published_data("sia"));
    uint32_t set_count = collect_names(world, NULL, known);
    published_check(&options, &traces, known, set_count);
    struct rows rows;
    rows_open(&rows, options.json);
    for (uint32_t s = 0; s < set_count; s++) {
        bool wanted = traces.count > 0 ? published_has(&traces, known[s])
                                       : strcmp(known[s], "physical44") != 0;
        for (uint32_t p = 0; wanted && p < POLICIES; p++) {
            if (names.count > 0 && !published_has(&names, policies[p]->name)) continue;
            run_set(&options, world, known[s], policies[p], copy_count, &rows);
        }
    }
    rows_close(&rows);
    sia_world_close(world);
    mem_free(world);
    return PUBLISHED_OK;
}
