/* Inside of struct shoal: what shoal.c (calls of the program), report.c (lines to and from the
 * agent) and saver.c (checkpoints) share.
 *
 * Threads    The program's thread (shoal_*), the network thread (net.c), the saver's thread. The
 *            machine and everything below `lock` is touched with the lock held; weights, gradient
 *            and own sums by the program's thread while it is not parked.
 */
#ifndef SHOAL_WORKER_ENGINE_H
#define SHOAL_WORKER_ENGINE_H

#include "worker/ckpt/ckpt_image.h"
#include "worker/core/member.h"
#include "worker/job.h"
#include "worker/net.h"
#include "worker/status.h"

struct saver;

struct stall_reports { /* report_stall.c: what was looked at and told last */
    int64_t looked_us, sampled_us, first_sample_us, first_cpu_us, told_us;
    uint64_t sampled_sequence, captured_sequence, told_key;
    bool stack_told;
};

struct shoal {
    struct job job;
    /* Arrays of the machine; see member_config. */
    int16_t *scale;
    float *gradient;
    void *exchange_memory;
    uint8_t *shadow;
    struct transfer_segment *segment;
    struct member_step *log_step;
    struct wire_turn *log_turn;
    struct ckpt_range *range; /* of this member's shard, for saver_order */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct member *member;
    struct net *net; /* NULL: standalone */
    struct status_page *page;
    struct recorder recorder; /* when there is no page to hold it */
    struct stall_reports stalls;
    struct saver *saver;  /* NULL: no checkpoints */
    bool can_leave;       /* SIGTERM is ours to handle */
    bool failed;          /* a sentence was printed */
    struct error failure; /* that sentence */
    bool waits_for_work;  /* the program's thread does, on `changed` */
    enum member_want doing;
    double norm;        /* of the mean gradient of the step before norm_step */
    uint64_t norm_step; /* 0: none yet */
    uint64_t odd_step;  /* newest told of as not finite, + 1 */
    int64_t slot_started_us;
    uint16_t *final_count; /* [blocks] elements of the slot that are final; SLOT_ADDED: added */
    uint32_t slot_epoch;
    bool slot_begun, slot_dropped; /* some of its blocks are added; they are void */

    uint64_t joined_generation; /* last one told to the agent */
    int64_t told_stats_us;
    uint64_t told_stats_step;
    char weights_sha256[65]; /* "" until all steps are done */
};

static inline void engine_lock(struct shoal *shoal)
{
    (void)pthread_mutex_lock(&shoal->lock); /* fails only on misuse */
}

static inline void engine_unlock(struct shoal *shoal)
{
    if (shoal->net != NULL) {
        net_sync(shoal->net);
        net_wake(shoal->net);
    }
    (void)pthread_mutex_unlock(&shoal->lock);
}

/* join.c. The machine may have changed: whoever waits for it is told. Lock held. */
void engine_changed(void *shoal);
void engine_release(struct shoal *shoal); /* its threads have ended; NULL: nothing */
/* found.c: the first of the group, or after a loss of moments. Lock held; reading goes on without it.
 * False: the folder is not to be used, the reason is on stderr. */
bool engine_found(struct shoal *shoal);
void engine_look(struct shoal *shoal); /* which checkpoint is there to begin at? */
/* This worker's part of a checkpoint that the group begins at. Lock held, but not while it reads. */
void engine_load(struct shoal *shoal);

void slot_start(struct shoal *shoal); /* slot.c: the slot just taken, nothing of it is added yet */

/* report.c, all with the lock held. */
void report_hello(struct shoal *shoal);
void report_changes(struct shoal *shoal); /* committed steps, generation, statistics, status page */
void report_stall(struct shoal *shoal);   /* the same, for who holds the group up */
void report_checkpoint(struct shoal *shoal, uint64_t step);
void report_done(struct shoal *shoal);
void report_take_line(struct shoal *shoal, const char *line);

#endif
