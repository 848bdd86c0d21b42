#include "core/table.h"
#include "core/assert.h"
#include "core/list.h"

/* The finaliser of a multiply-xorshift hash: odd multipliers and xor-shifts, each a bijection. */
uint64_t table_hash(uint64_t id)
{
    id = (id ^ (id >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    id = (id ^ (id >> 29)) * UINT64_C(0xD6E8FEB86659FD93);
    return id ^ (id >> 32);
}

uint32_t table_capacity(uint32_t max)
{
    ASSERT(max <= UINT32_C(1) << 29);
    uint32_t capacity = 8;
    while (capacity < max * 2) capacity *= 2;
    return capacity;
}

void table_clear(struct table *table)
{
    for (uint32_t i = 0; i < table->capacity; i++)
        table->cells[i] = (struct cell){.id = 0, .slot = SLOT_NONE};
    table->count = 0;
}

/* Ids are mostly counted up, and come in that order when much comes at once: eight neighbours live
 * together, so that the next one is in the cache already. The blocks are spread. */
static uint32_t home(const struct table *table, uint64_t id)
{
    return ((uint32_t)table_hash(id >> 3) << 3 | (uint32_t)(id & 7)) & (table->capacity - 1);
}

/* The cell that holds the id, or the empty one where it would go. */
static uint32_t probe(const struct table *table, uint64_t id)
{
    uint32_t at = home(table, id);
    while (table->cells[at].slot != SLOT_NONE && table->cells[at].id != id)
        at = (at + 1) & (table->capacity - 1);
    return at;
}

void table_prefetch(const struct table *table, uint64_t id)
{
    __builtin_prefetch(&table->cells[home(table, id)]);
}

uint32_t table_find(const struct table *table, uint64_t id)
{
    return table->cells[probe(table, id)].slot;
}

void table_insert(struct table *table, uint64_t id, uint32_t slot)
{
    uint32_t at = probe(table, id);
    ASSERT(slot != SLOT_NONE);
    ASSERT(table->cells[at].slot == SLOT_NONE);
    ASSERT((table->count + 1) * 2 <= table->capacity);
    table->cells[at] = (struct cell){.id = id, .slot = slot};
    table->count++;
}

void table_remove(struct table *table, uint64_t id)
{
    uint32_t mask = table->capacity - 1, hole = probe(table, id);
    ASSERT(table->cells[hole].slot != SLOT_NONE);
    /* Later cells of the run move into the hole unless that would put them before their home. */
    for (uint32_t at = (hole + 1) & mask; table->cells[at].slot != SLOT_NONE;
         at = (at + 1) & mask) {
        uint32_t from_home = (at - home(table, table->cells[at].id)) & mask;
        if (from_home < ((at - hole) & mask)) continue;
        table->cells[hole] = table->cells[at];
        hole = at;
    }
    table->cells[hole] = (struct cell){.id = 0, .slot = SLOT_NONE};
    table->count--;
}
