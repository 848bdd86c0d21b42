/* The leader's side of the saver: manifests, what is given up, and what older checkpoints stay. */
#include "base/mem.h"
#include "core/assert.h"
#include "worker/ckpt/saver_private.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Unique per order, so that two attempts at one step never write the same file. */
static void suffix_of(const struct wire_tag *tag, char *ret_text, size_t bytes)
{
    snprintf(ret_text, bytes, "-t%" PRIu64 "w%" PRIu64 ".safetensors", tag->turn, tag->leader);
}

void saver_shard_name(const struct wire_tag *tag, uint32_t index, char *ret_name)
{
    char suffix[64];
    suffix_of(tag, suffix, sizeof suffix);
    snprintf(ret_name, CKPT_FILE_NAME_BYTES, "shard-%04u%s", index, suffix);
}

void saver_complain(struct saver *saver, const struct error *error)
{
    saver_lock(saver);
    bool first = !saver->complained;
    saver->complained = true;
    saver_unlock(saver);
    if (first)
        fprintf(stderr,
                "checkpoint failed: %s; training goes on and older checkpoints stay. Free space or "
                "fix the folder; the next checkpoint is tried as planned\n",
                error->text);
}

bool saver_is_idle(const struct saver *saver)
{
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++)
        if (saver->flight[i].active) return false;
    return saver->telling == 0;
}

static bool fill_manifest(const struct saver *saver, const struct member_save *save,
                          struct ckpt_manifest *manifest, struct error *ret_error)
{
    const struct job *job = saver->job;
    *manifest = (struct ckpt_manifest){.step = save->step,
                                       .steps = job->steps,
                                       .model = job->model,
                                       .identity = job->identity,
                                       .slots = job->slots,
                                       .samples_per_slot = job->samples_per_slot};
    manifest->file = mem_zalloc(save->turn.member_count, sizeof *manifest->file);
    manifest->tensor = mem_zalloc(saver->tensor_count, sizeof *manifest->tensor);
    if (manifest->file == NULL || manifest->tensor == NULL)
        return error_set(ret_error, "out of memory for the manifest");
    memcpy(manifest->tensor, saver->tensor, saver->tensor_count * sizeof *manifest->tensor);
    manifest->tensor_count = saver->tensor_count;
    for (uint32_t i = 0; i < save->turn.member_count; i++) {
        struct ckpt_file *file = &manifest->file[manifest->file_count];
        if (save->shard[i].bytes == 0) continue; /* had no range */
        saver_shard_name(&save->turn.tag, i, file->name);
        file->bytes = save->shard[i].bytes;
        file->header_checksum = save->shard[i].checksum;
        manifest->file_count++;
    }
    return true;
}

static bool write_manifest(struct saver *saver, const struct member_save *save,
                           struct error *ret_error)
{
    struct ckpt_manifest manifest;
    bool fine = fill_manifest(saver, save, &manifest, ret_error) &&
                ckpt_gather(saver->store, &manifest, ret_error) &&
                ckpt_publish(saver->store, &manifest, ret_error);
    ckpt_manifest_free(&manifest);
    return fine;
}

void saver_trust(struct saver *saver, uint64_t step)
{
    saver_lock(saver);
    saver->trusted[saver->trusted_next++ % TRUSTED] = step;
    saver_unlock(saver);
}

static void abandon(struct saver *saver, const struct member_save *save)
{
    char suffix[64];
    suffix_of(&save->turn.tag, suffix, sizeof suffix);
    (void)ckpt_abandon(saver->store, save->step, suffix, NULL); /* prune tries again */
}

/* The oldest step of a checkpoint that is still under way here; files of older ones may go. */
static uint64_t oldest_under_way(struct saver *saver, uint64_t step)
{
    saver_lock(saver);
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++)
        if (saver->flight[i].active && saver->flight[i].step < step) step = saver->flight[i].step;
    for (uint32_t i = 0; i < saver->order_count; i++) {
        uint64_t other = saver->order[(saver->order_first + i) % ORDERS].save.step;
        if (other < step) step = other;
    }
    saver_unlock(saver);
    return step;
}

static void do_manifest(struct saver *saver, const struct member_save *save)
{
    struct error error;
    bool written = write_manifest(saver, save, &error);
    if (written) {
        saver_lock(saver);
        saver->complained = false;
        saver_unlock(saver);
        saver_trust(saver, save->step);
    } else {
        saver_complain(saver, &error);
        abandon(saver, save);
    }
    saver->hooks.on_manifest(saver->hooks.self, &save->turn.tag, written, save->step);
    uint64_t trusted[TRUSTED];
    saver_lock(saver);
    memcpy(trusted, saver->trusted, sizeof trusted);
    saver_unlock(saver);
    if (written)
        ckpt_prune(saver->store, saver->job, oldest_under_way(saver, save->step), trusted, TRUSTED);
}

void *saver_lead(void *self)
{
    struct saver *saver = self;
    saver_lock(saver);
    for (;;) {
        if (saver->order_count > 0) {
            struct manifest_order order = saver->order[saver->order_first];
            saver->order_first = (saver->order_first + 1) % ORDERS;
            saver->order_count--;
            saver_unlock(saver);
            if (order.abandon)
                abandon(saver, &order.save);
            else
                do_manifest(saver, &order.save);
            saver_lock(saver);
        } else if (saver->stopping && saver_is_idle(saver))
            break;
        else
            (void)pthread_cond_wait(&saver->changed, &saver->lock);
    }
    saver_unlock(saver);
    return NULL;
}

static void add_order(struct saver *saver, const struct member_save *save, bool gives_up)
{
    saver_lock(saver);
    bool fits = saver->order_count < ORDERS;
    ASSERT(fits || gives_up); /* manifests: one per flight, at most */
    if (fits) {               /* leftovers that are not removed now, prune finds */
        struct manifest_order *order =
            &saver->order[(saver->order_first + saver->order_count++) % ORDERS];
        order->abandon = gives_up;
        order->save = *save;
    }
    saver_wake(saver);
    saver_unlock(saver);
}

void saver_manifest(struct saver *saver, const struct member_save *save)
{
    add_order(saver, save, false);
}

void saver_abandon(struct saver *saver, const struct member_save *save)
{
    add_order(saver, save, true);
}
