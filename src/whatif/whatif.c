#include "whatif/whatif.h"
#include "base/io.h"
#include "base/mem.h"
#include "whatif/arguments.h"
#include "whatif/print.h"
#include "whatif/report.h"
#include "whatif/source.h"
#include "whatif/train.h"
#include <stdio.h>
#include <string.h>

enum { USAGE = 2, SENSITIVITY_SEEDS = 16 };

static bool find_case(const struct scene *scene, const char *name, struct scene_case *ret_case,
                      struct error *ret_error)
{
    for (uint32_t i = 0; i < scene->case_count; i++)
        if (strcmp(scene->cases[i].name, name) == 0) {
            *ret_case = scene->cases[i];
            return true;
        }
    return scene_case_of_policy(scene, name, ret_case) ||
           error_set(
               ret_error,
               "no policy or case is called \"%s\"; policies are shoal, on_demand, one_zone, "
               "failover, learned, foresight, and greedy, uniform_progress and table for jobs with "
               "a deadline",
               name);
}

/* The policies that were asked for, else the cases of the file, else every policy. */
static bool choose_cases(const struct scene *scene, const struct arguments *a,
                         struct scene_case *cases, uint32_t *ret_count, struct error *ret_error)
{
    *ret_count = 0;
    for (uint32_t i = 0; i < a->policy_count; i++)
        if (!find_case(scene, a->policies[i], &cases[(*ret_count)++], ret_error)) return false;
    if (a->policy_count > 0) return true;
    for (uint32_t i = 0; i < scene->case_count; i++) cases[(*ret_count)++] = scene->cases[i];
    if (scene->case_count > 0) return true;
    for (const char *name; (name = scene_policy_at(scene, *ret_count)) != NULL; (*ret_count)++)
        if (!find_case(scene, name, &cases[*ret_count], ret_error)) return false;
    return true;
}

/* To the cases that are ranked by one: of --ranking, else the shipped one. */
static bool give_net(const struct arguments *a, struct scene_case *cases, uint32_t count,
                     struct rank_net *net, struct error *ret_error)
{
    bool wanted = a->ranking != NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (cases[i].policy != POLICY_LEARNED) continue;
        cases[i].net = net;
        wanted = true;
    }
    if (!wanted) return true;
    if (a->ranking == NULL) return rank_net_shipped(net, ret_error);
    char *text;
    size_t bytes;
    if (!io_read_file(a->ranking, RANK_NET_BYTES_MAX, &text, &bytes, ret_error)) return false;
    bool good = rank_net_parse(a->ranking, text, bytes, net, ret_error);
    mem_free(text);
    return good;
}

static bool all_hold(const struct crowd *crowd)
{
    bool good = true;
    for (uint32_t i = 0; i < crowd->scene->claim_count; i++)
        good = crowd_holds(crowd, &crowd->scene->claims[i]) && good;
    return good;
}

static bool print_sensitivity(const struct arguments *a, const struct crowd *crowd,
                              const struct source *source, struct error *ret_error)
{
    struct sensitivity s;
    if (!a->sensitivity) return true;
    if (crowd->scene->claim_count == 0 || a->policy_count > 0)
        return error_set(ret_error, "--sensitivity is about the claims of the file's cases: %s",
                         a->policy_count > 0 ? "leave out --policy" : "it has none, add claims");
    struct crowd few =
        *crowd; /* hundreds of runs: a few seeds of each, unless more were asked for */
    if (!a->has_seeds && few.seed_count > SENSITIVITY_SEEDS) few.seed_count = SENSITIVITY_SEEDS;
    few.outcomes = NULL;
    if (!crowd_run(&few, ret_error)) return false;
    bool good = sensitivity_run(&few, &source->sensitivity, &s, ret_error);
    if (good && a->json) {
        (void)printf(",\"sensitivity\":");
        sensitivity_json(&few, &s, stdout);
    } else if (good) {
        sensitivity_print(&few, &s, stdout);
    }
    if (good) sensitivity_free(&s);
    crowd_free(&few);
    return good;
}

static bool run(const struct arguments *a, struct scene *scene, struct source *source,
                bool *ret_claims, struct error *ret_error)
{
    struct scene_case cases[SCENE_CASES_MAX];
    struct rank_net net;
    struct crowd crowd = {
        .scene = scene, .cases = cases, .threads = a->threads, .progress = scene->name};
    if (!source_read(source, a->files[0], a->sets, a->set_count, scene, ret_error)) return false;
    if (!choose_cases(scene, a, cases, &crowd.case_count, ret_error)) return false;
    if (!give_net(a, cases, crowd.case_count, &net, ret_error)) return false;
    if (a->check && a->policy_count > 0)
        return error_set(ret_error, "--check is about the cases of the file; leave out --policy");
    crowd.first_seed = a->has_seeds ? a->first_seed : scene->first_seed;
    crowd.seed_count = (a->has_seeds ? a->last_seed : scene->last_seed) - crowd.first_seed + 1;
    if (a->report != NULL && !report_can_write(a->report, ret_error)) return false;
    bool good = crowd_run(&crowd, ret_error);
    if (good && a->json) print_json(&crowd, stdout);
    if (good && !a->json) print_table(&crowd, stdout);
    *ret_claims = !good || !a->check || all_hold(&crowd);
    good = good && print_sensitivity(a, &crowd, source, ret_error);
    if (a->json) (void)printf("}\n");
    if (good && a->report != NULL) good = report_write(&crowd, a->report, ret_error);
    if (good && a->report != NULL && !a->json) (void)printf("\nwrote %s/report.html\n", a->report);
    crowd_free(&crowd);
    return good;
}

int whatif_main(int argc, char **argv)
{
    static struct arguments arguments; /* large */
    struct error error;
    bool claims = true;
    if (!arguments_read(argc, argv, &arguments)) return USAGE;
    if (arguments.help) {
        arguments_help();
        return 0;
    }
    if (arguments.train) return train_main(&arguments);
    struct scene *scene = scene_new();
    struct source source = {0};
    bool good = scene != NULL ? run(&arguments, scene, &source, &claims, &error)
                              : error_set(&error, "out of memory for the scenario");
    scene_close(scene);
    source_free(&source);
    if (!good) (void)fprintf(stderr, "shoal sim: %s\n", error.text);
    return good && claims ? 0 : 1;
}
