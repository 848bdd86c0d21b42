/* From what all ranks tell about themselves to an answer: who holds the group up, and with what.
 *
 * Role       Pure. Every member can work it out from the heartbeats it has (recorder.h), so the
 *            answer does not depend on a server or on the culprit's help.
 * Rules      - Who has entered the collective is a victim; who has not, and is overdue by its own
 *              measure, is a cause. Being slower than others is no fault: everybody is held against
 *              its own past.
 *            - Overdue: longer in its phase than usual + max(8 spreads, min(usual, 4 s), 1 s). A
 *              rank without a past is measured by the others' median. Late but not overdue: no
 *              culprit, "all move".
 *            - As long as nobody has waited for a second nobody is late: all may evaluate at once.
 *            - Nor is one whom it takes as long as it took those who wait by now.
 *            - When the median rank computes slower than usual, so may everybody: the work changed.
 *            - All that matter have entered, none leaves and no bytes come: the network. Missing
 *              sums point at the link they should have come over; missing means count only when no
 *              sums are missing, because they wait for the sums. A rank at one end of at least half
 *              of the bad links is the culprit itself, else it is the link.
 *            - A rank from which nothing is heard is stopped, dead or cut off; if most others still
 *              hear it, it is the link. If this member hears less than half of the group, it is
 *              the one that is cut off.
 *            - Another collective than most have entered: code divergence, the minority is named.
 *            - Slow (recorder.h): held against its own past as well; when half of the group became
 *              slower in the same phase nobody is to blame.
 *            - Several at once: each is judged for itself.
 * Sure       diagnose_settle(): a verdict counts when two looks at least DIAGNOSE_SETTLE_US apart
 *            agree; DIAGNOSE_SETTLE_SLOW_US for slowness.
 * Drop       The ski-rental rule: a rank stuck in data or compute is left out, and its slots are
 *            done by others, once the group has lost as much time waiting as leaving it out costs
 *            (slots done again, and its way back), and DIAGNOSE_DROP_MIN_US at least. Never when a
 *            quarter or more of the group is stuck (then it is no one's own fault), never a victim,
 *            never a rank without a past of its own (its first steps may well take long),
 *            never for a slow but moving rank: its slots have moved already.
 * Shapes     rank[count], index as in the turn's members; masks: bit = that index.
 */
#ifndef SHOAL_WORKER_CORE_DIAGNOSE_H
#define SHOAL_WORKER_CORE_DIAGNOSE_H

#include "worker/core/recorder.h"

#define DIAGNOSE_SETTLE_US      INT64_C(400000)
#define DIAGNOSE_SETTLE_SLOW_US INT64_C(800000) /* who is slow becomes known beat by beat */
#define DIAGNOSE_DROP_MIN_US    INT64_C(3000000)

enum diagnose_kind {
    DIAGNOSE_NOBODY,
    DIAGNOSE_SILENT,   /* stopped, dead, or its machine is cut off: the agent knows which */
    DIAGNOSE_HOST,     /* its program is stuck in a system call or on a lock */
    DIAGNOSE_DATA,     /* waits for data */
    DIAGNOSE_COMPUTE,  /* computes on and on, or at a lower speed */
    DIAGNOSE_STORAGE,  /* copying or writing a checkpoint */
    DIAGNOSE_LINK,     /* the network between rank and peer */
    DIAGNOSE_NETWORK,  /* the network of one rank, to most of the others */
    DIAGNOSE_DIVERGED, /* takes part in another collective than the rest */
    DIAGNOSE_KIND_END,
};

struct diagnose_rank {
    bool heard;        /* connected, and told something */
    int64_t age_us;    /* since its last heartbeat */
    int64_t silent_us; /* more than this is silence, from measured arrivals */
    struct record_summary told;
};

struct diagnose_input {
    uint32_t count, me;
    int64_t drop_cost_us; /* redoing one rank's slots and taking it back in; 0: not known */
    struct diagnose_rank rank[GROUP_MEMBERS_MAX];
};

struct diagnose_culprit {
    uint32_t rank, peer; /* peer: LINK alone */
    enum diagnose_kind kind;
    bool slow;           /* moves, but slower than it did; else it does not move */
    bool drop;           /* waiting costs more than going on without it */
    uint8_t phase, host; /* what it was doing */
    uint32_t detail, attempt;
    uint64_t step;
    int64_t since_us, usual_us, cpu_us; /* slow: takes, took, 0 */
};

struct diagnose_verdict {
    uint64_t step;     /* that is held up */
    int64_t waited_us; /* by the victim that waits longest */
    uint64_t victims;
    bool stalled; /* the step does not end: somebody waits longer than usual */
    uint32_t culprit_count;
    struct diagnose_culprit culprit[GROUP_MEMBERS_MAX];
};

void diagnose(const struct diagnose_input *input, struct diagnose_verdict *ret_verdict);

/* Why a rank that has not entered the collective is late, by what it tells. */
enum diagnose_kind diagnose_kind_of_late(const struct diagnose_rank *rank);

/* Which verdict may be believed. Zeroed at first. */
struct diagnose_memory {
    uint64_t candidate;
    int64_t since_us;
};
/* True: this verdict has stood for long enough. */
bool diagnose_settle(struct diagnose_memory *memory, const struct diagnose_verdict *verdict,
                     int64_t now_us);
/* Same culprits for the same reasons: same number. 0: nothing to say. */
uint64_t diagnose_key(const struct diagnose_verdict *verdict);

/* Longer than this in one phase is too long. */
int64_t diagnose_limit_us(int64_t usual_us, int64_t spread_us);

/* "host" and so on, also for values out of range. */
const char *diagnose_kind_name(uint32_t kind);

#endif
