/* The numbers of a generation, all integers but the losses, which are only compared. */
#include "sim/random.h"
#include "whatif/train.h"
#include <string.h>

enum {
    FINE = 256,        /* of a weight */
    NOISE = 10 * FINE, /* standard deviation of a direction, */
    STEP = 4 * FINE,   /* root mean square of a step at first, */
    STEP_LAST = FINE,  /* and after STEP_GENERATIONS */
    STEP_GENERATIONS = 80,
    FIRST = 24 * FINE, /* standard deviation of the first weights of hidden units */
    STREAM_FIRST = 9000,
    STREAM_DIRECTION = 9001
};

/* Four uniform numbers: near enough to a normal one. */
static int32_t draw(struct sim_random *random, int32_t deviation)
{
    int64_t most = (int64_t)deviation * 866 / 1000, sum = 0;
    for (int i = 0; i < 4; i++) sum += sim_random_range(random, -most, most);
    return (int32_t)sum;
}

/* The output's weights are 0 at first: the ranking is the built-in one. */
void train_begin(struct train_state *state)
{
    struct sim_random random = sim_random_fork(STREAM_FIRST, 0);
    memset(state, 0, sizeof *state);
    for (uint32_t i = 0; i < RANK_HIDDEN * RANK_ROW; i++) state->weights[i] = draw(&random, FIRST);
    memcpy(state->best, state->weights, sizeof state->best);
}

static struct sim_random direction(const struct train_state *state, uint32_t pair)
{
    return sim_random_fork(STREAM_DIRECTION + state->generation, pair);
}

void train_round(const int32_t weights[RANK_WEIGHTS], int8_t ret_weights[RANK_WEIGHTS])
{
    for (uint32_t i = 0; i < RANK_WEIGHTS; i++) {
        int32_t w = (weights[i] + (weights[i] < 0 ? -FINE / 2 : FINE / 2)) / FINE;
        ret_weights[i] = (int8_t)(w < -RANK_WEIGHT_MAX  ? -RANK_WEIGHT_MAX
                                  : w > RANK_WEIGHT_MAX ? RANK_WEIGHT_MAX
                                                        : w);
    }
}

/* Even: along, odd: against; the last is where they begin. */
void train_candidate(const struct train_state *state, uint32_t index,
                     int8_t ret_weights[RANK_WEIGHTS])
{
    int32_t weights[RANK_WEIGHTS];
    struct sim_random random = direction(state, index / 2);
    for (uint32_t i = 0; i < RANK_WEIGHTS; i++) {
        int32_t move = index < 2 * TRAIN_PAIRS ? draw(&random, NOISE) : 0;
        weights[i] = state->weights[i] + (index % 2 == 0 ? move : -move);
    }
    train_round(weights, ret_weights);
}

/* How many are worse, less how many are better. */
static int32_t place_of(const double losses[TRAIN_CANDIDATES], uint32_t index)
{
    int32_t place = 0;
    for (uint32_t i = 0; i < 2 * TRAIN_PAIRS; i++)
        place += (losses[i] > losses[index]) - (losses[i] < losses[index]);
    return place;
}

static uint64_t root_of(uint64_t value)
{
    uint64_t root = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint64_t trial = root | UINT64_C(1) << bit;
        if (trial * trial <= value) root = trial;
    }
    return root;
}

static int64_t step_size(uint64_t generation)
{
    if (generation >= STEP_GENERATIONS) return STEP_LAST;
    return STEP - (int64_t)(generation * (STEP - STEP_LAST) / STEP_GENERATIONS);
}

static void add_directions(const struct train_state *state, const double losses[TRAIN_CANDIDATES],
                           int64_t sums[RANK_WEIGHTS])
{
    memset(sums, 0, RANK_WEIGHTS * sizeof sums[0]);
    for (uint32_t pair = 0; pair < TRAIN_PAIRS; pair++) {
        int32_t gain = place_of(losses, 2 * pair) - place_of(losses, 2 * pair + 1);
        struct sim_random random = direction(state, pair);
        for (uint32_t i = 0; i < RANK_WEIGHTS; i++) sums[i] += (int64_t)gain * draw(&random, NOISE);
    }
}

void train_step(struct train_state *state, const double losses[TRAIN_CANDIDATES])
{
    int64_t sums[RANK_WEIGHTS];
    uint64_t squares = 0;
    if (state->generation == 0 || losses[2 * TRAIN_PAIRS] < state->best_loss) {
        state->best_loss = losses[2 * TRAIN_PAIRS];
        memcpy(state->best, state->weights, sizeof state->best);
    }
    add_directions(state, losses, sums);
    for (uint32_t i = 0; i < RANK_WEIGHTS; i++) {
        state->momentum[i] = (int32_t)((state->momentum[i] * INT64_C(8) + sums[i] / 64 * 2) / 10);
        squares += (uint64_t)((int64_t)state->momentum[i] * state->momentum[i]);
    }
    int64_t size = (int64_t)root_of(squares / RANK_WEIGHTS);
    for (uint32_t i = 0; i < RANK_WEIGHTS && size > 0; i++) {
        int64_t w = state->weights[i] + state->momentum[i] * step_size(state->generation) / size;
        int64_t most = (int64_t)RANK_WEIGHT_MAX * FINE;
        state->weights[i] = (int32_t)(w < -most ? -most : w > most ? most : w);
    }
    state->generation++;
}
