#include "worker/core/slots.h"
#include "core/assert.h"

bool slot_set_is_empty(const struct slot_set *set)
{
    for (int i = 0; i < GROUP_SLOT_WORDS; i++)
        if (set->word[i] != 0) return false;
    return true;
}

bool slot_set_is_within(const struct slot_set *inner, const struct slot_set *outer)
{
    for (int i = 0; i < GROUP_SLOT_WORDS; i++)
        if ((inner->word[i] & ~outer->word[i]) != 0) return false;
    return true;
}

bool slot_set_meets(const struct slot_set *a, const struct slot_set *b)
{
    for (int i = 0; i < GROUP_SLOT_WORDS; i++)
        if ((a->word[i] & b->word[i]) != 0) return true;
    return false;
}

void slot_set_join(struct slot_set *into, const struct slot_set *other)
{
    for (int i = 0; i < GROUP_SLOT_WORDS; i++) into->word[i] |= other->word[i];
}

bool slot_set_is_full(const struct slot_set *set, uint32_t slot_count)
{
    struct slot_set all = {0};
    for (uint32_t slot = 0; slot < slot_count; slot++) slot_set_add(&all, slot);
    return slot_set_is_within(&all, set) && slot_set_is_within(set, &all);
}

struct slot_set slots_owned(const uint8_t *owner, uint32_t slot_count, uint32_t member)
{
    struct slot_set set = {0};
    for (uint32_t slot = 0; slot < slot_count; slot++)
        if (owner[slot] == member) slot_set_add(&set, slot);
    return set;
}

/* Fills gaps in the measurements: an unmeasured member is taken for an average one. */
static void known_speeds(const uint32_t *slot_us, uint32_t member_count, uint64_t *ret_us)
{
    uint64_t total = 0, measured = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        total += slot_us[i];
        measured += slot_us[i] != 0;
    }
    uint64_t mean = measured == 0 ? 1 : total / measured;
    for (uint32_t i = 0; i < member_count; i++) ret_us[i] = slot_us[i] != 0 ? slot_us[i] : mean;
}

static uint32_t first_to_finish(const uint64_t *us, const uint32_t *count, uint32_t member_count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < member_count; i++)
        if ((count[i] + 1) * us[i] < (count[best] + 1) * us[best]) best = i;
    return best;
}

void slots_assign(uint8_t *ret_owner, uint32_t slot_count, const uint32_t *slot_us,
                  uint32_t member_count)
{
    ASSERT(member_count > 0);
    ASSERT(member_count <= GROUP_MEMBERS_MAX);
    uint64_t us[GROUP_MEMBERS_MAX];
    uint32_t count[GROUP_MEMBERS_MAX] = {0}, slot = 0;
    known_speeds(slot_us, member_count, us);
    for (uint32_t i = 0; i < slot_count; i++) count[first_to_finish(us, count, member_count)]++;
    for (uint32_t i = 0; i < member_count; i++)
        for (uint32_t k = 0; k < count[i]; k++) ret_owner[slot++] = (uint8_t)i;
    ASSERT(slot == slot_count);
}

static uint64_t makespan_us(const uint8_t *owner, uint32_t slot_count, const uint64_t *us,
                            uint32_t member_count)
{
    uint64_t busy_us[GROUP_MEMBERS_MAX] = {0}, longest = 0;
    for (uint32_t slot = 0; slot < slot_count; slot++) busy_us[owner[slot]] += us[owner[slot]];
    for (uint32_t i = 0; i < member_count; i++)
        if (busy_us[i] > longest) longest = busy_us[i];
    return longest;
}

int64_t slots_gain_ppm(const uint8_t *fresh, const uint8_t *current, uint32_t slot_count,
                       const uint32_t *slot_us, uint32_t member_count)
{
    uint64_t us[GROUP_MEMBERS_MAX];
    known_speeds(slot_us, member_count, us);
    int64_t now = (int64_t)makespan_us(current, slot_count, us, member_count);
    int64_t then = (int64_t)makespan_us(fresh, slot_count, us, member_count);
    ASSERT(now > 0);
    return (now - then) * 1000000 / now;
}

bool slots_should_move(int64_t gain_ppm, uint32_t *steps)
{
    *steps = gain_ppm >= SLOTS_GAIN_SMALL_PPM ? *steps + 1 : 0;
    if (gain_ppm < SLOTS_GAIN_PPM && *steps < SLOTS_GAIN_STEPS) return false;
    *steps = 0;
    return true;
}

void slot_speed_add(struct slot_speed *speed, uint64_t took_us)
{
    if (took_us > UINT32_MAX / 4) took_us = UINT32_MAX / 4;
    speed->step_us += took_us;
    speed->step_slots++;
}

static uint32_t median(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t least = a < b ? a : b, most = a < b ? b : a;
    return c < least ? least : c > most ? most : c;
}

uint32_t slot_speed_end_step(struct slot_speed *speed)
{
    uint32_t *last = speed->last_us;
    if (speed->step_slots > 0) {
        uint64_t mean_us = speed->step_us / speed->step_slots;
        last[2] = last[1];
        last[1] = last[0];
        last[0] = mean_us == 0 ? 1 : (uint32_t)mean_us; /* 0 means unknown */
        if (speed->known < 3) speed->known++;
    } else {
        for (int i = 0; i < 3; i++) last[i] -= last[i] / 16;
    }
    speed->step_us = speed->step_slots = 0;
    if (speed->known < 3) return last[0];
    return median(last[0], last[1], last[2]);
}

uint32_t slots_reassign(uint8_t *owner, uint32_t slot_count, const uint32_t *slot_us,
                        uint32_t member_count)
{
    uint64_t us[GROUP_MEMBERS_MAX];
    uint32_t count[GROUP_MEMBERS_MAX] = {0}, moved = 0;
    known_speeds(slot_us, member_count, us);
    /* Only the new work counts: what survivors own they have mostly computed already. */
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        if (owner[slot] != GROUP_NOBODY) continue;
        owner[slot] = (uint8_t)first_to_finish(us, count, member_count);
        count[owner[slot]]++;
        moved++;
    }
    return moved;
}
