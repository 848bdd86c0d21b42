#include "whatif/scene.h"
#include "base/mem.h"
#include "whatif/scene_get.h"
#include <stdio.h>
#include <string.h>

struct scene *scene_new(void)
{
    return mem_zalloc(1, sizeof(struct scene));
}

void scene_close(struct scene *scene)
{
    if (scene == NULL) return;
    for (uint32_t i = 0; i < scene->offer_count; i++) {
        series_free(&scene->offers[i].price.series);
        series_free(&scene->offers[i].up);
    }
    for (uint32_t i = 0; i < scene->job_count; i++) arrivals_free(&scene->jobs[i].arrivals);
    mem_free(scene);
}

uint32_t scene_speed_milli(const struct scene *scene, const struct scene_job *job, uint32_t model)
{
    return job->speed_milli[model] > 0 ? job->speed_milli[model]
                                       : scene->catalog.models[model].ncu_milli;
}

static void read_models(struct scene_reader *r, yaml_item *models)
{
    struct catalog *catalog = &r->scene->catalog;
    for (uint32_t i = 0; i < yaml_count(models); i++) {
        yaml_item *map = yaml_item_map(yaml_at(models, i));
        const char *name = yaml_key_at(models, i);
        char path[SCENE_PATH_BYTES], copy[CATALOG_NAME_BYTES];
        uint32_t index = 0;
        if (!yaml_copy_name(map, name, copy, sizeof copy)) continue;
        get_path(map, "models", copy, path);
        if (!catalog_find_model(catalog, copy, &index)) {
            if (!catalog_reserve_model(catalog, copy)) {
                yaml_mistake(map, "more than %d models", CATALOG_MODELS_MAX);
                return;
            }
            index = catalog->model_count - 1;
        }
        struct catalog_model *m = &catalog->models[index];
        if (m->ncu_milli == 0) (void)yaml_require(map, "ncu");
        m->ncu_milli =
            (uint32_t)(get_micros(r, map, path, "ncu", 1000, 1000 * PPM,
                                  m->ncu_milli == 0 ? PPM : m->ncu_milli * INT64_C(1000)) /
                       1000);
    }
}

static struct scene_net read_net(struct scene_reader *r, yaml_item *map, const char *key)
{
    char path[SCENE_PATH_BYTES];
    yaml_item *net = yaml_map(map, key);
    get_path(net, "network", key, path);
    return (struct scene_net){.exchange_us = get_us(r, net, path, "exchange", 0, 60 * PPM, 0),
                              .jitter_ppm = get_micros(r, net, path, "jitter", 0, 3 * PPM, 0)};
}

static void read_pool(struct scene_reader *r, yaml_item *map)
{
    struct scene *s = r->scene;
    s->threshold_ppm = get_micros(r, map, "pool", "threshold", 1000, 10 * PPM, PPM);
    s->idle_release_us = get_us(r, map, "pool", "idle_release", 0, YEARS_US, 60 * PPM);
    s->drain_us = get_us(r, map, "pool", "drain", 0, DAY_US, 30 * PPM);
    s->worker_start_us = get_us(r, map, "pool", "worker_start", 0, DAY_US, 10 * PPM);
    s->handover_us = get_us(r, map, "pool", "handover", 0, DAY_US, 2 * PPM);
    s->rematch_us = get_us(r, map, "pool", "rematch", 0, YEARS_US, 0);
    s->boot_timeout_us = get_us(r, map, "pool", "boot_timeout", PPM, YEARS_US, 600 * PPM);
    config_read_buying(map, BUYING_OF_CLASS, 0, &s->buying);
}

static void read_seeds(struct scene *s, yaml_item *root)
{
    yaml_item *seeds = yaml_map(root, "seeds");
    s->first_seed = (uint32_t)yaml_integer(seeds, "from", 0, UINT32_MAX - 1, 1);
    s->last_seed = (uint32_t)yaml_integer(seeds, "to", 0, UINT32_MAX - 1, s->first_seed + 9);
    if (s->last_seed < s->first_seed) yaml_mistake(seeds, "seeds: from is above to");
}

static void read_stop(struct scene *s, yaml_item *root)
{
    const char *group = yaml_string(root, "stop_after", "");
    for (uint32_t i = 0; i < s->group_count; i++)
        if (strcmp(s->groups[i], group) == 0) s->stop_group = i + 1;
    if (group[0] != '\0' && s->stop_group == 0)
        yaml_mistake(yaml_any(root, "stop_after"), "no job is of a group \"%s\"", group);
}

static void read_root(struct scene_reader *r, yaml_item *root)
{
    struct scene *s = r->scene;
    (void)yaml_require(root, "offers");
    (void)yaml_require(root, "jobs");
    yaml_copy(root, "name", s->name, sizeof s->name, "");
    s->horizon_us = get_us(r, root, "", "horizon", 1000000, YEARS_US, 30 * DAY_US);
    s->trace_shift_us = get_us(r, root, "", "trace_shift", 0, YEARS_US, 0);
    read_seeds(s, root);
    read_models(r, yaml_map(root, "models"));
    yaml_item *network = yaml_map(root, "network");
    s->near = read_net(r, network, "same_region");
    s->far = read_net(r, network, "cross_region");
    yaml_item *stragglers = yaml_map(root, "stragglers");
    s->straggler_mean_us = get_us(r, stragglers, "stragglers", "every", 1000000, YEARS_US, 0);
    s->straggler_us = get_us(r, stragglers, "stragglers", "last", 1000000, YEARS_US, 3600 * PPM);
    s->straggler_ppm = get_micros(r, stragglers, "stragglers", "speed", 10000, PPM, PPM / 2);
    read_pool(r, yaml_map(root, "pool"));
    scene_read_offers(r, yaml_list(root, "offers"));
    scene_read_jobs(r, yaml_list(root, "jobs"));
    read_stop(s, root);
    scene_read_cases(r, yaml_list(root, "cases"));
    scene_read_claims(r, yaml_list(root, "claims"));
}

static bool all_used(const struct scene_reader *r, struct error *ret_error)
{
    if (r->set_error.text[0] != '\0') return error_set(ret_error, "%s", r->set_error.text);
    const char *paths[SCENE_LINES_MAX];
    for (uint32_t i = 0; i < r->scene->line_count; i++) paths[i] = r->scene->lines[i].path;
    for (uint32_t i = 0; i < r->set_count; i++) {
        if (r->used[i]) continue;
        const char *near = yaml_nearest(r->sets[i].path, paths, r->scene->line_count);
        return error_set(ret_error, "--set %s: %s has no such number%s%s", r->sets[i].path, r->file,
                         near == NULL ? "" : "; perhaps ", near == NULL ? "" : near);
    }
    return true;
}

bool scene_read(struct scene *scene, const char *file, const char *folder, const char *text,
                size_t bytes, const struct scene_set *sets, uint32_t set_count,
                struct error *ret_error)
{
    struct scene_reader r = {
        .scene = scene, .file = file, .folder = folder, .sets = sets, .set_count = set_count};
    if (set_count > SCENE_SETS_MAX)
        return error_set(ret_error, "more than %d settings", SCENE_SETS_MAX);
    if (!catalog_parse_shipped(&scene->catalog, ret_error)) return false;
    scene->providers.count = scene->regions.count = scene->zones.count = 1;
    r.tree = yaml_open(file, text, bytes, ret_error);
    if (r.tree == NULL) return false;
    read_root(&r, yaml_root(r.tree));
    bool good = yaml_finish(r.tree, ret_error);
    yaml_close(r.tree);
    return good && all_used(&r, ret_error) && scene_check_demand(scene, ret_error);
}
