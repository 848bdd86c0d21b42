/* Limits of one elastic group: name, value, reason, what is seen when it is hit. */
#ifndef SHOAL_WORKER_CORE_LIMITS_H
#define SHOAL_WORKER_CORE_LIMITS_H

#include "worker/core/quant.h"
#include <assert.h>

enum {
    GROUP_MEMBERS_MAX = 64, /* full mesh: sockets and broadcasts grow with the square. More peers
                               than this stay connected but get no slots (the lowest ids work) */
    GROUP_PEERS_MAX = 128,  /* known at once; further ones are not dialled */
    GROUP_SLOTS_MAX = QUANT_SLOTS_MAX,
    GROUP_SLOT_WORDS = GROUP_SLOTS_MAX / 64,
    GROUP_NOBODY = 255, /* owner of a slot, source of a member: index into the members, or this */
};
static_assert(GROUP_MEMBERS_MAX < GROUP_NOBODY, "a member index is one byte");

#endif
