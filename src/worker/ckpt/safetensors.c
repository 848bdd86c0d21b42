#include "worker/ckpt/safetensors.h"
#include "base/mem.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[] = {
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},
    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
    {"I64", 64},    {"U64", 64},        {"F64", 64},        {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

static uint32_t bits_of_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].bits;
    return 0;
}

static bool read_count(json_t *value, uint64_t *ret_count)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *ret_count = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_shape(json_t *shape, struct safetensors_entry *entry, struct error *ret_error)
{
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_DIMS_MAX)
        return error_set(ret_error, "tensor %s: shape must be a list of at most %d sizes",
                         entry->name, SAFETENSORS_DIMS_MAX);
    entry->dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < entry->dims; i++)
        if (!read_count(json_array_get(shape, i), &entry->shape[i]))
            return error_set(ret_error, "tensor %s: shape holds something that is not a size",
                             entry->name);
    return true;
}

static bool size_agrees(const struct safetensors_entry *entry, struct error *ret_error)
{
    uint64_t bits = bits_of_dtype(entry->dtype), held;
    for (uint32_t i = 0; i < entry->dims; i++)
        if (__builtin_mul_overflow(bits, entry->shape[i], &bits))
            return error_set(ret_error, "tensor %s: shape overflows", entry->name);
    if (entry->end < entry->begin || __builtin_mul_overflow(entry->end - entry->begin, 8u, &held) ||
        bits % 8 != 0 || bits != held)
        return error_set(ret_error, "tensor %s: shape and dtype do not match data_offsets",
                         entry->name);
    return true;
}

static bool read_entry(const char *name, json_t *value, struct safetensors_entry *entry,
                       struct error *ret_error)
{
    json_t *offsets = json_object_get(value, "data_offsets");
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (strlen(name) >= sizeof entry->name)
        return error_set(ret_error, "tensor name longer than %d bytes", SAFETENSORS_NAME_BYTES - 1);
    memcpy(entry->name, name, strlen(name) + 1);
    if (!json_is_object(value) || json_object_size(value) != 3 || dtype == NULL)
        return error_set(ret_error, "tensor %s: exactly dtype, shape and data_offsets are allowed",
                         name);
    if (bits_of_dtype(dtype) == 0)
        return error_set(ret_error, "tensor %s: unknown dtype %.40s", name, dtype);
    memcpy(entry->dtype, dtype, strlen(dtype) + 1);
    if (!read_shape(json_object_get(value, "shape"), entry, ret_error)) return false;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_count(json_array_get(offsets, 0), &entry->begin) ||
        !read_count(json_array_get(offsets, 1), &entry->end))
        return error_set(ret_error, "tensor %s: data_offsets must be two positions", name);
    return size_agrees(entry, ret_error);
}

static bool read_metadata(json_t *metadata, struct safetensors *file, struct error *ret_error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return error_set(ret_error, "__metadata__ must map strings to strings");
    file->meta = mem_zalloc(json_object_size(metadata) + 1, sizeof *file->meta);
    if (file->meta == NULL) return error_set(ret_error, "out of memory for the metadata");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return error_set(ret_error, "__metadata__ must map strings to strings");
        struct safetensors_meta *meta = &file->meta[file->meta_count++];
        meta->key = mem_strdup(key);
        meta->value = mem_strdup(json_string_value(value));
        if (meta->key == NULL || meta->value == NULL)
            return error_set(ret_error, "out of memory for the metadata");
    }
    return true;
}

static int compare_entries(const void *left, const void *right)
{
    const struct safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* No hole, no overlap, nothing left over. */
static bool ranges_meet(const struct safetensors *file, uint64_t data_bytes,
                        struct error *ret_error)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < file->count; i++) {
        if (file->entry[i].begin != at)
            return error_set(ret_error,
                             "tensor %s: its data begins at %" PRIu64 ", not at %" PRIu64,
                             file->entry[i].name, file->entry[i].begin, at);
        at = file->entry[i].end;
    }
    if (at != data_bytes)
        return error_set(ret_error, "the tensors end at %" PRIu64 " of %" PRIu64 " bytes of data",
                         at, data_bytes);
    return true;
}

static bool read_entries(json_t *root, struct safetensors *file, struct error *ret_error)
{
    const char *name;
    json_t *value;
    size_t count = json_object_size(root);
    file->entry = mem_zalloc(count + 1, sizeof *file->entry);
    if (file->entry == NULL) return error_set(ret_error, "out of memory for %zu tensors", count);
    json_object_foreach(root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!read_metadata(value, file, ret_error)) return false;
            continue;
        }
        if (!read_entry(name, value, &file->entry[file->count], ret_error)) return false;
        file->count++;
    }
    qsort(file->entry, file->count, sizeof *file->entry, compare_entries);
    return true;
}

bool safetensors_parse(const char *bytes, size_t count, uint64_t file_bytes,
                       struct safetensors *ret_file, struct error *ret_error)
{
    uint64_t header_bytes;
    if (count < 8 || file_bytes < 8) return error_set(ret_error, "header too small");
    memcpy(&header_bytes, bytes, 8);
    if (header_bytes > SAFETENSORS_HEADER_MAX) return error_set(ret_error, "header too large");
    if (header_bytes > file_bytes - 8 || header_bytes > count - 8)
        return error_set(ret_error, "invalid header length: the file is shorter (truncated?)");
    if (header_bytes == 0 || bytes[8] != '{')
        return error_set(ret_error, "the header does not begin with {");
    json_error_t json_error;
    json_t *root = json_loadb(bytes + 8, header_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(ret_error, "the header is not JSON: %s", json_error.text);
    }
    struct safetensors file = {.data_offset = 8 + header_bytes};
    bool sound = read_entries(root, &file, ret_error) &&
                 ranges_meet(&file, file_bytes - file.data_offset, ret_error);
    json_decref(root);
    if (sound)
        *ret_file = file;
    else
        safetensors_free(&file);
    return sound;
}

void safetensors_free(struct safetensors *file)
{
    for (uint32_t i = 0; i < file->meta_count; i++) {
        mem_free(file->meta[i].key);
        mem_free(file->meta[i].value);
    }
    mem_free(file->meta);
    mem_free(file->entry);
    *file = (struct safetensors){0};
}

const char *safetensors_meta(const struct safetensors *file, const char *key)
{
    for (uint32_t i = 0; i < file->meta_count; i++)
        if (strcmp(file->meta[i].key, key) == 0) return file->meta[i].value;
    return NULL;
}

static json_t *entry_json(const struct safetensors_entry *entry)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < entry->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)entry->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", entry->dtype, "shape", shape, "data_offsets",
                     (json_int_t)entry->begin, (json_int_t)entry->end);
}

static json_t *header_json(const struct safetensors_entry *entry, uint32_t count,
                           const struct safetensors_meta *meta, uint32_t meta_count)
{
    json_t *root = json_object(), *metadata = meta_count > 0 ? json_object() : NULL;
    bool built = root != NULL;
    for (uint32_t i = 0; i < meta_count && built; i++)
        built = json_object_set_new(metadata, meta[i].key, json_string(meta[i].value)) == 0;
    if (metadata != NULL) built = json_object_set_new(root, "__metadata__", metadata) == 0 && built;
    for (uint32_t i = 0; i < count && built; i++)
        built = json_object_set_new(root, entry[i].name, entry_json(&entry[i])) == 0;
    if (built) return root;
    json_decref(root);
    return NULL;
}

bool safetensors_header(const struct safetensors_entry *entry, uint32_t count,
                        const struct safetensors_meta *meta, uint32_t meta_count, size_t least,
                        size_t align, char **ret_bytes, size_t *ret_count, struct error *ret_error)
{
    json_t *root = header_json(entry, count, meta, meta_count);
    size_t length = root != NULL ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    size_t whole = 8 + length > least ? 8 + length : least;
    whole = (whole + align - 1) / align * align;
    bool built = false;
    char *bytes = length == 0 ? NULL : mem_alloc(whole);
    if (bytes != NULL) {
        uint64_t padded = whole - 8;
        memcpy(bytes, &padded, 8);
        memset(bytes + 8, ' ', padded);
        built = json_dumpb(root, bytes + 8, padded, JSON_COMPACT) == length;
    }
    json_decref(root);
    if (!built) {
        mem_free(bytes);
        return error_set(ret_error, "out of memory for a safetensors header");
    }
    *ret_bytes = bytes;
    *ret_count = whole;
    return true;
}
