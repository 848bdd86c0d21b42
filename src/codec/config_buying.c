/* `buying` of a class or a pool in shoal.yaml. Described for users in docs/config.md. */
#include "codec/config.h"
#include "core/limits.h"
#include <inttypes.h>
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
    ret_event->u.buying_defined.bid_usd_micros =
        yaml_micros(map, "bid", 1, PRICE_MAX_USD_MICROS, 0);
    uint32_t threshold_ppm =
        (uint32_t)yaml_micros(map, "price_threshold", THRESHOLD_MIN_PPM, THRESHOLD_MAX_PPM, 0);
    if (scope == BUYING_OF_CLASS)
        ret_event->u.buying_defined.price_threshold_ppm = threshold_ppm;
    else if (threshold_ppm != 0)
        yaml_mistake(yaml_any(map, "price_threshold"),
                     "the threshold of a pool is its own key; move price_threshold out of buying");
}

static int64_t dearest_of(const struct catalog *catalog, uint64_t models)
{
    int64_t dearest = 0;
    for (uint32_t i = 0; i < catalog->model_count; i++) {
        if (models != 0 && (models >> i & 1) == 0) continue;
        int64_t price = catalog->models[i].usd_micros_per_hour;
        if (price > dearest) dearest = price;
    }
    return dearest == 0 ? INT64_MAX : dearest; /* nobody knows */
}

void config_check_prices(const struct catalog *catalog, struct config *config, const char *file,
                         const char *name, uint32_t threshold_ppm, const yaml_item *threshold,
                         uint64_t models, yaml_item *owner, const struct pool_event *buying)
{
    struct error *warning;
    if (threshold_ppm > THRESHOLD_PPM_NONE && (warning = config_warning(config)) != NULL)
        (void)error_set(warning,
                        "%s:%u: price_threshold of %s is above 1: its jobs keep spot that is "
                        "dearer than on demand; give 1 or less",
                        file, yaml_line(threshold), name);
    int64_t bid = buying->u.buying_defined.bid_usd_micros, dearest = dearest_of(catalog, models);
    if (bid <= dearest || (warning = config_warning(config)) == NULL) return;
    (void)error_set(warning,
                    "%s:%u: bid of %s is above the list price on demand of every model it may use, "
                    "at most $%" PRId64 ".%02" PRId64 "/h a device; bid that or less",
                    file, yaml_line(yaml_any(yaml_map(owner, "buying"), "bid")), name,
                    dearest / 1000000, dearest % 1000000 / 10000);
}
