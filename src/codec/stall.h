/* Who holds a job up: as its workers say it, as agents see it, and in words.
 *
 * Role       report_stall is the verdict of a job's members (worker/core/diagnose.h), told by one
 *            of them and repeated while it stands; report_stuck is what an agent sees of one worker
 *            that does not move. JSON both ways for both hops (worker to agent, agent to server),
 *            and the sentences that `shoal why` and the dashboard show.
 * Words      Kinds, phases and host states are those of diagnose.h and recorder.h, checked here.
 * Ownership  As in agent_report.h; `kind`, `phase` and `host` are constants after parsing.
 */
#ifndef SHOAL_CODEC_STALL_H
#define SHOAL_CODEC_STALL_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STALL_CULPRITS_MAX = 64,
    STALL_STACK_MAX = 8192, /* bytes of a stack, one frame a line */
    STALL_SENTENCE_BYTES = 640,
};
#define STALL_TIME_US_MAX INT64_C(1000000000000000) /* 31 years; products with 100 fit */

struct report_culprit {
    uint64_t worker, peer, slot, step; /* peer: kind link alone, else 0 */
    const char *kind, *phase, *host;
    int64_t for_us, usual_us, cpu_us; /* slow: takes, took, 0 */
    bool slow;                        /* it moves, but slower than it did */
    bool dropped;                     /* the group goes on without it until it moves */
};

struct report_stall {
    uint64_t job, step;
    int64_t waited_us;
    uint32_t victims, workers, culprit_count; /* no culprits: it is over */
    bool stalled;
    const struct report_culprit *culprits;
};

struct report_stuck {
    bool is; /* false: nothing to tell */
    int64_t for_us, usual_us;
    uint64_t step, slot, pid;
    const char *phase;                /* "" when it is stopped before it told one */
    const char *state;                /* letter of /proc: R S D T */
    const char *call, *wchan, *stack; /* "" not known */
};

/* enum stall_kind of core/event.h. */
uint32_t stall_kind_of(const struct report_culprit *culprit);

/* One sentence about a culprit; stuck may be NULL. `node`, `peer_node`: keys, 0 not known. */
const char *stall_culprit_text(const struct report_culprit *culprit,
                               const struct report_stuck *stuck, uint64_t node, uint64_t peer_node,
                               char ret_text[STALL_SENTENCE_BYTES]);
/* The same for one of which only its agent speaks. */
const char *stall_stuck_text(uint64_t worker, uint64_t node, const struct report_stuck *stuck,
                             char ret_text[STALL_SENTENCE_BYTES]);
/* "step 4486 has been waiting 7 s for worker 37: 63 of 64 workers are victims" */
const char *stall_text(const struct report_stall *stall, char ret_text[STALL_SENTENCE_BYTES]);

#endif
