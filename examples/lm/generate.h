/* Text by a trained model, for people to look at. */
#ifndef SHOAL_EXAMPLES_LM_GENERATE_H
#define SHOAL_EXAMPLES_LM_GENERATE_H

#include "model.h"

/* `count` bytes into ret_text, each drawn from p^(5/4) (temperature 0.8), a function of the weights
 * and the seed. The model must be byte-level. Starts as if after a line break. */
bool generate_text(const struct model *model, const float *params, uint64_t seed, size_t count,
                   char *ret_text, struct error *ret_error) WARN_UNUSED;

#endif
