#include "saved.h"
#include "base/mem.h"
#include "trainer.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_store.h"
#include <inttypes.h>
#include <string.h>

/* One tensor of the manifest by name; its number is count if there is none. */
static uint32_t find(const struct ckpt_manifest *manifest, const char *name)
{
    uint32_t i = 0;
    while (i < manifest->tensor_count && strcmp(manifest->tensor[i].name, name) != 0) i++;
    return i;
}

static bool read_floats(struct store *store, const struct ckpt_manifest *manifest, const char *name,
                        uint64_t count, float *ret_values, struct error *ret_error)
{
    uint32_t tensor = find(manifest, name);
    if (tensor == manifest->tensor_count)
        return error_set(ret_error, "no tensor %s: not a checkpoint of lm", name);
    if (manifest->tensor[tensor].elements != count ||
        manifest->tensor[tensor].unit_bytes != sizeof *ret_values)
        return error_set(ret_error, "tensor %s has another shape than the model in lm.config",
                         name);
    const struct ckpt_sink sink = {.tensor = tensor, .count = count, .bytes = ret_values};
    return ckpt_read(store, manifest, &sink, 1, 1 /* thread */, ret_error);
}

static uint32_t whole_number(float note)
{
    return note >= 0 && note <= 16777216.0f ? (uint32_t)note : UINT32_MAX; /* NaN is neither */
}

static bool read_model(struct store *store, const struct ckpt_manifest *manifest,
                       struct model *ret_model, struct error *ret_error)
{
    float notes[NOTE_COUNT];
    if (!read_floats(store, manifest, "lm.config", NOTE_COUNT, notes, ret_error)) return false;
    if (whole_number(notes[NOTE_FORMAT]) != NOTE_FORMAT_NOW)
        return error_set(ret_error, "lm.config is of another version of lm");
    const struct model_config config = {.layers = whole_number(notes[NOTE_LAYERS]),
                                        .width = whole_number(notes[NOTE_WIDTH]),
                                        .heads = whole_number(notes[NOTE_HEADS]),
                                        .context = whole_number(notes[NOTE_CONTEXT]),
                                        .vocabulary = whole_number(notes[NOTE_VOCABULARY]),
                                        .tied = notes[NOTE_TIED] != 0};
    return model_build(ret_model, &config, ret_error) || error_prefix(ret_error, "lm.config");
}

static bool read_tokenizer(struct store *store, const struct ckpt_manifest *manifest,
                           struct saved *saved, struct error *ret_error)
{
    uint32_t count = saved->model.config.vocabulary - TOKENIZER_BYTES;
    if (saved->model.config.vocabulary < TOKENIZER_BYTES)
        return error_set(ret_error, "lm.config: a vocabulary without all bytes");
    if (count == 0) return tokenizer_of_merges(&saved->tokenizer, NULL, 0, ret_error);
    float *numbers = mem_alloc(2 * (size_t)count * sizeof *numbers);
    struct tokenizer_merge *merges = mem_alloc(count * sizeof *merges);
    bool read = numbers != NULL && merges != NULL;
    if (!read) (void)error_set(ret_error, "out of memory for the tokenizer");
    read =
        read && read_floats(store, manifest, "lm.merges", 2 * (uint64_t)count, numbers, ret_error);
    for (uint32_t i = 0; read && i < count; i++) /* tokens out of range stay so */
        merges[i] =
            (struct tokenizer_merge){(uint16_t)(whole_number(numbers[2 * i]) & UINT16_MAX),
                                     (uint16_t)(whole_number(numbers[2 * i + 1]) & UINT16_MAX)};
    read = read && tokenizer_of_merges(&saved->tokenizer, merges, count, ret_error);
    mem_free(merges);
    mem_free(numbers);
    return read;
}

static bool read_params(struct store *store, const struct ckpt_manifest *manifest,
                        struct saved *saved, struct error *ret_error)
{
    saved->params = mem_alloc(saved->model.param_count * sizeof *saved->params);
    if (saved->params == NULL)
        return error_set(ret_error, "out of memory for %zu parameters", saved->model.param_count);
    for (uint32_t i = 0; i < saved->model.tensor_count; i++) {
        const struct model_tensor *tensor = &saved->model.tensors[i];
        if (!read_floats(store, manifest, tensor->name, tensor->count,
                         saved->params + tensor->offset, ret_error))
            return false;
    }
    return true;
}

static bool read_step(struct store *store, uint64_t step, struct saved *saved,
                      struct error *ret_error)
{
    struct ckpt_manifest manifest = {0};
    *saved = (struct saved){.step = step};
    bool read = ckpt_read_manifest(store, step, &manifest, ret_error);
    if (read)
        read = (read_model(store, &manifest, &saved->model, ret_error) &&
                read_tokenizer(store, &manifest, saved, ret_error) &&
                read_params(store, &manifest, saved, ret_error)) ||
               error_prefix(ret_error, "%s/step-%06" PRIu64, store_url(store), step);
    ckpt_manifest_free(&manifest);
    if (!read) saved_close(saved);
    return read;
}

bool saved_open(struct saved *ret_saved, const char *url, struct error *ret_error)
{
    struct ckpt_listing listing = {0};
    struct store *store = store_open(url, ret_error);
    bool read = false;
    if (store != NULL && ckpt_list(store, &listing, ret_error)) {
        if (listing.count == 0)
            (void)error_set(ret_error,
                            "%s: no checkpoint there; train with --checkpoint %s "
                            "--checkpoint-every N first",
                            url, url);
        for (uint32_t i = 0; !read && i < listing.count; i++) {
            read = read_step(store, listing.step[i], ret_saved, ret_error);
            if (!read && i + 1 < listing.count && ret_error != NULL)
                fprintf(stderr, "%s; trying an older checkpoint\n", ret_error->text);
        }
    }
    ckpt_listing_free(&listing);
    store_close(store);
    return read;
}

void saved_close(struct saved *saved)
{
    mem_free(saved->params);
    tokenizer_free(&saved->tokenizer);
    *saved = (struct saved){0};
}
