/* A store of checkpoints: step-NNNNNN/ with shards and a manifest.json, written last.
 *
 * Rules      A checkpoint counts only if its manifest is sound, covers every element once, and all
 *            pieces and headers have the checksums it says. The newest that counts is "the"
 *            checkpoint; nothing else (no pointer file) says which.
 * Identity   Checkpoints of another run (other tensors, slots, samples per slot or identity) are
 *            neither loaded nor removed nor counted among those kept; nor are those with a manifest
 *            that cannot be read.
 * Kept       The newest CKPT_KEEP that verify, and one older: the oldest whose step is at least half
 *            the newest, so it stays until the run is twice as long (else the next older one).
 * Same step  A step that is there already, of this run and whole, is left as it is: the bits are the
 *            same. One that does not verify is emptied before its place is taken. One of another
 *            run stays, and this run has no checkpoint of that step.
 * Crash      Objects and manifests appear whole; a crash at any point leaves the older checkpoints
 *            as they were.
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_STORE_H
#define SHOAL_WORKER_CKPT_CKPT_STORE_H

#include "worker/ckpt/ckpt_manifest.h"
#include "worker/store/store.h"

enum { CKPT_STEPS_MAX = 65536, CKPT_KEEP = 2 };

struct ckpt_listing {
    uint64_t *step; /* newest first, those with a manifest; ckpt_listing_free */
    uint32_t count;
    uint64_t *orphan; /* step folders without a manifest, newest first */
    uint32_t orphan_count;
};

/* A folder that does not exist is an empty listing. */
bool ckpt_list(struct store *store, struct ckpt_listing *ret_listing,
               struct error *ret_error) WARN_UNUSED;
void ckpt_listing_free(struct ckpt_listing *listing);

void ckpt_object_name(uint64_t step, const char *file, char ret_name[STORE_NAME_BYTES]);
/* "step-000012/shard…": false if it is no object of a checkpoint. ret_file points into name. */
bool ckpt_parse_object(const char *name, uint64_t *ret_step, const char **ret_file);
bool ckpt_read_manifest(struct store *store, uint64_t step, struct ckpt_manifest *ret_manifest,
                        struct error *ret_error) WARN_UNUSED;

/* Is it a checkpoint of another run than this job? The sentence says what differs, of tensors the
 * first that does. */
bool ckpt_is_foreign(const struct ckpt_manifest *manifest, const struct job *job,
                     struct error *ret_why);

/* A manifest whose head, tensors (without pieces) and files (name, bytes, header_checksum) are set:
 * reads the files' headers, fills in the pieces, checks the cover. */
bool ckpt_gather(struct store *store, struct ckpt_manifest *manifest,
                 struct error *ret_error) WARN_UNUSED;
/* Makes a gathered checkpoint visible. True: a checkpoint of this run and step is there and whole. */
bool ckpt_publish(struct store *store, const struct ckpt_manifest *manifest,
                  struct error *ret_error) WARN_UNUSED;

/* Removes checkpoints of this job that are not kept, and leftovers of steps below `spare`, the
 * oldest still being written. Steps in trusted[] were verified by the caller already. */
void ckpt_prune(struct store *store, const struct job *job, uint64_t spare, const uint64_t *trusted,
                uint32_t trusted_count);
/* Removes a step: its manifest first, so that a crash in between leaves leftovers, not a checkpoint
 * with holes. False: something stayed. */
bool ckpt_remove(struct store *store, uint64_t step, struct error *ret_error);
/* Removes the files of an attempt, whose names end in `suffix`; not those that a manifest names:
 * one whose last sync failed may be in place all the same. */
bool ckpt_abandon(struct store *store, uint64_t step, const char *suffix, struct error *ret_error);

/* SHA-256 over params, then state, independent of shards: equals the hash a worker prints. With
 * `moments` those that the library keeps follow. */
bool ckpt_digest(struct store *store, const struct ckpt_manifest *manifest, bool moments,
                 char text[65], struct error *ret_error);

#endif
