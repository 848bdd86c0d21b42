/* Rare paths, as bits of pool_output.marks: a nightly run that never hits one is too kind, or the
 * path is dead. Marks are output, so the core keeps no counter. Values are not journaled.
 */
#ifndef SHOAL_CORE_MARKS_H
#define SHOAL_CORE_MARKS_H

#include <assert.h>
#include <stdint.h>

#define POOL_MARKS(X)                                                                              \
    X(NODE_GONE_WHILE_ORDERED, "taken before it was ever seen up")                                 \
    X(ANSWER_FOR_RELEASED_NODE, "a late answer says that a node we have let go still runs")        \
    X(ANSWER_FOR_ENDED_NODE, "an answer about a node that had ended: let go again")                \
    X(NODE_ADOPTED, "a node of an older life or one we forgot still runs: taken in to be let go")  \
    X(NODE_NOT_ADOPTED, "the node table had no room for it, or the key was never made here")       \
    X(JOB_RESUBMITTED, "a job id that is known already")                                           \
    X(JOB_RESUBMITTED_AFTER_END, "a client repeats a submit after the job ended")                  \
    X(JOB_FORGOTTEN, "the oldest ended job made room for a new one")                               \
    X(JOB_REQUEUED, "a gang that could not be completed gave its nodes back")                      \
    X(STEP_CARRIED_OVER, "a list was full or the work of a step at its bound")                     \
    X(NODE_LIMIT, "nodes_max or leases_max kept a job from growing")                               \
    X(CATALOG_LIMIT, "a model, pool, offer or region above a limit was not taken")                 \
    X(WORKER_UNKNOWN, "a worker runs that nobody wants: stopped")                                  \
    X(WORKER_STOP_FORCED, "a worker did not stop in time: its node is let go")                     \
    X(WORKER_STOPPED_UNASKED, "a worker was stopped that we want: started again")                  \
    X(AGENT_BEFORE_PROVIDER, "the agent joined before the provider said up")                       \
    X(AGENT_FOUND_LESS, "the machine has fewer devices than were bought")                          \
    X(BILL_ADJUSTED, "the provider's bill differs from what was counted")                          \
    X(OFFER_DISTRUSTED, "a provider bills more than it quotes")                                    \
    X(SWAP_TO_SPOT, "guaranteed capacity is given back for spot")                                  \
    X(JOB_PREEMPTED, "a whole job gave its devices to one of a higher class")                      \
    X(JOB_REMATCHED, "a round of matching sent a job to another type of device, or to wait")       \
    X(GANG_RESERVED, "devices that come free are collected for a gang")                            \
    X(STALL_OF_MANY, "too many workers of a job are named at once: no node of them is replaced")   \
    X(INSTANCE_MOVED, "an instance went to another place so that one fits beside it")              \
    X(CLOCK_WENT_BACK, "an event older than the last one: taken as now")

enum pool_mark {
#define X(name, why) POOL_MARK_##name,
    POOL_MARKS(X)
#undef X
        POOL_MARK_COUNT
};
static_assert(POOL_MARK_COUNT <= 64, "marks travel as one word");

#define MARK(out, name) ((out)->marks |= UINT64_C(1) << POOL_MARK_##name)

#endif
