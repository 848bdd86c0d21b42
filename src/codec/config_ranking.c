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

void config_read_ranking(struct config *config, yaml_item *root)
{
    struct config_ranking *ranking = &config->ranking;
    struct error error;
    yaml_item *map = yaml_map(root, "ranking");
    if (map == NULL) return;
    const char *text = yaml_string(map, "expression", "");
    yaml_item *program = yaml_list(map, "program");
    ranking->every_us = yaml_duration_us(map, "every", EVERY_MIN_US, EVERY_MAX_US, EVERY_US);
    ranking->timeout_us = yaml_duration_us(map, "timeout", EVERY_MIN_US, TIMEOUT_MAX, TIMEOUT_US);
    if (yaml_has(map, "expression") == (program != NULL))
        yaml_mistake(map, "a ranking is an expression or a program: give one of them");
    else if (program != NULL)
        read_program(ranking, program);
    else if (!rank_parse(text, &ranking->program, &error))
        yaml_mistake(yaml_any(map, "expression"), "the ranking \"%s\": %s", yaml_show(text).text,
                     error.text);
}
