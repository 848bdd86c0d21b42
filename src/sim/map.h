/* From a 64-bit id (node key, worker id) to an index: open addressing, never forgets.
 *
 * Ids are never used again in this world, so nothing is ever removed. Key 0 is not an id.
 */
#ifndef SHOAL_SIM_MAP_H
#define SHOAL_SIM_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct sim_map_slot {
    uint64_t key;
    uint32_t index, reserved;
};

struct sim_map {
    struct sim_map_slot *slots;
    uint32_t count, capacity; /* capacity: a power of two */
};

enum { SIM_MAP_NONE = -1 };

/* slots: zeroed, at least twice as many as keys will come. */
void sim_map_init(struct sim_map *map, struct sim_map_slot *slots, uint32_t capacity);
int64_t sim_map_find(const struct sim_map *map, uint64_t key); /* SIM_MAP_NONE: not there */
void sim_map_put(struct sim_map *map, uint64_t key, uint32_t index);

#endif
