/* `shoal ckpt ls|verify|digest|gc`: the verbs that look, and the one that tidies. */
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_verbs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ckpt_print_json(json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_INDENT(2));
    if (text != NULL) puts(text);
    free(text);
    json_decref(value);
}

static uint64_t total_bytes(const struct ckpt_manifest *manifest)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < manifest->file_count; i++) bytes += manifest->file[i].bytes;
    return bytes;
}

int ckpt_refuse(const struct error *error)
{
    fprintf(stderr, "%s\n", error->text);
    return 1;
}

static bool say_none(const struct store *store, struct error *ret_error)
{
    const char *url = store_url(store), *slash = strrchr(url, '/');
    if (slash != NULL && strncmp(slash, "/step-", 6) == 0)
        return error_set(ret_error,
                         "%s: no checkpoint here; a job's folder is meant, with --step N for one "
                         "checkpoint: %.*s --step %" PRIu64,
                         url, (int)(slash - url), url, (uint64_t)strtoull(slash + 6, NULL, 10));
    return error_set(ret_error, "%s: no checkpoint here; is it the job's checkpoint folder?",
                     store_url(store));
}

bool ckpt_pick(struct store *store, bool has_step, uint64_t step,
               struct ckpt_manifest *ret_manifest, struct error *ret_error)
{
    struct ckpt_listing listing;
    if (!ckpt_list(store, &listing, ret_error)) return false;
    bool there = listing.count > 0 && !has_step;
    for (uint32_t i = 0; i < listing.count; i++)
        there = there || (has_step && listing.step[i] == step);
    if (there && !has_step) step = listing.step[0];
    bool empty = listing.count == 0;
    ckpt_listing_free(&listing);
    if (there) return ckpt_read_manifest(store, step, ret_manifest, ret_error);
    if (empty) return say_none(store, ret_error);
    return error_set(ret_error, "%s: no checkpoint of step %" PRIu64 "; see shoal ckpt ls %s",
                     store_url(store), step, store_url(store));
}

/* One row of ls or verify. Returns whether the step is fine. */
static bool check_step(const struct ckpt_arguments *arguments, uint64_t step, bool deep,
                       json_t *rows)
{
    struct ckpt_manifest manifest = {0};
    struct error error = {.text = ""};
    bool sound = ckpt_read_manifest(arguments->store, step, &manifest, &error);
    if (sound && deep) sound = ckpt_verify(arguments->store, &manifest, CKPT_READ_THREADS, &error);
    const char *word = !sound ? "damaged" : deep ? "verified" : "complete";
    if (arguments->json)
        json_array_append_new(rows,
                              json_pack("{s:I, s:s, s:i, s:i, s:I, s:s}", "step", (json_int_t)step,
                                        "state", word, "files", (int)manifest.file_count, "pieces",
                                        (int)manifest.piece_count, "bytes",
                                        (json_int_t)total_bytes(&manifest), "error", error.text));
    else
        printf("step %-8" PRIu64 " %-9s %4u %-5s %14" PRIu64 " bytes%s%s\n", step, word,
               manifest.file_count, manifest.file_count == 1 ? "file" : "files",
               total_bytes(&manifest), sound ? "" : "  ", error.text);
    ckpt_manifest_free(&manifest);
    return sound;
}

static void list_orphans(const struct ckpt_arguments *arguments, const struct ckpt_listing *listing,
                         json_t *rows)
{
    for (uint32_t i = 0; i < listing->orphan_count; i++) {
        if (arguments->json)
            json_array_append_new(rows,
                                  json_pack("{s:I, s:s}", "step", (json_int_t)listing->orphan[i],
                                            "state", "incomplete"));
        else
            printf("step %-8" PRIu64 " incomplete (no manifest; being written, or left over: see "
                   "shoal ckpt gc)\n",
                   listing->orphan[i]);
    }
}

static int check_steps(const struct ckpt_arguments *arguments, bool deep)
{
    struct ckpt_listing listing;
    struct error error = {.text = ""};
    if (!ckpt_list(arguments->store, &listing, &error)) return ckpt_refuse(&error);
    json_t *rows = json_array();
    bool fine = true, seen = false;
    for (uint32_t i = 0; i < listing.count; i++) {
        if (arguments->has_step && listing.step[i] != arguments->step) continue;
        seen = true;
        fine = check_step(arguments, listing.step[i], deep, rows) && fine;
    }
    if (!deep) list_orphans(arguments, &listing, rows);
    seen = seen || (!deep && listing.orphan_count > 0);
    ckpt_listing_free(&listing);
    if (arguments->json)
        ckpt_print_json(json_pack("{s:o}", "checkpoints", rows));
    else
        json_decref(rows);
    if (seen) return fine ? 0 : 1;
    if (arguments->has_step)
        (void)error_set(&error, "%s: no checkpoint of step %" PRIu64 "; see shoal ckpt ls %s",
                        arguments->address, arguments->step, arguments->address);
    else
        (void)say_none(arguments->store, &error);
    return ckpt_refuse(&error);
}

static json_t *tensor_row(const struct ckpt_manifest *manifest, const struct ckpt_tensor *tensor)
{
    json_t *shape = json_array(), *pieces = json_array();
    for (uint32_t i = 0; i < tensor->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + i];
        json_array_append_new(
            pieces,
            json_pack("{s:I, s:I, s:s, s:I, s:I}", "first", (json_int_t)piece->first, "count",
                      (json_int_t)piece->count, "file", manifest->file[piece->file].name, "offset",
                      (json_int_t)piece->offset, "bytes", (json_int_t)piece->bytes));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", tensor->name, "kind", tensor->kind,
                     "dtype", ckpt_dtype(tensor), "shape", shape, "pieces", pieces);
}

static void show_text(const struct ckpt_manifest *manifest)
{
    printf("step %" PRIu64 " of %" PRIu64 ", %u slots of %u samples, %u file%s, %" PRIu64
           " bytes\n",
           manifest->step, manifest->steps, manifest->slots, manifest->samples_per_slot,
           manifest->file_count, manifest->file_count == 1 ? "" : "s", total_bytes(manifest));
    printf("identity %016" PRIx64 "%s, model %016" PRIx64 "\n", manifest->identity,
           manifest->identity == 0 ? " (the program gave none)" : "", manifest->model);
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        printf("  %-6s %-32s %14" PRIu64 " bytes in %u pieces, shape [", tensor->kind, tensor->name,
               tensor->elements * tensor->unit_bytes, tensor->piece_count);
        for (uint32_t k = 0; k < tensor->dims; k++)
            printf("%s%" PRIu64, k == 0 ? "" : ", ", tensor->shape[k]);
        printf("]\n");
    }
}

static void show_json(const struct ckpt_manifest *manifest)
{
    json_t *tensors = json_array();
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        json_array_append_new(tensors, tensor_row(manifest, &manifest->tensor[i]));
    char identity[32], model[32];
    snprintf(identity, sizeof identity, "%016" PRIx64, manifest->identity);
    snprintf(model, sizeof model, "%016" PRIx64, manifest->model);
    ckpt_print_json(
        json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:o}", "step", (json_int_t)manifest->step,
                  "steps", (json_int_t)manifest->steps, "slots", (json_int_t)manifest->slots,
                  "samples_per_slot", (json_int_t)manifest->samples_per_slot, "identity", identity,
                  "model", model, "bytes", (json_int_t)total_bytes(manifest), "tensors", tensors));
}

int ckpt_verb_ls(const struct ckpt_arguments *arguments)
{
    struct ckpt_manifest manifest;
    struct error error;
    if (!arguments->has_step) return check_steps(arguments, false);
    if (!ckpt_pick(arguments->store, true, arguments->step, &manifest, &error))
        return ckpt_refuse(&error);
    if (arguments->json)
        show_json(&manifest);
    else
        show_text(&manifest);
    ckpt_manifest_free(&manifest);
    return 0;
}

int ckpt_verb_verify(const struct ckpt_arguments *arguments)
{
    return check_steps(arguments, true);
}

static bool has_moments(const struct ckpt_manifest *manifest)
{
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        if (strcmp(manifest->tensor[i].kind, "moment") == 0) return true;
    return false;
}

int ckpt_verb_digest(const struct ckpt_arguments *arguments)
{
    struct ckpt_manifest manifest;
    struct error error;
    char weights[65], all[65];
    if (!ckpt_pick(arguments->store, arguments->has_step, arguments->step, &manifest, &error))
        return ckpt_refuse(&error);
    bool fine = ckpt_verify(arguments->store, &manifest, CKPT_READ_THREADS, &error) &&
                ckpt_digest(arguments->store, &manifest, false, weights, &error) &&
                ckpt_digest(arguments->store, &manifest, true /* moments */, all, &error);
    if (fine && arguments->json)
        ckpt_print_json(json_pack("{s:I, s:s, s:s}", "step", (json_int_t)manifest.step,
                                  "weights_sha256", weights, "with_moments_sha256", all));
    else if (fine)
        printf("%s  step %" PRIu64 "\n", weights, manifest.step);
    if (fine && !arguments->json && has_moments(&manifest))
        printf("%s  step %" PRIu64 ", with moments\n", all, manifest.step);
    ckpt_manifest_free(&manifest);
    return fine ? 0 : ckpt_refuse(&error);
}

/* --- gc --- */

struct sweep {
    const struct ckpt_arguments *arguments;
    uint64_t newest; /* checkpoint; UINT64_MAX with --all: everything is old */
    json_t *rows;
    uint64_t bytes;
    uint32_t count;
    bool failed;
};

static void sweep_object(struct sweep *sweep, const struct store_item *item, bool unfinished)
{
    struct error error;
    struct store *store = sweep->arguments->store;
    bool gone = sweep->arguments->dry_run || (unfinished ? store_discard(store, item->name, &error)
                                                         : store_remove(store, item->name, &error));
    if (!gone) {
        sweep->failed = true;
        (void)ckpt_refuse(&error);
        return;
    }
    sweep->bytes += item->bytes;
    sweep->count++;
    if (sweep->arguments->json)
        json_array_append_new(sweep->rows, json_pack("{s:s, s:I}", "name", item->name, "bytes",
                                                     (json_int_t)item->bytes));
    else
        printf("%s %s, %" PRIu64 " bytes\n", sweep->arguments->dry_run ? "would remove" : "removed",
               item->name, item->bytes);
}

static bool has_file(const struct ckpt_manifest *manifest, const char *file)
{
    if (strcmp(file, "manifest.json") == 0) return true;
    for (uint32_t i = 0; i < manifest->file_count; i++)
        if (strcmp(manifest->file[i].name, file) == 0) return true;
    return false;
}

/* Objects of one step: [first, end) of the list. */
static void sweep_step(struct sweep *sweep, const struct ckpt_listing *steps, uint64_t step,
                       const struct store_item *first, const struct store_item *end)
{
    struct ckpt_manifest manifest = {0};
    bool complete = false;
    for (uint32_t i = 0; i < steps->count; i++) complete = complete || steps->step[i] == step;
    if (!complete && step >= sweep->newest) return; /* somebody may be writing it */
    if (complete && !ckpt_read_manifest(sweep->arguments->store, step, &manifest, NULL))
        return; /* damaged: not ours to judge what belongs to it */
    for (const struct store_item *item = first; item < end; item++)
        if (!complete || !has_file(&manifest, strchr(item->name, '/') + 1))
            sweep_object(sweep, item, false);
    ckpt_manifest_free(&manifest);
}

static void sweep_all(struct sweep *sweep, const struct ckpt_listing *steps,
                      const struct store_listing *objects, const struct store_listing *unfinished)
{
    uint64_t step, next;
    const char *file;
    for (uint32_t i = 0, end; i < objects->count; i = end) {
        end = i + 1;
        if (!ckpt_parse_object(objects->item[i].name, &step, &file)) continue;
        while (end < objects->count && ckpt_parse_object(objects->item[end].name, &next, &file) &&
               next == step)
            end++;
        sweep_step(sweep, steps, step, &objects->item[i], &objects->item[end]);
    }
    for (uint32_t i = 0; i < unfinished->count; i++)
        if (ckpt_parse_object(unfinished->item[i].name, &step, &file) && step <= sweep->newest)
            sweep_object(sweep, &unfinished->item[i], true);
}

static int tell_sweep(struct sweep *sweep)
{
    if (sweep->arguments->json)
        ckpt_print_json(json_pack("{s:b, s:I, s:I, s:o}", "dry_run", sweep->arguments->dry_run,
                                  "objects", (json_int_t)sweep->count, "bytes",
                                  (json_int_t)sweep->bytes, "removed", sweep->rows));
    else {
        printf("%u leftovers, %" PRIu64 " bytes%s\n", sweep->count, sweep->bytes,
               sweep->arguments->dry_run ? " (nothing was removed)" : "");
        json_decref(sweep->rows);
    }
    return sweep->failed ? 1 : 0;
}

int ckpt_verb_gc(const struct ckpt_arguments *arguments)
{
    struct store *store = arguments->store;
    struct ckpt_listing steps = {0};
    struct store_listing objects = {0}, unfinished = {0};
    struct error error;
    bool fine = ckpt_list(store, &steps, &error) && store_list(store, "step-", &objects, &error) &&
                store_list_unfinished(store, "step-", &unfinished, &error);
    struct sweep sweep = {.arguments = arguments, .rows = json_array()};
    sweep.newest = arguments->all ? UINT64_MAX : steps.count > 0 ? steps.step[0] : 0;
    if (fine) sweep_all(&sweep, &steps, &objects, &unfinished);
    ckpt_listing_free(&steps);
    store_listing_free(&objects);
    store_listing_free(&unfinished);
    if (fine) return tell_sweep(&sweep);
    json_decref(sweep.rows);
    return ckpt_refuse(&error);
}
