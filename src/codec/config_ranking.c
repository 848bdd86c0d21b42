/* `ranking` of shoal.yaml: the site's own order of offers. Described for users in docs/config.md. */
#include "codec/config.h"
#include "codec/yaml_tree.h"
#include <string.h>

#define EVERY_US     INT64_C(5000000)
#define EVERY_MIN_US INT64_C(100000)
#define EVERY_MAX_US INT64_C(3600000000)
#define TIMEOUT_US   INT64_C(1000000)
#define TIMEOUT_MAX  INT64_C(60000000)

static void read_program(struct config_ranking *ranking, yaml_item *list)
{
    for (uint32_t i = 0; i < yaml_count(list); i++)
        if (!text_list_add(&ranking->command, yaml_item_string(yaml_at(list, i))))
            yaml_mistake(list, "more than %d texts or %d bytes; move some into a file",
                         TEXT_LIST_ITEMS_MAX, TEXT_LIST_BYTES_MAX);
    if (list != NULL &&
        (ranking->command.count == 0 || text_list_at(&ranking->command, 0)[0] == '\0'))
        yaml_mistake(list, "\"program\" is empty; give it and its arguments as a list");
}

static uint64_t models_of(const struct catalog *catalog, const struct config_pool *entry)
{
    uint64_t models = 0;
    char lacking[CATALOG_NAME_BYTES];
    for (uint32_t i = 0; i < catalog->model_count; i++)
        if (catalog_model_has(catalog, i, &entry->need, lacking)) models |= UINT64_C(1) << i;
    return entry->hardware_mask == 0 ? models : models & entry->hardware_mask;
}

/* Those of the pools that are named; all models without any. */
static uint64_t read_models(const struct catalog *catalog, const struct config *config,
                            yaml_item *list)
{
    uint64_t models = list == NULL ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        uint32_t index;
        yaml_item *item = yaml_at(list, i);
        if (config_find_pool(config, yaml_item_string(item), &index))
            models |= models_of(catalog, &config->pools[index]);
        else
            yaml_mistake(item, "no pool is called \"%s\"; define it under pools",
                         yaml_show(yaml_item_string(item)).text);
    }
    return models;
}

void config_read_ranking(const struct catalog *catalog, struct config *config, yaml_item *root)
{
    struct config_ranking *ranking = &config->ranking;
    struct error error;
    yaml_item *map = yaml_map(root, "ranking");
    if (map == NULL) return;
    const char *text = yaml_string(map, "expression", "");
    yaml_item *program = yaml_list(map, "program");
    ranking->every_us = yaml_duration_us(map, "every", EVERY_MIN_US, EVERY_MAX_US, EVERY_US);
    ranking->timeout_us = yaml_duration_us(map, "timeout", EVERY_MIN_US, TIMEOUT_MAX, TIMEOUT_US);
    bool learned = yaml_has(map, "learned");
    yaml_copy(map, "learned", ranking->learned, sizeof ranking->learned, "");
    ranking->model_mask = read_models(catalog, config, yaml_list(map, "pools"));
    if (yaml_has(map, "expression") + (program != NULL) + learned != 1)
        yaml_mistake(map, "a ranking is an expression, a program or learned: give one of them");
    else if (learned && ranking->learned[0] == '\0')
        yaml_mistake(yaml_any(map, "learned"),
                     "learned is the word shipped, or a file that shoal sim --train wrote");
    else if (learned)
        return;
    else if (program != NULL)
        read_program(ranking, program);
    else if (!rank_parse(text, &ranking->program, &error))
        yaml_mistake(yaml_any(map, "expression"), "the ranking \"%s\": %s", yaml_show(text).text,
                     error.text);
}
