#include "driver/local_world.h"
#include "base/io.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "core/assert.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { WORLD_FILE_BYTES_MAX = 64 << 10 };
#define HOUR_US INT64_C(3600000000)

static bool read_scenario(struct local_world *world, const char *file, struct error *ret_error)
{
    char *text;
    size_t bytes;
    if (!io_read_file(file, YAML_BYTES_MAX, &text, &bytes, ret_error))
        return error_prefix(ret_error, "scenario");
    world->scenario_hash = XXH3_64bits(text, bytes);
    world->scenario = local_scenario_parse(file, text, bytes, ret_error);
    mem_free(text);
    if (world->scenario == NULL) return false;
    const struct local_scenario *s = world->scenario;
    if (s->price_file[0] == '\0' && s->availability_file[0] == '\0') return true;
    world->replay = local_replay_open(s, ret_error);
    return world->replay != NULL;
}

static bool read_members(struct local_world *world, const json_t *object, bool *ret_is_other)
{
    const char *hash = json_string_value(json_object_get(object, "scenario"));
    const json_t *t0 = json_object_get(object, "t0_us"),
                 *first = json_object_get(object, "first_up_us"),
                 *fired = json_object_get(object, "fired_us");
    uint64_t scenario_hash;
    if (hash == NULL || sscanf(hash, "%16" SCNx64, &scenario_hash) != 1) return false;
    if (!json_is_integer(t0) || !json_is_integer(first) || !json_is_array(fired)) return false;
    *ret_is_other = scenario_hash != world->scenario_hash;
    if (*ret_is_other) return true;
    if (json_array_size(fired) != world->scenario->event_count) return false;
    world->t0_us = json_integer_value(t0);
    world->first_up_us = json_integer_value(first);
    for (uint32_t i = 0; i < world->scenario->event_count; i++)
        world->fired_us[i] = json_integer_value(json_array_get(fired, i));
    return true;
}

static bool read_state(struct local_world *world, bool *ret_is_other, struct error *ret_error)
{
    char *text;
    size_t bytes;
    if (!io_read_file(world->file, WORLD_FILE_BYTES_MAX, &text, &bytes, ret_error)) return false;
    json_t *object = json_loadb(text, bytes, 0, NULL);
    mem_free(text);
    bool good = object != NULL && read_members(world, object, ret_is_other);
    json_decref(object);
    return good || error_set(ret_error, "%s: not a world record; remove its folder to begin anew",
                             world->file);
}

bool local_world_open(struct local_world *world, const char *scenario_file, const char *dir,
                      int64_t now_us, bool *ret_is_other, struct error *ret_error)
{
    *world = (struct local_world){.t0_us = now_us};
    *ret_is_other = false;
    int length = snprintf(world->file, sizeof world->file, "%s/world.json", dir);
    if (length < 0 || (size_t)length >= sizeof world->file)
        return error_set(ret_error, "%s: the path is too long", dir);
    if (!read_scenario(world, scenario_file, ret_error)) goto fail;
    FILE *there = fopen(world->file, "re");
    if (there == NULL) return true; /* a new world */
    (void)fclose(there);            /* read only */
    if (read_state(world, ret_is_other, ret_error)) return true;
fail:
    local_world_close(world);
    return false;
}

void local_world_close(struct local_world *world)
{
    local_replay_close(world->replay);
    local_scenario_free(world->scenario);
    world->replay = NULL;
    world->scenario = NULL;
}

bool local_world_write(const struct local_world *world, struct error *ret_error)
{
    char text[LOCAL_EVENTS_MAX * 24 + 256];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "{\"scenario\":\"%016" PRIx64 "\",\"t0_us\":%" PRId64
                                 ",\"first_up_us\":%" PRId64 ",\"fired_us\":[",
                                 world->scenario_hash, world->t0_us, world->first_up_us);
    for (uint32_t i = 0; i < world->scenario->event_count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRId64, i == 0 ? "" : ",",
                               world->fired_us[i]);
    at += (size_t)snprintf(text + at, sizeof text - at, "]}\n");
    ASSERT(at < sizeof text);
    return io_write_file(world->file, text, at, 0600, ret_error);
}

int64_t local_world_tick(const struct local_world *world, int64_t at_us)
{
    if (at_us <= world->t0_us) return 0;
    return (at_us - world->t0_us) / world->scenario->prices.every_us;
}

/* The event is about this offer. */
static bool concerns(const struct local_world *world, const struct local_event *event,
                     const struct local_offer *offer)
{
    const char *zone = world->scenario->zones[offer->zone_index].name;
    return (event->zone[0] == '\0' || strcmp(event->zone, zone) == 0) &&
           (event->model[0] == '\0' || strcmp(event->model, offer->model) == 0);
}

/* Start of the window in which a fired event holds, in whole ticks after it; false if it is over.
 */
static bool holds(const struct local_world *world, uint32_t event_index, int64_t tick)
{
    const struct local_event *event = &world->scenario->events[event_index];
    int64_t fired_us = world->fired_us[event_index];
    if (fired_us == 0 || tick <= local_world_tick(world, fired_us)) return false;
    return event->for_us == 0 || tick <= local_world_tick(world, fired_us + event->for_us);
}

/* Microseconds of trace time since the trace's start. */
static int64_t trace_us(const struct local_world *world, int64_t since_t0_us)
{
    if (since_t0_us < 0) return 0;
    if (since_t0_us > INT64_MAX / world->scenario->replay_speedup) return INT64_MAX;
    return since_t0_us * world->scenario->replay_speedup;
}

int64_t local_world_price(struct local_world *world, uint32_t offer_index, int64_t tick)
{
    const struct local_scenario *s = world->scenario;
    const struct local_offer *offer = &s->offers[offer_index];
    int64_t on_demand = offer->on_demand_usd_micros_per_hour;
    if (offer->capacity != CAPACITY_SPOT) return on_demand;
    for (uint32_t i = s->event_count; i-- > 0;) { /* the last one written wins */
        const struct local_event *event = &s->events[i];
        if (event->kind != LOCAL_EVENT_PRICE || !concerns(world, event, offer)) continue;
        if (!holds(world, i, tick)) continue;
        return event->share_ppm > 0 ? on_demand * event->share_ppm / 1000000
                                    : event->usd_micros_per_hour;
    }
    if (offer->price_series[0] != '\0')
        return local_replay_price(world->replay, offer_index,
                                  trace_us(world, tick * s->prices.every_us));
    struct local_price_source source = {
        .prices = &s->prices,
        .seed = s->seed,
        .which = offer_index,
        .base_usd_micros_per_hour = offer->spot_usd_micros_per_hour,
        .on_demand_usd_micros_per_hour = on_demand,
    };
    return local_price_at(&source, &world->cursors[offer_index], tick);
}

bool local_world_is_replayed(const struct local_world *world, uint32_t offer_index)
{
    return world->scenario->offers[offer_index].availability_series[0] != '\0';
}

uint32_t local_world_capacity(const struct local_world *world, uint32_t offer_index, int64_t at_us)
{
    const struct local_scenario *s = world->scenario;
    const struct local_offer *offer = &s->offers[offer_index];
    for (uint32_t i = s->event_count; i-- > 0;) {
        const struct local_event *event = &s->events[i];
        int64_t fired_us = world->fired_us[i];
        if (event->kind != LOCAL_EVENT_STOCK || !concerns(world, event, offer)) continue;
        if (offer->capacity != CAPACITY_SPOT || fired_us == 0 || at_us < fired_us) continue;
        if (event->for_us == 0 || at_us < fired_us + event->for_us) return event->stock_count;
    }
    if (!local_world_is_replayed(world, offer_index)) return offer->stock_count;
    int64_t available =
        local_replay_available(world->replay, offer_index, trace_us(world, at_us - world->t0_us));
    return available < offer->stock_count ? (uint32_t)available : offer->stock_count;
}

bool local_world_is_due(const struct local_world *world, uint32_t event_index, int64_t now_us)
{
    const struct local_event *event = &world->scenario->events[event_index];
    if (world->fired_us[event_index] != 0 || event->at_us < 0) return false;
    return world->first_up_us != 0 && now_us >= world->first_up_us + event->at_us;
}

/* A begun unit is owed whole, at the price it began at; at most $1000/h for a day: the product fits. */
static void bill_unit(struct local_world *world, struct local_node *node, uint32_t unit_s)
{
    int64_t tick = local_world_tick(world, node->billed_to_us);
    int64_t owed = local_world_price(world, node->offer_index, tick) * unit_s;
    node->billed_rest += owed % 3600 * 1000000;
    node->billed_usd_micros += owed / 3600 + node->billed_rest / HOUR_US;
    node->billed_rest %= HOUR_US;
    node->billed_to_us += unit_s * INT64_C(1000000);
}

void local_world_bill(struct local_world *world, struct local_node *node, int64_t now_us)
{
    /* price <= $1000/h and a tick <= 1 h: a tick's product stays below 2^62. */
    int64_t every_us = world->scenario->prices.every_us;
    uint32_t unit_s = world->scenario->offers[node->offer_index].billing_s;
    while (unit_s > 0 && node->billed_to_us < now_us) bill_unit(world, node, unit_s);
    while (node->billed_to_us < now_us) {
        int64_t tick = local_world_tick(world, node->billed_to_us);
        int64_t end_us = world->t0_us + (tick + 1) * every_us;
        if (end_us > now_us) end_us = now_us;
        if (end_us <= node->billed_to_us) end_us = now_us; /* before t0: the clock was set back */
        int64_t price = local_world_price(world, node->offer_index, tick);
        node->billed_rest += price * (end_us - node->billed_to_us);
        node->billed_usd_micros += node->billed_rest / HOUR_US;
        node->billed_rest %= HOUR_US;
        node->billed_to_us = end_us;
    }
}
