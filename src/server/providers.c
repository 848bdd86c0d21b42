#include "server/providers.h"
#include "base/log.h"
#include "core/view.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static void on_offer(void *self, const struct driver_offer *offer)
{
    struct provider *provider = self;
    provider->offer_changed(provider, offer);
}

static void on_node(void *self, const struct driver_node *node)
{
    struct provider *provider = self;
    provider->node_observed(provider, node);
}

static bool check_options(const struct config_provider *entry, const char *file,
                          struct error *ret_error)
{
    for (uint32_t i = 0; i < entry->option_count; i++)
        if (strcmp(entry->options[i].key, "scenario") != 0)
            return error_set(ret_error,
                             "%s:%u: provider %s: unknown key \"%s\"; driver %s takes \"scenario\"",
                             file, entry->line, entry->name, entry->options[i].key, entry->driver);
    return true;
}

static uint32_t list_models(const struct catalog *catalog, struct driver_model *ret_models)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < catalog->model_count; i++) {
        const struct catalog_model *model = &catalog->models[i];
        if (model->ncu_milli == 0) continue; /* a number of an older catalog */
        ret_models[count++] = (struct driver_model){
            .name = model->name, .ncu_milli = model->ncu_milli, .vram_mib = model->vram_mib};
    }
    return count;
}

static bool open_one(struct provider *provider, const struct config_provider *entry,
                     const struct providers_options *o, struct error *ret_error)
{
    char scenario[PATH_BYTES] = "", token[PATH_BYTES];
    struct driver_model models[CATALOG_MODELS_MAX];
    const char *option = config_option(entry, "scenario");
    if (!check_options(entry, o->config_file, ret_error)) return false;
    if (option != NULL && !config_path(o->config_file, option, scenario, sizeof scenario))
        return error_set(ret_error, "%s: the path is too long", option);
    int length = snprintf(token, sizeof token, "%s/agent-token", o->data_dir);
    if (length < 0 || length >= PATH_BYTES)
        return error_set(ret_error, "%s: the path is too long", o->data_dir);
    *provider = (struct provider){.name = entry->name,
                                  .server = o->server,
                                  .offer_changed = o->offer_changed,
                                  .node_observed = o->node_observed};
    const struct driver_options options = {
        .provider = entry->name,
        .scenario_file = option == NULL ? NULL : scenario,
        .data_dir = o->data_dir,
        .server_url = o->server_url,
        .agent_token_file = token,
        .models = models,
        .model_count = list_models(o->catalog, models),
        .loop = o->loop,
        .host = {.self = provider, .offer_changed = on_offer, .node_observed = on_node}};
    provider->driver = driver_open(entry->driver, &options, ret_error);
    return provider->driver != NULL ||
           error_prefix(ret_error, "%s:%u: provider %s", o->config_file, entry->line, entry->name);
}

bool providers_open(struct providers *p, const struct providers_options *options,
                    struct error *ret_error)
{
    for (uint32_t i = 0; i < options->config->provider_count; i++) {
        if (!open_one(&p->items[p->count], &options->config->providers[i], options, ret_error))
            return false;
        p->count++;
    }
    return true;
}

static struct provider *find(struct providers *p, const char *entry)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (strcmp(p->items[i].name, entry) == 0) return &p->items[i];
    return NULL;
}

void providers_run(struct providers *p, const struct offers *offers, const pool *world,
                   const struct pool_command *command)
{
    uint64_t offer_id = command->offer_id;
    struct node_view node;
    if (offer_id == 0 && pool_node_find(world, command->node_key, &node)) offer_id = node.offer_id;
    const struct offer_info *offer = offers_find(offers, offer_id);
    struct provider *provider = offer == NULL ? NULL : find(p, offer->entry);
    if (provider == NULL) {
        log_line(LOG_WARN, "providers",
                 "a node belongs to a provider that shoal.yaml no longer names; put it back to let "
                 "the node go",
                 "node=%" PRIu64 " provider=%s", command->node_key,
                 offer == NULL ? "unknown" : offer->entry);
        return;
    }
    if (command->kind == POOL_COMMAND_ENSURE_NODE)
        driver_ensure(provider->driver, command->node_key, &offer->name, command->bid_usd_micros);
    else if (command->kind == POOL_COMMAND_RELEASE_NODE)
        driver_release(provider->driver, command->node_key);
    else if (command->kind == POOL_COMMAND_OBSERVE_NODE)
        driver_observe(provider->driver, command->node_key);
}

void providers_observe_all(struct providers *p)
{
    for (uint32_t i = 0; i < p->count; i++) driver_observe_all(p->items[i].driver);
}

void providers_step_committed(struct providers *p, uint64_t job_id, uint64_t step)
{
    for (uint32_t i = 0; i < p->count; i++) driver_step_committed(p->items[i].driver, job_id, step);
}

static void on_closed(void *self)
{
    struct providers *p = self;
    if (--p->closing_count == 0) p->closed(p->closed_arg);
}

void providers_close(struct providers *p, bool release_nodes, void (*closed)(void *arg), void *arg)
{
    uint32_t count = p->count;
    p->count = 0;
    p->closed = closed;
    p->closed_arg = arg;
    p->closing_count = count + 1; /* one for this call, so that it ends only once */
    for (uint32_t i = 0; i < count; i++)
        driver_close(p->items[i].driver, release_nodes, on_closed, p);
    on_closed(p);
}
