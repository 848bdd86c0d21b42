/* Space sharing: two jobs on one device where measurements say that both gain from it.
 *
 * Role       After the matching (match.h): jobs that wait, or run alone, join others. Only measured pairs
 *            are formed; a pair that was not measured, or does not fit, never is.
 * Rule       i joins j on type k when
 *                weight_i * co_ij + weight_j * co_ji  >  value of j alone on k + value of i where it is
 *            the best partner first, jobs in order of their number, MATCH_PAIR_PASSES times over. The
 *            devices that i leaves go to the job that gains most by them; devices that are free in the
 *            end go to the best of the waiting, single and paired jobs. Then pairs are improved until no
 *            trade gains, MATCH_PAIR_TRADES times over at most: a job that waits takes the place of a
 *            partner, two pairs change partners.
 * Units      As match.h; co: normalised rates (match_weight.h) of one job beside the other, both of the
 *            same width.
 * Memory     All the caller's, for the call.
 */
#ifndef SHOAL_CORE_MATCH_PAIR_H
#define SHOAL_CORE_MATCH_PAIR_H

#include <stdbool.h>
#include <stdint.h>

enum { MATCH_PAIR_PASSES = 3, MATCH_PAIR_TRADES = 4, MATCH_PROFILES_MAX = 4096 };

struct match_pair_job {
    int64_t weight;
    const int64_t *value; /* [types] alone, per device; <= 0: never */
    uint32_t width;
    uint32_t profile; /* what was measured is known by pair of profiles; a profile has one width */
    uint32_t type;    /* in and out: MATCH_OUT = waits */
    uint32_t partner; /* out: MATCH_OUT = alone */
};

struct match_pairs {
    struct match_pair_job *jobs;
    uint32_t job_count, types, profiles;
    uint32_t *free; /* [types] devices; in and out */
    const int64_t
        *rates; /* [types][profiles][profiles]: of the first beside the second; 0 = not measured */
};

void match_pair(struct match_pairs *pairs);

#endif
