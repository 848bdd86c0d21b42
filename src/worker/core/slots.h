/* Which member computes which slots.
 *
 * Role       Pure, integers. The leader decides at each step boundary and sends the map around.
 * Rules      Every slot has exactly one owner. Counts follow measured speed: each slot goes to the
 *            member that would finish its share first. A new map is taken only if the members
 *            changed, or the predicted step time falls by SLOTS_GAIN_PPM, or by SLOTS_GAIN_SMALL_PPM
 *            at SLOTS_GAIN_STEPS steps one after the other (hysteresis: a map that moves on noise
 *            costs caches and readability for nothing; a small gain that stays is no noise). A very
 *            slow member may own no slot at all.
 * Speed      A member's slot_us is the median of its last three steps' means: a change is seen in
 *            the second step after it, one odd step never. While it owns no slot its figure falls by
 *            a sixteenth each step, so that sooner or later it is tried again.
 * Weights    All slots hold the same number of samples, so a slot is the weight: the mean over slots
 *            is the mean over samples whoever owns how many.
 * Units      slot_us: microseconds one slot takes a member; 0: not measured yet, the mean of the
 *            others is assumed.
 */
#ifndef SHOAL_WORKER_CORE_SLOTS_H
#define SHOAL_WORKER_CORE_SLOTS_H

#include "worker/core/limits.h"
#include <stdbool.h>
#include <stdint.h>

enum { SLOTS_GAIN_PPM = 50000, SLOTS_GAIN_SMALL_PPM = 10000, SLOTS_GAIN_STEPS = 4 };

struct slot_speed {
    uint64_t step_us; /* of the slots computed in this step */
    uint32_t step_slots, known;
    uint32_t last_us[3]; /* means of the last steps, [0] the newest */
};

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

void slot_speed_add(struct slot_speed *speed, uint64_t took_us);
/* The step is over: smoothed time of one slot; 0: none computed yet. */
uint32_t slot_speed_end_step(struct slot_speed *speed);

/* By how much a step would be shorter under `fresh` than under `current`; below 0: longer. */
int64_t slots_gain_ppm(const uint8_t *fresh, const uint8_t *current, uint32_t slot_count,
                       const uint32_t *slot_us, uint32_t member_count);
/* Is that gain worth moving slots? *steps counts step boundaries with a small gain. */
bool slots_should_move(int64_t gain_ppm, uint32_t *steps);

/* Gives slots owned by GROUP_NOBODY to whoever would finish them first. Returns how many. */
uint32_t slots_reassign(uint8_t *owner, uint32_t slot_count, const uint32_t *slot_us,
                        uint32_t member_count);

#endif
