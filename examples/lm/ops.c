#include "ops.h"
#include <math.h>
#include <string.h>

enum { LANES = 8, GELU_BLOCK = 512 };

/* exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; Taylor to r^7 leaves 5e-9. Adding
 * and taking away 1.5 * 2^23 rounds to an integer without a branch or a library call. */
static inline float exp_clamped(float x)
{
    const float rounder = 12582912.0f;
    float n = (x * 1.44269504f + rounder) - rounder;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; /* 2^n, n in [-126, 127] */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* The clamp has a loop of its own: in one loop gcc computes the clamped case for every element,
 * divides by its huge result in gelu_forward(), and denormal numbers make that ten times slower. */
void exp_values(size_t count, float *inout)
{
    for (size_t i = 0; i < count; i++) {
        float x = inout[i];
        x = x < -87.0f ? -87.0f : x;
        inout[i] = x > 88.0f ? 88.0f : x;
    }
    for (size_t i = 0; i < count; i++) inout[i] = exp_clamped(inout[i]);
}

static float lanes_sum(const float lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static float sum_row(size_t count, const float *values)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += values[i + l];
    for (; i < count; i++) lane[i % LANES] += values[i];
    return lanes_sum(lane);
}

static float dot_row(size_t count, const float *a, const float *b)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++) lane[i % LANES] += a[i] * b[i];
    return lanes_sum(lane);
}

static float max_row(size_t count, const float *values)
{
    float lane[LANES];
    for (size_t l = 0; l < LANES; l++) lane[l] = values[0];
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = values[i + l] > lane[l] ? values[i + l] : lane[l];
    for (; i < count; i++) lane[0] = values[i] > lane[0] ? values[i] : lane[0];
    for (size_t l = 1; l < LANES; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

void add_rows(size_t count, const float *in, float *inout)
{
    for (size_t i = 0; i < count; i++) inout[i] += in[i];
}

static void add_columns(size_t rows, size_t width, const float *in, float *inout)
{
    for (size_t row = 0; row < rows; row++) add_rows(width, in + row * width, inout);
}

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
                     const float *weight, float *ret_d_in, float *d_weight, float *d_bias)
{
    gemm((struct gemm_shape){shape.rows, shape.inputs, shape.outputs}, 1.0f,
         (struct gemm_operand){d_out, shape.outputs, 0},
         (struct gemm_operand){weight, shape.inputs, 0}, 0.0f, ret_d_in, shape.inputs);
    gemm((struct gemm_shape){shape.outputs, shape.inputs, shape.rows}, 1.0f,
         (struct gemm_operand){d_out, shape.outputs, 1}, (struct gemm_operand){in, shape.inputs, 0},
         1.0f, d_weight, shape.inputs);
    if (d_bias != NULL) add_columns(shape.rows, shape.outputs, d_out, d_bias);
}

void norm_forward(size_t rows, size_t width, const float *in, const float *weight,
                  const float *bias, float *ret_out, float *ret_means, float *ret_scales)
{
    const float epsilon = 1e-5f;
    for (size_t row = 0; row < rows; row++) {
        const float *x = in + row * width;
        float *y = ret_out + row * width;
        float mean = sum_row(width, x) / (float)width;
        for (size_t i = 0; i < width; i++) y[i] = x[i] - mean;
        float scale = 1.0f / sqrtf(dot_row(width, y, y) / (float)width + epsilon);
        for (size_t i = 0; i < width; i++) y[i] = y[i] * scale * weight[i] + bias[i];
        ret_means[row] = mean;
        ret_scales[row] = scale;
    }
}

void norm_backward(size_t rows, size_t width, const float *d_out, const float *in,
                   const float *weight, const float *means, const float *scales, float *d_in,
                   float *d_weight, float *d_bias)
{
    for (size_t row = 0; row < rows; row++) {
        const float *x = in + row * width, *dy = d_out + row * width;
        float *dx = d_in + row * width;
        float mean = means[row], scale = scales[row];
        float plain[LANES] = {0}, tilted[LANES] = {0}; /* sums of dy w and of dy w xhat */
        for (size_t i = 0; i < width; i++) {
            float xhat = (x[i] - mean) * scale;
            d_weight[i] += dy[i] * xhat;
            d_bias[i] += dy[i];
            plain[i % LANES] += dy[i] * weight[i];
            tilted[i % LANES] += dy[i] * weight[i] * xhat;
        }
        float plain_mean = lanes_sum(plain) / (float)width;
        float tilted_mean = lanes_sum(tilted) / (float)width;
        for (size_t i = 0; i < width; i++) {
            float xhat = (x[i] - mean) * scale;
            dx[i] += scale * (dy[i] * weight[i] - plain_mean - xhat * tilted_mean);
        }
    }
}

static const float gelu_twice = 1.5957691f; /* 2 sqrt(2 / pi) */
static const float gelu_cubic = 0.044715f;

/* exp(-2u) of up to GELU_BLOCK values. */
static void gelu_exponentials(size_t count, const float *in, float *ret_values)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i];
        ret_values[i] = -gelu_twice * (x + gelu_cubic * x * x * x);
    }
    exp_values(count, ret_values);
}

void gelu_forward(size_t count, const float *in, float *ret_out)
{
    for (size_t at = 0; at < count; at += GELU_BLOCK) {
        size_t block = count - at < GELU_BLOCK ? count - at : GELU_BLOCK;
        const float *x = in + at;
        float *out = ret_out + at;
        gelu_exponentials(block, x, out);
        for (size_t i = 0; i < block; i++) out[i] = x[i] / (1.0f + out[i]);
    }
}

void gelu_backward(size_t count, const float *in, float *d_inout)
{
    float gates[GELU_BLOCK];
    for (size_t at = 0; at < count; at += GELU_BLOCK) {
        size_t block = count - at < GELU_BLOCK ? count - at : GELU_BLOCK;
        const float *x = in + at;
        float *d = d_inout + at;
        gelu_exponentials(block, x, gates);
        for (size_t i = 0; i < block; i++) {
            float gate = 1.0f / (1.0f + gates[i]);
            float slope = gelu_twice * (1.0f + 3.0f * gelu_cubic * x[i] * x[i]);
            d[i] *= gate + x[i] * gate * (1.0f - gate) * slope;
        }
    }
}

static void softmax_row(size_t count, float *values)
{
    float top = max_row(count, values);
    for (size_t i = 0; i < count; i++) values[i] -= top;
    exp_values(count, values);
    float inverse = 1.0f / sum_row(count, values);
    for (size_t i = 0; i < count; i++) values[i] *= inverse;
}

void softmax_rows(size_t rows, size_t classes, float *values)
{
    for (size_t row = 0; row < rows; row++) softmax_row(classes, values + row * classes);
}

void head_forward(struct head_shape shape, const float *q, const float *k, const float *v,
                  float *ret_probabilities, float *ret_out)
{
    size_t length = shape.length;
    gemm((struct gemm_shape){length, length, shape.size}, 1.0f / sqrtf((float)shape.size),
         (struct gemm_operand){q, shape.qkv_stride, 0},
         (struct gemm_operand){k, shape.qkv_stride, 1}, 0.0f, ret_probabilities, length);
    for (size_t row = 0; row < length; row++) { /* a position sees itself and what came before */
        float *p = ret_probabilities + row * length;
        softmax_row(row + 1, p);
        memset(p + row + 1, 0, (length - row - 1) * sizeof *p);
    }
    gemm((struct gemm_shape){length, shape.size, length}, 1.0f,
         (struct gemm_operand){ret_probabilities, length, 0},
         (struct gemm_operand){v, shape.qkv_stride, 0}, 0.0f, ret_out, shape.out_stride);
}

/* dS = P * (dP - sum(P * dP)) by row, in place; what the mask hides has P = 0. */
static void head_softmax_backward(size_t length, const float *probabilities, float *d_inout)
{
    for (size_t row = 0; row < length; row++) {
        const float *p = probabilities + row * length;
        float *d = d_inout + row * length;
        float mean = dot_row(row + 1, p, d);
        for (size_t i = 0; i <= row; i++) d[i] = p[i] * (d[i] - mean);
        memset(d + row + 1, 0, (length - row - 1) * sizeof *d);
    }
}

void head_backward(struct head_shape shape, const float *q, const float *k, const float *v,
                   const float *probabilities, const float *d_out, float *scratch,
                   struct head_gradients ret_d)
{
    size_t length = shape.length, stride = shape.qkv_stride;
    float scale = 1.0f / sqrtf((float)shape.size);
    struct gemm_shape square = {length, length, shape.size}, thin = {length, shape.size, length};
    gemm(thin, 1.0f, (struct gemm_operand){probabilities, length, 1},
         (struct gemm_operand){d_out, shape.out_stride, 0}, 0.0f, ret_d.v, stride);
    gemm(square, 1.0f, (struct gemm_operand){d_out, shape.out_stride, 0},
         (struct gemm_operand){v, stride, 1}, 0.0f, scratch, length);
    head_softmax_backward(length, probabilities, scratch);
    gemm(thin, scale, (struct gemm_operand){scratch, length, 0},
         (struct gemm_operand){k, stride, 0}, 0.0f, ret_d.q, stride);
    gemm(thin, scale, (struct gemm_operand){scratch, length, 1},
         (struct gemm_operand){q, stride, 0}, 0.0f, ret_d.k, stride);
}

double cross_entropy(size_t rows, size_t classes, const float *probabilities,
                     const uint16_t *targets)
{
    double sum = 0;
    for (size_t row = 0; row < rows; row++) {
        float p = probabilities[row * classes + targets[row]];
        sum -= log(p > 1e-38f ? (double)p : 1e-38); /* an underflow costs 87, not infinity */
    }
    return sum;
}

void cross_entropy_backward(size_t rows, size_t classes, float scale, const uint16_t *targets,
                            float *values)
{
    for (size_t row = 0; row < rows; row++) {
        float *p = values + row * classes;
        for (size_t i = 0; i < classes; i++) p[i] *= scale;
        p[targets[row]] -= scale;
    }
}
