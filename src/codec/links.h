/* What it costs to bring data from a region to another: catalog/links.yaml, shipped, and the `links` of the
 * user's own catalog on top of it.
 *
 * Rule       A pair, if there is one; nothing inside a region; else by cloud and continent of both; what
 *            leaves a cloud, or is of none, costs `out`.
 * Events     Of one region of data: the links to all regions that are named, and to all others (0).
 */
#ifndef SHOAL_CODEC_LINKS_H
#define SHOAL_CODEC_LINKS_H

#include "codec/ids.h"
#include "codec/yaml.h"
#include "core/event.h"

enum {
    LINK_NAME_BYTES = 32,
    LINK_CLOUDS_MAX = 8,
    LINK_REGIONS_MAX = 128,
    LINK_PAIRS_MAX = 64,
    LINK_EVENTS_MAX = (LINK_REGIONS_MAX + LINK_PAIRS_MAX) / LINKS_TOLD_MAX + 1
};

struct link_price {
    uint32_t usd_micros_per_gb, mb_per_s;
};

struct link_cloud {
    char name[LINK_NAME_BYTES];
    struct link_price near, far, out;
};

struct link_region {
    char name[LINK_NAME_BYTES], continent[LINK_NAME_BYTES];
    uint32_t cloud, reserved;
};

struct link_pair {
    char from[LINK_NAME_BYTES], to[LINK_NAME_BYTES];
    struct link_price price;
};

struct links {
    uint32_t cloud_count, region_count, pair_count, inside_mb_per_s;
    struct link_price out;
    struct link_cloud clouds[LINK_CLOUDS_MAX];
    struct link_region regions[LINK_REGIONS_MAX];
    struct link_pair pairs[LINK_PAIRS_MAX];
};

/* Mistakes are noted in the item's tree. */
void links_read(struct links *links, yaml_item *item);
struct link_price links_between(const struct links *links, const char *from, const char *to);
/* LINKS_TOLD of data in a region; returns how many, 0: a name found no number. */
uint32_t links_events(const struct links *links, const char *from, id_of_name_fn *id_of, void *self,
                      struct pool_event ret_events[LINK_EVENTS_MAX]);

/* The shipped catalog/links.yaml, embedded at build time; 0-terminated. */
extern const char links_shipped_text[];
extern const size_t links_shipped_bytes;

#endif
