#include "worker/store/store_testing.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

uint8_t *testing_pattern(size_t count, uint8_t seed)
{
    void *block = NULL;
    if (posix_memalign(&block, STORE_ALIGN, count + 1) != 0) abort();
    uint8_t *bytes = block;
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(i * 31 + (i >> 9) + seed);
    return bytes;
}

bool testing_put(struct store *store, const char *name, const uint8_t *bytes, size_t count,
                 struct error *ret_error)
{
    struct store_writer *writer = store_create(store, name, count, ret_error);
    if (writer == NULL) return false;
    for (uint32_t i = store_parts(count); i-- > 0;) {
        size_t at = (size_t)i * STORE_PART_BYTES, left = count - at;
        size_t part = left < STORE_PART_BYTES ? left : STORE_PART_BYTES;
        if (store_put_part(writer, i, bytes + at, part, ret_error)) continue;
        store_abort(writer);
        return false;
    }
    return store_commit(writer, ret_error);
}

bool testing_holds(struct store *store, const char *name, const uint8_t *bytes, size_t count,
                   struct error *ret_error)
{
    char *got;
    size_t got_count;
    if (!store_read_all(store, name, SIZE_MAX / 2, &got, &got_count, ret_error)) return false;
    bool same = got_count == count && memcmp(got, bytes, count) == 0;
    mem_free(got);
    return same || error_set(ret_error, "%s: the content differs", name);
}

bool testing_count(struct store *store, const char *prefix, bool unfinished, uint32_t *ret_count,
                   struct error *ret_error)
{
    struct store_listing listing;
    bool listed = unfinished ? store_list_unfinished(store, prefix, &listing, ret_error)
                             : store_list(store, prefix, &listing, ret_error);
    if (!listed) return false;
    bool sorted = true;
    for (uint32_t i = 1; i < listing.count; i++)
        sorted = sorted && strcmp(listing.item[i - 1].name, listing.item[i].name) < 0;
    *ret_count = listing.count;
    store_listing_free(&listing);
    return sorted || error_set(ret_error, "the listing is not in order");
}
