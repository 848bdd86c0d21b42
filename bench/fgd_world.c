#include "fgd_world.h"
#include "base/mem.h"
#include "published.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct names {
    char names[PACK_MODELS_MAX][32];
    uint32_t count;
};

static uint32_t model_of(struct names *models, const char *name, size_t length)
{
    for (uint32_t i = 0; i < models->count; i++)
        if (strlen(models->names[i]) == length && memcmp(models->names[i], name, length) == 0)
            return i;
    if (models->count == PACK_MODELS_MAX || length >= sizeof models->names[0])
        published_fail("more than %d models, or a name too long: %s", PACK_MODELS_MAX, name);
    memcpy(models->names[models->count], name, length);
    return models->count++;
}

static uint16_t *read_order(const char *folder, const char *variant, uint64_t seed,
                            const char *what, uint32_t end, uint32_t *ret_count)
{
    char name[256];
    snprintf(name, sizeof name, "arrivals/%s.%" PRIu64 "%s.u16", variant, seed, what);
    size_t bytes;
    unsigned char *raw = (unsigned char *)published_read(folder, name, &bytes);
    uint16_t *order = published_alloc(bytes / 2, sizeof *order);
    for (size_t i = 0; i < bytes / 2; i++) {
        order[i] = (uint16_t)(raw[2 * i] | raw[2 * i + 1] << 8);
        if (order[i] >= end) published_fail("%s: row %u of %" PRIu32, name, order[i], end);
    }
    mem_free(raw);
    *ret_count = (uint32_t)(bytes / 2);
    return order;
}

static bool has_order(const char *folder, const char *variant, uint64_t seed)
{
    char name[512];
    snprintf(name, sizeof name, "%s/arrivals/%s.%" PRIu64 ".nodes.u16", folder, variant, seed);
    FILE *file = fopen(name, "re");
    if (file != NULL) fclose(file);
    return file != NULL;
}

static uint32_t number(const struct csv *csv, uint32_t row, uint32_t column, uint32_t max)
{
    int64_t value = csv_integer(csv, row, column);
    if (value < 0 || value > (int64_t)max)
        published_fail("%s:%" PRIu32 ": %s is not 0 .. %" PRIu32, csv->name, row + 2,
                       csv->cells[column], max);
    return (uint32_t)value;
}

static void load_nodes(struct fgd_world *world, struct names *models, const char *folder,
                       const char *variant)
{
    struct csv csv;
    csv_open(&csv, folder, "node_list_gpu_node.csv", ',');
    uint32_t cpu = csv_column(&csv, "cpu_milli"), memory = csv_column(&csv, "memory_mib");
    uint32_t gpu = csv_column(&csv, "gpu"), model = csv_column(&csv, "model");
    uint16_t *order = NULL;
    uint32_t ordered = csv.rows;
    if (has_order(folder, variant, world->seed))
        order = read_order(folder, variant, world->seed, ".nodes", csv.rows, &ordered);
    if (ordered != csv.rows) published_fail("%s: order of %" PRIu32 " nodes", csv.name, ordered);
    world->nodes = published_alloc(csv.rows, sizeof *world->nodes);
    for (uint32_t i = 0; i < csv.rows; i++) {
        uint32_t row = order != NULL ? order[i] : i;
        struct fgd_node *node = &world->nodes[i];
        const char *name = csv_text(&csv, row, model);
        node->cpu_milli = number(&csv, row, cpu, PACK_CPU_MILLI_MAX);
        node->memory_mib = number(&csv, row, memory, PACK_MEMORY_MIB_MAX);
        node->devices = number(&csv, row, gpu, PACK_DEVICES_MAX);
        node->model = model_of(models, name, strlen(name));
        node->rank = i;
        for (uint32_t d = 0; d < node->devices; d++) node->free_milli[d] = PACK_MILLI;
        world->capacity_milli += (uint64_t)node->devices * PACK_MILLI;
    }
    world->node_count = csv.rows;
    world->model_count = models->count;
    mem_free(order);
    csv_close(&csv);
}

/* "A|B" as bits; models that no node has are left out, unless only such are named. */
static uint64_t allowed(struct names *models, const char *text)
{
    uint64_t bits = 0;
    for (const char *at = text; *at != 0;) {
        size_t length = strcspn(at, "|");
        bits |= UINT64_C(1) << model_of(models, at, length);
        at += length + (at[length] == '|');
    }
    return bits != 0 ? bits : UINT64_MAX;
}

static void load_pods(struct fgd_world *world, struct names *models, const char *folder,
                      const char *variant)
{
    char name[256];
    snprintf(name, sizeof name, "pods_%s.csv", variant);
    struct csv csv;
    csv_open(&csv, folder, name, ',');
    uint32_t cpu = csv_column(&csv, "cpu_milli"), memory = csv_column(&csv, "memory_mib");
    uint32_t count = csv_column(&csv, "num_gpu"), milli = csv_column(&csv, "gpu_milli");
    uint32_t spec = csv_column_any(&csv, "gpu_spec");
    uint32_t from = csv_column_any(&csv, "creation_time"),
             to = csv_column_any(&csv, "deletion_time");
    world->pods = published_alloc(csv.rows, sizeof *world->pods);
    for (uint32_t i = 0; i < csv.rows; i++) {
        struct fgd_pod *pod = &world->pods[i];
        pod->form.cpu_milli = number(&csv, i, cpu, PACK_CPU_MILLI_MAX);
        pod->form.memory_mib = number(&csv, i, memory, PACK_MEMORY_MIB_MAX);
        pod->form.count = number(&csv, i, count, PACK_DEVICES_MAX);
        uint32_t share = number(&csv, i, milli, UINT32_MAX); /* above 1000 counts as 1000 */
        if (pod->form.count > 1 || share > PACK_MILLI) share = PACK_MILLI;
        pod->form.milli = pod->form.count > 0 ? share : 0;
        if (pod->form.milli == 0) pod->form.count = 0;
        pod->form.models =
            spec == UINT32_MAX ? UINT64_MAX : allowed(models, csv_text(&csv, i, spec));
        if (from != UINT32_MAX && to != UINT32_MAX) {
            pod->from_s = csv_integer(&csv, i, from);
            pod->to_s = csv_integer(&csv, i, to);
        }
        if (!pack_form_check(&pod->form))
            published_fail("%s:%" PRIu32 ": bad pod", csv.name, i + 2);
    }
    world->pod_count = csv.rows;
    csv_close(&csv);
}

void fgd_load(struct fgd_world *world, const char *folder, const char *variant, uint64_t seed)
{
    struct names models = {0};
    *world = (struct fgd_world){.seed = seed};
    load_nodes(world, &models, folder, variant);
    load_pods(world, &models, folder, variant);
    world->arrivals =
        read_order(folder, variant, seed, "", world->pod_count, &world->arrival_count);
}

void fgd_free(struct fgd_world *world)
{
    mem_free(world->nodes);
    mem_free(world->pods);
    mem_free(world->arrivals);
}

bool fgd_fits(const struct fgd_node *node, const struct pack_form *form)
{
    if ((form->models >> node->model & 1) == 0) return false;
    if (node->cpu_milli < form->cpu_milli || node->memory_mib < form->memory_mib) return false;
    uint32_t able = 0;
    for (uint32_t i = 0; i < node->devices; i++) able += node->free_milli[i] >= form->milli;
    return able >= form->count;
}

bool fgd_submit(struct fgd_world *world, const struct fgd_policy *policy, void *self,
                struct fgd_run *run)
{
    const struct pack_form *form = &run->form;
    if (!policy->choose(self, world, run)) {
        for (uint32_t i = 0; i < world->node_count; i++)
            if (fgd_fits(&world->nodes[i], form))
                published_fail("%s refused a pod that fits node %" PRIu32, policy->name, i);
        return false;
    }
    const struct pack_place *place = &run->place;
    struct fgd_node *node = &world->nodes[place->node];
    bool sound = fgd_fits(node, form);
    sound = sound && (uint32_t)__builtin_popcount(place->devices) == form->count;
    for (uint32_t i = 0; sound && i < PACK_DEVICES_MAX; i++) {
        if ((place->devices >> i & 1) == 0) continue;
        sound = i < node->devices && node->free_milli[i] >= form->milli;
        if (sound) node->free_milli[i] = (uint16_t)(node->free_milli[i] - form->milli);
    }
    if (!sound) published_fail("%s named a node that does not fit", policy->name);
    node->cpu_milli -= form->cpu_milli;
    node->memory_mib -= form->memory_mib;
    world->used_milli += pack_form_milli(form);
    policy->placed(self, world, run);
    return true;
}

void fgd_remove(struct fgd_world *world, const struct fgd_policy *policy, void *self,
                const struct fgd_run *run)
{
    struct fgd_node *node = &world->nodes[run->place.node];
    for (uint32_t i = 0; i < node->devices; i++)
        if (run->place.devices >> i & 1)
            node->free_milli[i] = (uint16_t)(node->free_milli[i] + run->form.milli);
    node->cpu_milli += run->form.cpu_milli;
    node->memory_mib += run->form.memory_mib;
    world->used_milli -= pack_form_milli(&run->form);
    policy->left(self, world, run);
}
