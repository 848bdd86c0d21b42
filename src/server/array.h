/* A growing list of one kind of plain struct, for batches and tables of the server.
 *
 * Ownership  The list owns its memory, not what its items point to.
 * Errors     array_push() and array_reserve() fail (NULL, false) when memory is out; the list is
 *            then as it was before.
 */
#ifndef SHOAL_SERVER_ARRAY_H
#define SHOAL_SERVER_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct array {
    void *items;
    uint32_t count, capacity;
    size_t item_bytes;
};

void array_init(struct array *a, size_t item_bytes);
void *array_push(struct array *a);                  /* a zeroed item at the end */
bool array_reserve(struct array *a, uint32_t more); /* the next `more` pushes succeed */
void *array_at(const struct array *a, uint32_t index);
void array_clear(struct array *a); /* keeps the memory */
void array_free(struct array *a);

#endif
