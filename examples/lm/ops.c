#include "ops.h"
#include "model.h"
#include <math.h>
#include <string.h>

void linear_forward(struct linear_shape shape, const float *in, const float *weight,
                    const float *bias, float *ret_out)
{
    for (size_t row = 0; bias != NULL && row < shape.rows; row++)
        memcpy(ret_out + row * shape.outputs, bias, shape.outputs * sizeof *bias);
    gemm((struct gemm_shape){shape.rows, shape.outputs, shape.inputs}, 1.0f,
         (struct gemm_operand){in, shape.inputs, 0}, (struct gemm_operand){weight, shape.inputs, 1},
         bias == NULL ? 0.0f : 1.0f, ret_out, shape.outputs);
}

void linear_backward(struct linear_shape shape, const float *d_out, const float *in,
                     const float *weight, float *ret_d_in, float *ret_d_weight, float *ret_d_bias)
{
    gemm((struct gemm_shape){shape.rows, shape.inputs, shape.outputs}, 1.0f,
         (struct gemm_operand){d_out, shape.outputs, 0},
         (struct gemm_operand){weight, shape.inputs, 0}, 0.0f, ret_d_in, shape.inputs);
    gemm((struct gemm_shape){shape.outputs, shape.inputs, shape.rows}, 1.0f,
         (struct gemm_operand){d_out, shape.outputs, 1}, (struct gemm_operand){in, shape.inputs, 0},
         0.0f, ret_d_weight, shape.inputs);
    if (ret_d_bias != NULL) sum_columns(shape.rows, shape.outputs, d_out, ret_d_bias);
}

/* Attention goes by blocks of rows: those of [first, first + rows) see the columns before `end`, so
 * that of a long sequence only half of the square is computed. */
struct head_block {
    size_t first, rows, end;
};

static bool next_block(const struct head_shape *shape, struct head_block *inout_block)
{
    size_t first = inout_block->end;
    if (first == shape->length) return false;
    size_t left = shape->length - first, rows = left < HEAD_BLOCK ? left : HEAD_BLOCK;
    *inout_block = (struct head_block){first, rows, first + rows};
    return true;
}

/* Each row of probabilities has a stream of random numbers of its own. */
static void drop_row(const struct head_shape *shape, size_t row, float *inout)
{
    dropout_apply(shape->dropout, counter_bits(shape->key, row, 0), row + 1, inout);
}

/* The probabilities that values are weighted with: of a block of rows, after dropout. */
static const float *dropped(const struct head_shape *shape, const struct head_block *block,
                            const float *probabilities, float *scratch)
{
    if (shape->dropout.threshold == 0) return probabilities;
    for (size_t row = block->first; row < block->end; row++) {
        size_t at = row * shape->length;
        memcpy(scratch + at, probabilities + at, block->end * sizeof *scratch);
        drop_row(shape, row, scratch + at);
    }
    return scratch;
}

void head_forward(struct head_shape shape, const float *q, const float *k, const float *v,
                  float *ret_probabilities, float *scratch, float *ret_out)
{
    size_t length = shape.length, stride = shape.qkv_stride;
    struct head_block block = {0};
    while (next_block(&shape, &block)) {
        gemm((struct gemm_shape){block.rows, block.end, shape.size},
             1.0f / sqrtf((float)shape.size),
             (struct gemm_operand){q + block.first * stride, stride, 0},
             (struct gemm_operand){k, stride, 1}, 0.0f, ret_probabilities + block.first * length,
             length);
        for (size_t row = block.first; row < block.end; row++) {
            float *p = ret_probabilities + row * length;
            softmax_row(row + 1, p); /* a position sees itself and what came before */
            memset(p + row + 1, 0, (block.end - row - 1) * sizeof *p);
        }
        const float *weights = dropped(&shape, &block, ret_probabilities, scratch);
        gemm((struct gemm_shape){block.rows, shape.size, block.end}, 1.0f,
             (struct gemm_operand){weights + block.first * length, length, 0},
             (struct gemm_operand){v, stride, 0}, 0.0f, ret_out + block.first * shape.out_stride,
             shape.out_stride);
    }
}

/* dS = P * (dP - sum(P * dP)) by row, in place; what the mask hides has P = 0. */
static void head_softmax_backward(const struct head_shape *shape, const struct head_block *block,
                                  const float *probabilities, float *d_inout)
{
    for (size_t row = block->first; row < block->end; row++) {
        const float *p = probabilities + row * shape->length;
        float *d = d_inout + row * shape->length;
        if (shape->dropout.threshold != 0) drop_row(shape, row, d);
        float mean = dot_row(row + 1, p, d);
        for (size_t i = 0; i <= row; i++) d[i] = p[i] * (d[i] - mean);
        memset(d + row + 1, 0, (block->end - row - 1) * sizeof *d);
    }
}

/* Of a block of columns c, seen by all rows from its first on: ret[c] = scale * square[., c]^T in
 * [.]. */
static void gather_columns(const struct head_shape *shape, const struct head_block *block,
                           float scale, const float *square, const float *in, size_t in_stride,
                           float *ret_out)
{
    size_t rows = shape->length - block->first;
    gemm((struct gemm_shape){block->rows, shape->size, rows}, scale,
         (struct gemm_operand){square + block->first * shape->length + block->first, shape->length,
                               1},
         (struct gemm_operand){in + block->first * in_stride, in_stride, 0}, 0.0f,
         ret_out + block->first * shape->qkv_stride, shape->qkv_stride);
}

void head_backward(struct head_shape shape, const float *q, const float *k, const float *v,
                   const float *probabilities, const float *d_out, float *scratch,
                   struct head_gradients ret_d)
{
    size_t length = shape.length, stride = shape.qkv_stride;
    float scale = 1.0f / sqrtf((float)shape.size), *d_scores = scratch;
    float *drops = scratch + length * length;
    const float *weights = probabilities;
    struct head_block block = {0};
    while (next_block(&shape, &block)) {
        weights = dropped(&shape, &block, probabilities, drops);
        gemm((struct gemm_shape){block.rows, block.end, shape.size}, 1.0f,
             (struct gemm_operand){d_out + block.first * shape.out_stride, shape.out_stride, 0},
             (struct gemm_operand){v, stride, 1}, 0.0f, d_scores + block.first * length, length);
        head_softmax_backward(&shape, &block, probabilities, d_scores);
        gemm((struct gemm_shape){block.rows, shape.size, block.end}, scale,
             (struct gemm_operand){d_scores + block.first * length, length, 0},
             (struct gemm_operand){k, stride, 0}, 0.0f, ret_d.q + block.first * stride, stride);
    }
    block = (struct head_block){0};
    while (next_block(&shape, &block)) {
        gather_columns(&shape, &block, 1.0f, weights, d_out, shape.out_stride, ret_d.v);
        gather_columns(&shape, &block, scale, d_scores, q, stride, ret_d.k);
    }
}

double cross_entropy(size_t rows, size_t classes, const uint16_t *targets, float *inout,
                     float *ret_sums)
{
    double loss = 0;
    for (size_t row = 0; row < rows; row++) {
        float *values = inout + row * classes;
        ret_sums[row] = exponentials_row(classes, values);
        loss += log_value((double)ret_sums[row]) - log_value((double)values[targets[row]]);
    }
    return loss;
}

void cross_entropy_backward(size_t rows, size_t classes, float scale, const uint16_t *targets,
                            const float *sums, float *inout)
{
    for (size_t row = 0; row < rows; row++) {
        float *values = inout + row * classes;
        scale_row(classes, scale / sums[row], values);
        values[targets[row]] -= scale;
    }
}
