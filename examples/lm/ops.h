/* The operations of a transformer that are made of matrix products, forward and backward, on plain
 * row-major arrays.
 *
 * Role       Called by pass.c and decode.c. Products go to OpenBLAS, loops over rows to rows.h.
 * Bits       Same input, same bits: every sum has a fixed order that depends on the shape alone.
 *            OpenBLAS adds in an order of its own, which depends on the shape and on the kernels
 *            chosen; see gemm_pin_kernels().
 * Rule       Functions named _backward set what they return, whatever was there.
 */
#ifndef SHOAL_EXAMPLES_LM_OPS_H
#define SHOAL_EXAMPLES_LM_OPS_H

#include "rows.h"
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
                     const float *weight, float *ret_d_in, float *ret_d_weight, float *ret_d_bias);

/* Causal attention of one sequence and one head. q, k, v, out and their gradients are [length,
 * size] with `stride` floats between rows; probabilities [length, length], of which the upper right
 * is not all set. scratch: [length, length] forward, twice that backward. Dropout takes from the
 * probabilities after the softmax; `key` names the choice, and must be the same in both passes. */
enum { HEAD_BLOCK = 128 };
struct head_shape {
    size_t length, size, qkv_stride, out_stride;
    struct dropout dropout;
    uint64_t key;
};
void head_forward(struct head_shape shape, const float *q, const float *k, const float *v,
                  float *ret_probabilities, float *scratch, float *ret_out);
struct head_gradients {
    float *q, *k, *v;
};
void head_backward(struct head_shape shape, const float *q, const float *k, const float *v,
                   const float *probabilities, const float *d_out, float *scratch,
                   struct head_gradients ret_d);

/* Sum over rows of -log softmax(row)[target]. Logits [rows, classes] become their exponentials,
 * ret_sums[rows] what these add up to. A target whose probability underflows costs 87. */
double cross_entropy(size_t rows, size_t classes, const uint16_t *targets, float *inout,
                     float *ret_sums);
/* What cross_entropy() left becomes the gradient of scale * its result by the logits, in place. */
void cross_entropy_backward(size_t rows, size_t classes, float scale, const uint16_t *targets,
                            const float *sums, float *inout);

#endif
