#include "worker/store/store.h"
#include "base/mem.h"
#include "core/assert.h"
#include "worker/store/store_backend.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store {
    const struct store_backend *backend;
    void *self;
    char url[STORE_URL_BYTES];
};
struct store_writer {
    const struct store_backend *backend;
    void *self;
    uint64_t bytes;
};
struct store_reader {
    const struct store_backend *backend;
    void *self;
    uint64_t bytes;
    char name[STORE_NAME_BYTES];
};

static bool part_is_sound(const char *part, size_t length)
{
    if (length == 0 || part[0] == '.') return false;
    for (size_t i = 0; i < length; i++) {
        char c = part[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

bool store_name_is_sound(const char *name)
{
    if (strlen(name) >= STORE_NAME_BYTES) return false;
    const char *slash = strchr(name, '/');
    if (slash == NULL) return part_is_sound(name, strlen(name));
    return part_is_sound(name, (size_t)(slash - name)) &&
           part_is_sound(slash + 1, strlen(slash + 1));
}

uint32_t store_parts(uint64_t bytes)
{
    uint64_t parts = bytes / STORE_PART_BYTES + (bytes % STORE_PART_BYTES != 0);
    return parts == 0 ? 1 : (uint32_t)parts;
}

struct store *store_of(const struct store_backend *backend, void *self, const char *url,
                       struct error *ret_error)
{
    struct store *store = strlen(url) < STORE_URL_BYTES ? mem_zalloc(1, sizeof *store) : NULL;
    if (store == NULL) {
        (void)error_set(ret_error, "%.80s: out of memory, or the address is too long", url);
        backend->close(self); /* url may be part of it */
        return NULL;
    }
    store->backend = backend;
    store->self = self;
    memcpy(store->url, url, strlen(url) + 1);
    return store;
}

struct store *store_open(const char *url, struct error *ret_error)
{
    const char *colon = strstr(url, "://");
    if (colon == NULL) return store_dir_open(url, &disk_real, ret_error);
    if (strncmp(url, "file:///", 8) == 0) return store_dir_open(url + 7, &disk_real, ret_error);
    if (strncmp(url, "s3://", 5) == 0) return store_s3_open(url, ret_error);
    (void)error_set(ret_error,
                    "%.200s: checkpoints go to a folder, /path or file:///path, or to a bucket, "
                    "s3://BUCKET/PREFIX",
                    url);
    return NULL;
}

void store_close(struct store *store)
{
    if (store == NULL) return;
    store->backend->close(store->self);
    mem_free(store);
}

const char *store_url(const struct store *store)
{
    return store->url;
}

bool store_listing_add(struct store_listing *listing, const char *name, uint64_t bytes,
                       struct error *ret_error)
{
    uint32_t count = listing->count;
    if (count == STORE_OBJECTS_MAX)
        return error_set(ret_error, "more than %d objects; use a folder of its own for each job",
                         STORE_OBJECTS_MAX);
    if ((count & (count - 1)) == 0) { /* full at powers of two */
        struct store_item *grown =
            mem_realloc(listing->item, (count == 0 ? 1 : 2 * (size_t)count) * sizeof *grown);
        if (grown == NULL) return error_set(ret_error, "out of memory for %u objects", count);
        listing->item = grown;
    }
    listing->item[count] = (struct store_item){.bytes = bytes};
    snprintf(listing->item[count].name, STORE_NAME_BYTES, "%s", name);
    listing->count++;
    return true;
}

static int compare_items(const void *left, const void *right)
{
    return strcmp(((const struct store_item *)left)->name,
                  ((const struct store_item *)right)->name);
}

static bool list(struct store *store, const char *prefix, bool unfinished,
                 struct store_listing *ret_listing, struct error *ret_error)
{
    struct store_listing listing = {0};
    if (!store->backend->list(store->self, prefix, unfinished, &listing, ret_error)) {
        store_listing_free(&listing);
        return false;
    }
    if (listing.count > 1) qsort(listing.item, listing.count, sizeof *listing.item, compare_items);
    *ret_listing = listing;
    return true;
}

bool store_list(struct store *store, const char *prefix, struct store_listing *ret_listing,
                struct error *ret_error)
{
    return list(store, prefix, false, ret_listing, ret_error);
}

bool store_list_unfinished(struct store *store, const char *prefix,
                           struct store_listing *ret_listing, struct error *ret_error)
{
    return list(store, prefix, true, ret_listing, ret_error);
}

void store_listing_free(struct store_listing *listing)
{
    mem_free(listing->item);
    *listing = (struct store_listing){0};
}

static bool check_name(const struct store *store, const char *name, struct error *ret_error)
{
    return store_name_is_sound(name) ||
           error_set(ret_error, "%s: \"%.80s\" is no name for an object", store->url, name);
}

struct store_writer *store_create(struct store *store, const char *name, uint64_t bytes,
                                  struct error *ret_error)
{
    if (!check_name(store, name, ret_error)) return NULL;
    struct store_writer *writer = mem_zalloc(1, sizeof *writer);
    if (writer == NULL) {
        (void)error_set(ret_error, "out of memory for writing %s", name);
        return NULL;
    }
    writer->backend = store->backend;
    writer->bytes = bytes;
    writer->self = store->backend->create(store->self, name, bytes, ret_error);
    if (writer->self != NULL) return writer;
    mem_free(writer);
    return NULL;
}

bool store_put_part(struct store_writer *writer, uint32_t index, const void *bytes, size_t count,
                    struct error *ret_error)
{
    uint64_t begin = (uint64_t)index * STORE_PART_BYTES;
    ASSERT(begin <= writer->bytes);
    ASSERT(index + 1 == store_parts(writer->bytes) ? begin + count == writer->bytes
                                                   : count == STORE_PART_BYTES);
    return writer->backend->put_part(writer->self, index, bytes, count, ret_error);
}

bool store_commit(struct store_writer *writer, struct error *ret_error)
{
    bool fine = writer->backend->commit(writer->self, ret_error);
    mem_free(writer);
    return fine;
}

void store_abort(struct store_writer *writer)
{
    if (writer == NULL) return;
    writer->backend->abort(writer->self);
    mem_free(writer);
}

enum store_put store_put_if_absent(struct store *store, const char *name, const void *bytes,
                                   size_t count, struct error *ret_error)
{
    if (!check_name(store, name, ret_error)) return STORE_PUT_FAILED;
    return store->backend->put_if_absent(store->self, name, bytes, count, ret_error);
}

struct store_reader *store_open_object(struct store *store, const char *name, uint64_t *ret_bytes,
                                       struct error *ret_error)
{
    if (!check_name(store, name, ret_error)) return NULL;
    struct store_reader *reader = mem_zalloc(1, sizeof *reader);
    if (reader == NULL) {
        (void)error_set(ret_error, "out of memory for reading %s", name);
        return NULL;
    }
    reader->backend = store->backend;
    memcpy(reader->name, name, strlen(name) + 1);
    reader->self = store->backend->open(store->self, name, &reader->bytes, ret_error);
    if (reader->self == NULL) {
        mem_free(reader);
        return NULL;
    }
    *ret_bytes = reader->bytes;
    return reader;
}

bool store_read(struct store_reader *reader, uint64_t offset, void *bytes, size_t count,
                struct error *ret_error)
{
    if (offset > reader->bytes || count > reader->bytes - offset)
        return error_set(ret_error, "%s: ends at byte %llu, before %llu", reader->name,
                         (unsigned long long)reader->bytes, (unsigned long long)(offset + count));
    if (count == 0) return true;
    return reader->backend->read(reader->self, offset, bytes, count, ret_error);
}

void store_close_object(struct store_reader *reader)
{
    if (reader == NULL) return;
    reader->backend->close_reader(reader->self);
    mem_free(reader);
}

bool store_read_all(struct store *store, const char *name, size_t max_bytes, char **ret_bytes,
                    size_t *ret_count, struct error *ret_error)
{
    uint64_t count;
    struct store_reader *reader = store_open_object(store, name, &count, ret_error);
    if (reader == NULL) return false;
    char *bytes = count <= max_bytes ? mem_alloc(count + 1) : NULL;
    bool fine = bytes != NULL;
    if (!fine)
        (void)error_set(ret_error, "%s/%s: %llu bytes are above the limit of %zu, or out of memory",
                        store->url, name, (unsigned long long)count, max_bytes);
    fine = fine && store_read(reader, 0, bytes, count, ret_error);
    store_close_object(reader);
    if (!fine) {
        mem_free(bytes);
        return false;
    }
    bytes[count] = '\0';
    *ret_bytes = bytes;
    *ret_count = count;
    return true;
}

bool store_remove(struct store *store, const char *name, struct error *ret_error)
{
    return check_name(store, name, ret_error) &&
           store->backend->remove(store->self, name, ret_error);
}

bool store_discard(struct store *store, const char *unfinished_name, struct error *ret_error)
{
    return store->backend->discard(store->self, unfinished_name, ret_error);
}
