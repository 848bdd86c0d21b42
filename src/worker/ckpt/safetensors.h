/* The safetensors file format, read strictly and written plainly.
 *
 * Format     8 bytes little-endian header length N, N bytes of JSON, then the data. See the format
 *            description in the safetensors README (Hugging Face, 2026).
 * Reader     Enforces every rule: header of at most 100,000,000 bytes that begins with `{`, no
 *            duplicate names, known dtype, no unknown members, shape times dtype equals the byte
 *            range, ranges without hole or overlap from 0 to exactly the end of the file, metadata
 *            of strings only. Values are not looked at.
 * Writer     Entries in the order given (widest dtype first keeps everything aligned), header
 *            padded with spaces so that the data begins at a multiple of the alignment asked for.
 */
#ifndef SHOAL_WORKER_CKPT_SAFETENSORS_H
#define SHOAL_WORKER_CKPT_SAFETENSORS_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    SAFETENSORS_NAME_BYTES = 192,
    SAFETENSORS_DIMS_MAX = 8,
    SAFETENSORS_HEADER_MAX = 100000000,
    SAFETENSORS_DTYPE_BYTES = 16,
};

struct safetensors_entry {
    char name[SAFETENSORS_NAME_BYTES];
    char dtype[SAFETENSORS_DTYPE_BYTES];
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    uint32_t dims;
    uint64_t begin, end; /* in the data part */
};

struct safetensors_meta {
    char *key, *value;
};

struct safetensors {
    struct safetensors_entry *entry; /* in file order; mem_free through safetensors_free */
    uint32_t count, meta_count;
    struct safetensors_meta *meta; /* of __metadata__, owned */
    uint64_t data_offset;          /* of the data part in the file */
};

/* bytes[count] begins the file and holds at least its whole header; file_bytes is its full size. */
bool safetensors_parse(const char *bytes, size_t count, uint64_t file_bytes,
                       struct safetensors *ret_file, struct error *ret_error) WARN_UNUSED;
void safetensors_free(struct safetensors *file);

const char *safetensors_meta(const struct safetensors *file, const char *key); /* NULL: none */

/* The header for these entries (begin and end must be set), length word and padding included, in
 * memory of mem_alloc. Its length is at least `least` and a multiple of `align`, itself one of 8. */
bool safetensors_header(const struct safetensors_entry *entry, uint32_t count,
                        const struct safetensors_meta *meta, uint32_t meta_count, size_t least,
                        size_t align, char **ret_bytes, size_t *ret_count,
                        struct error *ret_error) WARN_UNUSED;

#endif
