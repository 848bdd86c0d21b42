/* What libshoal is told about a trainer: its tensors by name, and the two moments of each.
 *
 * Ownership  Names live in the list, values in the trainer: both must outlive the job.
 */
#ifndef SHOAL_EXAMPLES_LM_TENSORS_H
#define SHOAL_EXAMPLES_LM_TENSORS_H

#include "trainer.h"
#include <shoal.h>

enum { TENSORS_NAME_BYTES = MODEL_NAME_BYTES + 16 };

struct tensor_list {
    struct shoal_tensor *params, *state;
    char (*names)[TENSORS_NAME_BYTES]; /* of the state; params are named in the trainer */
    uint32_t param_count, state_count;
};

bool tensors_make(struct tensor_list *ret_list, const struct trainer *trainer,
                  struct error *ret_error) WARN_UNUSED;
void tensors_free(struct tensor_list *list);

#endif
