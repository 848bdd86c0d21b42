/* Weights, data and the two things a training step needs of them: the gradient of one slot and
 * the application of a mean gradient. main.c puts libshoal around it.
 *
 * Notes      The shape of the model and the tokenizer's merges lie behind the weights, as "parameters"
 *            whose gradient is 0: so every checkpoint tells by itself what it is. They are whole
 *            numbers below 2^24, exact as floats.
 * Evaluation The mean loss on windows of the held-out text is one more such "parameter": in a step
 *            that evaluates, each slot computes the loss of its share of the windows and hands it in
 *            as that element's gradient. So all workers share the work, the exact sum gives the same
 *            bits whoever did what, and the last result lies in the checkpoint. It is handed in small
 *            (EVAL_SCALE), to mean nothing to the norm of the gradient. What step s evaluates are the
 *            weights after s steps.
 * Bits       trainer_compute() is a function of (options, data, weights, step, slot, samples),
 *            trainer_apply() of its range.
 */
#ifndef SHOAL_EXAMPLES_LM_TRAINER_H
#define SHOAL_EXAMPLES_LM_TRAINER_H

#include "adamw.h"
#include "data.h"
#include "options.h"
#include "slot.h"

enum trainer_note { /* ORDER: set_notes() */
                    NOTE_FORMAT,
                    NOTE_LAYERS,
                    NOTE_WIDTH,
                    NOTE_HEADS,
                    NOTE_CONTEXT,
                    NOTE_VOCABULARY,
                    NOTE_TIED,
                    NOTE_COUNT,
};
enum { NOTE_FORMAT_NOW = 1, TRAINER_EXTRAS = 3 };

struct trainer {
    struct model model;
    /* Behind the model's tensors, in the flat buffers too: "eval.loss" [1], "lm.config"
     * [NOTE_COUNT], and of a learned tokenizer "lm.merges" [merges, 2]. */
    struct model_tensor extras[TRAINER_EXTRAS];
    uint32_t extra_count;
    size_t element_count; /* of all tensors */
    struct adamw_options adamw;
    struct data data;
    struct crew *crew;
    struct slot *slot;
    float *params;       /* [element_count]; the moments are libshoal's */
    uint16_t *sequences; /* [batch, context + 1] */
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

/* All tensors: the model's, then the extras. */
uint32_t trainer_tensor_count(const struct trainer *trainer);
const struct model_tensor *trainer_tensor(const struct trainer *trainer, uint32_t index);

struct trainer_slot {
    uint64_t step;
    uint32_t slot;
    uint64_t noise_key;      /* for dropout: a function of (seed, step, slot) */
    const uint64_t *samples; /* [batch] numbers in the stream */
};
/* Sets gradient [element_count]; returns the mean loss. watch: see slot.h. */
float trainer_compute(struct trainer *trainer, const struct trainer_slot *work, float *gradient,
                      const struct slot_watch *watch);

/* A run of elements of one tensor in a step, and the norm of the whole mean gradient. Elements do not
 * know of each other: any cut into runs gives the same bits. */
struct trainer_range {
    uint64_t step;
    double norm;
    uint32_t tensor;
    size_t count;
    const float *gradient;
    float *params, *mean, *variance;
};
void trainer_apply(struct trainer *trainer, const struct trainer_range *range);

bool trainer_evaluates(const struct trainer *trainer, uint64_t step);
float trainer_evaluation(const struct trainer *trainer); /* the last result that was applied */
/* The same of the weights as they are, all windows on this worker. */
double trainer_evaluate(struct trainer *trainer);

#endif
