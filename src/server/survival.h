/* How long nodes of an offer stay up, from the lives the pool has seen.
 *
 * Role       Pure. A life is the time a node was up and whether it ended by itself (the provider
 *            took it, it failed) or was let go, which says only that it lived so long.
 * Age        Up-times of spot are heavy-tailed: who has been up long stays up. So losses are counted
 *            per bucket of age, SURVIVAL_AGES of doubling width from five minutes on, over the time
 *            spent at that age.
 * Little     Seen offers lean on the others of their kind: the kind on a prior (spot: 0.6 / (age + 13
 *            minutes), as core/risk.h has it, by one loss; else once in 5,000 hours, by a hundredth
 *            of one), an offer on its kind by SURVIVAL_SHRINK losses. So each rate of loss is the mean of a gamma
 *            distribution, whose width says how little is known (survival_draw).
 * Unit       Ages and times in hours, reals: nothing here is journaled or decides.
 */
#ifndef SHOAL_SERVER_SURVIVAL_H
#define SHOAL_SERVER_SURVIVAL_H

#include <stdbool.h>
#include <stdint.h>

enum { SURVIVAL_AGES = 11, SURVIVAL_SHRINK = 4 };

struct survival_seen {
    double hours[SURVIVAL_AGES]; /* spent at this age */
    uint32_t lost[SURVIVAL_AGES];
    uint32_t lives, losses;
};

/* Rates of loss per hour by age: gamma distributions of this mean. */
struct survival_curve {
    double per_hour[SURVIVAL_AGES];
    double hours[SURVIVAL_AGES]; /* inverse scale: shape = per_hour * hours */
};

void survival_add(struct survival_seen *seen, double lived_hours, bool is_lost);
void survival_join(struct survival_seen *all, const struct survival_seen *seen);
void survival_curve_of(const struct survival_seen *seen, const struct survival_seen *all,
                       bool is_spot, struct survival_curve *ret);
/* Share still up at this age. */
double survival_at(const struct survival_curve *curve, double hours);
/* Age by which the share still up has fallen to `share`; INFINITY beyond any age (a rate of 0). */
double survival_age_of(const struct survival_curve *curve, double share);
/* Expected time up of a new node within the first `horizon` hours. */
double survival_mean(const struct survival_curve *curve, double horizon_hours);
/* What is left for a node of this age, when a new one would have lived to `share` of all: the age at
 * which it ends, given that it has come so far. */
double survival_age_after(const struct survival_curve *curve, double age_hours, double share);

/* Seeded random numbers: same seed, same draws. */
struct survival_random {
    uint64_t state;
};
double survival_uniform(struct survival_random *random); /* in (0, 1) */
/* One curve out of those that are as likely as the data say. */
void survival_draw(const struct survival_curve *curve, struct survival_random *random,
                   struct survival_curve *ret);

#endif
