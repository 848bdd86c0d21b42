#include "codec/links.h"
#include "codec/yaml_tree.h"
#include "core/limits.h"
#include <string.h>

enum { SPEED_MAX = 1000000 }; /* MB/s */

static struct link_price read_price(yaml_item *map, struct link_price absent)
{
    return (struct link_price){
        .usd_micros_per_gb = (uint32_t)yaml_micros(map, "usd_per_gb", 0, LINK_USD_MICROS_MAX,
                                                   absent.usd_micros_per_gb),
        .mb_per_s = (uint32_t)yaml_integer(map, "mb_per_s", 0, SPEED_MAX, absent.mb_per_s)};
}

static const struct link_region *find_region(const struct links *links, const char *name)
{
    for (uint32_t i = 0; i < links->region_count; i++)
        if (strcmp(links->regions[i].name, name) == 0) return &links->regions[i];
    return NULL;
}

static void read_region(struct links *links, yaml_item *item, const char *name, uint32_t cloud)
{
    struct link_region region = {.cloud = cloud};
    if (!yaml_copy_name(item, name, region.name, sizeof region.name) ||
        !yaml_copy_name(item, yaml_item_string(item), region.continent, sizeof region.continent))
        return;
    const struct link_region *known = find_region(links, name);
    if (known != NULL)
        links->regions[known - links->regions] = region;
    else if (links->region_count == LINK_REGIONS_MAX)
        yaml_mistake(item, "more than %d regions; drop some", LINK_REGIONS_MAX);
    else
        links->regions[links->region_count++] = region;
}

static void read_cloud(struct links *links, yaml_item *item, const char *name)
{
    uint32_t at = 0;
    while (at < links->cloud_count && strcmp(links->clouds[at].name, name) != 0) at++;
    if (at == LINK_CLOUDS_MAX) {
        yaml_mistake(item, "more than %d clouds; drop some", LINK_CLOUDS_MAX);
        return;
    }
    struct link_cloud *cloud = &links->clouds[at];
    if (!yaml_copy_name(item, name, cloud->name, sizeof cloud->name)) return;
    if (at == links->cloud_count) {
        links->cloud_count++;
        cloud->near = cloud->far = cloud->out = links->out;
    }
    yaml_item *map = yaml_item_map(item);
    cloud->out = read_price(yaml_map(map, "out"), cloud->out);
    cloud->far = read_price(yaml_map(map, "far"), cloud->far);
    cloud->near = read_price(yaml_map(map, "near"), cloud->near);
    yaml_item *regions = yaml_map(map, "regions");
    for (uint32_t i = 0; i < yaml_count(regions); i++)
        read_region(links, yaml_at(regions, i), yaml_key_at(regions, i), at);
}

static void read_pair(struct links *links, yaml_item *item)
{
    struct link_pair pair = {.price = links->out};
    yaml_item *map = yaml_item_map(item);
    (void)yaml_require(map, "from"); /* noted */
    (void)yaml_require(map, "to");   /* noted */
    yaml_name(map, "from", pair.from, sizeof pair.from);
    yaml_name(map, "to", pair.to, sizeof pair.to);
    pair.price = read_price(map, links->out);
    uint32_t at = 0;
    while (at < links->pair_count && (strcmp(links->pairs[at].from, pair.from) != 0 ||
                                      strcmp(links->pairs[at].to, pair.to) != 0))
        at++;
    if (at == LINK_PAIRS_MAX) {
        yaml_mistake(item, "more than %d pairs; drop some", LINK_PAIRS_MAX);
        return;
    }
    links->pairs[at] = pair;
    if (at == links->pair_count) links->pair_count++;
}

void links_read(struct links *links, yaml_item *item)
{
    if (item == NULL) return;
    links->inside_mb_per_s =
        (uint32_t)yaml_integer(item, "inside_mb_per_s", 0, SPEED_MAX, links->inside_mb_per_s);
    links->out = read_price(yaml_map(item, "out"), links->out);
    yaml_item *clouds = yaml_map(item, "clouds"), *pairs = yaml_list(item, "pairs");
    for (uint32_t i = 0; i < yaml_count(clouds); i++)
        read_cloud(links, yaml_at(clouds, i), yaml_key_at(clouds, i));
    for (uint32_t i = 0; i < yaml_count(pairs); i++) read_pair(links, yaml_at(pairs, i));
}

struct link_price links_between(const struct links *links, const char *from, const char *to)
{
    for (uint32_t i = 0; i < links->pair_count; i++)
        if (strcmp(links->pairs[i].from, from) == 0 && strcmp(links->pairs[i].to, to) == 0)
            return links->pairs[i].price;
    if (strcmp(from, to) == 0) return (struct link_price){.mb_per_s = links->inside_mb_per_s};
    const struct link_region *a = find_region(links, from), *b = find_region(links, to);
    if (a == NULL) return links->out;
    const struct link_cloud *cloud = &links->clouds[a->cloud];
    if (b == NULL || a->cloud != b->cloud) return cloud->out;
    return strcmp(a->continent, b->continent) == 0 ? cloud->near : cloud->far;
}

struct told {
    struct pool_event *events;
    uint32_t count, from;
};

static bool tell(struct told *told, uint32_t to, struct link_price price)
{
    struct pool_event *event = told->count == 0 ? NULL : &told->events[told->count - 1];
    if (event == NULL || event->u.links_told.count == LINKS_TOLD_MAX) {
        if (told->count == LINK_EVENTS_MAX) return false;
        event = &told->events[told->count++];
        *event = (struct pool_event){.kind = POOL_EVENT_LINKS_TOLD, .version = POOL_CORE_VERSION};
        event->u.links_told.from = told->from;
    }
    event->u.links_told.links[event->u.links_told.count++] = (struct told_link){
        .to = to, .usd_micros_per_gb = price.usd_micros_per_gb, .mb_per_s = price.mb_per_s};
    return true;
}

static bool tell_name(struct told *told, const struct links *links, const char *from,
                      const char *to, id_of_name_fn *id_of, void *self)
{
    uint32_t id;
    return id_of(self, ID_REGION, to, &id) && tell(told, id, links_between(links, from, to));
}

static bool is_same(struct link_price a, struct link_price b)
{
    return a.usd_micros_per_gb == b.usd_micros_per_gb && a.mb_per_s == b.mb_per_s;
}

/* Only what differs from what holds for all others: names that no offer has cost a number each. */
uint32_t links_events(const struct links *links, const char *from, id_of_name_fn *id_of, void *self,
                      struct pool_event ret_events[LINK_EVENTS_MAX])
{
    struct told told = {.events = ret_events};
    struct link_price others = links_between(links, from, "");
    bool good = id_of(self, ID_REGION, from, &told.from) && tell(&told, 0, others) &&
                tell_name(&told, links, from, from, id_of, self);
    for (uint32_t i = 0; i < links->region_count && good; i++) {
        const char *to = links->regions[i].name;
        if (strcmp(to, from) == 0 || is_same(links_between(links, from, to), others)) continue;
        good = tell_name(&told, links, from, to, id_of, self);
    }
    for (uint32_t i = 0; i < links->pair_count && good; i++)
        if (strcmp(links->pairs[i].from, from) == 0 &&
            find_region(links, links->pairs[i].to) == NULL)
            good = tell_name(&told, links, from, links->pairs[i].to, id_of, self);
    return good ? told.count : 0;
}
