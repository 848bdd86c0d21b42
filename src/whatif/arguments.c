#include "whatif/arguments.h"
#include "whatif/whatif.h"
#include <stdio.h>
#include <string.h>

static const char *const with_value[] = {"--seeds",  "--seed",       "--set",     "--scenario",
                                         "--policy", "--report",     "--threads", "--ranking",
                                         "--out",    "--generations"};

static bool takes_value(const char *option)
{
    for (uint32_t i = 0; i < sizeof with_value / sizeof with_value[0]; i++)
        if (strcmp(with_value[i], option) == 0) return true;
    return false;
}

bool whatif_is_meant(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') return true;
        if (takes_value(argv[i])) i++;
    }
    return false;
}

void arguments_help(void)
{
    (void)printf(
        "usage: shoal sim SCENARIO.yaml [OPTION...]\n"
        "       shoal sim --train SCENARIO.yaml... --out FILE [OPTION...]\n"
        "Runs the pool through the world that the file describes and tells cost, time, utilization "
        "and\n"
        "waits: of each case of the file, or of policies side by side, over the same prices and "
        "jobs.\n"
        "\n"
        "  --policy P...     shoal, on_demand, one_zone, failover; greedy, uniform_progress, table: "
        "how jobs\n"
        "                    with a deadline are bought for; or a case of the file\n"
        "  --seeds A..B      worlds to draw; more make the intervals narrower (default: the "
        "file's)\n"
        "  --set PATH=VALUE  change a number of the file (--set offers.aws-h100.life=6h)\n"
        "  --sensitivity     vary each number of the file, and tell on which the result hangs\n"
        "  --ranking FILE    what the policy learned ranks offers by (default: the shipped one)\n"
        "  --check           exit status 1 if a claim of the file does not hold\n"
        "  --report DIR      write DIR/report.html: charts of the first seed, tables of all\n"
        "  --json            print everything as JSON\n"
        "  --train --out FILE [--generations N]\n"
        "                    train a ranking of offers in the worlds of one or several scenarios "
        "and "
        "write\n"
        "                    it to FILE; goes on where it was broken off (default: 60 "
        "generations)\n"
        "  --threads N       how many worlds run at once (default: one a processor)\n"
        "  --help            print this\n"
        "\n"
        "Exit status: 0 all good, 1 it failed, 2 usage.\n"
        "\n"
        "Example:\n"
        "  shoal sim examples/scenarios/headline.yaml\n"
        "  shoal sim examples/scenarios/burst.yaml --policy shoal on_demand --seeds 1..20\n"
        "  shoal sim examples/scenarios/deadline.yaml --policy shoal greedy uniform_progress\n");
}

static bool complain(const char *what, const char *where)
{
    (void)fprintf(stderr, "shoal sim: %s \"%s\"; see shoal sim SCENARIO.yaml --help\n", what,
                  where);
    return false;
}

static bool read_seeds(const char *text, struct arguments *a)
{
    char first[24];
    int64_t from, to;
    const char *dots = strstr(text, "..");
    size_t bytes = dots == NULL ? strlen(text) : (size_t)(dots - text);
    if (bytes >= sizeof first) return complain("seeds are written A..B, not", text);
    memcpy(first, text, bytes);
    first[bytes] = '\0';
    bool good = yaml_parse_integer(first, &from) &&
                yaml_parse_integer(dots == NULL ? first : dots + 2, &to) && from >= 0 &&
                to >= from && to < UINT32_MAX && to - from < 10000;
    if (!good)
        return complain("seeds are written A..B with A not above B, at most 10000 of them, not",
                        text);
    a->first_seed = (uint32_t)from;
    a->last_seed = (uint32_t)to;
    a->has_seeds = true;
    return true;
}

/* The path is cut at its "=" in place. */
static bool read_set(char *text, struct arguments *a)
{
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return complain("a setting is written PATH=VALUE, not", text);
    if (a->set_count == SCENE_SETS_MAX) return complain("too many settings at", text);
    *equals = '\0';
    a->sets[a->set_count++] = (struct scene_set){.path = text, .value = equals + 1};
    return true;
}

static bool read_count(const char *value, int64_t most, const char *what, uint32_t *ret_count)
{
    int64_t count;
    if (!yaml_parse_integer(value, &count) || count < 1 || count > most)
        return complain(what, value);
    *ret_count = (uint32_t)count;
    return true;
}

static const char **path_of(const char *option, struct arguments *a)
{
    if (strcmp(option, "--report") == 0) return &a->report;
    if (strcmp(option, "--ranking") == 0) return &a->ranking;
    return strcmp(option, "--out") == 0 ? &a->out : NULL;
}

static bool read_value(const char *option, char *value, struct arguments *a)
{
    const char **path = path_of(option, a);
    if (strcmp(option, "--seeds") == 0 || strcmp(option, "--seed") == 0)
        return read_seeds(value, a);
    if (strcmp(option, "--set") == 0) return read_set(value, a);
    if (path != NULL) {
        *path = value;
        return true;
    }
    if (strcmp(option, "--policy") == 0) {
        if (a->policy_count == SCENE_CASES_MAX) return complain("too many policies at", value);
        a->policies[a->policy_count++] = value;
        return true;
    }
    if (strcmp(option, "--threads") == 0)
        return read_count(value, 256, "threads are a number from 1 to 256, not", &a->threads);
    if (strcmp(option, "--generations") == 0)
        return read_count(value, GENERATIONS_MAX, "generations are a number from 1 to 100000, not",
                          &a->generations);
    return complain("a file of this kind has no option", option);
}

static bool read_flag(const char *text, struct arguments *a)
{
    bool *flags[] = {&a->json, &a->help, &a->sensitivity, &a->check, &a->train};
    static const char *const names[] = {"--json", "--help", "--sensitivity", "--check", "--train"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *flags[i] = true;
            return true;
        }
    return false;
}

static bool fits_together(const struct arguments *a, const char *program)
{
    if (a->file_count == 0) return complain("which scenario? Add a file to", program);
    if (!a->train && a->file_count > 1)
        return complain("one scenario at a time; what is", a->files[1]);
    if (!a->train && a->out != NULL) return complain("--out is for --train; what is", a->out);
    if (!a->train) return true;
    if (a->out == NULL) return complain("where to? --train needs --out FILE after", a->files[0]);
    if (strlen(a->out) > ARGUMENTS_PATH_BYTES - 16) return complain("too long a path,", a->out);
    return a->policy_count == 0 || complain("--train trains one policy; what is", a->policies[0]);
}

bool arguments_read(int argc, char **argv, struct arguments *a)
{
    bool lists = false; /* words that follow are policies, too, once there is a file */
    *a = (struct arguments){.generations = 60};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' && lists && a->file_count > 0) {
            if (!read_value("--policy", argv[i], a)) return false;
        } else if (argv[i][0] != '-') {
            if (a->file_count == ARGUMENTS_FILES_MAX)
                return complain("at most 8 scenarios; what is", argv[i]);
            a->files[a->file_count++] = argv[i];
        } else if (read_flag(argv[i], a)) {
            lists = false;
        } else {
            if (!takes_value(argv[i])) return complain("unknown option", argv[i]);
            if (i + 1 == argc) return complain("a value is missing after", argv[i]);
            if (!read_value(argv[i], argv[i + 1], a)) return false;
            lists = strcmp(argv[i], "--policy") == 0;
            i++;
        }
    }
    return a->help || fits_together(a, argv[0]);
}
