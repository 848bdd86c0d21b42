/* Random numbers of a made-up world: a tree of independent streams, all from one seed.
 *
 * Role       Each kind of fault draws from its own stream, so switching one fault off (--shrink)
 *            leaves the draws of all the others as they were.
 * Source     SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number
 *            generators", OOPSLA 2014.
 */
#ifndef SHOAL_SIM_RANDOM_H
#define SHOAL_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

/* A stream of its own for (seed, label). */
struct sim_random sim_random_fork(uint64_t seed, uint64_t label);
uint64_t sim_random_next(struct sim_random *random);
/* Uniform in [min, max], both inclusive. */
int64_t sim_random_range(struct sim_random *random, int64_t min, int64_t max);
/* True with the given probability; 0 draws nothing. */
bool sim_random_chance(struct sim_random *random, int64_t ppm);
/* Exponential with the given mean, at least 1; in integers, so every machine gets the same. */
int64_t sim_random_exponential_us(struct sim_random *random, int64_t mean_us);

#endif
