/* What docs/config.md and examples/ show is accepted: `docs_test SOURCE-ROOT`. */
#include "base/io.h"
#include "base/mem.h"
#include "codec/job_spec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *source_root;
static struct catalog catalog;
static struct config config; /* large: not on the stack */
static struct job_spec spec;

static char *read_source(const char *path)
{
    char full[4096], *text;
    size_t bytes;
    struct error error;
    (void)snprintf(full, sizeof full, "%s/%s", source_root, path);
    if (!io_read_file(full, YAML_BYTES_MAX, &text, &bytes, &error)) fail_msg("%s", error.text);
    return text;
}

/* The first ```yaml block after this heading, cut out of the page in place. */
static char *block_after(char *page, const char *heading)
{
    char *at = strstr(page, heading);
    if (at == NULL) fail_msg("docs/config.md: no heading \"%s\"", heading);
    char *start = strstr(at, "```yaml\n");
    assert_non_null(start);
    start += strlen("```yaml\n");
    char *end = strstr(start, "```");
    assert_non_null(end);
    *end = '\0';
    return start;
}

static void check_catalog(const char *name, const char *text)
{
    struct error error;
    struct catalog empty = {0};
    if (!catalog_parse(&empty, name, text, strlen(text), &error)) fail_msg("%s", error.text);
}

static void check_config(const char *name, const char *text)
{
    struct error error;
    if (!config_parse(&catalog, name, text, strlen(text), &config, &error))
        fail_msg("%s", error.text);
}

static void check_job(const char *name, const struct config *pools, const char *text)
{
    struct error error;
    if (!job_spec_parse(&catalog, pools, name, text, strlen(text), &spec, &error))
        fail_msg("%s", error.text);
}

static void the_page_shows_what_is_accepted(void **state)
{
    (void)state;
    char *page = read_source("docs/config.md");
    check_config("config.md (shoal.yaml)", block_after(page, "\n## shoal.yaml"));
    mem_free(page);
    page = read_source("docs/config.md");
    check_job("config.md (job.yaml)", &config, block_after(page, "\n## job.yaml"));
    assert_int_equal(spec.devices_max, 12);
    mem_free(page);
    page = read_source("docs/config.md");
    check_catalog("config.md (catalog)", block_after(page, "\n## Catalog"));
    mem_free(page);
}

static void the_defaults_shown_are_the_defaults(void **state)
{
    (void)state;
    struct pool_config usual;
    pool_config_default(&usual);
    char *page = read_source("docs/config.md");
    check_config("config.md (shoal.yaml)", block_after(page, "\n## shoal.yaml"));
    mem_free(page);
    assert_memory_equal(&config.pool, &usual, sizeof usual);
}

static void the_samples_are_accepted(void **state)
{
    (void)state;
    static const char *const jobs[] = {"examples/jobs/lm.yaml", "examples/jobs/hello.yaml"};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char *text = read_source(jobs[i]);
        check_job(jobs[i], NULL, text);
        mem_free(text);
    }
    char *text = read_source("catalog/devices.yaml");
    assert_string_equal(text, catalog_shipped_text); /* what is built in is what is shown */
    mem_free(text);
}

int main(int argc, char **argv)
{
    struct error error;
    if (argc != 2 || !catalog_parse_shipped(&catalog, &error)) return 2;
    source_root = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_shows_what_is_accepted),
        cmocka_unit_test(the_defaults_shown_are_the_defaults),
        cmocka_unit_test(the_samples_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
