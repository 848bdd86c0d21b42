#include "worker/ckpt_main.h"
#include "base/mem.h"
#include "worker/ckpt_read.h"
#include "worker/ckpt_store.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *verb, *dir;
    bool json, has_step, help;
    uint64_t step;
    struct store *store;
};

static void print_help(FILE *stream)
{
    fputs("usage: shoal ckpt VERB DIR [--step N] [--json]\n"
          "\n"
          "  list    steps in DIR, newest first, with size and whether they are complete\n"
          "  verify  read every file and check it against the manifest and the format\n"
          "  show    tensors of a checkpoint and where their bytes lie\n"
          "  hash    SHA-256 of weights and optimizer state, independent of the number of shards\n"
          "\n"
          "DIR is the job's checkpoint folder (it holds step-NNNNNN folders). Without --step: "
          "verify\n"
          "takes all steps, show and hash the newest.\n"
          "\n"
          "example: shoal ckpt verify ./checkpoints --json\n",
          stream);
}

static bool complain(const char *what, const char *where)
{
    fprintf(stderr, "shoal ckpt: %s \"%s\"; see shoal ckpt --help\n", what, where);
    return false;
}

static bool parse_step(const char *text, struct arguments *arguments)
{
    char *end;
    errno = 0;
    arguments->step = strtoull(text, &end, 10);
    arguments->has_step = true;
    bool good = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    return good || complain("--step takes the number of a step, not", text);
}

static bool check_words(const struct arguments *arguments)
{
    static const char *const verbs[] = {"list", "verify", "show", "hash"};
    if (arguments->help) return true;
    if (arguments->verb == NULL || arguments->dir == NULL) {
        fputs("shoal ckpt: a verb and a folder are needed; see shoal ckpt --help\n", stderr);
        return false;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(arguments->verb, verbs[i]) == 0) return true;
    return complain("verbs are list, verify, show and hash, not", arguments->verb);
}

static bool parse(int argc, char **argv, struct arguments *arguments)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            arguments->help = true;
        else if (strcmp(argv[i], "--json") == 0)
            arguments->json = true;
        else if (strcmp(argv[i], "--step") == 0 && i + 1 < argc) {
            if (!parse_step(argv[++i], arguments)) return false;
        } else if (argv[i][0] == '-')
            return complain("unknown option or one without its value", argv[i]);
        else if (arguments->verb == NULL)
            arguments->verb = argv[i];
        else if (arguments->dir == NULL)
            arguments->dir = argv[i];
        else
            return complain("one folder at a time; what is", argv[i]);
    }
    return check_words(arguments);
}

static void print_json(json_t *value)
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

/* One row of list or verify. Returns whether the step is fine. */
static bool check_step(const struct arguments *arguments, uint64_t step, bool deep, json_t *rows)
{
    struct ckpt_manifest manifest = {0};
    struct error error = {.text = ""};
    bool sound = ckpt_read_manifest(arguments->store, step, &manifest, &error);
    if (sound && deep) sound = ckpt_verify(arguments->store, &manifest, CKPT_READ_THREADS, &error);
    const char *word = !sound ? "damaged" : deep ? "verified" : "complete";
    if (arguments->json)
        json_array_append_new(rows,
                              json_pack("{s:I, s:s, s:i, s:I, s:s}", "step", (json_int_t)step,
                                        "state", word, "files", (int)manifest.file_count, "bytes",
                                        (json_int_t)total_bytes(&manifest), "error", error.text));
    else
        printf("step %-8" PRIu64 " %-9s %4u files %14" PRIu64 " bytes%s%s\n", step, word,
               manifest.file_count, total_bytes(&manifest), sound ? "" : "  ", error.text);
    ckpt_manifest_free(&manifest);
    return sound;
}

static int check_steps(const struct arguments *arguments, const struct ckpt_listing *listing,
                       bool deep)
{
    json_t *rows = json_array();
    bool fine = true, seen = false;
    for (uint32_t i = 0; i < listing->count; i++) {
        if (arguments->has_step && listing->step[i] != arguments->step) continue;
        seen = true;
        fine = check_step(arguments, listing->step[i], deep, rows) && fine;
    }
    for (uint32_t i = 0; i < listing->orphan_count && !deep; i++) {
        if (arguments->json)
            json_array_append_new(rows,
                                  json_pack("{s:I, s:s}", "step", (json_int_t)listing->orphan[i],
                                            "state", "incomplete"));
        else
            printf("step %-8" PRIu64 " incomplete (no manifest; ignored)\n", listing->orphan[i]);
    }
    if (arguments->json)
        print_json(json_pack("{s:o}", "checkpoints", rows));
    else
        json_decref(rows);
    if (!seen && arguments->has_step)
        fprintf(stderr, "%s: no checkpoint of step %" PRIu64 "; see shoal ckpt list\n",
                arguments->dir, arguments->step);
    else if (!seen && (deep || listing->orphan_count == 0))
        fprintf(stderr, "%s: no checkpoint here; is it the job's checkpoint folder?\n",
                arguments->dir);
    return fine && (seen || (!deep && listing->orphan_count > 0)) ? 0 : 1;
}

static json_t *tensor_row(const struct ckpt_manifest *manifest, const struct ckpt_tensor *tensor)
{
    json_t *shape = json_array(), *pieces = json_array();
    for (uint32_t i = 0; i < tensor->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + i];
        json_array_append_new(
            pieces, json_pack("{s:s, s:I, s:I}", "file", manifest->file[piece->file].name, "offset",
                              (json_int_t)piece->offset, "bytes", (json_int_t)piece->bytes));
    }
    return json_pack("{s:s, s:s, s:o, s:I, s:o}", "name", tensor->name, "kind", tensor->kind,
                     "shape", shape, "bytes", (json_int_t)(tensor->elements * tensor->unit_bytes),
                     "pieces", pieces);
}

static void show_text(const struct ckpt_manifest *manifest)
{
    printf("step %" PRIu64 " of %" PRIu64 ", %u slots of %u samples, %u files, %" PRIu64 " bytes\n",
           manifest->step, manifest->steps, manifest->slots, manifest->samples_per_slot,
           manifest->file_count, total_bytes(manifest));
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

static void show(const struct arguments *arguments, const struct ckpt_manifest *manifest)
{
    if (!arguments->json) {
        show_text(manifest);
        return;
    }
    json_t *tensors = json_array();
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        json_array_append_new(tensors, tensor_row(manifest, &manifest->tensor[i]));
    char identity[32], model[32];
    snprintf(identity, sizeof identity, "%016" PRIx64, manifest->identity);
    snprintf(model, sizeof model, "%016" PRIx64, manifest->model);
    print_json(json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:o}", "step",
                         (json_int_t)manifest->step, "steps", (json_int_t)manifest->steps, "slots",
                         (json_int_t)manifest->slots, "samples_per_slot",
                         (json_int_t)manifest->samples_per_slot, "identity", identity, "model",
                         model, "bytes", (json_int_t)total_bytes(manifest), "tensors", tensors));
}

static bool hash(const struct arguments *arguments, const struct ckpt_manifest *manifest,
                 struct error *ret_error)
{
    char text[65];
    if (!ckpt_verify(arguments->store, manifest, CKPT_READ_THREADS, ret_error)) return false;
    if (!ckpt_digest(arguments->store, manifest, text, ret_error)) return false;
    if (arguments->json)
        print_json(
            json_pack("{s:I, s:s}", "step", (json_int_t)manifest->step, "weights_sha256", text));
    else
        printf("%s  step %" PRIu64 "\n", text, manifest->step);
    return true;
}

static int look_at_one(const struct arguments *arguments, const struct ckpt_listing *listing)
{
    struct ckpt_manifest manifest;
    struct error error;
    if (!arguments->has_step && listing->count == 0) {
        fprintf(stderr, "%s: no checkpoint here; is it the job's checkpoint folder?\n",
                arguments->dir);
        return 1;
    }
    uint64_t step = arguments->has_step ? arguments->step : listing->step[0];
    bool fine = ckpt_read_manifest(arguments->store, step, &manifest, &error);
    if (fine && strcmp(arguments->verb, "show") == 0)
        show(arguments, &manifest);
    else if (fine)
        fine = hash(arguments, &manifest, &error);
    if (!fine) fprintf(stderr, "%s\n", error.text);
    if (fine) ckpt_manifest_free(&manifest);
    return fine ? 0 : 1;
}

int ckpt_main(int argc, char **argv)
{
    struct arguments arguments = {0};
    if (!parse(argc, argv, &arguments)) return 2;
    if (arguments.help) {
        print_help(stdout);
        return 0;
    }
    bool verify = strcmp(arguments.verb, "verify") == 0;
    bool one = strcmp(arguments.verb, "show") == 0 || strcmp(arguments.verb, "hash") == 0;
    struct ckpt_listing listing;
    struct error error;
    arguments.store = store_open(arguments.dir, &error);
    if (arguments.store == NULL || !ckpt_list(arguments.store, &listing, &error)) {
        fprintf(stderr, "%s\n", error.text);
        store_close(arguments.store);
        return 1;
    }
    int status =
        one ? look_at_one(&arguments, &listing) : check_steps(&arguments, &listing, verify);
    ckpt_listing_free(&listing);
    store_close(arguments.store);
    return status;
}
