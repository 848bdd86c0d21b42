/* How much service a job of unknown size still needs, judged by the jobs that ended before it.
 *
 * Role       Stands in for the remaining time where nobody declared it.
 * Formula    The Gittins index of a job that has attained a: the best ratio, over all d, of the share of
 *            jobs that end within d more to the service all would get until they end or d is over.
 *            expected = 1 / index. (Gittins, Glazebrook, Weber, "Multi-armed Bandit Allocation
 *            Indices", 2nd ed., 2011: optimal mean completion time on one server when only the
 *            distribution of sizes is known.) Before MATCH_SIZE_LEARN_MIN jobs have ended: attained + 1 h,
 *            the index of a size whose logarithm is as likely anywhere.
 * Learns     At 60 ended jobs, and whenever their number has doubled.
 * Units      _s seconds of service on a device as fast as the job's norm.
 * Memory     Plain data, about 5 KiB, part of the caller's.
 */
#ifndef SHOAL_CORE_MATCH_SIZE_H
#define SHOAL_CORE_MATCH_SIZE_H

#include <stdint.h>

enum {
    MATCH_SIZE_BUCKETS = 400, /* 16 an octave: 64 s to 68 years */
    MATCH_SIZE_LEARN_MIN = 60,
    MATCH_SIZE_ENDERS_MIN = 3, /* fewer are no evidence */
};

struct match_size {
    uint64_t ended, learn_next;
    uint32_t count[MATCH_SIZE_BUCKETS];
    int64_t expected_s[MATCH_SIZE_BUCKETS]; /* by attained; 0 = nobody got so far */
};

void match_size_clear(struct match_size *size);
void match_size_ended(struct match_size *size, int64_t size_s);
int64_t match_size_expected_s(const struct match_size *size, int64_t attained_s);

#endif
