/* `shoal ckpt merge|reshard`: the verbs that make files of a checkpoint. They go through it in windows of WINDOW_BYTES, so that a checkpoint larger than memory is no
 * matter (reshard holds one shard).
 */
#include "base/mem.h"
#include "worker/ckpt/ckpt_image.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_verbs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_PARTS = 8, WINDOW_BYTES = WINDOW_PARTS * STORE_PART_BYTES, FILE_STEM_BYTES = 64 };

/* --- merge --- */

/* One file of the result: tensors [first, end) of those that are merged. */
struct volume {
    uint32_t first, end;
    uint64_t bytes; /* of data */
};

struct merge {
    const struct ckpt_arguments *arguments;
    struct ckpt_manifest manifest;
    struct store *out;
    char stem[FILE_STEM_BYTES]; /* "model" of model.safetensors */
    uint32_t *tensor;           /* indices, by name */
    uint32_t tensor_count, volume_count;
    struct volume *volume;
    uint8_t *window;
};

static void name_volume(const struct merge *m, uint32_t index, char ret_name[STORE_NAME_BYTES])
{
    if (m->volume_count == 1)
        snprintf(ret_name, STORE_NAME_BYTES, "%s.safetensors", m->stem);
    else
        snprintf(ret_name, STORE_NAME_BYTES, "%s-%05u-of-%05u.safetensors", m->stem, index + 1,
                 m->volume_count);
}

static uint64_t bytes_of(const struct ckpt_tensor *tensor)
{
    return tensor->elements * tensor->unit_bytes;
}

static int compare_tensors(const void *left, const void *right, void *context)
{
    const struct ckpt_tensor *tensor = context;
    const uint32_t *a = left, *b = right;
    return strcmp(tensor[*a].name, tensor[*b].name);
}

/* As Hugging Face cuts: tensors in order, a new file where the limit would be passed. */
static bool plan_volumes(struct merge *m, struct error *ret_error)
{
    const struct ckpt_manifest *manifest = &m->manifest;
    m->tensor = mem_zalloc((size_t)manifest->tensor_count + 1, sizeof *m->tensor);
    m->volume = mem_zalloc((size_t)manifest->tensor_count + 1, sizeof *m->volume);
    if (m->tensor == NULL || m->volume == NULL)
        return error_set(ret_error, "out of memory for %u tensors", manifest->tensor_count);
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        bool param = strcmp(manifest->tensor[i].kind, "param") == 0;
        bool state = strcmp(manifest->tensor[i].kind, "scales") != 0 && !param;
        if (param || (state && m->arguments->with_state)) m->tensor[m->tensor_count++] = i;
    }
    qsort_r(m->tensor, m->tensor_count, sizeof *m->tensor, compare_tensors, manifest->tensor);
    struct volume *volume = &m->volume[m->volume_count++];
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        uint64_t bytes = bytes_of(&manifest->tensor[m->tensor[i]]);
        if (volume->bytes > 0 && volume->bytes + bytes > m->arguments->max_bytes) {
            volume = &m->volume[m->volume_count++];
            volume->first = i;
        }
        volume->end = i + 1;
        volume->bytes += bytes;
    }
    return true;
}

static bool make_header(const struct merge *m, const struct volume *volume, char **ret_header,
                        size_t *ret_bytes, struct error *ret_error)
{
    char key[] = "format", value[] = "pt";
    const struct safetensors_meta meta = {key, value};
    uint32_t count = volume->end - volume->first;
    struct safetensors_entry *entry = mem_zalloc((size_t)count + 1, sizeof *entry);
    if (entry == NULL) return error_set(ret_error, "out of memory for a header");
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct ckpt_tensor *tensor = &m->manifest.tensor[m->tensor[volume->first + i]];
        snprintf(entry[i].name, sizeof entry[i].name, "%s", tensor->name);
        snprintf(entry[i].dtype, sizeof entry[i].dtype, "%s", ckpt_dtype(tensor));
        memcpy(entry[i].shape, tensor->shape, sizeof tensor->shape);
        entry[i].dims = tensor->dims;
        entry[i].begin = at;
        entry[i].end = at += bytes_of(tensor);
    }
    bool built = safetensors_header(entry, count, &meta, 1, 0, 8, ret_header, ret_bytes, ret_error);
    mem_free(entry);
    return built;
}

/* Bytes [from, to) of a volume's data into `into`, which begins at byte `from`. */
static bool fill_data(struct merge *m, const struct volume *volume, uint64_t from, uint64_t to,
                      uint8_t *into, struct error *ret_error)
{
    struct ckpt_sink *sink = mem_zalloc((size_t)(volume->end - volume->first) + 1, sizeof *sink);
    if (sink == NULL) return error_set(ret_error, "out of memory for reading");
    uint32_t sinks = 0;
    uint64_t at = 0;
    for (uint32_t i = volume->first; i < volume->end; i++) {
        const struct ckpt_tensor *tensor = &m->manifest.tensor[m->tensor[i]];
        uint64_t end = at + bytes_of(tensor);
        uint64_t begin = at > from ? at : from, past = end < to ? end : to;
        if (begin < past) /* the data begins at a multiple of 8, so elements are never cut */
            sink[sinks++] =
                (struct ckpt_sink){m->tensor[i], (begin - at) / tensor->unit_bytes,
                                   (past - begin) / tensor->unit_bytes, into + (begin - from)};
        at = end;
    }
    bool fine =
        ckpt_read(m->arguments->store, &m->manifest, sink, sinks, CKPT_READ_THREADS, ret_error);
    mem_free(sink);
    return fine;
}

/* One window of a volume: up to WINDOW_PARTS parts from `part` on. */
static bool write_window(struct merge *m, const struct volume *volume, struct store_writer *writer,
                         const char *header, size_t header_bytes, uint32_t part,
                         struct error *ret_error)
{
    uint64_t total = header_bytes + volume->bytes;
    uint64_t from = (uint64_t)part * STORE_PART_BYTES, to = from + WINDOW_BYTES;
    if (to > total) to = total;
    uint64_t head = from < header_bytes ? header_bytes - from : 0;
    if (head > to - from) head = to - from;
    if (head > 0) memcpy(m->window, header + from, head);
    uint64_t data = from + head - header_bytes;
    if (from + head < to &&
        !fill_data(m, volume, data, data + (to - from - head), m->window + head, ret_error))
        return false;
    for (uint64_t at = from; at < to || at == 0; at += STORE_PART_BYTES) {
        uint64_t count = to - at < STORE_PART_BYTES ? to - at : STORE_PART_BYTES;
        if (!store_put_part(writer, (uint32_t)(at / STORE_PART_BYTES), m->window + (at - from),
                            count, ret_error))
            return false;
    }
    return true;
}

static bool write_volume(struct merge *m, uint32_t index, struct error *ret_error)
{
    const struct volume *volume = &m->volume[index];
    char name[STORE_NAME_BYTES], *header;
    size_t header_bytes;
    name_volume(m, index, name);
    if (!make_header(m, volume, &header, &header_bytes, ret_error)) return false;
    struct store_writer *writer =
        store_create(m->out, name, header_bytes + volume->bytes, ret_error);
    bool fine = writer != NULL;
    uint32_t parts = store_parts(header_bytes + volume->bytes);
    for (uint32_t part = 0; part < parts && fine; part += WINDOW_PARTS)
        fine = write_window(m, volume, writer, header, header_bytes, part, ret_error);
    mem_free(header);
    if (!fine) store_abort(writer);
    return fine && store_commit(writer, ret_error);
}

/* model.safetensors.index.json, last. */
static bool write_index(struct merge *m, struct error *ret_error)
{
    json_t *map = json_object();
    uint64_t total = 0;
    char name[STORE_NAME_BYTES];
    for (uint32_t i = 0; i < m->volume_count; i++) {
        name_volume(m, i, name);
        total += m->volume[i].bytes;
        for (uint32_t k = m->volume[i].first; k < m->volume[i].end; k++)
            json_object_set_new(map, m->manifest.tensor[m->tensor[k]].name, json_string(name));
    }
    json_t *root =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(root);
    if (text == NULL) return error_set(ret_error, "out of memory for the index");
    snprintf(name, sizeof name, "%s.safetensors.index.json", m->stem);
    bool fine = strlen(text) <= STORE_PART_BYTES ||
                error_set(ret_error, "%s: an index above 8 MiB; raise --max-bytes", name);
    struct store_writer *writer = fine ? store_create(m->out, name, strlen(text), ret_error) : NULL;
    fine = writer != NULL && store_put_part(writer, 0, text, strlen(text), ret_error);
    if (!fine) store_abort(writer);
    fine = fine && store_commit(writer, ret_error);
    free(text);
    return fine;
}

/* "a/b.safetensors" -> folder a, stem b; "a" -> folder a, stem model. */
static bool open_out(struct merge *m, struct error *ret_error)
{
    static const char ending[] = ".safetensors";
    const char *out = m->arguments->out;
    char folder[STORE_URL_BYTES];
    size_t length = strlen(out), tail = sizeof ending - 1;
    if (length >= sizeof folder) return error_set(ret_error, "--out: the path is too long");
    memcpy(folder, out, length + 1);
    snprintf(m->stem, sizeof m->stem, "model");
    if (length > tail && strcmp(out + length - tail, ending) == 0) {
        char *slash = strrchr(folder, '/'), *stem = slash == NULL ? folder : slash + 1;
        int used = snprintf(m->stem, sizeof m->stem, "%.*s", (int)(strlen(stem) - tail), stem);
        if (used >= FILE_STEM_BYTES || !store_name_is_sound(m->stem))
            return error_set(ret_error, "--out %s: a name of at most %d letters, digits and ._-",
                             out, FILE_STEM_BYTES - 1);
        if (slash == NULL)
            snprintf(folder, sizeof folder, ".");
        else if (slash == folder)
            slash[1] = '\0';
        else
            *slash = '\0';
    }
    m->out = store_open(folder, ret_error);
    return m->out != NULL;
}

static void tell_merge(const struct merge *m)
{
    json_t *files = json_array();
    uint64_t total = 0;
    char name[STORE_NAME_BYTES];
    for (uint32_t i = 0; i < m->volume_count; i++) {
        name_volume(m, i, name);
        total += m->volume[i].bytes;
        json_array_append_new(files, json_string(name));
    }
    if (m->arguments->json)
        ckpt_print_json(json_pack("{s:I, s:s, s:I, s:I, s:O}", "step", (json_int_t)m->manifest.step,
                                  "folder", store_url(m->out), "tensors",
                                  (json_int_t)m->tensor_count, "bytes", (json_int_t)total, "files",
                                  files));
    else if (m->volume_count == 1)
        printf("step %" PRIu64 ": %u tensors, %" PRIu64 " bytes, in %s/%s\n", m->manifest.step,
               m->tensor_count, total, store_url(m->out), name);
    else
        printf("step %" PRIu64 ": %u tensors, %" PRIu64 " bytes, in %u files in %s\n",
               m->manifest.step, m->tensor_count, total, m->volume_count, store_url(m->out));
    json_decref(files);
}

int ckpt_verb_merge(const struct ckpt_arguments *arguments)
{
    struct merge m = {.arguments = arguments, .window = mem_alloc(WINDOW_BYTES)};
    struct error error;
    bool fine = m.window != NULL || error_set(&error, "out of memory for merging");
    fine = fine &&
           ckpt_pick(arguments->store, arguments->has_step, arguments->step, &m.manifest, &error) &&
           plan_volumes(&m, &error) && open_out(&m, &error);
    for (uint32_t i = 0; i < m.volume_count && fine; i++) fine = write_volume(&m, i, &error);
    if (fine && m.volume_count > 1) fine = write_index(&m, &error);
    if (fine) tell_merge(&m);
    ckpt_manifest_free(&m.manifest);
    store_close(m.out);
    mem_free(m.tensor);
    mem_free(m.volume);
    mem_free(m.window);
    return fine ? 0 : ckpt_refuse(&error);
}

/* --- reshard --- */

/* Reads the ranges of one shard into memory of mem_alloc and points them at it. */
static bool read_ranges(struct store *store, const struct ckpt_manifest *manifest,
                        struct ckpt_range *range, uint32_t count, uint8_t **ret_memory,
                        struct error *ret_error)
{
    uint64_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += range[i].count * manifest->tensor[range[i].tensor].unit_bytes;
    uint8_t *memory = mem_alloc(bytes);
    struct ckpt_sink *sink = mem_zalloc((size_t)count + 1, sizeof *sink);
    bool fine = (memory != NULL && sink != NULL) ||
                error_set(ret_error, "out of memory for a shard of %" PRIu64 " bytes", bytes);
    for (uint32_t i = 0; i < count && fine; i++) {
        range[i].bytes = memory + at;
        sink[i] = (struct ckpt_sink){range[i].tensor, range[i].first, range[i].count, memory + at};
        at += range[i].count * manifest->tensor[range[i].tensor].unit_bytes;
    }
    fine = fine && ckpt_read(store, manifest, sink, count, CKPT_READ_THREADS, ret_error);
    mem_free(sink);
    if (fine)
        *ret_memory = memory;
    else
        mem_free(memory);
    return fine;
}

static bool write_image(struct store *out, uint64_t step, const struct ckpt_image *image,
                        const char *file, struct error *ret_error)
{
    char name[STORE_NAME_BYTES];
    ckpt_object_name(step, file, name);
    struct store_writer *writer = store_create(out, name, image->file_bytes, ret_error);
    bool fine = writer != NULL;
    for (uint32_t i = 0; i < image->part_count && fine; i++) {
        const uint8_t *bytes;
        size_t count = ckpt_image_part(image, i, &bytes);
        fine = store_put_part(writer, i, bytes, count, ret_error);
    }
    if (!fine) store_abort(writer);
    return fine && store_commit(writer, ret_error);
}

static bool write_shard(struct store *store, const struct ckpt_manifest *from, struct store *out,
                        struct ckpt_manifest *to, uint32_t index, uint32_t count,
                        struct error *ret_error)
{
    struct ckpt_image image = {0};
    uint8_t *memory = NULL;
    struct ckpt_range *range = mem_zalloc((size_t)from->tensor_count + 1, sizeof *range);
    if (range == NULL) return error_set(ret_error, "out of memory for a shard");
    uint32_t ranges = ckpt_cut(from->tensor, from->tensor_count, index, count, range);
    bool fine = read_ranges(store, from, range, ranges, &memory, ret_error) &&
                ckpt_image_plan(&image, from->tensor, range, ranges, ret_error);
    for (uint32_t i = 0; i < image.part_count && fine; i++) ckpt_image_copy(&image, i);
    fine = fine && ckpt_image_seal(&image, ret_error);
    if (fine && image.file_bytes > 0) {
        struct ckpt_file *file = &to->file[to->file_count];
        *file =
            (struct ckpt_file){.bytes = image.file_bytes, .header_checksum = image.header_checksum};
        snprintf(file->name, sizeof file->name, "shard-%05u-of-%05u.safetensors", index, count);
        fine = write_image(out, to->step, &image, file->name, ret_error);
        to->file_count += fine;
    }
    ckpt_image_free(&image);
    mem_free(memory);
    mem_free(range);
    return fine;
}

static bool reshard(const struct ckpt_arguments *arguments, const struct ckpt_manifest *from,
                    struct store *out, struct error *ret_error)
{
    struct ckpt_listing there;
    uint32_t count = (uint32_t)arguments->shards;
    struct ckpt_manifest to = *from;
    if (!ckpt_list(out, &there, ret_error)) return false;
    bool fine = true;
    for (uint32_t i = 0; i < there.count && fine; i++)
        if (there.step[i] == from->step)
            fine = error_set(ret_error, "%s: step %" PRIu64 " is there already; give another --out",
                             store_url(out), from->step);
    ckpt_listing_free(&there);
    if (!fine) return false;
    to.piece = NULL;
    to.file_count = to.piece_count = 0;
    to.file = mem_zalloc(count, sizeof *to.file);
    to.tensor = mem_zalloc(from->tensor_count, sizeof *to.tensor);
    fine = (to.file != NULL && to.tensor != NULL) ||
           error_set(ret_error, "out of memory for the manifest");
    if (fine) memcpy(to.tensor, from->tensor, from->tensor_count * sizeof *to.tensor);
    for (uint32_t i = 0; i < count && fine; i++)
        fine = write_shard(arguments->store, from, out, &to, i, count, ret_error);
    fine = fine && ckpt_gather(out, &to, ret_error) && ckpt_publish(out, &to, ret_error);
    if (!fine) (void)ckpt_remove(out, from->step, NULL); /* the sentence tells why */
    ckpt_manifest_free(&to);
    return fine;
}

int ckpt_verb_reshard(const struct ckpt_arguments *arguments)
{
    struct ckpt_manifest from = {0};
    struct error error;
    struct store *out = store_open(arguments->out, &error);
    bool fine = out != NULL &&
                ckpt_pick(arguments->store, arguments->has_step, arguments->step, &from, &error) &&
                reshard(arguments, &from, out, &error);
    if (fine && arguments->json)
        ckpt_print_json(json_pack("{s:I, s:s, s:I}", "step", (json_int_t)from.step, "folder",
                                  arguments->out, "shards", (json_int_t)arguments->shards));
    else if (fine)
        printf("step %" PRIu64 ": %" PRIu64 " shards in %s\n", from.step, arguments->shards,
               arguments->out);
    ckpt_manifest_free(&from);
    store_close(out);
    return fine ? 0 : ckpt_refuse(&error);
}
