/* Which member computes which slots.
 *
 * Role       Pure, integers. The leader decides at each step boundary and sends the map around.
 * Rules      Every slot has exactly one owner. Counts follow measured speed: each slot goes to the
 *            member that would finish its share first. A new map is taken only if the predicted
 *            step time falls by SLOTS_GAIN_PPM or the members changed (hysteresis: a map that
 *            moves on noise costs caches and readability for nothing). A very slow member may own
 *            no slot at all.
 * Units      slot_us: microseconds one slot takes a member; 0: not measured yet, the mean of the
 *            others is assumed.
 */
#ifndef SHOAL_WORKER_CORE_SLOTS_H
#define SHOAL_WORKER_CORE_SLOTS_H

#include "worker/core/limits.h"
#include <stdbool.h>
#include <stdint.h>

enum { SLOTS_GAIN_PPM = 100000 };

/* A set of slots. Bits at and above the job's slot count stay 0. */
struct slot_set {
    uint64_t word[GROUP_SLOT_WORDS];
};

static inline bool slot_set_has(const struct slot_set *set, uint32_t slot)
{
    return (set->word[slot / 64] >> slot % 64 & 1) != 0;
}
static inline void slot_set_add(struct slot_set *set, uint32_t slot)
{
    set->word[slot / 64] |= UINT64_C(1) << slot % 64;
}
bool slot_set_is_empty(const struct slot_set *set);
bool slot_set_is_within(const struct slot_set *inner, const struct slot_set *outer);
bool slot_set_meets(const struct slot_set *a, const struct slot_set *b);
void slot_set_join(struct slot_set *into, const struct slot_set *other);
bool slot_set_is_full(const struct slot_set *set, uint32_t slot_count);
struct slot_set slots_owned(const uint8_t *owner, uint32_t slot_count, uint32_t member);

/* Deals all slots by speed, in runs by member order. */
void slots_assign(uint8_t *ret_owner, uint32_t slot_count, const uint32_t *slot_us,
                  uint32_t member_count);

/* Would `fresh` be enough faster than `current` to be worth moving slots? */
bool slots_are_better(const uint8_t *fresh, const uint8_t *current, uint32_t slot_count,
                      const uint32_t *slot_us, uint32_t member_count);

/* Gives slots owned by GROUP_NOBODY to whoever would finish them first. Returns how many. */
uint32_t slots_reassign(uint8_t *owner, uint32_t slot_count, const uint32_t *slot_us,
                        uint32_t member_count);

#endif
