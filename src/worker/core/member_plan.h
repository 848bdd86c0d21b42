/* The leader's side of member.c: is the turn in force over, and what comes next.
 *
 * Ahead      More progress wins. Weights are a function of the position in every era, so an era says
 *            but one thing: when it began, nobody in sight held the moments of position `fell_at`
 *            by the cut `fell_base`. Members of an earlier era who stand there or before are void:
 *            they go back with it. Those who have moved on since, or cut anew, have their moments,
 *            so whoever fell back had only been cut off from them; the further of the two is
 *            followed, the other starts anew.
 */
#ifndef SHOAL_WORKER_CORE_MEMBER_PLAN_H
#define SHOAL_WORKER_CORE_MEMBER_PLAN_H

#include "worker/core/member.h"

struct fork { /* the newest era in sight, and the furthest place where one of it fell back */
    uint64_t era, fell_at;
    struct wire_tag fell_base;
};

struct seen { /* everybody heard from, this member included, by id */
    uint32_t count;
    uint64_t id[GROUP_PEERS_MAX + 1];
    const struct wire_status *status[GROUP_PEERS_MAX + 1];
    const struct wire_status *best; /* furthest ahead */
    struct fork fork;
    bool any_state;
    bool out[GROUP_PEERS_MAX + 1]; /* left out of turns, by member_plan() */
};

/* member_see.c: same weights as the furthest ahead? */
bool member_is_level(const struct seen *seen, uint32_t i);

/* member_plan_shard.c: the turn that sharded moments want before anything else goes on. */
bool member_plan_seal(const struct member *m, const struct seen *seen, struct wire_turn *turn);
/* No other turn now: a sealed step is to be finished first, or a holder's news is on its way. */
bool member_seal_waits(const struct member *m, const struct seen *seen);
bool member_seal_is_over(const struct member *m);
bool member_recut_is_over(const struct member *m);
enum shard_need { SHARD_FINE = 1, SHARD_RECUT, SHARD_LOST };
/* turn: position and the members that are to go on are set. FINE: turn->base is set. RECUT: turn and
 * cut are whole. LOST: some moments have no holder. */
enum shard_need member_plan_recut(const struct member *m, const struct seen *seen,
                                  struct wire_turn *turn, struct wire_cut *ret_cut);

/* For a COMPUTE with watchers: what its base is. False: the base gives something to one of them, which
 * has lost it. */
bool member_plan_tell_base(const struct member *m, const struct wire_turn *turn,
                           struct wire_cut *ret_cut);

/* member_load.c */
bool member_plan_load(struct member *m, struct wire_turn *turn, struct wire_cut *ret_cut);
bool member_load_is_over(const struct member *m);

bool member_turn_is_over(const struct member *m); /* complete, or broken */
void member_see(const struct member *m, struct seen *ret_seen);
void member_begin_turn(const struct member *m, const struct seen *seen, struct wire_turn *turn);

/* member_vote.c. *ret_state: on weights and scales too, not on moments alone. */
bool member_vote_is_due(const struct member *m, const struct seen *seen, bool *ret_state);
/* What the next turn may build on: the newest cut that is whole. */
const struct wire_tag *member_plan_base(const struct member *m);

/* Status of `id`, this member's own included; NULL: not connected or not heard yet. */
const struct wire_status *member_status_of(const struct member *m, uint64_t id);
/* Who leads as seen from here; 0: nobody has state. */
uint64_t member_leader(const struct member *m);
/* Lowest connected id of the last turn that is not leaving: it reports committed steps. 0: none */
uint64_t member_speaker(const struct member *m);
/* May this member found the group now? */
bool member_may_found(const struct member *m);
/* True and *ret_turn: this member leads and a new turn is due. */
bool member_plan(struct member *m, struct wire_turn *ret_turn, struct wire_cut *ret_cut);
/* This member leads and could go on but for moments that nobody reachable holds. */
bool member_moments_are_lost(const struct member *m);

#endif
