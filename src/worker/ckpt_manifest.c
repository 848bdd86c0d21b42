#include "worker/ckpt_manifest.h"
#include "base/mem.h"
#include "worker/safetensors.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char scales_name[] = "shoal.scales";

void ckpt_manifest_free(struct ckpt_manifest *manifest)
{
    mem_free(manifest->file);
    mem_free(manifest->tensor);
    mem_free(manifest->piece);
    *manifest = (struct ckpt_manifest){0};
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
           get_hex(value, "checksum", "xxh3:", &file->checksum);
}

static bool read_piece(json_t *value, const struct ckpt_manifest *manifest,
                       struct ckpt_piece *piece)
{
    uint64_t file;
    if (manifest->file_count == 0 || !get_count(value, "file", manifest->file_count - 1, &file))
        return false;
    piece->file = (uint32_t)file;
    uint64_t held = manifest->file[file].bytes;
    return get_count(value, "offset", held, &piece->offset) &&
           get_count(value, "bytes", held - piece->offset, &piece->bytes);
}

static bool read_shape(json_t *shape, struct ckpt_tensor *tensor, uint64_t unit_bytes)
{
    if (!json_is_array(shape) || json_array_size(shape) > SHOAL_DIMS_MAX) return false;
    tensor->dims = (uint32_t)json_array_size(shape);
    tensor->bytes = unit_bytes;
    for (uint32_t i = 0; i < tensor->dims; i++) {
        json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) return false;
        tensor->shape[i] = (uint64_t)json_integer_value(size);
        if (__builtin_mul_overflow(tensor->bytes, tensor->shape[i], &tensor->bytes)) return false;
    }
    return tensor->bytes <= INT64_MAX;
}

static bool read_tensor(json_t *value, struct ckpt_manifest *manifest, uint32_t piece_room,
                        struct ckpt_tensor *tensor)
{
    char dtype[4];
    if (!get_text(value, "name", tensor->name, sizeof tensor->name) ||
        !get_text(value, "kind", tensor->kind, sizeof tensor->kind) ||
        !get_text(value, "dtype", dtype, sizeof dtype))
        return false;
    bool scales = strcmp(tensor->kind, "scales") == 0;
    if (!scales && strcmp(tensor->kind, "param") != 0 && strcmp(tensor->kind, "state") != 0)
        return false;
    if (strcmp(dtype, scales ? "I16" : "F32") != 0) return false;
    if (!read_shape(json_object_get(value, "shape"), tensor, scales ? 2 : 4)) return false;
    json_t *pieces = json_object_get(value, "pieces");
    uint64_t covered = 0;
    if (!json_is_array(pieces) || json_array_size(pieces) > piece_room - manifest->piece_count)
        return false;
    tensor->first_piece = manifest->piece_count;
    tensor->piece_count = (uint32_t)json_array_size(pieces);
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        struct ckpt_piece *piece = &manifest->piece[manifest->piece_count++];
        if (!read_piece(json_array_get(pieces, i), manifest, piece)) return false;
        if (piece->bytes > tensor->bytes - covered) return false;
        covered += piece->bytes;
    }
    return covered == tensor->bytes;
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
    if (file_count == 0 || file_count > 65536 || tensor_count == 0 ||
        tensor_count > JOB_TENSORS_MAX + 1 || pieces > 16 * (size_t)JOB_TENSORS_MAX + file_count)
        return error_set(ret_error, "no files or tensors, or more than the limits");
    manifest->file = mem_zalloc(file_count, sizeof *manifest->file);
    manifest->tensor = mem_zalloc(tensor_count, sizeof *manifest->tensor);
    manifest->piece = mem_zalloc(pieces + 1, sizeof *manifest->piece);
    if (manifest->file == NULL || manifest->tensor == NULL || manifest->piece == NULL)
        return error_set(ret_error, "out of memory for a manifest of %zu tensors", tensor_count);
    for (; manifest->file_count < file_count; manifest->file_count++)
        if (!read_file(json_array_get(files, manifest->file_count),
                       &manifest->file[manifest->file_count]))
            return error_set(ret_error, "files[%u] is not a file, bytes and checksum",
                             manifest->file_count);
    for (; manifest->tensor_count < tensor_count; manifest->tensor_count++)
        if (!read_tensor(json_array_get(tensors, manifest->tensor_count), manifest,
                         (uint32_t)pieces, &manifest->tensor[manifest->tensor_count]))
            return error_set(ret_error,
                             "tensors[%u] is not sound: names, kind, shape, or pieces "
                             "that do not cover it exactly",
                             manifest->tensor_count);
    return true;
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
    uint64_t version = 0, slots = 0, samples = 0;
    const char *format = json_string_value(json_object_get(root, "format"));
    bool sound = format != NULL && strcmp(format, "shoal-checkpoint") == 0 &&
                 get_count(root, "version", 1, &version) && version == 1 &&
                 get_count(root, "step", INT64_MAX, &manifest.step) &&
                 get_count(root, "steps", INT64_MAX, &manifest.steps) &&
                 get_count(root, "slots", SHOAL_SLOTS_MAX, &slots) &&
                 get_count(root, "samples_per_slot", UINT32_MAX, &samples) &&
                 get_hex(root, "model", "", &manifest.model) &&
                 get_hex(root, "identity", "", &manifest.identity);
    manifest.slots = (uint32_t)slots;
    manifest.samples_per_slot = (uint32_t)samples;
    if (!sound) (void)error_set(ret_error, "not a shoal-checkpoint manifest of version 1");
    sound = sound && read_lists(root, &manifest, ret_error);
    json_decref(root);
    if (sound)
        *ret_manifest = manifest;
    else
        ckpt_manifest_free(&manifest);
    return sound;
}

static json_t *shape_json(const uint64_t *shape, uint32_t dims)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < dims; i++)
        json_array_append_new(list, json_integer((json_int_t)shape[i]));
    return list;
}

static json_t *tensor_json(const struct ckpt_manifest *manifest, const struct ckpt_tensor *tensor)
{
    json_t *pieces = json_array();
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + i];
        json_array_append_new(pieces, json_pack("{s:I, s:I, s:I}", "file", (json_int_t)piece->file,
                                                "offset", (json_int_t)piece->offset, "bytes",
                                                (json_int_t)piece->bytes));
    }
    bool scales = strcmp(tensor->kind, "scales") == 0;
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", tensor->name, "kind", tensor->kind,
                     "dtype", scales ? "I16" : "F32", "shape",
                     shape_json(tensor->shape, tensor->dims), "pieces", pieces);
}

static json_t *manifest_json(const struct ckpt_manifest *manifest)
{
    json_t *files = json_array(), *tensors = json_array();
    char hex[32], model[32];
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        snprintf(hex, sizeof hex, "xxh3:%016" PRIx64, manifest->file[i].checksum);
        json_array_append_new(files,
                              json_pack("{s:s, s:I, s:s}", "file", manifest->file[i].name, "bytes",
                                        (json_int_t)manifest->file[i].bytes, "checksum", hex));
    }
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        json_array_append_new(tensors, tensor_json(manifest, &manifest->tensor[i]));
    snprintf(hex, sizeof hex, "%016" PRIx64, manifest->identity);
    snprintf(model, sizeof model, "%016" PRIx64, manifest->model);
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o}", "format",
                     "shoal-checkpoint", "version", 1, "step", (json_int_t)manifest->step, "steps",
                     (json_int_t)manifest->steps, "slots", (json_int_t)manifest->slots,
                     "samples_per_slot", (json_int_t)manifest->samples_per_slot, "model", model,
                     "identity", hex, "files", files, "tensors", tensors);
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

static uint64_t share_first(const struct job *job, uint32_t index, uint32_t count)
{
    /* weight_count * index / count, without the overflow */
    return job->weight_count / count * index + job->weight_count % count * index / count;
}

/* The part of a tensor that begins at element `at` of the weights inside [first, end). */
static bool overlap(const struct job_tensor *tensor, uint64_t at, uint64_t first, uint64_t end,
                    uint64_t *ret_start, uint64_t *ret_elements)
{
    uint64_t from = first > at ? first : at, past = at + tensor->element_count;
    if (past > end) past = end;
    if (from >= past) return false;
    *ret_start = from - at;
    *ret_elements = past - from;
    return true;
}

static void describe(struct safetensors_entry *entry, const struct job_tensor *tensor,
                     uint64_t start, uint64_t elements, uint64_t begin)
{
    bool whole = elements == tensor->element_count;
    if (whole)
        snprintf(entry->name, sizeof entry->name, "%s", tensor->name);
    else
        snprintf(entry->name, sizeof entry->name, "%s@%" PRIu64, tensor->name, start);
    snprintf(entry->dtype, sizeof entry->dtype, "F32");
    entry->dims = whole ? tensor->dims : 1;
    entry->shape[0] = elements;
    if (whole) memcpy(entry->shape, tensor->shape, sizeof tensor->shape);
    entry->begin = begin;
    entry->end = begin + elements * sizeof(float);
}

static uint32_t describe_all(struct safetensors_entry *entry, const struct job *job,
                             const struct ckpt_share *share)
{
    uint64_t at = 0, begin = 0, start, elements;
    uint32_t used = 0;
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        const struct job_tensor *tensor = &job->tensors[i];
        if (overlap(tensor, at, share->first, share->end, &start, &elements)) {
            describe(&entry[used], tensor, start, elements, begin);
            begin = entry[used++].end;
        }
        at += tensor->element_count;
    }
    if (share->scale_bytes == 0) return used;
    entry[used] = (struct safetensors_entry){.dtype = "I16", .dims = 1, .begin = begin};
    snprintf(entry[used].name, sizeof entry[used].name, "%s", scales_name);
    entry[used].shape[0] = share->scale_bytes / sizeof(int16_t);
    entry[used].end = begin + share->scale_bytes;
    return used + 1;
}

bool ckpt_share_init(struct ckpt_share *share, const struct job *job, uint32_t index,
                     uint32_t count, struct error *ret_error)
{
    *share = (struct ckpt_share){.first = share_first(job, index, count),
                                 .end = share_first(job, index + 1, count)};
    if (index == 0) share->scale_bytes = job->layout.block_count * sizeof(int16_t);
    share->data_bytes = (share->end - share->first) * sizeof(float) + share->scale_bytes;
    struct safetensors_entry *entry = mem_zalloc((size_t)job->tensor_count + 1, sizeof *entry);
    if (entry == NULL) return error_set(ret_error, "out of memory for a checkpoint shard");
    uint32_t used = describe_all(entry, job, share);
    bool built = safetensors_header(entry, used, &share->header, &share->header_bytes, ret_error);
    mem_free(entry);
    return built;
}

void ckpt_share_free(struct ckpt_share *share)
{
    mem_free(share->header);
    *share = (struct ckpt_share){0};
}

static void add_pieces(struct ckpt_manifest *manifest, const struct job *job,
                       const struct ckpt_share *share, uint32_t file_index, uint32_t tensor_index,
                       uint64_t at)
{
    uint64_t start, elements;
    if (!overlap(&job->tensors[tensor_index], at, share->first, share->end, &start, &elements))
        return;
    manifest->piece[manifest->piece_count++] = (struct ckpt_piece){
        .file = file_index,
        .offset = share->header_bytes + (at + start - share->first) * sizeof(float),
        .bytes = elements * sizeof(float)};
}

static void fill_tensors(struct ckpt_manifest *manifest, const struct job *job,
                         const struct ckpt_share *shares, uint32_t count)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        struct ckpt_tensor *tensor = &manifest->tensor[i];
        const struct job_tensor *from = &job->tensors[i];
        memcpy(tensor->name, from->name, sizeof tensor->name);
        snprintf(tensor->kind, sizeof tensor->kind, "%s", from->is_param ? "param" : "state");
        memcpy(tensor->shape, from->shape, sizeof tensor->shape);
        tensor->dims = from->dims;
        tensor->bytes = from->element_count * sizeof(float);
        tensor->first_piece = manifest->piece_count;
        for (uint32_t k = 0; k < count; k++) add_pieces(manifest, job, &shares[k], k, i, at);
        tensor->piece_count = manifest->piece_count - tensor->first_piece;
        at += from->element_count;
    }
    struct ckpt_tensor *scales = &manifest->tensor[job->tensor_count];
    *scales = (struct ckpt_tensor){.name = "shoal.scales",
                                   .kind = "scales",
                                   .dims = 1,
                                   .shape = {job->layout.block_count},
                                   .bytes = shares[0].scale_bytes,
                                   .first_piece = manifest->piece_count,
                                   .piece_count = 1};
    manifest->piece[manifest->piece_count++] = (struct ckpt_piece){
        .file = 0,
        .offset = shares[0].header_bytes + shares[0].data_bytes - shares[0].scale_bytes,
        .bytes = shares[0].scale_bytes};
}

bool ckpt_manifest_of(struct ckpt_manifest *manifest, const struct job *job, uint32_t count,
                      uint64_t step, struct error *ret_error)
{
    *manifest = (struct ckpt_manifest){.step = step,
                                       .steps = job->steps,
                                       .model = job->model,
                                       .slots = job->slots,
                                       .samples_per_slot = job->samples_per_slot,
                                       .file_count = count,
                                       .identity = job->identity,
                                       .tensor_count = job->tensor_count + 1};
    manifest->file = mem_zalloc(count, sizeof *manifest->file);
    manifest->tensor = mem_zalloc(manifest->tensor_count, sizeof *manifest->tensor);
    /* Shards cut the run of elements in count - 1 places: so many pieces more than tensors. */
    manifest->piece = mem_zalloc((size_t)job->tensor_count + count + 1, sizeof *manifest->piece);
    struct ckpt_share *shares = mem_zalloc(count, sizeof *shares);
    bool built = manifest->file != NULL && manifest->tensor != NULL && manifest->piece != NULL &&
                 shares != NULL;
    if (!built) (void)error_set(ret_error, "out of memory for the manifest");
    for (uint32_t i = 0; i < count && built; i++) {
        built = ckpt_share_init(&shares[i], job, i, count, ret_error);
        manifest->file[i].bytes = shares[i].header_bytes + shares[i].data_bytes;
    }
    if (built) fill_tensors(manifest, job, shares, count);
    for (uint32_t i = 0; i < count && shares != NULL; i++) ckpt_share_free(&shares[i]);
    mem_free(shares);
    if (!built) ckpt_manifest_free(manifest);
    return built;
}
