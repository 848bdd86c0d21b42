/* What a kind of store must provide; for store.c, the store_*.c and their tests.
 *
 * The contracts are those of store.h. store.c has checked names, part numbers and part sizes, and
 * frees nothing of a backend's. Every call names the object in its sentence.
 */
#ifndef SHOAL_WORKER_STORE_STORE_BACKEND_H
#define SHOAL_WORKER_STORE_STORE_BACKEND_H

#include "worker/store/disk.h"
#include "worker/store/store.h"

struct store_backend {
    void (*close)(void *self);
    /* `unfinished`: the other list. Adds with store_listing_add(), in any order. */
    bool (*list)(void *self, const char *prefix, bool unfinished, struct store_listing *listing,
                 struct error *ret_error);
    void *(*create)(void *self, const char *name, uint64_t bytes, struct error *ret_error);
    bool (*put_part)(void *writer, uint32_t index, const void *bytes, size_t count,
                     struct error *ret_error);
    bool (*commit)(void *writer, struct error *ret_error); /* frees the writer in any case */
    void (*abort)(void *writer);
    enum store_put (*put_if_absent)(void *self, const char *name, const void *bytes, size_t count,
                                    struct error *ret_error);
    void *(*open)(void *self, const char *name, uint64_t *ret_bytes, struct error *ret_error);
    bool (*read)(void *reader, uint64_t offset, void *bytes, size_t count, struct error *ret_error);
    void (*close_reader)(void *reader);
    bool (*remove)(void *self, const char *name, struct error *ret_error);
    bool (*discard)(void *self, const char *name, struct error *ret_error);
};

/* A store of this kind; NULL: out of memory, and `self` was closed. */
struct store *store_of(const struct store_backend *backend, void *self, const char *url,
                       struct error *ret_error);
bool store_listing_add(struct store_listing *listing, const char *name, uint64_t bytes,
                       struct error *ret_error) WARN_UNUSED;

/* A folder on a disk: the real one, or one that a test makes up. The disk must outlive the store. */
struct store *store_dir_open(const char *path, const struct disk *disk, struct error *ret_error);
/* A bucket: s3://BUCKET/PREFIX, see s3.h. */
struct store *store_s3_open(const char *url, struct error *ret_error);

#endif
