/* `buying` of a class or a pool in shoal.yaml. Described for users in docs/config.md. */
#include "codec/config.h"
#include <string.h>

static const char *const policies[BUYING_POLICY_END] = {
    [BUYING_TABLE] = "table",
    [BUYING_GREEDY] = "greedy",
    [BUYING_UNIFORM_PROGRESS] = "uniform-progress",
    [BUYING_ON_DEMAND] = "on-demand",
};

static uint32_t read_policy(yaml_item *map)
{
    const char *name = yaml_string(map, "policy", policies[BUYING_TABLE]);
    for (uint32_t i = 1; i < BUYING_POLICY_END; i++)
        if (strcmp(name, policies[i]) == 0) return i;
    if (name[0] != '\0') /* else it was noted */
        yaml_mistake(yaml_any(map, "policy"),
                     "capacity is bought by table, greedy, uniform-progress or on-demand, not "
                     "\"%s\"",
                     name);
    return 0;
}

void config_read_buying(yaml_item *owner, uint32_t scope, uint32_t index,
                        struct pool_event *ret_event)
{
    yaml_item *map = yaml_map(owner, "buying");
    *ret_event = (struct pool_event){.kind = POOL_EVENT_BUYING_DEFINED,
                                     .version = POOL_CORE_VERSION,
                                     .u.buying_defined = {.scope = scope, .index = index}};
    if (map != NULL) ret_event->u.buying_defined.policy = read_policy(map);
}
