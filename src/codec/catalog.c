#include "codec/catalog.h"
#include "codec/yaml_tree.h"
#include "core/assert.h"
#include "core/limits.h"
#include <stdio.h>
#include <string.h>

enum { VRAM_GB_MAX = 4096 };

/* ---- finding ---- */

static bool find_name(const char *name, const char *const *names, uint32_t count,
                      uint32_t *ret_index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *ret_index = i;
        return true;
    }
    return false;
}

static void capability_names(const struct catalog *catalog,
                             const char *ret_names[CATALOG_CAPABILITIES_MAX])
{
    for (uint32_t i = 0; i < catalog->capability_count; i++)
        ret_names[i] = catalog->capabilities[i];
}

static void model_names(const struct catalog *catalog, const char *ret_names[CATALOG_MODELS_MAX])
{
    for (uint32_t i = 0; i < catalog->model_count; i++) ret_names[i] = catalog->models[i].name;
}

bool catalog_find_capability(const struct catalog *catalog, const char *name, uint32_t *ret_index)
{
    const char *names[CATALOG_CAPABILITIES_MAX];
    capability_names(catalog, names);
    return find_name(name, names, catalog->capability_count, ret_index);
}

/* Reserved ones too. */
static bool find_model_slot(const struct catalog *catalog, const char *name, uint32_t *ret_index)
{
    const char *names[CATALOG_MODELS_MAX];
    model_names(catalog, names);
    return find_name(name, names, catalog->model_count, ret_index);
}

bool catalog_find_model(const struct catalog *catalog, const char *name, uint32_t *ret_index)
{
    uint32_t index;
    if (!find_model_slot(catalog, name, &index) || catalog->models[index].ncu_milli == 0)
        return false;
    *ret_index = index;
    return true;
}

/* ---- adding ---- */

bool catalog_reserve_capability(struct catalog *catalog, const char *name)
{
    uint32_t index;
    if (catalog_find_capability(catalog, name, &index)) return true;
    if (catalog->capability_count == CATALOG_CAPABILITIES_MAX) return false;
    if (strlen(name) >= CATALOG_NAME_BYTES) return false;
    (void)strcpy(catalog->capabilities[catalog->capability_count++], name);
    return true;
}

bool catalog_reserve_model(struct catalog *catalog, const char *name)
{
    uint32_t index;
    if (find_model_slot(catalog, name, &index)) return true;
    if (catalog->model_count == CATALOG_MODELS_MAX) return false;
    if (strlen(name) >= CATALOG_NAME_BYTES) return false;
    (void)strcpy(catalog->models[catalog->model_count++].name, name);
    return true;
}

/* "24gb-vram" -> 24 * 1024; false: not of that form */
static bool parse_vram(const char *name, uint32_t *ret_mib)
{
    uint32_t gib = 0;
    const char *at = name;
    for (; *at >= '0' && *at <= '9' && gib <= VRAM_GB_MAX; at++)
        gib = gib * 10 + (uint32_t)(*at - '0');
    if (at == name || strcmp(at, "gb-vram") != 0 || gib > VRAM_GB_MAX) return false;
    *ret_mib = gib * 1024;
    return true;
}

static void read_capabilities(struct catalog *catalog, yaml_item *list)
{
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *item = yaml_at(list, i);
        char name[CATALOG_NAME_BYTES];
        uint32_t mib;
        if (!yaml_copy_name(item, yaml_item_string(item), name, sizeof name)) continue;
        if (parse_vram(name, &mib))
            yaml_mistake(item, "\"%s\" is always known; take it out and give models a vram_gb",
                         name);
        else if (!catalog_reserve_capability(catalog, name))
            yaml_mistake(item, "more than %d capabilities; drop some", CATALOG_CAPABILITIES_MAX);
    }
}

static void read_model(struct catalog *catalog, yaml_item *item, const char *name)
{
    uint32_t index;
    if (!catalog_reserve_model(catalog, name) || !find_model_slot(catalog, name, &index)) {
        yaml_mistake(item, "more than %d models; drop some", CATALOG_MODELS_MAX);
        return;
    }
    yaml_item *map = yaml_item_map(item);
    struct catalog_model *model = &catalog->models[index];
    (void)yaml_require(map, "ncu");     /* noted */
    (void)yaml_require(map, "vram_gb"); /* noted */
    int64_t ncu_micros = yaml_micros(map, "ncu", 1000, 1000000000, 1000000);
    if (ncu_micros % 1000 != 0)
        yaml_mistake(yaml_any(map, "ncu"), "\"ncu\" of %s is finer than 0.001; round it", name);
    model->ncu_milli = (uint32_t)(ncu_micros / 1000);
    model->vram_mib = (uint32_t)yaml_integer(map, "vram_gb", 0, VRAM_GB_MAX, 0) * 1024;
    model->mig_slices = (uint32_t)yaml_integer(map, "mig_slices", 0, 8, 0);
    if (model->mig_slices != 0 && model->mig_slices != 4 && model->mig_slices != 8)
        yaml_mistake(yaml_any(map, "mig_slices"), "%s has 8 slices of memory or 4", name);
    model->usd_micros_per_hour = yaml_micros(map, "usd_per_hour", 0, PRICE_MAX, 0);
    struct device_need has = catalog_read_need(catalog, yaml_list(map, "capabilities"));
    if (has.vram_min_mib != 0)
        yaml_mistake(yaml_any(map, "capabilities"), "%s lists a vram capability; give vram_gb",
                     name);
    model->capability_mask = has.capability_mask;
}

bool catalog_parse(struct catalog *catalog, const char *file, const char *text, size_t bytes,
                   struct error *ret_error)
{
    yaml_tree *tree = yaml_open(file, text, bytes, ret_error);
    if (tree == NULL) return false;
    struct catalog layered = *catalog;
    yaml_item *root = yaml_root(tree);
    read_capabilities(&layered, yaml_list(root, "capabilities"));
    yaml_item *models = yaml_map(root, "models");
    for (uint32_t i = 0; i < yaml_count(models); i++) {
        char name[CATALOG_NAME_BYTES];
        yaml_item *item = yaml_at(models, i);
        if (yaml_copy_name(item, yaml_key_at(models, i), name, sizeof name))
            read_model(&layered, item, name);
    }
    links_read(&layered.links, yaml_map(root, "links"));
    bool good = yaml_finish(tree, ret_error);
    yaml_close(tree);
    if (good) *catalog = layered;
    return good;
}

bool catalog_parse_shipped(struct catalog *catalog, struct error *ret_error)
{
    struct catalog both = *catalog;
    bool good = catalog_parse(&both, "catalog/devices.yaml", catalog_shipped_text,
                              catalog_shipped_bytes, ret_error) &&
                catalog_parse(&both, "catalog/links.yaml", links_shipped_text, links_shipped_bytes,
                              ret_error);
    if (good) *catalog = both;
    return good;
}

/* ---- reading references ---- */

/* "a, b, c" of as many names as fit */
static void join_names(const char *const *names, uint32_t count, char *ret_text, size_t bytes)
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < count && used + strlen(names[i]) + 3 < bytes; i++)
        used +=
            (size_t)snprintf(ret_text + used, bytes - used, "%s%s", i == 0 ? "" : ", ", names[i]);
}

static void note_unknown(yaml_item *item, const char *what, const char *text,
                         const char *const *names, uint32_t count)
{
    const char *nearest = yaml_nearest(text, names, count);
    char known[200];
    join_names(names, count, known, sizeof known);
    if (nearest != NULL)
        yaml_mistake(item, "unknown %s \"%s\"; did you mean \"%s\"?", what, yaml_show(text).text,
                     nearest);
    else
        yaml_mistake(item, "unknown %s \"%s\"; add it to the catalog or use one of: %s", what,
                     yaml_show(text).text, known);
}

struct device_need catalog_read_need(const struct catalog *catalog, yaml_item *list)
{
    struct device_need need = {0};
    const char *names[CATALOG_CAPABILITIES_MAX];
    capability_names(catalog, names);
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *item = yaml_at(list, i);
        const char *name = yaml_item_string(item);
        uint32_t index, mib;
        if (parse_vram(name, &mib)) {
            if (mib > need.vram_min_mib) need.vram_min_mib = mib;
        } else if (find_name(name, names, catalog->capability_count, &index)) {
            need.capability_mask |= UINT64_C(1) << index;
        } else if (name[0] != '\0') { /* else it was noted */
            note_unknown(item, "capability", name, names, catalog->capability_count);
        }
    }
    return need;
}

/* The same for one name: item must be a scalar. false: noted. */
static bool read_known_model(const struct catalog *catalog, yaml_item *item, uint32_t *ret_index)
{
    const char *name = yaml_item_string(item);
    if (catalog_find_model(catalog, name, ret_index)) return true;
    const char *names[CATALOG_MODELS_MAX];
    model_names(catalog, names);
    if (name[0] != '\0') note_unknown(item, "device model", name, names, catalog->model_count);
    return false;
}

uint64_t catalog_read_models(const struct catalog *catalog, yaml_item *list)
{
    uint64_t mask = 0;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        uint32_t index;
        if (read_known_model(catalog, yaml_at(list, i), &index)) mask |= UINT64_C(1) << index;
    }
    return mask;
}

bool catalog_model_has(const struct catalog *catalog, uint32_t model,
                       const struct device_need *need, char ret_lacking[CATALOG_NAME_BYTES])
{
    ASSERT(model < catalog->model_count);
    const struct catalog_model *m = &catalog->models[model];
    uint64_t lacking = need->capability_mask & ~m->capability_mask;
    if (lacking != 0)
        (void)strcpy(ret_lacking, catalog->capabilities[__builtin_ctzll(lacking)]);
    else if (m->vram_mib < need->vram_min_mib)
        (void)snprintf(ret_lacking, CATALOG_NAME_BYTES, "%ugb-vram", need->vram_min_mib / 1024);
    else
        return true;
    return false;
}

void catalog_model_event(const struct catalog *catalog, uint32_t model,
                         struct pool_event *ret_event)
{
    ASSERT(model < catalog->model_count);
    const struct catalog_model *m = &catalog->models[model];
    struct pool_event event = {.kind = POOL_EVENT_MODEL_DEFINED, .version = POOL_CORE_VERSION};
    event.u.model_defined.capability_mask = m->capability_mask;
    event.u.model_defined.model = model;
    event.u.model_defined.ncu_milli = m->ncu_milli;
    event.u.model_defined.vram_mib = m->vram_mib;
    event.u.model_defined.mig_slices = m->mig_slices;
    *ret_event = event;
}
