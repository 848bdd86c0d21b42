/* The verb `shoal sim`: arguments, progress, summary, and the search for the smallest
 * failing world.
 */
#include "base/clock.h"
#include "core/assert.h"
#include "core/marks.h"
#include "sim/sim.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETS_MAX = 64, FAILURES_SHOWN = 20 };

struct arguments {
    uint64_t first, last;
    bool trace, twice, shrink, json, digests, all_marks;
    const char *scenario;
    const char *sets[SETS_MAX];
    uint32_t set_count;
};

struct failure {
    uint64_t seed;
    struct sim_summary summary;
};

struct totals {
    uint64_t seeds, events, crashes, nodes, failed;
    int64_t simulated_us, wall_us;
    uint64_t mark_seeds[POOL_MARK_COUNT];
    struct failure failures[FAILURES_SHOWN];
};

static const char *const mark_names[POOL_MARK_COUNT] = {
#define X(name, why) #name,
    POOL_MARKS(X)
#undef X
};

/* Marks that no world made here can set, with the reason. */
static bool is_beyond_reach(enum pool_mark mark)
{
    return mark == POOL_MARK_CLOCK_WENT_BACK; /* the server never stamps an older time */
}

static void print_help(FILE *stream)
{
    (void)fputs(
        "usage: shoal sim [--seeds A..B | --seed N | --scenario FILE] [OPTION...]\n"
        "       shoal sim SCENARIO.yaml [OPTION...]\n"
        "Plays made-up worlds against the scheduler on a virtual clock and checks every step.\n"
        "With a file: what the pool would cost and do in the world that it describes (see shoal "
        "sim\n"
        "SCENARIO.yaml --help).\n"
        "\n"
        "  --seeds A..B      one world for each seed (default 1..100)\n"
        "  --seed N          one world\n"
        "  --scenario FILE   one written world; its expected lines must appear in order\n"
        "  --trace           print the timeline\n"
        "  --twice           run each seed twice; the digests must be the same\n"
        "  --shrink          find the fewest faults and jobs with which a seed still fails\n"
        "  --set KNOB=VALUE  change a knob of the world (--set jobs=2, --set reply_loss_ppm=0)\n"
        "  --digests         print one \"seed digest\" line for each seed and nothing else\n"
        "  --all-marks       fail unless every rare path was taken by some seed\n"
        "  --json            print the summary as JSON\n"
        "  --help            print this\n"
        "\n"
        "Exit status: 0 all good, 1 a check failed, 2 usage.\n"
        "\n"
        "Example: find a failing seed, read its story, then make it small\n"
        "  shoal sim --seeds 1..500\n"
        "  shoal sim --seed 17 --trace | less\n"
        "  shoal sim --seed 17 --shrink\n",
        stream);
}

static bool complain(const char *what, const char *where)
{
    (void)fprintf(stderr, "shoal sim: %s \"%s\"; see shoal sim --help\n", what, where);
    return false;
}

static bool read_number(const char *text, const char **ret_end, uint64_t *ret_value)
{
    if (text[0] < '0' || text[0] > '9') return false;
    char *end;
    errno = 0;
    *ret_value = strtoull(text, &end, 10);
    *ret_end = end;
    return errno == 0;
}

static bool read_seeds(const char *text, struct arguments *arguments)
{
    const char *rest;
    bool good = read_number(text, &rest, &arguments->first) && strncmp(rest, "..", 2) == 0 &&
                read_number(rest + 2, &rest, &arguments->last) && *rest == '\0' &&
                arguments->first <= arguments->last;
    return good || complain("seeds are written A..B with A not above B, not", text);
}

static bool read_seed(const char *text, struct arguments *arguments)
{
    const char *rest;
    if (!read_number(text, &rest, &arguments->first) || *rest != '\0')
        return complain("a seed is a number, not", text);
    arguments->last = arguments->first;
    return true;
}

/* Sets one knob; a spelling error is found before anything runs. */
static bool apply_set(const char *text, struct sim_options *options)
{
    char name[64];
    const char *equals = strchr(text, '=');
    const char *rest;
    uint64_t value;
    size_t length = equals == NULL ? 0 : (size_t)(equals - text);
    if (length == 0 || length >= sizeof name || !read_number(equals + 1, &rest, &value) ||
        *rest != '\0' || value > INT64_MAX)
        return complain("a setting is written KNOB=NUMBER, not", text);
    memcpy(name, text, length);
    name[length] = '\0';
    int64_t *knob = sim_options_knob(options, name);
    if (knob == NULL) return complain("there is no knob", name);
    if (strcmp(name, "jobs") == 0 && value > 12)
        return complain("a world has 0..12 jobs, not", text);
    *knob = (int64_t)value;
    return true;
}

static bool read_flag(const char *text, struct arguments *arguments)
{
    if (strcmp(text, "--trace") == 0)
        arguments->trace = true;
    else if (strcmp(text, "--twice") == 0)
        arguments->twice = true;
    else if (strcmp(text, "--shrink") == 0)
        arguments->shrink = true;
    else if (strcmp(text, "--json") == 0)
        arguments->json = true;
    else if (strcmp(text, "--digests") == 0)
        arguments->digests = true;
    else if (strcmp(text, "--all-marks") == 0)
        arguments->all_marks = true;
    else
        return false;
    return true;
}

static bool read_arguments(int argc, char **argv, struct arguments *arguments)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (read_flag(argv[i], arguments)) continue;
        bool takes_value = strcmp(argv[i], "--seeds") == 0 || strcmp(argv[i], "--seed") == 0 ||
                           strcmp(argv[i], "--set") == 0 || strcmp(argv[i], "--scenario") == 0;
        if (!takes_value) return complain("unknown option", argv[i]);
        if (value == NULL) return complain("a value is missing after", argv[i]);
        if (strcmp(argv[i], "--seeds") == 0 && !read_seeds(value, arguments)) return false;
        if (strcmp(argv[i], "--seed") == 0 && !read_seed(value, arguments)) return false;
        if (strcmp(argv[i], "--scenario") == 0) arguments->scenario = value;
        if (strcmp(argv[i], "--set") == 0) {
            if (arguments->set_count == SETS_MAX) return complain("too many settings at", value);
            arguments->sets[arguments->set_count++] = value;
        }
        i++;
    }
    return true;
}

static bool options_of(uint64_t seed, const struct arguments *arguments,
                       struct sim_options *ret_options)
{
    *ret_options = sim_options_swarm(seed);
    for (uint32_t i = 0; i < arguments->set_count; i++)
        if (!apply_set(arguments->sets[i], ret_options)) return false;
    return true;
}

static void add_up(struct totals *totals, uint64_t seed, const struct sim_summary *summary)
{
    totals->seeds++;
    totals->events += summary->events;
    totals->crashes += summary->crashes;
    totals->nodes += summary->nodes;
    totals->simulated_us += summary->simulated_us;
    for (uint32_t i = 0; i < POOL_MARK_COUNT; i++) totals->mark_seeds[i] += summary->marks >> i & 1;
    if (!summary->failed) return;
    if (totals->failed < FAILURES_SHOWN)
        totals->failures[totals->failed] = (struct failure){.seed = seed, .summary = *summary};
    totals->failed++;
}

static void print_sets(const struct arguments *arguments)
{
    for (uint32_t i = 0; i < arguments->set_count; i++)
        (void)printf(" --set %s", arguments->sets[i]);
}

static void print_failure(const struct arguments *arguments, const struct failure *failure)
{
    (void)printf("seed %" PRIu64 ": %s: %s\n  reproduce: shoal sim --seed %" PRIu64, failure->seed,
                 failure->summary.checker, failure->summary.failure, failure->seed);
    print_sets(arguments);
    (void)printf(" --trace\n");
}

static uint32_t marks_missed(const struct totals *totals, bool print)
{
    uint32_t missed = 0;
    for (uint32_t i = 0; i < POOL_MARK_COUNT; i++) {
        if (totals->mark_seeds[i] > 0 || is_beyond_reach((enum pool_mark)i)) continue;
        missed++;
        if (print) (void)printf("  never taken: %s\n", mark_names[i]);
    }
    return missed;
}

static int64_t events_per_s(const struct totals *totals)
{
    return totals->wall_us == 0 ? 0 : (int64_t)totals->events * 1000000 / totals->wall_us;
}

static void print_summary(const struct arguments *arguments, const struct totals *totals)
{
    uint32_t missed = marks_missed(totals, /* print */ false);
    (void)printf("%" PRIu64 " seed%s, %" PRIu64 " events, %" PRId64 " simulated minutes, %" PRIu64
                 " nodes, %" PRIu64 " server crashes, %" PRId64 " events/s\n",
                 totals->seeds, totals->seeds == 1 ? "" : "s", totals->events,
                 totals->simulated_us / 60000000, totals->nodes, totals->crashes,
                 events_per_s(totals));
    (void)printf("rare paths taken: %u of %u\n", (uint32_t)POOL_MARK_COUNT - 1 - missed,
                 (uint32_t)POOL_MARK_COUNT - 1);
    if (arguments->all_marks) (void)marks_missed(totals, /* print */ true);
    for (uint64_t i = 0; i < totals->failed && i < FAILURES_SHOWN; i++)
        print_failure(arguments, &totals->failures[i]);
    (void)printf("%" PRIu64 " failed\n", totals->failed);
}

static void print_json_text(const char *text)
{
    (void)putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') (void)putchar('\\');
        (void)putchar(*text < ' ' ? ' ' : *text);
    }
    (void)putchar('"');
}

static void print_json(const struct totals *totals)
{
    (void)printf("{\"seeds\":%" PRIu64 ",\"events\":%" PRIu64 ",\"simulated_us\":%" PRId64
                 ",\"wall_us\":%" PRId64 ",\"events_per_s\":%" PRId64 ",\"nodes\":%" PRIu64
                 ",\"server_crashes\":%" PRIu64 ",\"marks\":{",
                 totals->seeds, totals->events, totals->simulated_us, totals->wall_us,
                 events_per_s(totals), totals->nodes, totals->crashes);
    for (uint32_t i = 0; i < POOL_MARK_COUNT; i++)
        (void)printf("%s\"%s\":%" PRIu64, i == 0 ? "" : ",", mark_names[i], totals->mark_seeds[i]);
    (void)printf("},\"failed\":%" PRIu64 ",\"failures\":[", totals->failed);
    for (uint64_t i = 0; i < totals->failed && i < FAILURES_SHOWN; i++) {
        (void)printf("%s{\"seed\":%" PRIu64 ",\"checker\":", i == 0 ? "" : ",",
                     totals->failures[i].seed);
        print_json_text(totals->failures[i].summary.checker);
        (void)printf(",\"failure\":");
        print_json_text(totals->failures[i].summary.failure);
        (void)printf("}");
    }
    (void)printf("]}\n");
}

/* Runs the seed (twice if asked). False when memory is short. */
static bool run_seed(const struct arguments *arguments, uint64_t seed,
                     const struct sim_options *options, struct sim_summary *ret_summary)
{
    FILE *trace = arguments->trace ? stdout : NULL;
    if (arguments->trace) sim_options_print(options, stdout);
    if (!sim_run(seed, options, trace, ret_summary)) return false;
    if (!arguments->twice || ret_summary->failed) return true;
    struct sim_summary again;
    if (!sim_run(seed, options, /* trace */ NULL, &again)) return false;
    if (again.digest != ret_summary->digest || again.events != ret_summary->events) {
        ret_summary->failed = true;
        (void)snprintf(ret_summary->checker, sizeof ret_summary->checker, "twice");
        (void)snprintf(ret_summary->failure, sizeof ret_summary->failure,
                       "digest %016" PRIx64 " the first time, %016" PRIx64 " the second",
                       ret_summary->digest, again.digest);
    }
    return true;
}

static bool still_fails(uint64_t seed, const struct sim_options *options, const char *checker)
{
    struct sim_summary summary;
    if (!sim_run(seed, options, /* trace */ NULL, &summary)) return false;
    return summary.failed && strcmp(summary.checker, checker) == 0;
}

static const char *const knob_names[] = {
#define X(name, what) #name,
    SIM_KNOBS(X)
#undef X
};

/* Drops faults one by one, then jobs from the end, as long as the same check still fails. */
static void shrink(uint64_t seed, struct sim_options options, const char *checker)
{
    struct sim_options start = options;
    for (size_t i = 0; i < sizeof knob_names / sizeof knob_names[0]; i++) {
        struct sim_options smaller = options;
        int64_t *knob = sim_options_knob(&smaller, knob_names[i]);
        if (*knob == 0) continue;
        *knob = 0;
        if (still_fails(seed, &smaller, checker)) options = smaller;
    }
    while (options.jobs_count > 1) {
        struct sim_options smaller = options;
        smaller.jobs_count--;
        if (!still_fails(seed, &smaller, checker)) break;
        options = smaller;
    }
    (void)printf("seed %" PRIu64 " still fails (%s) with\n", seed, checker);
    sim_options_print(&options, stdout);
    (void)printf("reproduce: shoal sim --seed %" PRIu64, seed);
    for (size_t i = 0; i < sizeof knob_names / sizeof knob_names[0]; i++)
        if (*sim_options_knob(&options, knob_names[i]) != *sim_options_knob(&start, knob_names[i]))
            (void)printf(" --set %s=0", knob_names[i]);
    (void)printf(" --set jobs=%" PRId64 " --trace\n", options.jobs_count);
}

static void show_progress(const struct arguments *arguments, uint64_t seed,
                          const struct totals *totals)
{
    if (arguments->digests || arguments->trace || isatty(STDERR_FILENO) == 0) return;
    (void)fprintf(stderr, "\rseed %" PRIu64 " of %" PRIu64 "..%" PRIu64 ", %" PRIu64 " failed ",
                  seed, arguments->first, arguments->last, totals->failed);
    if (seed == arguments->last) (void)fprintf(stderr, "\r%60s\r", "");
}

static int run_seeds(const struct arguments *arguments, struct totals *totals)
{
    int64_t started_us = clock_monotonic_us();
    for (uint64_t seed = arguments->first;; seed++) { /* the last may be the largest there is */
        struct sim_options options;
        struct sim_summary summary;
        if (!options_of(seed, arguments, &options)) return 2;
        if (!run_seed(arguments, seed, &options, &summary)) {
            (void)fprintf(stderr, "shoal sim: out of memory at seed %" PRIu64 "\n", seed);
            return 1;
        }
        add_up(totals, seed, &summary);
        if (arguments->digests) (void)printf("%" PRIu64 " %016" PRIx64 "\n", seed, summary.digest);
        if (arguments->shrink && summary.failed) shrink(seed, options, summary.checker);
        show_progress(arguments, seed, totals);
        if (seed == arguments->last) break;
    }
    totals->wall_us = clock_monotonic_us() - started_us;
    return 0;
}

static int play_scenario(const struct arguments *arguments)
{
    struct error error;
    if (sim_scenario(arguments->scenario, arguments->trace ? stdout : NULL, &error)) {
        (void)printf("%s: as expected\n", arguments->scenario);
        return 0;
    }
    (void)fprintf(stderr, "shoal sim: %s\n", error.text);
    return 1;
}

int sim_main(int argc, char **argv)
{
    struct arguments arguments = {.first = 1, .last = 100};
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (!read_arguments(argc, argv, &arguments)) return 2;
    if (arguments.scenario != NULL) return play_scenario(&arguments);
    struct totals totals = {0};
    int status = run_seeds(&arguments, &totals);
    if (status != 0) return status;
    if (arguments.json)
        print_json(&totals);
    else if (!arguments.digests)
        print_summary(&arguments, &totals);
    bool marks_good = !arguments.all_marks || marks_missed(&totals, /* print */ false) == 0;
    return totals.failed == 0 && marks_good ? 0 : 1;
}
