/* The arithmetic of a transformer: each operation forward and backward, on plain row-major arrays.
 *
 * Role       Called by pass.c alone. Matrix products go to OpenBLAS, the rest is written here.
 * Bits       Same input, same bits: every sum has a fixed order that depends on the shape alone.
 *            Sums along a row run in 8 lanes that are then added pairwise, which the compiler may
 *            put into vector registers of any width without changing the result. exp() is our own
 *            polynomial for the same reason: no function of the C library is on the path to the
 *            gradient. (OpenBLAS adds in an order of its own, which depends on the shape and on the
 *            kernels chosen; see gemm_pin_kernels().)
 * Rule       Functions named _backward add to gradients of weights (d_weight, d_bias) and set
 *            gradients of activations (d_in), unless said otherwise.
 */
#ifndef SHOAL_EXAMPLES_LM_OPS_H
#define SHOAL_EXAMPLES_LM_OPS_H

#include <stddef.h>
#include <stdint.h>

struct linear_shape {
    size_t rows, inputs, outputs;
};

/* OpenBLAS picks kernels by CPU, and other kernels add in another order: machines of one job must
 * use the same ones. Unless OPENBLAS_CORETYPE says otherwise this starts the program again (same
 * process id, same descriptors) with "Haswell", the kernels of every x86 server with AVX2 and FMA,
 * and with one thread; the library reads both only when it is loaded. Returns at once when they are
 * set or the CPU is of another kind. */
void gemm_pin_kernels(char **argv);
const char *gemm_kernels(void);   /* what OpenBLAS uses now */
void gemm_set_threads(int count); /* threads inside one product; the trainer keeps 1 */

/* C[m,n] = scale * A[m,k] B[k,n] + add * C, with leading dimensions and optional transposition. */
struct gemm_operand {
    const float *data;
    size_t stride; /* floats from one stored row to the next */
    int transposed;
};
struct gemm_shape {
    size_t m, n, k;
};
void gemm(struct gemm_shape shape, float scale, struct gemm_operand a, struct gemm_operand b,
          float add, float *ret_c, size_t c_stride);

/* out = in W^T + bias; bias may be NULL. */
void linear_forward(struct linear_shape shape, const float *in, const float *weight,
                    const float *bias, float *ret_out);
void linear_backward(struct linear_shape shape, const float *d_out, const float *in,
                     const float *weight, float *ret_d_in, float *d_weight, float *d_bias);

/* Each row to mean 0 and variance 1, then scaled and shifted. means, scales: [rows], 1/deviation.
 */
void norm_forward(size_t rows, size_t width, const float *in, const float *weight,
                  const float *bias, float *ret_out, float *ret_means, float *ret_scales);
/* Adds to d_in: it is the gradient of the residual stream, which runs past the norm. */
void norm_backward(size_t rows, size_t width, const float *d_out, const float *in,
                   const float *weight, const float *means, const float *scales, float *d_in,
                   float *d_weight, float *d_bias);

/* GELU in its tanh form (Hendrycks and Gimpel 2016, arXiv:1606.08415): x * sigmoid(2u),
 * u = sqrt(2/pi) (x + 0.044715 x^3). */
void gelu_forward(size_t count, const float *in, float *ret_out);
void gelu_backward(size_t count, const float *in, float *d_inout); /* in place */

/* Causal attention of one sequence and one head. q, k, v, out and their gradients are [length,
 * size] with `stride` floats between rows; probabilities [length, length]. */
struct head_shape {
    size_t length, size, qkv_stride, out_stride;
};
void head_forward(struct head_shape shape, const float *q, const float *k, const float *v,
                  float *ret_probabilities, float *ret_out);
struct head_gradients {
    float *q, *k, *v;
};
void head_backward(struct head_shape shape, const float *q, const float *k, const float *v,
                   const float *probabilities, const float *d_out, float *scratch,
                   struct head_gradients ret_d);

/* Logits [rows, classes] become probabilities in place. */
void softmax_rows(size_t rows, size_t classes, float *values);
/* Sum over rows of -log p[target]. */
double cross_entropy(size_t rows, size_t classes, const float *probabilities,
                     const uint16_t *targets);
/* Probabilities become the gradient of scale * cross_entropy by the logits, in place. */
void cross_entropy_backward(size_t rows, size_t classes, float scale, const uint16_t *targets,
                            float *values);

void add_rows(size_t count, const float *in, float *inout); /* inout += in */

/* exp() of each: relative error below 2e-7 on [-87, 88]; arguments outside are clamped. */
void exp_values(size_t count, float *inout);

#endif
