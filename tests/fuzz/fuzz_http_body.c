/* The body of POST /v1/jobs and /v1/plan, all the way to what the server stores, steps and answers:
 * job.yaml -> spec -> event -> journal record -> JSON row. Holds that each stage accepts what the
 * one before it let through. */
#include "base/mem.h"
#include "codec/codec.h"
#include "codec/job_spec.h"
#include "codec/json.h"
#include "codec/record.h"
#include "codec/view_json.h"
#include "core/assert.h"
#include "core/pool.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static bool id_of(void *self, enum id_kind kind, const char *name, uint32_t *ret_id)
{
    (void)self;
    *ret_id = kind == ID_POOL ? (uint32_t)strlen(name) % 64 : (uint32_t)strlen(name);
    return true;
}

static const char *name_of(void *self, enum id_kind kind, uint32_t id)
{
    (void)self;
    (void)kind;
    return id == 0 ? "" : "name";
}

static void check_row(const struct catalog *catalog, const struct pool_event *event,
                      const struct job_spec *spec)
{
    const struct view_names names = {.name_of = name_of, .catalog = catalog};
    const struct job_view view = {.job_id = event->u.job_submitted.job_id,
                                  .state = JOB_QUEUED,
                                  .job_class = event->u.job_submitted.job_class,
                                  .tenant = event->u.job_submitted.tenant};
    json_t *row = job_view_json(&names, &view, spec);
    char *text = json_finish_text(row, row == NULL);
    ASSERT(text != NULL);
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct catalog catalog;
    static struct config config;
    static struct job_spec spec;
    static const char pools[] = "pools: {tier-1: {}, tier-2: {}}";
    struct error error = {{0}};
    if (catalog.model_count == 0) {
        codec_init();
        ASSERT(catalog_parse_shipped(&catalog, &error));
        ASSERT(config_parse(&catalog, "c", pools, strlen(pools), &config, &error));
    }
    if (!job_spec_parse(&catalog, &config, "body", (const char *)bytes, count, &spec, &error))
        return 0;
    struct job_events events;
    struct pool_event again;
    uint8_t record[RECORD_BYTES];
    ASSERT(job_spec_event(&spec, &catalog.links, 1, 2, id_of, NULL, &events, &error));
    struct pool_event event = events.submitted;
    ASSERT(events.terms.kind == 0 || pool_event_check(&events.terms) == NULL);
    event.seq = 1;
    ASSERT(pool_event_check(&event) == NULL);
    record_encode(&event, record);
    ASSERT(record_decode(record, &again) == NULL);
    ASSERT(memcmp(&event, &again, sizeof event) == 0);
    check_row(&catalog, &event, &spec);
    return 0;
}
