/* Text written by a model: token after token, drawn from what it thinks comes next.
 *
 * Bits       A function of (model, params, tokenizer, options): the draws are counter-based.
 * Draw       Logits are divided by the temperature (0: always the likeliest token); of the top_k
 *            likeliest (0: all; equals of the last one included) one is drawn.
 */
#ifndef SHOAL_EXAMPLES_LM_GENERATE_H
#define SHOAL_EXAMPLES_LM_GENERATE_H

#include "model.h"
#include "tokenizer.h"
#include <stdio.h>

struct generate_options {
    uint32_t count; /* tokens */
    uint32_t top_k;
    float temperature;
    uint64_t seed;
    const char *prompt; /* NULL or "": as after a line break */
};

/* Writes the prompt and `count` tokens to `out`, each as it is drawn. */
bool generate_text(const struct model *model, const float *params,
                   const struct tokenizer *tokenizer, const struct generate_options *options,
                   FILE *out, struct error *ret_error) WARN_UNUSED;

#endif
