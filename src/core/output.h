/* What the core says after one event: commands to carry out, decisions with their reasons, ledger
 * entries.
 *
 * Role       Output of pool_step(). The caller owns the struct, the step clears and fills it.
 * Ids        id = seq << 16 | position: the same on every replay, so it is the idempotency key of a
 *            command and the primary key of a stored decision or entry.
 * Bounds     Each list is bounded; when a step has more to say it sets pool_next_wake_us() = now
 *            and goes on at the next event.
 */
#ifndef SHOAL_CORE_OUTPUT_H
#define SHOAL_CORE_OUTPUT_H

#include <stdint.h>

enum { POOL_COMMANDS_MAX = 64, POOL_DECISIONS_MAX = 160, POOL_ENTRIES_MAX = 160 };

enum pool_command_kind {
    POOL_COMMAND_ENSURE_NODE = 1, /* make it so, or tell me how it stands */
    POOL_COMMAND_RELEASE_NODE,    /* after the answer ABSENT or GONE no node with this key ever runs
                                     again */
    POOL_COMMAND_OBSERVE_NODE,    /* tell me how it stands */
    POOL_COMMAND_ENSURE_WORKER,   /* run this worker on this node */
    POOL_COMMAND_STOP_WORKER,     /* hand over and leave before deadline_us, then it is killed */
    POOL_COMMAND_KIND_END,
};

struct pool_command {
    uint64_t id;
    uint32_t kind, reason; /* reason: enum decision_reason, why this is wanted */
    uint64_t job_id, node_key, offer_id, worker_id;
    int64_t deadline_us;                 /* STOP_WORKER: when it must be gone; 0 = at once */
    uint32_t device_count, device_milli; /* milli: of each; below 1000: a share of one */
    uint32_t device_mask, reserved; /* which of the node's; 0: of a node too large to name them */
    int64_t bid_usd_micros; /* ENSURE_NODE of spot: at most so much an hour; 0 = any price */
};

/* Verb of a decision. ORDER: decision_kind, names in codec/names.c */
enum decision_kind {
    DECISION_ADMIT = 1,
    DECISION_REFUSE,
    DECISION_WAIT,
    DECISION_BUY,
    DECISION_PLACE,
    DECISION_DRAIN,
    DECISION_RELEASE,
    DECISION_LOST,
    DECISION_STOP,
    DECISION_FINISH,
    DECISION_STALL,    /* nothing is done by the core: the workers found out, and this keeps it */
    DECISION_PREEMPT,  /* devices are taken, or given up, for a job of a higher class */
    DECISION_DISTRUST, /* an offer costs what it bills from now on, not what it quotes */
    DECISION_KIND_END,
};

/* Why, with up to three numbers a, b, c whose meaning the sentence gives. The codec prints them:
 * $a = money per hour, >a = the same, rounded up to a cent (a budget of it suffices), #a = count (of 1, the next word of devices and the like is as of one), @a s = a span from µs with
 * a unit that suits it, %a = ppm as percent, ~a =
 * NCU from milli, ^a = a level of accounts, =a = a level of topology, &a = a key in its short form; [what stands in brackets] is
 * said when its number is not 0. Values are frozen once journaled: add at the end. */
#define DECISION_REASONS(X)                                                                        \
    X(NONE, "")                                                                                    \
    X(FITS, "fits: needs #a devices, the pool can reach #b")                                       \
    X(NO_CAPABILITY, "no device model of the catalog has all the capabilities asked for; drop "    \
                     "one or add a model")                                                         \
    X(NO_OFFER, "nothing on sale has these capabilities in the region, pools and kinds of "        \
                "capacity that the job allows; allow more of them")                                \
    X(GANG_TOO_LARGE,                                                                              \
      "needs #a devices at once, no region can ever reach more than #b; ask for #b or fewer")      \
    X(BUDGET_TOO_SMALL,                                                                            \
      "the cheapest way to run #c devices costs >a/h, the budget is $b/h; raise it to >a/h")       \
    X(LIMIT_JOBS, "the queue holds its limit of #a jobs; wait for one to end or raise jobs_max")   \
    X(BAD_REQUEST, "the request contradicts itself (devices min #a, max #b)")                      \
    X(WAIT_CAPACITY, "waits: #a of #b devices are up, the offers that fit are out of stock")       \
    X(WAIT_BUDGET, "waits: what it lacks costs $a/h and $b/h of the budget is left")               \
    X(WAIT_TURN, "waits behind #a jobs of a higher class or greater age")                          \
    X(CHEAPEST, "cheapest offer that fits: $a/h for ~c NCU[ within $b/h left]")                    \
    X(FALLBACK, "spot is gone or above the threshold: takes guaranteed capacity at $a/h")          \
    X(GANG_READY, "#a of at least #b devices are up")                                              \
    X(PRICE_ABOVE_THRESHOLD, "price $a/h is above the threshold $b/h")                             \
    X(NOTICE, "the provider takes the node in @a s[; its offer counts double for @b s]")           \
    X(OPERATOR, "an operator asked for it")                                                        \
    X(PREEMPTED, "the provider took the node without notice[; its offer counts double for @a s]")  \
    X(PREEMPTED_NOTICED, "the provider took the node after a notice")                              \
    X(CRASHED, "the machine failed")                                                               \
    X(AGENT_SILENT, "the agent has been silent for @a s")                                          \
    X(BOOT_TIMEOUT, "not up after @a s")                                                           \
    X(STOCKOUT, "the provider has no capacity; tried again in @a s")                               \
    X(QUOTA, "the provider's quota is used up; tried again in @a s")                               \
    X(PROVIDER_ERROR, "the provider answered with an error; tried again in @a s")                  \
    X(JOB_ENDED, "the job needs it no more")                                                       \
    X(IDLE, "idle for @a s")                                                                       \
    X(DONE, "all steps are done, step #a")                                                         \
    X(CANCELLED, "cancelled by its owner")                                                         \
    X(WORKER_FAILED, "a worker exited with status #a; restart #b of #c")                           \
    X(TOO_MANY_FAILURES, "workers failed #a times in a row without a step in between")             \
    X(BUDGET_SPENT, "the budget of the job is spent")                                              \
    X(REGION_CHANGED, "moves to another region: the current one cannot reach #a devices")          \
    X(CHEAPER_SPOT, "spot is cheap again: $a/h instead of $b/h for the same NCU")                  \
    X(BUDGET_EXCEEDED, "prices have risen: it would cost $a/h, the budget is $b/h; the dearest "   \
                       "node per NCU goes, it costs $c/h")                                         \
    X(BUDGET_AT_MINIMUM, "prices have risen: it costs $a/h, the budget is $b/h, and its gang "     \
                         "needs all that it has, #c devices; raise the budget or cancel it")       \
    X(KEPT_FOR_GANG,                                                                               \
      "waits: stock that fits is kept for a gang of a higher class, for at most @a s")             \
    X(STALL_OVER, "moves again: step #a, after @c s")                                              \
    X(STALL_STOPPED, "step #a: the process of worker &b is stopped by a signal, since @c s")       \
    X(STALL_SILENT, "step #a: nothing is heard of worker &b since @c s: it is stopped, dead or "   \
                    "cut off")                                                                     \
    X(STALL_HOST, "step #a waits for worker &b: its program has been stuck in a system call or "   \
                  "on a lock for @c s")                                                            \
    X(STALL_DATA, "step #a waits for worker &b: it has been waiting for data for @c s")            \
    X(STALL_COMPUTE, "step #a waits for worker &b: it has been computing for @c s, far beyond "    \
                     "what is usual there")                                                        \
    X(STALL_STORAGE, "step #a waits for worker &b: its checkpoint has been in the way for @c s")   \
    X(STALL_LINK, "step #a waits for the network between workers &b and &c")                       \
    X(STALL_NETWORK, "step #a waits for the network of worker &b, for @c s")                       \
    X(STALL_DIVERGED, "step #a: worker &b takes part in another collective than the rest; does "   \
                      "it run the same code on the same data?")                                    \
    X(SLOW_DATA, "worker &b waits longer for data: %c of what is usual, at step #a")               \
    X(SLOW_COMPUTE,                                                                                \
      "worker &b computes more slowly: a slot takes %c of what is usual, at step #a")              \
    X(SLOW_STORAGE, "the checkpoints of worker &b take %c of what is usual, at step #a")           \
    X(SLOW_LINK, "the network between workers &b and &c has become slow, at step #a")              \
    X(SLOW_NETWORK, "the network of worker &b has become slow, at step #a")                        \
    X(LIMIT_TERMS, "its terms are not known: the pool holds its limit of #a different ones of "    \
                   "live jobs; use those of another job or wait for one to end")                   \
    X(NCU_TOO_MANY, "~a NCU are asked for, no region has more than ~b; ask for fewer")             \
    X(NCU_BUDGET, "the cheapest mix of ~c NCU costs >a/h, the budget is $b/h; raise it to >a/h")   \
    X(ACCOUNT_JOBS,                                                                                \
      "its ^c has #a jobs, the limit is #b; submit again when one of them has ended")              \
    X(ACCOUNT_SUBMISSIONS, "its ^c has used up its #a submissions a minute; works again in @b s")  \
    X(WAIT_QUOTA, "waits: needs ~a NCU, and ~b NCU of its quota and of what it may borrow are "    \
                  "left; starts when others give back or the quota is raised")                     \
    X(WAIT_ACCOUNT_BUDGET, "waits: needs $a/h, and $b/h of the limit of its tenant, project or "   \
                           "team are left; starts when their jobs end")                            \
    X(WAIT_WORKERS, "waits: #b more workers are within the limit of its tenant, project or team")  \
    X(WAIT_SHARE, "waits: no single device has ~a of it and #b MiB free")                          \
    X(ACCOUNT_SPENT, "ran on beyond what was set aside for it, and the dollars of its tenant, "    \
                     "project or team are spent for this day or month")                            \
    X(PREEMPTS, "takes #a devices from #b workers or jobs of lower classes: the least work is "    \
                "lost so, ~c NCU-seconds")                                                         \
    X(CONSOLIDATES, "moves #b workers to other idle devices, so that #a devices are together; no " \
                    "work is lost")                                                                \
    X(PREEMPTED_FOR, "job #a comes first and takes its #b devices; ~c NCU-seconds of work are "    \
                     "lost, it waits with its age")                                                \
    X(SHRUNK_FOR, "job #a comes first and takes #b of its devices; it goes on with the rest")      \
    X(MOVED_FOR, "moves #b devices to another node, so that job #a finds its devices together")    \
    X(WAIT_PREEMPTED, "waits: #a devices are being freed for it, workers get @b s to hand over")   \
    X(RESERVED, "waits: #a devices are reserved for it; the last of them is expected free in @b "  \
                "s, when job #c ends")                                                             \
    X(NO_QUEUE, "its class does not queue: #a of #b devices could be had now, and no set of jobs " \
                "that it may preempt holds the rest")                                              \
    X(REGION_CHEAPER, "moves to another region: counting the risk of another loss it costs $a/h "  \
                      "there and $b/h here")                                                       \
    X(CULPRIT_STALLED, "worker &b has held its job up for @a s: its node is replaced, #c so far "  \
                       "for this job")                                                             \
    X(CULPRIT_SLOW, "worker &b has been slow for @a s: its node is replaced, #c so far for this "  \
                    "job")                                                                         \
    X(DRAINED, "nobody works there any more, as decided")                                          \
    X(NOT_STOPPED, "worker &a did not stop in time: its devices cannot be given to anybody")       \
    X(MATCHED, "fits best there, among all that wait: runs at %a of its usual speed, %b on its "   \
               "fastest type")                                                                     \
    X(REMATCHED, "its devices go to jobs that gain more from them; it goes on where it runs at "   \
                 "%a of its usual speed")                                                          \
    X(OUTMATCHED, "its devices go to jobs that gain more from them; it waits with its age")        \
    X(BILLED_ABOVE_QUOTE, "the provider bills $a/h and quotes $b/h: it counts as what it bills, "  \
                          "until another price is quoted")                                         \
    X(WAIT_HOST, "waits: no node that fits has ~a processors and #b MiB of memory free")           \
    X(WAIT_MIG,                                                                                    \
      "waits: no device has #a compute slices and #b MiB of memory free for an instance")          \
    X(WAIT_MIG_CONFLICT,                                                                           \
      "waits: enough slices of a device are free for #a compute slices and #b MiB, but not in "    \
      "places that do: an instance there has to end or move first")                                \
    X(GATE_HOUR, "needs $a/h of spot or on-demand capacity, and $b/h are left within the cost "    \
                 "gate of its ^c; starts on owned or reserved devices, or when others end")        \
    X(GATE_JOB, "needs $a of spot or on-demand capacity for its run, and $b are left of what the " \
                "cost gate of its ^c allows one job")                                              \
    X(GATE_MONTH, "needs $a of spot or on-demand capacity for its run, and $b are left this "      \
                  "month within the cost gate of its ^c")                                          \
    X(GATE_SPENT, "ran on beyond what was set aside for it, and a cost gate of it is used up")     \
    X(WAIT_CLASS_SHARE,                                                                            \
      "waits: its class holds ~a of at most ~b NCU, its reserved and burst share "                 \
      "of its pools, too much for #c more devices; starts when others of it end")                  \
    X(RATES_ZERO, "its work.rates are 0 on every model that it may use, so nothing can run it; "   \
                  "give one, or allow other models")                                               \
    X(WAIT_LIMIT, "waits: the pool has reached its limit of #a nodes and #b leases at once; "      \
                  "starts when one ends or nodes_max or leases_max is raised")                     \
    X(WAIT_PRICE, "waits: what fits and is in stock costs %a of its on-demand price, the "         \
                  "threshold is %b; starts when the price falls or the threshold is raised")       \
    X(WAIT_SAME, "waits: at most #a of the #b devices it needs are to be had in one =c; starts "   \
                 "when more come free there, or with a wider `same`")                              \
    X(WAIT_SPREAD, "waits: needs #b devices, each in another =c, and #a are to be had so; starts " \
                   "when others come free, or with a narrower `spread`")                           \
    X(PLACE_TOO_SMALL, "needs #a devices in one =c, none can ever reach more than #b; ask for "    \
                       "fewer or for a wider `same`")                                              \
    X(PLACES_TOO_FEW, "needs #a devices, each in another =c, no region can ever reach more than "  \
                      "#b; ask for fewer or for a narrower `spread`")                              \
    X(DEADLINE_TOO_SOON, "its deadline is in @a s, its run and one start take @b s; give it more " \
                         "time or less work")                                                      \
    X(DEADLINE_WAITS, "waits for spot: its work takes @a s, its deadline is in @b s; guaranteed "  \
                      "capacity is taken in @c s at the latest")                                   \
    X(DEADLINE_SPOT, "spot at $a/h: its work takes @b s, its deadline is in @c s, so there is "    \
                     "time for a loss")                                                            \
    X(DEADLINE_GUARANTEED, "guaranteed capacity at $a/h, cheaper than to wait for spot: its work " \
                           "takes @b s, its deadline is in @c s")                                  \
    X(DEADLINE_FORCED, "guaranteed capacity at $a/h: its work takes @b s, its deadline is in "     \
                       "@c s, so there is no time for a loss")                                     \
    X(DEADLINE_TO_SPOT, "leaves guaranteed capacity for spot[ at $a/h]: its work takes @b s, its " \
                        "deadline is in @c s")                                                     \
    X(DEADLINE_RESTS, "leaves guaranteed capacity and waits for spot: its work takes @b s, its "   \
                      "deadline is in @c s")                                                       \
    X(DEADLINE_UNSAVED, "leaves spot while it can: after a loss @a s of work would be left, and "  \
                        "its deadline is in @c s")                                                 \
    X(DEADLINE_MISSED, "its deadline has passed, @a s of work are left; it goes on")               \
    X(HAZARD_TOLD, "its provider expects %c of its nodes lost in an hour: it leaves, spot "        \
                   "elsewhere costs $a/h, here $b/h, for the same NCU")                            \
    X(RANKED, "first by the site's ranking of what fits: $a/h, counts as $b/h, for ~c NCU")        \
    X(UNRANKED, "cheapest offer that fits, by the built-in ranking, as the site's is not to be "   \
                "had: $a/h for ~c NCU[ within $b/h left]")                                         \
    X(RANKING_LATE, "the site's ranking program did not answer in time: the built-in ranking "     \
                    "counts until it does")                                                        \
    X(RANKING_FAILED, "the site's ranking program ended or could not be started: the built-in "    \
                      "ranking counts until it answers again")                                     \
    X(RANKING_NONSENSE, "the site's ranking program answered what cannot be used: the built-in "   \
                        "ranking counts until it answers again")                                   \
    X(DATA_COMES, "its data of #c GB comes from another region: $a of egress, @b s until it is "   \
                  "there")                                                                         \
    X(WAIT_DATA,                                                                                   \
      "waits: bringing its data to where devices are to be had costs $a, and $b of its "           \
      "budget and of its accounts are left")                                                       \
    X(WAIT_MAX_PRICE,                                                                              \
      "waits: what fits and is in stock costs $a/h a device, the max_price or bid "                \
      "of its class or pool is $b/h; starts when the price falls or that is "                      \
      "raised")                                                                                    \
    X(ABOVE_QUOTA, "needs ~a NCU at least, and its ^c can never hold more than ~b, its quota and " \
                   "what it may borrow; ask for fewer devices or raise the quota")                 \
    X(ROOM_WANTED, "idle, and the pool is at its limit of nodes: job #a needs its place")          \
    X(NEXT_TIER, "its own pools have no #a devices for it now: takes #b of the next tier, ~c NCU") \
    X(WAIT_RECALL, "waits: its class may recall up to ~b NCU, its reserved share, and holds ~c: "  \
                   "too little for #a more devices; starts when they come free")                   \
    X(NCU_FITS, "fits: needs ~a NCU, the pool can reach ~b")                                       \
    X(NCU_MIX, "the cheapest mix of ~c NCU to be had: #b devices for $a/h")                        \
    X(NCU_PART, "part of the cheapest mix: $a/h for ~c NCU[ within $b/h left]")                    \
    X(WAIT_NCU, "waits: needs ~a NCU in one region, where at most ~b are to be had now")           \
    X(TIER_BACK,                                                                                   \
      "its own pools have devices for it again, ~b NCU for its ~c in the next tier: leaves "       \
      "it at the checkpoint of @a s ago")                                                          \
    X(RANK_OUTSIDE, "cheapest offer that fits, by the built-in ranking, as the learned one was "   \
                    "trained on nothing like it: $a/h for ~c NCU[ within $b/h left]")              \
    X(MIG_REPACKS, "#b instances move to other places, so that one of #a compute slices fits; ~c " \
                   "NCU-seconds of work are done again")                                           \
    X(MIG_MOVED, "its instance moves to another place, so that the one of job #a fits; ~b "        \
                 "NCU-seconds of work are done again")                                             \
    X(PRICE_ABOVE_BID, "price $a/h is above the $b/h that was offered for the node: it is left "   \
                       "before it is taken")                                                       \
    X(REGION_BASELINE,                                                                             \
      "moves to another region: owned or reserved nodes have #a of its #c devices "                \
      "there and #b here")

enum decision_reason {
#define X(name, sentence) REASON_##name,
    DECISION_REASONS(X)
#undef X
        DECISION_REASON_END
};

struct pool_decision {
    uint64_t id;
    uint32_t kind, reason;
    uint64_t job_id, node_key, offer_id; /* 0 = none */
    int64_t a, b, c;
};

enum entry_kind {
    ENTRY_JOB = 1,    /* a job held the devices */
    ENTRY_OVERHEAD,   /* booting, or draining after the job left */
    ENTRY_IDLE,       /* up, joined, held by nobody */
    ENTRY_ADJUSTMENT, /* the provider's final bill minus what we had counted; may be negative */
    ENTRY_KIND_END,
};

/* Money of one node over one interval. The sum over a node's entries is the provider's bill for it.
 */
struct ledger_entry {
    uint64_t id;
    uint64_t node_key, job_id, offer_id;
    int64_t from_us, to_us, usd_micros;
    uint32_t kind;
    uint32_t tenant, project, team, experiment;
    uint32_t device_count;
};

struct pool_output {
    uint32_t command_count, decision_count, entry_count, reserved;
    uint64_t marks; /* which rare paths this step took: bit = enum pool_mark (marks.h) */
    struct pool_command commands[POOL_COMMANDS_MAX];
    struct pool_decision decisions[POOL_DECISIONS_MAX];
    struct ledger_entry entries[POOL_ENTRIES_MAX];
};

#endif
