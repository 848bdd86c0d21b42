#include "codec/rates_json.h"
#include "codec/json.h"
#include <inttypes.h>
#include <stdio.h>

enum { RATE_TEXT_BYTES = 160 };

/* "H100: 142 % of its usual speed (measured: 12.500 a second on a device)" */
static void say_rate(const struct rate_view *rate, const char *model, char text[RATE_TEXT_BYTES])
{
    bool measured = (rate->told >> RATE_MEASURED & 1) != 0;
    uint64_t milli = measured ? rate->measured_milli : rate->declared_milli;
    char source[64] = "by its NCU";
    if (rate->told != 0)
        (void)snprintf(source, sizeof source, "%s: %" PRIu64 ".%03" PRIu64 " a second on a device",
                       measured ? "measured" : "declared", milli / 1000, milli % 1000);
    if (rate->speed_ppm == 0)
        (void)snprintf(text, RATE_TEXT_BYTES, "%s: never, as declared", model);
    else
        (void)snprintf(text, RATE_TEXT_BYTES, "%s: %" PRIu64 " %% of its usual speed (%s)", model,
                       (rate->speed_ppm + 5000) / 10000, source);
}

json_t *rates_json(const struct view_names *names, const struct rate_view *rates, uint32_t count)
{
    bool failed = false;
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const char *model = rates[i].model < names->catalog->model_count
                                ? names->catalog->models[rates[i].model].name
                                : "?";
        char text[RATE_TEXT_BYTES];
        json_t *row = json_object();
        say_rate(&rates[i], model, text);
        json_set_text(row, "model", model, &failed);
        json_set_text(row, "text", text, &failed);
        json_set_u64(row, "speed_ppm", rates[i].speed_ppm, &failed);
        json_set_u64(row, "declared_milli", rates[i].declared_milli, &failed);
        json_set_u64(row, "measured_milli", rates[i].measured_milli, &failed);
        json_append(list, row, &failed);
    }
    return json_finish(list, failed);
}
