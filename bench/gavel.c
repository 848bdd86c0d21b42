/* bench/gavel: mean completion time on Gavel's own streams and physics (gavel_sim.h).
 *
 * Policies  fifo_perf    oldest first, fastest type left; decides at most every 720 s (published: 1,920 s,
 *                        720 s reproduces the published figures best). Proof that the physics are right.
 *           fifo         oldest first, types in turn    las_perf, srtf_perf    least attained service and
 *                        shortest remaining time first, fastest type left
 *           shoal        core/match.h, remaining steps known     shoal_unknown    learned from ended jobs
 *           shoal_sharing, shoal_sharing_unknown    and two jobs on one device where that was measured
 *           shoal_full   shoal with four tenants (by job number), each at most half of all devices
 *           shoal_pool   pool_step() itself (gavel_pool.c), shoal_pool_unknown and shoal_pool_full as above
 *           shoal_last, shoal_last_sharing    for the end of the last job: with --makespan
 * Rows      jobs_per_hour 0: all jobs there at time 0 (--makespan). finished 0: overload, no figures.
 */
#include "base/mem.h"
#include "gavel_sim.h"
#include "published.h"
#include <stdlib.h>
#include <string.h>

static struct published_list policies = {.option = "--policy",
                                         .word = "NAME",
                                         .meaning = "fifo_perf, shoal, ... (default: six of them)"};
static struct published_list rates = {
    .option = "--rates",
    .word = "JOBS_PER_HOUR",
    .meaning = "loads (default: 4.0 4.8 5.2 5.6 6.0, multi 1.6 2.0 2.4 2.6)"};
static struct published_list streams = {
    .option = "--stream", .word = "NAME", .meaning = "of continuous_NAME_seedS.csv (default: all)"};
static struct published_list makespans = {
    .option = "--makespan", .word = "JOBS", .meaning = "so many jobs at time 0 instead of loads"};

static struct published options = {
    .program = "bench/gavel",
    .purpose = "Completion times on the streams of Gavel (OSDI 2020), 36 V100 + 36 P100 + 36 K80.",
    .example = "bench/gavel --seeds 0 --policy fifo_perf shoal --rates 5.2 --json",
    .lists = {&policies, &rates, &streams, &makespans},
    .seed_last = UINT64_MAX,
};

static const char *const default_policies[] = {"fifo_perf",     "shoal",      "shoal_unknown",
                                               "shoal_sharing", "shoal_full", "srtf_perf"};
static const char *const default_single[] = {"4.0", "4.8", "5.2", "5.6", "6.0"};
static const char *const default_multi[] = {"1.6", "2.0", "2.4", "2.6"};

static const struct gavel_policy *policy_of(const char *name)
{
    for (uint32_t i = 0; i < gavel_policy_count; i++)
        if (strcmp(gavel_policies[i].name, name) == 0) return &gavel_policies[i];
    return NULL;
}

static void row(struct rows *rows, const struct gavel_world *world,
                const struct gavel_stream *stream, const char *name, double jobs_per_hour,
                uint32_t count)
{
    struct gavel_result result;
    gavel_run(world, stream, policy_of(name), jobs_per_hour, count, &result);
    rows_text(rows, "stream", stream->name);
    rows_integer(rows, "seed", (int64_t)stream->seed);
    rows_real(rows, "jobs_per_hour", jobs_per_hour, 2);
    rows_text(rows, "policy", name);
    rows_real(rows, "jct_mean_h", result.jct_mean_h, 3);
    rows_real(rows, "jct_p99_h", result.jct_p99_h, 1);
    rows_real(rows, "ftf_mean", result.ftf_mean, 3);
    rows_real(rows, "wall_s", result.wall_s, 2);
    rows_real(rows, "jct_max_h", result.jct_max_h, 1);
    rows_integer(rows, "jobs", count);
    rows_real(rows, "makespan_h", jobs_per_hour > 0 ? 0 : result.makespan_h, 1);
    rows_real(rows, "decide_us", result.decide_us, 1);
    rows_integer(rows, "finished", result.gave_up ? 0 : 1);
    rows_end(rows);
}

static double positive(const char *word, double most)
{
    char *end;
    double value = strtod(word, &end);
    if (*end != 0 || !(value > 0) || value > most) {
        published_fail("bench/gavel: \"%s\" is not a number above 0 and at most %.0f", word, most);
    }
    return value;
}

static void run_stream(struct rows *rows, const struct gavel_world *world,
                       const struct gavel_stream *stream)
{
    bool multi = strncmp(stream->name, "multi", strlen("multi")) == 0;
    const char *const *words = multi ? default_multi : default_single;
    uint32_t count = multi ? sizeof default_multi / sizeof default_multi[0]
                           : sizeof default_single / sizeof default_single[0];
    const struct published_list *asked = makespans.count > 0 ? &makespans : &rates;
    if (asked->count > 0) {
        words = asked->words;
        count = asked->count;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < policies.count; p++) {
            if (makespans.count > 0)
                row(rows, world, stream, policies.words[p], 0,
                    (uint32_t)positive(words[i], ACTIVE_MAX - 1));
            else
                row(rows, world, stream, policies.words[p], positive(words[i], 1000),
                    WINDOW_END - WINDOW_FIRST);
        }
    }
}

static void check_policies(void)
{
    const char *known[32];
    for (uint32_t i = 0; i < gavel_policy_count; i++) known[i] = gavel_policies[i].name;
    published_check(&options, &policies, known, gavel_policy_count);
    if (policies.count > 0) return;
    policies.count = sizeof default_policies / sizeof default_policies[0];
    memcpy(policies.words, default_policies, sizeof default_policies);
}

int main(int argc, char **argv)
{
    published_parse(&options, argc, argv);
    check_policies();
    static const char *folder; /* both live for good */
    static const char *const *names;
    folder = published_data("gavel");
    uint32_t count = published_names(folder, "continuous_", ".csv", &names);
    static struct gavel_world world;
    struct rows rows;
    gavel_world_read(&world, folder);
    rows_open(&rows, options.json);
    for (uint32_t i = 0; i < count; i++) {
        struct gavel_stream stream;
        gavel_stream_read(&stream, &world, folder, names[i]);
        bool wanted = stream.seed >= options.seed_first && stream.seed <= options.seed_last;
        if (streams.count > 0 && !published_has(&streams, stream.name)) wanted = false;
        if (wanted) run_stream(&rows, &world, &stream);
        gavel_stream_close(&stream);
    }
    rows_close(&rows);
    gavel_world_close(&world);
    return PUBLISHED_OK;
}
