#include "whatif/whatif.h"
#include "base/io.h"
#include "base/mem.h"
#include "whatif/arguments.h"
#include "whatif/print.h"
#include <stdio.h>
#include <string.h>

enum { USAGE = 2, SCENARIO_BYTES_MAX = 1 << 20 };

static void folder_of(const char *path, char *ret_folder, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        (void)snprintf(ret_folder, bytes, ".");
    else
        (void)snprintf(ret_folder, bytes, "%.*s", (int)(slash - path), path);
}

static bool read_file(const struct arguments *a, struct scene *scene, struct error *ret_error)
{
    char folder[4096], *text;
    size_t bytes;
    if (!io_read_file(a->file, SCENARIO_BYTES_MAX, &text, &bytes, ret_error)) return false;
    folder_of(a->file, folder, sizeof folder);
    bool good = scene_read(scene, a->file, folder, text, bytes, a->sets, a->set_count, ret_error);
    mem_free(text);
    return good;
}

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
               "no policy or case is called \"%s\"; policies are shoal, on_demand, one_zone and "
               "failover",
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
    for (uint32_t i = 0; i < POLICY_COUNT; i++)
        if (!find_case(scene, scene_policy_names[i], &cases[(*ret_count)++], ret_error))
            return false;
    return true;
}

static bool all_hold(const struct crowd *crowd)
{
    bool good = true;
    for (uint32_t i = 0; i < crowd->scene->claim_count; i++)
        good = crowd_holds(crowd, &crowd->scene->claims[i]) && good;
    return good;
}

static bool run(const struct arguments *a, struct scene *scene, bool *ret_claims,
                struct error *ret_error)
{
    struct scene_case cases[SCENE_CASES_MAX];
    struct crowd crowd = {
        .scene = scene, .cases = cases, .threads = a->threads, .progress = scene->name};
    if (!read_file(a, scene, ret_error)) return false;
    if (!choose_cases(scene, a, cases, &crowd.case_count, ret_error)) return false;
    if (a->check && a->policy_count > 0)
        return error_set(ret_error, "--check is about the cases of the file; leave out --policy");
    crowd.first_seed = a->has_seeds ? a->first_seed : scene->first_seed;
    crowd.seed_count = (a->has_seeds ? a->last_seed : scene->last_seed) - crowd.first_seed + 1;
    bool good = crowd_run(&crowd, ret_error);
    if (good && a->json) print_json(&crowd, stdout);
    if (good && !a->json) print_table(&crowd, stdout);
    *ret_claims = !good || !a->check || all_hold(&crowd);
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
    struct scene *scene = scene_new();
    bool good = scene != NULL ? run(&arguments, scene, &claims, &error)
                              : error_set(&error, "out of memory for the scenario");
    scene_close(scene);
    if (!good) (void)fprintf(stderr, "shoal sim: %s\n", error.text);
    return good && claims ? 0 : 1;
}
