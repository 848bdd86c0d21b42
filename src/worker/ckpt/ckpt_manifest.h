/* What a checkpoint is: which elements of which tensor lie where in which file. Free of ranks.
 *
 * File       manifest.json, written last: a step folder without one is no checkpoint.
 *            {"format":"shoal-checkpoint","version":2,"step":S,"steps":N,"slots":V,
 *             "samples_per_slot":B,"model":"hex","identity":"hex",
 *             "files":[{"file":"shard-0000-….safetensors","bytes":N,"header_bytes":H,
 *                       "header_checksum":"xxh3:hex"}],
 *             "tensors":[{"name":"w","kind":"param|state|moment|scales","dtype":"F32|I16",
 *                         "shape":[…],"pieces":[{"first":E,"count":C,"file":0,"offset":O,
 *                                                "bytes":B,"checksum":"xxh3:hex"}]}]}
 *            first and count are elements of the tensor in row-major order; offset counts from the
 *            start of the file; checksums are XXH3, 64 bits.
 * Cover      The pieces of a tensor hold every element once; header and pieces of a file hold every
 *            byte of it once. A tensor without elements has no piece, a file is never empty.
 * Reader     Takes nothing on trust: names without folders, ranges inside their files, exact cover.
 *            Version 1 (before pieces had checksums) is refused with a sentence of its own.
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_MANIFEST_H
#define SHOAL_WORKER_CKPT_CKPT_MANIFEST_H

#include "worker/job.h"

enum {
    CKPT_FILE_NAME_BYTES = 80,
    CKPT_MANIFEST_MAX_BYTES = 256 << 20,
    CKPT_KIND_BYTES = 8,
    CKPT_FILES_MAX = 65536,
    CKPT_TENSORS_MAX = 5 * JOB_TENSORS_MAX + 1, /* params, state, moments, scales */
};

struct ckpt_file {
    char name[CKPT_FILE_NAME_BYTES];
    uint64_t bytes, header_bytes, header_checksum;
};
struct ckpt_piece {
    uint64_t first, count; /* elements of the tensor */
    uint64_t offset, bytes, checksum;
    uint32_t file;
};
struct ckpt_tensor {
    char name[JOB_NAME_BYTES];
    char kind[CKPT_KIND_BYTES]; /* param, state, moment: F32; scales: I16 */
    uint64_t shape[SHOAL_DIMS_MAX], elements;
    uint32_t dims, unit_bytes, first_piece, piece_count;
};
struct ckpt_manifest {
    uint64_t step, steps;     /* steps: of the whole job, to be told to people */
    uint64_t model, identity; /* as in struct job */
    uint32_t slots, samples_per_slot, file_count, tensor_count, piece_count;
    struct ckpt_file *file;
    struct ckpt_tensor *tensor;
    struct ckpt_piece *piece; /* tensor after tensor, each by `first` */
};

bool ckpt_manifest_parse(const char *text, size_t count, struct ckpt_manifest *ret_manifest,
                         struct error *ret_error) WARN_UNUSED;
void ckpt_manifest_free(struct ckpt_manifest *manifest); /* half-built is fine */
/* JSON text in memory of mem_alloc. */
bool ckpt_manifest_format(const struct ckpt_manifest *manifest, char **ret_text, size_t *ret_count,
                          struct error *ret_error) WARN_UNUSED;
/* Exact cover, both of the tensors and of the files. */
bool ckpt_manifest_check(const struct ckpt_manifest *manifest, struct error *ret_error) WARN_UNUSED;
const char *ckpt_dtype(const struct ckpt_tensor *tensor);

/* The tensors of a job: params and state in their order, the moments of all params, one moment after
 * the other ("exp_avg/w"), then the scales. No pieces yet. */
bool ckpt_tensors_of(const struct job *job, struct ckpt_tensor **ret_tensor, uint32_t *ret_count,
                     struct error *ret_error) WARN_UNUSED;

#endif
