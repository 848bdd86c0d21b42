/* Scenarios of the what-if machine: refused with a sentence, or small ones are run for an hour without a
 * broken invariant. Files that name others (csv) are not tried: the fuzzer would read the disk. */
#include "core/assert.h"
#include "whatif/world.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool mentions(const uint8_t *data, size_t size, const char *word)
{
    return memmem(data, size, word, strlen(word)) != NULL;
}

static bool is_small(const struct scene *s)
{
    uint64_t jobs = 0, devices = 0;
    for (uint32_t i = 0; i < s->job_count; i++) jobs += s->jobs[i].count;
    for (uint32_t i = 0; i < s->offer_count; i++)
        devices += (uint64_t)s->offers[i].stock * s->offers[i].device_count;
    return jobs < 60 && devices < 600 && s->offer_count < 12;
}

static void run(struct scene *s)
{
    struct outcome outcome;
    if (s->horizon_us > INT64_C(3600000000)) s->horizon_us = INT64_C(3600000000);
    for (uint32_t p = 0; p < POLICY_COUNT; p++) {
        struct scene_case c;
        bool known = scene_case_of_policy(s, scene_policy_names[p], &c);
        ASSERT(known);
        if (!world_run(s, &c, 1, NULL, &outcome)) return; /* out of memory */
        ASSERT(outcome.values[0][MEASURE_COST] >= 0);
        ASSERT(outcome.values[0][MEASURE_UTILIZATION] <= 1.000001);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = {""};
    if (mentions(data, size, "csv")) return 0;
    struct scene *scene = scene_new();
    if (scene == NULL) return 0;
    if (!scene_read(scene, "f.yaml", "/nowhere", (const char *)data, size, NULL, 0, &error))
        ASSERT(error.text[0] != '\0');
    else if (is_small(scene))
        run(scene);
    scene_close(scene);
    return 0;
}
