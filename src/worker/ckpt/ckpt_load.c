/* The state of a job out of a checkpoint: all of it, or one worker's part. */
#include "worker/ckpt/ckpt_load.h"
#include "base/mem.h"
#include "core/assert.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where a moment goes: see ckpt_tensors_of(). */
static float *moment_place(const struct job *job, uint32_t tensor)
{
    uint32_t index = tensor - job->tensor_count, param = index % job->param_count;
    uint64_t first = 0;
    for (uint32_t i = 0; i < param; i++) first += job->tensors[i].element_count;
    return job->moment[index / job->param_count] + first;
}

static bool load_step(struct store *store, const struct ckpt_manifest *manifest,
                      const struct job *job, uint8_t *state, struct error *ret_error)
{
    struct ckpt_sink *sink = mem_zalloc(manifest->tensor_count, sizeof *sink);
    if (sink == NULL) return error_set(ret_error, "out of memory for loading a checkpoint");
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        sink[i] = (struct ckpt_sink){i, 0, tensor->elements, state};
        if (strcmp(tensor->kind, "moment") == 0) {
            sink[i].bytes = moment_place(job, i);
            continue;
        }
        state += tensor->elements * tensor->unit_bytes;
    }
    bool loaded =
        ckpt_read(store, manifest, sink, manifest->tensor_count, CKPT_READ_THREADS, ret_error);
    mem_free(sink);
    return loaded;
}

/* The manifest of this step, if it is one of this job. `said`: a line tells what is passed over, once
 * for all those of other runs. */
static bool open_step(struct store *store, uint64_t step, const struct job *job, bool *said,
                      struct ckpt_manifest *ret_manifest)
{
    struct error error;
    if (!ckpt_read_manifest(store, step, ret_manifest, &error)) {
        if (said != NULL) fprintf(stderr, "%s; trying an older checkpoint\n", error.text);
        return false;
    }
    if (!ckpt_is_foreign(ret_manifest, job, &error)) return true;
    ckpt_manifest_free(ret_manifest);
    if (said != NULL && !*said)
        fprintf(stderr,
                "%s/step-%06" PRIu64 ": skipped, a checkpoint of another run (%s); give the "
                "options and data it was made with, or use another checkpoint folder: this "
                "run's checkpoints take the place of those of the same steps\n",
                store_url(store), step, error.text);
    if (said != NULL) *said = true;
    return false;
}

/* LOADED, or NONE: not this one. *said_foreign: the line about other runs is out. */
static enum ckpt_load_result try_step(struct store *store, uint64_t step, const struct job *job,
                                      uint8_t *state, bool *said_foreign)
{
    struct ckpt_manifest manifest;
    struct error error;
    if (!open_step(store, step, job, said_foreign, &manifest)) return CKPT_NONE;
    bool loaded = load_step(store, &manifest, job, state, &error);
    ckpt_manifest_free(&manifest);
    if (!loaded) fprintf(stderr, "%s; trying an older checkpoint\n", error.text);
    return loaded ? CKPT_LOADED : CKPT_NONE;
}

bool ckpt_newest(struct store *store, const struct job *job, bool quiet, uint64_t *ret_step)
{
    struct ckpt_listing listing;
    struct ckpt_manifest manifest;
    bool said_foreign = false, found = false;
    if (!ckpt_list(store, &listing, NULL)) return false;
    for (uint32_t i = 0; i < listing.count && !found; i++) {
        found = open_step(store, listing.step[i], job, quiet ? NULL : &said_foreign, &manifest);
        if (!found) continue;
        *ret_step = listing.step[i];
        ckpt_manifest_free(&manifest);
    }
    ckpt_listing_free(&listing);
    return found;
}

/* What lies of the tensor in bytes [first, end) of the state, where it begins at byte `at`. */
static struct ckpt_sink part_of(const struct ckpt_tensor *tensor, uint32_t index, uint64_t at,
                                uint64_t first, uint64_t end, uint8_t *state)
{
    uint64_t past = at + tensor->elements * tensor->unit_bytes;
    uint64_t from = first > at ? first : at, to = end < past ? end : past;
    if (from >= to) return (struct ckpt_sink){.tensor = index};
    ASSERT((from - at) % tensor->unit_bytes == 0 && (to - at) % tensor->unit_bytes == 0);
    return (struct ckpt_sink){index, (from - at) / tensor->unit_bytes,
                              (to - from) / tensor->unit_bytes, state + from};
}

bool ckpt_load_part(struct store *store, const struct job *job, const struct ckpt_part *part,
                    uint8_t *state, struct error *ret_error)
{
    struct ckpt_manifest manifest;
    if (!ckpt_read_manifest(store, part->step, &manifest, ret_error)) return false;
    bool fine = !ckpt_is_foreign(&manifest, job, ret_error);
    struct ckpt_sink *sink =
        mem_zalloc((size_t)manifest.tensor_count + part->moment_count + 1, sizeof *sink);
    if (fine && sink == NULL)
        fine = error_set(ret_error, "out of memory for reading a part of a checkpoint");
    uint32_t count = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < manifest.tensor_count && fine; i++) {
        const struct ckpt_tensor *tensor = &manifest.tensor[i];
        if (strcmp(tensor->kind, "moment") == 0) continue;
        struct ckpt_sink wanted = part_of(tensor, i, at, part->first, part->end, state);
        if (wanted.count > 0) sink[count++] = wanted;
        at += tensor->elements * tensor->unit_bytes;
    }
    if (fine && part->moment_count > 0)
        memcpy(sink + count, part->moment, part->moment_count * sizeof *sink);
    fine = fine && ckpt_read(store, &manifest, sink, count + part->moment_count, CKPT_READ_THREADS,
                             ret_error);
    mem_free(sink);
    ckpt_manifest_free(&manifest);
    return fine;
}

enum ckpt_load_result ckpt_load(struct store *store, const struct job *job, uint8_t *state,
                                uint64_t *ret_step, struct error *ret_error)
{
    struct ckpt_listing listing;
    if (!ckpt_list(store, &listing, ret_error)) return CKPT_REFUSED;
    enum ckpt_load_result result = CKPT_NONE;
    bool said_foreign = false;
    for (uint32_t i = 0; i < listing.count && result == CKPT_NONE; i++) {
        result = try_step(store, listing.step[i], job, state, &said_foreign);
        if (result == CKPT_LOADED) *ret_step = listing.step[i];
    }
    ckpt_listing_free(&listing);
    return result;
}
