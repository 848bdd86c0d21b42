/* Training of the ranking network (codec/rank_net.h) in the worlds of scenarios: evolution strategies.
 *
 * Step       A generation draws TRAIN_PAIRS directions, and runs every world with the weights moved along
 *            each and against it, and with the weights as they are, all over the same seeds. Candidates
 *            are ordered by their loss; directions, weighed by the places of their two ends, add up to
 *            the step (T. Salimans et al., "Evolution strategies as a scalable alternative to
 *            reinforcement learning", 2017). The weights with the least loss of their own are written.
 * Loss       Dollars over those of the pool without it, and TRAIN_LATE times what jobs take longer: of the
 *            sums over the seeds of a scenario, the mean of the scenarios.
 * Same       Directions follow from the number of the generation, weights are integers, worlds are the
 *            same with any number of threads: so are the bytes of the file, also when a training was
 *            broken off and goes on from its state.
 * Range      Of each input what the rule-based pool met in these worlds, an eighth wider on both sides.
 */
#ifndef SHOAL_WHATIF_TRAIN_H
#define SHOAL_WHATIF_TRAIN_H

#include "codec/rank_net.h"
#include "whatif/arguments.h"
#include "whatif/world.h"

enum { TRAIN_PAIRS = 16, TRAIN_CANDIDATES = 2 * TRAIN_PAIRS + 1 };

/* train.c */
int train_main(const struct arguments *arguments);

/* What goes on after a break; as it lies in the file. */
struct train_state {
    uint64_t magic, identity; /* of the scenarios, seeds and the program */
    uint64_t generation;      /* so many are done */
    double best_loss;         /* of none: 0 generations */
    int32_t weights[RANK_WEIGHTS], momentum[RANK_WEIGHTS], best[RANK_WEIGHTS];
    uint32_t reserved;
    uint64_t checksum;
};

/* train_step.c: weights are in TRAIN_FINE ths of those of the network. */
void train_begin(struct train_state *state);
void train_candidate(const struct train_state *state, uint32_t index,
                     int8_t ret_weights[RANK_WEIGHTS]);
void train_step(struct train_state *state, const double losses[TRAIN_CANDIDATES]);
void train_round(const int32_t weights[RANK_WEIGHTS], int8_t ret_weights[RANK_WEIGHTS]);

/* train_state.c */
bool train_state_read(const char *path, uint64_t identity, struct train_state *ret_state,
                      bool *ret_found, struct error *ret_error) WARN_UNUSED;
bool train_state_write(const char *path, struct train_state *state,
                       struct error *ret_error) WARN_UNUSED;

#endif
