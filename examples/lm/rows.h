/* Loops over elements and rows: what a transformer needs besides matrix products.
 *
 * Role       Called by ops.c, pass.c, decode.c and adamw.c.
 * Bits       Same input, same bits, on every x86 and with every compiler: no contraction into fused
 *            multiply-adds (-ffp-contract=off), every sum in 8 lanes that are then added pairwise,
 *            and exp() and log() our own polynomials; of the C library only sqrt, which IEEE 754
 *            makes exact. Each function marked WIDE is compiled twice and chosen by CPU: 8 lanes
 *            are one AVX2 register or two of SSE2, the results are the same (the golden digest of
 *            trainer_test.c holds both forms, and gcc and clang, to the same bits).
 */
#ifndef SHOAL_EXAMPLES_LM_ROWS_H
#define SHOAL_EXAMPLES_LM_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* The sanitizers run before such functions can be chosen. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

void add_rows(size_t count, const float *in, float *inout); /* inout += in */
void scale_row(size_t count, float factor, float *inout);
/* Sets ret_sums[width] to the sums of the columns, row after row. */
void sum_columns(size_t rows, size_t width, const float *in, float *ret_sums);
float dot_row(size_t count, const float *a, const float *b);

/* exp() of each: relative error below 2e-7 on [-87, 88]; arguments outside are clamped. */
void exp_values(size_t count, float *inout);
/* Natural logarithm of a positive normal number: relative error below 1e-13. */
double log_value(double x);

/* Each row to mean 0 and variance 1, then scaled and shifted. means, scales: [rows], 1/deviation.
 */
void norm_forward(size_t rows, size_t width, const float *in, const float *weight,
                  const float *bias, float *ret_out, float *ret_means, float *ret_scales);
/* Adds to d_in: it is the gradient of the residual stream, which runs past the norm. */
void norm_backward(size_t rows, size_t width, const float *d_out, const float *in,
                   const float *weight, const float *means, const float *scales, float *d_in,
                   float *ret_d_weight, float *ret_d_bias);

/* GELU in its tanh form (Hendrycks and Gimpel 2016, arXiv:1606.08415): x * sigmoid(2u),
 * u = sqrt(2/pi) (x + 0.044715 x^3). Forward not in place. */
void gelu_forward(size_t count, const float *in, float *ret_out);
void gelu_backward(size_t count, const float *in, float *d_inout); /* in place */

void softmax_row(size_t count, float *inout);
/* inout = e^(inout - max), at least e^-87; returns their sum: divided by it they are the softmax. */
float exponentials_row(size_t count, float *inout);

/* Dropout (Srivastava et al., JMLR 15, 2014), inverted: element i becomes 0 or is scaled up by
 * 1 / (1 - share). Which one is a function of (key, i) alone, so that the backward pass, another
 * worker or a repeated step finds the same choice again without any table. */
struct dropout {
    uint32_t threshold; /* 16-bit numbers below it drop: share * 65536; 0: no dropout */
    float scale;
};
struct dropout dropout_of(double share); /* share in [0, 1), rounded to 1/65536 */
void dropout_apply(struct dropout dropout, uint64_t key, size_t count, float *inout);

#endif
