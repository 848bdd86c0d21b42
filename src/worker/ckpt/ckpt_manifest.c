#include "worker/ckpt/ckpt_manifest.h"
#include "base/mem.h"
#include "core/assert.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ckpt_manifest_free(struct ckpt_manifest *manifest)
{
    mem_free(manifest->file);
    mem_free(manifest->tensor);
    mem_free(manifest->piece);
    *manifest = (struct ckpt_manifest){0};
}

const char *ckpt_dtype(const struct ckpt_tensor *tensor)
{
    return tensor->unit_bytes == 2 ? "I16" : "F32";
}

static bool get_count(json_t *object, const char *key, uint64_t maximum, uint64_t *ret_count)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > maximum)
        return false;
    *ret_count = (uint64_t)json_integer_value(value);
    return true;
}

static bool get_text(json_t *object, const char *key, char *into, size_t bytes)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || text[0] == '\0' || strlen(text) >= bytes) return false;
    memcpy(into, text, strlen(text) + 1);
    return true;
}

static bool get_hex(json_t *object, const char *key, const char *prefix, uint64_t *ret_value)
{
    const char *text = json_string_value(json_object_get(object, key));
    size_t skip = strlen(prefix);
    if (text == NULL || strncmp(text, prefix, skip) != 0 || strlen(text) != skip + 16 ||
        strspn(text + skip, "0123456789abcdef") != 16)
        return false;
    *ret_value = strtoull(text + skip, NULL, 16);
    return true;
}

static bool read_file(json_t *value, struct ckpt_file *file)
{
    return get_text(value, "file", file->name, sizeof file->name) &&
           strncmp(file->name, "shard-", 6) == 0 && strchr(file->name, '/') == NULL &&
           get_count(value, "bytes", INT64_MAX, &file->bytes) &&
           get_count(value, "header_bytes", file->bytes, &file->header_bytes) &&
           get_hex(value, "header_checksum", "xxh3:", &file->header_checksum);
}

static bool read_piece(json_t *value, const struct ckpt_manifest *manifest,
                       const struct ckpt_tensor *tensor, struct ckpt_piece *piece)
{
    uint64_t file;
    if (manifest->file_count == 0 || !get_count(value, "file", manifest->file_count - 1, &file))
        return false;
    piece->file = (uint32_t)file;
    uint64_t held = manifest->file[file].bytes;
    return get_count(value, "offset", held, &piece->offset) &&
           get_count(value, "bytes", held - piece->offset, &piece->bytes) &&
           get_count(value, "first", tensor->elements, &piece->first) &&
           get_count(value, "count", tensor->elements - piece->first, &piece->count) &&
           piece->count > 0 && piece->bytes == piece->count * tensor->unit_bytes &&
           get_hex(value, "checksum", "xxh3:", &piece->checksum);
}

static bool read_shape(json_t *shape, struct ckpt_tensor *tensor)
{
    if (!json_is_array(shape) || json_array_size(shape) > SHOAL_DIMS_MAX) return false;
    uint64_t bytes = tensor->unit_bytes;
    tensor->dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->dims; i++) {
        json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) return false;
        tensor->shape[i] = (uint64_t)json_integer_value(size);
        if (__builtin_mul_overflow(bytes, tensor->shape[i], &bytes)) return false;
    }
    tensor->elements = bytes / tensor->unit_bytes;
    return bytes <= INT64_MAX;
}

static bool kind_is_known(const char *kind)
{
    static const char *const kinds[] = {"param", "state", "moment", "scales"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kind, kinds[i]) == 0) return true;
    return false;
}

static bool read_tensor(json_t *value, struct ckpt_manifest *manifest, uint32_t piece_room,
                        struct ckpt_tensor *tensor)
{
    char dtype[4];
    if (!get_text(value, "name", tensor->name, sizeof tensor->name) ||
        !get_text(value, "kind", tensor->kind, sizeof tensor->kind) ||
        !get_text(value, "dtype", dtype, sizeof dtype) || !kind_is_known(tensor->kind))
        return false;
    tensor->unit_bytes = strcmp(tensor->kind, "scales") == 0 ? 2 : 4;
    if (strcmp(dtype, ckpt_dtype(tensor)) != 0) return false;
    if (!read_shape(json_object_get(value, "shape"), tensor)) return false;
    json_t *pieces = json_object_get(value, "pieces");
    if (!json_is_array(pieces) || json_array_size(pieces) > piece_room - manifest->piece_count)
        return false;
    tensor->first_piece = manifest->piece_count;
    tensor->piece_count = (uint32_t)json_array_size(pieces);
    for (uint32_t i = 0; i < tensor->piece_count; i++)
        if (!read_piece(json_array_get(pieces, i), manifest, tensor,
                        &manifest->piece[manifest->piece_count++]))
            return false;
    return true;
}

static size_t count_pieces(json_t *tensors)
{
    size_t index, count = 0;
    json_t *tensor;
    json_array_foreach(tensors, index, tensor)
    {
        count += json_array_size(json_object_get(tensor, "pieces"));
    }
    return count;
}

static bool read_lists(json_t *root, struct ckpt_manifest *manifest, struct error *ret_error)
{
    json_t *files = json_object_get(root, "files"), *tensors = json_object_get(root, "tensors");
    size_t file_count = json_array_size(files), tensor_count = json_array_size(tensors);
    size_t pieces = count_pieces(tensors);
    if (!json_is_array(files) || file_count > CKPT_FILES_MAX || tensor_count == 0 ||
        tensor_count > CKPT_TENSORS_MAX || pieces > UINT32_MAX / 2)
        return error_set(ret_error, "no files or tensors, or more than the limits");
    manifest->file = mem_zalloc(file_count + 1, sizeof *manifest->file);
    manifest->tensor = mem_zalloc(tensor_count, sizeof *manifest->tensor);
    manifest->piece = mem_zalloc(pieces + 1, sizeof *manifest->piece);
    if (manifest->file == NULL || manifest->tensor == NULL || manifest->piece == NULL)
        return error_set(ret_error, "out of memory for a manifest of %zu tensors", tensor_count);
    for (; manifest->file_count < file_count; manifest->file_count++)
        if (!read_file(json_array_get(files, manifest->file_count),
                       &manifest->file[manifest->file_count]))
            return error_set(ret_error, "files[%u] is not a file, bytes, header and checksum",
                             manifest->file_count);
    for (; manifest->tensor_count < tensor_count; manifest->tensor_count++)
        if (!read_tensor(json_array_get(tensors, manifest->tensor_count), manifest,
                         (uint32_t)pieces, &manifest->tensor[manifest->tensor_count]))
            return error_set(ret_error,
                             "tensors[%u] is not sound: name, kind, dtype, shape, or pieces "
                             "outside of it or of their files",
                             manifest->tensor_count);
    return true;
}

static bool read_head(json_t *root, struct ckpt_manifest *manifest, struct error *ret_error)
{
    uint64_t version = 0, slots = 0, samples = 0;
    const char *format = json_string_value(json_object_get(root, "format"));
    if (format == NULL || strcmp(format, "shoal-checkpoint") != 0)
        return error_set(ret_error, "not a shoal-checkpoint manifest");
    if (!get_count(root, "version", UINT32_MAX, &version) || version != 2)
        return error_set(ret_error,
                         "a manifest of version %" PRIu64 ", this program reads version 2; go on "
                         "with the shoal that wrote it, or begin anew in another folder",
                         version);
    bool sound = get_count(root, "step", INT64_MAX, &manifest->step) &&
                 get_count(root, "steps", INT64_MAX, &manifest->steps) &&
                 get_count(root, "slots", SHOAL_SLOTS_MAX, &slots) &&
                 get_count(root, "samples_per_slot", UINT32_MAX, &samples) &&
                 get_hex(root, "model", "", &manifest->model) &&
                 get_hex(root, "identity", "", &manifest->identity);
    manifest->slots = (uint32_t)slots;
    manifest->samples_per_slot = (uint32_t)samples;
    return sound || error_set(ret_error, "step, steps, slots, samples_per_slot, model or identity "
                                         "is missing or out of range");
}

bool ckpt_manifest_parse(const char *text, size_t count, struct ckpt_manifest *ret_manifest,
                         struct error *ret_error)
{
    json_error_t json_error;
    json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &json_error);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(ret_error, "the manifest is not JSON: %s", json_error.text);
    }
    struct ckpt_manifest manifest = {0};
    bool sound = read_head(root, &manifest, ret_error) && read_lists(root, &manifest, ret_error) &&
                 ckpt_manifest_check(&manifest, ret_error);
    json_decref(root);
    if (sound)
        *ret_manifest = manifest;
    else
        ckpt_manifest_free(&manifest);
    return sound;
}

/* Volumes add up and nothing overlaps: pieces in order, each beginning where the last one ended. */
static bool tensor_is_covered(const struct ckpt_manifest *manifest,
                              const struct ckpt_tensor *tensor, struct error *ret_error)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + i];
        if (piece->first != at)
            return error_set(ret_error, "tensor %s: elements %" PRIu64 " to %" PRIu64 " %s",
                             tensor->name, piece->first < at ? piece->first : at,
                             piece->first < at ? at : piece->first,
                             piece->first < at ? "are held twice" : "are in no piece");
        at += piece->count;
    }
    return at == tensor->elements ||
           error_set(ret_error, "tensor %s: elements %" PRIu64 " to %" PRIu64 " are in no piece",
                     tensor->name, at, tensor->elements);
}

static int compare_places(const void *left, const void *right)
{
    const struct ckpt_piece *const *a = left, *const *b = right;
    if ((*a)->file != (*b)->file) return (*a)->file < (*b)->file ? -1 : 1;
    return (*a)->offset == (*b)->offset ? 0 : (*a)->offset < (*b)->offset ? -1 : 1;
}

static bool files_are_covered(const struct ckpt_manifest *manifest,
                              const struct ckpt_piece *const *sorted, struct error *ret_error)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const struct ckpt_file *file = &manifest->file[i];
        uint64_t at = file->header_bytes;
        for (; next < manifest->piece_count && sorted[next]->file == i; next++) {
            if (sorted[next]->offset != at) break;
            at += sorted[next]->bytes;
        }
        if (at != file->bytes)
            return error_set(ret_error, "%s: the byte at %" PRIu64 " is in no piece or in two",
                             file->name, at);
    }
    return next == manifest->piece_count;
}

bool ckpt_manifest_check(const struct ckpt_manifest *manifest, struct error *ret_error)
{
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        if (!tensor_is_covered(manifest, &manifest->tensor[i], ret_error)) return false;
    const struct ckpt_piece **sorted =
        mem_zalloc((size_t)manifest->piece_count + 1, sizeof(struct ckpt_piece *));
    if (sorted == NULL) return error_set(ret_error, "out of memory for the pieces");
    for (uint32_t i = 0; i < manifest->piece_count; i++) sorted[i] = &manifest->piece[i];
    qsort(sorted, manifest->piece_count, sizeof *sorted, compare_places);
    bool covered = files_are_covered(manifest, sorted, ret_error);
    mem_free(sorted);
    return covered;
}

static void set_checksum(json_t *object, const char *key, uint64_t checksum)
{
    char hex[32];
    snprintf(hex, sizeof hex, "xxh3:%016" PRIx64, checksum);
    json_object_set_new(object, key, json_string(hex));
}

static json_t *tensor_json(const struct ckpt_manifest *manifest, const struct ckpt_tensor *tensor)
{
    json_t *pieces = json_array(), *shape = json_array();
    for (uint32_t i = 0; i < tensor->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + i];
        json_t *row =
            json_pack("{s:I, s:I, s:I, s:I, s:I}", "first", (json_int_t)piece->first, "count",
                      (json_int_t)piece->count, "file", (json_int_t)piece->file, "offset",
                      (json_int_t)piece->offset, "bytes", (json_int_t)piece->bytes);
        set_checksum(row, "checksum", piece->checksum);
        json_array_append_new(pieces, row);
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", tensor->name, "kind", tensor->kind,
                     "dtype", ckpt_dtype(tensor), "shape", shape, "pieces", pieces);
}

static json_t *manifest_json(const struct ckpt_manifest *manifest)
{
    json_t *files = json_array(), *tensors = json_array();
    char identity[32], model[32];
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const struct ckpt_file *file = &manifest->file[i];
        json_t *row =
            json_pack("{s:s, s:I, s:I}", "file", file->name, "bytes", (json_int_t)file->bytes,
                      "header_bytes", (json_int_t)file->header_bytes);
        set_checksum(row, "header_checksum", file->header_checksum);
        json_array_append_new(files, row);
    }
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        json_array_append_new(tensors, tensor_json(manifest, &manifest->tensor[i]));
    snprintf(identity, sizeof identity, "%016" PRIx64, manifest->identity);
    snprintf(model, sizeof model, "%016" PRIx64, manifest->model);
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o}", "format",
                     "shoal-checkpoint", "version", 2, "step", (json_int_t)manifest->step, "steps",
                     (json_int_t)manifest->steps, "slots", (json_int_t)manifest->slots,
                     "samples_per_slot", (json_int_t)manifest->samples_per_slot, "model", model,
                     "identity", identity, "files", files, "tensors", tensors);
}

bool ckpt_manifest_format(const struct ckpt_manifest *manifest, char **ret_text, size_t *ret_count,
                          struct error *ret_error)
{
    json_t *root = manifest_json(manifest);
    size_t count = root == NULL ? 0 : json_dumpb(root, NULL, 0, JSON_INDENT(1));
    char *text = count == 0 ? NULL : mem_alloc(count + 1);
    bool written = text != NULL && json_dumpb(root, text, count, JSON_INDENT(1)) == count;
    json_decref(root);
    if (!written) {
        mem_free(text);
        return error_set(ret_error, "out of memory for the manifest");
    }
    text[count] = '\n';
    *ret_text = text;
    *ret_count = count + 1;
    return true;
}

bool ckpt_tensors_of(const struct job *job, struct ckpt_tensor **ret_tensor, uint32_t *ret_count,
                     struct error *ret_error)
{
    uint32_t count = job->tensor_count + job->moment_count * job->param_count + 1;
    struct ckpt_tensor *tensor = mem_zalloc(count, sizeof *tensor);
    if (tensor == NULL) return error_set(ret_error, "out of memory for the tensors");
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        const struct job_tensor *from = &job->tensors[i];
        tensor[i] = (struct ckpt_tensor){
            .elements = from->element_count, .dims = from->dims, .unit_bytes = sizeof(float)};
        memcpy(tensor[i].name, from->name, sizeof from->name);
        memcpy(tensor[i].shape, from->shape, sizeof from->shape);
        snprintf(tensor[i].kind, sizeof tensor[i].kind, "%s", from->is_param ? "param" : "state");
    }
    for (uint32_t i = job->tensor_count; i < count - 1; i++) {
        uint32_t param = (i - job->tensor_count) % job->param_count;
        tensor[i] = tensor[param];
        snprintf(tensor[i].kind, sizeof tensor[i].kind, "moment");
        int length = snprintf(tensor[i].name, sizeof tensor[i].name, "%s/%s",
                              job->moment_name[(i - job->tensor_count) / job->param_count],
                              tensor[param].name);
        ASSERT(length < JOB_NAME_BYTES); /* job_init() has checked */
    }
    tensor[count - 1] = (struct ckpt_tensor){.name = "shoal.scales",
                                             .kind = "scales",
                                             .shape = {job->layout.block_count},
                                             .elements = job->layout.block_count,
                                             .dims = 1,
                                             .unit_bytes = sizeof(int16_t)};
    *ret_tensor = tensor;
    *ret_count = count;
    return true;
}
