#include "sim/map.h"
#include "core/assert.h"

void sim_map_init(struct sim_map *map, struct sim_map_slot *slots, uint32_t capacity)
{
    ASSERT(capacity > 0);
    ASSERT((capacity & (capacity - 1)) == 0);
    *map = (struct sim_map){.slots = slots, .capacity = capacity};
}

static uint32_t slot_of(const struct sim_map *map, uint64_t key)
{
    uint32_t slot = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->capacity - 1);
    while (map->slots[slot].key != 0 && map->slots[slot].key != key)
        slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

int64_t sim_map_find(const struct sim_map *map, uint64_t key)
{
    if (key == 0) return SIM_MAP_NONE;
    const struct sim_map_slot *slot = &map->slots[slot_of(map, key)];
    return slot->key == key ? (int64_t)slot->index : SIM_MAP_NONE;
}

void sim_map_put(struct sim_map *map, uint64_t key, uint32_t index)
{
    ASSERT(key != 0);
    ASSERT(map->count < map->capacity / 2);
    struct sim_map_slot *slot = &map->slots[slot_of(map, key)];
    ASSERT(slot->key == 0);
    *slot = (struct sim_map_slot){.key = key, .index = index};
    map->count++;
}
