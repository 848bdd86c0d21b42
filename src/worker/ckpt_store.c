#include "worker/ckpt_store.h"
#include "base/io.h"
#include "base/mem.h"
#include "worker/safetensors.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

bool ckpt_step_path(const char *dir, uint64_t step, const char *file, char *ret_path,
                    struct error *ret_error)
{
    int length = snprintf(ret_path, CKPT_PATH_BYTES, "%s/step-%06" PRIu64 "%s%s", dir, step,
                          file[0] == '\0' ? "" : "/", file);
    if (length > 0 && length < CKPT_PATH_BYTES) return true;
    return error_set(ret_error, "%s: the path is too long", dir);
}

static bool parse_step(const char *name, uint64_t *ret_step)
{
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 11 || strlen(name) > 24 ||
        strspn(name + 5, "0123456789") != strlen(name + 5))
        return false;
    *ret_step = strtoull(name + 5, NULL, 10);
    return true;
}

static int compare_steps(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a == *b ? 0 : *a > *b ? -1 : 1;
}

void ckpt_listing_free(struct ckpt_listing *listing)
{
    mem_free(listing->step);
    mem_free(listing->orphan);
    *listing = (struct ckpt_listing){0};
}

static void list_folder(DIR *folder, const char *dir, struct ckpt_listing *listing)
{
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char path[CKPT_PATH_BYTES];
        uint64_t step;
        if (!parse_step(entry->d_name, &step)) continue;
        if (listing->count + listing->orphan_count == CKPT_STEPS_MAX) return;
        if (!ckpt_step_path(dir, step, "manifest.json", path, NULL)) continue;
        if (access(path, F_OK) == 0)
            listing->step[listing->count++] = step;
        else
            listing->orphan[listing->orphan_count++] = step;
    }
}

bool ckpt_list(const char *dir, struct ckpt_listing *ret_listing, struct error *ret_error)
{
    struct ckpt_listing listing = {0};
    listing.step = mem_zalloc(CKPT_STEPS_MAX, sizeof *listing.step);
    listing.orphan = mem_zalloc(CKPT_STEPS_MAX, sizeof *listing.orphan);
    if (listing.step == NULL || listing.orphan == NULL) {
        ckpt_listing_free(&listing);
        return error_set(ret_error, "out of memory for the list of checkpoints");
    }
    DIR *folder = opendir(dir);
    if (folder == NULL && errno != ENOENT) {
        ckpt_listing_free(&listing);
        return error_set(ret_error, "%s: cannot read the folder: %s", dir, error_errno(errno));
    }
    if (folder != NULL) {
        list_folder(folder, dir, &listing);
        (void)closedir(folder); /* read only */
    }
    qsort(listing.step, listing.count, sizeof *listing.step, compare_steps);
    qsort(listing.orphan, listing.orphan_count, sizeof *listing.orphan, compare_steps);
    *ret_listing = listing;
    return true;
}

bool ckpt_read_manifest(const char *dir, uint64_t step, struct ckpt_manifest *ret_manifest,
                        struct error *ret_error)
{
    char path[CKPT_PATH_BYTES], *text;
    size_t count;
    if (!ckpt_step_path(dir, step, "manifest.json", path, ret_error)) return false;
    if (!io_read_file(path, CKPT_MANIFEST_MAX_BYTES, &text, &count, ret_error)) return false;
    bool sound = ckpt_manifest_parse(text, count, ret_manifest, ret_error);
    mem_free(text);
    if (!sound) return error_prefix(ret_error, "%s", path);
    if (ret_manifest->step == step) return true;
    ckpt_manifest_free(ret_manifest);
    return error_set(ret_error, "%s: the manifest speaks of another step", path);
}

/* The whole shard, checked; in memory of mem_alloc. */
static bool read_shard(const char *dir, const struct ckpt_manifest *manifest, uint32_t index,
                       char **ret_bytes, struct error *ret_error)
{
    const struct ckpt_file *file = &manifest->file[index];
    char path[CKPT_PATH_BYTES], *bytes;
    size_t count;
    if (!ckpt_step_path(dir, manifest->step, file->name, path, ret_error)) return false;
    if (!io_read_file(path, SIZE_MAX / 2, &bytes, &count, ret_error)) return false;
    struct safetensors tensors;
    bool sound;
    if (count != file->bytes)
        sound = error_set(ret_error, "%s: %zu bytes, the manifest says %" PRIu64 " (truncated?)",
                          path, count, file->bytes);
    else if (XXH3_64bits(bytes, count) != file->checksum)
        sound =
            error_set(ret_error, "%s: the checksum does not match the manifest (damaged)", path);
    else if (!safetensors_parse(bytes, count, count, &tensors, ret_error))
        sound = error_prefix(ret_error, "%s", path);
    else {
        sound = true;
        safetensors_free(&tensors);
    }
    if (!sound) mem_free(bytes);
    if (sound) *ret_bytes = bytes;
    return sound;
}

bool ckpt_verify(const char *dir, const struct ckpt_manifest *manifest, struct error *ret_error)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        char *bytes;
        if (!read_shard(dir, manifest, i, &bytes, ret_error)) return false;
        mem_free(bytes);
    }
    return true;
}

static bool tensors_agree(const struct ckpt_manifest *manifest, const struct job *job)
{
    if (manifest->model != job->model || manifest->tensor_count != job->tensor_count + 1)
        return false;
    for (uint32_t i = 0; i < job->tensor_count; i++)
        if (strcmp(manifest->tensor[i].name, job->tensors[i].name) != 0 ||
            manifest->tensor[i].bytes != job->tensors[i].element_count * sizeof(float))
            return false;
    const struct ckpt_tensor *last = &manifest->tensor[job->tensor_count];
    return strcmp(last->kind, "scales") == 0 &&
           last->bytes == job->layout.block_count * sizeof(int16_t);
}

/* Adds "WHAT THEIRS, not OURS" to the list when they differ. */
static void note_count(struct error *why, const char *what, uint64_t theirs, uint64_t ours)
{
    size_t used = strlen(why->text);
    if (theirs == ours || used >= sizeof why->text) return;
    (void)snprintf(why->text + used, sizeof why->text - used, "%s%s %" PRIu64 ", not %" PRIu64,
                   used == 0 ? "" : "; ", what, theirs, ours); /* fits: a few short phrases */
}

bool ckpt_is_foreign(const struct ckpt_manifest *manifest, const struct job *job,
                     struct error *ret_why)
{
    struct error why = {.text = ""};
    if (!tensors_agree(manifest, job)) (void)error_set(&why, "other tensors");
    note_count(&why, "slots", manifest->slots, job->slots);
    note_count(&why, "samples per slot", manifest->samples_per_slot, job->samples_per_slot);
    if (manifest->identity != job->identity) {
        note_count(&why, "steps", manifest->steps, job->steps);
        size_t used = strlen(why.text);
        (void)snprintf(why.text + used, sizeof why.text - used,
                       "%sidentity %016" PRIx64 ", not %016" PRIx64, used == 0 ? "" : "; ",
                       manifest->identity, job->identity); /* fits, as above */
    }
    if (ret_why != NULL) *ret_why = why;
    return why.text[0] != '\0';
}

/* Copies what file `index` holds into the state. */
static void place_pieces(const struct ckpt_manifest *manifest, uint32_t index, const char *bytes,
                         uint8_t *state)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        for (uint32_t k = 0; k < tensor->piece_count; k++) {
            const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + k];
            if (piece->file == index && piece->bytes > 0)
                memcpy(state + at, bytes + piece->offset, piece->bytes);
            at += piece->bytes;
        }
    }
}

static bool load_step(const char *dir, const struct ckpt_manifest *manifest, uint8_t *state,
                      struct error *ret_error)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        char *bytes;
        if (!read_shard(dir, manifest, i, &bytes, ret_error)) return false;
        place_pieces(manifest, i, bytes, state);
        mem_free(bytes);
    }
    return true;
}

/* LOADED, or NONE: not this one. *said_foreign: the line about other runs is out. */
static enum ckpt_load_result try_step(const char *dir, uint64_t step, const struct job *job,
                                      uint8_t *state, bool *said_foreign)
{
    struct ckpt_manifest manifest;
    struct error error;
    if (!ckpt_read_manifest(dir, step, &manifest, &error)) {
        fprintf(stderr, "%s; trying an older checkpoint\n", error.text);
        return CKPT_NONE;
    }
    bool foreign = ckpt_is_foreign(&manifest, job, &error);
    bool loaded = !foreign && load_step(dir, &manifest, state, &error);
    ckpt_manifest_free(&manifest);
    if (foreign && !*said_foreign)
        fprintf(stderr,
                "%s/step-%06" PRIu64 ": skipped, a checkpoint of another run (%s); give the "
                "options and data it was made with, or use another checkpoint folder, or remove "
                "it\n",
                dir, step, error.text);
    else if (!foreign && !loaded)
        fprintf(stderr, "%s; trying an older checkpoint\n", error.text);
    *said_foreign = *said_foreign || foreign;
    return loaded ? CKPT_LOADED : CKPT_NONE;
}

enum ckpt_load_result ckpt_load(const char *dir, const struct job *job, uint8_t *state,
                                uint64_t *ret_step, struct error *ret_error)
{
    struct ckpt_listing listing;
    if (!ckpt_list(dir, &listing, ret_error)) return CKPT_REFUSED;
    enum ckpt_load_result result = CKPT_NONE;
    bool said_foreign = false;
    for (uint32_t i = 0; i < listing.count && result == CKPT_NONE; i++) {
        result = try_step(dir, listing.step[i], job, state, &said_foreign);
        if (result == CKPT_LOADED) *ret_step = listing.step[i];
    }
    ckpt_listing_free(&listing);
    return result;
}

/* Removes files of a step folder (all, or those that end in suffix), then the folder if empty.
 * Best effort: what stays is tried again at the next prune. The manifest goes first, so that a
 * crash in between leaves leftovers, not a checkpoint with holes. */
static void remove_files(const char *dir, uint64_t step, const char *suffix)
{
    char path[CKPT_PATH_BYTES], folder_path[CKPT_PATH_BYTES];
    if (!ckpt_step_path(dir, step, "", folder_path, NULL)) return;
    if (suffix == NULL && ckpt_step_path(dir, step, "manifest.json", path, NULL))
        (void)unlink(path);
    DIR *folder = opendir(folder_path);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        size_t length = strlen(entry->d_name), tail = suffix == NULL ? 0 : strlen(suffix);
        bool match = tail <= length &&
                     (suffix == NULL || strcmp(entry->d_name + length - tail, suffix) == 0);
        if (match && ckpt_step_path(dir, step, entry->d_name, path, NULL)) (void)unlink(path);
    }
    if (folder != NULL) (void)closedir(folder);
    (void)rmdir(folder_path); /* fails while something is left: right so */
}

void ckpt_remove_leftovers(const char *dir, uint64_t step, const char *suffix)
{
    remove_files(dir, step, suffix);
}

enum standing { DAMAGED = 1, GOOD, NOT_OURS };

/* Reads the shards only if asked to `verify`. A manifest that cannot be read may be anybody's. */
static enum standing standing_of(const char *dir, uint64_t step, const struct job *job, bool verify)
{
    struct ckpt_manifest manifest;
    if (!ckpt_read_manifest(dir, step, &manifest, NULL)) return NOT_OURS;
    bool foreign = ckpt_is_foreign(&manifest, job, NULL);
    bool good = foreign || !verify || ckpt_verify(dir, &manifest, NULL);
    ckpt_manifest_free(&manifest);
    return foreign ? NOT_OURS : good ? GOOD : DAMAGED;
}

static bool is_among(uint64_t step, const uint64_t *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i] == step) return true;
    return false;
}

void ckpt_prune(const char *dir, const struct job *job, uint64_t newest, const uint64_t *trusted,
                uint32_t trusted_count)
{
    struct ckpt_listing listing;
    if (!ckpt_list(dir, &listing, NULL)) return;
    uint32_t good = 0;
    for (uint32_t i = 0; i < listing.count; i++) {
        uint64_t step = listing.step[i];
        bool enough = good >= CKPT_KEEP,
             verify = !enough && !is_among(step, trusted, trusted_count);
        enum standing standing = standing_of(dir, step, job, verify);
        if (standing == NOT_OURS) continue;
        if (enough)
            remove_files(dir, step, NULL);
        else
            good += standing == GOOD;
    }
    for (uint32_t i = 0; i < listing.orphan_count; i++)
        if (listing.orphan[i] < newest) remove_files(dir, listing.orphan[i], NULL);
    ckpt_listing_free(&listing);
}

static bool hash_piece(EVP_MD_CTX *context, const char *dir, const struct ckpt_manifest *manifest,
                       const struct ckpt_piece *piece, struct error *ret_error)
{
    const char *name = manifest->file[piece->file].name;
    char path[CKPT_PATH_BYTES];
    if (!ckpt_step_path(dir, manifest->step, name, path, ret_error)) return false;
    FILE *file = fopen(path, "rbe");
    bool fine = file != NULL && fseeko(file, (off_t)piece->offset, SEEK_SET) == 0;
    char buffer[65536];
    for (uint64_t left = piece->bytes; left > 0 && fine;) {
        size_t want = left < sizeof buffer ? left : sizeof buffer;
        fine = fread(buffer, 1, want, file) == want && EVP_DigestUpdate(context, buffer, want) == 1;
        left -= want;
    }
    if (file != NULL) (void)fclose(file); /* read only */
    return fine || error_set(ret_error, "%s: cannot read; check it with shoal ckpt verify", path);
}

bool ckpt_hash(const char *dir, const struct ckpt_manifest *manifest, char text[65],
               struct error *ret_error)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool fine = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    if (!fine) (void)error_set(ret_error, "cannot set up SHA-256");
    for (uint32_t i = 0; i < manifest->tensor_count && fine; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        if (strcmp(tensor->kind, "scales") == 0) continue;
        for (uint32_t k = 0; k < tensor->piece_count && fine; k++)
            fine = hash_piece(context, dir, manifest, &manifest->piece[tensor->first_piece + k],
                              ret_error);
    }
    fine = fine && EVP_DigestFinal_ex(context, digest, NULL) == 1;
    EVP_MD_CTX_free(context);
    for (int i = 0; fine && i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return fine;
}
