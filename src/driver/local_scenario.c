#include "driver/local_scenario.h"
#include "base/mem.h"
#include "codec/config.h"
#include "codec/names.h"
#include "codec/yaml.h"
#include "core/limits.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US           INT64_C(1000000)
#define HOUR_US             INT64_C(3600000000)
#define YEAR_US             (365 * 24 * HOUR_US)
#define LOCAL_PRICE_MAX     INT64_C(1000000000) /* $1000 an hour: above is a mistake */
#define DATA_FOLDER_DEFAULT "../shared/data"
#define SPEEDUP_MAX         1000000

static double decimal(yaml_item *map, const char *key, double min, double max, double absent)
{
    if (!yaml_has(map, key)) return absent;
    return (double)yaml_micros(map, key, (int64_t)(min * 1e6), (int64_t)(max * 1e6), 0) / 1e6;
}

static void read_zone(struct local_scenario *s, yaml_item *zones, uint32_t index)
{
    const char *name = yaml_key_at(zones, index);
    yaml_item *item = yaml_item_map(yaml_at(zones, index));
    if (s->zone_count == LOCAL_ZONES_MAX) {
        yaml_mistake(item, "more than %d zones; take some out", LOCAL_ZONES_MAX);
        return;
    }
    struct local_zone *zone = &s->zones[s->zone_count++];
    const char *slash = strchr(name, '/');
    if (slash == NULL || slash == name || slash[1] == '\0' || strlen(name) >= sizeof zone->name)
        yaml_mistake(item, "zone \"%.80s\": expected CLOUD/ZONE, at most %d characters", name,
                     DRIVER_NAME_BYTES - 1);
    else {
        (void)snprintf(zone->name, sizeof zone->name, "%s", name);
        (void)snprintf(zone->provider, sizeof zone->provider, "%.*s", (int)(slash - name), name);
    }
    (void)yaml_require(item, "region");
    yaml_copy(item, "region", zone->region, sizeof zone->region, "");
    zone->notice_us = yaml_duration_us(item, "notice", 0, HOUR_US, 0);
    yaml_item *boot = yaml_map(item, "boot");
    zone->boot_min_us = yaml_duration_us(boot, "min", 0, HOUR_US, 500000);
    zone->boot_max_us = yaml_duration_us(boot, "max", 0, HOUR_US, 2000000);
    if (zone->boot_max_us < zone->boot_min_us)
        yaml_mistake(boot, "boot: max is below min; swap them");
}

static int32_t find_zone(const struct local_scenario *s, const char *name)
{
    for (uint32_t i = 0; i < s->zone_count; i++)
        if (strcmp(s->zones[i].name, name) == 0) return (int32_t)i;
    return -1;
}

/* A zone that the file names elsewhere: must be one of `zones`. */
static int32_t require_zone(const struct local_scenario *s, yaml_item *item, const char *name)
{
    int32_t index = find_zone(s, name);
    if (index >= 0 || name[0] == '\0') return index;
    const char *known[LOCAL_ZONES_MAX];
    for (uint32_t i = 0; i < s->zone_count; i++) known[i] = s->zones[i].name;
    const char *nearest = yaml_nearest(name, known, s->zone_count);
    if (nearest != NULL)
        yaml_mistake(item, "unknown zone \"%s\"; did you mean \"%s\"?", name, nearest);
    else
        yaml_mistake(item, "unknown zone \"%s\"; add it under zones", name);
    return -1;
}

static void read_offer_prices(struct local_offer *offer, yaml_item *item, bool replayed)
{
    (void)yaml_require(item, "on_demand");
    offer->on_demand_usd_micros_per_hour = yaml_micros(item, "on_demand", 1, LOCAL_PRICE_MAX, 1);
    int64_t on_demand = offer->on_demand_usd_micros_per_hour;
    if (offer->capacity == CAPACITY_SPOT && !replayed) (void)yaml_require(item, "spot");
    offer->spot_usd_micros_per_hour = yaml_micros(item, "spot", 1, LOCAL_PRICE_MAX, on_demand);
    if (offer->spot_usd_micros_per_hour > on_demand)
        yaml_mistake(item, "spot is above on_demand; lower it, spot is never dearer");
}

static uint32_t read_billing(yaml_item *item)
{
    int64_t unit_us = yaml_duration_us(item, "billing", SECOND_US, BILLING_S_MAX * SECOND_US, 0);
    if (unit_us % SECOND_US != 0)
        yaml_mistake(yaml_any(item, "billing"),
                     "billing goes by whole seconds; write 1s, 60s or 1h");
    return (uint32_t)(unit_us / SECOND_US);
}

static void read_offer(struct local_scenario *s, yaml_item *item)
{
    if (s->offer_count == LOCAL_OFFERS_MAX) {
        yaml_mistake(item, "more than %d offers; take some out", LOCAL_OFFERS_MAX);
        return;
    }
    struct local_offer *offer = &s->offers[s->offer_count];
    char zone[DRIVER_NAME_BYTES];
    (void)yaml_require(item, "zone");
    yaml_copy(item, "zone", zone, sizeof zone, "");
    int32_t zone_index = require_zone(s, item, zone);
    offer->zone_index = zone_index < 0 ? 0 : (uint32_t)zone_index;
    (void)yaml_require(item, "model");
    yaml_copy(item, "model", offer->model, sizeof offer->model, "");
    offer->device_count = (uint32_t)yaml_integer(item, "devices", 1, 64, 1);
    yaml_copy(item, "rack", offer->rack, sizeof offer->rack, "");
    (void)yaml_require(item, "kind");
    const char *kind = yaml_string(item, "kind", "spot");
    if (!find_capacity(kind, &offer->capacity))
        yaml_mistake(item, "kind \"%s\" is none of owned, reserved, on_demand, spot", kind);
    offer->stock_count = (uint32_t)yaml_integer(item, "stock", 0, LOCAL_NODES_PER_OFFER_MAX, 1);
    yaml_copy(item, "price_series", offer->price_series, sizeof offer->price_series, "");
    yaml_copy(item, "availability_series", offer->availability_series,
              sizeof offer->availability_series, "");
    offer->billing_s = read_billing(item);
    read_offer_prices(offer, item, offer->price_series[0] != '\0');
    for (uint32_t i = 0; i < s->offer_count; i++) {
        const struct local_offer *other = &s->offers[i];
        if (other->zone_index == offer->zone_index && other->capacity == offer->capacity &&
            other->device_count == offer->device_count && strcmp(other->model, offer->model) == 0 &&
            strcmp(other->rack, offer->rack) == 0)
            yaml_mistake(item,
                         "the same zone, rack, model, devices and kind as offer %u; merge them",
                         i + 1);
    }
    s->offer_count++;
}

static void read_prices(struct local_prices *p, yaml_item *item)
{
    local_prices_default(p);
    p->every_us = yaml_duration_us(item, "every", 10000, HOUR_US, p->every_us);
    p->reversion = decimal(item, "reversion", 0, 1, p->reversion);
    p->volatility = decimal(item, "volatility", 0, 2, p->volatility);
    p->change_share = decimal(item, "change_share", 0, 1, p->change_share);
    p->spike_share = decimal(item, "spike_share", 0, 1, p->spike_share);
    p->spike_ticks_mean = decimal(item, "spike_ticks", 1, 1000000, p->spike_ticks_mean);
    yaml_item *factor = yaml_map(item, "spike_factor");
    p->spike_factor_min = decimal(factor, "min", 1, 100, p->spike_factor_min);
    p->spike_factor_max = decimal(factor, "max", 1, 100, p->spike_factor_max);
    if (p->spike_factor_max < p->spike_factor_min)
        yaml_mistake(factor, "spike_factor: max is below min; swap them");
}

static void read_preemptions(struct local_preemptions *p, yaml_item *item)
{
    local_preemptions_default(p);
    p->mean_life_us = yaml_duration_us(item, "mean_life", 0, YEAR_US, p->mean_life_us);
    p->life_shape = decimal(item, "heavy_tail", 0.2, 5, p->life_shape);
    p->without_notice_share = decimal(item, "without_notice", 0, 1, p->without_notice_share);
    p->mean_outage_us = yaml_duration_us(item, "mean_outage", 0, YEAR_US, p->mean_outage_us);
    p->outage_shape = decimal(item, "outage_tail", 0.2, 5, p->outage_shape);
}

static void read_target(const struct local_scenario *s, struct local_event *event, yaml_item *item)
{
    yaml_copy(item, "zone", event->zone, sizeof event->zone, "");
    yaml_copy(item, "model", event->model, sizeof event->model, "");
    (void)require_zone(s, item, event->zone);
}

static void read_preempt(struct local_event *event, yaml_item *item)
{
    event->kind = LOCAL_EVENT_PREEMPT;
    event->notice_us = yaml_duration_us(item, "notice", 0, HOUR_US, 0);
    event->count = (uint32_t)yaml_integer(item, "count", 1, LOCAL_NODES_PER_OFFER_MAX, 1);
    const char *during = yaml_string(item, "during", "");
    event->during_reduce = strcmp(during, "reduce") == 0;
    if (during[0] != '\0' && !event->during_reduce)
        yaml_mistake(item, "during \"%s\": only \"reduce\" is known", during);
    if (event->during_reduce && event->notice_us > 0)
        yaml_mistake(item, "during: reduce kills without notice; drop `notice`");
}

static void read_price(struct local_event *event, yaml_item *item)
{
    event->kind = LOCAL_EVENT_PRICE;
    event->usd_micros_per_hour = yaml_micros(item, "usd_per_hour", 1, LOCAL_PRICE_MAX, 0);
    event->share_ppm = yaml_micros(item, "share", 1, 1000000, 0);
    event->for_us = yaml_duration_us(item, "for", 1, YEAR_US, 0);
    if ((event->usd_micros_per_hour == 0) == (event->share_ppm == 0))
        yaml_mistake(item, "price: give either usd_per_hour or share (of on demand)");
}

static void read_stock(struct local_event *event, yaml_item *item)
{
    event->kind = LOCAL_EVENT_STOCK;
    (void)yaml_require(item, "count");
    event->stock_count = (uint32_t)yaml_integer(item, "count", 0, LOCAL_NODES_PER_OFFER_MAX, 0);
    event->for_us = yaml_duration_us(item, "for", 1, YEAR_US, 0);
}

static void read_event(struct local_scenario *s, yaml_item *item)
{
    if (s->event_count == LOCAL_EVENTS_MAX) {
        yaml_mistake(item, "more than %d events; take some out", LOCAL_EVENTS_MAX);
        return;
    }
    struct local_event *event = &s->events[s->event_count++];
    if (yaml_has(item, "at") == yaml_has(item, "at_step"))
        yaml_mistake(item, "give either `at` (a duration) or `at_step`");
    event->at_us = yaml_duration_us(item, "at", 0, YEAR_US, -1);
    event->at_step = (uint64_t)yaml_integer(item, "at_step", 0, INT64_MAX, 0);
    yaml_item *preempt = yaml_map(item, "preempt"), *price = yaml_map(item, "price"),
              *stock = yaml_map(item, "stock");
    if ((preempt != NULL) + (price != NULL) + (stock != NULL) != 1)
        yaml_mistake(item, "an event is one of `preempt`, `price` and `stock`");
    if (preempt != NULL) read_preempt(event, preempt);
    if (price != NULL) read_price(event, price);
    if (stock != NULL) read_stock(event, stock);
    read_target(s, event, preempt != NULL ? preempt : price != NULL ? price : stock);
}

static void read_replay(struct local_scenario *s, yaml_item *item)
{
    yaml_copy(item, "prices", s->price_file, sizeof s->price_file, "");
    yaml_copy(item, "availability", s->availability_file, sizeof s->availability_file, "");
    s->replay_speedup = yaml_integer(item, "speedup", 1, SPEEDUP_MAX, 1);
    s->replay_step_us = yaml_duration_us(item, "step", 1000000, HOUR_US, 300000000);
}

/* What only makes sense when the whole file has been read. */
static void check_whole(const struct local_scenario *s, yaml_item *root, yaml_item *zones,
                        yaml_item *offers)
{
    for (uint32_t z = 0; z < s->zone_count; z++) {
        bool priced = false;
        for (uint32_t i = 0; i < s->offer_count; i++) priced |= s->offers[i].zone_index == z;
        if (!priced)
            yaml_mistake(yaml_at(zones, z), "zone \"%s\" has no price; add an offer for it",
                         s->zones[z].name);
    }
    for (uint32_t i = 0; i < s->offer_count; i++) {
        if (s->offers[i].price_series[0] != '\0' && s->price_file[0] == '\0')
            yaml_mistake(yaml_at(offers, i), "price_series needs `replay: {prices: FILE}`");
        if (s->offers[i].availability_series[0] != '\0' && s->availability_file[0] == '\0')
            yaml_mistake(yaml_at(offers, i),
                         "availability_series needs `replay: {availability: FILE}`");
    }
    if (s->zone_count == 0) yaml_mistake(root, "a scenario needs at least one zone and one offer");
}

static void read_root(struct local_scenario *s, yaml_item *root)
{
    s->seed = (uint64_t)yaml_integer(root, "seed", 0, INT64_MAX, 1);
    yaml_item *emulate = yaml_map(root, "emulate");
    s->slot_us_at_1_ncu = yaml_micros(emulate, "slot_ms_at_1_ncu", 0, INT64_C(60000000000), 0) /
                          1000; /* micro-milliseconds to microseconds */
    (void)yaml_require(root, "zones");
    (void)yaml_require(root, "offers");
    yaml_item *zones = yaml_map(root, "zones"), *offers = yaml_list(root, "offers"),
              *events = yaml_list(root, "events");
    for (uint32_t i = 0; i < yaml_count(zones); i++) read_zone(s, zones, i);
    for (uint32_t i = 0; i < yaml_count(offers); i++)
        read_offer(s, yaml_item_map(yaml_at(offers, i)));
    read_prices(&s->prices, yaml_map(root, "prices"));
    read_preemptions(&s->preemptions, yaml_map(root, "preemptions"));
    for (uint32_t i = 0; i < yaml_count(events); i++)
        read_event(s, yaml_item_map(yaml_at(events, i)));
    read_replay(s, yaml_map(root, "replay"));
    check_whole(s, root, zones, offers);
}

/* "$SHOAL_DATA/x" is x in the folder of recorded data, other paths are seen from the scenario's
 * folder. */
static bool resolve(const char *file, char path[LOCAL_PATH_BYTES], struct error *ret_error)
{
    static const char variable[] = "$SHOAL_DATA/";
    char resolved[LOCAL_PATH_BYTES];
    if (path[0] == '\0') return true;
    bool fits;
    if (strncmp(path, variable, strlen(variable)) == 0) {
        const char *folder = getenv("SHOAL_DATA");
        int length =
            snprintf(resolved, sizeof resolved, "%s/%s",
                     folder == NULL ? DATA_FOLDER_DEFAULT : folder, path + strlen(variable));
        fits = length > 0 && (size_t)length < sizeof resolved;
    } else
        fits = config_path(file, path, resolved, sizeof resolved);
    if (!fits) return error_set(ret_error, "%s: replay: the path %.100s is too long", file, path);
    (void)snprintf(path, LOCAL_PATH_BYTES, "%s", resolved); /* of the same size */
    return true;
}

struct local_scenario *local_scenario_parse(const char *file, const char *text, size_t bytes,
                                            struct error *ret_error)
{
    struct local_scenario *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) {
        (void)error_set(ret_error, "%s: out of memory", file);
        return NULL;
    }
    yaml_tree *tree = yaml_open(file, text, bytes, ret_error);
    if (tree == NULL) goto fail;
    read_root(s, yaml_root(tree));
    bool good = yaml_finish(tree, ret_error);
    yaml_close(tree);
    good = good && resolve(file, s->price_file, ret_error) &&
           resolve(file, s->availability_file, ret_error);
    if (good) return s;
fail:
    mem_free(s);
    return NULL;
}

void local_scenario_free(struct local_scenario *scenario)
{
    mem_free(scenario);
}

int32_t local_scenario_find(const struct local_scenario *scenario,
                            const struct driver_offer_name *name)
{
    for (uint32_t i = 0; i < scenario->offer_count; i++) {
        const struct local_offer *offer = &scenario->offers[i];
        const struct local_zone *zone = &scenario->zones[offer->zone_index];
        if (offer->capacity == name->capacity && offer->device_count == name->device_count &&
            strcmp(offer->model, name->model) == 0 && strcmp(zone->name, name->zone) == 0 &&
            strcmp(offer->rack, name->rack == NULL ? "" : name->rack) == 0)
            return (int32_t)i;
    }
    return -1;
}
