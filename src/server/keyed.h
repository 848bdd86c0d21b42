/* Rows in the order of a 64-bit key that stands at their front, on top of server/array.h.
 *
 * Keys mostly grow (jobs, nodes, workers get theirs in order), so adding moves little. */
#ifndef SHOAL_SERVER_KEYED_H
#define SHOAL_SERVER_KEYED_H

#include "server/array.h"

void *keyed_find(const struct array *table, uint64_t key); /* NULL: no such row */
/* The row of this key, a new one zeroed but for the key. NULL: out of memory. Rows may move. */
void *keyed_get(struct array *table, uint64_t key);
void keyed_drop(struct array *table, uint32_t at);

#endif
