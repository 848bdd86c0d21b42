/* What tests of stores share, of folders and of buckets alike. */
#ifndef SHOAL_WORKER_STORE_STORE_TESTING_H
#define SHOAL_WORKER_STORE_STORE_TESTING_H

#include "worker/store/store.h"

/* Bytes that differ from place to place and from seed to seed, at a STORE_ALIGN address; free(). */
uint8_t *testing_pattern(size_t count, uint8_t seed);
/* Writes an object in its parts, the head last, as shards are written. */
bool testing_put(struct store *store, const char *name, const uint8_t *bytes, size_t count,
                 struct error *ret_error);
bool testing_holds(struct store *store, const char *name, const uint8_t *bytes, size_t count,
                   struct error *ret_error);
/* How many objects; false also when they are not in order. */
bool testing_count(struct store *store, const char *prefix, bool unfinished, uint32_t *ret_count,
                   struct error *ret_error);

#endif
