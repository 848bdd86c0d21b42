/* A folder of checkpoints: step-NNNNNN/ with shards and a manifest.json, written last.
 *
 * Rules      A checkpoint counts only if its manifest is sound and all its files have the size and
 *            checksum the manifest says, and are sound safetensors. The newest that counts is "the"
 *            checkpoint; nothing else (no pointer file) says which.
 * Identity   Checkpoints of another run (other tensors, slots, samples per slot or identity) are
 *            neither loaded nor removed nor counted among those kept; nor are those with a manifest
 *            that cannot be read. A checkpoint of the same step takes their place, though.
 * Crash      Shards and manifest are each replaced atomically; a crash at any point leaves the
 *            older checkpoints as they were.
 */
#ifndef SHOAL_WORKER_CKPT_STORE_H
#define SHOAL_WORKER_CKPT_STORE_H

#include "worker/ckpt_manifest.h"

enum { CKPT_PATH_BYTES = 4096, CKPT_STEPS_MAX = 65536, CKPT_KEEP = 2 };

struct ckpt_listing {
    uint64_t *step; /* newest first, those with a manifest file; ckpt_listing_free */
    uint32_t count;
    uint64_t *orphan; /* step folders without a manifest, newest first */
    uint32_t orphan_count;
};

/* A folder that does not exist is an empty listing. */
bool ckpt_list(const char *dir, struct ckpt_listing *ret_listing,
               struct error *ret_error) WARN_UNUSED;
void ckpt_listing_free(struct ckpt_listing *listing);

bool ckpt_step_path(const char *dir, uint64_t step, const char *file, char *ret_path,
                    struct error *ret_error) WARN_UNUSED; /* path[CKPT_PATH_BYTES] */
bool ckpt_read_manifest(const char *dir, uint64_t step, struct ckpt_manifest *ret_manifest,
                        struct error *ret_error) WARN_UNUSED;
/* Reads everything. The sentence names the file that is wrong. */
bool ckpt_verify(const char *dir, const struct ckpt_manifest *manifest,
                 struct error *ret_error) WARN_UNUSED;

enum ckpt_load_result { CKPT_LOADED = 1, CKPT_NONE, CKPT_REFUSED };
/* Is it a checkpoint of another run than this job? The sentence says what differs. */
bool ckpt_is_foreign(const struct ckpt_manifest *manifest, const struct job *job,
                     struct error *ret_why);
/* Loads the newest checkpoint of this job that verifies into `state` (weights, then scales, as one
 * run of bytes). Damaged ones are named on stderr and the next older one is tried; of those of
 * another run one line tells. REFUSED: the folder cannot be read: the sentence says so. */
enum ckpt_load_result ckpt_load(const char *dir, const struct job *job, uint8_t *state,
                                uint64_t *ret_step, struct error *ret_error);

/* Removes checkpoints of this job older than its newest CKPT_KEEP that verify, and leftovers older
 * than `newest`. Steps in trusted[] were verified by the caller already. */
void ckpt_prune(const char *dir, const struct job *job, uint64_t newest, const uint64_t *trusted,
                uint32_t trusted_count);
/* Removes files of an abandoned checkpoint whose name ends in `suffix`, and the folder if empty. */
void ckpt_remove_leftovers(const char *dir, uint64_t step, const char *suffix);

/* SHA-256 over params, then state, independent of shards: equals the hash a worker prints. */
bool ckpt_hash(const char *dir, const struct ckpt_manifest *manifest, char text[65],
               struct error *ret_error) WARN_UNUSED;

#endif
