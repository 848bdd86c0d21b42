/* How long a spot zone that is up will stay up, learned from its past and that of its neighbours.
 *
 * Role       Pure. A zone is a bit; time is in ticks, and a zone is up or down for a whole tick.
 * Age        Ticks a zone has been up, this one included; 0 = down. Up-times are heavy-tailed: who
 *            has been up long stays up. So hazards are kept per bucket of age (SPOT_AGES buckets of
 *            doubling width), and say nothing about the hour of the day.
 * Learning   spot_life_see() takes one tick after another: per zone and bucket, the ticks seen up
 *            whose next tick is known, and how many of them were the last.
 * Hazard     The prior of a bucket is 0.6 / (middle of the bucket + 4). The zones together are
 *            shrunk to it by one loss, a zone to the zones together by SHRINK = 16 losses: a zone of 45 days
 *            loses but some dozens at a great age, and is then mostly like the others.
 * Score      Expected ticks still up, at most `horizon`, in 1/SPOT_SCORE_ONE ticks.
 * Class      1..SPOT_CLASSES, geometric between the lowest and the highest score of what was seen.
 *            0 = down. They move as more is learned: a class holds for one struct spot_classes.
 * Bounds     SPOT_ZONES_MAX zones, horizons up to SPOT_HORIZON_MAX ticks, 2^31 ticks.
 */
#ifndef SHOAL_CORE_SPOT_LIFE_H
#define SHOAL_CORE_SPOT_LIFE_H

#include <stdint.h>

enum {
    SPOT_ZONES_MAX = 32,
    SPOT_AGES = 10,
    SPOT_CLASSES = 6,
    SPOT_SCORE_ONE = 256,
    SPOT_HORIZON_MAX = 8191,
};

struct spot_life {
    uint32_t zone_count, ticks;
    uint32_t age[SPOT_ZONES_MAX];
    uint32_t seen[SPOT_ZONES_MAX][SPOT_AGES], lost[SPOT_ZONES_MAX][SPOT_AGES];
};

struct spot_classes {
    uint32_t zone_count;
    uint32_t score[SPOT_ZONES_MAX][SPOT_AGES];
    uint8_t class_of[SPOT_ZONES_MAX][SPOT_AGES];
    uint32_t middle[SPOT_CLASSES + 1]; /* geometric middle of each class, as scores; [0] unused */
};

/* Up zones as classes: what the tables below are about. */
struct spot_best {
    uint32_t zone, best,
        second; /* zone: of the best class the one up longest, then the lower index;
                                    UINT32_MAX = none up. best, second: classes, 0 = none */
};

uint32_t spot_age_bucket(uint32_t age);
void spot_life_clear(struct spot_life *life, uint32_t zone_count);
/* Bit z of `up`: zone z is up in the tick that begins now. */
void spot_life_see(struct spot_life *life, uint32_t up);
/* Parts per 10^9 of being lost at the next tick. */
uint32_t spot_hazard_ppb(const struct spot_life *life, uint32_t zone, uint32_t bucket);
void spot_classify(const struct spot_life *life, uint32_t horizon, struct spot_classes *ret);

/* Class of a zone at this age; 0 = down. */
uint32_t spot_class(const struct spot_classes *classes, uint32_t zone, uint32_t age);
/* The best and the second-best zone but `except` (UINT32_MAX = of all). */
struct spot_best spot_best_of(const struct spot_classes *classes, const uint32_t *age,
                              uint32_t except);
/* The zone that is up with the most productive time for its price: score per price * (score + changeover);
 * a start on `own` (UINT32_MAX: none) is behind the job. Of equals the one up longest; UINT32_MAX = none up.
 * Prices per tick below 2^20 of any unit, changeover in ticks. */
uint32_t spot_cheapest(const struct spot_classes *classes, const uint32_t *age,
                       const uint32_t *price, uint32_t changeover, uint32_t own);

#endif
