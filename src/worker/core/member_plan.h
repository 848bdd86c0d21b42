/* The leader's side of member.c: is the turn in force over, and what comes next. */
#ifndef SHOAL_WORKER_CORE_MEMBER_PLAN_H
#define SHOAL_WORKER_CORE_MEMBER_PLAN_H

#include "worker/core/member.h"

/* Status of `id`, this member's own included; NULL: not connected or not heard yet. */
const struct wire_status *member_status_of(const struct member *m, uint64_t id);
/* Who leads as seen from here; 0: nobody has state. */
uint64_t member_leader(const struct member *m);
/* Lowest connected id of the last turn that is not leaving: it reports committed steps. 0: none */
uint64_t member_speaker(const struct member *m);
/* May this member found the group now? */
bool member_may_found(const struct member *m);
/* True and *ret_turn: this member leads and a new turn is due. */
bool member_plan(struct member *m, struct wire_turn *ret_turn);

#endif
