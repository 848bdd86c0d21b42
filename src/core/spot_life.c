#include "core/spot_life.h"
#include "core/assert.h"
#include <assert.h>
#include <stdbool.h>

enum { SHRINK = 16, PPB = 1000000000 };

/* The first age of each bucket. */
static const uint32_t starts[SPOT_AGES] = {0, 3, 7, 15, 31, 63, 127, 255, 511, 1023};

uint32_t spot_age_bucket(uint32_t age)
{
    uint32_t bucket = 0;
    while (bucket + 1 < SPOT_AGES && age >= starts[bucket + 1]) bucket++;
    return bucket;
}

void spot_life_clear(struct spot_life *life, uint32_t zone_count)
{
    ASSERT(zone_count <= SPOT_ZONES_MAX);
    *life = (struct spot_life){.zone_count = zone_count};
}

void spot_life_see(struct spot_life *life, uint32_t up)
{
    for (uint32_t z = 0; z < life->zone_count; z++) {
        bool is_up = up >> z & 1;
        if (life->age[z] > 0) {
            uint32_t bucket = spot_age_bucket(life->age[z]);
            life->seen[z][bucket]++;
            life->lost[z][bucket] += !is_up;
        }
        life->age[z] = is_up ? life->age[z] + 1 : 0;
    }
    life->ticks++;
}

/* Twice the middle of a bucket; the last one has no end. */
static uint64_t middle_twice(uint32_t bucket)
{
    if (bucket + 1 == SPOT_AGES) return 3 * (uint64_t)starts[bucket];
    return (uint64_t)starts[bucket] + starts[bucket + 1];
}

static uint64_t pooled_ppb(const struct spot_life *life, uint32_t bucket)
{
    uint64_t seen = 0, lost = 0;
    for (uint32_t z = 0; z < life->zone_count; z++) {
        seen += life->seen[z][bucket];
        lost += life->lost[z][bucket];
    }
    /* (lost + 1) / (seen + 1 / prior), where 1 / prior = (middle + 4) / 0.6 = 5/6 (2 middle + 8) */
    return (lost + 1) * 6 * PPB / (6 * seen + 5 * (middle_twice(bucket) + 8));
}

static uint32_t hazard_ppb(uint64_t pooled, uint32_t seen, uint32_t lost)
{
    uint64_t ticks_milli = (uint64_t)SHRINK * 1000 * PPB / pooled;
    uint64_t ppb = ((uint64_t)lost + SHRINK) * 1000 * PPB / ((uint64_t)seen * 1000 + ticks_milli);
    ASSERT(ppb <= PPB);
    return ppb > 0 ? (uint32_t)ppb : 1;
}

uint32_t spot_hazard_ppb(const struct spot_life *life, uint32_t zone, uint32_t bucket)
{
    ASSERT(zone < life->zone_count);
    ASSERT(bucket < SPOT_AGES);
    return hazard_ppb(pooled_ppb(life, bucket), life->seen[zone][bucket], life->lost[zone][bucket]);
}

static uint64_t power_ppb(uint64_t base, uint32_t exponent)
{
    uint64_t result = PPB;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = (result * base + PPB / 2) / PPB;
        base = (base * base + PPB / 2) / PPB;
    }
    return result;
}

/* A zone somewhere in this bucket has half of its width before it. */
static uint32_t score(const uint32_t *hazards, uint32_t bucket, uint32_t horizon)
{
    uint64_t expected = 0, alive = PPB; /* ticks and probability, in parts per 10^9 */
    uint32_t left = horizon;
    for (uint32_t b = bucket; b < SPOT_AGES && left > 0; b++) {
        uint32_t width = left;
        if (b + 1 < SPOT_AGES) width = starts[b + 1] - starts[b];
        if (b == bucket && b + 1 < SPOT_AGES) width = (width + 1) / 2;
        if (width > left) width = left;
        uint64_t kept = power_ppb(PPB - hazards[b], width);
        expected += alive * (PPB - kept) / hazards[b];
        alive = (alive * kept + PPB / 2) / PPB;
        left -= width;
    }
    return (uint32_t)(expected * SPOT_SCORE_ONE / PPB);
}

/* The largest x with x^power <= value; power 2 or 3, value below 2^63. */
static uint32_t root(uint64_t value, uint32_t power)
{
    uint64_t low = 0, high = power == 3 ? UINT64_C(1) << 21 : UINT64_C(1) << 31;
    while (low < high) {
        uint64_t x = (low + high + 1) / 2, product = power == 3 ? x * x * x : x * x;
        if (product <= value)
            low = x;
        else
            high = x - 1;
    }
    return (uint32_t)low;
}

/* border[j] = low * (high / low)^(j / 6), of square and cube roots alone. */
static void borders(uint64_t low, uint64_t high, uint32_t border[SPOT_CLASSES + 1])
{
    static_assert(SPOT_CLASSES == 6, "the roots below");
    border[0] = (uint32_t)low;
    border[2] = root(low * low * high, 3);
    border[3] = root(low * high, 2);
    border[4] = root(low * high * high, 3);
    border[1] = root(low * border[2], 2);
    border[5] = root(border[4] * high, 2);
    border[6] = (uint32_t)high;
}

static void score_all(const struct spot_life *life, uint32_t horizon, struct spot_classes *ret)
{
    uint64_t pooled[SPOT_AGES];
    for (uint32_t b = 0; b < SPOT_AGES; b++) pooled[b] = pooled_ppb(life, b);
    for (uint32_t z = 0; z < life->zone_count; z++) {
        uint32_t hazards[SPOT_AGES];
        for (uint32_t b = 0; b < SPOT_AGES; b++)
            hazards[b] = hazard_ppb(pooled[b], life->seen[z][b], life->lost[z][b]);
        for (uint32_t b = 0; b < SPOT_AGES; b++) ret->score[z][b] = score(hazards, b, horizon);
    }
}

void spot_classify(const struct spot_life *life, uint32_t horizon, struct spot_classes *ret)
{
    ASSERT(horizon > 0);
    ASSERT(horizon <= SPOT_HORIZON_MAX);
    *ret = (struct spot_classes){.zone_count = life->zone_count};
    score_all(life, horizon, ret);
    uint32_t low = UINT32_MAX, high = 1, border[SPOT_CLASSES + 1];
    for (uint32_t z = 0; z < life->zone_count; z++) {
        for (uint32_t b = 0; b < SPOT_AGES; b++) {
            if (b > 0 && life->seen[z][b] == 0) continue;
            if (ret->score[z][b] < low) low = ret->score[z][b];
            if (ret->score[z][b] > high) high = ret->score[z][b];
        }
    }
    if (low == 0) low = 1;
    if (low > high) low = high;
    borders(low, high, border);
    for (uint32_t c = 1; c <= SPOT_CLASSES; c++)
        ret->middle[c] = root((uint64_t)border[c - 1] * border[c], 2);
    for (uint32_t z = 0; z < life->zone_count; z++) {
        for (uint32_t b = 0; b < SPOT_AGES; b++) {
            uint32_t c = 1;
            while (c < SPOT_CLASSES && ret->score[z][b] >= border[c]) c++;
            ret->class_of[z][b] = (uint8_t)c;
        }
    }
}

uint32_t spot_class(const struct spot_classes *classes, uint32_t zone, uint32_t age)
{
    return age == 0 ? 0 : classes->class_of[zone][spot_age_bucket(age)];
}

struct spot_best spot_best_of(const struct spot_classes *classes, const uint32_t *age,
                              uint32_t except)
{
    struct spot_best result = {.zone = UINT32_MAX};
    uint32_t most = 0;
    for (uint32_t z = 0; z < classes->zone_count; z++) {
        if (age[z] == 0 || z == except) continue;
        uint32_t class = spot_class(classes, z, age[z]);
        if (class > result.best || (class == result.best && age[z] > most)) {
            result.second = result.best;
            result.best = class;
            result.zone = z;
            most = age[z];
        } else if (class > result.second) {
            result.second = class;
        }
    }
    return result;
}

uint32_t spot_cheapest(const struct spot_classes *classes, const uint32_t *age,
                       const uint32_t *price, uint32_t changeover, uint32_t own)
{
    uint32_t best = UINT32_MAX;
    uint64_t best_part = 0, best_paid = 1;
    for (uint32_t z = 0; z < classes->zone_count; z++) {
        if (age[z] == 0) continue;
        uint64_t lives = classes->score[z][spot_age_bucket(age[z])] + 1;
        uint64_t start = z == own ? 0 : (uint64_t)changeover * SPOT_SCORE_ONE;
        uint64_t paid = (lives + start) * (price[z] + UINT64_C(1)) / 1024;
        uint64_t part = lives * 1024; /* below 2^31; paid below 2^32 */
        if (paid == 0) paid = 1;
        bool equal = best != UINT32_MAX && part * best_paid == best_part * paid;
        if (best != UINT32_MAX && !equal && part * best_paid < best_part * paid) continue;
        if (equal && age[z] <= age[best]) continue;
        best = z;
        best_part = part;
        best_paid = paid;
    }
    return best;
}
