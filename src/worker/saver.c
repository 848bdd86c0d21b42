#include "worker/saver.h"
#include "base/io.h"
#include "base/mem.h"
#include "core/assert.h"
#include "worker/ckpt_store.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { TRUSTED = 4 };

enum task { TASK_SHARD = 1, TASK_MANIFEST = 2, TASK_ABANDON = 4, TASK_STOP = 8 };

struct saver {
    const struct job *job;
    const int16_t *scale;
    struct saver_hooks hooks;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t tasks; /* of enum task, at most one of each: the machine orders no more */
    /* Header and data. The memory is kept for the next one: getting fresh pages from the kernel
     * takes longer than filling them. */
    char *shard;
    size_t shard_bytes, shard_room;
    bool shard_due, shard_failed; /* between copy and hook; the copy failed */
    uint64_t shard_step;
    char shard_name[CKPT_FILE_NAME_BYTES];
    struct error shard_error;
    struct member_save manifest, abandoned;
    uint64_t trusted[TRUSTED];
    uint32_t trusted_next;
    bool complained;
};

/* Unique per order, so that two attempts at one step never write the same file. */
static void suffix_of(const struct wire_tag *tag, char *ret_text, size_t bytes)
{
    snprintf(ret_text, bytes, "-t%" PRIu64 "w%" PRIu64 ".safetensors", tag->turn, tag->leader);
}

static void name_of(const struct wire_tag *tag, uint32_t index, char *ret_name)
{
    char suffix[64];
    suffix_of(tag, suffix, sizeof suffix);
    snprintf(ret_name, CKPT_FILE_NAME_BYTES, "shard-%04u%s", index, suffix);
}

static void complain(struct saver *saver, const struct error *error)
{
    if (!saver->complained)
        fprintf(stderr,
                "checkpoint failed: %s; training goes on and older checkpoints stay. Free space or "
                "fix the folder; the next checkpoint is tried as planned\n",
                error->text);
    saver->complained = true;
}

static bool write_shard(struct saver *saver, struct error *ret_error)
{
    char folder[CKPT_PATH_BYTES], path[CKPT_PATH_BYTES];
    if (saver->shard_failed) {
        *ret_error = saver->shard_error;
        return false;
    }
    const char *dir = saver->job->checkpoint_dir;
    return ckpt_step_path(dir, saver->shard_step, "", folder, ret_error) &&
           io_make_dirs(folder, ret_error) &&
           ckpt_step_path(dir, saver->shard_step, saver->shard_name, path, ret_error) &&
           io_write_file(path, saver->shard, saver->shard_bytes, 0600, ret_error);
}

static void do_shard(struct saver *saver)
{
    struct error error;
    bool written = write_shard(saver, &error);
    uint64_t checksum = written ? XXH3_64bits(saver->shard, saver->shard_bytes) : 0;
    uint64_t bytes = written ? saver->shard_bytes : 0;
    if (!written) {
        complain(saver, &error);
        ckpt_remove_leftovers(saver->job->checkpoint_dir, saver->shard_step, saver->shard_name);
    }
    saver->shard_due = false;
    saver->hooks.on_shard(saver->hooks.self, written, bytes, checksum);
}

static bool write_manifest(struct saver *saver, const struct member_save *save,
                           struct error *ret_error)
{
    const char *dir = saver->job->checkpoint_dir;
    uint32_t count = save->turn.member_count;
    struct ckpt_manifest manifest;
    char path[CKPT_PATH_BYTES], *text = NULL;
    size_t bytes;
    if (!ckpt_manifest_of(&manifest, saver->job, count, save->step, ret_error)) return false;
    bool fine = true;
    for (uint32_t i = 0; i < count && fine; i++) {
        name_of(&save->turn.tag, i, manifest.file[i].name);
        manifest.file[i].checksum = save->shard[i].checksum;
        if (manifest.file[i].bytes != save->shard[i].bytes)
            fine = error_set(ret_error, "%s: a peer wrote %" PRIu64 " bytes, expected %" PRIu64,
                             manifest.file[i].name, save->shard[i].bytes, manifest.file[i].bytes);
    }
    fine = fine && ckpt_step_path(dir, save->step, "manifest.json", path, ret_error) &&
           ckpt_manifest_format(&manifest, &text, &bytes, ret_error) &&
           io_write_file(path, text, bytes, 0600, ret_error);
    if (fine && !io_sync_dir(dir)) fine = error_set(ret_error, "%s: cannot sync the folder", dir);
    mem_free(text);
    ckpt_manifest_free(&manifest);
    return fine;
}

void saver_trust(struct saver *saver, uint64_t step)
{
    saver->trusted[saver->trusted_next++ % TRUSTED] = step;
}

static void abandon(struct saver *saver, const struct member_save *save)
{
    char suffix[64];
    suffix_of(&save->turn.tag, suffix, sizeof suffix);
    ckpt_remove_leftovers(saver->job->checkpoint_dir, save->step, suffix);
}

/* A failed sync after the rename: the checkpoint is whole, but may not survive a power cut. */
static bool is_in_place(const struct saver *saver, const struct member_save *save)
{
    struct ckpt_manifest manifest;
    char ours[CKPT_FILE_NAME_BYTES];
    name_of(&save->turn.tag, 0, ours);
    if (!ckpt_read_manifest(saver->job->checkpoint_dir, save->step, &manifest, NULL)) return false;
    bool in_place = strcmp(manifest.file[0].name, ours) == 0;
    ckpt_manifest_free(&manifest);
    return in_place;
}

static void do_manifest(struct saver *saver)
{
    struct error error;
    bool written = write_manifest(saver, &saver->manifest, &error);
    if (written) {
        saver->complained = false;
        saver_trust(saver, saver->manifest.step);
    } else {
        complain(saver, &error);
        if (!is_in_place(saver, &saver->manifest)) abandon(saver, &saver->manifest);
    }
    uint64_t step = saver->manifest.step; /* the hook may bring the next order */
    saver->hooks.on_manifest(saver->hooks.self, written, step);
    if (written) ckpt_prune(saver->job->checkpoint_dir, saver->job, step, saver->trusted, TRUSTED);
}

static void *run(void *self)
{
    struct saver *saver = self;
    for (;;) {
        (void)pthread_mutex_lock(&saver->lock);
        while (saver->tasks == 0) (void)pthread_cond_wait(&saver->changed, &saver->lock);
        uint32_t tasks = saver->tasks;
        saver->tasks &= TASK_STOP;
        (void)pthread_mutex_unlock(&saver->lock);
        if ((tasks & TASK_SHARD) != 0) do_shard(saver);
        if ((tasks & TASK_MANIFEST) != 0) do_manifest(saver);
        if ((tasks & TASK_ABANDON) != 0) abandon(saver, &saver->abandoned);
        if (tasks == TASK_STOP) return NULL;
    }
}

struct saver *saver_start(const struct job *job, const int16_t *scale,
                          const struct saver_hooks *hooks, struct error *ret_error)
{
    struct saver *saver = mem_zalloc(1, sizeof *saver);
    if (saver == NULL) {
        (void)error_set(ret_error, "out of memory for the checkpoint writer");
        return NULL;
    }
    saver->job = job;
    saver->scale = scale;
    saver->hooks = *hooks;
    for (int i = 0; i < TRUSTED; i++) saver->trusted[i] = UINT64_MAX;
    (void)pthread_mutex_init(&saver->lock, NULL); /* no attributes: cannot fail on Linux */
    (void)pthread_cond_init(&saver->changed, NULL);
    int failed = pthread_create(&saver->thread, NULL, run, saver);
    if (failed == 0) return saver;
    (void)error_set(ret_error, "cannot start the checkpoint writer: %s", error_errno(failed));
    mem_free(saver);
    return NULL;
}

static void order(struct saver *saver, enum task task)
{
    (void)pthread_mutex_lock(&saver->lock);
    saver->tasks |= task;
    (void)pthread_cond_signal(&saver->changed);
    (void)pthread_mutex_unlock(&saver->lock);
}

static void copy_elements(const struct job *job, const struct ckpt_share *share, char *into)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        const struct job_tensor *tensor = &job->tensors[i];
        uint64_t first = share->first > at ? share->first - at : 0;
        uint64_t end = share->end > at ? share->end - at : 0;
        if (end > tensor->element_count) end = tensor->element_count;
        if (first < end) {
            memcpy(into, tensor->data + first, (end - first) * sizeof(float));
            into += (end - first) * sizeof(float);
        }
        at += tensor->element_count;
    }
}

/* Room for a shard. The old one is given back first: both may not fit. */
static bool make_room(struct saver *saver, size_t bytes, struct error *ret_error)
{
    if (bytes <= saver->shard_room) return true;
    mem_free(saver->shard);
    saver->shard = mem_alloc(bytes);
    saver->shard_room = saver->shard == NULL ? 0 : bytes;
    return saver->shard != NULL ||
           error_set(ret_error, "out of memory for a shard of %zu bytes", bytes);
}

static bool fill_shard(struct saver *saver, uint32_t index, uint32_t count, struct error *ret_error)
{
    struct ckpt_share share;
    if (!ckpt_share_init(&share, saver->job, index, count, ret_error)) return false;
    saver->shard_bytes = share.header_bytes + share.data_bytes;
    bool fits = make_room(saver, saver->shard_bytes, ret_error);
    if (fits) {
        memcpy(saver->shard, share.header, share.header_bytes);
        char *data = saver->shard + share.header_bytes;
        copy_elements(saver->job, &share, data);
        memcpy(data + share.data_bytes - share.scale_bytes, saver->scale, share.scale_bytes);
    }
    ckpt_share_free(&share);
    return fits;
}

void saver_copy(struct saver *saver, const struct wire_turn *turn, uint32_t index)
{
    ASSERT(!saver->shard_due);
    saver->shard_due = true;
    saver->shard_step = turn->position / 2;
    name_of(&turn->tag, index, saver->shard_name);
    saver->shard_failed = !fill_shard(saver, index, turn->member_count, &saver->shard_error);
    order(saver, TASK_SHARD);
}

void saver_manifest(struct saver *saver, const struct member_save *save)
{
    saver->manifest = *save;
    order(saver, TASK_MANIFEST);
}

void saver_abandon(struct saver *saver, const struct member_save *save)
{
    (void)pthread_mutex_lock(&saver->lock);
    if ((saver->tasks & TASK_ABANDON) == 0) saver->abandoned = *save; /* else prune finds them */
    (void)pthread_mutex_unlock(&saver->lock);
    order(saver, TASK_ABANDON);
}

void saver_stop(struct saver *saver)
{
    if (saver == NULL) return;
    order(saver, TASK_STOP);
    (void)pthread_join(saver->thread, NULL);
    (void)pthread_mutex_destroy(&saver->lock);
    (void)pthread_cond_destroy(&saver->changed);
    mem_free(saver->shard);
    mem_free(saver);
}
