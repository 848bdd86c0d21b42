/* A model read from a checkpoint, which tells by itself what it is (trainer.h).
 *
 * Takes      The newest checkpoint of the store that can be read; nothing in it is believed before
 *            it was checked. Only the weights are read, not the optimizer's moments.
 * Ownership  saved_close() takes a half-read or zeroed one.
 * Errors     One sentence: no checkpoint, not one of lm, damaged.
 */
#ifndef SHOAL_EXAMPLES_LM_SAVED_H
#define SHOAL_EXAMPLES_LM_SAVED_H

#include "model.h"
#include "tokenizer.h"

struct saved {
    struct model model;
    struct tokenizer tokenizer;
    float *params;
    uint64_t step;
};

bool saved_open(struct saved *ret_saved, const char *url, struct error *ret_error) WARN_UNUSED;
void saved_close(struct saved *saved);

#endif
