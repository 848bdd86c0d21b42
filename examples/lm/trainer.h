/* Weights, moments, data and the two things a training step needs of them: the gradient of one slot
 * and the application of the mean gradient. main.c puts libshoal around it.
 *
 * Evaluation The mean loss on windows of the held-out text is one more "parameter", the last of the
 *            flat buffers: in a step that evaluates, each slot computes the loss of its share of
 *            the windows and hands it in as that element's gradient. So all workers share the work,
 *            the exact sum gives the same bits whoever did what, and the last result lies in the
 *            checkpoint. It is handed in small (EVAL_SCALE), to mean nothing to the norm of the
 *            gradient. What step s evaluates are the weights after s steps.
 * Bits       trainer_compute() is a function of (options, data, weights, step, slot, samples),
 *            trainer_apply() of (weights, moments, step, norm, gradient).
 */
#ifndef SHOAL_EXAMPLES_LM_TRAINER_H
#define SHOAL_EXAMPLES_LM_TRAINER_H

#include "adamw.h"
#include "data.h"
#include "options.h"
#include "slot.h"

struct trainer {
    struct model model;
    struct adamw_options adamw;
    struct data data;
    struct crew *crew;
    struct slot *slot;
    float *params, *mean, *variance; /* flat, as model.h says, and one element for evaluation */
    uint16_t *sequences;             /* [batch, context + 1] */
    uint32_t batch, slots, eval_every, eval_windows;
};

/* Steps and slots of the job must be set in the options. */
bool trainer_open(struct trainer *ret_trainer, const struct lm_options *options,
                  struct error *ret_error) WARN_UNUSED;
void trainer_close(struct trainer *trainer);

/* A hash of all that decides the weights besides the number of slots: model, tokenizer, schedule,
 * dropout, evaluation, seed, batch, parts, kernels and the bytes of the text. For
 * shoal_options.identity; never 0. */
uint64_t trainer_identity(const struct trainer *trainer, const struct lm_options *options);

/* Elements of the gradient: the model's, and one if the trainer evaluates. */
size_t trainer_elements(const struct trainer *trainer);

struct trainer_slot {
    uint64_t step;
    uint32_t slot;
    uint64_t noise_key;      /* for dropout: a function of (seed, step, slot) */
    const uint64_t *samples; /* [batch] numbers in the stream */
};
/* Sets gradient [trainer_elements()]; returns the mean loss. watch: see slot.h. */
float trainer_compute(struct trainer *trainer, const struct trainer_slot *work, float *gradient,
                      const struct slot_watch *watch);
void trainer_apply(struct trainer *trainer, uint64_t step, double norm, const float *gradient);

bool trainer_evaluates(const struct trainer *trainer, uint64_t step);
float trainer_evaluation(const struct trainer *trainer); /* the last result that was applied */
/* The same of the weights as they are, all windows on this worker. */
double trainer_evaluate(struct trainer *trainer);

#endif
