/* From written shards to a checkpoint: the leader reads the shards' headers, which say what lies
 * where, checks that this is every element once, and puts the manifest. */
#include "base/mem.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_store.h"
#include "worker/ckpt/safetensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A piece as a header tells it; sorted into the manifest once all are known. */
struct found {
    uint32_t tensor;
    struct ckpt_piece piece;
};

struct gathering {
    struct ckpt_manifest *manifest;
    const struct ckpt_tensor **by_name;
    struct found *found;
    size_t count, room;
};

static int compare_names(const void *left, const void *right)
{
    const struct ckpt_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static int compare_found(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
    if (a->piece.first != b->piece.first) return a->piece.first < b->piece.first ? -1 : 1;
    return a->piece.file == b->piece.file ? 0 : a->piece.file < b->piece.file ? -1 : 1;
}

static bool add_found(struct gathering *g, const struct found *found, struct error *ret_error)
{
    if (g->count == g->room) {
        size_t room = g->room == 0 ? 1024 : 2 * g->room;
        struct found *grown = mem_realloc(g->found, room * sizeof *grown);
        if (grown == NULL || room > UINT32_MAX / 2)
            return error_set(ret_error, "out of memory for the pieces of a checkpoint");
        g->found = grown;
        g->room = room;
    }
    g->found[g->count++] = *found;
    return true;
}

/* "w@300" -> tensor w, element 300. */
static const struct ckpt_tensor *tensor_of(const struct gathering *g, const char *name,
                                           uint64_t *ret_first)
{
    char plain[SAFETENSORS_NAME_BYTES];
    snprintf(plain, sizeof plain, "%s", name);
    char *at = strchr(plain, '@');
    *ret_first = at == NULL ? 0 : strtoull(at + 1, NULL, 10);
    if (at != NULL) *at = '\0';
    struct ckpt_tensor key;
    if (strlen(plain) >= sizeof key.name) return NULL;
    memcpy(key.name, plain, strlen(plain) + 1);
    const struct ckpt_tensor *wanted = &key;
    const struct ckpt_tensor *const *found =
        bsearch(&wanted, g->by_name, g->manifest->tensor_count, sizeof *g->by_name, compare_names);
    return found == NULL ? NULL : *found;
}

static bool take_checksum(const char **checksums, uint64_t *ret_value)
{
    char digits[17];
    if (strspn(*checksums, "0123456789abcdef") < 16) return false;
    memcpy(digits, *checksums, 16);
    digits[16] = '\0';
    *ret_value = strtoull(digits, NULL, 16);
    *checksums += 16;
    return true;
}

/* The pieces of one entry: what it has in each part of the file. */
static bool add_entry(struct gathering *g, uint32_t file, const struct safetensors_entry *entry,
                      uint64_t data_offset, const char **checksums, struct error *ret_error)
{
    const char *name = g->manifest->file[file].name;
    uint64_t first, at = data_offset + entry->begin, end = data_offset + entry->end;
    const struct ckpt_tensor *tensor = tensor_of(g, entry->name, &first);
    if (tensor == NULL || strcmp(entry->dtype, ckpt_dtype(tensor)) != 0)
        return error_set(ret_error, "%s: holds tensor %.80s, which this job has not", name,
                         entry->name);
    while (at < end) {
        uint64_t part_end = (at / STORE_PART_BYTES + 1) * STORE_PART_BYTES;
        uint64_t to = part_end < end ? part_end : end;
        struct found found = {.tensor = (uint32_t)(tensor - g->manifest->tensor),
                              .piece = {.first = first,
                                        .count = (to - at) / tensor->unit_bytes,
                                        .file = file,
                                        .offset = at,
                                        .bytes = to - at}};
        if ((to - at) % tensor->unit_bytes != 0 || !take_checksum(checksums, &found.piece.checksum))
            return error_set(ret_error, "%s: its header has no sound checksums", name);
        if (!add_found(g, &found, ret_error)) return false;
        first += found.piece.count;
        at = to;
    }
    return true;
}

static bool read_header(struct store *store, const struct ckpt_manifest *manifest,
                        struct ckpt_file *file, struct safetensors *ret_tensors,
                        struct error *ret_error)
{
    char name[STORE_NAME_BYTES], *header = NULL;
    uint64_t bytes, length = 0;
    ckpt_object_name(manifest->step, file->name, name);
    struct store_reader *reader = store_open_object(store, name, &bytes, ret_error);
    if (reader == NULL) return false;
    bool fine = bytes == file->bytes && bytes >= 8;
    if (!fine)
        (void)error_set(ret_error, "%s: %" PRIu64 " bytes, its writer said %" PRIu64, name, bytes,
                        file->bytes);
    fine = fine && store_read(reader, 0, &length, sizeof length, ret_error);
    if (fine && (length > SAFETENSORS_HEADER_MAX || length > bytes - 8))
        fine = error_set(ret_error, "%s: its header is longer than the file", name);
    if (fine && (header = mem_alloc(8 + length)) == NULL)
        fine = error_set(ret_error, "%s: out of memory for its header", name);
    fine = fine && store_read(reader, 0, header, 8 + length, ret_error);
    if (fine && XXH3_64bits(header, 8 + length) != file->header_checksum)
        fine = error_set(ret_error, "%s: its header is not what its writer wrote", name);
    fine = fine && safetensors_parse(header, 8 + length, bytes, ret_tensors, ret_error);
    file->header_bytes = 8 + length;
    mem_free(header);
    store_close_object(reader);
    return fine;
}

static bool gather_file(struct store *store, struct gathering *g, uint32_t index,
                        struct error *ret_error)
{
    struct safetensors tensors;
    struct ckpt_file *file = &g->manifest->file[index];
    if (!read_header(store, g->manifest, file, &tensors, ret_error)) return false;
    const char *checksums = safetensors_meta(&tensors, "shoal.checksums");
    bool fine = checksums != NULL ||
                error_set(ret_error, "%s: its header has no sound checksums", file->name);
    for (uint32_t i = 0; i < tensors.count && fine; i++)
        fine = add_entry(g, index, &tensors.entry[i], tensors.data_offset, &checksums, ret_error);
    safetensors_free(&tensors);
    return fine;
}

/* Sorted pieces into the manifest, tensor after tensor. */
static bool place_found(struct gathering *g, struct error *ret_error)
{
    struct ckpt_manifest *manifest = g->manifest;
    manifest->piece = mem_zalloc(g->count + 1, sizeof *manifest->piece);
    if (manifest->piece == NULL)
        return error_set(ret_error, "out of memory for the pieces of a checkpoint");
    if (g->count > 1) qsort(g->found, g->count, sizeof *g->found, compare_found);
    for (uint32_t i = 0, next = 0; i < manifest->tensor_count; i++) {
        manifest->tensor[i].first_piece = next;
        for (; next < g->count && g->found[next].tensor == i; next++)
            manifest->piece[next] = g->found[next].piece;
        manifest->tensor[i].piece_count = next - manifest->tensor[i].first_piece;
    }
    manifest->piece_count = (uint32_t)g->count;
    return true;
}

bool ckpt_gather(struct store *store, struct ckpt_manifest *manifest, struct error *ret_error)
{
    struct gathering g = {.manifest = manifest};
    g.by_name = mem_zalloc(manifest->tensor_count, sizeof(struct ckpt_tensor *));
    bool fine = g.by_name != NULL || error_set(ret_error, "out of memory for the tensors");
    for (uint32_t i = 0; i < manifest->tensor_count && fine; i++)
        g.by_name[i] = &manifest->tensor[i];
    if (fine) qsort(g.by_name, manifest->tensor_count, sizeof *g.by_name, compare_names);
    for (uint32_t i = 0; i < manifest->file_count && fine; i++)
        fine = gather_file(store, &g, i, ret_error);
    fine = fine && place_found(&g, ret_error) && ckpt_manifest_check(manifest, ret_error);
    mem_free(g.by_name);
    mem_free(g.found);
    return fine;
}

static bool same_run(const struct ckpt_manifest *a, const struct ckpt_manifest *b)
{
    return a->model == b->model && a->identity == b->identity && a->slots == b->slots &&
           a->samples_per_slot == b->samples_per_slot && a->tensor_count == b->tensor_count;
}

static bool is_file_of(const struct ckpt_manifest *manifest, const char *file)
{
    for (uint32_t i = 0; i < manifest->file_count; i++)
        if (strcmp(manifest->file[i].name, file) == 0) return true;
    return false;
}

/* Takes away what is in the step's folder: of this attempt (`ours`), or all else. */
static bool clear_step(struct store *store, const struct ckpt_manifest *manifest, bool ours,
                       struct error *ret_error)
{
    char prefix[STORE_NAME_BYTES], name[STORE_NAME_BYTES];
    struct store_listing objects;
    ckpt_object_name(manifest->step, "", prefix);
    ckpt_object_name(manifest->step, "manifest.json", name);
    if (!ours && !store_remove(store, name, ret_error)) return false;
    if (!store_list(store, prefix, &objects, ret_error)) return false;
    bool fine = true;
    for (uint32_t i = 0; i < objects.count; i++) {
        const char *file = strchr(objects.item[i].name, '/') + 1;
        if (strcmp(file, "manifest.json") == 0 || is_file_of(manifest, file) != ours) continue;
        fine = store_remove(store, objects.item[i].name, ret_error) && fine;
    }
    store_listing_free(&objects);
    return fine;
}

/* Of a checkpoint that is there already under this step. */
enum rival { RIVAL_AS_GOOD, RIVAL_DAMAGED, RIVAL_FOREIGN };

static enum rival judge_rival(struct store *store, const struct ckpt_manifest *manifest)
{
    struct ckpt_manifest there;
    if (!ckpt_read_manifest(store, manifest->step, &there, NULL)) return RIVAL_DAMAGED;
    enum rival rival = RIVAL_FOREIGN;
    if (same_run(&there, manifest))
        rival = ckpt_verify(store, &there, CKPT_READ_THREADS, NULL) ? RIVAL_AS_GOOD : RIVAL_DAMAGED;
    bool ours = there.file_count > 0 && is_file_of(manifest, there.file[0].name);
    ckpt_manifest_free(&there);
    if (rival != RIVAL_DAMAGED && !ours)
        (void)clear_step(store, manifest, true, NULL); /* prune finds what stays */
    return rival;
}

bool ckpt_publish(struct store *store, const struct ckpt_manifest *manifest,
                  struct error *ret_error)
{
    char name[STORE_NAME_BYTES], *text;
    size_t count;
    ckpt_object_name(manifest->step, "manifest.json", name);
    if (!ckpt_manifest_format(manifest, &text, &count, ret_error)) return false;
    enum store_put put = store_put_if_absent(store, name, text, count, ret_error);
    bool fine = put == STORE_PUT_DONE;
    enum rival rival = put == STORE_PUT_EXISTS ? judge_rival(store, manifest) : RIVAL_AS_GOOD;
    if (put == STORE_PUT_EXISTS) fine = rival == RIVAL_AS_GOOD;
    if (rival == RIVAL_FOREIGN)
        (void)error_set(ret_error,
                        "a checkpoint of another run has step %" PRIu64
                        " in this folder and is left "
                        "alone; give this job a checkpoint folder of its own",
                        manifest->step);
    if (rival == RIVAL_DAMAGED)
        fine = clear_step(store, manifest, false, ret_error) &&
               store_put_if_absent(store, name, text, count, ret_error) == STORE_PUT_DONE;
    mem_free(text);
    return fine;
}
