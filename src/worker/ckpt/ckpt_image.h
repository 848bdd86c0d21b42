/* One shard of a checkpoint as it will lie in its file, in memory: header, then data.
 *
 * Why        The copy is the snapshot: training goes on while it is written, straight from here, in
 *            parts that lie as the store and the disk want them (STORE_PART_BYTES, STORE_ALIGN).
 * Ranges     A shard is a list of ranges of tensors, of any size and in any order; empty ones are
 *            left out, and a shard without any has no file (file_bytes 0). Ranges of one shard must
 *            not overlap.
 * File       A safetensors file whose data begins at a multiple of STORE_ALIGN. An entry is called
 *            as its tensor if it is all of it, else "tensor@first", one-dimensional. A piece is what
 *            one entry has in one part; the checksums of the pieces, in the order of the file, are
 *            the metadata "shoal.checksums" (16 hex digits each). So whoever has the header knows
 *            the pieces: see ckpt_gather().
 * Call order plan, copy of every part (any order, any threads), seal, then parts may be written.
 * Memory     Kept from plan to plan: fresh pages from the kernel cost more than filling them.
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_IMAGE_H
#define SHOAL_WORKER_CKPT_CKPT_IMAGE_H

#include "worker/ckpt/ckpt_manifest.h"
#include "worker/ckpt/safetensors.h"
#include "worker/store/store.h"

struct ckpt_range {
    uint32_t tensor; /* index among the tensors of the checkpoint */
    uint64_t first, count;
    const void *bytes; /* of element `first`; unchanged until its part is copied */
};

struct ckpt_image_piece {
    uint64_t offset, bytes, checksum;
    const uint8_t *from;
};

struct ckpt_image {
    void *memory; /* bytes, not aligned */
    uint8_t *bytes;
    size_t room;
    uint64_t file_bytes, header_bytes, header_checksum;
    struct safetensors_entry *entry;
    struct ckpt_image_piece *piece;
    uint32_t *first_piece; /* of each part, and the end */
    uint32_t entry_count, piece_count, part_count;
};

bool ckpt_image_plan(struct ckpt_image *image, const struct ckpt_tensor *tensor,
                     const struct ckpt_range *range, uint32_t range_count,
                     struct error *ret_error) WARN_UNUSED;
void ckpt_image_copy(struct ckpt_image *image, uint32_t part); /* and takes its checksums */
bool ckpt_image_seal(struct ckpt_image *image, struct error *ret_error) WARN_UNUSED;
void ckpt_image_free(struct ckpt_image *image);

size_t ckpt_image_part(const struct ckpt_image *image, uint32_t part, const uint8_t **ret_bytes);

/* The equal cut: what shard `index` of `count` holds when all elements of F32 tensors, one tensor
 * after another, are dealt in equal runs; scales go to shard 0. `bytes` is left NULL. Room for
 * tensor_count ranges. */
uint32_t ckpt_cut(const struct ckpt_tensor *tensor, uint32_t tensor_count, uint32_t index,
                  uint32_t count, struct ckpt_range *ret_range);

#endif
