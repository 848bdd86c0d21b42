/* AdamW with warm-up, cosine decay and clipping (Loshchilov and Hutter, arXiv:1711.05101).
 *
 * Role       adamw_apply() is one step; the learning rate is a function of the step alone, so that
 *            a worker that joins late needs nothing but weights, moments and the step number.
 * Shapes     params, mean, variance, gradient: flat buffers of the model. mean and variance start
 *            0.
 * Rules      Decay applies to matrices, not to biases and norms. The gradient is scaled down so
 *            that its norm is at most `clip`; the norm is summed in double in the order of the
 *            buffer.
 * Bits       No function of the C library but sqrt (exact by IEEE 754): powers by repeated
 *            multiplication, the cosine by a polynomial.
 */
#ifndef SHOAL_EXAMPLES_LM_ADAMW_H
#define SHOAL_EXAMPLES_LM_ADAMW_H

#include "model.h"

struct adamw_options {
    float peak_rate;       /* after warm-up */
    float final_share;     /* rate at the last step as a share of the peak */
    uint64_t warmup_steps; /* the rate grows linearly over these */
    uint64_t steps;        /* of the whole job */
    float beta1, beta2, epsilon, decay, clip;
};

struct adamw_options adamw_defaults(float peak_rate, uint64_t steps);
float adamw_rate(const struct adamw_options *options, uint64_t step);
double adamw_norm(const float *gradient, size_t count);

/* step counts from 0. */
void adamw_apply(const struct model *model, const struct adamw_options *options, uint64_t step,
                 const float *gradient, float *params, float *mean, float *variance);

#endif
