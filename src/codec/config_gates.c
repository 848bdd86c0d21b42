/* `gates` of a class, a pool or an account in shoal.yaml. Described for users in docs/config.md. */
#include "codec/config.h"
#include <string.h>

#define USD_MAX INT64_C(1000000000000000) /* $1 billion */

void config_read_gates(yaml_item *owner, uint32_t scope, uint32_t index,
                       struct pool_event *ret_event)
{
    static const char *const limits[] = {"usd_per_hour", "usd_per_job", "usd_per_month"};
    yaml_item *map = yaml_map(owner, "gates");
    *ret_event = (struct pool_event){0};
    if (map == NULL) return;
    int64_t usd_micros[3];
    bool any = false;
    for (uint32_t i = 0; i < 3; i++) {
        usd_micros[i] = yaml_micros(map, limits[i], 0, USD_MAX, GATE_NONE);
        any |= yaml_has(map, limits[i]);
    }
    if (!any)
        yaml_mistake(map, "gates limit nothing: give usd_per_hour, usd_per_job or usd_per_month");
    const char *above = yaml_string(map, "above", "wait");
    if (strcmp(above, "wait") != 0 && strcmp(above, "refuse") != 0)
        yaml_mistake(yaml_any(map, "above"), "above a gate a job can wait or refuse, not \"%s\"",
                     above);
    *ret_event = (struct pool_event){.kind = POOL_EVENT_GATE_DEFINED,
                                     .u.gate_defined = {.scope = scope,
                                                        .index = index,
                                                        .usd_micros_per_hour_max = usd_micros[0],
                                                        .usd_micros_per_job_max = usd_micros[1],
                                                        .usd_micros_per_month_max = usd_micros[2],
                                                        .refuses = strcmp(above, "refuse") == 0}};
}

void config_no_gate(uint32_t scope, uint32_t index, struct pool_event *ret_event)
{
    *ret_event = (struct pool_event){.kind = POOL_EVENT_GATE_DEFINED,
                                     .u.gate_defined = {.scope = scope,
                                                        .index = index,
                                                        .usd_micros_per_hour_max = GATE_NONE,
                                                        .usd_micros_per_job_max = GATE_NONE,
                                                        .usd_micros_per_month_max = GATE_NONE}};
}
