/* A made-up timeline for diagnose.h: recorders of 4 to 64 ranks with jitter, unequal speeds and clocks
 * that do not agree; stalls and slowdowns are injected, heartbeats come late, and two observers judge. */
#ifndef SHOAL_WORKER_CORE_DIAGNOSE_SIM_H
#define SHOAL_WORKER_CORE_DIAGNOSE_SIM_H

#include "worker/core/diagnose.h"

#define NEVER   (INT64_MAX / 4)
#define MS      INT64_C(1000)
#define SECOND  INT64_C(1000000)
#define NAME_US (10 * SECOND)
#define TELL_US (3 * SECOND / 2)

enum {
    EVENTS_MAX = 1200,
    WARM_STEPS = 14,
    STEPS_AFTER = 8,
    BEAT_MS = 250,
    FAULTS_MAX = 3,
};

enum fault_kind {
    CONTROL_NONE,
    CONTROL_PAUSE,    /* a garbage collector's: below a second, once */
    CONTROL_ALL_SLOW, /* longer sequences: every rank takes twice as long */
    CONTROL_MOVED,    /* slots move between ranks */
    CONTROL_EVALUATE, /* every rank evaluates for many seconds before it goes on */
    FAULT_STOPPED,
    FAULT_SLEEP,
    FAULT_LOCK,
    FAULT_DISK,
    FAULT_DATA_TOLD,
    FAULT_DATA_READ,
    FAULT_BUSY,
    FAULT_APPLY,
    FAULT_STORAGE,
    FAULT_LINK,
    FAULT_NETWORK,
    FAULT_DIVERGED,
    SLOW_COMPUTE,
    SLOW_DATA,
    SLOW_LINK,
    SLOW_NETWORK,
    FAULT_KINDS,
};

struct fault {
    enum fault_kind kind;
    uint32_t rank, peer;
    bool cut; /* LINK: no heartbeats either */
};

struct happening {
    int64_t at_us;
    struct record_place place;
};

struct actor {
    struct recorder recorder;
    struct happening happening[EVENTS_MAX];
    uint32_t count, next;
    int64_t clock_us; /* its clock minus the true time */
    int64_t slot_us;
    uint32_t slots;
    int64_t enter_us, final_us, end_us;
    int64_t part_us[GROUP_MEMBERS_MAX], mean_us[GROUP_MEMBERS_MAX]; /* complete, by sender */
    int64_t beat_us;
    bool stopped;
    struct record_summary told;
    int64_t told_us; /* when the newest arrived */
    bool heard;
};

struct world {
    uint64_t (*next)(uint64_t *state); /* random numbers */
    uint64_t random;
    uint32_t count, fault_count;
    struct fault fault[FAULTS_MAX];
    struct actor actor[GROUP_MEMBERS_MAX];
    int64_t evaluate_us, part_us, apply_us, save_us, data_us, now_us, onset_us;
    uint64_t step;
    uint64_t onset_step;
    bool ill;  /* the faults are in force */
    bool held; /* this step never ends */
    struct diagnose_memory memory[2];
    int64_t named_us, third_us; /* third_us: end of the third step after the onset */
    uint32_t innocent, wrong_drops, drops;
    char story[512];
};

/* A world of this seed, and what goes wrong in it. */
void diagnose_sim_init(struct world *w, uint64_t seed, uint64_t (*next)(uint64_t *state));
/* Until all that is to be named could have been. */
void diagnose_sim_run(struct world *w);
bool diagnose_sim_is_control(const struct world *w); /* nothing is wrong */
bool diagnose_sim_is_slow(const struct world *w);    /* a slowdown; else a stall */
const char *diagnose_sim_fault_name(enum fault_kind kind);

#endif
