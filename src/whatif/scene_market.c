/* Offers of a scenario: what is sold where, at which price, and when it can be had. */
#include "base/mem.h"
#include "whatif/scene_get.h"
#include <stdio.h>
#include <string.h>

#define PRICE_MAX INT64_C(10000000000)

/* Index of a name, added if it is new; 0 when there is no more room. */
static uint32_t name_index(struct scene_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0) return i;
    if (names->count == SCENE_PLACES_MAX) return 0;
    (void)snprintf(names->names[names->count], SCENE_NAME_BYTES, "%s", name);
    return names->count++;
}

static void read_series(struct scene_reader *r, yaml_item *map, const char *path, bool is_price,
                        struct series *ret_series)
{
    struct series_query q;
    size_t bytes;
    struct error error;
    char value[SERIES_WORD_BYTES], length[SERIES_WORD_BYTES];
    yaml_copy(map, "value", value, sizeof value, is_price ? "usd_per_hour" : "value");
    yaml_copy(map, "length", length, sizeof length, "");
    char *text = scene_query(r, map, path, &q, &bytes);
    q.is_price = is_price;
    memcpy(q.value, value, sizeof value);
    memcpy(q.length, length, sizeof length);
    if (text == NULL) return;
    series_free(ret_series);
    if (!series_read(&q, text, bytes, ret_series, &error)) yaml_mistake(map, "%s", error.text);
    mem_free(text);
}

static void read_spikes(struct scene_reader *r, yaml_item *map, const char *path,
                        struct scene_price *p)
{
    char here[SCENE_PATH_BYTES];
    if (map == NULL) return;
    get_path(map, path, "spikes", here);
    p->spike_mean_us = get_us(r, map, here, "every", 1000000, YEARS_US, 0);
    p->spike_us = get_us(r, map, here, "last", 1000000, YEARS_US, 3600 * PPM);
    p->spike_ppm = get_micros(r, map, here, "to", 1, 100 * PPM, PPM);
}

/* A number, a walk, or a series. */
static void read_price(struct scene_reader *r, yaml_item *map, const char *path,
                       struct scene_offer *o)
{
    char here[SCENE_PATH_BYTES];
    yaml_item *item = yaml_any(map, "price");
    struct scene_price *p = &o->price;
    p->usd_micros = o->on_demand_usd_micros;
    if (item == NULL) return;
    get_path(item, path, "price", here);
    if (yaml_count(item) == 0) { /* one number */
        p->usd_micros = get_micros(r, map, path, "price", 1, PRICE_MAX, o->on_demand_usd_micros);
        return;
    }
    yaml_item *price = yaml_item_map(item);
    if (yaml_has(price, "csv")) {
        read_series(r, price, here, true, &p->series);
        if (p->series.count > 0) p->usd_micros = p->series.steps[0].value;
        return;
    }
    (void)yaml_require(price, "mean");
    p->usd_micros = get_micros(r, price, here, "mean", 1, PRICE_MAX, o->on_demand_usd_micros);
    p->every_us = get_us(r, price, here, "every", 1000000, YEARS_US, 0);
    p->step_ppm = get_micros(r, price, here, "step", 0, PPM / 2, 0);
    p->return_ppm = get_micros(r, price, here, "return", 0, PPM, PPM / 10);
    read_spikes(r, yaml_map(price, "spikes"), here, p);
}

static void read_up(struct scene_reader *r, yaml_item *map, const char *path, struct scene_offer *o)
{
    char here[SCENE_PATH_BYTES];
    yaml_item *up = yaml_map(map, "up");
    if (up == NULL) return;
    get_path(up, path, "up", here);
    if (yaml_has(up, "csv")) {
        read_series(r, up, here, false, &o->up);
        int64_t times = get_integer(r, up, here, "times", 1, SCENE_NODES_MAX, 1);
        for (uint32_t i = 0; i < o->up.count; i++) o->up.steps[i].value *= times;
        return;
    }
    o->up_mean_us = get_us(r, up, here, "mean", 1000000, YEARS_US, 0);
    o->down_mean_us = get_us(r, up, here, "down", 1000000, YEARS_US, 0);
    if ((o->up_mean_us == 0) != (o->down_mean_us == 0))
        yaml_mistake(up, "up needs both: mean, how long it is to be had, and down, how long not");
}

static void read_place(struct scene_reader *r, yaml_item *map, struct scene_offer *o)
{
    char part[3][SCENE_NAME_BYTES] = {"", "", ""};
    const char *text = yaml_string(map, "place", "");
    uint32_t count = 0;
    for (const char *at = text; count < 3; count++) {
        const char *slash = count < 2 ? strchr(at, '/') : NULL;
        size_t bytes = slash == NULL ? strlen(at) : (size_t)(slash - at);
        if (bytes > 0 && bytes < SCENE_NAME_BYTES) memcpy(part[count], at, bytes);
        if (slash == NULL) break;
        at = slash + 1;
    }
    if (part[0][0] == '\0' || part[1][0] == '\0' || part[2][0] == '\0') {
        yaml_mistake(yaml_has(map, "place") ? yaml_any(map, "place") : map,
                     "place is PROVIDER/REGION/ZONE, like aws/us-east-1/us-east-1a");
        return;
    }
    o->provider = name_index(&r->scene->providers, part[0]);
    o->region = name_index(&r->scene->regions, part[1]);
    o->zone = name_index(&r->scene->zones, part[2]);
    if (o->provider == 0 || o->region == 0 || o->zone == 0)
        yaml_mistake(yaml_any(map, "place"), "more than %d providers, regions or zones",
                     SCENE_PLACES_MAX - 1);
}

static uint32_t read_model(struct scene_reader *r, yaml_item *map)
{
    uint32_t model = 0;
    const char *names[CATALOG_MODELS_MAX];
    if (!yaml_require(map, "model")) return 0;
    const char *text = yaml_string(map, "model", "");
    if (catalog_find_model(&r->scene->catalog, text, &model)) return model;
    for (uint32_t i = 0; i < r->scene->catalog.model_count; i++)
        names[i] = r->scene->catalog.models[i].name;
    const char *near = yaml_nearest(text, names, r->scene->catalog.model_count);
    yaml_mistake(yaml_any(map, "model"), "no model \"%s\" is known%s%s%s; add it under models",
                 text, near == NULL ? "" : ", perhaps \"", near == NULL ? "" : near,
                 near == NULL ? "" : "\"");
    return 0;
}

static void read_boot(struct scene_reader *r, yaml_item *map, const char *path,
                      struct scene_offer *o)
{
    char here[SCENE_PATH_BYTES];
    yaml_item *boot = yaml_map(map, "boot");
    bool bought = o->capacity == CAPACITY_SPOT || o->capacity == CAPACITY_ON_DEMAND;
    get_path(boot, path, "boot", here);
    o->boot_min_us = get_us(r, boot, here, "min", 0, DAY_US, bought ? 60 * PPM : PPM);
    o->boot_max_us = get_us(r, boot, here, "max", 0, DAY_US, bought ? 180 * PPM : 2 * PPM);
    if (boot != NULL && !yaml_has(boot, "max") && o->boot_max_us < o->boot_min_us)
        o->boot_max_us = o->boot_min_us;
    if (o->boot_max_us < o->boot_min_us) yaml_mistake(boot, "boot: min is above max");
}

/* A machine that boots is not given up. */
static void check_boot(const struct scene *s, yaml_item *map, const struct scene_offer *o)
{
    if (o->boot_max_us >= s->boot_timeout_us)
        yaml_mistake(map, "it may boot longer than pool.boot_timeout, after which it is given up");
}

/* Without model, devices and stock if these come from a list of nodes. */
static void read_offer(struct scene_reader *r, yaml_item *map, struct scene_offer *o)
{
    char path[SCENE_PATH_BYTES];
    bool listed = yaml_has(map, "nodes");
    (void)yaml_require(map, "name");
    yaml_name(map, "name", o->name, sizeof o->name);
    get_path(map, "offers", o->name, path);
    o->capacity = get_kind(yaml_any(map, "kind"), yaml_string(map, "kind", "spot"));
    read_place(r, map, o);
    if (!listed) {
        o->model = read_model(r, map);
        o->device_count = (uint32_t)get_integer(r, map, path, "devices", 1, 4096, 1);
        o->stock = (uint32_t)get_integer(r, map, path, "stock", 1, SCENE_NODES_MAX, 1);
    }
    (void)yaml_require(map, o->capacity == CAPACITY_SPOT ? "on_demand" : "price");
    int64_t list = get_micros(r, map, path, "on_demand", 1, PRICE_MAX, 0);
    o->on_demand_usd_micros = list;
    read_price(r, map, path, o);
    if (list == 0) o->on_demand_usd_micros = o->price.usd_micros;
    read_up(r, map, path, o);
    o->bid_ppm = get_micros(r, map, path, "lost_at", 1, 100 * PPM, 0);
    o->life_us = get_us(r, map, path, "life", 1000000, YEARS_US, 0);
    o->notice_us = get_us(r, map, path, "notice", 0, DAY_US, 0);
    o->from_us = get_us(r, map, path, "from", 0, YEARS_US, 0);
    o->until_us = get_us(r, map, path, "until", 0, YEARS_US, 0);
    read_boot(r, map, path, o);
    check_boot(r->scene, map, o);
    bool fixed = o->capacity == CAPACITY_OWNED || o->capacity == CAPACITY_RESERVED;
    o->paid_always = yaml_flag(map, "paid_always", fixed);
}

/* One of these nodes: its own name, and prices, which were of a device, of all its devices. */
static void shape_offer(const struct scene *s, const struct shape_row *row, struct scene_offer *o)
{
    char name[2 * SCENE_NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s-%s-x%u", o->name, s->catalog.models[row->model].name,
                   row->devices);
    (void)snprintf(o->name, sizeof o->name, "%.*s", SCENE_NAME_BYTES - 1, name);
    o->model = row->model;
    o->device_count = row->devices;
    o->stock = row->count;
    o->on_demand_usd_micros *= row->devices;
    o->price.usd_micros *= row->devices;
}

static void check_series(yaml_item *map, const struct scene_offer *o)
{
    if (o->price.series.count > 0 || o->up.count > 0)
        yaml_mistake(map, "nodes of a list have a number or a walk for a price, and no trace");
}

/* `nodes: {csv: FILE, model: COLUMN, devices: COLUMN}`: an offer for each model and size. */
static void read_nodes(struct scene_reader *r, yaml_item *map, const struct scene_offer *base)
{
    struct scene *s = r->scene;
    struct series_query q;
    struct series_words words;
    struct series_tally tally;
    static _Thread_local struct shapes shapes; /* large */
    char path[SCENE_PATH_BYTES], here[SCENE_PATH_BYTES];
    size_t bytes;
    struct error error;
    yaml_item *nodes = yaml_map(map, "nodes");
    get_path(map, "offers", base->name, path);
    get_path(nodes, path, "nodes", here);
    char *text = scene_query(r, nodes, here, &q, &bytes);
    q.time[0] = '\0';
    yaml_copy(nodes, "model", q.model, sizeof q.model, "model");
    yaml_copy(nodes, "devices", q.devices, sizeof q.devices, "gpu");
    yaml_copy(nodes, "count", q.nodes, sizeof q.nodes, "");
    scene_words(r, nodes, &words);
    q.words = &words;
    check_series(map, base);
    if (text == NULL) return;
    if (!shapes_read(&q, text, bytes, &shapes, &tally, &error)) {
        yaml_mistake(nodes, "%s", error.text);
    } else {
        scene_tell_tally(r, path, &q, &tally, "nodes");
        if (shapes.count == 0)
            yaml_mistake(nodes, "no node is left of %s",
                         s->told_count > 0 ? s->told[s->told_count - 1] : q.file);
        for (uint32_t i = 0; i < shapes.count && s->offer_count < SCENE_OFFERS_MAX; i++) {
            s->offers[s->offer_count] = *base;
            shape_offer(s, &shapes.rows[i], &s->offers[s->offer_count++]);
        }
    }
    mem_free(text);
}

/* Names, and how much there is in all. */
static bool check_offers(const struct scene *s, yaml_item *map, uint32_t from)
{
    uint64_t nodes = 0, devices = 0;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        nodes += s->offers[i].stock;
        devices += (uint64_t)s->offers[i].stock * s->offers[i].device_count;
        for (uint32_t k = from > i ? from : i + 1; k < s->offer_count; k++)
            if (s->offers[i].name[0] != '\0' && strcmp(s->offers[k].name, s->offers[i].name) == 0)
                yaml_mistake(map, "another offer is called \"%s\" already", s->offers[i].name);
    }
    if (nodes <= SCENE_NODES_MAX && devices <= SCENE_DEVICES_MAX) return true;
    yaml_mistake(map, "more than %d nodes or %d devices in all", SCENE_NODES_MAX,
                 SCENE_DEVICES_MAX);
    return false;
}

void scene_read_offers(struct scene_reader *r, yaml_item *list)
{
    struct scene *s = r->scene;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *map = yaml_item_map(yaml_at(list, i));
        uint32_t from = s->offer_count;
        if (from == SCENE_OFFERS_MAX) {
            yaml_mistake(map, "more than %d offers", SCENE_OFFERS_MAX);
            return;
        }
        struct scene_offer *o = &s->offers[s->offer_count++];
        read_offer(r, map, o);
        if (yaml_has(map, "nodes")) {
            struct scene_offer base = *o;
            memset(o, 0, sizeof *o);
            s->offer_count = from; /* the list's come in its place */
            read_nodes(r, map, &base);
            series_free(&base.price.series);
            series_free(&base.up);
        }
        if (!check_offers(s, map, from)) return;
    }
}
