/* A group of real worker processes of this very program on one machine, for measurements and chaos.
 *
 * Role       The calling process is the agent of all: it starts workers (fork; each runs a small
 *            built-in trainer whose gradients depend on weights, step and slot), reads their lines,
 *            tells them their peers, and kills them when asked.
 * Speeds     Emulated: a slot is padded by sleeping to slot_us. Whoever prints figures must say so.
 * Page       Each worker writes the last applied step and its time into a shared page, and what it
 *            computed; what stands there as its pad it sleeps in each slot, so it can be slowed down.
 * Ids        1, 2, 3 ... in the order of starting; `index` is id - 1.
 */
#ifndef SHOAL_BENCH_WORKER_GROUP_H
#define SHOAL_BENCH_WORKER_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GROUP_WORKERS_MAX = 512, GROUP_LINE_BYTES = 1 << 16, GROUP_STEPS_KEPT = 64 };
#define GROUP_BOUND_US INT64_C(120000000)

struct group_page { /* written by the workers; wall clock */
    _Atomic int64_t step[GROUP_WORKERS_MAX + 1], applied_us[GROUP_WORKERS_MAX + 1];
    _Atomic int64_t slots[GROUP_WORKERS_MAX + 1], slots_us[GROUP_WORKERS_MAX + 1]; /* so far */
    _Atomic uint32_t owned[GROUP_WORKERS_MAX + 1][GROUP_STEPS_KEPT]; /* slots, by step */
    _Atomic int64_t pad_us[GROUP_WORKERS_MAX + 1];                   /* written by group_slow() */
};

struct group_worker {
    pid_t pid;   /* 0: gone */
    int fd;      /* -1: closed */
    int life[2]; /* with watch_exit: end when the first, the last of its descriptors is closed */
    uint64_t slot_us;
    char addr[64], *in;
    uint32_t count;
};

struct group_options {
    uint32_t elements, slots, gang;
    uint64_t steps, seed; /* seed: of group_below() */
    bool watch_exit;      /* see exit_watch.h */
};

struct worker_group {
    struct group_options options;
    struct group_worker worker[GROUP_WORKERS_MAX];
    uint32_t count;
    int64_t last_step; /* reported; -1: none */
    uint64_t reported; /* steps seen, each once */
    uint8_t *seen;     /* [steps] */
    uint32_t done_count, failed_count;
    char hash[65]; /* of the final weights, once reported */
    char log[64];  /* stderr of the workers */
    struct group_page *page;
    uint64_t random;
};

bool group_open(struct worker_group *g, const struct group_options *options);
uint32_t group_start(struct worker_group *g, uint64_t slot_us); /* returns its index */
void group_serve(struct worker_group *g, int64_t us); /* reads what the workers say for so long */
bool group_wait_step(struct worker_group *g, int64_t step); /* false: GROUP_BOUND_US passed */
void group_signal(struct worker_group *g, uint32_t index, int signal); /* SIGKILL: it is gone */
static inline bool group_is_alive(const struct worker_group *g, uint32_t index)
{
    return g->worker[index].pid != 0;
}
uint32_t group_alive(const struct worker_group *g);
uint32_t group_below(struct worker_group *g, uint32_t end); /* a random number below it */
uint32_t group_pick(struct worker_group *g);                /* a random index of one that lives */
void group_slow(struct worker_group *g, uint32_t index, uint64_t pad_us); /* from now on */
double group_cpu_us(const struct worker_group *g);                        /* of all that live */
void group_close(struct worker_group *g, bool keep_log);
/* The same training alone in this process: the final weights' hash. */
bool group_hash_alone(const struct group_options *options, char ret_hash[65]);

#endif
