/* One forward and backward pass of the model over a few sequences, on one thread.
 *
 * Role       Each thread of slot.c has one. (decode.h is the way to write text.)
 * Shapes     A sequence is context + 1 tokens: position t predicts token t + 1. `sequences` holds
 *            count of them one after the other, at most sequences_max.
 * Ownership  A pass owns its activations and keeps a pointer to the model, which must outlive it.
 *            params and sequences are borrowed for the call; pass_backward() reads those of the
 *            pass_forward() before it, so they must still be there.
 * Dropout    On the embedding, the attention probabilities and what each half of a layer adds to
 *            the residual stream (as in GPT-2). What is dropped is a function of (key, place,
 *            number of the sequence in its slot, element).
 * Bits       A function of (model, params, sequences, noise) alone.
 */
#ifndef SHOAL_EXAMPLES_LM_PASS_H
#define SHOAL_EXAMPLES_LM_PASS_H

#include "model.h"
#include "rows.h"

struct pass;

struct pass_noise {
    struct dropout dropout;
    uint64_t key;            /* of the slot and step */
    uint32_t first_sequence; /* number, in the slot, of the first of these sequences */
};

/* Called when the gradients of a stage (model_stage()) are final, in their order. */
struct pass_watch {
    void (*done)(void *context, uint32_t stage);
    void *context;
};

struct pass *pass_make(const struct model *model, uint32_t sequences_max,
                       struct error *ret_error); /* NULL: out of memory */
void pass_free(struct pass *pass);

/* Sum of the losses (natural logarithm) over all positions of all sequences. noise NULL: none. */
double pass_forward(struct pass *pass, const float *params, const uint16_t *sequences,
                    uint32_t count, const struct pass_noise *noise);
/* Sets `gradient` to that of scale * (the sum above). Once per pass_forward(). */
void pass_backward(struct pass *pass, float scale, float *gradient, const struct pass_watch *watch);

/* Only the logits, without loss and dropout; pass_row() gives those [vocabulary] of a position. */
void pass_logits(struct pass *pass, const float *params, const uint16_t *sequences, uint32_t count);
const float *pass_row(const struct pass *pass, uint32_t sequence, uint32_t position);

#endif
