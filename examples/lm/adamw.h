/* AdamW with warm-up, cosine decay and clipping (Loshchilov and Hutter, arXiv:1711.05101).
 *
 * Role       adamw_scales() is what all elements of a step share: a function of (options, step,
 *            norm of the gradient) alone, so that a worker that joins late needs nothing but
 *            weights, moments and the step number. adamw_range() applies it to any run of elements
 *            of one tensor: an element's new bits depend on its own numbers only, however runs are
 *            cut and on whatever machine or thread they are applied.
 * Shapes     params, mean, variance, gradient: the same run of elements. mean and variance start 0.
 * Rules      Decay applies to matrices, not to biases and norms. The gradient is scaled down so
 *            that its norm is at most `clip`.
 * Bits       No function of the C library but sqrt (exact by IEEE 754): powers by repeated
 *            multiplication, the cosine by a polynomial.
 */
#ifndef SHOAL_EXAMPLES_LM_ADAMW_H
#define SHOAL_EXAMPLES_LM_ADAMW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct adamw_options {
    float peak_rate;       /* after warm-up */
    float final_share;     /* rate at the last step as a share of the peak */
    uint64_t warmup_steps; /* the rate grows linearly over these */
    uint64_t steps;        /* of the whole job */
    float beta1, beta2, epsilon, decay;
    float clip; /* 0: never */
};

#define ADAMW_WARMUP_AUTO UINT64_MAX /* a fifth of the steps, at most 100 */

struct adamw_options adamw_defaults(float peak_rate);
/* The same for a job of this many steps, warm-up settled. */
struct adamw_options adamw_of_job(const struct adamw_options *options, uint64_t steps);
float adamw_rate(const struct adamw_options *options, uint64_t step);

struct adamw_scales {
    float rate, decay, clip; /* decay: rate * decay, of tensors that decay */
    float beta1, beta2, epsilon;
    float mean_scale, variance_scale; /* 1 / (1 - beta^t): the moments start at 0 */
};
/* step counts from 0. norm: of the whole mean gradient. */
struct adamw_scales adamw_scales(const struct adamw_options *options, uint64_t step, double norm);

void adamw_range(const struct adamw_scales *scales, bool decays, size_t count,
                 const float *gradient, float *params, float *mean, float *variance);

#endif
