#include "server/offers.h"
#include "base/mem.h"
#include "core/assert.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDENTITY_BYTES = 7 * DRIVER_NAME_BYTES + 32, PARTS = 8, PARTS_MIN = 7 };

void offers_init(struct offers *o)
{
    array_init(&o->infos, sizeof(struct offer_info));
}

void offers_free(struct offers *o)
{
    for (uint32_t i = 0; i < o->infos.count; i++) {
        struct offer_info *info = array_at(&o->infos, i);
        array_free(&info->prices);
        mem_free(info->owner);
    }
    array_free(&o->infos);
}

const struct offer_info *offers_find(const struct offers *o, uint64_t offer_id)
{
    if (offer_id >= o->infos.count) return NULL;
    const struct offer_info *info = array_at(&o->infos, (uint32_t)offer_id);
    return info->offer_id == 0 ? NULL : info;
}

/* The rack, which is the last part, may be missing. */
static bool split(char *text, const char *parts[PARTS])
{
    parts[PARTS - 1] = "";
    for (int i = 0; i < PARTS; i++) {
        parts[i] = text;
        text = strchr(text, '\t');
        if (text == NULL) return i + 1 >= PARTS_MIN;
        *text++ = '\0';
    }
    return false;
}

/* Makes the row of an offer from its joined name. */
static bool add(struct offers *o, uint32_t id, const char *identity)
{
    const char *parts[PARTS];
    if (!array_reserve(&o->infos, id < o->infos.count ? 0 : id + 1 - o->infos.count)) return false;
    char *owner = mem_strdup(identity);
    if (owner == NULL) return false;
    if (!split(owner, parts)) {
        mem_free(owner); /* not one of ours: leave a hole */
        return true;
    }
    while (o->infos.count <= id) {
        struct offer_info *hole = array_push(&o->infos); /* reserved above */
        array_init(&hole->prices, sizeof(struct offer_price));
    }
    struct offer_info *info = array_at(&o->infos, id);
    ASSERT(info->offer_id == 0);
    info->offer_id = id;
    info->owner = owner;
    info->entry = parts[0];
    info->name = (struct driver_offer_name){.provider = parts[1],
                                            .region = parts[2],
                                            .zone = parts[3],
                                            .model = parts[4],
                                            .capacity = (uint32_t)strtoul(parts[5], NULL, 10),
                                            .device_count = (uint32_t)strtoul(parts[6], NULL, 10),
                                            .rack = parts[7]};
    return true;
}

bool offers_load(struct offers *o, const names *n)
{
    for (uint32_t id = 1; id < names_end(n, NAME_OFFER); id++)
        if (!add(o, id, names_text(n, NAME_OFFER, id))) return false;
    return true;
}

static bool is_plain(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < DRIVER_NAME_BYTES && strchr(name, '\t') == NULL;
}

static bool number_of(struct offers *o, names *n, const char *entry,
                      const struct driver_offer_name *name, uint32_t *ret_id,
                      struct error *ret_error)
{
    char identity[IDENTITY_BYTES];
    if (!is_plain(entry) || !is_plain(name->provider) || !is_plain(name->region) ||
        !is_plain(name->zone) || !is_plain(name->model))
        return error_set(ret_error, "provider %s: an offer has an empty or too long name", entry);
    const char *rack = name->rack == NULL ? "" : name->rack;
    if (rack[0] != '\0' && !is_plain(rack))
        return error_set(ret_error, "provider %s: the name of a rack is too long", entry);
    (void)snprintf(identity, sizeof identity, "%s\t%s\t%s\t%s\t%s\t%u\t%u%s%s", entry,
                   name->provider, name->region, name->zone, name->model, name->capacity,
                   name->device_count, rack[0] == '\0' ? "" : "\t", rack);
    uint32_t known = names_end(n, NAME_OFFER);
    if (!names_id(n, NAME_OFFER, identity, ret_id))
        return error_set(ret_error, "provider %s: too many offers", entry);
    if (*ret_id < known && offers_find(o, *ret_id) != NULL) return true;
    return add(o, *ret_id, identity) || error_set(ret_error, "out of memory for an offer");
}

bool offers_event(struct offers *o, names *n, const struct catalog *catalog, const char *entry,
                  const struct driver_offer *offer, struct pool_event *ret_event,
                  struct error *ret_error)
{
    const struct driver_offer_name *name = &offer->name;
    struct pool_event event = {.kind = POOL_EVENT_OFFER_CHANGED, .version = POOL_CORE_VERSION};
    uint32_t id, model, provider, region, zone, rack = 0;
    bool racked = name->rack != NULL && name->rack[0] != '\0';
    if (!catalog_find_model(catalog, name->model, &model))
        return error_set(ret_error,
                         "provider %s sells device model \"%s\", which the catalog does not have; "
                         "add it to the catalog file named in shoal.yaml",
                         entry, name->model);
    if (!number_of(o, n, entry, name, &id, ret_error)) return false;
    if (!names_id(n, ID_PROVIDER, name->provider, &provider) ||
        !names_id(n, ID_REGION, name->region, &region) ||
        !names_id(n, ID_ZONE, name->zone, &zone) ||
        (racked && !names_id(n, ID_RACK, name->rack, &rack)))
        return error_set(ret_error, "provider %s: too many names", entry);
    event.u.offer_changed.offer_id = id;
    event.u.offer_changed.usd_micros_per_hour = offer->usd_micros_per_hour;
    event.u.offer_changed.on_demand_usd_micros_per_hour = offer->on_demand_usd_micros_per_hour;
    event.u.offer_changed.provider = provider;
    event.u.offer_changed.region = region;
    event.u.offer_changed.zone = zone;
    event.u.offer_changed.rack = rack;
    event.u.offer_changed.model = model;
    event.u.offer_changed.capacity = name->capacity;
    event.u.offer_changed.device_count = name->device_count;
    event.u.offer_changed.stock_count = offer->stock_count;
    event.u.offer_changed.hazard_ppm = offer->hazard_ppm;
    event.u.offer_changed.billing_s = offer->billing_s;
    *ret_event = event;
    return true;
}

/* Thins the older half: what is long ago is kept, ever more coarsely. */
static void make_room(struct array *prices)
{
    struct offer_price *points = prices->items;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < prices->count; i++)
        if (i >= prices->count / 2 || i % 2 == 0) points[kept++] = points[i];
    prices->count = kept;
}

static struct offer_info *info_of(struct offers *o, uint64_t id)
{
    return offers_find(o, id) == NULL ? NULL : array_at(&o->infos, (uint32_t)id);
}

static void note_price(struct offers *o, uint64_t id, int64_t usd_micros, int64_t now_us)
{
    struct offer_info *info = info_of(o, id);
    if (info == NULL) return;
    struct array *prices = &info->prices;
    struct offer_price *last = prices->count == 0 ? NULL : array_at(prices, prices->count - 1);
    if (last != NULL && last->usd_micros_per_hour == usd_micros) return;
    if (last != NULL && now_us - last->at_us < 1000000 && prices->count > 1) {
        last->usd_micros_per_hour = usd_micros;
        return;
    }
    if (prices->count >= OFFER_PRICES_MAX) make_room(prices);
    struct offer_price *point = array_push(prices);
    if (point == NULL) return; /* a gap in a picture */
    *point = (struct offer_price){.at_us = now_us, .usd_micros_per_hour = usd_micros};
}

bool offers_is_price_only(const struct offers *o, const struct pool_event *offer_changed)
{
    const struct offer_info *info = offers_find(o, offer_changed->u.offer_changed.offer_id);
    if (info == NULL || info->told.kind == 0 || info->pending > 0) return false;
    struct pool_event would = info->told;
    would.u.offer_changed.usd_micros_per_hour = offer_changed->u.offer_changed.usd_micros_per_hour;
    if (would.u.offer_changed.capacity == CAPACITY_ON_DEMAND) /* as the core has it (offer.h) */
        would.u.offer_changed.on_demand_usd_micros_per_hour =
            offer_changed->u.offer_changed.usd_micros_per_hour;
    return memcmp(&would.u.offer_changed, &offer_changed->u.offer_changed,
                  sizeof would.u.offer_changed) == 0;
}

void offers_note_pushed(struct offers *o, const struct pool_event *offer_changed)
{
    struct offer_info *info = info_of(o, offer_changed->u.offer_changed.offer_id);
    if (info != NULL) info->pending++;
}

void offers_note(struct offers *o, const struct pool_event *event)
{
    if (event->kind == POOL_EVENT_OFFERS_PRICED)
        for (uint32_t i = 0; i < event->u.offers_priced.count; i++)
            note_price(o, event->u.offers_priced.prices[i].offer_id,
                       event->u.offers_priced.prices[i].usd_micros_per_hour, event->now_us);
    if (event->kind != POOL_EVENT_OFFER_CHANGED) return;
    struct offer_info *info = info_of(o, event->u.offer_changed.offer_id);
    if (info == NULL) return;
    info->told = *event;
    if (info->pending > 0) info->pending--;
    note_price(o, event->u.offer_changed.offer_id, event->u.offer_changed.usd_micros_per_hour,
               event->now_us);
}
