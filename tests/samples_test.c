/* Every YAML file under examples/ and the scenario shown in docs/config.md is accepted by the
 * parser of its kind: `samples_test SOURCE-ROOT`. The other blocks of that page:
 * src/codec/docs_test.c. */
#include "base/io.h"
#include "base/mem.h"
#include "codec/job_spec.h"
#include "driver/local_scenario.h"
#include <ftw.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES_MIN = 5, OPEN_FOLDERS_MAX = 16 }; /* fewer samples: the folder was not found */

/* nftw() hands nothing of ours to its callback, so what it needs stands here. */
static struct catalog catalog;
static int samples, failures;

static bool parse_scenario(const char *name, const char *text, size_t bytes,
                           struct error *ret_error)
{
    struct local_scenario *scenario = local_scenario_parse(name, text, bytes, ret_error);
    local_scenario_free(scenario);
    return scenario != NULL;
}

/* The kind is told by the name: job*, shoal*, anything else in jobs/ and gates/, what has jobs is for `shoal sim`, the rest are
 * scenarios of the local driver. */
static bool parse_sample(const char *path, const char *base, const char *text, size_t bytes,
                         struct error *ret_error)
{
    static struct job_spec spec;
    static struct config config;
    if (strncmp(base, "shoal", 5) == 0)
        return config_parse(&catalog, path, text, bytes, &config, ret_error);
    if (strncmp(base, "job", 3) == 0 || strstr(path, "/jobs/") != NULL ||
        strstr(path, "/gates/") != NULL)
        return job_spec_parse(&catalog, NULL, path, text, bytes, &spec, ret_error);
    if (strstr(text, "\njobs:\n") != NULL)
        return true; /* for `shoal sim`: run by src/whatif's own tests */
    return parse_scenario(path, text, bytes, ret_error);
}

static int visit(const char *path, const struct stat *facts, int type, struct FTW *place)
{
    size_t length = strlen(path), bytes;
    char *text;
    struct error error = {{0}};
    (void)facts;
    if (type != FTW_F || length < 5 || strcmp(path + length - 5, ".yaml") != 0) return 0;
    samples++;
    if (!io_read_file(path, YAML_BYTES_MAX, &text, &bytes, &error)) {
        failures++;
        printf("%s\n", error.text);
        return 0;
    }
    if (!parse_sample(path, path + place->base, text, bytes, &error)) {
        failures++;
        printf("%s\n", error.text);
    }
    mem_free(text);
    return 0;
}

static bool check_page(const char *root, struct error *ret_error)
{
    char path[4096], *page;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/docs/config.md", root);
    if (!io_read_file(path, YAML_BYTES_MAX, &page, &bytes, ret_error)) return false;
    char *heading = strstr(page, "\n## Scenario"), *end = NULL;
    char *start = heading == NULL ? NULL : strstr(heading, "```yaml\n");
    if (start != NULL) end = strstr(start + 8, "```");
    bool good = end != NULL ? parse_scenario("config.md (scenario)", start + 8,
                                             (size_t)(end - start - 8), ret_error)
                            : error_set(ret_error, "%s: no scenario is shown", path);
    mem_free(page);
    return good;
}

int main(int argc, char **argv)
{
    char folder[4096];
    struct error error = {{0}};
    if (argc != 2 || !catalog_parse_shipped(&catalog, &error)) {
        fprintf(stderr, "usage: %s SOURCE-ROOT (%s)\n", argv[0], error.text);
        return 2;
    }
    (void)snprintf(folder, sizeof folder, "%s/examples", argv[1]);
    if (nftw(folder, visit, OPEN_FOLDERS_MAX, FTW_PHYS) != 0) printf("%s: cannot read\n", folder);
    if (!check_page(argv[1], &error)) {
        failures++;
        printf("%s\n", error.text);
    }
    printf("%d samples and a page, %d failed\n", samples, failures);
    return failures != 0 || samples < SAMPLES_MIN;
}
