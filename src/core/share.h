/* Averages that forget: what was held, halved every half-life.
 *
 * Role       Pure arithmetic for accounts. Between two changes the level is constant, so the average
 *            moves towards it by the factor 2^-(time / half-life), which is exact up to the table:
 *            16 steps a half-life with a straight line between, error below 0.03 % of the distance.
 * Units      Whatever the levels are in; the average has SHARE_FRACTION times their unit.
 */
#ifndef SHOAL_CORE_SHARE_H
#define SHOAL_CORE_SHARE_H

#include <stdint.h>

#define SHARE_FRACTION     INT64_C(1024)
#define SHARE_STEPS        512
#define SHARE_HALF_LIFE_US INT64_C(86400000000) /* a day */

/* 2^-(duration / half_life) in 2^-30; half_life_us > 0. */
int64_t share_decay(int64_t duration_us, int64_t half_life_us);
/* Eight steps an octave: shares that differ by less than 9 % count as equal. Below SHARE_STEPS. */
int64_t share_coarse(int64_t share);
/* The average after `duration_us` at `level`, from `average` before. |level| < 2^40. */
int64_t share_average(int64_t average, int64_t level, int64_t duration_us, int64_t half_life_us);

#endif
