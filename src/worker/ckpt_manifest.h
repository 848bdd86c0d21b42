/* What a checkpoint is: which bytes of which files make which tensor. Free of ranks.
 *
 * File       manifest.json, written last: a step folder without one is no checkpoint.
 *            {"format":"shoal-checkpoint","version":1,"step":S,"steps":N,"slots":V,
 *             "samples_per_slot":B,"model":"hex","identity":"hex",
 *             "files":[{"file":"shard-0000-….safetensors","bytes":N,"checksum":"xxh3:hex"}],
 *             "tensors":[{"name":"w","kind":"param|state|scales","dtype":"F32|I16","shape":[…],
 *                         "pieces":[{"file":0,"offset":O,"bytes":B}]}]}
 *            offset counts from the start of the file. Pieces of a tensor follow one another and
 *            cover it exactly; checksums (XXH3, 64 bits) are of whole files.
 * Reader     Takes nothing on trust: names without folders, ranges inside their files, exact cover.
 */
#ifndef SHOAL_WORKER_CKPT_MANIFEST_H
#define SHOAL_WORKER_CKPT_MANIFEST_H

#include "worker/job.h"

enum { CKPT_FILE_NAME_BYTES = 80, CKPT_MANIFEST_MAX_BYTES = 64 << 20, CKPT_KIND_BYTES = 8 };

struct ckpt_file {
    char name[CKPT_FILE_NAME_BYTES];
    uint64_t bytes, checksum;
};
struct ckpt_piece {
    uint32_t file;
    uint64_t offset, bytes;
};
struct ckpt_tensor {
    char name[JOB_NAME_BYTES];
    char kind[CKPT_KIND_BYTES]; /* param, state, scales */
    uint64_t shape[SHOAL_DIMS_MAX], bytes;
    uint32_t dims, first_piece, piece_count;
};
struct ckpt_manifest {
    uint64_t step, steps;     /* steps: of the whole job, to be told to people */
    uint64_t model, identity; /* as in struct job */
    uint32_t slots, samples_per_slot, file_count, tensor_count, piece_count;
    struct ckpt_file *file;
    struct ckpt_tensor *tensor;
    struct ckpt_piece *piece;
};

bool ckpt_manifest_parse(const char *text, size_t count, struct ckpt_manifest *ret_manifest,
                         struct error *ret_error) WARN_UNUSED;
void ckpt_manifest_free(struct ckpt_manifest *manifest); /* half-built is fine */
/* JSON text in memory of mem_alloc. */
bool ckpt_manifest_format(const struct ckpt_manifest *manifest, char **ret_text, size_t *ret_count,
                          struct error *ret_error) WARN_UNUSED;

/* How a job's state is cut into `count` shards: shard `index` holds an equal run of all elements of
 * params and state; shard 0 the scales too. Fills header and ranges of one shard. */
struct ckpt_share {
    uint64_t first, end; /* elements of the weights, in order */
    uint64_t scale_bytes, data_bytes;
    char *header;
    size_t header_bytes;
};
bool ckpt_share_init(struct ckpt_share *share, const struct job *job, uint32_t index,
                     uint32_t count, struct error *ret_error) WARN_UNUSED;
void ckpt_share_free(struct ckpt_share *share);
/* Builds the manifest of such shards; file names and checksums are still the caller's to set. */
bool ckpt_manifest_of(struct ckpt_manifest *manifest, const struct job *job, uint32_t count,
                      uint64_t step, struct error *ret_error) WARN_UNUSED;

#endif
