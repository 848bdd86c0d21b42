#include "worker/core/shard.h"
#include "core/assert.h"
#include <string.h>

/* A unit of 16 KiB of a moment or more is worth a message; small models are cut finer all the same,
 * so that all members can have a share. */
enum { UNIT_BLOCKS_MIN = 16, UNITS_MIN = 128 };

uint32_t shard_unit_count(uint32_t block_count)
{
    ASSERT(block_count > 0);
    uint32_t units = block_count / UNIT_BLOCKS_MIN;
    if (units < UNITS_MIN) units = block_count < UNITS_MIN ? block_count : UNITS_MIN;
    return units < SHARD_UNITS_MAX ? units : SHARD_UNITS_MAX;
}

uint32_t shard_first_block(uint32_t unit_count, uint32_t block_count, uint32_t unit)
{
    ASSERT(unit <= unit_count);
    return (uint32_t)((uint64_t)block_count * unit / unit_count);
}

uint32_t shard_unit_of(uint32_t unit_count, uint32_t block_count, uint32_t block)
{
    ASSERT(block < block_count);
    uint32_t unit = (uint32_t)(((uint64_t)block * unit_count + unit_count - 1) / block_count);
    if (unit == unit_count || shard_first_block(unit_count, block_count, unit) > block) unit--;
    ASSERT(shard_first_block(unit_count, block_count, unit) <= block);
    return unit;
}

uint32_t shard_next_owned(const struct shard_map *map, uint32_t block_count, uint32_t member,
                          uint32_t block)
{
    if (block >= block_count) return block_count;
    uint32_t unit = shard_unit_of(map->unit_count, block_count, block);
    if (map->owner[unit] == member) return block;
    while (++unit < map->unit_count)
        if (map->owner[unit] == member)
            return shard_first_block(map->unit_count, block_count, unit);
    return block_count;
}

uint32_t shard_run_end(const struct shard_map *map, uint32_t block_count, uint32_t block)
{
    uint32_t unit = shard_unit_of(map->unit_count, block_count, block), first = unit;
    while (unit < map->unit_count && map->owner[unit] == map->owner[first] &&
           map->mirror[unit] == map->mirror[first])
        unit++;
    return shard_first_block(map->unit_count, block_count, unit);
}

static uint8_t index_of(const uint64_t *ids, uint32_t count, uint64_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id) return (uint8_t)i;
    return SHARD_NONE;
}

void shard_translate(const struct shard_map *map, const uint64_t *old_id, uint32_t old_count,
                     const uint64_t *new_id, uint32_t new_count, struct shard_map *ret_held)
{
    uint8_t now[256];
    memset(now, SHARD_NONE, sizeof now);
    for (uint32_t i = 0; i < old_count; i++) now[i] = index_of(new_id, new_count, old_id[i]);
    ret_held->unit_count = map->unit_count;
    for (uint32_t u = 0; u < map->unit_count; u++) {
        ret_held->owner[u] = now[map->owner[u]];
        ret_held->mirror[u] = now[map->mirror[u]];
    }
}

uint32_t shard_lost_units(const struct shard_map *held)
{
    uint32_t lost = 0;
    for (uint32_t u = 0; u < held->unit_count; u++)
        lost += held->owner[u] == SHARD_NONE && held->mirror[u] == SHARD_NONE;
    return lost;
}

static bool holds(const struct shard_map *map, uint32_t unit, uint8_t member)
{
    return map->owner[unit] == member || map->mirror[unit] == member;
}

static uint8_t source_of(const struct shard_map *held, uint32_t unit, uint8_t to, uint32_t *sends)
{
    uint8_t a = held->owner[unit], b = held->mirror[unit];
    if (to == SHARD_NONE || holds(held, unit, to)) return SHARD_NONE;
    uint8_t from = a == SHARD_NONE || (b != SHARD_NONE && sends[b] < sends[a]) ? b : a;
    if (from != SHARD_NONE) sends[from]++;
    return from;
}

void shard_moves(const struct shard_map *held, const struct shard_map *map, uint32_t member_count,
                 struct shard_moves *ret_moves)
{
    uint32_t sends[256] = {0};
    ASSERT(held->unit_count == map->unit_count);
    ASSERT(member_count <= GROUP_MEMBERS_MAX);
    ret_moves->moved_units = 0;
    for (uint32_t u = 0; u < map->unit_count; u++) {
        ret_moves->to_owner[u] = source_of(held, u, map->owner[u], sends);
        ret_moves->to_mirror[u] = source_of(held, u, map->mirror[u], sends);
        ret_moves->moved_units += ret_moves->to_owner[u] != SHARD_NONE;
        ret_moves->moved_units += ret_moves->to_mirror[u] != SHARD_NONE;
    }
}

uint32_t shard_least_moves(const struct shard_map *held, const uint32_t *target,
                           uint32_t member_count)
{
    uint32_t hold[256] = {0}, least = 0;
    for (uint32_t u = 0; u < held->unit_count; u++) {
        hold[held->owner[u]]++;
        hold[held->mirror[u]]++;
    }
    for (uint32_t i = 0; i < member_count; i++)
        if (target[i] > hold[i]) least += target[i] - hold[i];
    return least;
}

bool shard_map_is_sound(const struct shard_map *map, uint32_t member_count)
{
    if (map->unit_count == 0 || map->unit_count > SHARD_UNITS_MAX) return false;
    for (uint32_t u = 0; u < map->unit_count; u++) {
        if (map->owner[u] >= member_count || map->owner[u] == map->mirror[u]) return false;
        if (map->mirror[u] >= member_count && map->mirror[u] != SHARD_NONE) return false;
    }
    return true;
}
