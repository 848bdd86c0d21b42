#include "core/match_size.h"
#include "core/assert.h"
#include <string.h>

enum { PER_OCTAVE = 16, FIRST_OCTAVE = 6 };
#define GUESS_S INT64_C(3600)

static uint32_t bucket_of(int64_t size_s)
{
    uint32_t octave = 0;
    int64_t scaled = size_s < 0 ? 0 : size_s; /* in 1/16 of 2^octave, below */
    if (scaled < 1 << FIRST_OCTAVE) return 0;
    while ((scaled >> octave) >= 2 << FIRST_OCTAVE) octave++;
    uint32_t step =
        (uint32_t)((scaled >> octave) - (1 << FIRST_OCTAVE)) / ((1 << FIRST_OCTAVE) / PER_OCTAVE);
    uint32_t bucket = octave * PER_OCTAVE + step;
    return bucket < MATCH_SIZE_BUCKETS ? bucket : MATCH_SIZE_BUCKETS - 1;
}

/* The size in the middle of a bucket. */
static int64_t size_of(uint32_t bucket)
{
    int64_t step = (1 << FIRST_OCTAVE) / PER_OCTAVE;
    int64_t mantissa = (1 << FIRST_OCTAVE) + bucket % PER_OCTAVE * step + step / 2;
    return mantissa << (bucket / PER_OCTAVE);
}

static int64_t expected_from(const struct match_size *size, uint32_t from)
{
    int64_t attained_s = size_of(from);
    int64_t left = 0; /* jobs larger than what is attained */
    for (uint32_t i = from + 1; i < MATCH_SIZE_BUCKETS; i++) left += size->count[i];
    int64_t best_s = 0;
    int64_t enders = 0;
    int64_t service_s = 0; /* of those that ended */
    for (uint32_t i = from + 1; i < MATCH_SIZE_BUCKETS && enders < left; i++) {
        int64_t more_s = size_of(i) - attained_s;
        enders += size->count[i];
        service_s += size->count[i] * more_s;
        if (size->count[i] == 0 || enders < MATCH_SIZE_ENDERS_MIN) continue;
        int64_t expected_s = (service_s + (left - enders) * more_s) / enders;
        if (best_s == 0 || expected_s < best_s) best_s = expected_s;
    }
    return best_s;
}

void match_size_clear(struct match_size *size)
{
    memset(size, 0, sizeof *size);
    size->learn_next = MATCH_SIZE_LEARN_MIN;
}

void match_size_ended(struct match_size *size, int64_t size_s)
{
    size->ended++;
    size->count[bucket_of(size_s)]++;
    if (size->ended < size->learn_next) return;
    size->learn_next = 2 * size->ended;
    for (uint32_t i = 0; i < MATCH_SIZE_BUCKETS; i++) size->expected_s[i] = expected_from(size, i);
}

int64_t match_size_expected_s(const struct match_size *size, int64_t attained_s)
{
    int64_t expected_s = size->expected_s[bucket_of(attained_s)];
    ASSERT(expected_s >= 0);
    return expected_s > 0 ? expected_s
                          : attained_s + GUESS_S; /* nobody got so far: as at the start */
}
