/* SplitMix64: a small generator of numbers that only have to look random, the same everywhere. For
 * tests and made-up worlds; nothing that must be hard to guess.
 */
#ifndef SHOAL_BASE_SPLITMIX_H
#define SHOAL_BASE_SPLITMIX_H

#include <stdint.h>

static inline uint64_t splitmix_next(uint64_t *state)
{
    uint64_t word = *state += UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

#endif
