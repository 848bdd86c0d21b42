/* From an outside id to a slot: open addressing, linear probing, deletion by shifting back.
 *
 * Role       Lookup only. Nothing ever walks a table, so its layout cannot reach a decision, and it
 *            is rebuilt, not stored, by a snapshot.
 * Memory     The caller's: table_capacity(max) cells. At most half full, so a probe is short.
 */
#ifndef SHOAL_CORE_TABLE_H
#define SHOAL_CORE_TABLE_H

#include <stdint.h>

struct cell {
    uint64_t id;
    uint32_t slot, reserved; /* slot SLOT_NONE = empty */
};

struct table {
    struct cell *cells;
    uint32_t capacity, count; /* capacity: a power of two */
};

uint64_t table_hash(uint64_t id); /* spreads close ids; a bijection */
uint32_t table_capacity(uint32_t max);
void table_clear(struct table *table);
void table_prefetch(const struct table *table, uint64_t id);        /* it is looked for soon */
uint32_t table_find(const struct table *table, uint64_t id);        /* SLOT_NONE = not there */
void table_insert(struct table *table, uint64_t id, uint32_t slot); /* not there yet */
void table_remove(struct table *table, uint64_t id);                /* is there */

#endif
