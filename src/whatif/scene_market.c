/* Offers of a scenario: what is sold where, at which price, and when it can be had. */
#include "base/io.h"
#include "base/mem.h"
#include "codec/csv.h"
#include "whatif/scene_get.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_BYTES_MAX = 256 << 20 };

#define PRICE_MAX   INT64_C(10000000000)
#define GAP_DEFAULT (2 * DAY_US)

/* Index of a name, added if it is new; 0 when there is no more room. */
static uint32_t name_index(struct scene_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0) return i;
    if (names->count == SCENE_PLACES_MAX) return 0;
    (void)snprintf(names->names[names->count], SCENE_NAME_BYTES, "%s", name);
    return names->count++;
}

/* "$SHOAL_DATA/prices/x.csv": the variable must be set. */
static bool expand(yaml_item *item, const char *folder, const char *path, char *ret_path,
                   size_t bytes)
{
    char name[64];
    const char *slash = strchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    int written;
    if (path[0] == '$' && length > 1 && length < sizeof name) {
        memcpy(name, path + 1, length - 1);
        name[length - 1] = '\0';
        const char *value = getenv(name);
        if (value == NULL || value[0] == '\0') {
            yaml_mistake(item, "the variable %s is not set; export it, or write the folder", name);
            return false;
        }
        written = snprintf(ret_path, bytes, "%s%s", value, slash);
    } else if (path[0] == '/') {
        written = snprintf(ret_path, bytes, "%s", path);
    } else {
        written = snprintf(ret_path, bytes, "%s/%s", folder, path);
    }
    if (written >= 0 && (size_t)written < bytes) return true;
    yaml_mistake(item, "the path of the file is too long");
    return false;
}

/* Text of a CSV file that the scenario names; NULL after a mistake was noted at the item. */
static char *load(struct scene_reader *r, yaml_item *item, const char *path, size_t *ret_bytes)
{
    char where[4096];
    char *text;
    struct error error;
    if (!expand(item, r->folder, path, where, sizeof where)) return NULL;
    if (io_read_file(where, TRACE_BYTES_MAX, &text, ret_bytes, &error)) return text;
    yaml_mistake(item, "%s", error.text);
    return NULL;
}

static void read_word(yaml_item *map, const char *key, const char *absent,
                      char ret_word[SERIES_WORD_BYTES])
{
    yaml_copy(map, key, ret_word, SERIES_WORD_BYTES, absent);
}

static void read_picks(yaml_item *map, struct series_query *q)
{
    uint32_t count = yaml_count(map);
    if (count > SERIES_PICKS_MAX)
        yaml_mistake(map, "at most %d columns are picked by", SERIES_PICKS_MAX);
    for (uint32_t i = 0; i < count && i < SERIES_PICKS_MAX; i++) {
        struct series_pick *pick = &q->picks[q->pick_count++];
        (void)snprintf(pick->column, sizeof pick->column, "%s", yaml_key_at(map, i));
        (void)snprintf(pick->word, sizeof pick->word, "%s", yaml_item_string(yaml_at(map, i)));
    }
}

/* A moment: a date, or seconds. */
static int64_t read_moment(yaml_item *map, const char *key)
{
    int64_t us = 0;
    const char *text = yaml_string(map, key, "0");
    struct csv_field field = {.text = text, .bytes = (uint32_t)strlen(text)};
    if (!csv_time_us(&field, &us) || us < 0)
        yaml_mistake(yaml_any(map, key),
                     "%s is a date like 2020-01-06, a date and a time, or seconds", key);
    return us;
}

char *scene_query(struct scene_reader *r, yaml_item *map, const char *path, struct series_query *q,
                  size_t *ret_bytes)
{
    *q = (struct series_query){.file = yaml_string(map, "csv", "")};
    read_picks(yaml_map(map, "pick"), q);
    read_word(map, "time", "t_utc", q->time);
    q->from_us = read_moment(map, "from");
    q->until_us = read_moment(map, "until");
    q->step_us = get_us(r, map, path, "step", 1, DAY_US, 1);
    q->gap_max_us = get_us(r, map, path, "gap_max", 0, YEARS_US, GAP_DEFAULT);
    q->scale_ppm = get_micros(r, map, path, "scale", 1000, 1000 * PPM, PPM);
    return load(r, yaml_any(map, "csv"), q->file, ret_bytes);
}

static void read_series(struct scene_reader *r, yaml_item *map, const char *path, bool is_price,
                        struct series *ret_series)
{
    struct series_query q;
    size_t bytes;
    struct error error;
    char value[SERIES_WORD_BYTES], length[SERIES_WORD_BYTES];
    read_word(map, "value", is_price ? "usd_per_hour" : "value", value);
    read_word(map, "length", "", length);
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

static void read_offer(struct scene_reader *r, yaml_item *map, struct scene_offer *o)
{
    char path[SCENE_PATH_BYTES];
    (void)yaml_require(map, "name");
    yaml_name(map, "name", o->name, sizeof o->name);
    get_path(map, "offers", o->name, path);
    o->capacity = get_kind(yaml_any(map, "kind"), yaml_string(map, "kind", "spot"));
    o->model = read_model(r, map);
    read_place(r, map, o);
    o->device_count = (uint32_t)get_integer(r, map, path, "devices", 1, 4096, 1);
    o->stock = (uint32_t)get_integer(r, map, path, "stock", 1, SCENE_NODES_MAX, 1);
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

void scene_read_offers(struct scene_reader *r, yaml_item *list)
{
    struct scene *s = r->scene;
    uint64_t nodes = 0, devices = 0;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *map = yaml_item_map(yaml_at(list, i));
        if (s->offer_count == SCENE_OFFERS_MAX) {
            yaml_mistake(map, "more than %d offers", SCENE_OFFERS_MAX);
            return;
        }
        struct scene_offer *o = &s->offers[s->offer_count++];
        read_offer(r, map, o);
        for (uint32_t k = 0; k + 1 < s->offer_count; k++)
            if (o->name[0] != '\0' && strcmp(s->offers[k].name, o->name) == 0)
                yaml_mistake(map, "another offer is called \"%s\" already", o->name);
        nodes += o->stock;
        devices += (uint64_t)o->stock * o->device_count;
        if (nodes > SCENE_NODES_MAX || devices > SCENE_DEVICES_MAX) {
            yaml_mistake(map, "more than %d nodes or %d devices in all", SCENE_NODES_MAX,
                         SCENE_DEVICES_MAX);
            return;
        }
    }
}
