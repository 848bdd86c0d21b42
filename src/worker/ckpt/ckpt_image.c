#define XXH_STATIC_LINKING_ONLY /* the state of XXH3 on the stack */
#include "worker/ckpt/ckpt_image.h"
#include "base/mem.h"
#include "base/pages.h"
#include "core/assert.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { BLOCK_BYTES = 128 << 10 }; /* copied, then hashed while it is in the cache */

static void describe(struct safetensors_entry *entry, const struct ckpt_tensor *tensor,
                     const struct ckpt_range *range, uint64_t begin)
{
    bool whole = range->count == tensor->elements;
    *entry = (struct safetensors_entry){.begin = begin,
                                        .end = begin + range->count * tensor->unit_bytes};
    if (whole)
        snprintf(entry->name, sizeof entry->name, "%s", tensor->name);
    else
        snprintf(entry->name, sizeof entry->name, "%s@%" PRIu64, tensor->name, range->first);
    snprintf(entry->dtype, sizeof entry->dtype, "%s", ckpt_dtype(tensor));
    entry->dims = whole ? tensor->dims : 1;
    entry->shape[0] = range->count;
    if (whole) memcpy(entry->shape, tensor->shape, sizeof tensor->shape);
}

/* Entries and the data's source of each, widest type first. Returns the bytes of data. */
static uint64_t list_entries(struct ckpt_image *image, const struct ckpt_tensor *tensor,
                             const struct ckpt_range *range, uint32_t range_count,
                             const uint8_t **from)
{
    uint64_t begin = 0;
    image->entry_count = 0;
    for (uint32_t unit_bytes = 4; unit_bytes >= 2; unit_bytes -= 2)
        for (uint32_t i = 0; i < range_count; i++) {
            const struct ckpt_tensor *of = &tensor[range[i].tensor];
            if (of->unit_bytes != unit_bytes || range[i].count == 0) continue;
            ASSERT(range[i].first + range[i].count <= of->elements);
            from[image->entry_count] = range[i].bytes;
            describe(&image->entry[image->entry_count], of, &range[i], begin);
            begin = image->entry[image->entry_count++].end;
        }
    return begin;
}

static bool make_header(const struct ckpt_image *image, char *checksums, char **ret_header,
                        size_t *ret_bytes, struct error *ret_error)
{
    char format_key[] = "format", format[] = "pt", key[] = "shoal.checksums";
    const struct safetensors_meta meta[] = {{format_key, format}, {key, checksums}};
    return safetensors_header(image->entry, image->entry_count, meta, 2, image->header_bytes,
                              STORE_ALIGN, ret_header, ret_bytes, ret_error);
}

/* Room for the checksums of as many pieces as there can be: the real number depends on where the
 * data begins, which depends on this. */
static bool size_header(struct ckpt_image *image, uint64_t data_bytes, struct error *ret_error)
{
    size_t pieces = image->entry_count + data_bytes / STORE_PART_BYTES + 64;
    char *header, *zeros = mem_alloc(16 * pieces + 1);
    if (zeros == NULL) return error_set(ret_error, "out of memory for a shard's header");
    memset(zeros, '0', 16 * pieces);
    zeros[16 * pieces] = '\0';
    size_t bytes;
    image->header_bytes = 0;
    bool fine = make_header(image, zeros, &header, &bytes, ret_error);
    mem_free(zeros);
    if (!fine) return false;
    mem_free(header);
    image->header_bytes = bytes;
    return true;
}

/* The old memory is given back first: both may not fit. */
static bool make_room(struct ckpt_image *image, struct error *ret_error)
{
    size_t room = (image->file_bytes + STORE_ALIGN - 1) / STORE_ALIGN * STORE_ALIGN;
    if (room <= image->room) return true;
    mem_free(image->memory);
    image->memory = mem_alloc(room + STORE_ALIGN);
    image->room = image->memory == NULL ? 0 : room;
    if (image->memory == NULL)
        return error_set(ret_error, "out of memory for a shard of %" PRIu64 " bytes",
                         image->file_bytes);
    uintptr_t at = (uintptr_t)image->memory;
    image->bytes = (uint8_t *)image->memory + (STORE_ALIGN - at % STORE_ALIGN) % STORE_ALIGN;
    pages_will_fill(image->bytes, room);
    return true;
}

static uint64_t part_end(uint64_t offset)
{
    return (offset / STORE_PART_BYTES + 1) * STORE_PART_BYTES;
}

static void cut_pieces(struct ckpt_image *image, const uint8_t *const *from)
{
    uint32_t part = 0;
    image->piece_count = 0;
    for (uint32_t i = 0; i < image->entry_count; i++) {
        uint64_t begin = image->header_bytes + image->entry[i].begin;
        uint64_t end = image->header_bytes + image->entry[i].end;
        for (uint64_t at = begin; at < end;) {
            uint64_t to = part_end(at) < end ? part_end(at) : end;
            while (part <= at / STORE_PART_BYTES) image->first_piece[part++] = image->piece_count;
            image->piece[image->piece_count++] = (struct ckpt_image_piece){
                .offset = at, .bytes = to - at, .from = from[i] + (at - begin)};
            at = to;
        }
    }
    while (part <= image->part_count) image->first_piece[part++] = image->piece_count;
}

static bool plan_data(struct ckpt_image *image, uint64_t data_bytes, const uint8_t *const *from,
                      struct error *ret_error)
{
    if (!size_header(image, data_bytes, ret_error)) return false;
    image->file_bytes = image->header_bytes + data_bytes;
    image->part_count = store_parts(image->file_bytes);
    image->piece = mem_zalloc((size_t)image->entry_count + image->part_count, sizeof *image->piece);
    image->first_piece = mem_zalloc((size_t)image->part_count + 1, sizeof *image->first_piece);
    if (image->piece == NULL || image->first_piece == NULL)
        return error_set(ret_error, "out of memory for the pieces of a shard");
    if (!make_room(image, ret_error)) return false;
    cut_pieces(image, from);
    return true;
}

static void forget(struct ckpt_image *image)
{
    mem_free(image->entry);
    mem_free(image->piece);
    mem_free(image->first_piece);
    *image =
        (struct ckpt_image){.memory = image->memory, .bytes = image->bytes, .room = image->room};
}

bool ckpt_image_plan(struct ckpt_image *image, const struct ckpt_tensor *tensor,
                     const struct ckpt_range *range, uint32_t range_count, struct error *ret_error)
{
    forget(image);
    const uint8_t **from = mem_zalloc((size_t)range_count + 1, sizeof *from);
    image->entry = mem_zalloc((size_t)range_count + 1, sizeof *image->entry);
    bool fine = from != NULL && image->entry != NULL;
    if (!fine)
        (void)error_set(ret_error, "out of memory for the %u ranges of a shard", range_count);
    uint64_t data_bytes = fine ? list_entries(image, tensor, range, range_count, from) : 0;
    if (data_bytes > 0) fine = plan_data(image, data_bytes, from, ret_error);
    mem_free(from);
    return fine;
}

static void copy_piece(struct ckpt_image *image, struct ckpt_image_piece *piece)
{
    XXH3_state_t state;
    (void)XXH3_64bits_reset(&state); /* fails on NULL alone, as does update */
    for (uint64_t at = 0; at < piece->bytes; at += BLOCK_BYTES) {
        size_t count = piece->bytes - at < BLOCK_BYTES ? piece->bytes - at : BLOCK_BYTES;
        pages_copy_past_cache(image->bytes + piece->offset + at, piece->from + at, count);
        (void)XXH3_64bits_update(&state, piece->from + at, count);
    }
    piece->checksum = XXH3_64bits_digest(&state);
}

void ckpt_image_copy(struct ckpt_image *image, uint32_t part)
{
    ASSERT(part < image->part_count);
    for (uint32_t i = image->first_piece[part]; i < image->first_piece[part + 1]; i++)
        copy_piece(image, &image->piece[i]);
}

bool ckpt_image_seal(struct ckpt_image *image, struct error *ret_error)
{
    if (image->file_bytes == 0) return true;
    char *text = mem_alloc(16 * (size_t)image->piece_count + 1), *header;
    if (text == NULL) return error_set(ret_error, "out of memory for a shard's checksums");
    text[0] = '\0';
    for (uint32_t i = 0; i < image->piece_count; i++)
        snprintf(text + 16 * (size_t)i, 17, "%016" PRIx64, image->piece[i].checksum);
    size_t bytes;
    bool fine = make_header(image, text, &header, &bytes, ret_error);
    mem_free(text);
    if (!fine) return false;
    ASSERT(bytes == image->header_bytes);
    memcpy(image->bytes, header, bytes);
    image->header_checksum = XXH3_64bits(header, bytes);
    mem_free(header);
    return true;
}

void ckpt_image_free(struct ckpt_image *image)
{
    forget(image);
    mem_free(image->memory);
    *image = (struct ckpt_image){0};
}

size_t ckpt_image_part(const struct ckpt_image *image, uint32_t part, const uint8_t **ret_bytes)
{
    uint64_t at = (uint64_t)part * STORE_PART_BYTES, left = image->file_bytes - at;
    *ret_bytes = image->bytes + at;
    return left < STORE_PART_BYTES ? left : STORE_PART_BYTES;
}

static uint64_t cut_at(uint64_t elements, uint32_t index, uint32_t count)
{
    /* elements * index / count, without the overflow */
    return elements / count * index + elements % count * index / count;
}

uint32_t ckpt_cut(const struct ckpt_tensor *tensor, uint32_t tensor_count, uint32_t index,
                  uint32_t count, struct ckpt_range *ret_range)
{
    uint64_t elements = 0, at = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < tensor_count; i++)
        if (tensor[i].unit_bytes == sizeof(float)) elements += tensor[i].elements;
    uint64_t first = cut_at(elements, index, count), end = cut_at(elements, index + 1, count);
    for (uint32_t i = 0; i < tensor_count; i++) {
        if (tensor[i].unit_bytes != sizeof(float)) {
            if (index == 0) ret_range[used++] = (struct ckpt_range){i, 0, tensor[i].elements, NULL};
            continue;
        }
        uint64_t from = first > at ? first : at, past = at + tensor[i].elements;
        if (past > end) past = end;
        if (from < past) ret_range[used++] = (struct ckpt_range){i, from - at, past - from, NULL};
        at += tensor[i].elements;
    }
    return used;
}
