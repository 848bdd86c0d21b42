/* The part of the machine that keeps the optimizer's moments: sharded over the members, each range
 * with an owner and a mirror (shard.h).
 *
 * State      Weights are whole everywhere; moments of a range are with its holders alone. A step:
 *              reduce    parts to the owner; its means to the mirror, peaks and loss to all
 *              ready     I have all means of what I hold            (status.ready = tag of the turn)
 *              sealed    all members are ready: apply what I hold, into a shadow of the weights
 *              gather    owners send what they applied; the mirror has the same
 *              place     the shadow is whole: copy it over the weights; the step counts
 * Ready      Means are a function of the position, so who was ready stays so through any further
 *            turns at this position and base: nobody's slots change, so nothing is computed over
 *            them. It ends with the position, the base, or own sums.
 * Seal       Nobody applies before all are ready, so a step breaks in one of two ways. Nobody that
 *            lives has sealed: all moments are those of before, the step is redone. Somebody has:
 *            then every holder has its means and goes on to the new moments by itself (TURN_SEAL),
 *            and weights of a lost owner come from its mirror. Weights of before stay whole until
 *            those of after are.
 * Base       The map in force is named by the TURN_RECUT that made it. A cut is complete when all
 *            its members hold what it gives them (status.held), and in force for a member from the
 *            first turn on that names it as base (status.base); until then nobody gives up what it
 *            held before, so a cut that breaks half way costs only its bytes.
 * Re-cut     At step boundaries, when members have come, gone or are leaving: a leaver is a source.
 *            A redo needs one as well. Its moves are the least (shard.h). A leaver goes with the
 *            first turn that builds on a cut without it; a sync or a seal without it is none.
 *            Should the members of a whole cut die or go before all have heard of its turn, those
 *            who hold it still go on from it, where the base before has lost something.
 * Lost       Owner and mirror gone at once, and not back within MEMBER_LOST_US: the leader goes
 *            back to the newest checkpoint and is followed (status.era, see Ahead in member_plan.h). A leaver
 *            does not: it waits twice as long, since what it holds may be the only copy, and goes.
 * First      At position 0 without a base all moments are zero: the first cut moves nothing.
 */
#ifndef SHOAL_WORKER_CORE_MEMBER_SHARD_H
#define SHOAL_WORKER_CORE_MEMBER_SHARD_H

#include "worker/core/handover.h"

#define MEMBER_LOST_US INT64_C(2000000) /* links that broke are dialled again within this */

struct member;

struct member_base { /* what a member holds is what the map says; tag 0: nothing */
    struct wire_tag tag;
    uint32_t member_count;
    uint64_t member[GROUP_MEMBERS_MAX];
    struct shard_map map;
};

struct member_shards {
    struct member_base base, next; /* in force; of the newest cut, being received or complete */
    struct wire_cut cut, offered;  /* of the turn in force; of the turn last offered */
    struct shard_map active;       /* base, over the members of the turn in force */
    struct shard_moves moves;
    struct handover handover;
    bool applying, range_is_out; /* from seal until all is applied; the program has a range */
    uint32_t applied, range_first, range_end; /* blocks; next one to apply; the range out or next */
    uint64_t shadow_position; /* of the weights that are whole in next_weights; 0: none are */
    bool release_due;         /* some moments are no longer needed: see member_needs_block() */
    bool fell_back;           /* founding after a loss: the initial weights are gone */
    bool disputed;            /* not after a loss: two copies differed */
    uint32_t lost_units;
    int64_t lost_since_us; /* 0: nothing is lost */
};

/* For the computing thread: the range to apply next. Elements [first, first + count) of params, of
 * one tensor; means lie at config.mean, moments at config.moment[]; the new weights are to be
 * written to config.next_weights, where the caller has put the old ones. */
void member_range(const struct member *m, uint64_t *ret_first, uint64_t *ret_count);
bool member_range_is_last(const struct member *m); /* this member has no more in this step */
void member_range_applied(struct member *m);

/* Must the moments of this block stay? Ask when release_due, then clear it. */
bool member_needs_block(const struct member *m, uint32_t block);

/* For member*.c alone. */
bool member_is_sharded(const struct member *m);
/* Can this be a turn of this job? */
bool member_shard_takes(const struct member *m, const struct wire_turn *turn,
                        const struct wire_cut *cut);
void member_shard_accept(struct member *m); /* a turn was taken */
bool member_shard_begin_compute(struct member *m);
bool member_shard_stands(const struct member *m); /* on the base of the turn in force */
/* A watcher: it holds nothing, but knows who does, from the turn; stands on the base once it has the
 * state. */
bool member_shard_begin_watch(struct member *m);
void member_shard_adopt(struct member *m);
void member_shard_begin_recut(struct member *m);
void member_shard_begin_load(struct member *m); /* of a LOAD that has a cut */
bool member_shard_is_loaded(const struct member *m);
void member_shard_begin_save(struct member *m);
void member_shard_begin_seal(struct member *m);
/* Left out of the turn just taken: has the group all moments without this member? */
bool member_shard_may_go(const struct member *m);
void member_shard_save_map(const struct member *m, struct shard_map *ret_map);
void member_shard_ready(struct member *m); /* the reduction is done here */
void member_shard_moved(struct member *m); /* a step was placed */
void member_shard_advance(struct member *m);
void member_shard_forget(struct member *m);    /* what it holds is not of its position any more */
void member_shard_found(struct member *m);     /* it holds everything, from a checkpoint */
void member_shard_fall_back(struct member *m); /* as leader: to the newest checkpoint, a new era */
void member_shard_watch_loss(struct member *m, bool lost);
bool member_shard_next(struct member *m, uint32_t to, struct exchange_message *ret_message);

#endif
