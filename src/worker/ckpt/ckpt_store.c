#include "worker/ckpt/ckpt_store.h"
#include "base/mem.h"
#include "worker/ckpt/ckpt_read.h"
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char manifest_name[] = "manifest.json";

void ckpt_object_name(uint64_t step, const char *file, char ret_name[STORE_NAME_BYTES])
{
    (void)snprintf(ret_name, STORE_NAME_BYTES, "step-%06" PRIu64 "/%s", step, file); /* fits */
}

bool ckpt_parse_object(const char *name, uint64_t *ret_step, const char **ret_file)
{
    const char *slash = strchr(name, '/');
    size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    if (slash == NULL || digits < 6 || digits > 19 || name + 5 + digits != slash) return false;
    *ret_step = strtoull(name + 5, NULL, 10);
    *ret_file = slash + 1;
    return true;
}

void ckpt_listing_free(struct ckpt_listing *listing)
{
    mem_free(listing->step);
    mem_free(listing->orphan);
    *listing = (struct ckpt_listing){0};
}

static int compare_steps(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a == *b ? 0 : *a > *b ? -1 : 1;
}

static bool is_among(uint64_t step, const uint64_t *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i] == step) return true;
    return false;
}

/* Objects of one step follow one another, as the list is by name. */
static void sort_steps(const struct store_listing *objects, struct ckpt_listing *listing)
{
    uint64_t step, last = UINT64_MAX;
    const char *file;
    for (uint32_t i = 0; i < objects->count; i++)
        if (ckpt_parse_object(objects->item[i].name, &step, &file) &&
            strcmp(file, manifest_name) == 0 && listing->count < CKPT_STEPS_MAX)
            listing->step[listing->count++] = step;
    for (uint32_t i = 0; i < objects->count; i++) {
        if (!ckpt_parse_object(objects->item[i].name, &step, &file) || step == last) continue;
        last = step;
        if (!is_among(step, listing->step, listing->count) &&
            listing->orphan_count < CKPT_STEPS_MAX)
            listing->orphan[listing->orphan_count++] = step;
    }
    qsort(listing->step, listing->count, sizeof *listing->step, compare_steps);
    qsort(listing->orphan, listing->orphan_count, sizeof *listing->orphan, compare_steps);
}

bool ckpt_list(struct store *store, struct ckpt_listing *ret_listing, struct error *ret_error)
{
    struct store_listing objects;
    struct ckpt_listing listing = {0};
    if (!store_list(store, "step-", &objects, ret_error)) return false;
    listing.step = mem_zalloc((size_t)objects.count + 1, sizeof *listing.step);
    listing.orphan = mem_zalloc((size_t)objects.count + 1, sizeof *listing.orphan);
    bool fits = listing.step != NULL && listing.orphan != NULL;
    if (fits)
        sort_steps(&objects, &listing);
    else
        (void)error_set(ret_error, "out of memory for the list of checkpoints");
    store_listing_free(&objects);
    if (fits)
        *ret_listing = listing;
    else
        ckpt_listing_free(&listing);
    return fits;
}

bool ckpt_read_manifest(struct store *store, uint64_t step, struct ckpt_manifest *ret_manifest,
                        struct error *ret_error)
{
    char name[STORE_NAME_BYTES], *text;
    size_t count;
    ckpt_object_name(step, manifest_name, name);
    if (!store_read_all(store, name, CKPT_MANIFEST_MAX_BYTES, &text, &count, ret_error))
        return false;
    bool sound = ckpt_manifest_parse(text, count, ret_manifest, ret_error);
    mem_free(text);
    if (!sound) return error_prefix(ret_error, "%s/%s", store_url(store), name);
    if (ret_manifest->step == step) return true;
    ckpt_manifest_free(ret_manifest);
    return error_set(ret_error, "%s/%s: the manifest speaks of another step", store_url(store),
                     name);
}

static bool same_tensor(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0 && a->dims == b->dims &&
           memcmp(a->shape, b->shape, a->dims * sizeof a->shape[0]) == 0;
}

static void tell_tensor(const struct ckpt_tensor *tensor, char *ret_text, size_t bytes)
{
    int used = snprintf(ret_text, bytes, "%s %.60s [", tensor->kind, tensor->name);
    for (uint32_t i = 0; i < tensor->dims && used < (int)bytes; i++)
        used += snprintf(ret_text + used, bytes - (size_t)used, "%s%" PRIu64, i == 0 ? "" : ", ",
                         tensor->shape[i]);
    if (used < (int)bytes) (void)snprintf(ret_text + used, bytes - (size_t)used, "]");
}

/* "tensor 2 is param b [35, 20], not param c [20]" */
static void compare_tensors(const struct ckpt_manifest *manifest, const struct ckpt_tensor *ours,
                            uint32_t count, struct error *ret_why)
{
    char left[160] = "none", right[160] = "none";
    uint32_t i = 0;
    while (i < count && i < manifest->tensor_count && same_tensor(&manifest->tensor[i], &ours[i]))
        i++;
    if (i == count && i == manifest->tensor_count) return;
    if (i < manifest->tensor_count) tell_tensor(&manifest->tensor[i], left, sizeof left);
    if (i < count) tell_tensor(&ours[i], right, sizeof right);
    (void)error_set(ret_why, "another model: tensor %u is %s, not %s", i + 1, left, right);
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
    struct ckpt_tensor *ours;
    uint32_t count;
    if (ckpt_tensors_of(job, &ours, &count, &why)) { /* else: out of memory, and so it says */
        compare_tensors(manifest, ours, count, &why);
        mem_free(ours);
    }
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

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return tail <= length && strcmp(name + length - tail, suffix) == 0;
}

static bool is_named(const struct ckpt_manifest *manifest, const char *file)
{
    for (uint32_t i = 0; i < manifest->file_count; i++)
        if (strcmp(manifest->file[i].name, file) == 0) return true;
    return false;
}

/* Does a manifest stand in this list of one step's objects? */
static bool has_manifest(const struct store_listing *objects, const char *name)
{
    for (uint32_t i = 0; i < objects->count; i++)
        if (strcmp(objects->item[i].name, name) == 0) return true;
    return false;
}

bool ckpt_abandon(struct store *store, uint64_t step, const char *suffix, struct error *ret_error)
{
    char prefix[STORE_NAME_BYTES], name[STORE_NAME_BYTES];
    struct store_listing objects;
    struct ckpt_manifest manifest = {0};
    ckpt_object_name(step, "", prefix);
    ckpt_object_name(step, manifest_name, name);
    if (!store_list(store, prefix, &objects, ret_error)) return false;
    bool fine =
        !has_manifest(&objects, name) || ckpt_read_manifest(store, step, &manifest, ret_error);
    for (uint32_t i = 0; i < objects.count && fine; i++) {
        const char *file = objects.item[i].name + strlen(prefix);
        if (ends_in(file, suffix) && !is_named(&manifest, file))
            fine = store_remove(store, objects.item[i].name, ret_error);
    }
    ckpt_manifest_free(&manifest);
    store_listing_free(&objects);
    return fine;
}

static bool remove_listed(struct store *store, const struct store_listing *listing, bool unfinished,
                          struct error *ret_error)
{
    bool fine = true;
    for (uint32_t i = 0; i < listing->count; i++)
        fine = (unfinished ? store_discard(store, listing->item[i].name, ret_error)
                           : store_remove(store, listing->item[i].name, ret_error)) &&
               fine;
    return fine;
}

bool ckpt_remove(struct store *store, uint64_t step, struct error *ret_error)
{
    char prefix[STORE_NAME_BYTES], name[STORE_NAME_BYTES];
    struct store_listing objects, unfinished;
    ckpt_object_name(step, "", prefix);
    ckpt_object_name(step, manifest_name, name);
    if (!store_remove(store, name, ret_error)) return false;
    if (!store_list(store, prefix, &objects, ret_error)) return false;
    bool fine = remove_listed(store, &objects, false, ret_error);
    store_listing_free(&objects);
    if (!store_list_unfinished(store, prefix, &unfinished, ret_error)) return false;
    fine = remove_listed(store, &unfinished, true, ret_error) && fine;
    store_listing_free(&unfinished);
    return fine;
}

enum standing { DAMAGED = 1, GOOD, NOT_OURS };

/* Reads the shards only if asked to `verify`. A manifest that cannot be read may be anybody's. */
static enum standing standing_of(struct store *store, uint64_t step, const struct job *job,
                                 bool verify)
{
    struct ckpt_manifest manifest;
    if (!ckpt_read_manifest(store, step, &manifest, NULL)) return NOT_OURS;
    bool foreign = ckpt_is_foreign(&manifest, job, NULL);
    bool good = foreign || !verify || ckpt_verify(store, &manifest, 1, NULL);
    ckpt_manifest_free(&manifest);
    return foreign ? NOT_OURS : good ? GOOD : DAMAGED;
}

/* Of the steps of this job behind the kept ones, newest first: the one to keep for long. */
static uint64_t choose_permanent(const uint64_t *older, uint32_t count, uint64_t newest)
{
    uint64_t chosen = count > 0 ? older[0] : UINT64_MAX;
    for (uint32_t i = 1; i < count && older[i] >= newest - newest / 2; i++) chosen = older[i];
    return chosen;
}

static void prune_listed(struct store *store, const struct job *job,
                         const struct ckpt_listing *listing, const uint64_t *trusted,
                         uint32_t trusted_count, uint64_t *older)
{
    uint32_t good = 0, older_count = 0;
    uint64_t newest = 0;
    for (uint32_t i = 0; i < listing->count; i++) {
        uint64_t step = listing->step[i];
        bool verify = good < CKPT_KEEP && !is_among(step, trusted, trusted_count);
        enum standing standing = standing_of(store, step, job, verify);
        if (standing == NOT_OURS) continue;
        if (good == 0 && standing == GOOD) newest = step;
        if (good >= CKPT_KEEP) older[older_count++] = step;
        good += standing == GOOD;
    }
    /* Only a good one may be the permanent one; damaged ones are passed over and removed. */
    uint64_t permanent = choose_permanent(older, older_count, newest);
    for (uint32_t i = 0; i < older_count; i++)
        if (older[i] != permanent) (void)ckpt_remove(store, older[i], NULL);
}

void ckpt_prune(struct store *store, const struct job *job, uint64_t spare, const uint64_t *trusted,
                uint32_t trusted_count)
{
    struct ckpt_listing listing;
    if (!ckpt_list(store, &listing, NULL)) return;
    uint64_t *older = mem_zalloc((size_t)listing.count + 1, sizeof *older);
    if (older != NULL) prune_listed(store, job, &listing, trusted, trusted_count, older);
    mem_free(older);
    for (uint32_t i = 0; i < listing.orphan_count; i++) /* what stays is tried again next time */
        if (listing.orphan[i] < spare) (void)ckpt_remove(store, listing.orphan[i], NULL);
    ckpt_listing_free(&listing);
}

static bool digest_piece(EVP_MD_CTX *context, struct store_reader *reader,
                         const struct ckpt_piece *piece, struct error *ret_error)
{
    enum { BUFFER = 1 << 20 };
    char *buffer = mem_alloc(BUFFER);
    bool fine = buffer != NULL || error_set(ret_error, "out of memory for a digest");
    for (uint64_t done = 0; done < piece->bytes && fine;) {
        size_t want = piece->bytes - done < BUFFER ? (size_t)(piece->bytes - done) : BUFFER;
        fine = store_read(reader, piece->offset + done, buffer, want, ret_error);
        if (fine && EVP_DigestUpdate(context, buffer, want) != 1)
            fine = error_set(ret_error, "SHA-256 failed");
        done += want;
    }
    mem_free(buffer);
    return fine;
}

static bool digest_tensor(EVP_MD_CTX *context, struct store *store,
                          const struct ckpt_manifest *manifest, const struct ckpt_tensor *tensor,
                          struct error *ret_error)
{
    struct store_reader *reader = NULL;
    uint32_t file = UINT32_MAX;
    bool fine = true;
    for (uint32_t k = 0; k < tensor->piece_count && fine; k++) {
        const struct ckpt_piece *piece = &manifest->piece[tensor->first_piece + k];
        if (file != piece->file) {
            char name[STORE_NAME_BYTES];
            uint64_t bytes;
            store_close_object(reader);
            file = piece->file;
            ckpt_object_name(manifest->step, manifest->file[file].name, name);
            reader = store_open_object(store, name, &bytes, ret_error);
        }
        fine = reader != NULL && digest_piece(context, reader, piece, ret_error);
    }
    store_close_object(reader);
    return fine;
}

/* Moments, which a worker may hold a shard of only, are left to the second digest. */
static bool is_digested(const struct ckpt_tensor *tensor, bool moments)
{
    if (strcmp(tensor->kind, "scales") == 0) return false;
    return moments || strcmp(tensor->kind, "moment") != 0;
}

bool ckpt_digest(struct store *store, const struct ckpt_manifest *manifest, bool moments,
                 char text[65], struct error *ret_error)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool fine = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    if (!fine) (void)error_set(ret_error, "cannot set up SHA-256");
    for (uint32_t i = 0; i < manifest->tensor_count && fine; i++)
        if (is_digested(&manifest->tensor[i], moments))
            fine = digest_tensor(context, store, manifest, &manifest->tensor[i], ret_error);
    if (fine && EVP_DigestFinal_ex(context, digest, NULL) != 1)
        fine = error_set(ret_error, "SHA-256 failed");
    EVP_MD_CTX_free(context);
    for (int i = 0; fine && i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return fine;
}
