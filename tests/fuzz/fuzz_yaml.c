/* Any bytes as shoal.yaml, job.yaml and a catalog. Holds that
 *   nothing crashes, leaks or hangs, and every refusal is one line of UTF-8 that names the file;
 *   a job that is accepted gives a canonical text, and that text gives the same job;
 *   nothing is lost when an allocation fails.
 */
#include "base/mem.h"
#include "codec/job_spec.h"
#include "core/assert.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_sentence(const struct error *error)
{
    ASSERT(strncmp(error->text, "f.yaml:", 7) == 0);
    ASSERT(strchr(error->text, '\n') == NULL);
}

static void check_job(const struct catalog *catalog, const char *text, size_t count)
{
    static struct job_spec spec, again; /* large: not on the stack */
    struct error error = {{0}};
    if (!job_spec_parse(catalog, NULL, "f.yaml", text, count, &spec, &error)) {
        check_sentence(&error);
        return;
    }
    char *canonical = job_spec_text(catalog, &spec);
    ASSERT(canonical != NULL);
    ASSERT(job_spec_parse(catalog, NULL, "f.yaml", canonical, strlen(canonical), &again, &error));
    ASSERT(memcmp(&spec, &again, sizeof spec) == 0);
    mem_free(canonical);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct catalog shipped;
    static struct config config;
    struct error error = {{0}};
    if (shipped.model_count == 0) ASSERT(catalog_parse_shipped(&shipped, &error));
    const char *text = (const char *)bytes;
    char path[CONFIG_TEXT_BYTES];
    struct catalog layered = shipped;
    if (!catalog_parse(&layered, "f.yaml", text, count, &error)) check_sentence(&error);
    if (!config_peek_catalog("f.yaml", text, count, path, &error)) check_sentence(&error);
    if (!config_parse(&shipped, "f.yaml", text, count, &config, &error)) check_sentence(&error);
    check_job(&shipped, text, count);
    mem_fail_at(1 + count % 3); /* the tree asks for few, large blocks */
    if (!config_parse(&shipped, "f.yaml", text, count, &config, &error)) check_sentence(&error);
    mem_fail_at(0);
    return 0;
}
