#include "codec/job_work.h"
#include "codec/yaml_tree.h"
#include <string.h>

#include <xxhash.h>

#define PARAMETERS_MAX UINT64_C(1000000000000000)
#define TIME_MAX_US    INT64_C(315360000000000) /* ten years, as the core takes it */
#define RATE_MAX       INT64_C(1000000000000)   /* a million a second, in millionths */

/* In the order of the catalog, so that the order in the file does not matter. */
static void add_rate(struct job_spec *spec, uint32_t model, int64_t rate_micro)
{
    uint32_t at = spec->rate_count++;
    for (; at > 0 && spec->rates[at - 1].model > model; at--) spec->rates[at] = spec->rates[at - 1];
    spec->rates[at] = (struct job_rate){.model = model, .rate_micro = (uint64_t)rate_micro};
}

static void read_rates(const struct catalog *catalog, struct job_spec *spec, yaml_item *rates)
{
    bool runs = false;
    for (uint32_t i = 0; i < yaml_count(rates); i++) {
        uint32_t model;
        const char *name = yaml_key_at(rates, i);
        if (!catalog_find_model(catalog, name, &model)) {
            yaml_mistake(yaml_at(rates, i), "device model \"%s\" is not in the catalog",
                         yaml_show(name).text);
            continue;
        }
        int64_t rate_micro = yaml_micros(rates, name, 0, RATE_MAX, 0);
        runs = runs || rate_micro > 0;
        add_rate(spec, model, rate_micro);
    }
    if (rates != NULL && !runs)
        yaml_mistake(rates,
                     "no rate is above 0, so nothing could run it; give one, or drop the key");
}

/* "7B", "1.5B", "350M", "70000000000"; 0: it is none. */
static uint64_t read_count(const char *text)
{
    static const char units[] = "KMBT";
    uint64_t value = 0, scale = 1, unit = 1;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= PARAMETERS_MAX; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == text) return 0;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9' && scale < 1000000; at++, scale *= 10)
            value = value * 10 + (uint64_t)(*at - '0');
    const char *letter = *at == '\0' ? NULL : strchr(units, *at);
    for (const char *u = units; letter != NULL && u <= letter; u++) unit *= 1000;
    if (letter != NULL) at++;
    bool fits = *at == '\0' && value <= PARAMETERS_MAX * scale / unit;
    return fits ? value * unit / scale : 0;
}

static void read_parameters(struct job_spec *spec, yaml_item *work)
{
    const char *text = yaml_string(work, "parameters", "");
    if (text[0] == '\0') return;
    spec->parameters = read_count(text);
    if (spec->parameters == 0)
        yaml_mistake(yaml_any(work, "parameters"),
                     "expected the size of the model, like 7B or 350M, up to 1000T");
}

void job_work_read(const struct catalog *catalog, struct job_spec *spec, yaml_item *work)
{
    if (work == NULL) return;
    yaml_name(work, "name", spec->work, sizeof spec->work);
    if (spec->work[0] == '\0') memcpy(spec->work, spec->name, sizeof spec->work);
    spec->terms.run_us = yaml_duration_us(work, "time", 1000000, TIME_MAX_US, 0);
    read_parameters(spec, work);
    read_rates(catalog, spec, yaml_map(work, "rates"));
}

uint64_t job_work_id(const struct job_spec *spec)
{
    if (spec->work[0] == '\0') return 0;
    uint64_t hash = XXH3_64bits(spec->tenant, strlen(spec->tenant));
    hash = XXH3_64bits_withSeed(spec->project, strlen(spec->project), hash);
    hash = XXH3_64bits_withSeed(spec->work, strlen(spec->work), hash);
    for (uint32_t i = 0; i < spec->rate_count; i++) {
        const uint64_t rate[] = {spec->rates[i].model, spec->rates[i].rate_micro};
        hash = XXH3_64bits_withSeed(rate, sizeof rate, hash);
    }
    return hash != 0 ? hash : 1; /* 0 means none */
}

uint32_t job_work_events(const struct job_spec *spec, struct pool_event *ret_events)
{
    for (uint32_t i = 0; i < spec->rate_count; i++)
        ret_events[i] =
            (struct pool_event){.kind = POOL_EVENT_RATE_TOLD,
                                .version = POOL_CORE_VERSION,
                                .u.rate_told = {.work_id = job_work_id(spec),
                                                .model = spec->rates[i].model,
                                                .source = RATE_DECLARED,
                                                .rate_micro = spec->rates[i].rate_micro}};
    return spec->rate_count;
}
