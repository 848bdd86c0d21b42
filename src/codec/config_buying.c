/* `buying` of a class or a pool in shoal.yaml. Described for users in docs/config.md. */
#include "codec/config.h"
#include <string.h>

enum { THRESHOLD_MIN_PPM = 10000, THRESHOLD_MAX_PPM = 10000000 };
#define PRICE_MAX_USD_MICROS INT64_C(10000000000) /* $10 000 a device-hour */

static const char *const policies[BUYING_POLICY_END] = {
    [BUYING_TABLE] = "table",
    [BUYING_GREEDY] = "greedy",
    [BUYING_UNIFORM_PROGRESS] = "uniform-progress",
    [BUYING_ON_DEMAND] = "on-demand",
};

static uint32_t read_policy(yaml_item *map)
{
    const char *name = yaml_string(map, "policy", "");
    if (!yaml_has(map, "policy")) return 0;
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
    if (map == NULL) return;
    ret_event->u.buying_defined.policy = read_policy(map);
    ret_event->u.buying_defined.device_usd_micros_max =
        yaml_micros(map, "max_price", 1, PRICE_MAX_USD_MICROS, 0);
    uint32_t threshold_ppm =
        (uint32_t)yaml_micros(map, "price_threshold", THRESHOLD_MIN_PPM, THRESHOLD_MAX_PPM, 0);
    if (scope == BUYING_OF_CLASS)
        ret_event->u.buying_defined.price_threshold_ppm = threshold_ppm;
    else if (threshold_ppm != 0)
        yaml_mistake(yaml_any(map, "price_threshold"),
                     "the threshold of a pool is its own key; move price_threshold out of buying");
}
