/* Every file of tests/bad goes to the parser that its name begins with (job-, shoal-, catalog-,
 * scenario-); the refusal must be the line in the .expected file beside it, word for word.
 *
 *     bad_input_test FOLDER      the test; prints each difference
 *
 * A new case is two files. To see what a new one says, leave the second out and run the test.
 */
#include "base/io.h"
#include "base/mem.h"
#include "codec/job_spec.h"
#include "driver/local_scenario.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MIN = 30 }; /* fewer: the folder was not found or the filter is wrong */

static struct catalog catalog;
static struct config config; /* large: not on the stack */

static bool parse(const char *name, const char *text, size_t bytes, struct error *ret_error)
{
    static struct job_spec spec;
    static struct config ignored;
    if (strncmp(name, "job-", 4) == 0)
        return job_spec_parse(&catalog, &config, name, text, bytes, &spec, ret_error);
    if (strncmp(name, "shoal-", 6) == 0)
        return config_parse(&catalog, name, text, bytes, &ignored, ret_error);
    if (strncmp(name, "catalog-", 8) == 0) {
        struct catalog layered = catalog;
        return catalog_parse(&layered, name, text, bytes, ret_error);
    }
    if (strncmp(name, "scenario-", 9) == 0) {
        struct local_scenario *scenario = local_scenario_parse(name, text, bytes, ret_error);
        local_scenario_free(scenario);
        return scenario != NULL;
    }
    return error_set(ret_error, "%s: no parser for this name", name);
}

/* The file's one line without its newline, or NULL (nothing there is a failed case, not an end). */
static char *read_line(const char *path)
{
    char *text;
    size_t bytes;
    if (!io_read_file(path, 4096, &text, &bytes, NULL)) return NULL;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* true if the case holds */
static bool check(const char *folder, const char *name)
{
    char path[4096], expected_path[4096];
    struct error error = {{0}};
    char *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)snprintf(expected_path, sizeof expected_path, "%.*s.expected",
                   (int)(strlen(path) - strlen(".yaml")), path);
    if (!io_read_file(path, YAML_BYTES_MAX, &text, &bytes, &error)) {
        printf("%s\n", error.text);
        return false;
    }
    bool accepted = parse(name, text, bytes, &error);
    mem_free(text);
    char *expected = read_line(expected_path);
    bool good = !accepted && expected != NULL && strcmp(expected, error.text) == 0;
    if (!good)
        printf("%s\n  expected: %s\n  got:      %s\n", name,
               expected == NULL ? "(no file)" : expected, accepted ? "(accepted)" : error.text);
    mem_free(expected);
    return good;
}

static int is_case(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".yaml") == 0;
}

int main(int argc, char **argv)
{
    static const char pools[] = "pools: {tier-1-training: {}, tier-2-training: {}}";
    struct error error = {{0}};
    if (argc != 2 || !catalog_parse_shipped(&catalog, &error) ||
        !config_parse(&catalog, "pools", pools, strlen(pools), &config, &error)) {
        fprintf(stderr, "usage: %s FOLDER (%s)\n", argv[0], error.text);
        return 2;
    }
    struct dirent **entries;
    int count = scandir(argv[1], &entries, is_case, alphasort), failed = 0;
    for (int i = 0; i < count; i++) {
        failed += !check(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    printf("%d cases, %d failed\n", count, failed);
    return failed != 0 || count < CASES_MIN;
}
