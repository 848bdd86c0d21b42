/* One forward and backward pass of the model over a few sequences, on one thread.
 *
 * Role       Each thread of slot.c has one; sample.c uses the forward half to write text.
 * Shapes     A sequence is context + 1 tokens: position t predicts token t + 1. `sequences` holds
 *            count of them one after the other, at most sequences_max.
 * Ownership  A pass owns its activations and keeps a pointer to the model, which must outlive it.
 *            params and sequences are borrowed for the call; pass_backward() reads those of the
 *            pass_forward() before it, so they must still be there.
 * Bits       A function of (model, params, sequences) alone.
 */
#ifndef SHOAL_EXAMPLES_LM_PASS_H
#define SHOAL_EXAMPLES_LM_PASS_H

#include "model.h"

struct pass;

struct pass *pass_make(const struct model *model, uint32_t sequences_max,
                       struct error *ret_error); /* NULL: out of memory */
void pass_free(struct pass *pass);

/* Sum of the losses (natural logarithm) over all positions of all sequences. */
double pass_forward(struct pass *pass, const float *params, const uint16_t *sequences,
                    uint32_t count);
/* Adds the gradient of scale * (the sum above) to `gradient`. Once per forward pass. */
void pass_backward(struct pass *pass, float scale, float *gradient);

/* After pass_forward(): probabilities [vocabulary] of the token after position `position`. */
const float *pass_probabilities(const struct pass *pass, uint32_t sequence, uint32_t position);

#endif
