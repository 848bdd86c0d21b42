/* The model one token at a time, with the keys and values of earlier tokens kept.
 *
 * Role       What generate.c writes text with; a token costs one row instead of a whole context.
 * Context    When it is full the older half is forgotten and the newer half is computed again from
 *            position 0.
 * Ownership  Keeps pointers to model and params, which must outlive it.
 */
#ifndef SHOAL_EXAMPLES_LM_DECODE_H
#define SHOAL_EXAMPLES_LM_DECODE_H

#include "model.h"

struct decoder;

struct decoder *decoder_make(const struct model *model, const float *params,
                             struct error *ret_error);
void decoder_free(struct decoder *decoder);
/* Logits [vocabulary] of the token that follows; the decoder's, until the next call. */
float *decoder_push(struct decoder *decoder, uint16_t token);

#endif
