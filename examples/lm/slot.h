/* The gradient of one slot: a batch of sequences, on one or more threads, with the same bits.
 *
 * Role       The batch is cut into PARTS, a number that is part of the arithmetic and not of the
 *            machine. Each part is one pass over its sequences with a gradient of its own; the
 *            gradients are added in the order of the parts. A thread computes whole parts, so the
 *            result does not depend on how many threads there are.
 * Threads    The caller's thread does the first share; the others sleep between slots. Not
 *            re-entrant. OpenBLAS must run on one thread per product (gemm_pin_kernels()).
 * Ownership  Keeps a pointer to the model; borrows params, sequences and gradient for the call.
 */
#ifndef SHOAL_EXAMPLES_LM_SLOT_H
#define SHOAL_EXAMPLES_LM_SLOT_H

#include "model.h"

enum { SLOT_PARTS_MAX = 8 };

struct slot_options {
    uint32_t batch;   /* sequences of a slot */
    uint32_t parts;   /* 1 .. SLOT_PARTS_MAX; at most batch */
    uint32_t threads; /* 1 .. parts */
};

struct slot;

struct slot *slot_make(const struct model *model, const struct slot_options *options,
                       struct error *ret_error);
void slot_free(struct slot *slot);

/* Mean loss over all positions. gradient: [param_count], zero before; the gradient of that mean. */
float slot_compute(struct slot *slot, const float *params, const uint16_t *sequences,
                   float *gradient);

#endif
