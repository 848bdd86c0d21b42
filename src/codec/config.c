#include "codec/config.h"
#include <stdio.h>
#include <string.h>

enum {
    NODES_MAX = 131072, /* memory of the pool grows with these; see pool_size() */
    JOBS_MAX = 2000000,
    OFFERS_MAX = 2000000,
    LEASES_PER_NODE = 4, /* jobs that share a node, as in pool_config_default() */
    THRESHOLD_MIN_PPM = 10000,
    THRESHOLD_MAX_PPM = 10000000,
};
#define MATCH_ROUND_MIN_US INT64_C(1000000)
#define MATCH_ROUND_MAX_US INT64_C(86400000000) /* a day */
#define MATCH_RESTART_US   INT64_C(60000000)
#define TIME_MIN_US        INT64_C(1000)       /* 1 ms: below, timers are noise */
#define LEASE_US_DEFAULT   INT64_C(5400000000) /* 90 minutes: a server may be away for an hour */
#define TIME_MAX_US        INT64_C(30 * 86400000000) /* 30 days */

bool config_peek_catalog(const char *file, const char *text, size_t bytes,
                         char ret_path[CONFIG_TEXT_BYTES], struct error *ret_error)
{
    yaml_tree *tree = yaml_open(file, text, bytes, ret_error);
    if (tree == NULL) return false;
    yaml_item *root = yaml_root(tree);
    char path[CONFIG_TEXT_BYTES];
    yaml_copy(root, "catalog", path, sizeof path, "");
    for (uint32_t i = 0; i < yaml_count(root); i++)
        (void)yaml_key_at(root, i); /* known: not ours */
    bool good = yaml_finish(tree, ret_error);
    yaml_close(tree);
    if (good) memcpy(ret_path, path, sizeof path);
    return good;
}

static void read_listen(yaml_item *root, char ret_listen[CONFIG_TEXT_BYTES])
{
    yaml_copy(root, "listen", ret_listen, CONFIG_TEXT_BYTES, "127.0.0.1:7070");
    const char *colon = strrchr(ret_listen, ':');
    int64_t port;
    if (colon != NULL && colon != ret_listen && yaml_parse_integer(colon + 1, &port) && port >= 0 &&
        port <= 65535)
        return;
    yaml_item *item = yaml_any(root, "listen");
    if (ret_listen[0] != '\0' && item != NULL)
        yaml_mistake(item, "\"listen\" is not host:port; write it like 127.0.0.1:7070");
}

/* ---- pools ---- */

struct error *config_warning(struct config *config)
{
    if (config->warning_count == CONFIG_WARNINGS_MAX) return NULL;
    return &config->warnings[config->warning_count++];
}

static void warn_lacking(struct config *config, const char *file, yaml_item *item,
                         const char *model, const char *pool_name, const char *lacking)
{
    struct error *warning = config_warning(config);
    if (warning == NULL) return;
    (void)error_set(warning,
                    "%s:%u: %s in the hardware of %s lacks %s and is not used there; drop the "
                    "model or the capability",
                    file, yaml_line(item), model, pool_name, lacking);
}

/* Hardware that lacks what the pool requires is never used: say so now, not when a job waits. A pool
 * that has nothing else is a mistake. */
static void check_hardware(const struct catalog *catalog, struct config *config, const char *file,
                           struct config_pool *entry, yaml_item *list)
{
    for (int pass = 0; pass < 2; pass++) { /* first which ones lack something, then what is said */
        for (uint32_t i = 0; i < yaml_count(list); i++) {
            yaml_item *item = yaml_at(list, i);
            char lacking[CATALOG_NAME_BYTES];
            uint32_t model;
            if (!catalog_find_model(catalog, yaml_item_string(item), &model)) continue; /* noted */
            if (catalog_model_has(catalog, model, &entry->need, lacking)) continue;
            const char *name = catalog->models[model].name;
            if (pass == 0)
                entry->lacking_mask |= UINT64_C(1) << model;
            else if (entry->lacking_mask == entry->hardware_mask)
                yaml_mistake(item,
                             "%s in the hardware of %s lacks %s; drop the model or the capability",
                             name, entry->name, lacking);
            else
                warn_lacking(config, file, item, name, entry->name, lacking);
        }
    }
}

static void read_use_cases(struct config_pool *entry, yaml_item *list)
{
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *item = yaml_at(list, i);
        if (entry->use_case_count == CONFIG_USE_CASES_MAX) {
            yaml_mistake(item, "more than %d use_cases; drop some", CONFIG_USE_CASES_MAX);
            return;
        }
        if (yaml_copy_name(item, yaml_item_string(item), entry->use_cases[entry->use_case_count],
                           CONFIG_NAME_BYTES))
            entry->use_case_count++;
    }
}

static void read_pool(const struct catalog *catalog, struct config *config, const char *file,
                      struct config_pool *entry, yaml_item *map)
{
    entry->need = catalog_read_need(catalog, yaml_list(map, "capabilities"));
    yaml_item *hardware = yaml_list(map, "hardware");
    entry->hardware_mask = catalog_read_models(catalog, hardware);
    check_hardware(catalog, config, file, entry, hardware);
    read_use_cases(entry, yaml_list(map, "use_cases"));
    config_read_gates(map, GATE_OF_POOL, 0, &entry->gate);
    config_read_buying(map, BUYING_OF_POOL, 0, &entry->buying);
    entry->price_threshold_ppm =
        (uint32_t)yaml_micros(map, "price_threshold", THRESHOLD_MIN_PPM, THRESHOLD_MAX_PPM, 0);
    config_check_prices(catalog, config, file, entry->name, entry->price_threshold_ppm,
                        yaml_any(map, "price_threshold"), entry->hardware_mask, map,
                        &entry->buying);
}

static void read_pools(const struct catalog *catalog, struct config *config, const char *file,
                       yaml_item *map)
{
    for (uint32_t i = 0; i < yaml_count(map); i++) {
        yaml_item *item = yaml_at(map, i);
        if (config->pool_count == CONFIG_POOLS_MAX) {
            yaml_mistake(item, "more than %d pools; merge some", CONFIG_POOLS_MAX);
            return;
        }
        struct config_pool *entry = &config->pools[config->pool_count];
        if (!yaml_copy_name(item, yaml_key_at(map, i), entry->name, sizeof entry->name)) continue;
        config->pool_count++;
        read_pool(catalog, config, file, entry, yaml_item_map(item));
    }
}

/* ---- providers ---- */

static void read_option(struct config_provider *provider, yaml_item *item, const char *key)
{
    if (provider->option_count == CONFIG_OPTIONS_MAX) {
        yaml_mistake(item, "more than %d options; drop some", CONFIG_OPTIONS_MAX);
        return;
    }
    struct config_option *option = &provider->options[provider->option_count];
    const char *value = yaml_item_string(item);
    if (strlen(value) >= sizeof option->value)
        yaml_mistake(item, "the value is longer than %zu bytes; shorten it",
                     sizeof option->value - 1);
    else if (yaml_copy_name(item, key, option->key, sizeof option->key))
        provider->option_count++, (void)strcpy(option->value, value); /* it fits */
}

static void read_provider(struct config_provider *provider, yaml_item *map)
{
    provider->line = yaml_line(map);
    (void)yaml_require(map, "name");   /* noted */
    (void)yaml_require(map, "driver"); /* noted */
    yaml_name(map, "name", provider->name, sizeof provider->name);
    yaml_name(map, "driver", provider->driver, sizeof provider->driver);
    for (uint32_t i = 0; i < yaml_count(map); i++) {
        const char *key = yaml_key_at(map, i);
        if (strcmp(key, "name") != 0 && strcmp(key, "driver") != 0)
            read_option(provider, yaml_at(map, i), key);
    }
}

static void read_providers(struct config *config, yaml_item *list)
{
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *item = yaml_item_map(yaml_at(list, i));
        if (item == NULL) continue; /* noted */
        if (config->provider_count == CONFIG_PROVIDERS_MAX) {
            yaml_mistake(item, "more than %d providers; drop some", CONFIG_PROVIDERS_MAX);
            return;
        }
        struct config_provider *provider = &config->providers[config->provider_count];
        read_provider(provider, item);
        for (uint32_t j = 0; j < config->provider_count; j++)
            if (strcmp(config->providers[j].name, provider->name) == 0)
                yaml_mistake(item, "two providers are called \"%s\"; rename one", provider->name);
        config->provider_count++;
    }
}

/* ---- limits, timing ---- */

static void read_limits(struct pool_config *settings, yaml_item *map)
{
    struct pool_limits *limits = &settings->limits;
    uint32_t nodes_before = limits->nodes_max;
    limits->nodes_max = (uint32_t)yaml_integer(map, "nodes", 1, NODES_MAX, limits->nodes_max);
    limits->jobs_max = (uint32_t)yaml_integer(map, "jobs", 1, JOBS_MAX, limits->jobs_max);
    limits->offers_max = (uint32_t)yaml_integer(map, "offers", 1, OFFERS_MAX, limits->offers_max);
    if (limits->nodes_max != nodes_before) limits->leases_max = limits->nodes_max * LEASES_PER_NODE;
    settings->worker_failures_max =
        (uint32_t)yaml_integer(map, "worker_failures", 1, 1000, settings->worker_failures_max);
}

static int64_t read_time(yaml_item *map, const char *key, int64_t absent)
{
    return yaml_duration_us(map, key, TIME_MIN_US, TIME_MAX_US, absent);
}

/* 0: never. */
static int64_t read_patience(yaml_item *map, const char *key, int64_t absent)
{
    return yaml_duration_or_us(map, key, "never", TIME_MIN_US, TIME_MAX_US, absent);
}

/* Two different times: how long the server believes in a silent agent, and how long an agent goes
 * on without the server. The second bounds a leak, the first only how fast a loss is noticed. */
static void read_lease(struct config *config, yaml_item *map)
{
    int64_t least_us = config->pool.agent_lease_us;
    config->lease_us =
        read_time(map, "lease", least_us > LEASE_US_DEFAULT ? least_us : LEASE_US_DEFAULT);
    if (config->lease_us < config->pool.agent_lease_us)
        yaml_mistake(
            map,
            "lease must not be below agent_lease: agents would stop while they are believed in");
}

static void read_timing(struct pool_config *settings, yaml_item *map)
{
    settings->agent_lease_us = read_time(map, "agent_lease", settings->agent_lease_us);
    settings->boot_timeout_us = read_time(map, "boot_timeout", settings->boot_timeout_us);
    settings->drain_us = read_time(map, "drain", settings->drain_us);
    settings->idle_release_us = read_time(map, "idle_release", settings->idle_release_us);
    settings->ask_again_us = read_time(map, "ask_again", settings->ask_again_us);
    settings->refused_backoff_us = read_time(map, "refused_backoff", settings->refused_backoff_us);
    settings->replace_stalled_us =
        read_patience(map, "replace_stalled", settings->replace_stalled_us);
    settings->replace_slow_us = read_patience(map, "replace_slow", settings->replace_slow_us);
}

static void read_matching(struct config *config, yaml_item *map)
{
    config->matching =
        (struct pool_event){.kind = POOL_EVENT_MATCHING_DEFINED, .version = POOL_CORE_VERSION};
    config->matching.u.matching_defined.round_us =
        yaml_duration_or_us(map, "round", "off", MATCH_ROUND_MIN_US, MATCH_ROUND_MAX_US, 0);
    config->matching.u.matching_defined.restart_us =
        yaml_duration_us(map, "restart", 0, MATCH_ROUND_MAX_US, MATCH_RESTART_US);
}

bool config_parse(const struct catalog *catalog, const char *file, const char *text, size_t bytes,
                  struct config *ret_config, struct error *ret_error)
{
    yaml_tree *tree = yaml_open(file, text, bytes, ret_error);
    if (tree == NULL) return false;
    yaml_item *root = yaml_root(tree);
    memset(ret_config, 0, sizeof *ret_config);
    pool_config_default(&ret_config->pool);
    read_listen(root, ret_config->listen);
    yaml_copy(root, "data", ret_config->data, sizeof ret_config->data, "shoal-data");
    yaml_copy(root, "catalog", ret_config->catalog, sizeof ret_config->catalog, "");
    read_pools(catalog, ret_config, file, yaml_map(root, "pools"));
    read_providers(ret_config, yaml_list(root, "providers"));
    config_read_classes(catalog, ret_config, file, root);
    config_read_tenants(catalog, ret_config, root);
    config_read_ranking(catalog, ret_config, root);
    read_matching(ret_config, yaml_map(root, "matching"));
    read_limits(&ret_config->pool, yaml_map(root, "limits"));
    yaml_item *timing = yaml_map(root, "timing");
    read_timing(&ret_config->pool, timing);
    read_lease(ret_config, timing);
    bool good = yaml_finish(tree, ret_error);
    yaml_close(tree);
    return good;
}

/* ---- use ---- */

bool config_find_pool(const struct config *config, const char *name, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < config->pool_count; i++) {
        if (strcmp(config->pools[i].name, name) != 0) continue;
        *ret_index = i;
        return true;
    }
    return false;
}

const char *config_option(const struct config_provider *provider, const char *key)
{
    for (uint32_t i = 0; i < provider->option_count; i++)
        if (strcmp(provider->options[i].key, key) == 0) return provider->options[i].value;
    return NULL;
}

void config_pool_event(const struct config_pool *entry, uint32_t pool_id,
                       struct pool_event *ret_event)
{
    struct pool_event event = {.kind = POOL_EVENT_POOL_DEFINED, .version = POOL_CORE_VERSION};
    event.u.pool_defined.capability_mask = entry->need.capability_mask;
    event.u.pool_defined.hardware_mask = entry->hardware_mask;
    event.u.pool_defined.pool = pool_id;
    event.u.pool_defined.vram_min_mib = entry->need.vram_min_mib;
    event.u.pool_defined.price_threshold_ppm = entry->price_threshold_ppm;
    *ret_event = event;
}

bool config_path(const char *file, const char *path, char *ret_path, size_t bytes)
{
    const char *slash = strrchr(file, '/');
    int folder = path[0] == '/' || slash == NULL ? 0 : (int)(slash - file + 1);
    int length = snprintf(ret_path, bytes, "%.*s%s", folder, file, path);
    return length >= 0 && (size_t)length < bytes;
}
