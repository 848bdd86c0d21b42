/* Checkpoint write against the disk: the saver's whole path (header, copy, shard, fsync, manifest)
 * and a plain sequential write with fsync of the same bytes, alternating in one run.
 *
 *     bench_ckpt [MiB]     in a folder beside the program, removed afterwards
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "worker/ckpt_store.h"
#include "worker/saver.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 7 };

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shard, manifest, ok;
    uint64_t bytes, checksum;
};

static void on_shard(void *self, bool ok, uint64_t bytes, uint64_t checksum)
{
    struct waiter *w = self;
    pthread_mutex_lock(&w->lock);
    w->shard = true;
    w->ok = ok;
    w->bytes = bytes;
    w->checksum = checksum;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void on_manifest(void *self, bool ok, uint64_t step)
{
    struct waiter *w = self;
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

/* Microseconds; *ret_copy_us: the part that training waits for. */
static int64_t save_us(struct saver *saver, struct waiter *w, uint64_t step, int64_t *ret_copy_us)
{
    static struct member_save save;
    save = (struct member_save){.active = true, .step = step};
    save.turn.position = 2 * step;
    save.turn.member_count = 1;
    save.turn.member[0] = 1;
    save.turn.tag = (struct wire_tag){step, 1};
    w->shard = w->manifest = false;
    int64_t start_us = clock_monotonic_us();
    saver_copy(saver, &save.turn, 0);
    *ret_copy_us = clock_monotonic_us() - start_us;
    wait_for(w, &w->shard);
    save.shard[0] = (struct member_shard){
        .known = true, .ok = w->ok, .bytes = w->bytes, .checksum = w->checksum};
    saver_manifest(saver, &save);
    wait_for(w, &w->manifest);
    return clock_monotonic_us() - start_us;
}

static int64_t plain_us(const char *path, const void *bytes, size_t count)
{
    int64_t start_us = clock_monotonic_us();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || !io_write_full(fd, bytes, count) || fsync(fd) != 0 || close(fd) != 0) {
        perror(path);
        exit(1);
    }
    int64_t us = clock_monotonic_us() - start_us;
    (void)unlink(path); /* each run writes a new file, as the saver does */
    return us;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static double rate(int64_t *times_us, size_t bytes)
{
    qsort(times_us, RUNS, sizeof *times_us, compare);
    return (double)bytes / (double)times_us[RUNS / 2];
}

int main(int argc, char **argv)
{
    size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 256, bytes = mib << 20;
    char folder[64], path[128];
    snprintf(folder, sizeof folder, "bench-ckpt-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/plain", folder);
    struct error error;
    float *weights = mem_zalloc(bytes, 1);
    if (weights == NULL || !io_make_dirs(folder, &error)) return 1;
    for (size_t i = 0; i < bytes / 4; i++) weights[i] = (float)i;
    struct shoal_tensor param = {"w", weights, {bytes / 4}, 1};
    struct shoal_options options = {
        .params = &param, .param_count = 1, .slots = 1, .steps = 1, .checkpoint_dir = folder};
    struct job job;
    struct waiter waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    if (!job_init(&job, &options, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int16_t *scale = mem_zalloc(job.layout.block_count, sizeof *scale);
    struct saver_hooks hooks = {&waiter, on_shard, on_manifest};
    struct saver *saver = saver_start(&job, scale, &hooks, &error);
    int64_t ours[RUNS], plain[RUNS], copy[RUNS];
    for (int i = 0; i < RUNS && saver != NULL; i++) {
        plain[i] = plain_us(path, weights, bytes);
        ours[i] = save_us(saver, &waiter, (uint64_t)i + 1, &copy[i]);
    }
    saver_stop(saver);
    double our_rate = rate(ours, bytes), plain_rate = rate(plain, bytes);
    if (waiter.ok)
        printf("{\"name\": \"ckpt_write.vs_disk\", \"value\": %.1f, \"unit\": \"MB/s\", \"peer\": "
               "\"sequential write and fsync\", \"peer_value\": %.1f, \"ratio\": %.3f, \"better\": "
               "\"higher\", \"runs\": %d}\n",
               our_rate, plain_rate, our_rate / plain_rate, RUNS);
    snprintf(path, sizeof path, "rm -r '%s'", folder);
    bool removed = system(path) == 0;
    job_free(&job);
    mem_free(scale);
    mem_free(weights);
    return waiter.ok && removed ? 0 : 1;
}
