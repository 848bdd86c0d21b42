/* The catalog: device models and what they can do.
 *
 * Role       Turns catalog/devices.yaml and links.yaml (shipped, embedded in the binary) and the user's own
 *            catalog on top of it into a table. The index of a capability is its bit in every
 *            capability_mask, the index of a model its number in events.
 * Numbers    Journaled events hold these indices, so a journal's owner must keep them: call
 *            catalog_reserve_*() with the names it knows, in their order, before the first parse.
 *            A reserved model that no file defines has ncu_milli 0 and is never matched by name.
 * Layers     catalog_parse() adds to what is there: a new capability or model is appended, a model
 *            of the same name is replaced in place.
 * VRAM       "NNgb-vram" is always known as a capability and means at least NN GiB of memory per
 *            device; it becomes vram_min_mib, not a bit.
 * Units      ncu_milli: thousandths of an A100-40GB. vram_mib: MiB per device.
 */
#ifndef SHOAL_CODEC_CATALOG_H
#define SHOAL_CODEC_CATALOG_H

#include "base/error.h"
#include "codec/links.h"
#include "codec/yaml.h"
#include "core/event.h"
#include <stddef.h>
#include <stdint.h>

enum { CATALOG_MODELS_MAX = 64, CATALOG_CAPABILITIES_MAX = 64, CATALOG_NAME_BYTES = 32 };

struct catalog_model {
    char name[CATALOG_NAME_BYTES];
    uint64_t capability_mask;
    uint32_t ncu_milli, vram_mib;  /* ncu_milli 0: reserved, not defined */
    uint32_t mig_slices, reserved; /* of memory when partitioned: 8, 4; 0 = it cannot be */
    int64_t usd_micros_per_hour;   /* list price, for plans without a market; 0 = none */
};

struct catalog {
    uint32_t capability_count, model_count;
    char capabilities[CATALOG_CAPABILITIES_MAX][CATALOG_NAME_BYTES];
    struct catalog_model models[CATALOG_MODELS_MAX];
    struct links links;
};

/* What a pool or a job asks of each device. */
struct device_need {
    uint64_t capability_mask;
    uint32_t vram_min_mib, reserved;
};

/* Start from `struct catalog catalog = {0}`. On failure the catalog is as before. */
bool catalog_parse(struct catalog *catalog, const char *file, const char *text, size_t bytes,
                   struct error *ret_error) WARN_UNUSED;
bool catalog_parse_shipped(struct catalog *catalog, struct error *ret_error) WARN_UNUSED;
bool catalog_reserve_capability(struct catalog *catalog, const char *name); /* false: full */
bool catalog_reserve_model(struct catalog *catalog, const char *name);      /* false: full */

bool catalog_find_model(const struct catalog *catalog, const char *name, uint32_t *ret_index);
bool catalog_find_capability(const struct catalog *catalog, const char *name, uint32_t *ret_index);

/* Reads a YAML list of capability names; mistakes (with the nearest name) are noted in its tree. */
struct device_need catalog_read_need(const struct catalog *catalog, yaml_item *list);
/* Reads a YAML list of model names into a mask of model indices. */
uint64_t catalog_read_models(const struct catalog *catalog, yaml_item *list);

/* true if the model has all that is needed; else *ret_lacking is the first thing it lacks. */
bool catalog_model_has(const struct catalog *catalog, uint32_t model,
                       const struct device_need *need, char ret_lacking[CATALOG_NAME_BYTES]);

/* MODEL_DEFINED for one model; seq and now_us are left 0 for the caller. */
void catalog_model_event(const struct catalog *catalog, uint32_t model,
                         struct pool_event *ret_event);

/* The shipped catalog/devices.yaml, embedded at build time; 0-terminated. */
extern const char catalog_shipped_text[];
extern const size_t catalog_shipped_bytes;

#endif
