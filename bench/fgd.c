/* FGD's published packing protocol (Weng et al., USENIX ATC 2023), ours and its policies side by side.
 *
 *     bench/fgd --seeds 42..46 --policy shoal fgd bestfit random --json
 *
 * Protocol   The GPU nodes of the trace; pods arrive one by one until 130 % of the devices are asked for,
 *            never leave, and one that fits nowhere is dropped. Refusing one that fits ends the program.
 * Rows       alloc_pct_mean: devices in use, in % of all, mean over the arrivals at which the devices
 *            asked for so far round to arrived_pct, mean over the seeds. unallocated_gpus: the rest, in
 *            devices. wall_s: one seed, from reading the files to the last pod, mean over the seeds.
 * Leaving    --departures PERCENT...: a week with lifetimes at that load instead (fgd_week.h); rows hold
 *            load_pct, alloc_pct_mean, fragment_pct_mean, refused_pct, arrivals.
 */
#include "base/clock.h"
#include "fgd_week.h"
#include "fgd_world.h"
#include "published.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERCENT_END = 256, SEEDS_MAX = 1024 };

static const struct fgd_policy *const policies[] = {&fgd_shoal, &fgd_pool, &fgd_fgd, &fgd_bestfit,
                                                    &fgd_random};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static struct published_list policy_list = {
    .option = "--policy", .word = "NAME", .meaning = "shoal shoal_pool fgd bestfit random (all)"};
static struct published_list variant_list = {
    .option = "--variant", .word = "NAME", .meaning = "those of the folder (all)"};
static struct published_list at_list = {.option = "--at",
                                        .word = "PERCENT",
                                        .meaning = "rows at these arrived_pct (90 95 100 110 130)"};

static struct published_list load_list = {.option = "--departures",
                                          .word = "PERCENT",
                                          .meaning = "a week in which pods leave, at these loads"};

/* Mean allocation by arrived percent, of one run. */
struct curve {
    double sum[PERCENT_END];
    uint32_t count[PERCENT_END];
};

static void run(struct fgd_world *world, const struct fgd_policy *policy, struct curve *curve)
{
    void *self = policy->open(world);
    uint64_t asked = 0;
    double capacity = (double)world->capacity_milli;
    for (uint32_t i = 0; i < world->arrival_count; i++) {
        struct fgd_run pod = {.form = world->pods[world->arrivals[i]].form};
        asked += pack_form_milli(&pod.form);
        (void)fgd_submit(world, policy, self, &pod);
        uint32_t percent = (uint32_t)lround((double)asked / capacity * 100);
        if (percent >= PERCENT_END) continue;
        curve->sum[percent] += 100 * (double)world->used_milli / capacity;
        curve->count[percent]++;
    }
    policy->close(self);
}

/* The seeds that the folder holds for the variant, among those asked for. */
static uint32_t seeds_of(const struct published *options, const char *folder, const char *variant,
                         uint64_t seeds[SEEDS_MAX])
{
    char arrivals[512], prefix[256];
    snprintf(arrivals, sizeof arrivals, "%s/arrivals", folder);
    snprintf(prefix, sizeof prefix, "%s.", variant);
    const char *const *names;
    uint32_t count = published_names(arrivals, prefix, ".u16", &names), kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        char *end;
        uint64_t seed = strtoull(names[i], &end, 10);
        if (end == names[i] || *end != 0) continue;
        bool asked = seed >= options->seed_first && seed <= options->seed_last;
        if (asked && kept < SEEDS_MAX) seeds[kept++] = seed;
    }
    return kept;
}

static void report(struct rows *rows, const char *folder, const char *variant,
                   const struct fgd_policy *policy, const uint64_t *seeds, uint32_t seed_count)
{
    double sum[PERCENT_END] = {0}, gpus = 0;
    uint32_t runs[PERCENT_END] = {0};
    int64_t from_us = clock_monotonic_us();
    for (uint32_t s = 0; s < seed_count; s++) {
        struct fgd_world world;
        static struct curve curve;
        memset(&curve, 0, sizeof curve);
        fgd_load(&world, folder, variant, seeds[s]);
        run(&world, policy, &curve);
        gpus = (double)world.capacity_milli / PACK_MILLI;
        fgd_free(&world);
        for (uint32_t p = 0; p < PERCENT_END; p++) {
            if (curve.count[p] == 0) continue;
            sum[p] += curve.sum[p] / curve.count[p];
            runs[p]++;
        }
    }
    double wall_s = (double)(clock_monotonic_us() - from_us) / 1e6 / seed_count;
    for (uint32_t i = 0; i < at_list.count; i++) {
        uint32_t percent = (uint32_t)strtoul(at_list.words[i], NULL, 10);
        if (percent >= PERCENT_END || runs[percent] == 0) continue;
        double mean = sum[percent] / runs[percent];
        rows_text(rows, "variant", variant);
        rows_text(rows, "policy", policy->name);
        rows_integer(rows, "arrived_pct", percent);
        rows_real(rows, "alloc_pct_mean", mean, 3);
        rows_real(rows, "unallocated_gpus", gpus * (100 - mean) / 100, 1);
        rows_integer(rows, "seeds", runs[percent]);
        rows_real(rows, "wall_s", wall_s, 4);
        rows_end(rows);
    }
}

static void report_week(struct rows *rows, const char *folder, const char *variant,
                        const struct fgd_policy *policy, const uint64_t *seeds, uint32_t seed_count,
                        const char *load)
{
    struct fgd_week sum = {0};
    int64_t from_us = clock_monotonic_us();
    for (uint32_t s = 0; s < seed_count; s++) {
        struct fgd_world world;
        fgd_load(&world, folder, variant, seeds[s]);
        bool told = fgd_week_told(&world);
        struct fgd_week week = {0};
        if (told) week = fgd_week_run(&world, policy, strtod(load, NULL));
        fgd_free(&world);
        if (!told) return; /* a variant without lifetimes */
        sum.alloc_pct += week.alloc_pct;
        sum.fragment_pct += week.fragment_pct;
        sum.refused_pct += week.refused_pct;
        sum.arrivals += week.arrivals / seed_count;
    }
    rows_text(rows, "variant", variant);
    rows_text(rows, "policy", policy->name);
    rows_real(rows, "load_pct", strtod(load, NULL), 0);
    rows_real(rows, "alloc_pct_mean", sum.alloc_pct / seed_count, 3);
    rows_real(rows, "fragment_pct_mean", sum.fragment_pct / seed_count, 3);
    rows_real(rows, "refused_pct", sum.refused_pct / seed_count, 3);
    rows_integer(rows, "arrivals", sum.arrivals);
    rows_integer(rows, "seeds", seed_count);
    rows_real(rows, "wall_s", (double)(clock_monotonic_us() - from_us) / 1e6 / seed_count, 3);
    rows_end(rows);
}

static void report_policy(struct rows *rows, const char *folder, const char *variant,
                          const struct fgd_policy *policy, const uint64_t *seeds, uint32_t count)
{
    if (load_list.count == 0) report(rows, folder, variant, policy, seeds, count);
    for (uint32_t i = 0; i < load_list.count; i++)
        report_week(rows, folder, variant, policy, seeds, count, load_list.words[i]);
}

static void set_default(struct published_list *list, const char *const *words, uint32_t count)
{
    if (list->count > 0) return;
    for (uint32_t i = 0; i < count && i < PUBLISHED_WORDS_MAX; i++)
        list->words[list->count++] = words[i];
}

int main(int argc, char **argv)
{
    struct published options = {
        .program = "bench/fgd",
        .purpose =
            "Packs the pods of Alibaba's GPU trace as FGD's authors did; one row per variant, "
            "policy and point.",
        .example = "bench/fgd --seeds 42..46 --policy shoal fgd bestfit random --json",
        .lists = {&policy_list, &variant_list, &at_list, &load_list},
        .seed_last = UINT64_MAX};
    published_parse(&options, argc, argv);
    const char *names[POLICIES];
    for (uint32_t i = 0; i < POLICIES; i++) names[i] = policies[i]->name;
    published_check(&options, &policy_list, names, POLICIES);
    set_default(&policy_list, names, POLICIES);
    const char *folder = published_data("openb_fgd");
    const char *const *variants;
    uint32_t variant_count = published_names(folder, "pods_", ".csv", &variants);
    published_check(&options, &variant_list, variants, variant_count);
    set_default(&variant_list, variants, variant_count);
    set_default(&at_list, (const char *const[]){"90", "95", "100", "110", "130"}, 5);
    struct rows rows;
    rows_open(&rows, options.json);
    for (uint32_t v = 0; v < variant_list.count; v++) {
        uint64_t seeds[SEEDS_MAX];
        uint32_t count = seeds_of(&options, folder, variant_list.words[v], seeds);
        for (uint32_t i = 0; i < POLICIES && count > 0; i++)
            if (published_has(&policy_list, policies[i]->name))
                report_policy(&rows, folder, variant_list.words[v], policies[i], seeds, count);
    }
    rows_close(&rows);
    if (rows.count > 0) return PUBLISHED_OK;
    fprintf(stderr, "skipped: no arrivals of these variants and seeds in %s\n", folder);
    return PUBLISHED_SKIPPED;
}
