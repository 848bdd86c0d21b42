/* Weights, moments, data and the two things a training step needs of them: the gradient of one slot
 * and the application of the mean gradient. main.c puts libshoal around it.
 *
 * Bits       trainer_compute() is a function of (options, data, weights, samples), and
 *            trainer_apply() of (weights, moments, step, gradient).
 */
#ifndef SHOAL_EXAMPLES_LM_TRAINER_H
#define SHOAL_EXAMPLES_LM_TRAINER_H

#include "adamw.h"
#include "data.h"
#include "options.h"

struct trainer {
    struct model model;
    struct adamw_options adamw;
    struct data data;
    struct slot *slot;
    float *params, *mean, *variance; /* flat, as model.h says */
    uint16_t *sequences;             /* [batch, context + 1] */
    uint32_t batch;
};

/* steps: of the job, for the schedule of the learning rate. */
bool trainer_open(struct trainer *ret_trainer, const struct lm_options *options, uint64_t steps,
                  struct error *ret_error) WARN_UNUSED;
void trainer_close(struct trainer *trainer);

/* A hash of all that decides the weights besides the numbers of steps and slots: model, schedule,
 * seed, batch, parts, kernels and the bytes of the text. For shoal_options.identity; never 0. */
uint64_t trainer_identity(const struct trainer *trainer, const struct lm_options *options);

/* samples: [batch] numbers in the stream. gradient: [param_count], zero before. */
float trainer_compute(struct trainer *trainer, const uint64_t *samples, float *gradient);
void trainer_apply(struct trainer *trainer, uint64_t step, const float *gradient);

#endif
