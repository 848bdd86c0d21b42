/* Groups of a node's devices (struct device_groups, core/island.h) as JSON: in reports of agents and in
 * answers about nodes.
 *
 * {"form":1,"nvlink":[1,1,2,2],"pcie":[],"numa":[1,1,2,2]}: of each device in turn the group it is in, 1 to
 * 15; 0, or a list that ends before it: not known.
 */
#ifndef SHOAL_CODEC_DEVICE_GROUPS_H
#define SHOAL_CODEC_DEVICE_GROUPS_H

#include "codec/json.h"
#include "core/event.h"

/* Absent: form 0. */
void device_groups_take(struct device_groups *groups, const struct json_map *map, const char *key);
json_t *device_groups_json(const struct device_groups *groups, bool *failed);
/* 0: not known. Devices from DEVICE_GROUPS_DEVICES on are not kept. */
uint32_t device_groups_get(const uint8_t *row, uint32_t device);
void device_groups_set(uint8_t *row, uint32_t device, uint32_t group);

#endif
