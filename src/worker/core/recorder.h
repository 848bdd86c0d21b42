/* What one rank did lately and does now: its flight recorder.
 *
 * Role       Pure. Fed with levels ("now in compute, slot 12 of step 40"); keeps the last
 *            RECORD_RING phases with the times they were entered and left, and what each phase
 *            usually takes here. recorder_tell() makes the summary that travels in heartbeats;
 *            diagnose.h turns the summaries of all ranks into a verdict. The struct holds no
 *            pointers and lies in the mapped status page, so it can be read from a process that is
 *            stopped or dead.
 * Clocks     Times are of this process's monotonic clock and never compared with another's: what
 *            travels is durations and step numbers.
 * Usual      Median of the last RECORD_WINDOW steps, spread 1.5 x the median deviation: no limits
 *            for users to guess, and a pause does not move them. Compute and data count per slot,
 *            so that slots may move between ranks without looking like a change of speed.
 * Slow       A change point, not a threshold: the last RECORD_FRESH steps are all beyond the
 *            spread of the steps before them, and it costs at least a twentieth of a step. It stays
 *            flagged, with the figures of before, until half of the excess is gone.
 * Cost       A few stores per phase; sorting 19 numbers a handful of times per step.
 */
#ifndef SHOAL_WORKER_CORE_RECORDER_H
#define SHOAL_WORKER_CORE_RECORDER_H

#include "worker/core/limits.h"
#include <stdbool.h>
#include <stdint.h>

enum record_phase {
    RECORD_OUTSIDE, /* no part of a step: joining, waiting for an order, over */
    RECORD_DATA,    /* the program said that it waits for data */
    RECORD_COMPUTE, /* detail: the slot */
    RECORD_REDUCE,  /* entered the collective: whoever is here longest is a victim */
    RECORD_APPLY,
    RECORD_SAVE, /* copying a share of a checkpoint, or waiting for the one before */
    RECORD_SYNC, /* state in or out */
    RECORD_PHASE_END,
};

/* What the program's thread is doing in the eyes of the kernel; sampled by the shell. */
enum record_host {
    HOST_UNKNOWN,
    HOST_RUNS,   /* on a processor, or waiting for one */
    HOST_READS,  /* in a read, receive or poll: somebody else's bytes */
    HOST_SLEEPS, /* in a timed sleep */
    HOST_LOCKED, /* on a lock or condition */
    HOST_DISK,   /* uninterruptible: storage or a driver */
    HOST_CALL,   /* in another system call */
    HOST_STOPPED,
    HOST_END,
};

enum { RECORD_RING = 40, RECORD_WINDOW = 16, RECORD_FRESH = 3, RECORD_SAMPLES_MIN = 5 };

struct record {
    uint64_t step, collective;
    int64_t entered_us, left_us; /* left 0: still in it */
    uint32_t attempt;
    uint16_t phase, detail;
};

struct record_habit { /* one number per step, the newest RECORD_WINDOW + RECORD_FRESH */
    uint32_t us[RECORD_WINDOW + RECORD_FRESH];
    uint32_t count;                                 /* of all ever taken */
    uint32_t slow_us, slow_usual_us, slow_limit_us; /* slow_us 0: not slow */
};

struct record_peer { /* transfers into this rank; index as in the turn */
    struct record_habit habit;
    int64_t first_us, last_us; /* of this step's parts */
    uint64_t bytes;
};

struct recorder {
    uint64_t sequence; /* of all records ever made; the newest is ring[(sequence - 1) % RING] */
    struct record ring[RECORD_RING];
    struct record_habit habit[RECORD_PHASE_END];         /* [RECORD_OUTSIDE]: whole steps */
    uint32_t sum_us[RECORD_PHASE_END], slots, last_slot; /* of the step in work */
    int64_t step_us;                                     /* when it began */
    int64_t bytes_us;                                    /* when data of a collective last came */
    bool disturbed;                                      /* attempts, a sync: no sample */
    uint8_t host;                                        /* enum record_host */
    uint8_t work_phase; /* data, compute, apply or save: the last one left */
    uint32_t work_us;   /* and how long it took */
    uint32_t cpu_us;    /* used in this phase */
    uint64_t members;   /* generation that peer[] belongs to */
    struct record_peer peer[GROUP_MEMBERS_MAX];
};

/* Where the rank is. collective: which one it takes part in; the same number for all who do. */
struct record_place {
    uint64_t step, collective;
    uint32_t attempt;
    enum record_phase phase;
    uint32_t detail;
};

/* What a rank tells about itself, in every heartbeat. Masks: bit = index in the turn's members. */
struct record_summary {
    uint64_t step, collective;
    uint64_t await_part; /* whose sums are missing here (the first half of the collective) */
    uint64_t await_mean; /* whose means are missing here */
    uint64_t unheard;    /* members without a sign of life */
    uint64_t slow_from;  /* members whose sums take much longer than they did */
    uint32_t attempt, detail, slots_left;
    uint32_t in_phase_us, usual_us, spread_us, cpu_us;
    uint32_t slow_us, slow_usual_us; /* 0: not slow */
    uint32_t idle_us;                /* in REDUCE: since bytes last came, or it was entered */
    uint32_t pace_permille; /* compute per slot, now against usual; 0: unknown. When the whole group
                             * changes its pace, the work has changed and nobody is to blame */
    uint32_t moves;         /* changes with every phase */
    uint32_t work_us;       /* of work_phase, the last own work that it is through with */
    uint8_t phase, host, slow_phase, work_phase;
    uint8_t samples; /* steps that usual_us rests on, saturating */
};

void recorder_init(struct recorder *r);
/* Now here; nothing happens if that is where it was. True: something was recorded. */
bool recorder_enter(struct recorder *r, const struct record_place *place, int64_t now_us);
/* Members have other indices from now on: what is known about transfers is void. */
void recorder_members(struct recorder *r, uint64_t generation);
/* Bytes of a collective came; of sums, from member `peer`. */
void recorder_bytes(struct recorder *r, int64_t now_us);
void recorder_part(struct recorder *r, uint32_t peer, uint64_t bytes, int64_t now_us);
void recorder_host(struct recorder *r, enum record_host host, uint32_t cpu_us);

/* Data, compute, apply or save: what a rank does by itself. */
bool record_is_work(uint32_t phase);

/* All but await_part, await_mean, unheard and slots_left, which the caller knows. */
struct record_summary recorder_tell(const struct recorder *r, int64_t now_us);

/* The newest record, NULL before the first; `back` records before it. */
const struct record *recorder_last(const struct recorder *r, uint32_t back);

/* Median and spread of what is known; false and zeros: fewer than RECORD_SAMPLES_MIN steps. */
bool record_habit_usual(const struct record_habit *habit, uint32_t *ret_usual_us,
                        uint32_t *ret_spread_us);

/* "compute" and so on, also for values out of range. */
const char *record_phase_name(uint32_t phase);
const char *record_host_name(uint32_t host);

#endif
