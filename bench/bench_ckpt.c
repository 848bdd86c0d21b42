/* Checkpoints against the disk and against training.
 *
 *     bench_ckpt [MiB]     in a folder beside the program, removed afterwards
 *
 * Write      the saver's whole path (copy, checksums, shard, syncs, manifest) against direct
 *            sequential writes of the same bytes with one fsync, alternating.
 * Read       the loader's (pieces in parallel, checksums, into place) against direct sequential
 *            reads of the same bytes, alternating.
 * Stall      a model that does nothing but move memory, on all cores: how long its thread waits for
 *            a checkpoint, over the time of 20 steps; and how much longer those 20 steps take. These
 *            are long (20 steps move 75 times the state), so there are fewer of them.
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "median.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_load.h"
#include "worker/ckpt/saver.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 5, TRAININGS = 5, STEPS = 20, PASSES = 8, THREADS_MAX = 16, CHUNK = 8 << 20 };

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shard, manifest, ok;
    uint64_t bytes, checksum;
};

struct bench {
    struct job job;
    struct ckpt_range range[4];
    struct saver *saver;
    struct waiter waiter;
    float *weights;
    int16_t *scale;
    size_t bytes;
    char path[128];
    uint8_t *buffer; /* for the plain writes and reads */
    uint64_t step;
};

static void on_copied(void *self)
{
    (void)self;
}

static void on_shard(void *self, const struct wire_tag *tag, bool ok, uint64_t bytes,
                     uint64_t checksum)
{
    struct waiter *w = self;
    (void)tag;
    pthread_mutex_lock(&w->lock);
    w->shard = true;
    w->ok = ok;
    w->bytes = bytes;
    w->checksum = checksum;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void on_manifest(void *self, const struct wire_tag *tag, bool ok, uint64_t step)
{
    struct waiter *w = self;
    (void)tag;
    (void)step;
    pthread_mutex_lock(&w->lock);
    w->manifest = true;
    w->ok = w->ok && ok;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct waiter *w, const bool *flag)
{
    pthread_mutex_lock(&w->lock);
    while (!*flag) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void order(struct bench *b, struct member_save *save)
{
    b->step++;
    *save = (struct member_save){.active = true, .step = b->step};
    save->turn.position = b->step;
    save->turn.member_count = 1;
    save->turn.member[0] = 1;
    save->turn.tag = (struct wire_tag){b->step, 1};
    b->waiter.shard = b->waiter.manifest = false;
    saver_order(b->saver, &save->turn, 0, b->range,
                saver_share(b->saver, b->scale, 0, 1, b->range));
}

static void finish(struct bench *b, struct member_save *save)
{
    wait_for(&b->waiter, &b->waiter.shard);
    save->shard[0] = (struct member_shard){.known = true,
                                           .ok = b->waiter.ok,
                                           .bytes = b->waiter.bytes,
                                           .checksum = b->waiter.checksum};
    saver_manifest(b->saver, save);
    wait_for(&b->waiter, &b->waiter.manifest);
    if (b->waiter.ok) return;
    fprintf(stderr, "a checkpoint failed\n");
    exit(1);
}

static int64_t save_us(struct bench *b)
{
    static struct member_save save;
    int64_t start_us = clock_monotonic_us();
    order(b, &save);
    (void)saver_barrier(b->saver);
    finish(b, &save);
    return clock_monotonic_us() - start_us;
}

static int open_plain(const struct bench *b, int flags)
{
    int fd = open(b->path, flags | O_DIRECT | O_CLOEXEC, 0600);
    if (fd < 0) fd = open(b->path, flags | O_CLOEXEC, 0600); /* as the store falls back */
    if (fd >= 0) return fd;
    perror(b->path);
    exit(1);
}

static int64_t plain_write_us(const struct bench *b)
{
    (void)unlink(b->path); /* each run writes a new file, as the saver does */
    int64_t start_us = clock_monotonic_us();
    int fd = open_plain(b, O_WRONLY | O_CREAT | O_TRUNC);
    bool fine = true;
    for (size_t at = 0; at < b->bytes && fine; at += CHUNK)
        fine = io_pwrite_full(fd, b->buffer, CHUNK, at);
    if (!fine || fsync(fd) != 0 || close(fd) != 0) {
        perror(b->path);
        exit(1);
    }
    return clock_monotonic_us() - start_us;
}

static int64_t plain_read_us(const struct bench *b)
{
    int64_t start_us = clock_monotonic_us();
    int fd = open_plain(b, O_RDONLY);
    for (size_t at = 0; at < b->bytes; at += CHUNK)
        if (pread(fd, b->buffer, CHUNK, (off_t)at) != CHUNK) {
            perror(b->path);
            exit(1);
        }
    (void)close(fd);
    return clock_monotonic_us() - start_us;
}

static int64_t load_us(struct bench *b, uint8_t *state)
{
    uint64_t step;
    struct error error;
    int64_t start_us = clock_monotonic_us();
    bool loaded = ckpt_load(saver_store(b->saver), &b->job, state, &step, &error) == CKPT_LOADED;
    int64_t us = clock_monotonic_us() - start_us;
    if (loaded && memcmp(state, b->weights, b->bytes) == 0) return us;
    fprintf(stderr, "the checkpoint does not load\n");
    exit(1);
}

static void print_rate(const char *name, const char *peer, size_t bytes, int64_t *ours,
                       int64_t *plain)
{
    double our_rate = (double)bytes / (double)median_of_integers(ours, RUNS);
    double plain_rate = (double)bytes / (double)median_of_integers(plain, RUNS);
    printf("{\"name\": \"%s\", \"value\": %.1f, \"unit\": \"MB/s\", \"peer\": \"%s\", "
           "\"peer_value\": %.1f, \"ratio\": %.3f, \"better\": \"higher\", \"runs\": %d}\n",
           name, our_rate, peer, plain_rate, our_rate / plain_rate, RUNS);
}

static void measure_disk(struct bench *b)
{
    int64_t ours[RUNS], plain[RUNS];
    uint8_t *state = mem_zalloc(b->bytes + b->job.layout.block_count * 2, 1);
    (void)save_us(b); /* fresh memory and a cold disk are nobody's figure */
    (void)plain_write_us(b);
    for (int i = 0; i < RUNS; i++) {
        plain[i] = plain_write_us(b);
        ours[i] = save_us(b);
    }
    print_rate("ckpt_write.vs_disk", "direct sequential write and fsync", b->bytes, ours, plain);
    (void)load_us(b, state);
    for (int i = 0; i < RUNS; i++) {
        plain[i] = plain_read_us(b);
        ours[i] = load_us(b, state);
    }
    print_rate("ckpt_read.vs_disk", "direct sequential read", b->bytes, ours, plain);
    mem_free(state);
}

/* --- a model that moves memory --- */

struct mover {
    struct bench *bench;
    float *gradient;
    size_t first, end;
    bool apply;
};

/* Compute: gradients from weights, PASSES times. Apply: weights, both moments (the three thirds of
 * the state) from the gradient. */
static void *move(void *self)
{
    struct mover *m = self;
    float *weights = m->bench->weights;
    size_t third = m->bench->bytes / sizeof(float) / 3;
    for (int pass = 0; pass < PASSES && !m->apply; pass++)
        for (size_t i = m->first; i < m->end; i++)
            m->gradient[i] = 0.5f * m->gradient[i] + weights[i];
    for (size_t i = m->first; i < m->end && m->apply; i++) {
        float g = m->gradient[i];
        weights[third + i] = 0.9f * weights[third + i] + g;
        weights[2 * third + i] = 0.99f * weights[2 * third + i] + g * g;
        weights[i] -= 1e-3f * weights[third + i];
    }
    return NULL;
}

static void move_all(struct bench *b, float *gradient, bool apply)
{
    pthread_t thread[THREADS_MAX];
    struct mover mover[THREADS_MAX];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (size_t)cores;
    size_t third = b->bytes / sizeof(float) / 3;
    for (size_t i = 0; i < threads; i++) {
        mover[i] =
            (struct mover){b, gradient, third * i / threads, third * (i + 1) / threads, apply};
        if (i > 0 && pthread_create(&thread[i], NULL, move, &mover[i]) != 0) exit(1);
    }
    (void)move(&mover[0]);
    for (size_t i = 1; i < threads; i++) (void)pthread_join(thread[i], NULL);
}

/* 20 steps, with a checkpoint in the first or without. *ret_stall_us: what the program waited. */
static int64_t train_us(struct bench *b, float *gradient, bool saves, int64_t *ret_stall_us)
{
    static struct member_save save;
    int64_t start_us = clock_monotonic_us();
    *ret_stall_us = 0;
    for (int step = 0; step < STEPS; step++) {
        int64_t begin_us = clock_monotonic_us();
        if (saves && step == 0) order(b, &save);
        *ret_stall_us += clock_monotonic_us() - begin_us;
        move_all(b, gradient, false);
        *ret_stall_us += (int64_t)saver_barrier(b->saver);
        move_all(b, gradient, true);
    }
    int64_t us = clock_monotonic_us() - start_us;
    if (saves) finish(b, &save);
    return us;
}

static void measure_stall(struct bench *b)
{
    double slower[TRAININGS], waited[TRAININGS]; /* in parts of the 20 steps without: the machine's
                                                  * speed drifts from pair to pair */
    int64_t none, stall_us;
    float *gradient = mem_zalloc(b->bytes / 3 + 1, 1);
    (void)train_us(b, gradient, true, &none);
    for (int i = 0; i < TRAININGS; i++) {
        double without_us = (double)train_us(b, gradient, false, &none);
        slower[i] = (double)train_us(b, gradient, true, &stall_us) / without_us - 1;
        waited[i] = (double)stall_us / without_us;
    }
    double stall = median_of_doubles(waited, TRAININGS);
    printf("{\"name\": \"ckpt_stall_ppm\", \"value\": %.0f, \"unit\": \"ppm\", \"peer\": \"1 %% of "
           "20 steps\", \"peer_value\": 10000, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": "
           "%d}\n",
           stall * 1e6, stall * 100, TRAININGS);
    printf("{\"name\": \"ckpt_slowdown_ppm\", \"value\": %.0f, \"unit\": \"ppm\", \"better\": "
           "\"lower\", \"runs\": %d}\n",
           median_of_doubles(slower, TRAININGS) * 1e6, TRAININGS);
    mem_free(gradient);
}

static bool set_up(struct bench *b, const char *folder, struct error *ret_error)
{
    struct shoal_tensor param = {"w", b->weights, {b->bytes / 4}, 1};
    struct shoal_options options = {
        .params = &param, .param_count = 1, .slots = 1, .steps = 1, .checkpoint_dir = folder};
    if (!job_init(&b->job, &options, ret_error)) return false;
    b->scale = mem_zalloc(b->job.layout.block_count, sizeof *b->scale);
    struct saver_hooks hooks = {&b->waiter, on_copied, on_shard, on_manifest};
    b->saver = saver_start(&b->job, &hooks, ret_error);
    return b->saver != NULL && b->scale != NULL;
}

int main(int argc, char **argv)
{
    size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 384;
    char folder[64], command[128];
    static struct bench b;
    struct error error;
    b.bytes = mib << 20;
    b.waiter =
        (struct waiter){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    snprintf(folder, sizeof folder, "bench-ckpt-%ld", (long)getpid());
    snprintf(b.path, sizeof b.path, "%s/plain", folder);
    b.weights = mem_alloc(b.bytes);
    if (b.weights == NULL || posix_memalign((void **)&b.buffer, 4096, CHUNK) != 0) return 1;
    for (size_t i = 0; i < b.bytes / 4; i++) b.weights[i] = (float)i;
    memcpy(b.buffer, b.weights, CHUNK < b.bytes ? CHUNK : b.bytes);
    if (!io_make_dirs(folder, &error) || !set_up(&b, folder, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    measure_disk(&b);
    measure_stall(&b);
    saver_stop(b.saver);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    bool removed = system(command) == 0;
    job_free(&b.job);
    mem_free(b.scale);
    mem_free(b.weights);
    free(b.buffer);
    return removed ? 0 : 1;
}
