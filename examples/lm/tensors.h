/* What libshoal is told about a trainer: its tensors by name, and notes that make a checkpoint
 * usable by itself.
 *
 * Tensors    params: those of the model, and "eval.loss" [1] if the trainer evaluates. state: two
 *            moments of each; "lm.config" [NOTE_COUNT], the shape of the model; "lm.merges" [merges,
 *            2] of a learned tokenizer. Notes are whole numbers below 2^24, exact as floats. They
 *            never change; that they are state puts them into every checkpoint.
 * Ownership  Names and notes live in the list, values in the trainer: both must outlive the job.
 */
#ifndef SHOAL_EXAMPLES_LM_TENSORS_H
#define SHOAL_EXAMPLES_LM_TENSORS_H

#include "trainer.h"
#include <shoal.h>

enum note { /* ORDER: notes_of_model() */
            NOTE_FORMAT,
            NOTE_LAYERS,
            NOTE_WIDTH,
            NOTE_HEADS,
            NOTE_CONTEXT,
            NOTE_VOCABULARY,
            NOTE_TIED,
            NOTE_COUNT,
};
enum { TENSORS_NAME_BYTES = MODEL_NAME_BYTES + 16, TENSORS_FORMAT = 1 };

struct tensor_list {
    struct shoal_tensor *params, *state;
    char (*names)[TENSORS_NAME_BYTES];
    uint32_t param_count, state_count;
    float notes[NOTE_COUNT];
    float *merges; /* NULL: bytes */
};

bool tensors_make(struct tensor_list *ret_list, const struct trainer *trainer,
                  struct error *ret_error) WARN_UNUSED;
void tensors_free(struct tensor_list *list);

#endif
