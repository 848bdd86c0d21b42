#include "worker/ckpt/saver.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/assert.h"
#include "worker/ckpt/saver_private.h"
#include <stdio.h>
#include <string.h>

/* The first part of a shard that nobody has copied, or none. Lock held. */
static struct flight *next_to_copy(struct saver *saver)
{
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++) {
        struct flight *flight = &saver->flight[i];
        if (flight->active && flight->copy_next < flight->image.part_count) return flight;
    }
    return NULL;
}

/* Copies one part. Lock held, let go meanwhile. */
static void copy_part(struct saver *saver, struct flight *flight)
{
    uint32_t part = flight->copy_next++;
    flight->busy++;
    saver_unlock(saver);
    ckpt_image_copy(&flight->image, part);
    saver_lock(saver);
    flight->busy--;
    flight->copied[part] = true;
    bool all = --flight->copy_left == 0;
    saver_wake(saver);
    if (!all) return;
    flight->busy++; /* keeps it from ending before the hook has returned */
    saver_unlock(saver);
    saver->hooks.on_copied(saver->hooks.self);
    saver_lock(saver);
    flight->busy--;
    saver_wake(saver);
}

/* Parts 1, 2, .. as they are copied; part 0, with the header, when all are written. */
static struct flight *next_to_write(struct saver *saver)
{
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++) {
        struct flight *flight = &saver->flight[i];
        if (!flight->active || flight->failed || flight->finishing) continue;
        if (flight->writer == NULL) continue;
        if (flight->write_next < flight->image.part_count && flight->copied[flight->write_next])
            return flight;
    }
    return NULL;
}

static void fail(struct flight *flight, const struct error *error)
{
    if (!flight->failed) flight->error = *error;
    flight->failed = true;
}

static struct flight *next_to_open(struct saver *saver)
{
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++) {
        struct flight *flight = &saver->flight[i];
        bool due = flight->active && !flight->failed && !flight->opening && flight->writer == NULL;
        if (due && flight->image.file_bytes > 0) return flight;
    }
    return NULL;
}

static void open_writer(struct saver *saver, struct flight *flight)
{
    struct error error;
    char name[STORE_NAME_BYTES];
    ckpt_object_name(flight->step, flight->name, name);
    flight->opening = true;
    flight->busy++;
    saver_unlock(saver);
    struct store_writer *writer =
        store_create(saver->store, name, flight->image.file_bytes, &error);
    saver_lock(saver);
    flight->busy--;
    flight->writer = writer;
    if (writer == NULL) fail(flight, &error);
    saver_wake(saver);
}

static bool put_part(struct flight *flight, uint32_t part, struct error *ret_error)
{
    const uint8_t *bytes;
    size_t count = ckpt_image_part(&flight->image, part, &bytes);
    return store_put_part(flight->writer, part, bytes, count, ret_error);
}

static void write_part(struct saver *saver, struct flight *flight)
{
    struct error error;
    uint32_t part = flight->write_next++;
    flight->busy++;
    saver_unlock(saver);
    bool written = put_part(flight, part, &error);
    saver_lock(saver);
    flight->busy--;
    if (!written) fail(flight, &error);
    saver_wake(saver);
}

/* All other parts are out, or it has failed: nobody else is in it. */
static struct flight *next_to_finish(struct saver *saver)
{
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++) {
        struct flight *flight = &saver->flight[i];
        if (!flight->active || flight->finishing) continue;
        bool empty = flight->image.file_bytes == 0;
        bool written = flight->writer != NULL && flight->write_next >= flight->image.part_count;
        if ((empty || written || flight->failed) && flight->busy == 0 && flight->copy_left == 0)
            return flight;
    }
    return NULL;
}

/* Lock held, let go meanwhile. The hook may bring the next order. */
static void finish(struct saver *saver, struct flight *flight)
{
    struct ckpt_image *image = &flight->image;
    flight->finishing = true;
    saver_unlock(saver);
    bool empty = image->file_bytes == 0;
    bool written =
        !flight->failed &&
        (empty || (ckpt_image_seal(image, &flight->error) && put_part(flight, 0, &flight->error)));
    if (!written || empty)
        store_abort(flight->writer);
    else
        written = store_commit(flight->writer, &flight->error);
    if (!written) {
        saver_complain(saver, &flight->error);
        (void)ckpt_abandon(saver->store, flight->step, flight->name, NULL); /* prune tries again */
    }
    struct wire_tag tag = flight->tag;
    uint64_t bytes = written ? image->file_bytes : 0, checksum = image->header_checksum;
    saver_lock(saver);
    flight->writer = NULL;
    flight->active = false;
    saver->telling++;
    saver_unlock(saver);
    saver->hooks.on_shard(saver->hooks.self, &tag, written, bytes, written ? checksum : 0);
    saver_lock(saver);
    saver->telling--;
    saver_wake(saver);
}

static void *run(void *self)
{
    struct saver *saver = self;
    struct flight *flight;
    saver_lock(saver);
    for (;;) {
        /* One thread copies: memory is shared with the program's own work. */
        if (saver->copiers == 0 && (flight = next_to_copy(saver)) != NULL) {
            saver->copiers++;
            copy_part(saver, flight);
            saver->copiers--;
        } else if ((flight = next_to_open(saver)) != NULL)
            open_writer(saver, flight);
        else if ((flight = next_to_write(saver)) != NULL)
            write_part(saver, flight);
        else if ((flight = next_to_finish(saver)) != NULL)
            finish(saver, flight);
        else if (saver->stopping && saver_is_idle(saver))
            break;
        else
            (void)pthread_cond_wait(&saver->changed, &saver->lock);
    }
    saver_unlock(saver);
    return NULL;
}

static bool is_copying(const struct saver *saver)
{
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++)
        if (saver->flight[i].active && saver->flight[i].copy_left > 0) return true;
    return false;
}

uint64_t saver_barrier(struct saver *saver)
{
    struct flight *flight;
    int64_t start_us = clock_monotonic_us();
    saver_lock(saver);
    bool waits = is_copying(saver);
    while (is_copying(saver)) {
        if ((flight = next_to_copy(saver)) != NULL)
            copy_part(saver, flight);
        else
            (void)pthread_cond_wait(&saver->changed, &saver->lock);
    }
    saver_unlock(saver);
    return waits ? (uint64_t)(clock_monotonic_us() - start_us) : 0;
}

/* The scales may change before the next apply, and are few: copied now. */
static bool keep_scales(struct saver *saver, struct flight *flight, struct ckpt_range *range,
                        uint32_t range_count, struct error *ret_error)
{
    for (uint32_t i = 0; i < range_count; i++) {
        if (strcmp(saver->tensor[range[i].tensor].kind, "scales") != 0) continue;
        if (range[i].count > flight->scales_room) {
            mem_free(flight->scales);
            flight->scales_room = 0;
            flight->scales = mem_alloc(range[i].count * sizeof *flight->scales);
            if (flight->scales == NULL) return error_set(ret_error, "out of memory for the scales");
            flight->scales_room = range[i].count;
        }
        if (range[i].count > 0)
            memcpy(flight->scales, range[i].bytes, range[i].count * sizeof *flight->scales);
        range[i].bytes = flight->scales;
    }
    return true;
}

static bool plan(struct saver *saver, struct flight *flight, const struct ckpt_range *range,
                 uint32_t range_count, struct error *ret_error)
{
    struct ckpt_range *kept = mem_zalloc((size_t)range_count + 1, sizeof *kept);
    if (kept == NULL) return error_set(ret_error, "out of memory for %u ranges", range_count);
    if (range_count > 0) memcpy(kept, range, range_count * sizeof *kept);
    bool fine = keep_scales(saver, flight, kept, range_count, ret_error) &&
                ckpt_image_plan(&flight->image, saver->tensor, kept, range_count, ret_error);
    mem_free(kept);
    mem_free(flight->copied);
    flight->copied = fine ? mem_zalloc((size_t)flight->image.part_count + 1, 1) : NULL;
    if (fine && flight->copied == NULL) fine = error_set(ret_error, "out of memory for the parts");
    return fine;
}

uint32_t saver_share(const struct saver *saver, const int16_t *scale, uint32_t index,
                     uint32_t count, struct ckpt_range *ret_range)
{
    const struct job *job = saver->job;
    uint32_t used = ckpt_cut(saver->tensor, job->tensor_count, index, count, ret_range);
    for (uint32_t i = 0; i < used; i++)
        ret_range[i].bytes = job->tensors[ret_range[i].tensor].data + ret_range[i].first;
    if (index == 0)
        ret_range[used++] =
            (struct ckpt_range){saver->tensor_count - 1, 0, job->layout.block_count, scale};
    return used;
}

void saver_order(struct saver *saver, const struct wire_turn *turn, uint32_t index,
                 const struct ckpt_range *range, uint32_t range_count)
{
    struct flight *flight = NULL;
    saver_lock(saver);
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++)
        if (!saver->flight[i].active) flight = &saver->flight[i];
    saver_unlock(saver);
    ASSERT(flight != NULL); /* orders come from one thread, so it stays ours */
    flight->step = turn->position;
    flight->tag = turn->tag;
    saver_shard_name(&turn->tag, index, flight->name);
    flight->failed = !plan(saver, flight, range, range_count, &flight->error);
    saver_lock(saver);
    flight->copy_next = flight->failed ? flight->image.part_count : 0;
    flight->copy_left = flight->failed ? 0 : flight->image.part_count;
    flight->write_next = flight->failed ? flight->image.part_count : 1;
    flight->busy = 0;
    flight->opening = flight->finishing = false;
    flight->active = true;
    bool nothing = flight->copy_left == 0;
    saver_wake(saver);
    saver_unlock(saver);
    if (nothing) saver->hooks.on_copied(saver->hooks.self);
}

struct store *saver_store(struct saver *saver)
{
    return saver->store;
}

struct saver *saver_start(const struct job *job, const struct saver_hooks *hooks,
                          struct error *ret_error)
{
    struct saver *saver = mem_zalloc(1, sizeof *saver);
    if (saver == NULL) {
        (void)error_set(ret_error, "out of memory for the checkpoint writer");
        return NULL;
    }
    saver->job = job;
    saver->hooks = *hooks;
    for (int i = 0; i < TRUSTED; i++) saver->trusted[i] = UINT64_MAX;
    (void)pthread_mutex_init(&saver->lock, NULL); /* no attributes: cannot fail on Linux */
    (void)pthread_cond_init(&saver->changed, NULL);
    saver->store = store_open(job->checkpoint_dir, ret_error);
    bool fine = saver->store != NULL &&
                ckpt_tensors_of(job, &saver->tensor, &saver->tensor_count, ret_error);
    int failed = fine ? pthread_create(&saver->leader_thread, NULL, saver_lead, saver) : 0;
    saver->leader_runs = fine && failed == 0;
    while (fine && failed == 0 && saver->thread_count < SAVER_THREADS) {
        failed = pthread_create(&saver->thread[saver->thread_count], NULL, run, saver);
        saver->thread_count += failed == 0;
    }
    if (saver->thread_count > 0) return saver; /* one is enough, if slower */
    if (failed != 0)
        (void)error_set(ret_error, "cannot start the checkpoint writer: %s", error_errno(failed));
    saver_stop(saver);
    return NULL;
}

void saver_stop(struct saver *saver)
{
    if (saver == NULL) return;
    saver_lock(saver);
    saver->stopping = true;
    saver_wake(saver);
    saver_unlock(saver);
    for (uint32_t i = 0; i < saver->thread_count; i++) (void)pthread_join(saver->thread[i], NULL);
    if (saver->leader_runs) (void)pthread_join(saver->leader_thread, NULL);
    (void)pthread_mutex_destroy(&saver->lock);
    (void)pthread_cond_destroy(&saver->changed);
    for (uint32_t i = 0; i < SAVER_FLIGHTS; i++) {
        ckpt_image_free(&saver->flight[i].image);
        mem_free(saver->flight[i].scales);
        mem_free(saver->flight[i].copied);
    }
    mem_free(saver->tensor);
    store_close(saver->store);
    mem_free(saver);
}
