/* The gradient of one slot: a batch of sequences, on one or more threads, with the same bits.
 *
 * Role       The batch is cut into PARTS, a number that is part of the arithmetic and not of the
 *            machine. Each part is one pass over its sequences with a gradient of its own; the
 *            gradients are added in the order of the parts. A thread computes whole parts, so the
 *            result does not depend on how many threads there are.
 * Threads    Those of the crew. OpenBLAS must run on one thread per product (gemm_pin_kernels()).
 * Ownership  Keeps pointers to model and crew; borrows the rest for the call.
 */
#ifndef SHOAL_EXAMPLES_LM_SLOT_H
#define SHOAL_EXAMPLES_LM_SLOT_H

#include "crew.h"
#include "model.h"
#include "rows.h"

enum { SLOT_PARTS_MAX = 64 };

struct slot_options {
    uint32_t batch; /* sequences of a slot */
    uint32_t parts; /* 1 .. SLOT_PARTS_MAX; at most batch */
    struct dropout dropout;
};

struct slot;

struct slot *slot_make(const struct model *model, const struct slot_options *options,
                       struct crew *crew, struct error *ret_error);
void slot_free(struct slot *slot);

/* Told, on the caller's thread, of each run of the gradient that is final, in the order of
 * model_stage(). */
struct slot_watch {
    void (*ready)(void *context, size_t first, size_t count);
    void *context;
};

/* Mean loss over all positions. Sets gradient [param_count] to that of this mean. noise_key names
 * what dropout drops: it must be a function of (seed, step, slot). watch may be NULL. */
float slot_compute(struct slot *slot, const float *params, const uint16_t *sequences,
                   uint64_t noise_key, float *gradient, const struct slot_watch *watch);
/* Sum of the losses over all positions of `count` sequences (at most the batch), without dropout.
 */
double slot_loss(struct slot *slot, const float *params, const uint16_t *sequences, uint32_t count);

#endif
