/* Scenario files of the local driver: refused with FILE:LINE, or within every limit. */
#include "core/assert.h"
#include "driver/local_scenario.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = {""};
    struct local_scenario *s = local_scenario_parse("f.yaml", (const char *)data, size, &error);
    if (s == NULL) {
        ASSERT(strncmp(error.text, "f.yaml", 6) == 0);
        return 0;
    }
    ASSERT(s->zone_count >= 1);
    ASSERT(s->zone_count <= LOCAL_ZONES_MAX);
    ASSERT(s->event_count <= LOCAL_EVENTS_MAX);
    ASSERT(s->prices.every_us > 0);
    for (uint32_t i = 0; i < s->offer_count; i++) {
        ASSERT(s->offers[i].zone_index < s->zone_count);
        ASSERT(s->offers[i].spot_usd_micros_per_hour > 0);
        ASSERT(s->offers[i].spot_usd_micros_per_hour <= s->offers[i].on_demand_usd_micros_per_hour);
    }
    local_scenario_free(s);
    return 0;
}
