/* bench/spot: what jobs with deadlines cost on recorded spot zones (spot_replay.h).
 *
 * Rows       zones, job_h, deadline_ratio, changeover_min, policy, cost_pct (of on-demand alone,
 *            mean of the starts), missed (deadlines), runs (starts), group (which zones share a
 *            clock with which). Every policy gets the same starts, but clairvoyant every 100th of
 *            `--starts all`.
 * Starts     `--starts 40` (default): spread evenly over the trace. `--starts all`: every tick from
 *            WARM_UP on, as far as the window lies within the trace. Fewer than asked for where the
 *            trace is shorter; a setting whose window is longer than the trace has no row.
 * Misses     `--misses`: no rows of costs; one row with all replays and all deadlines missed, and the
 *            end is 1 when there is one.
 * Beyond     `--beyond warm owned ...` or all: after each set of zones the same starts with each of these
 *            (spot_beyond.h); one more column, variation, says which (none: without).
 */
#include "base/mem.h"
#include "published.h"
#include "spot_beyond.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 400, OPTIMUM_EVERY = 100 };

static struct published_list policies = {.option = "--policy",
                                         .word = "NAME",
                                         .meaning = "greedy, uniform_progress, ... (default: all)"};
static struct published_list zones = {
    .option = "--zones",
    .word = "ZONES",
    .meaning = "\"all\", zones or regions joined by + (default: all, regions, each zone)"};
static struct published_list groups = {
    .option = "--group", .word = "TEXT", .meaning = "groups whose name holds this (default: all)"};
static struct published_list hours = {
    .option = "--hours", .word = "H", .meaning = "lengths of jobs (default: 24 48)"};
static struct published_list ratios = {
    .option = "--ratios", .word = "R", .meaning = "deadlines (default: 1.08 1.25 1.5 2.0)"};
static struct published_list changeovers = {
    .option = "--changeovers", .word = "MIN", .meaning = "minutes (default: 6 12 30)"};
static struct published_list starts = {
    .option = "--starts", .word = "N", .meaning = "starts of each setting, or all (default: 40)"};
static struct published_list misses = {
    .option = "--misses", .meaning = "one row: replays and missed deadlines of all settings"};
static struct published_list beyond = {
    .option = "--beyond",
    .word = "NAME",
    .meaning = "warm, owned, several, prices, prices_unseen, together, all"};

static struct published options = {
    .program = "bench/spot",
    .purpose = "Cost of single-node jobs with deadlines on recorded spot zones.",
    .example = "bench/spot --hours 24 --changeovers 12 --zones all --json",
    .lists = {&policies, &zones, &groups, &hours, &ratios, &changeovers, &starts, &misses, &beyond},
};

static const char *const rule_names[] = {[SPOT_GREEDY] = "greedy",
                                         [SPOT_UNIFORM] = "uniform_progress",
                                         [SPOT_LONGEST] = "longest_up",
                                         [SPOT_SHOAL] = "shoal",
                                         [SPOT_CLAIRVOYANT] = "clairvoyant"};
static const char all_variations[] = "all";
enum { RULES = sizeof rule_names / sizeof rule_names[0] };

struct totals {
    uint64_t runs, missed;
};

static double number(const struct published_list *list, uint32_t at, double least, double most)
{
    char *end;
    double value = strtod(list->words[at], &end);
    if (*end != 0 || !(value >= least) || value > most)
        published_fail("bench/spot: %s \"%s\" is not a number in %g..%g", list->option,
                       list->words[at], least, most);
    return value;
}

static void fill_in(struct published_list *list, const char *const *words, uint32_t count)
{
    if (list->count > 0) return;
    memcpy(list->words, words, count * sizeof *words);
    list->count = count;
}

static uint32_t ticks_of(double seconds, uint32_t step_s)
{
    double ticks = round(seconds / step_s);
    return ticks < 1 ? 1 : (uint32_t)ticks;
}

/* False: the trace is too short. */
static bool place_starts(struct spot_task *task)
{
    if (task->window > task->ticks) return false;
    uint32_t room = task->ticks - task->window + 1;
    if (strcmp(starts.words[0], "all") == 0) {
        task->first = WARM_UP < room ? WARM_UP : room - 1;
        task->every = 1;
        task->starts = room - task->first;
        return true;
    }
    uint32_t wanted = (uint32_t)number(&starts, 0, 1, 1e6);
    task->starts = wanted < room ? wanted : room;
    task->every = room / task->starts;
    task->first = 0;
    return true;
}

struct stage { /* what the rows of some settings share */
    struct rows *rows;
    struct totals *totals;
    const struct spot_group *group;
    const struct spot_set *set;
    enum spot_variation variation;
    struct spot_field field;
};

static void row(const struct stage *stage, const double *setting, const char *policy,
                const struct spot_result *result)
{
    struct rows *rows = stage->rows;
    rows_text(rows, "zones", stage->set->name);
    rows_real(rows, "job_h", setting[0], 0);
    rows_real(rows, "deadline_ratio", setting[1], 2);
    rows_real(rows, "changeover_min", setting[2], 0);
    rows_text(rows, "policy", policy);
    rows_real(rows, "cost_pct", result->cost_pct, 3);
    rows_integer(rows, "missed", (int64_t)result->missed);
    rows_integer(rows, "runs", (int64_t)result->runs);
    rows_text(rows, "group", stage->group->name);
    if (beyond.count > 0) rows_text(rows, "variation", spot_variation_names[stage->variation]);
    rows_end(rows);
}

static struct spot_task task_of(const struct stage *stage, const double *setting)
{
    const struct spot_group *group = stage->group;
    uint32_t changeover = ticks_of(setting[2] * 60, group->step_s);
    struct spot_task task = {.up = stage->field.up,
                             .price = stage->field.price,
                             .is_blind = stage->variation == SPOT_PRICES_UNSEEN,
                             .is_several = stage->variation == SPOT_SEVERAL,
                             .ticks = group->ticks,
                             .zone_count = stage->field.zone_count,
                             .step_s = group->step_s,
                             .work = ticks_of(setting[0] * 3600, group->step_s),
                             .changeover = spot_changeover(changeover, stage->variation)};
    task.window = (uint32_t)floor(task.work * setting[1]);
    task.alone = task.work + changeover;
    return task;
}

static void run_setting(const struct stage *stage, const double *setting)
{
    struct spot_task task = task_of(stage, setting);
    if (!place_starts(&task)) return;
    for (uint32_t rule = 0; rule < RULES; rule++) {
        if (!published_has(&policies, rule_names[rule])) continue;
        if (misses.count > 0 && rule == SPOT_CLAIRVOYANT) continue;
        if (task.is_several && rule != SPOT_SHOAL) continue;
        struct spot_task mine = task;
        if (rule == SPOT_CLAIRVOYANT && task.every == 1) {
            mine.every = OPTIMUM_EVERY;
            mine.starts = (task.starts + OPTIMUM_EVERY - 1) / OPTIMUM_EVERY;
        }
        struct spot_result result;
        spot_replay(&mine, (enum spot_rule)rule, &result);
        stage->totals->runs += result.runs;
        stage->totals->missed += result.missed;
        if (misses.count == 0) row(stage, setting, rule_names[rule], &result);
    }
}

static void run_stage(struct stage *stage)
{
    if (!spot_field_open(&stage->field, stage->group, stage->set->mask, stage->variation)) return;
    for (uint32_t h = 0; h < hours.count; h++) {
        for (uint32_t c = 0; c < changeovers.count; c++) {
            for (uint32_t r = 0; r < ratios.count; r++) {
                double setting[] = {number(&hours, h, 0.1, 1000), number(&ratios, r, 1.001, 100),
                                    number(&changeovers, c, 0, 1000)};
                run_setting(stage, setting);
            }
        }
    }
    spot_field_close(&stage->field);
}

static void run_set(struct rows *rows, struct totals *totals, const struct spot_group *group,
                    const struct spot_set *set)
{
    bool all = published_has(&beyond, all_variations);
    for (uint32_t v = 0; v < SPOT_VARIATIONS; v++) {
        bool is_wanted = published_has(&beyond, spot_variation_names[v]);
        if (v != SPOT_PLAIN && !all && !is_wanted) continue;
        struct stage stage = {rows, totals, group, set, (enum spot_variation)v, {0}};
        run_stage(&stage);
    }
}

/* Returns how many sets fitted. */
static uint32_t run_group(struct rows *rows, struct totals *totals, const struct spot_group *group)
{
    static struct spot_set sets[SPOT_SETS_MAX];
    uint32_t count = spot_sets(group, sets), run = 0;
    if (zones.count == 0) {
        for (uint32_t i = 0; i < count; i++) run_set(rows, totals, group, &sets[i]);
        return count;
    }
    for (uint32_t i = 0; i < zones.count; i++) {
        if (!spot_set_named(group, zones.words[i], &sets[0])) continue;
        run_set(rows, totals, group, &sets[0]);
        run++;
    }
    return run;
}

static bool is_wanted(const struct spot_group *group)
{
    for (uint32_t i = 0; i < groups.count; i++)
        if (strstr(group->name, groups.words[i]) != NULL) return true;
    return groups.count == 0;
}

int main(int argc, char **argv)
{
    published_parse(&options, argc, argv);
    published_check(&options, &policies, rule_names, RULES);
    const char *known[SPOT_VARIATIONS + 1];
    memcpy(known, spot_variation_names, sizeof spot_variation_names);
    known[SPOT_VARIATIONS] = all_variations;
    published_check(&options, &beyond, known, SPOT_VARIATIONS + 1);
    fill_in(&policies, rule_names, RULES);
    fill_in(&hours, (const char *const[]){"24", "48"}, 2);
    fill_in(&ratios, (const char *const[]){"1.08", "1.25", "1.5", "2.0"}, 4);
    fill_in(&changeovers, (const char *const[]){"6", "12", "30"}, 3);
    fill_in(&starts, (const char *const[]){"40"}, 1);
    struct spot_world world;
    struct totals totals = {0};
    struct rows rows;
    uint32_t sets = 0;
    spot_world_open(&world, published_data("spot_availability"));
    rows_open(&rows, options.json);
    for (uint32_t g = 0; g < world.group_count; g++)
        if (is_wanted(&world.groups[g])) sets += run_group(&rows, &totals, &world.groups[g]);
    if (misses.count > 0) {
        rows_integer(&rows, "runs", (int64_t)totals.runs);
        rows_integer(&rows, "missed", (int64_t)totals.missed);
        rows_end(&rows);
    }
    rows_close(&rows);
    spot_world_close(&world);
    if (sets == 0) published_fail("bench/spot: no group holds what --zones or --group ask for");
    return misses.count > 0 && totals.missed > 0 ? PUBLISHED_FAILED : PUBLISHED_OK;
}
