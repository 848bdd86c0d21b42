/* What saver.c (shards) and saver_lead.c (the leader's orders) share; for these two alone. */
#ifndef SHOAL_WORKER_CKPT_SAVER_PRIVATE_H
#define SHOAL_WORKER_CKPT_SAVER_PRIVATE_H

#include "worker/ckpt/ckpt_store.h"
#include "worker/ckpt/saver.h"
#include <pthread.h>

enum { TRUSTED = 8, ORDERS = 2 * SAVER_FLIGHTS + 2 };

/* One shard between its order and its result. Fields below `lock` of the saver but the image, which
 * belongs to whoever took a part of it. */
struct flight {
    bool active, failed, opening, finishing;
    struct ckpt_image image;
    struct store_writer *writer;
    struct wire_tag tag;
    uint64_t step;
    char name[CKPT_FILE_NAME_BYTES];
    int16_t *scales;
    uint64_t scales_room;
    uint32_t copy_next, copy_left; /* parts not taken for copying; not copied yet */
    uint32_t write_next, busy;     /* part to be written next, 0 is the last; threads in a part */
    bool *copied;                  /* of each part */
    struct error error;
};

/* What the leader orders, in the order it came. */
struct manifest_order {
    bool abandon;
    struct member_save save;
};

struct saver {
    const struct job *job;
    struct store *store;
    struct ckpt_tensor *tensor;
    uint32_t tensor_count;
    struct saver_hooks hooks;
    pthread_t thread[SAVER_THREADS];
    uint32_t thread_count;
    pthread_t leader_thread; /* manifests and what goes with them: they may take long */
    bool leader_runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    uint32_t copiers; /* threads copying in the background */
    uint32_t telling; /* threads in on_shard, which may bring an order */
    struct flight flight[SAVER_FLIGHTS];
    struct manifest_order order[ORDERS];
    uint32_t order_first, order_count;
    uint64_t trusted[TRUSTED];
    uint32_t trusted_next;
    bool complained;
};

static inline void saver_lock(struct saver *saver)
{
    (void)pthread_mutex_lock(&saver->lock); /* fails only on misuse */
}

static inline void saver_unlock(struct saver *saver)
{
    (void)pthread_mutex_unlock(&saver->lock);
}

static inline void saver_wake(struct saver *saver)
{
    (void)pthread_cond_broadcast(&saver->changed); /* cannot fail */
}

/* The file of member `index`: unique per order, so that two attempts never write the same. */
void saver_shard_name(const struct wire_tag *tag, uint32_t index, char *ret_name);
/* Once, until a checkpoint succeeds again. */
void saver_complain(struct saver *saver, const struct error *error);
bool saver_is_idle(const struct saver *saver); /* lock held */
void *saver_lead(void *self);                  /* the leader's thread */

#endif
