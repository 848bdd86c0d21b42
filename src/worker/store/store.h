/* Where checkpoints live: a folder or a bucket, behind the few operations a checkpoint needs.
 *
 * Address    "/path", "path" or "file:///path": a local or shared folder (store_dir.c).
 *            "s3://BUCKET/PREFIX": a bucket of Amazon's S3 or of a server like it (store_s3.c, s3.h).
 *            Other schemes are refused with a sentence that lists those known.
 * Names      "FILE" or "FOLDER/FILE" of letters, digits and ._- in parts that begin with no dot, at
 *            most STORE_NAME_BYTES - 1 long. There are no empty folders: a folder is there while a
 *            file is in it.
 * Writing    An object appears whole or not at all, and only in store_commit(): until then no
 *            listing shows it and no reader opens it. Once store_commit() or store_put_if_absent()
 *            returned success, a power cut cannot take the object away. An object written again
 *            is replaced.
 * Parts      A file of `bytes` bytes is the parts [k * STORE_PART_BYTES, (k + 1) *
 *            STORE_PART_BYTES), the last one shorter; each is given once, in any order and from any
 *            threads at the same time, each call blocks until the bytes are taken over. Parts at
 *            STORE_ALIGN addresses go to the disk without a copy.
 * Threads    Calls on one store may come from several threads; a writer's commit and abort only
 *            when no put is under way.
 * Errors     Every failure is one sentence that names the object. A failed writer is still to be
 *            aborted; a failed commit has aborted it.
 */
#ifndef SHOAL_WORKER_STORE_STORE_H
#define SHOAL_WORKER_STORE_STORE_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    STORE_NAME_BYTES = 128,
    STORE_PART_BYTES = 8 << 20, /* S3 takes parts of 5 MiB to 5 GiB, at most 10,000 of them */
    STORE_ALIGN = 4096,
    STORE_URL_BYTES = 4096,
    STORE_OBJECTS_MAX = 1 << 22, /* in one listing */
};

struct store;
struct store_writer;
struct store_reader;

struct store_item {
    char name[STORE_NAME_BYTES];
    uint64_t bytes;
};
struct store_listing {
    struct store_item *item; /* by name; store_listing_free */
    uint32_t count;
};

enum store_put { STORE_PUT_DONE = 1, STORE_PUT_EXISTS, STORE_PUT_FAILED };

/* Nothing is made or asked for yet: a folder that is not there is an empty store. */
struct store *store_open(const char *url, struct error *ret_error);
void store_close(struct store *store); /* NULL is fine */
const char *store_url(const struct store *store);

/* Objects whose names begin with `prefix`. */
bool store_list(struct store *store, const char *prefix, struct store_listing *ret_listing,
                struct error *ret_error) WARN_UNUSED;
/* Unfinished writes below `prefix`, of live writers and of dead ones: for store_discard alone. */
bool store_list_unfinished(struct store *store, const char *prefix,
                           struct store_listing *ret_listing, struct error *ret_error) WARN_UNUSED;
void store_listing_free(struct store_listing *listing);

struct store_writer *store_create(struct store *store, const char *name, uint64_t bytes,
                                  struct error *ret_error);
bool store_put_part(struct store_writer *writer, uint32_t index, const void *bytes, size_t count,
                    struct error *ret_error) WARN_UNUSED;
bool store_commit(struct store_writer *writer, struct error *ret_error) WARN_UNUSED;
void store_abort(struct store_writer *writer); /* NULL is fine */

/* A small object, if none of this name is there; of several writers at once one wins. */
enum store_put store_put_if_absent(struct store *store, const char *name, const void *bytes,
                                   size_t count, struct error *ret_error) WARN_UNUSED;

/* A reader sees the object as it was when opened, or fails. */
struct store_reader *store_open_object(struct store *store, const char *name, uint64_t *ret_bytes,
                                       struct error *ret_error);
/* All of [offset, offset + count), or a sentence. At STORE_ALIGN addresses, offsets and counts the
 * disk's own cache is passed by. */
bool store_read(struct store_reader *reader, uint64_t offset, void *bytes, size_t count,
                struct error *ret_error) WARN_UNUSED;
void store_close_object(struct store_reader *reader); /* NULL is fine */
/* A whole small object in memory of mem_alloc(), a 0 byte added. */
bool store_read_all(struct store *store, const char *name, size_t max_bytes, char **ret_bytes,
                    size_t *ret_count, struct error *ret_error) WARN_UNUSED;

/* Gone afterwards; what is not there is fine. */
bool store_remove(struct store *store, const char *name, struct error *ret_error) WARN_UNUSED;
bool store_discard(struct store *store, const char *unfinished_name,
                   struct error *ret_error) WARN_UNUSED;

bool store_name_is_sound(const char *name);
uint32_t store_parts(uint64_t bytes); /* how many parts; an empty file has one, empty */

#endif
